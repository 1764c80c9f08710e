"""Whether two units that look linked are rather moved by something nobody measures: spectra and evidence."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from ...statespace.episodes import episodes
from ...statespace.matrices import hermitian, positions_of, slices_of
from .tuning import TUNING

# What the cross-spectrum of two units says of what joins them: links or a driver.
#
# Scores of units are ``s[t] = h[t] + e[t]``. Faint terms change the cross-spectrum of two units only, and that
# linearly: noise N of the sensors of both is a constant, noise Q of the states of both ``Z_a^-1 Q Z_b^-H``, a driver of
# spectrum f ``Z_a^-1 D Z_b^-H f``, a link B from a to b at delay d ``S_a (B exp(-i w d))^H Z_b^-H``, with Z the filter
# of a unit's own memory and S the spectrum of its states. Whitened by the spectra of the two alone, these are
# regressions of averaged periodograms, compared by the Bayesian information criterion: no climb, a millisecond for a
# pair, and nothing that a unit's own spectrum has beside its model counts.

_DRIVER = "no shared driver"
CLEAR = 6.0  # difference of criteria that is strong evidence (Kass and Raftery, 1995)
_SPECTRAL_POLES = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98)  # of drivers, the first without a memory


def beside_links(found, record, whole, pair):
    """By how much a driver is better than links that were found, and whether that is clear either way.

    Links are clear only where the spectra of the units are right, and a driver only where it has a memory: one without
    is noise that states share, as links between rows have it that act within a row too. Nor is a driver clear that is
    no better than none at all: links of plants of many lags may be seen where their cross-spectrum shows nothing.
    """
    cross = cross_spectrum(found, record, whole, pair)
    ways = pair, pair[::-1]
    links = [name for name, way in zip(("there", "back"), ways, strict=True) if way in found.linked]
    terms = cross.terms([known_delay(found.delays.get(way)) or 1 for way in ways])
    drivers = {f"driver {pole}": cross.driver(pole, terms["states"]) for pole in _SPECTRAL_POLES}
    gains, left = cross.gains(terms | drivers, links, [*links, "states"], *([name] for name in drivers))
    by_links, white = max(gains[:2]), gains[2]
    driver = max(gains[3:])
    if driver - max(by_links, white, 0.0) >= CLEAR and left <= TUNING.cross_far:
        return driver - by_links, True
    excess = max(driver, white) - by_links
    return excess, excess <= -CLEAR and left <= TUNING.cross_left


def cross_spectrum(found, record, whole, pair):
    """:class:`CrossSpectrum` of two units, less what others do to them."""
    cols = [np.arange(found.slices[unit].start, found.slices[unit].stop) for unit in pair]
    maps = without_others(whole.frequency, found.lags, np.concatenate(cols))
    n_first = len(cols[0])
    power = maps[:, :n_first] @ whole.power @ hermitian(maps[:, n_first:])
    units = [(found.lags[:, own[:, None], own], found.noise[np.ix_(own, own)]) for own in cols]
    noise = [np.linalg.inv(record.parts[unit].mean_information) for unit in pair]
    return CrossSpectrum(whole._replace(power=power), units, noise)


class CrossSpectrum:
    """What linear terms explain of the cross-spectrum of two units, whitened by those of each unit alone.

    `seen` has averaged periodograms (k, p, q); `units` are two pairs of lag matrices (n_lags, p, p) and noise (p, p)
    of states, `noise` two (p, p) of scores.
    """

    def __init__(self, seen, units, noise):
        self._turn = np.exp(-1j * seen.frequency)
        self._root, self._n = np.sqrt(2 * seen.n_bins)[:, None, None], 2 * seen.n_bins.sum()
        self._filters, self._spectra, self._whiteners = [], [], []
        for (lags, own), of_scores in zip(units, noise, strict=True):
            turns = self._turn[:, None] ** np.arange(1, len(lags) + 1)
            inverse = np.linalg.inv(np.eye(len(own)) - np.tensordot(turns, lags, 1))
            spectrum = inverse @ own @ hermitian(inverse)
            self._filters.append(inverse)
            self._spectra.append(spectrum)
            self._whiteners.append(np.linalg.inv(np.linalg.cholesky(spectrum + of_scores)))
        first, second = self._whiteners
        self._target = _real((self._root * (first @ seen.power @ hermitian(second))).reshape(-1, 1))[:, 0]

    def terms(self, delays):
        """Regressors (., n) of all terms by name; `delays` of links from the first to the second unit and back."""
        (Z, Y), (S, U) = self._filters, self._spectra
        there, back = ((self._turn**delay)[:, None, None] for delay in delays)
        one = np.ones_like(there)
        return {
            "noise": self._term(one * np.eye(Z.shape[1]), one * np.eye(Y.shape[1])),
            "states": self._term(Z, hermitian(Y)),
            "there": self._term(S, np.conj(there) * hermitian(Y)),
            "back": self._term(back * Z, U),
        }

    def driver(self, pole, states):
        """Regressors of an autoregression that acts on both units: those of noise of both `states` by its spectrum."""
        power = (1 - pole**2) / np.square(np.abs(1 - pole * self._turn))
        return (states.reshape(2, len(power), -1) * power[:, None]).reshape(states.shape)

    def _term(self, left, right):
        """Regressors of ``left E right`` (k, ., .), one for each element of E."""
        left, right = self._whiteners[0] @ left, right @ hermitian(self._whiteners[1])
        whole = self._root[..., None, None] * np.einsum("kij,klm->kimjl", left, right)
        return _real(whole.reshape(-1, left.shape[2] * right.shape[1]))

    def gains(self, terms, *sets):
        """What sets of terms gain on none, twice the log-likelihood less the price of their coefficients.

        In units of what all terms leave, where that is more than chance does, as spectra of units may be wrong; with
        that, one where these are right.
        """
        every = np.hstack([*terms.values()])
        products, target = every.T @ every, every.T @ self._target
        place = dict(zip(terms, slices_of(term.shape[1] for term in terms.values()), strict=True))
        explained, size = _explained(products, target)
        left = np.square(self._target).sum() - explained
        rank = np.count_nonzero(size > len(size) * np.finfo(float).eps * size.max(initial=0.0))
        left /= max(len(self._target) - rank, 1)
        gains = []
        for names in sets:
            own = positions_of(names, place)
            gain, _ = _explained(products[own[:, None], own], target[own])
            gains.append(gain / max(1.0, left) - len(own) * np.log(self._n))
        return gains, left


def _explained(products, target):
    """What regressors of these products explain, and the size of the eigenvalues of these."""
    values, axes = np.linalg.eigh(products)
    size = np.abs(values)
    kept = size > TUNING.cross_same * size.max(initial=0.0)
    return float(np.square(target @ axes[:, kept]) @ (1 / values[kept])), size


def _real(values):
    return np.concatenate([values.real, values.imag])


def known_delay(delay):
    return None if delay is None or not np.isfinite(delay) else int(delay)


def without_others(frequency, lags, cols):
    """Maps (k, p, n) from the scores of a plant to those of some, less what the others do to them."""
    n = lags.shape[1]
    turn = np.exp(-1j * np.outer(frequency, np.arange(1, len(lags) + 1)))
    A = np.einsum("kl,lij->kij", turn, lags[:, cols])
    others = np.delete(np.arange(n), cols)
    maps = np.zeros((len(frequency), len(cols), n), dtype=complex)
    maps[:, np.arange(len(cols)), cols] = 1.0
    if len(others):
        maps[:, :, others] = -np.linalg.solve(np.eye(len(cols)) - A[:, :, cols], A[:, :, others])
    return maps


class Bands(NamedTuple):
    """Periodograms of all states averaged in bands of frequency."""

    frequency: np.ndarray  # (k,) radians per row
    n_bins: np.ndarray  # (k,) Fourier frequencies in each
    power: np.ndarray  # (k, n, n) complex


def bands(series, starts):
    """`Bands` of series (n_samples, n) in episodes."""
    n_samples, n = series.shape
    edges = _edges(max(stop - start for start, stop in episodes(starts, n_samples)))
    total, count, place = np.zeros((len(edges) - 1, n, n), dtype=complex), *np.zeros((2, len(edges) - 1))
    for start, stop in episodes(starts, n_samples):
        length = stop - start
        k = np.arange(1, (length + 1) // 2)
        if not len(k):
            continue
        X = np.fft.rfft(series[start:stop] - series[start:stop].mean(axis=0), axis=0)[k] / np.sqrt(length)
        frequency = 2 * np.pi * k / length
        for j, (first, last) in enumerate(pairwise(np.searchsorted(frequency, edges))):
            rows = X[first:last]
            total[j] += rows.T @ rows.conj()
            count[j] += last - first
            place[j] += frequency[first:last].sum()
    kept = count > 0
    return Bands(place[kept] / count[kept], count[kept], total[kept] / count[kept, None, None])


def _edges(length):
    """Ends of the bands of a record, the last above pi."""
    widths, last = [1.0] * TUNING.drivers_single, 1.0
    while sum(widths) < length / 2:
        last *= TUNING.drivers_growth
        widths.append(last)
    return 2 * np.pi * (0.5 + np.concatenate([[0.0], np.cumsum(widths)])) / length


def driver_rows(found, record, whole, pairs):
    """Rows of the report on linked pairs that a driver may move; `whole` are :class:`Bands` of all scores.

    Where the cross-spectrum prefers neither clearly, a link stands unless a driver is likelier, and a loop cannot be
    told from one.
    """
    rows = []
    for pair in sorted(pairs):
        names, is_suspected = tuple(found.names[unit] for unit in pair), pair in found.suspected
        excess, is_clear = beside_links(found, record, whole, pair)
        # what each unit has beside its model is no driver; loops that are sure both ways are one only where it is clear
        if is_suspected and not is_clear and (excess > 0 or {pair, pair[::-1]} <= found.linked):
            rows.append(("link rather than driver", *names, np.nan, np.nan, False, "more rows"))
        elif is_suspected or (is_clear and excess > 0):
            rows.append((_DRIVER, *names, excess, np.nan, excess <= 0, "measure it" if excess > 0 else ""))
    return rows + _of_more_units(found, rows)


def _of_more_units(found, rows):
    """Rows on links of units that each share a driver with what others share one with: it may be the same for both."""
    place = {name: k for k, name in enumerate(found.names)}
    driven = {(place[a], place[b]) for check, a, b, *_, passed, _ in rows if check == _DRIVER and not passed}
    group = groups_of(driven, len(place))
    return [
        ("apart from a shared driver", found.names[c], found.names[e], np.nan, np.nan, False, "measure it")
        for c, e in sorted(found.linked)
        if group[c] == group[e] and tuple(sorted((c, e))) not in driven
    ]


def groups_of(pairs, n_units):
    """Group of every unit, (n_units,), of those that pairs connect."""
    graph = np.zeros((n_units, n_units))
    graph[tuple(np.array(sorted(pairs), dtype=int).reshape(-1, 2).T)] = 1
    return connected_components(graph, directed=False)[1]
