"""What the clock alone tells of a unit: a profile by time of day and kind of day, the year, and seasons nobody named.

Each is kept only where it pays on segments that it was not learned from: the innovations that the unit's own past
leaves are predicted better with it than without.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from ..statespace.lines import Line, pays, sharp_lines
from .tuning import TUNING

_DAY = pd.Timedelta(days=1)
_YEAR = pd.Timedelta(days=365.25)
_BIN = pd.Timedelta(minutes=15)  # of a profile, where rows come faster
_CLOSE = pd.Timedelta("30min")  # between rows: two of three windows over which a detector looks are at most a day


@dataclass(frozen=True, eq=False)
class DayProfile:
    """Level of each sensor by time of day, apart on weekends where there were enough of them."""

    origin: pd.Timestamp
    step: pd.Timedelta
    n_bins: int
    has_weekends: bool
    levels: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (n_groups, n_sensors)

    @property
    def name(self):
        """What it is in words."""
        return "profile by time of day" + (" and weekend" if self.has_weekends else "")

    def groups(self, rows):
        """Group of each row, by its number."""
        since = np.round(np.asarray(rows, dtype=float) * (self.step / pd.Timedelta(1, "ns")))
        times = self.origin + pd.to_timedelta(since.astype("int64"), unit="ns")
        share = (times - times.normalize()) / _DAY
        groups = np.minimum((np.asarray(share) * self.n_bins + 1e-6).astype(int), self.n_bins - 1)
        return groups + self.n_bins * (self.has_weekends * (np.asarray(times.day_of_week) >= 5))

    def learned(self, Y, rows):
        """The profile of a record, NaN where missing; a group without rows keeps the mean."""
        return replace(self, levels=_group_means(Y, self.groups(rows), self.n_bins * (1 + self.has_weekends)))

    def of(self, rows):
        """Level of each sensor in each row, (n_rows, n_sensors)."""
        return self.levels[self.groups(rows)]

    def predicted(self, innovations, rows, kept):
        """What it predicts of innovations (n_rows, n_sensors) in all rows, learned from those that are kept."""
        groups = self.groups(rows)
        return _group_means(innovations[kept], groups[kept], self.n_bins * (1 + self.has_weekends))[groups]


def learned_profile(Y, clock, rows, starts, active, *, lines=True):
    """Terms of a record that pay, in the order in which they are taken off; `active` are the columns that vary.

    Without `lines` only those that the calendar tells, a fault may repeat itself at any other period; and these only of
    rows that are close: means over some rows average a day out where they are not, and what is left of a tag that
    follows the clock and little else is so small that every error of the model is a surprise.
    """
    found = []
    rest = Y
    for term in _of_the_calendar(clock, rows, None if lines else _CLOSE):
        if pays(term, rest[:, active], rows, starts):
            found.append(term.learned(rest, rows))
            rest = rest - found[-1].of(rows)
    return (*found, *sharp_lines(rest, rows, starts, active)) if lines else tuple(found)


def _of_the_calendar(clock, rows, most=None):
    """What the times of the rows, `most` apart, may tell: nothing without times."""
    if not isinstance(clock.origin, pd.Timestamp) or clock.step <= pd.Timedelta(0):
        return
    if most is not None and clock.step > most:
        return
    length = (rows.max() - rows.min() + 1) * clock.step
    if clock.step < _DAY and length >= TUNING.profile_fewest_days * _DAY:
        n_bins = max(2, int(_DAY / max(clock.step, _BIN)))
        yield DayProfile(clock.origin, clock.step, n_bins, bool(length >= 7 * TUNING.profile_fewest_weeks * _DAY))
    if clock.step >= _DAY and length >= TUNING.profile_fewest_years * _YEAR:
        yield Line(_YEAR / clock.step)


def _group_means(Y, groups, n_groups):
    """Mean of each column by group less the mean of all rows, zero where a group has none, (n_groups, k)."""
    frame = pd.DataFrame(Y)
    means = frame.groupby(groups).mean().reindex(range(n_groups))
    return (means - frame.mean()).fillna(0.0).to_numpy()
