"""What units tell of each other in the same row, and what so many rows apart; clocks that are off move it.

The information that two series share splits over the lags: k rows apart it is what is told neither by the past of
the two nor closer by (Geweke 1982, Measurement of linear dependence and feedback between multiple time series),

    I(k) = 1/2 log(|S_uu| |S_pp| / |S|),

where S is the covariance of what the past of (u(t + k), p(t)) leaves of its present. A clock that is off by k rows
moves all of I by k, and what the units of a plant share they mostly share within a row.
"""

from typing import NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.stats import chi2

from .clocks import NEAR
from .tuning import TUNING

REACH = 20  # lags up to which the information of every unit is looked at
_SAME_ROW = 0.5  # the same of a plant that shares what it does within a row
_GAIN = 1.2  # the information of the whole plant in the same row rises by so much
_RIDGE = 1e-6  # of the variance of a white series


class Information(NamedTuple):
    """Information in nats a row, its standard error where there is none, and whether there clearly is some."""

    value: float
    noise: float
    clear: bool


class RowsApart:
    """Information that units share by lag, from their white innovations (n_samples, p) by name."""

    def __init__(self, innovations, reach=REACH):
        self.names, sizes = list(innovations), [e.shape[1] for e in innovations.values()]
        E = np.hstack(list(innovations.values()))
        self._n, self._reach = len(E), reach
        self._middle = 2 * reach + TUNING.rows_apart_past + TUNING.rows_apart_beside
        self._unit = np.repeat(np.arange(len(sizes)), sizes)
        self._covs = _covariances(E, self._middle)
        self._covs[self._middle] += _RIDGE * np.eye(len(self._unit))  # where a unit copies another
        first = np.cumsum([0, *sizes[:-1]])
        squares = np.add.reduceat(np.add.reduceat(self._covs**2, first, axis=1), first, axis=2)
        self._excess = self._n * squares - np.outer(sizes, sizes)  # of chi-squared evidence
        self.shift = np.zeros(len(sizes), dtype=int)  # rows by which units are taken earlier

    def partners(self, units):
        """The units that are tied most to some, and the evidence of all others together by lag."""
        others = np.setdiff1d(np.arange(len(self.names)), units)
        at = self._middle + np.arange(-self._reach, self._reach + 1)[:, None, None]
        apart = self.shift[units][:, None] - self.shift[others]
        excess = self._excess[at + apart, np.asarray(units)[:, None], others].sum(axis=1)
        return others[np.argsort(-excess.max(axis=0), kind="stable")[: TUNING.rows_apart_partners]], excess.sum(axis=1)

    def at(self, units, partners, lag, known=()):
        """Information of units that are taken `lag` rows earlier and their partners in the same row.

        Of the units in `known` the past is known, too.
        """
        own, other, rest = (np.flatnonzero(np.isin(self._unit, which)) for which in (units, partners, known))
        columns, p, present = np.r_[own, other, rest], len(own), len(own) + len(other)
        shift = self.shift[self._unit[columns]] + lag * (np.arange(len(columns)) < p)
        past = int(np.clip(self._n // (TUNING.rows_apart_rows_each * len(columns)), 0, TUNING.rows_apart_past))
        at = np.arange(-past, past + 1)[:, None, None] + self._middle + shift[:, None] - shift
        S = _left_by_the_past(self._covs[at, columns[:, None], columns])[:present, :present]
        value = 0.5 * (np.linalg.slogdet(S[:p, :p])[1] + np.linalg.slogdet(S[p:, p:])[1] - np.linalg.slogdet(S)[1])
        degrees, scale = p * len(other), 0.5 / self._n
        least = chi2.isf(TUNING.rows_apart_level / (len(self.names) * (2 * self._reach + 1)), degrees)
        return Information(value - scale * degrees, scale * np.sqrt(2 * degrees), value > scale * least)

    def around(self, units, partners, lag, known=()):
        """Sum of the information near a lag."""
        lags = range(lag - TUNING.rows_apart_beside, lag + TUNING.rows_apart_beside + 1)
        return sum(max(self.at(units, partners, near, known).value, 0.0) for near in lags)


class _Peak(NamedTuple):
    """Where a unit shares most, beside what it shares in the same row."""

    lag: int
    most: Information
    here: Information
    partners: np.ndarray


def _peak(apart, unit):
    partners, excess = apart.partners([unit])
    reach = len(excess) // 2
    lags = {0, *(int(k) - reach for k in np.argsort(-excess)[: TUNING.rows_apart_peaks])}
    found = {lag: apart.at([unit], partners, lag) for lag in sorted(lags)}
    lag = max(found, key=lambda lag: found[lag].value)
    return _Peak(lag, found[lag], found[0], partners)


def settled(apart):
    """Units that clearly share what they do with others in the same row."""
    peaks = {unit: _peak(apart, unit) for unit in range(len(apart.names))}
    return {apart.names[unit] for unit, peak in peaks.items() if peak.here.clear and _is_peaked(apart, unit, peak, 0)}


def _is_peaked(apart, unit, peak, lag):
    value = peak.here.value if lag == 0 else peak.most.value
    return value > TUNING.rows_apart_peaked * apart.around([unit], peak.partners, lag)


def is_off(told, moved, units):
    """Whether units share far more with the others within a few rows once they are moved."""
    before, after = (_near(each, [each.names.index(name) for name in units]) for each in (told, moved))
    return after > TUNING.rows_apart_twice * before


def _near(apart, units):
    partners, _ = apart.partners(units)
    return apart.around(units, partners, 0)


def near_offsets(innovations, movable, reach, least=1):
    """Rows, `least` or more, and against whom, by which single clocks are late in a plant that shares within a row.

    The unit that gains most by it is put right first, until none gains enough.
    """
    apart = RowsApart(innovations, reach)
    found: dict[str, tuple[int, str]] = {}
    while len(found) < len(apart.names) - 1:
        peaks = [_peak(apart, unit) for unit in range(len(apart.names))]
        late = [unit for unit, name in enumerate(apart.names) if name in movable - set(found)]
        late.sort(key=lambda unit: peaks[unit].here.value - peaks[unit].most.value)
        unit = next((k for k in late if abs(peaks[k].lag) >= least and _is_late(apart, k, peaks)), None)
        if unit is None:
            break
        apart.shift[unit] += peaks[unit].lag
        found[apart.names[unit]] = peaks[unit].lag, apart.names[peaks[unit].partners[0]]
    return found


def _is_late(apart, unit, peaks):
    """Whether a unit shares far more at another lag than in the same row, in a plant for which that is unusual.

    Before a dead time there is nothing; what a unit tells others stands on the other side of what they tell it.
    """
    lag, most, here, partners = peak = peaks[unit]
    if not most.clear or not apart.at([unit], partners, lag - np.sign(lag)).clear:
        return False
    is_alone = abs(lag) >= NEAR and most.value > TUNING.rows_apart_ratio * (here.value + 2 * here.noise)
    is_alone = is_alone and _is_peaked(apart, unit, peak, lag)
    if not (is_alone or most.value > TUNING.rows_apart_more * here.value) or not _all_say(apart, unit, peak):
        return False
    before = sum(max(each.here.value, 0.0) for each in peaks)
    after, whole = _in_the_same_row(apart, unit, lag)
    is_usual = (abs(lag) > NEAR and after > _SAME_ROW * whole) or _others_share_rows(apart, unit)
    return is_usual and (is_alone or after > _GAIN * before)


def _all_say(apart, unit, peak):
    """Whether the partner that shares most with a unit says that it is late, and the others, too, beside that one."""
    sides = [peak.lag + k for k in (-1, 0, 1) if (peak.lag + k) * peak.lag > 0]
    weights = []
    for other in peak.partners:
        there = max((apart.at([unit], [other], lag) for lag in sides), key=lambda found: found.value)
        here = apart.at([unit], [other], 0)
        if there.clear or here.clear:
            weights.append(there.value if there.value > here.value else -here.value)
    most, *others = sorted(weights, key=abs, reverse=True) or [0.0]
    return most > 0 and sum(each for each in others if each > 0) > TUNING.rows_apart_agreed * sum(map(abs, others))


def _in_the_same_row(apart, unit, lag):
    """Information in the same row and around it, summed over the units, once one of them is moved."""
    apart.shift[unit] += lag
    after = whole = 0.0
    for each in range(len(apart.names)):
        partners, _ = apart.partners([each])
        after += max(apart.at([each], partners, 0).value, 0.0)
        whole += apart.around([each], partners, 0)
    apart.shift[unit] -= lag
    return after, whole


def _others_share_rows(apart, unit):
    """Whether what the other units share is mostly in the same row, beyond what they all know of the unit's past."""
    here = whole = 0.0
    for other in np.delete(np.arange(len(apart.names)), unit):
        partners = np.setdiff1d(apart.partners([other])[0], [unit])
        here += max(apart.at([other], partners, 0, [unit]).value, 0.0)
        whole += apart.around([other], partners, 0, [unit])
    return here > TUNING.rows_apart_others * whole


def _covariances(E, n_lags):
    """Mean of x(t) y(t - k) at lags -n_lags, ..., n_lags, shape (2 n_lags + 1, d, d), nothing before and after."""
    n, d = E.shape
    size, lags = next_fast_len(n + n_lags + 1), np.arange(-n_lags, n_lags + 1)
    spectra, found = rfft(E, size, axis=0), np.empty((len(lags), d, d))
    for k in range(d):
        found[:, :, k] = irfft(spectra * spectra[:, [k]].conj(), size, axis=0)[lags] / n
    return found


def _left_by_the_past(covs):
    """Covariance of innovations from covariances (2 p + 1, d, d) at lags -p, ..., p: the Yule-Walker equations."""
    past, d = len(covs) // 2, covs.shape[1]
    if not past:
        return covs[0]
    rows = np.arange(past)
    T = covs[rows - rows[:, None] + past].transpose(0, 2, 1, 3).reshape(past * d, past * d)
    with_past = covs[past + 1 :].transpose(1, 0, 2).reshape(d, past * d)
    return covs[past] - with_past @ np.linalg.solve(T, with_past.T)
