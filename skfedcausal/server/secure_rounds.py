"""What the server of secure sums asks in its rounds, and how the answers open to sums of products."""

from itertools import accumulate

import numpy as np

from ..message.secure import CorrectionsRequest, ProductsRequest
from ..secure.protocol import opened_products
from ..secure.ring import fraction_bits, from_ring
from ..statespace.partition import Partition


def check_series(series, lags):
    """Refuse masked series that do not belong together."""
    lengths = {name: message.lengths for name, message in series.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"The units' records have different episodes: {lengths}.")
    for name, message in series.items():
        if len(message.own) != lags + 1:
            raise ValueError(f"Unit {name!r} sent its own sums at {len(message.own)} lags, expected {lags + 1}.")


def others_of(series):
    """Request to every unit with the masked series of all others."""
    requests = {}
    for name in series:
        others = {other: message for other, message in series.items() if other != name}
        if not others:
            raise ValueError(f"Sums of products need two units; there is only {name!r}.")
        requests[name] = ProductsRequest(
            np.concatenate([message.masked for message in others.values()], axis=1),
            np.array([message.masked.shape[1] for message in others.values()]),
            np.stack([message.tag for message in others.values()]),
            tuple(others),
        )
    return requests


def corrections_request(series, lags):
    """Request to the dealer about the units that are left."""
    messages = series.values()
    return CorrectionsRequest(
        np.array([message.masked.shape[1] for message in messages]),
        np.stack([message.tag for message in messages]),
        next(iter(messages)).lengths,
        tuple(series),
        lags,
    )


def opened_sums(series, products, corrections, lags):
    """Sums of products of the scores of all units that are left, in their own scale."""
    left = [name for name in series if name in products]
    messages = [series[name] for name in left]
    slices = Partition([message.masked.shape[1] for message in messages]).slices
    masked = np.concatenate([message.masked for message in messages], axis=1)
    expected = (lags + 1, masked.shape[1], masked.shape[1])
    if corrections.shape != expected:
        raise ValueError(f"The dealer's corrections have shape {corrections.shape}, expected {expected}.")
    found = {}
    for k, name in enumerate(left):
        told, others = products[name], [other for other in series if other != name]
        places = Partition([series[other].masked.shape[1] for other in others]).slices
        for other, place in zip(others, places, strict=True):
            if other in products:
                found[k, left.index(other)] = told.behind[:, place], told.ahead[:, :, place]
    starts = (0, *accumulate(messages[0].lengths[:-1]))
    total = opened_products(masked, slices, found, corrections, lags, starts)
    _check_opened(total[0], left, slices)
    for message, own in zip(messages, slices, strict=True):
        total[:, own, own] = message.own
    scale = np.concatenate([message.scale for message in messages])
    return from_ring(total, fraction_bits(len(masked))) * np.outer(scale, scale)


def _check_opened(products, names, slices):
    """The products of two units in one row are opened twice under different masks, and have to be the same."""
    wrong = np.array([[(products[a, b] != products[b, a].T).any() for b in slices] for a in slices])
    np.fill_diagonal(wrong, False)
    if wrong.any():
        most = max(wrong.sum(axis=0))
        who = [name for name, count in zip(names, wrong.sum(axis=0), strict=True) if count == most]
        raise ValueError(
            f"The sums of {who} with others do not open: unit and dealer have different keys, or one of them changed "
            "what it sent. Give the dealer the keys that the units have."
        )
