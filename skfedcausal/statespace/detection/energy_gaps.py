"""Energy statistic of rows in which units are absent, or seen through more noise than nominally.

The regression that predicts a row from the last one is meant for rows as they are measured nominally. Where
the last row was seen worse, or not at all, what is not known of it goes on into the prediction: the rows are
the states of a Kalman filter whose noise is what a row has beyond its nominal noise, and an innovation is
judged by the covariance that this filter gives it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .energy import ConditionalEnergy

_SETTLED = 1e-10


@dataclass(frozen=True)
class RowBelief:
    """What is known of a row as it would have been measured nominally.

    Attributes
    ----------
    mean : ndarray of shape (n,)
    covariance : ndarray of shape (n, n) or None
        None where the row was measured in full, with its nominal noise.
    """

    mean: np.ndarray
    covariance: np.ndarray | None = None


@dataclass(frozen=True)
class RowPattern:
    """Which units a row shows, and how much noise it has beyond the nominal.

    Attributes
    ----------
    seen : ndarray of bool, shape (n_units,)
    extra : ndarray of shape (n, n)
        Covariance added to the nominal noise of the units seen.
    """

    seen: np.ndarray
    extra: np.ndarray

    @cached_property
    def is_nominal(self):
        """Whether nothing is missing from the row."""
        return bool(self.seen.all()) and not self.extra.any()


@dataclass(frozen=True)
class _Step:
    """What a row of a pattern does to a prediction of known covariance."""

    before: np.ndarray
    columns: np.ndarray
    gain: np.ndarray
    after: np.ndarray | None
    energy: ConditionalEnergy | None

    @classmethod
    def make(cls, before, pattern, energy):
        everything = np.arange(len(before))
        if pattern.is_nominal:
            gain = np.eye(len(before))
            return cls(before, everything, gain, None, energy.with_covariance(before))
        if not pattern.seen.any():
            return cls(before, everything[:0], np.zeros((len(before), 0)), before, None)
        judged, columns = energy.with_covariance(before + pattern.extra).without(~pattern.seen)
        gain = np.linalg.solve(judged.covariance, before[columns]).T
        after = before - gain @ before[columns]
        return cls(before, columns, gain, (after + after.T) / 2, judged)


def surprises_with_gaps(regression, energy, first, x, patterns, pattern_of, belief):
    """Surprises of every unit in consecutive rows of one episode.

    Parameters
    ----------
    regression : object with ``predict`` and ``slopes``
        Predicts a row from the last, both as measured nominally.
    energy : ConditionalEnergy
        Of nominal rows after nominal rows.
    first : RowBelief
        About the first row of an episode.
    x : ndarray of shape (n_samples, n)
        Rows as measured; what stands in for the states of absent units is not looked at.
    patterns : sequence of RowPattern
    pattern_of : ndarray of int, shape (n_samples,)
    belief : RowBelief or None
        About the row before; None at the beginning of an episode, where a row is not judged.

    Returns
    -------
    own, given_others : ndarray of shape (n_samples, n_units)
        Zero for units that are absent.
    belief : RowBelief
        About the last row.
    """
    own = np.zeros((len(x), len(energy.blocks)))
    given = np.zeros_like(own)
    steps = {}
    for t, k in enumerate(pattern_of):
        mean, covariance = _predicted(regression, energy, belief, first)
        step = steps.get(k)
        if step is None or np.abs(step.before - covariance).max() > _SETTLED * np.abs(covariance).max():
            step = steps[k] = _Step.make(covariance, patterns[k], energy)
        e = x[t, step.columns] - mean[step.columns]
        if belief is not None and step.energy is not None:
            seen = patterns[k].seen
            own[t, seen] = step.energy.own(e[None])[0]
            given[t, seen] = step.energy.given_others(e[None])[0]
        belief = RowBelief(x[t] if step.after is None else mean + step.gain @ e, step.after)
    return own, given, belief


def _predicted(regression, energy, belief, first):
    """Mean and covariance of a row before it is looked at."""
    if belief is None:
        return first.mean, first.covariance
    mean = regression.predict(belief.mean[None])[0]
    if belief.covariance is None:
        return mean, energy.covariance
    slopes = regression.slopes(belief.mean)
    return mean, slopes @ belief.covariance @ slopes.T + energy.covariance
