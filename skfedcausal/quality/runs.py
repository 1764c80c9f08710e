"""Stretches in which a tag repeats its value, and what kind of tag it is."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

_FEW_RUNS = 20  # fewer repetitions than that say nothing about their usual length
_FEW_LEVELS = 10
_MODES = 5  # levels up to which a tag is taken for a mode or a coarse switch
_STILL, _ON_LINES = 0.3, 0.9  # shares of rows that stand still, and of moving rows on lines, of a programme


@dataclass(frozen=True, eq=False)
class Tag:
    """Values of a tag that are there, as stretches of equal ones.

    Attributes
    ----------
    rows : ndarray of int of shape (n_present,)
        Rows with a value.
    values : ndarray of shape (n_present,)
    breaks : ndarray of int
        Rows at which a stretch ends in any case.
    """

    rows: np.ndarray
    values: np.ndarray
    breaks: np.ndarray

    @classmethod
    def of(cls, series, breaks):
        """Tag of a series with NaN where there is no value."""
        rows = np.flatnonzero(~np.isnan(series))
        return cls(rows, series[rows], breaks)

    @cached_property
    def _bounds(self):
        change = np.ones(len(self.values), dtype=bool)
        change[1:] = np.diff(self.values) != 0
        segment = np.searchsorted(self.breaks, self.rows, side="right")
        change[1:] |= np.diff(segment) != 0
        return np.append(np.flatnonzero(change), len(self.values))

    @property
    def starts(self):
        """Positions among the present values at which stretches of equal values begin."""
        return self._bounds[:-1]

    @property
    def lengths(self):
        """Number of values in each stretch."""
        return np.diff(self._bounds)

    @cached_property
    def levels(self):
        """Distinct values, ascending, and how often each occurs."""
        return np.unique(self.values, return_counts=True)

    @cached_property
    def resolution(self):
        """Distance of the lattice that all values lie on, 0 where there is none."""
        levels = self.levels[0]
        if len(levels) < 2:
            return 0.0
        gaps = np.diff(levels)
        least = gaps.min()
        if least < 1e-9 * max(np.abs(levels).max(), gaps.max()):
            return 0.0
        places = (levels - levels[0]) / least
        on_lattice = np.abs(places - np.round(places)) < 1e-3 * np.maximum(1, 1e-4 * places)
        return float(least) if on_lattice.all() else 0.0

    @cached_property
    def spread(self):
        """Robust standard deviation, from quartiles, or the ordinary one where those agree."""
        low, high = np.percentile(self.values, [25, 75])
        return float((high - low) / 1.349) or float(self.values.std())

    @cached_property
    def rounding(self):
        """Below this a difference is an error of arithmetic: far less than a step."""
        step = np.abs(np.diff(self.values))
        usual = np.median(step[step > 0]) if (step > 0).any() else 0.0
        return float(max(1e-6 * usual, 64 * np.finfo(float).eps * np.abs(self.values).max()))

    @property
    def _is_programme(self):
        """Whether the tag stands still or moves along straight lines: a setpoint with ramps."""
        step = np.diff(self.values)
        moving = (step[1:] != 0) & (step[:-1] != 0)
        if len(step) < 10 or (step == 0).mean() < _STILL or not moving.any():
            return False
        return (np.abs(np.diff(step))[moving] <= self.rounding).mean() > _ON_LINES

    @cached_property
    def kind(self):
        """ "empty", "constant", "binary", "steps" (setpoints, modes) or "measured"."""
        if not len(self.values):
            return "empty"
        n_levels = len(self.levels[0])
        if n_levels <= 2:
            return ("constant", "binary")[n_levels - 1]
        n_runs, usual = len(self.lengths), np.median(self.lengths)
        if n_levels <= _MODES or self._is_programme:
            return "steps"
        if usual == 1 and n_runs >= 5:
            return "measured"
        few_levels = n_levels <= max(_FEW_LEVELS, n_runs / 10)
        return "steps" if n_runs < _FEW_RUNS or (usual >= 5 and few_levels) else "measured"


def empty_stretches(present, breaks):
    """First rows and lengths of stretches without a value.

    Parameters
    ----------
    present : ndarray of bool of shape (n_samples,)
    breaks : ndarray of int

    Returns
    -------
    starts, lengths : ndarray of int
    """
    segment = np.searchsorted(breaks, np.arange(len(present)), side="right")
    change = np.ones(len(present), dtype=bool)
    change[1:] = (np.diff(present.astype(int)) != 0) | (np.diff(segment) != 0)
    bounds = np.append(np.flatnonzero(change), len(present))
    empty = ~present[bounds[:-1]]
    return bounds[:-1][empty], np.diff(bounds)[empty]
