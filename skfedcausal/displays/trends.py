"""Picture of measurements as they were recorded: one panel per tag, with what is usual."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd

from ..containers import read_plant
from ..containers.rows import position
from ..given import Record
from ..optional import import_optional
from ._base import COLOURS, few_ticks, panel_title, with_measure
from .tuning import TUNING

_COLUMNS = 500  # points across the picture: with more rows each shows the range of several
_USUAL = 1.0, 99.0  # percentiles of the rows before


class TrendDisplay:
    """Measurements as they were recorded, one panel per tag; a window and what was usual before it are shaded.

    Of many rows a panel shows the range and the median of each few, so that no peak is lost. Use
    :meth:`from_record`; the constructor only stores.

    Parameters
    ----------
    frame : DataFrame
        Measurements, one column per panel.
    window : tuple of int, default=None
        First row to be shaded and the one after the last.
    measures : dict of str to str, default=None
        Units of measurement by column.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes of shape (n_columns,)
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import TrendDisplay
    >>> X, _ = make_granger_plant(2, n_samples=300, random_state=0)
    >>> X["unit1"][200:, 3] += 9
    >>> display = TrendDisplay.from_record(X, window=(200, 300), units=["unit1"])
    >>> display.frame.columns[0]
    'unit1__x3'
    """

    def __init__(self, frame, window=None, measures=None):
        self.frame = frame
        self.window = window
        self.measures = measures

    @classmethod
    def from_record(
        cls,
        X: Record,
        *,
        window: tuple[Any, ...] | None = None,
        units: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        around: int | None = None,
        measures: Mapping[str, str] | None = None,
        title: str | None = None,
    ) -> Self:
        """Draw tags of a record.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        window : tuple, default=None
            First row of what is looked at and the row after its last, as positions or times; None for the end.
        units : sequence of str, default=None
            Units whose tags are drawn, two of each and of the first one to fill the picture. None for all.
        columns : list of str, default=None
            Tags. None for those that leave what was usual before the window the furthest, without a window for the
            first of each unit.
        around : int, default=None
            Rows before and after the window that are drawn. None for all.
        measures : dict of str to str, default=None
            Units of measurement by column, such as `measures` of a :class:`~skfedcausal.PlantTable`, those of X
            where none are given.
        title : str, default=None

        Returns
        -------
        TrendDisplay

        Raises
        ------
        ValueError
            If the record does not have such a column or unit, or the window lies outside it.
        """
        plant = read_plant(X, min_samples=1)
        index = pd.RangeIndex(plant.n_samples) if plant.index is None else pd.Index(plant.index)
        parts = {name: pd.DataFrame(Y, index=index, columns=list(tags)) for name, tags, Y in plant.units()}
        absent = [name for name in units or () if name not in parts]
        if absent:
            raise ValueError(f"Got units={absent}; the record has {', '.join(parts)}.")
        if window is not None:
            window = tuple(position(edge, plant.index, plant.n_samples) for edge in window)
            if not 0 <= window[0] < window[1] <= plant.n_samples:
                raise ValueError(f"window={window} is no window of a record of {plant.n_samples} rows.")
        frame = pd.concat([parts[name] for name in units or parts], axis=1)
        chosen = _chosen({name: parts[name] for name in units or parts}, window) if columns is None else list(columns)
        absent = [name for name in chosen if name not in frame]
        if absent:
            raise ValueError(f"Got columns={absent}; the record has {', '.join(map(str, frame.columns))}.")
        own = getattr(X, "measures", None) if measures is None else measures
        shown, cut = _cut(frame[chosen], window, around)
        return cls(shown, cut, own).plot(title=title)

    def plot(self, *, title: str | None = None) -> Self:
        """Draw the panels in a new figure.

        Parameters
        ----------
        title : str, default=None

        Returns
        -------
        TrendDisplay
        """
        plt = import_optional("matplotlib.pyplot", "plot", "A TrendDisplay")
        n = self.frame.shape[1]
        size = {"figsize": (8.5, 0.7 + 1.35 * n), "layout": "constrained"}
        self.figure_, axes = plt.subplots(n, 1, sharex=True, squeeze=False, **size)
        self.ax_ = axes[:, 0]
        time = self.frame.index.to_series()
        for ax, column in zip(self.ax_, self.frame, strict=True):
            self._draw(ax, time, self.frame[column].to_numpy(dtype=float))
            panel_title(ax, with_measure(column, self.measures, 40))
        few_ticks(self.ax_[-1:], time)
        if not isinstance(self.frame.index, pd.DatetimeIndex):
            self.ax_[-1].set_xlabel("row")
        if title is not None:
            self.figure_.suptitle(title)
        return self

    def _draw(self, ax, time, values):
        if self.window is not None:
            start, stop = self.window
            ax.axvspan(time.iloc[start], time.iloc[stop - 1], color="0.9", zorder=0)
            before = values[:start][np.isfinite(values[:start])]
            if len(before) > 1:
                ax.axhspan(*np.percentile(before, _USUAL), color=COLOURS[2], alpha=0.15, linewidth=0)
        every = -(-len(values) // _COLUMNS)
        if every == 1:
            ax.plot(time, values, color=COLOURS[0], linewidth=1)
        else:
            groups = pd.Series(values).groupby(np.arange(len(values)) // every)
            ax.fill_between(time.iloc[::every], groups.min(), groups.max(), color=COLOURS[0], alpha=0.3, linewidth=0)
            ax.plot(time.iloc[::every], groups.median(), color=COLOURS[0], linewidth=1)
        ax.margins(x=0)


def _chosen(parts, window):
    """Tags to draw: those that leave what was usual the furthest, or the first of each unit."""
    if window is None:
        first = [next((c for c in frame if frame[c].nunique() > 1), frame.columns[0]) for frame in parts.values()]
        return first[: TUNING.trends_most_tags]
    ranked = [_departures(frame, *window).index.tolist() for frame in parts.values()]
    chosen = [name for tags in ranked for name in tags[: TUNING.trends_per_unit]][: TUNING.trends_most_tags]
    more = [name for name in ranked[0] if name not in chosen]
    return chosen + more[: max(0, 3 - len(chosen))]


def _departures(frame, start, stop):
    """How far each tag lies from what was usual before a window, in its own scatter; the furthest first."""
    before, inside = frame.iloc[:start], frame.iloc[start:stop]
    if len(before.dropna(how="all")) < 2:
        before = frame
    spread = (before.quantile(0.99) - before.quantile(0.01)).replace(0.0, np.nan)
    far = (inside.mean() - before.median()).abs() / spread + inside.std() / spread
    return far.fillna(-1.0).sort_values(ascending=False, kind="stable")


def _cut(frame, window, around):
    """Rows around the window, and the window in them."""
    if window is None or around is None:
        return frame, window
    first, last = max(window[0] - around, 0), min(window[1] + around, len(frame))
    return frame.iloc[first:last], (window[0] - first, window[1] - first)
