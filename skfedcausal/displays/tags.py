"""Tags around an incident, and what the other tags of their unit would have them be."""

import numpy as np
import pandas as pd

from ._base import COLOURS, Display, short, small_legend


class TagDisplay(Display):
    """Measured tags around an incident with the bands in which their unit's other tags expect them.

    Use :meth:`from_detector`; the constructor only stores.

    Parameters
    ----------
    trend : DataFrame or list of DataFrame
        ``measured, expected, low, high`` by row or time, named after the tag, as of
        :meth:`~skfedcausal.FederatedRCADetector.tag_trend`; of a list one panel each, below each other.
    incident : Series
        Row of ``incidents(X)``: `start` and `end` are read.

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
    >>> TagDisplay.from_detector(detector, faulty, incident).ax_.get_ylabel()
    'unit2__x1'
    """

    _inches = 8.5, 3.2
    _more = 2.0  # inches of every panel below the first

    def __init__(self, trend, incident):
        self.trend = trend
        self.incident = incident

    @classmethod
    def from_detector(cls, detector, X, incident, tag=None, *, lengths=None, ax=None, title=None):
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
        ax : matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        TagDisplay
        """
        trend = detector.tag_trend(X, incident, tag, lengths=lengths)
        return cls(trend, incident).plot(ax=ax, title=title)

    def _drawn(self, ax, title, **how):
        """The panel, or panels below each other, in the given axes or in those of a new figure."""
        if not isinstance(self.trend, list):
            return super()._drawn(ax, title, **how)
        n, (width, height) = len(self.trend), self._inches
        if ax is None:
            size = {"figsize": (width, height + (n - 1) * self._more), "layout": "constrained"}
            ax = self._pyplot().subplots(n, 1, sharex=True, squeeze=False, **size)[1][:, 0]
        for one, trend in zip(ax, self.trend, strict=True):
            TagDisplay(trend, self.incident).plot(ax=one)
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
        ax.set(ylabel=short(trend.index.name, 30), xlim=(x[0], x[-1]))
        ax.set_xlabel("time" if isinstance(trend.index, pd.DatetimeIndex) else "row")
        small_legend(ax, loc="best")

    @staticmethod
    def _places(index):
        """Rows, or times as the plant's clock shows them."""
        if not isinstance(index, pd.DatetimeIndex):
            return np.asarray(index, dtype=float)
        return index.tz_localize(None).to_numpy()
