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
    aligned = {name: _moved(own, -offsets[name].rows if offsets[name] else 0) for name, own in there.items()}
    while left := [name for name in there if offsets[name] is None]:
        ties = {name: pooled_tie(name, aligned, n_lags, _LEVEL / len(series)) for name in left}
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
        aligned[name] = _moved(there[name], -tie.lag)
    return offsets


def pooled_tie(name, series, n_lags, level):
    """Tie of one unit to all others, whose clocks agree.

    Parameters
    ----------
    name : str
    series : dict of str to UnitSeries
    n_lags : int
    level : float
        Chance of finding some lag where there is no tie.

    Returns
    -------
    PooledTie or None
        Of lag zero where clocks agree, None where nothing clear ties the unit to the others.
    """
    own = series[name]
    pairs = {
        other: score_by_lag(own, its, n_lags) + score_by_lag(its, own, n_lags)[::-1]
        for other, its in series.items()
        if other != name
    }
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
    if rows == 0:
        return series
    return UnitSeries(_later(series.innovations, rows), _later(series.states, rows))


def _later(x, rows):
    moved = np.zeros_like(x)
    if rows > 0:
        moved[rows:] = x[:-rows]
    else:
        moved[:rows] = x[-rows:]
    return moved
