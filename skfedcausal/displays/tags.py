"""A tag around an incident, and what the other tags of its unit would have it be."""

import numpy as np
import pandas as pd

from ._base import COLOURS, Display, short, small_legend


class TagDisplay(Display):
    """A measured tag around an incident with the band in which its unit's other tags expect it.

    Use :meth:`from_detector`; the constructor only stores.

    Parameters
    ----------
    trend : DataFrame
        ``measured, expected, low, high`` by row or time, named after the tag, as of
        :meth:`~skfedcausal.FederatedRCADetector.tag_trend`.
    incident : Series
        Row of ``incidents(X)``: `start` and `end` are read.

    Attributes
    ----------
    ax_ : matplotlib Axes
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

    def __init__(self, trend, incident):
        self.trend = trend
        self.incident = incident

    @classmethod
    def from_detector(cls, detector, X, incident, tag=None, *, lengths=None, ax=None, title=None):
        """Draw a tag of the unit in which an incident began.

        Parameters
        ----------
        detector : FederatedRCADetector
        X : list, dict, DataFrame or ndarray
            The record in which it was found.
        incident : Series
            Row of ``detector.incidents(X)``.
        tag : str, default=None
            None for the one to blame first.
        lengths : sequence of int, default=None
        ax : matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        TagDisplay
        """
        return cls(detector.tag_trend(X, incident, tag, lengths=lengths), incident).plot(ax=ax, title=title)

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
