"""What the server of secure sums asks in its rounds, and how the answers open to sums of products."""

from dataclasses import replace

import numpy as np

from ...message.secure import CorrectionsRequest, ProductsRequest
from ...statespace.partition import Partition
from ...statespace.ring import Sums, fraction_bits, from_ring
from ..protocol import opened_products
from ..series import are_answered

_ROUNDING = 1e-9  # of sums in double precision; the numbers that they are of are whole


def sums_asked(series, lags):
    """What is to be summed: grades too where all units sent what they rest on and none would refuse.

    Masked series that do not belong together are refused.
    """
    lengths = {name: message.lengths for name, message in series.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"The units' records have different episodes: {lengths}.")
    for name, message in series.items():
        if message.sums.lags != lags:
            raise ValueError(f"Unit {name!r} sent its own sums at {message.sums.lags + 1} lags, expected {lags + 1}.")
    asked = Sums(lags, next(iter(lengths.values())), all(message.sums.graded for message in series.values()))
    sizes = [message.masked.shape[1] for message in series.values()]
    return replace(asked, graded=asked.graded and are_answered(asked, sizes))


def check_products(series, products, sums):
    """Refuse masked products of other units or lags than were asked about."""
    n_states = sum(message.masked.shape[1] for message in series.values())
    for name, told in products.items():
        own = series[name].masked.shape[1]
        expected = (sums.n_sums, n_states - own, own)
        if told.behind.shape != expected:
            raise ValueError(f"Unit {name!r} sent masked products of shape {told.behind.shape}, expected {expected}.")


def others_of(series, sums):
    """Request to every unit with the masked series of all others, as far as they are summed."""
    requests = {}
    for name in series:
        others = {other: message for other, message in series.items() if other != name}
        if not others:
            raise ValueError(f"Sums of products need two units; there is only {name!r}.")
        requests[name] = ProductsRequest(
            np.concatenate([message.masked[: sums.n_rows] for message in others.values()], axis=1),
            np.array([message.masked.shape[1] for message in others.values()]),
            np.stack([message.tag for message in others.values()]),
            tuple(others),
        )
    return requests


def corrections_request(series, sums, digests):
    """Request to the dealer about the units that are left; `digests` are those of what each was asked to multiply."""
    messages = series.values()
    return CorrectionsRequest(
        np.array([message.masked.shape[1] for message in messages]),
        np.stack([message.tag for message in messages]),
        sums.lengths,
        tuple(series),
        sums.lags,
        np.stack([digests[name] for name in series]),
        sums.graded or None,
    )


def opened_sums(series, products, corrections, asked):
    """Sums of products of the series of all units that are left, those of lags in the scale of the scores."""
    left = [name for name in series if name in products]
    messages = [series[name] for name in left]
    slices = Partition([message.masked.shape[1] for message in messages]).slices
    masked = np.concatenate([message.masked[: asked.n_rows] for message in messages], axis=1)
    expected = (asked.n_sums, masked.shape[1], masked.shape[1])
    if corrections.shape != expected:
        raise ValueError(f"The dealer's corrections have shape {corrections.shape}, expected {expected}.")
    found = {}
    for k, name in enumerate(left):
        told, others = products[name], [other for other in series if other != name]
        places = Partition([series[other].masked.shape[1] for other in others]).slices
        for other, place in zip(others, places, strict=True):
            if other in products:
                found[k, left.index(other)] = told.behind[:, place], told.ahead[:, :, place]
    total = opened_products(masked, slices, found, corrections, asked.products)
    _check_opened(total[0], left, slices)
    for message, own in zip(messages, slices, strict=True):
        total[:, own, own] = message.own[: asked.n_sums]
    sums = from_ring(total, fraction_bits(len(messages[0].masked)))
    of_lags, graded = sums[: asked.lags + 1], asked.in_stretches(sums) if asked.graded else None
    for part in (of_lags, *([] if graded is None else graded.reshape(-1, *graded.shape[2:]))):
        _check_sums(part / sum(asked.lengths), left, slices)
    scale = np.concatenate([message.scale for message in messages])
    return of_lags * np.outer(scale, scale), graded


def _check_opened(products, names, slices):
    """The products of two units in one row are opened twice under different masks, and have to be the same."""
    wrong = np.array([[(products[a, b] != products[b, a].T).any() for b in slices] for a in slices])
    np.fill_diagonal(wrong, False)
    if wrong.any():
        raise ValueError(
            f"The sums of {_most_often(wrong, names)} with others do not open: unit and dealer have different keys, or "
            "one of them changed what it sent. Give the dealer the keys that the units have."
        )


def _check_sums(means, names, slices):
    """Sums of products of real series obey Cauchy and Schwarz, and those in one row are a covariance."""
    squares = np.sqrt(np.diagonal(means[0]))
    beyond = (np.abs(means) > np.outer(squares, squares) * (1 + _ROUNDING)).any(axis=0)
    wrong = np.array([[beyond[a, b].any() or beyond[b, a].any() for b in slices] for a in slices])
    if wrong.any():
        raise ValueError(
            f"The sums of {_most_often(wrong, names)} with others are larger than products of their series can be: "
            "what it sent is not about one series. Leave it out, or let its site look."
        )
    if not _is_covariance(means[0]):
        rest = [np.delete(np.arange(len(squares)), np.arange(len(squares))[own]) for own in slices]
        who = [name for name, kept in zip(names, rest, strict=True) if _is_covariance(means[0][np.ix_(kept, kept)])]
        raise ValueError(
            f"The sums of all units are no covariance, but are without {who or 'several'} of them: what was sent is "
            "not about one series each. Leave that out, or let its site look."
        )


def _is_covariance(matrix):
    return np.linalg.eigvalsh(matrix)[0] > -_ROUNDING * len(matrix)


def _most_often(wrong, names):
    """Names of the units with most pairs that are wrong."""
    counts = wrong.sum(axis=0)
    return [name for name, count in zip(names, counts, strict=True) if count == counts.max()]
