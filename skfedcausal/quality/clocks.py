"""Which clocks of a plant are off, judged by what units tell of each other in the same row and rows apart."""

import warnings
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import chi2, gamma, rankdata

from ..arguments import warn
from ..client.kalman import KalmanClient
from ..message.clock import Clock
from .tuning import TUNING

# How far apart the clocks of two units are, judged by when their innovations coincide.
#
# Innovations of units that are coupled or hit by one disturbance are correlated at lags of a step or so;
# where clocks differ by k steps, at lags of about k. Where no single lag shows anything, a score test collects
# the influence on the states from all lags of its response, at the price of a blunter peak.

NEAR = 2  # lags that couplings and common disturbances explain


class UnitSeries(NamedTuple):
    """White innovations (n_samples, p) of a unit, and states (n_samples, q), None where slow or of means."""

    innovations: np.ndarray
    states: np.ndarray | None


def unit_series(Y, rows=1):
    """Innovations and states of a unit from means over so many rows, None where no model can be found."""
    if not Y.shape[1] or len(Y) < TUNING.clocks_fewest_rows * rows:
        return None
    # the last value for a missing one, the first before that; the check of clocks can afford it
    filled = np.ascontiguousarray(pd.DataFrame(Y).ffill().bfill().fillna(0.0))
    filled, present = _means(filled, rows), _means(~np.isnan(Y), rows) > 0
    moving = (np.diff(filled, axis=0) != 0).sum(axis=0) >= TUNING.clocks_fewest_moves
    if not moving.any() or present.any(axis=1).sum() < TUNING.clocks_fewest_rows:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a blunt model will do
        client = KalmanClient().fit(filled[:, moving])
        h = client.filter(filled[:, moving])
    e = np.zeros_like(h)
    e[1:] = h[1:] - h[:-1] @ client.transition_.T
    known = present.any(axis=1)
    known[0] = False
    e[known] = ndtri((rankdata(e[known], axis=0) - 0.5) / known.sum())  # single upsets count like others
    values, vectors = np.linalg.eigh(e.T @ e / len(e))
    kept = values > 1e-9 * values[-1]
    slowest = np.abs(np.linalg.eigvals(client.transition_)).max()
    states = h - h.mean(axis=0) if slowest < TUNING.clocks_slow and rows == 1 else None
    return UnitSeries(e @ (vectors[:, kept] / np.sqrt(values[kept])), states)


