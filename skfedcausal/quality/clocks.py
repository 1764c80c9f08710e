"""Clock offsets between units, from when their surprises come together.

A unit's filter tells at every step what its own past did not: the innovation of its states. Innovations of
coupled units, or of units hit by the same disturbance, are correlated at lags of a step or so. Where the
clocks differ by k steps, they are correlated at lags about k instead, and not at the small ones.
"""

import warnings
from itertools import combinations

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.stats import chi2

from ..client.kalman import KalmanClient

_NEAR = 2  # lags that couplings and common disturbances explain
_LEVEL = 1e-4  # chance of any false offset between two units
_MOST_ROWS = 20_000
_REMAINS = 0.25  # share of the evidence at small lags up to which an offset is believed
_WIDTH = 10  # lags over which a response spreads


def state_innovations(Y):
    """White innovations of a unit's states, None where no model can be found.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, n_columns)

    Returns
    -------
    ndarray of shape (n_samples, n_states) or None
        Of unit covariance, zero in rows without any value.
    """
    filled, present = _without_gaps(Y)
    moving = filled.std(axis=0) > 0
    if not moving.any() or len(Y) < 50:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        client = KalmanClient().fit(filled[:, moving])
        h = client.filter(filled[:, moving])
    e = np.zeros_like(h)
    e[1:] = h[1:] - h[:-1] @ client.transition_.T
    e[~present.any(axis=1)] = 0.0
    limit = 6 * np.sqrt((e**2).mean(axis=0))
    e = np.clip(e, -limit, limit)  # restarts after gaps
    e -= e.mean(axis=0)
    values, vectors = np.linalg.eigh(e.T @ e / len(e))
    kept = values > 1e-9 * values[-1]
    return e @ (vectors[:, kept] / np.sqrt(values[kept]))


def _without_gaps(Y):
    """The last value for a missing one; the check of clocks can afford it."""
    present = ~np.isnan(Y)
    last = np.maximum.accumulate(np.where(present, np.arange(len(Y))[:, None], -1), axis=0)
    filled = np.take_along_axis(Y, np.maximum(last, 0), axis=0)
    first = np.array([column[~np.isnan(column)][0] if (~np.isnan(column)).any() else 0.0 for column in Y.T])
    return np.where(last < 0, first, filled), present


def evidence_by_lag(e, f, n_lags):
    """Test statistic of no correlation between two white series at every lag.

    Parameters
    ----------
    e : ndarray of shape (n_samples, p)
    f : ndarray of shape (n_samples, q)
    n_lags : int

    Returns
    -------
    ndarray of shape (2 n_lags + 1,)
        At lags -n_lags, ..., n_lags; chi-squared with p q degrees of freedom without correlation. Positive
        lag: `e` follows.
    """
    n = len(e)
    size = next_fast_len(n + n_lags + 1)
    spectra = rfft(e, size, axis=0)[:, :, None] * rfft(f, size, axis=0)[:, None, :].conj()
    cross = irfft(spectra, size, axis=0)
    lags = np.arange(-n_lags, n_lags + 1)
    products = (cross[lags] ** 2).sum(axis=(1, 2))
    statistic = products / (n - np.abs(lags))
    usual = np.median(statistic) / chi2.median(e.shape[1] * f.shape[1])
    return statistic / max(usual, 1.0)


def pair_offset(e, f, n_lags):
    """Offset of the first series' clock against the second's, in steps, and how strong the evidence is.

    Returns
    -------
    offset : int or None
        0 where small lags explain the correlation, None where there is none or none that is clear.
    strength : float
    """
    degrees = e.shape[1] * f.shape[1]
    S = evidence_by_lag(e, f, n_lags)
    lags = np.arange(-n_lags, n_lags + 1)
    needed = chi2.isf(_LEVEL / len(S), degrees)
    near = np.abs(lags) <= _NEAR
    excess = np.maximum(S - degrees, 0.0)
    if (
        S[near].max() > chi2.isf(_LEVEL / near.sum(), degrees)
        and excess[near].max() > _REMAINS * excess.max()
    ):
        return 0, float(excess[near].max())
    top = int(np.argmax(S))
    if S[top] <= needed or near[top]:
        return None, 0.0
    elsewhere = np.abs(lags - lags[top]) > _WIDTH
    clear = excess[elsewhere].max(initial=0.0) < 0.5 * excess[top]
    return (int(lags[top]), float(excess[top])) if clear else (None, 0.0)


def unit_offsets(series, n_lags):
    """Clock offset of every unit against the largest group of units that agree.

    Parameters
    ----------
    series : dict of str to ndarray
        Innovations by unit, None where there are none.
    n_lags : int

    Returns
    -------
    dict of str to tuple (int, str) or None
        Offset in steps and the unit it was found against; None where nothing ties a unit to the others.
    """
    names = list(series)
    ties = []
    for first, second in combinations(names, 2):
        if series[first] is None or series[second] is None:
            continue
        offset, strength = pair_offset(series[first], series[second], n_lags)
        if offset is not None:
            ties.append((strength, first, second, offset))
    ties.sort(key=lambda tie: -tie[0])
    tree = _strongest_tree(names, ties)
    offsets = {}
    for root in names:
        if root not in offsets and tree[root]:
            _agree(root, tree, offsets)
    return {name: offsets.get(name) for name in names}


def _strongest_tree(names, ties):
    """Neighbours of each unit with offsets, along the strongest ties without circles."""
    group = {name: name for name in names}
    tree = {name: [] for name in names}
    for _, first, second, offset in ties:
        if group[first] == group[second]:
            continue
        old, new = group[second], group[first]
        group = {name: new if own == old else own for name, own in group.items()}
        tree[first].append((second, -offset))
        tree[second].append((first, offset))
    return tree


def _agree(root, tree, offsets):
    """Offsets of the units tied to one, so that as many as possible are zero; in place."""
    relative, via, queue = {root: 0}, {root: None}, [root]
    for unit in queue:
        for other, offset in tree[unit]:
            if other not in relative:
                relative[other], via[other] = relative[unit] + offset, unit
                queue.append(other)
    values = list(relative.values())
    level = max(
        values, key=lambda value: (sum(abs(v - value) <= _NEAR for v in values), -values.index(value))
    )
    right = [name for name, value in relative.items() if abs(value - level) <= _NEAR]
    for name, value in relative.items():
        shift = value - level
        against = via[name] if via[name] in right else right[0]
        offsets[name] = (0, against) if abs(shift) <= _NEAR else (shift, against)
