"""Clock offsets of units whose ties to the others are each too weak to tell, from all of them together.

A clock that is off moves all ties of its unit by the same number of steps: the evidence summed over all other
units shows it where no pair of units does.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import gamma

from .clocks import NEAR, Offset, UnitSeries, score_by_lag

_LEVEL = 0.01  # chance of any false offset in a plant
_KEEPS = 0.7  # share of the largest evidence that small lags have where clocks agree
_WIDTH = 10  # lags over which a response may spread
_MUTUAL = 0.8  # share of a unit's evidence that comes from one other unit where it is tied to no third


@dataclass(frozen=True)
class PooledTie:
    """At which lag a unit is tied to all others together, how clearly, and to which of them most."""

    lag: int
    excess: float
    against: str


def pooled_offsets(series, known, n_lags):
    """Clock offsets of units against all others.

    Parameters
    ----------
    series : dict of str to UnitSeries or None
    known : dict of str to Offset or None
        None for the units to look at.
    n_lags : int

    Returns
    -------
    dict of str to Offset or None
        None where nothing ties a unit to all others together.
    """
    offsets = dict(known)
    there = {name: own for name, own in series.items() if own is not None and own.states is not None}
    evidence = PairEvidence(there, n_lags)
    for name in there:
        evidence.move(name, -offsets[name].rows if offsets[name] else 0)
    while left := [name for name in there if offsets[name] is None]:
        ties = {name: pooled_tie(evidence.of(name), n_lags, _LEVEL / len(series)) for name in left}
        ties = {name: tie for name, tie in ties.items() if tie is not None}
        if not ties:
            break
        name = max(ties, key=lambda name: ties[name].excess)
        tie = ties[name]
        offsets[name] = Offset(tie.lag, tie.against)
        back = ties.get(tie.against)
        if tie.lag and back is not None and back.lag and back.excess >= _MUTUAL * tie.excess:
            offsets[name] = Offset(tie.lag, tie.against, sure=False)
            offsets[tie.against] = Offset(-tie.lag, name, sure=False)
        evidence.move(name, -tie.lag)
    return offsets


class PairEvidence:
    """Evidence of ties between pairs of units at every lag, kept until one of the two is moved.

    Parameters
    ----------
    series : dict of str to UnitSeries
    n_lags : int
    """

    def __init__(self, series, n_lags):
        self._series, self._n_lags, self._known = dict(series), n_lags, {}

    def move(self, name, rows):
        """Take a unit's series some rows later."""
        if rows:
            self._series[name] = _moved(self._series[name], rows)
            self._known = {pair: S for pair, S in self._known.items() if name not in pair}

    def of(self, name):
        """Evidence of one unit's ties to each other one, both directions of influence together.

        Returns
        -------
        dict of str to ndarray of shape (2 n_lags + 1,)
            Positive lag: the unit follows.
        """
        return {other: self._of_pair(name, other) for other in self._series if other != name}

    def _of_pair(self, first, second):
        if (second, first) in self._known:
            return self._known[second, first][::-1]
        if (first, second) not in self._known:
            one, other = self._series[first], self._series[second]
            back = score_by_lag(other, one, self._n_lags)[::-1]
            self._known[first, second] = score_by_lag(one, other, self._n_lags) + back
        return self._known[first, second]


def pooled_tie(pairs, n_lags, level):
    """Tie of one unit to all others, whose clocks agree.

    Parameters
    ----------
    pairs : dict of str to ndarray of shape (2 n_lags + 1,)
        The unit's evidence against each other one, see :class:`PairEvidence`.
    n_lags : int
    level : float
        Chance of finding some lag where there is no tie.

    Returns
    -------
    PooledTie or None
        Of lag zero where clocks agree, None where nothing clear ties the unit to the others.
    """
    if not pairs:
        return None
    S = sum(pairs.values())
    lags = np.arange(-n_lags, n_lags + 1)
    shape, scale = _usual_gamma(S)
    least = gamma.isf(level / len(S), shape, scale=scale)
    near, excess = np.abs(lags) <= NEAR, S - shape * scale
    top = int(np.argmax(S))

    def tie(lag, position):
        return PooledTie(lag, float(excess[position]), max(pairs, key=lambda other: pairs[other][position]))

    closest = int(np.argmax(np.where(near, S, 0.0)))
    clear_near = S[closest] > gamma.isf(level / near.sum(), shape, scale=scale)
    if clear_near and excess[closest] >= _KEEPS * excess[top]:
        return tie(0, closest)
    if S[top] <= least or abs(lags[top]) == n_lags:  # the peak may lie beyond
        return None
    elsewhere = S[np.abs(lags - lags[top]) > _WIDTH].max()
    if elsewhere > max(least, 0.5 * S[top]):
        return None
    return tie(int(lags[top]), top)


def _usual_gamma(S):
    """Shape and scale of the gamma distribution that has the quartiles of a statistic.

    Terms of different pairs are not independent, so that their sum is not chi-squared.
    """
    low, middle, high = np.quantile(S, [0.25, 0.5, 0.75])
    shapes = np.geomspace(0.5, 500, 200)
    quartiles = gamma.ppf([[0.25], [0.5], [0.75]], shapes)
    spread = (quartiles[2] - quartiles[0]) / quartiles[1]  # falls with the shape
    shape = float(np.interp((low - high) / middle, -spread, shapes))
    return shape, middle / float(gamma.median(shape))


def _moved(series, rows):
    """A unit's series some rows later, zero where there is nothing."""
    return UnitSeries(_later(series.innovations, rows), _later(series.states, rows))


def _later(x, rows):
    moved = np.zeros_like(x)
    if rows > 0:
        moved[rows:] = x[:-rows]
    else:
        moved[:rows] = x[-rows:]
    return moved
