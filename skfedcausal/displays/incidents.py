"""Pictures of a detector's work: an incident over time, tags around it, and false alarms against those allowed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from .. import inspection
from ..arguments import Lengths, Record
from ._base import COLOURS, Display, panel_title, short, small_legend, with_measure
from .tuning import TUNING

if TYPE_CHECKING:
    from ..estimators.detector import FederatedRCADetector

_ROUND = [k * unit for unit, steps in ((1, (1, 2, 5, 10, 15, 30)), (60, (1, 2, 5, 10, 15, 30))) for k in steps]
_ROUND += [3600 * k for k in (1, 2, 3, 6, 12, 24, 48, 168)]  # seconds between ticks


class IncidentDisplay(Display):
    """Alarm level of every unit around an incident, root on top; arrows in the order units were reached.

    Use :meth:`from_detector`; the constructor only stores.

    Parameters
    ----------
    levels : ndarray of shape (n_samples, n_units)
        Relative to the alarm threshold.
    names : sequence of str
    incident : Series
        Row of ``incidents(X)``: `start`, `detected`, `end`, `root`, `path` and `ranking` are read.
    times : Index
        Times or positions of the rows of `levels`.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skfedcausal import FederatedRCADetector
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import IncidentDisplay
    >>> X, _ = make_granger_plant(n_units=3, n_samples=3000, random_state=0)
    >>> faulty = {name: Y[2600:].copy() for name, Y in X.items()}
    >>> faulty["unit2"][200:] += 2 * faulty["unit2"].std(axis=0)
    >>> detector = FederatedRCADetector().fit({name: Y[:2600] for name, Y in X.items()})
    >>> incident = detector.incidents(faulty).query("detected >= 200").iloc[0]
    >>> IncidentDisplay.from_detector(detector, faulty, incident).ax_.get_ylabel()
    'unit'
    """

    def __init__(self, levels, names, incident, times):
        self.levels = levels
        self.names = names
        self.incident = incident
        self.times = times

    @classmethod
    def from_detector(
        cls,
        detector: "FederatedRCADetector",
        X: Record,
        incident: pd.Series,
        *,
        lengths: Lengths = None,
        levels: np.ndarray | None = None,
        ax: Any = None,
        title: str | None = None,
    ) -> Self:
        """Draw an incident of a record.

        Parameters
        ----------
        detector : FederatedRCADetector
        X : list, dict, DataFrame or ndarray
            The record in which it was found.
        incident : Series
            Row of ``detector.incidents(X)``.
        lengths : sequence of int, default=None
        levels : ndarray of shape (n_samples, n_units), default=None
            ``detector.transform(X)``, for several pictures of one record; None computes it.
        ax : matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        IncidentDisplay
        """
        levels, times = detector.asked_.levels_and_times(X, lengths, levels)
        return cls(levels, detector.client_names_, incident, times).plot(ax=ax, title=title)

    def _size(self):
        return 8.5, 1.5 + 0.55 * len(self._lanes())

    def _draw(self, ax):
        start, detected, end = (self._row(self.incident[key]) for key in ("start", "detected", "end"))
        last = len(self.levels) - 1 if end is None else end
        width = max(last - start, 5)
        first = max(start - max(TUNING.incidents_before, width // 2), 0)
        x = np.arange(first, min(last + max(TUNING.incidents_after, width // 2), len(self.levels)))
        lanes, root = self._lanes(), self.incident["root"]
        place = {name: len(lanes) - 1 - k for k, name in enumerate(lanes)}
        top = np.log1p(max(float(np.nanmax(self.levels[x])), 1.5))
        for name, bottom in place.items():
            level = np.log1p(np.maximum(self.levels[x, self.names.index(name)], 0)) / top
            colour = COLOURS[1] if name == root else COLOURS[0]
            ax.fill_between(x, bottom, bottom + 0.8 * level, color=colour, alpha=0.8, linewidth=0)
            ax.hlines(bottom + 0.8 * np.log(2) / top, x[0], x[-1], color="0.3", linewidth=0.6, linestyle=":")
        ax.axvspan(start, last, color="0.9", zorder=0)
        ax.axvline(detected, color="0.2", linewidth=1)
        beside = {"xytext": (3, -2), "textcoords": "offset points", "fontsize": "small", "va": "top"}
        ax.annotate("alarm", (detected, len(lanes)), **beside)
        self._draw_arrows(ax, place, start)
        ranking = dict(self.incident["ranking"])
        chances = ((short(name), ranking.get(name, 0.0)) for name in lanes)
        labels = [f"{name}\n{p:.0%}" if p >= 0.005 else name for name, p in chances]
        ax.set_yticks([place[name] + 0.3 for name in lanes], labels)
        ax.set(ylim=(-0.1, len(lanes) + 0.15), xlim=(x[0], x[-1]), ylabel="unit")
        self._time_ticks(ax)

    def _row(self, value):
        """Row of a time or row number, None for an open end."""
        if value is None or value != value:
            return None
        return int(self.times.searchsorted(value)) if isinstance(value, pd.Timestamp) else int(value)

    def _lanes(self):
        """Units to draw: the root, those on the path in its order, then by probability."""
        reached = [name for name, _ in [*self.incident["path"], *self.incident["ranking"]]]
        lanes = dict.fromkeys([self.incident["root"], *reached])
        return [name for name in lanes if name in self.names][: TUNING.incidents_most_lanes]

    def _draw_arrows(self, ax, place, start):
        """One arrow per unit that was reached, from the root at its onset."""
        root = self.incident["root"]
        reached = [(name, start + delay) for name, delay in self.incident["path"] if name in place]
        if len(reached) < 2 or root not in place:
            return
        look = {"arrowstyle": "-|>", "color": "black", "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0}
        previous = root, dict(reached).get(root, start)
        for name, when in reached:
            if name != root:
                tail = previous[1], place[previous[0]] + 0.1
                ax.annotate("", xy=(when, place[name] + 0.45), xytext=tail, arrowprops=look)
                previous = name, when

    def _time_ticks(self, ax):
        """Times at the ticks where rows have them."""
        if not hasattr(self.times, "strftime"):
            ax.set_xlabel("row")
            return
        low, high = ax.get_xlim()
        first, last = self.times[int(np.ceil(low))], self.times[min(int(high), len(self.times) - 1)]
        step = pd.Timedelta(seconds=next((s for s in _ROUND if (last - first).total_seconds() <= 6 * s), _ROUND[-1]))
        begun = first.normalize()
        rows: list[int] = []
        marks: list[pd.Timestamp] = []
        for k in range((first - begun) // step, (last - begun) // step + 1):
            mark = begun + k * step
            row = int(self.times.searchsorted(mark))
            if first <= mark <= last and (not rows or row - rows[-1] > (high - low) / 8):  # a gap has no room for ticks
                rows.append(row)
                marks.append(mark)
        same_day, seconds = first.date() == last.date(), step < pd.Timedelta("1min")
        form = ("%H:%M:%S" if seconds else "%H:%M") if same_day else "%d %b %H:%M"
        ax.set_xticks(rows, [mark.strftime(form) for mark in marks])
        ax.set_xlabel(f"{first:%Y-%m-%d %Z}".strip() if same_day else "time")


class FalseAlarmDisplay(Display):
    """False alarms achieved on held-out nominal data, with 95 % intervals, against those asked for.

    Use :meth:`from_detectors`; the constructor only stores.

    Parameters
    ----------
    asked, achieved, low, high : array-like of shape (n_detectors,)
        Per time step.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skfedcausal import FederatedRCADetector
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import FalseAlarmDisplay
    >>> X, _ = make_granger_plant(2, n_samples=3000, random_state=0)
    >>> detectors = [FederatedRCADetector(false_alarm_rate=rate).fit(X) for rate in (1e-3, 1e-2)]
    >>> FalseAlarmDisplay.from_detectors(detectors).asked.tolist()
    [0.001, 0.01]
    """

    _inches = 4.8, 4.2

    def __init__(self, asked, achieved, low, high):
        self.asked = asked
        self.achieved = achieved
        self.low = low
        self.high = high

    @classmethod
    def from_detectors(cls, detectors: Any, *, ax: Any = None, title: str | None = None) -> Self:
        """Draw the rates of fitted detectors.

        Parameters
        ----------
        detectors : FederatedRCADetector or list of them
            Fitted with different budgets.
        ax : matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        FalseAlarmDisplay
        """
        detectors = detectors if isinstance(detectors, (list, tuple)) else [detectors]
        rates = pd.DataFrame([detector.false_alarms_ for detector in detectors])
        columns = (rates[key].to_numpy(dtype=float) for key in ("asked", "achieved", "low", "high"))
        return cls(*columns).plot(ax=ax, title=title)

    def _draw(self, ax):
        asked, achieved, low, high = map(np.asarray, (self.asked, self.achieved, self.low, self.high))
        positive = np.concatenate([asked, high[high > 0]])
        floor = 0.2 * np.concatenate([positive, achieved[achieved > 0], low[low > 0]]).min()
        ends = np.array([floor, 3 * positive.max()])
        ax.plot(ends, ends, color="0.5", linewidth=0.8, linestyle="--", label="as asked")
        place = np.maximum(achieved, floor)
        bars = np.maximum([place - np.maximum(low, floor), high - place], 0)
        ax.errorbar(asked, place, bars, fmt="o", color=COLOURS[0], capsize=3, label="achieved, 95 % interval")
        none = achieved == 0
        if none.any():
            ax.plot(asked[none], place[none], "v", color=COLOURS[1], label="no alarm at all")
        ax.set(xscale="log", yscale="log", ylim=(0.8 * floor, ends[1]))
        ax.set(xlabel="false alarms per step asked for", ylabel="achieved on held-out data")
        small_legend(ax, loc="upper left")


class TagDisplay(Display):
    """Measured tags around an incident with the bands in which their unit's other tags expect them.

    Use :meth:`from_detector`; the constructor only stores.

    Parameters
    ----------
    trend : DataFrame or list of DataFrame
        ``measured, expected, low, high`` by row or time, named after the tag, as of
        :func:`~skfedcausal.inspection.tag_trend`; of a list one panel each, below each other.
    incident : Series
        Row of ``incidents(X)``: `start` and `end` are read.
    measures : dict of str to str, default=None
        Units of measurement by tag.

    Attributes
    ----------
    ax_ : matplotlib Axes, or ndarray of them for a list
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skfedcausal import FederatedRCADetector
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import TagDisplay
    >>> X, _ = make_granger_plant(n_units=3, n_samples=3000, random_state=0)
    >>> faulty = {name: Y[2600:].copy() for name, Y in X.items()}
    >>> faulty["unit2"][200:, 1] += 5 * faulty["unit2"][:, 1].std()
    >>> detector = FederatedRCADetector().fit({name: Y[:2600] for name, Y in X.items()})
    >>> incident = detector.incidents(faulty).query("detected >= 200").iloc[0]
    >>> TagDisplay.from_detector(detector, faulty, incident).ax_.get_title(loc="left")
    'unit2__x1'
    """

    _inches = 8.5, 3.2
    _more = 2.0  # inches of every panel below the first

    def __init__(self, trend, incident, measures=None):
        self.trend = trend
        self.incident = incident
        self.measures = measures

    @classmethod
    def from_detector(
        cls,
        detector: "FederatedRCADetector",
        X: Record,
        incident: pd.Series,
        tag: str | Sequence[str] | None = None,
        *,
        lengths: Lengths = None,
        measures: Mapping[str, str] | None = None,
        ax: Any = None,
        title: str | None = None,
    ) -> Self:
        """Draw a tag of the unit in which an incident began, or some of them.

        Parameters
        ----------
        detector : FederatedRCADetector
        X : list, dict, DataFrame or ndarray
            The record in which it was found.
        incident : Series
            Row of ``detector.incidents(X)``.
        tag : str or list of str, default=None
            None for the one to blame first.
        lengths : sequence of int, default=None
        measures : dict of str to str, default=None
            Units of measurement by column, such as `measures` of a :class:`~skfedcausal.PlantTable`.
        ax : matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        TagDisplay
        """
        trend = inspection.tag_trend(detector, X, incident, tag, lengths=lengths)
        return cls(trend, incident, measures).plot(ax=ax, title=title)

    def _drawn(self, ax, title, **how):
        """The panel, or panels below each other, in the given axes or in those of a new figure."""
        if not isinstance(self.trend, list):
            return super()._drawn(ax, title, **how)
        n, (width, height) = len(self.trend), self._inches
        if ax is None:
            size = {"figsize": (width, height + (n - 1) * self._more), "layout": "constrained"}
            ax = self._pyplot().subplots(n, 1, sharex=True, squeeze=False, **size)[1][:, 0]
        for one, trend in zip(ax, self.trend, strict=True):
            TagDisplay(trend, self.incident, self.measures).plot(ax=one)
            one.label_outer()
        for one in ax[1:]:
            one.get_legend().remove()
        self.ax_, self.figure_ = np.asarray(ax), ax[0].figure
        if title is not None:
            self.figure_.suptitle(title)
        return self

    def _draw(self, ax):
        trend, x = self.trend, self._places(self.trend.index)
        ax.fill_between(x, trend["low"], trend["high"], color=COLOURS[0], alpha=0.25, linewidth=0, label="expected")
        ax.plot(x, trend["expected"], color=COLOURS[0], linewidth=0.8)
        ax.plot(x, trend["measured"], color=COLOURS[1], linewidth=1.2, label="measured")
        start, end = self.incident["start"], self.incident["end"]
        stop = trend.index[-1] if pd.isna(end) else min(end, trend.index[-1])
        ax.axvspan(*self._places(pd.Index([start, stop])), color="0.9", zorder=0)
        panel_title(ax, with_measure(trend.index.name, self.measures, 40))
        ax.set_xlim(x[0], x[-1])
        ax.set_xlabel("time" if isinstance(trend.index, pd.DatetimeIndex) else "row")
        small_legend(ax, loc="best")

    @staticmethod
    def _places(index):
        """Rows, or times as the plant's clock shows them."""
        if not isinstance(index, pd.DatetimeIndex):
            return np.asarray(index, dtype=float)
        return index.tz_localize(None).to_numpy()
