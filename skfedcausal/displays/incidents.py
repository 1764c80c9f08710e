"""An incident over time: one lane per unit, arrows from unit to unit."""

import numpy as np
import pandas as pd

from ._style import COLOURS, keep_axes, new_axes, short

_MOST = 14
_BEFORE, _AFTER = 20, 40


class IncidentDisplay:
    """Alarm level of every unit around an incident, the order in which units were reached as arrows.

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
    def from_detector(cls, detector, X, incident, *, lengths=None, ax=None, title=None):
        """Draw an incident of a record.

        Parameters
        ----------
        detector : FederatedRCADetector
        X : list, dict, DataFrame or ndarray
            The record in which it was found.
        incident : Series
            Row of ``detector.incidents(X)``.
        lengths : sequence of int, default=None
        ax : matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        IncidentDisplay
        """
        levels = np.asarray(detector.transform(X, lengths=lengths))
        index = detector._read(X, lengths=lengths).index
        times = np.arange(len(levels)) if index is None else index
        return cls(levels, detector.client_names_, incident, times).plot(ax=ax, title=title)

    def plot(self, *, ax=None, title=None):
        """Draw the lanes, the root on top.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        title : str, default=None

        Returns
        -------
        IncidentDisplay
        """
        start, detected, end = (self._row(self.incident[key]) for key in ("start", "detected", "end"))
        last = len(self.levels) - 1 if end is None else end
        width = max(last - start, 5)
        rows = slice(
            max(start - max(_BEFORE, width // 2), 0), min(last + max(_AFTER, width // 2), len(self.levels))
        )
        lanes = self._lanes()
        ax = new_axes(ax, "Drawing an incident", (8.5, 1.5 + 0.55 * len(lanes)))
        x = np.arange(rows.start, rows.stop)
        top = max(float(np.nanmax(self.levels[rows])), 1.5)
        place = {name: len(lanes) - 1 - k for k, name in enumerate(lanes)}
        for name in lanes:
            level = np.log1p(np.maximum(self.levels[rows, self.names.index(name)], 0)) / np.log1p(top)
            root = name == self.incident["root"]
            colour = COLOURS[1] if root else COLOURS[0]
            ax.fill_between(x, place[name], place[name] + 0.8 * level, color=colour, alpha=0.8, linewidth=0)
            ax.hlines(
                place[name] + 0.8 * np.log(2) / np.log1p(top),
                x[0],
                x[-1],
                color="0.3",
                linewidth=0.6,
                linestyle=":",
            )
        ax.axvspan(start, last, color="0.9", zorder=0)
        ax.axvline(detected, color="0.2", linewidth=1)
        ax.annotate(
            "alarm",
            (detected, len(lanes)),
            xytext=(3, -2),
            textcoords="offset points",
            fontsize="small",
            va="top",
        )
        self._arrows(ax, place, start)
        labels = [
            f"{short(name)}\n{p:.0%}" if p >= 0.005 else short(name) for name, p in self._chances(lanes)
        ]
        ax.set_yticks([place[name] + 0.3 for name in lanes], labels)
        ax.set_ylim(-0.1, len(lanes) + 0.15)
        ax.set_xlim(x[0], x[-1])
        self._time_ticks(ax)
        ax.set_ylabel("unit")
        return keep_axes(self, ax, title)

    def _row(self, value):
        """Position of a time or position, None for an open end."""
        if value is None or value != value:
            return None
        return int(np.searchsorted(self.times, value)) if isinstance(value, pd.Timestamp) else int(value)

    def _lanes(self):
        """Units to draw: those on the path in its order, then by probability."""
        on_path = [name for name, _ in self.incident["path"]]
        ranked = [name for name, _ in self.incident["ranking"]]
        root = [self.incident["root"]] if self.incident["root"] in self.names else []
        lanes = list(dict.fromkeys([*root, *on_path, *ranked]))
        return [name for name in lanes if name in self.names][:_MOST]

    def _chances(self, lanes):
        chances = dict(self.incident["ranking"])
        return [(name, chances.get(name, 0.0)) for name in lanes]

    def _arrows(self, ax, place, start):
        """One arrow per unit that was reached, from the root at its onset."""
        reached = [(name, start + delay) for name, delay in self.incident["path"] if name in place]
        if len(reached) < 2 or self.incident["root"] not in place:
            return
        origin = dict(reached).get(self.incident["root"], start)
        previous = (self.incident["root"], origin)
        for name, when in reached:
            if name == self.incident["root"]:
                continue
            ax.annotate(
                "",
                xy=(when, place[name] + 0.45),
                xytext=(previous[1], place[previous[0]] + 0.1),
                arrowprops={
                    "arrowstyle": "-|>",
                    "color": "black",
                    "linewidth": 1.1,
                    "shrinkA": 0,
                    "shrinkB": 0,
                },
            )
            previous = (name, when)

    def _time_ticks(self, ax):
        """Times at the ticks where rows have them."""
        if not hasattr(self.times, "strftime"):
            ax.set_xlabel("row")
            return
        low, high = ax.get_xlim()
        ticks = np.unique(np.linspace(np.ceil(low), min(np.floor(high), len(self.times) - 1), 6).astype(int))
        same_day = self.times[ticks[0]].date() == self.times[ticks[-1]].date()
        form = "%H:%M:%S" if same_day else "%d %b %H:%M"
        ax.set_xticks(ticks, [self.times[t].strftime(form) for t in ticks])
        ax.set_xlabel(f"{self.times[ticks[0]]:%Y-%m-%d}" if same_day else "time")
