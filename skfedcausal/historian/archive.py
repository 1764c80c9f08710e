"""Archives that store a value when it has moved: between its events a tag still has its last value."""

import numpy as np
import pandas as pd

from ..containers.layout import listed
from .steps import EvenStep, usual_step
from .tuning import TUNING

_MOST_ROWS = 4  # times the rows that are there: what a grid may add


def table_of(series, hold, every=None):
    """Table of tags that have times of their own, and what was done in words.

    Parameters
    ----------
    series : dict of str to Series
        Values by time in order, NaN where they are bad.
    hold : str, Timedelta or None
        How long a good value holds after it was stored; "auto" for the longest usual silence of its tag.
    every : str or Timedelta, default=None
        Step of the rows; None for the usual one.

    Returns
    -------
    tuple of (DataFrame, tuple of str)
    """
    table = pd.DataFrame(series)
    if not len(table) or not isinstance(table.index, (pd.DatetimeIndex, pd.TimedeltaIndex)):
        return table, ()
    empty = 1 - sum(map(len, series.values())) / table.size
    if hold is None or empty < TUNING.archive_empty:
        said = f"archive: {empty:.0%} of the cells have no event; hold='auto' holds the values between (--hold auto)"
        return table, (said,) if empty >= TUNING.archive_empty else ()
    moments = _with_grid(table.index, every)
    limits = {tag: _longest(own.index) if hold == "auto" else pd.Timedelta(hold) for tag, own in series.items()}
    held = pd.DataFrame({tag: held_at(own, moments, limits[tag]) for tag, own in series.items()})
    kept = held.notna().any(axis=1).to_numpy() | moments.isin(table.index)
    longest = max(limits.values())
    said = f"archive: values hold until the next, up to {longest.total_seconds():g} s ({listed(list(series), 3)})"
    return held[kept], (said,)


def _with_grid(index, every):
    """Times of all events and of the grid between them."""
    step = usual_step(index) if every is None else EvenStep(pd.Timedelta(every))
    if not isinstance(step, EvenStep):
        return index
    n_rows = int(step.places(index[[0, -1]])[-1]) + 1
    return index if n_rows > _MOST_ROWS * len(index) else index.union(step.grid(index, np.array([n_rows - 1])))


def _longest(index):
    """Longest silence of a tag that is no outage."""
    silences = (index[1:] - index[:-1]).sort_values()
    if not len(silences):
        return pd.Timedelta(0)
    usual = silences[int(TUNING.archive_usual * (len(silences) - 1))]
    return silences[silences <= TUNING.archive_longer * usual].max()


def held_at(series, moments, limit):
    """Last value of a tag at some times, NaN where that was bad or is too long ago."""
    place = series.index.searchsorted(moments, side="right") - 1
    last = np.maximum(place, 0)
    usable = (place >= 0) & np.asarray(moments - series.index[last] <= limit)
    return pd.Series(np.where(usable, series.to_numpy()[last], np.nan), index=moments)