def _means(Y, rows):
    return Y if rows == 1 else Y[: len(Y) // rows * rows].reshape(-1, rows, Y.shape[1]).mean(axis=1)


def evidence_by_lag(e, f, n_lags):
    """Chi-squared (p q) of no correlation at lags -n_lags, ..., n_lags; at positive ones `e` follows."""
    squares = (_cross_covariances(e, f, n_lags) ** 2).sum(axis=(1, 2))
    return _as_usual(squares, len(e), e.shape[1] * f.shape[1])


def score_by_lag(effect, cause, n_lags):
    """Score test of no influence of one unit's states on another, by lag as in :func:`evidence_by_lag`.

    An influence on a slow state, which no single lag shows, adds up over its response.
    """
    e, own, other = effect.innovations[1:], effect.states[:-1], cause.states[:-1]
    moments, shared = _cross_covariances(e, other, n_lags), _cross_covariances(own, other, n_lags)
    own_cov, cov = own.T @ own / len(own), other.T @ other / len(other)
    explained = np.linalg.lstsq(own_cov, own.T @ e / len(e), rcond=None)[0]
    moments = moments - explained.T @ shared
    beside = shared.transpose(1, 0, 2)  # one solution for the matrices of all lags beside each other
    solved = np.linalg.lstsq(own_cov, beside.reshape(len(own_cov), -1), rcond=None)[0].reshape(beside.shape)
    left = cov - np.swapaxes(shared, 1, 2) @ solved.transpose(1, 0, 2)
    values, vectors = np.linalg.eigh(left)
    rotated = moments @ vectors
    enough = values > TUNING.clocks_left * np.trace(cov) / len(cov)
    squares = np.where(enough[:, None, :], rotated**2 / np.where(enough, values, 1.0)[:, None, :], 0.0)
    return _as_usual(squares.sum(axis=(1, 2)), len(e), e.shape[1] * other.shape[1])


def _cross_covariances(x, y, n_lags):
    """Mean of x(t) y(t - k)' at lags -n_lags, ..., n_lags."""
    n = len(x)
    size = next_fast_len(n + n_lags + 1)
    spectra = rfft(x, size, axis=0)[:, :, None] * rfft(y, size, axis=0)[:, None, :].conj()
    lags = np.arange(-n_lags, n_lags + 1)
    return irfft(spectra, size, axis=0)[lags] / (n - np.abs(lags))[:, None, None]


def _as_usual(squares, n, degrees):
    """Statistic of sums of squares by lag over `n` rows, scaled down where its median is above chi-squared's."""
    statistic = (n - np.abs(np.arange(len(squares)) - len(squares) // 2)) * squares
    return statistic / max(np.median(statistic) / _median(degrees), 1.0)


@lru_cache
def _median(degrees):
    return float(chi2.median(degrees))


class Tie(NamedTuple):
    """How far one unit's clock is ahead of another's: `offset` steps, give or take `slack`."""

    offset: int
    slack: int
    strength: float


def pair_tie(first, second, n_lags):
    """Tie of the first unit's clock to the second's, None where nothing clear ties them."""
    e, f = first.innovations, second.innovations
    degrees = e.shape[1] * f.shape[1]
    S = evidence_by_lag(e, f, n_lags)
    lags = np.arange(-n_lags, n_lags + 1)
    near = np.abs(lags) <= NEAR
    excess = np.maximum(S - degrees, 0.0)
    top = int(np.argmax(S))
    if (
        S[near].max() > chi2.isf(TUNING.clocks_level / near.sum(), degrees)
        and excess[near].max() >= TUNING.clocks_keeps * excess[top]
    ):
        return Tie(0, NEAR, float(excess[near].max()))
    if S[top] <= chi2.isf(TUNING.clocks_level / len(S), degrees):
        slow = first.states is None or second.states is None
        return None if slow else _tie_of_states(first, second, n_lags)
    if near[top] or abs(lags[top]) == n_lags:  # the peak may lie beyond
        return None
    spread = np.abs(lags[excess > 0.5 * excess[top]] - lags[top]).max()
    elsewhere = np.abs(lags - lags[top]) > max(spread, TUNING.clocks_width)
    if spread > TUNING.clocks_widest or excess[elsewhere].max(initial=0) > 0.5 * excess[top]:
        return None
    lag = int(lags[top])  # one that may well be zero is as uncertain as it is large
    slack = NEAR + 1 if _begins_away_from_zero(S, lags, top, excess, degrees) else abs(lag)
    return Tie(lag, slack, float(excess[top]))


def _tie_of_states(first, second, n_lags):
    """The same from the score tests of both directions, where no single lag shows anything."""
    lags = np.arange(-n_lags, n_lags + 1)
    near = np.abs(lags) <= NEAR
    scores = (
        (score_by_lag(first, second, n_lags), first.innovations.shape[1] * second.states.shape[1]),
        (score_by_lag(second, first, n_lags)[::-1], second.innovations.shape[1] * first.states.shape[1]),
    )
    S, degrees = min(scores, key=lambda score: chi2.logsf(score[0].max(), score[1]))
    excess = np.maximum(S - degrees, 0.0)
    top = int(np.argmax(S))
    if S[top] <= chi2.isf(TUNING.clocks_level / (2 * len(S)), degrees):
        return None
    wide = lags[excess > 0.5 * excess[top]]
    if excess[near].max() >= TUNING.clocks_keeps * excess[top]:
        return Tie(0, 2 * NEAR, TUNING.clocks_faint * float(excess[near].max()))
    if (
        np.ptp(wide) > TUNING.clocks_widest
        or abs(lags[top]) == n_lags
        or excess[near].max() > TUNING.clocks_remains * excess[top]
    ):
        return None
    return Tie(int(lags[top]), 2 * NEAR, TUNING.clocks_faint * float(excess[top]))


def _begins_away_from_zero(S, lags, top, excess, degrees):
    """Whether a response with its peak at position `top` cannot begin within two steps.

    Responses begin sharply and die out slowly: a sharp edge away from zero is an offset, on either side.
    """
    near = np.abs(lags) <= NEAR
    least = max(chi2.isf(TUNING.clocks_pointwise, degrees), degrees + TUNING.clocks_foot * excess[top])
    outward = int(np.sign(lags[top]))
    rise, fall = (_reach(S, top, step, least) for step in (-outward, outward))
    onset = abs(lags[top]) - rise
    little_near = excess[near].max() <= TUNING.clocks_remains * excess[top]
    nothing_near = S[near].max() <= chi2.isf(TUNING.clocks_level / near.sum(), degrees)
    if rise <= NEAR and nothing_near:
        return True
    if rise <= NEAR or onset > TUNING.clocks_gradual:
        return onset > NEAR and (little_near or nothing_near)
    return fall <= NEAR and little_near and abs(lags[top]) > 2 * NEAR


def _reach(S, top, step, least):
    """Lags from the peak over which the evidence stays above a level, in one direction."""
    side = S[top::step]
    below = np.flatnonzero(side <= least)
    return int(below[0]) - 1 if len(below) else len(side)


# What units tell of each other in the same row, and what so many rows apart; clocks that are off move it.
#
# The information that two series share splits over the lags: k rows apart it is what is told neither by the past of
# the two nor closer by (Geweke 1982, Measurement of linear dependence and feedback between multiple time series),
#
#     I(k) = 1/2 log(|S_uu| |S_pp| / |S|),
#
# where S is the covariance of what the past of (u(t + k), p(t)) leaves of its present. A clock that is off by k rows
# moves all of I by k, and what the units of a plant share they mostly share within a row.

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


# Which clocks of a plant are off, judged from the ties of all pairs of units.
#
# Where ties to single units are too weak to tell, the evidence summed over all other units shows a clock that
# is off: it moves all ties of its unit by the same number of steps.

_MOST_ROWS = 30_000  # of long records: clocks tell themselves apart within hours


class Offset(NamedTuple):
    """Steps by which a unit's clock is ahead of that of `against`; not `sure` where the other may be off."""

    rows: int
    against: str
    sure: bool = True


def most_rows(n_lags):
    """Number of the last rows by which clocks are told apart."""
    return max(_MOST_ROWS, 8 * n_lags)


def clock_offsets(values, n_lags):
    """Clock offset of every unit from its values (n_samples, d), None for units of which nothing tells it.

    Offsets of pairs of units are taken where the whole plant does not contradict them, those of single units by a few
    rows where they put right what is shared in the same row; then the same for means over several rows.
    """
    offsets = dict.fromkeys(values)
    values = {name: Y[-most_rows(n_lags) :] for name, Y in values.items()}
    series = {name: unit_series(Y) for name, Y in values.items()}
    open_units = _put_right(offsets, series, set(values), n_lags, 1)
    if open_units:
        late = {name: -offset.rows if offset else 0 for name, offset in offsets.items()}
        series = {name: unit_series(_later(Y, late[name]), TUNING.offsets_coarse) for name, Y in values.items()}
        _put_right(offsets, series, open_units, n_lags // TUNING.offsets_coarse, TUNING.offsets_coarse)
    return offsets


def _put_right(offsets, series, movable, n_lags, rows):
    """Complete offsets by what series of means over so many rows say; the units of which nothing is known yet."""
    series = {name: own for name, own in series.items() if own is not None}
    if len(series) < 2 or not n_lags:
        return movable
    n_lags = min(n_lags, min(len(own.innovations) for own in series.values()) // 4)
    far = pooled_offsets(series, unit_offsets(series, n_lags), n_lags)
    far = {name: offset for name, offset in far.items() if offset is not None and name in movable}
    white = {name: own.innovations for name, own in series.items()}
    white, found = _confirmed(white, {name: offset for name, offset in far.items() if offset.rows})
    if len(white) > 2:
        least = 1 if rows == 1 else NEAR  # means over rows are next to each other after a few of them
        late = near_offsets(white, movable - set(found), min(REACH, n_lags), least)
        found |= {name: Offset(*offset) for name, offset in late.items()}
    for name, offset in found.items():
        offsets[name] = Offset(offset.rows * rows, offset.against, offset.sure)
    known = settled(RowsApart(white)) if len(white) > 1 else set()
    for name in movable - set(found):
        if name in known or (name in far and not far[name].rows):
            offsets[name] = Offset(0, "")
    return movable - set(found) - known


def _confirmed(white, far):
    """Innovations moved by offsets that the plant does not contradict, and these offsets."""
    found: dict[str, Offset] = {}
    for group in _alike(far):
        if far[group[0]].against in found and not far[group[0]].sure:  # one of two was moved
            found |= {name: far[name] for name in group}
            continue
        moved = white | {name: _later(white[name], -far[name].rows) for name in group}
        if len(group) < len(white) and is_off(RowsApart(white), RowsApart(moved), group):
            white = moved
            found |= {name: far[name] for name in group}
    return white, found


def _alike(far):
    """Units in groups of about the same offset."""
    groups: list[list[str]] = []
    for name in sorted(far, key=lambda name: far[name].rows):
        if groups and far[name].rows - far[groups[-1][0]].rows <= 2 * NEAR and far[name].sure:
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups


# -- from pairs of units ---------------------------------------------------------------------------


def unit_offsets(series, n_lags):
    """Clock offset of every unit against the largest group that agrees; None for units that nothing ties."""
    names = [name for name, own in series.items() if own is not None]
    pairs = ((pair, pair_tie(series[pair[0]], series[pair[1]], n_lags)) for pair in combinations(names, 2))
    ties = {pair: tie for pair, tie in pairs if tie is not None}
    tree = _strongest_tree(names, ties)
    offsets = dict.fromkeys(series)
    for root in names:
        if offsets[root] is None and tree[root]:
            offsets |= _agreement(root, tree, ties)
    return offsets


def _strongest_tree(names, ties):
    """Neighbours of each unit with offset and slack, along the strongest ties without circles."""
    group = {name: name for name in names}
    tree: dict[str, list[tuple[str, int, int]]] = {name: [] for name in names}
    sharp_first = sorted(ties.items(), key=lambda item: (item[1].slack > 2 * NEAR, -item[1].strength))
    for (first, second), tie in sharp_first:
        if group[first] == group[second]:
            continue
        old, new = group[second], group[first]
        group = {name: new if own == old else own for name, own in group.items()}
        tree[first].append((second, -tie.offset, tie.slack))
        tree[second].append((first, tie.offset, tie.slack))
    return tree


def _agreement(root, tree, ties):
    """Offsets of all units tied to one, such that as many as possible are zero."""
    relative = {name: offset for name, (offset, _) in _seen_from(root, tree).items()}
    groups = [
        [other for other, (offset, slack) in _seen_from(name, tree).items() if abs(offset) <= slack]
        for name in relative
    ]
    right = max(groups, key=len)  # the first of equals
    level = int(np.median([relative[name] for name in right]))
    offsets = {}
    for name, value in relative.items():
        # a coupling adds a step to one side or the other: ties to several units average that out
        direct = {other: offset for other, offset in _clear_ties(name, ties) if other in right}
        against = next(iter(direct), right[0])
        shift = round(np.mean(list(direct.values()))) if direct else value - level
        offsets[name] = Offset(0 if name in right or abs(shift) <= NEAR else int(shift), against)
    if len(offsets) == 2 and len(right) == 1:  # nothing tells whose clock is off
        (one,) = right
        (other,) = set(offsets) - {one}
        offsets[other] = offsets[other]._replace(sure=False)
        offsets[one] = Offset(-offsets[other].rows, other, sure=False)
    return offsets


def _clear_ties(name, ties):
    """Units that a unit is clearly ahead of or behind, with its offset against them."""
    for (first, second), tie in ties.items():
        if name in (first, second) and abs(tie.offset) > tie.slack:
            yield (second, tie.offset) if name == first else (first, -tie.offset)


def _seen_from(root, tree):
    """Offset of every unit tied to one against it, and how much of that may be error."""
    seen, queue = {root: (0, 0.0)}, [root]
    for unit in queue:
        for other, offset, slack in tree[unit]:
            if other not in seen:
                seen[other] = seen[unit][0] + offset, float(np.hypot(seen[unit][1], slack))
                queue.append(other)
    return seen


# -- from all other units together ------------------------------------------------------------------


def pooled_offsets(series, known, n_lags):
    """Known offsets, completed where they are None by those against all units together."""
    offsets = dict(known)
    there = {name: own for name, own in series.items() if own is not None and own.states is not None}
    evidence = PairEvidence(there, n_lags)
    for name in there:
        evidence.move(name, -offsets[name].rows if offsets[name] else 0)
    while left := [name for name in there if offsets[name] is None]:
        found = ((name, _pooled_tie(evidence.of(name), n_lags, TUNING.offsets_level / len(series))) for name in left)
        ties = {name: tie for name, tie in found if tie is not None}
        if not ties:
            break
        name = max(ties, key=lambda name: ties[name].excess)
        tie = ties[name]
        back = ties.get(tie.against)
        mutual = tie.lag and back is not None and back.lag and back.excess >= TUNING.offsets_mutual * tie.excess
        offsets[name] = Offset(tie.lag, tie.against, sure=not mutual)
        if mutual:
            offsets[tie.against] = Offset(-tie.lag, name, sure=False)
        evidence.move(name, -tie.lag)
    return offsets


class PairEvidence:
    """Evidence of ties between pairs of units at every lag, kept until one of the two is moved."""

    def __init__(self, series, n_lags):
        self._series, self._n_lags = dict(series), n_lags
        self._known: dict[tuple[str, str], np.ndarray] = {}

    def move(self, name, rows):
        """Take a unit's series some rows later."""
        if rows:
            self._series[name] = UnitSeries(*(_later(x, rows) for x in self._series[name]))
            self._known = {pair: S for pair, S in self._known.items() if name not in pair}

    def of(self, name):
        """Evidence that ties a unit to each other, shape (2 n_lags + 1,); at positive lags `name` follows."""
        others, own = [other for other in self._series if other != name], self._series[name]
        for other in others:
            if (name, other) not in self._known:
                back = score_by_lag(self._series[other], own, self._n_lags)[::-1]
                self._known[name, other] = score_by_lag(own, self._series[other], self._n_lags) + back
                self._known[other, name] = self._known[name, other][::-1]
        return {other: self._known[name, other] for other in others}


def _later(x, rows):
    """A series some rows later, zero where there is nothing."""
    moved = np.roll(x, rows, axis=0)
    if rows:
        moved[slice(rows) if rows > 0 else slice(rows, None)] = 0.0
    return moved


class _PooledTie(NamedTuple):
    """At which lag a unit is tied to all others together, how clearly, and to which of them most."""

    lag: int
    excess: float
    against: str


def _pooled_tie(pairs, n_lags, level):
    """Tie of one unit to all others, whose clocks agree; None where nothing clear ties it at this level."""
    if not pairs:
        return None
    S = sum(pairs.values())
    lags = np.arange(-n_lags, n_lags + 1)
    shape, scale = _usual_gamma(S)
    least = gamma.isf(level / len(S), shape, scale=scale)
    near, excess = np.abs(lags) <= NEAR, S - shape * scale
    top = int(np.argmax(S))

    def tie(lag, position):
        return _PooledTie(lag, float(excess[position]), max(pairs, key=lambda other: pairs[other][position]))

    closest = int(np.argmax(np.where(near, S, 0.0)))
    clear_near = S[closest] > gamma.isf(level / near.sum(), shape, scale=scale)
    if clear_near and excess[closest] >= TUNING.offsets_keeps * excess[top]:
        return tie(0, closest)
    if S[top] <= least or abs(lags[top]) == n_lags:  # the peak may lie beyond
        return None
    elsewhere = S[np.abs(lags - lags[top]) > TUNING.offsets_width].max()
    return None if elsewhere > max(least, 0.5 * S[top]) else tie(int(lags[top]), top)


def _usual_gamma(S):
    """Shape and scale of the gamma distribution that has the quartiles of a sum of dependent terms."""
    low, middle, high = np.quantile(S, [0.25, 0.5, 0.75])
    shapes = np.geomspace(0.5, 500, 200)
    quartiles = gamma.ppf([[0.25], [0.5], [0.75]], shapes)
    spread = (quartiles[2] - quartiles[0]) / quartiles[1]  # falls with the shape
    shape = float(np.interp((low - high) / middle, -spread, shapes))
    return shape, middle / float(gamma.median(shape))


# -- times that units tell -------------------------------------------------------------------------


def warn_of_clocks(messages):
    """Warn where what the states say about the units' clocks contradicts the times that were told."""
    told = {name: Clock.of_message(message) for name, message in messages.items()}
    if len(messages) < 2 or any(clock is None for clock in told.values()):
        return
    scores = {name: _scores(message) for name, message in messages.items()}
    n_lags = min(TUNING.offsets_most_lags, min(len(message.z) for message in messages.values()) // 4)
    for name, offset in clock_offsets(scores, n_lags).items():
        if offset is not None and offset.rows:
            seconds = offset.rows * told[name].period
            warn(
                f"The clock of unit {name!r} seems to be about {seconds:+g} s off relative to that of "
                f"{offset.against!r}, by when their states move: it reports its times as {told[name].in_words()}. "
                "Unless there is a dead time of that length between the two, links of this unit are lost: correct its "
                "clock or its zone.",
            )


def _scores(message):
    """Least-squares estimates of a unit's states, NaN where a row does not determine them."""
    J, z = message.J, message.z
    if J.ndim == 2:
        return np.linalg.solve(J, z.T).T if np.linalg.cond(J) < TUNING.offsets_regular else np.full_like(z, np.nan)
    scores, regular = np.full_like(z, np.nan), np.linalg.cond(J) < TUNING.offsets_regular
    scores[regular] = np.linalg.solve(J[regular], z[regular][..., None])[..., 0]
    return scores
