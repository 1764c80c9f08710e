"""Asked and achieved rates of false alarms."""

import numpy as np

from ._style import COLOURS, keep_axes, new_axes


class FalseAlarmDisplay:
    """False alarms achieved on held-out nominal data against those asked for.

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

    def __init__(self, asked, achieved, low, high):
        self.asked = asked
        self.achieved = achieved
        self.low = low
        self.high = high

    @classmethod
    def from_detectors(cls, detectors, *, ax=None, title=None):
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
        rates = [detector.false_alarms_ for detector in detectors]
        columns = (
            np.array([rate[key] for rate in rates], dtype=float)
            for key in ("asked", "achieved", "low", "high")
        )
        return cls(*columns).plot(ax=ax, title=title)

    def plot(self, *, ax=None, title=None):
        """Draw one point with its 95 % interval per detector.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        title : str, default=None

        Returns
        -------
        FalseAlarmDisplay
        """
        ax = new_axes(ax, "Drawing false alarms", (4.8, 4.2))
        positive = np.concatenate([self.asked, self.high[self.high > 0]])
        floor = 0.2 * min(positive.min(), *self.achieved[self.achieved > 0], *self.low[self.low > 0])
        ends = np.array([floor, 3 * positive.max()])
        ax.plot(ends, ends, color="0.5", linewidth=0.8, linestyle="--", label="as asked")
        low, achieved = np.maximum(self.low, floor), np.maximum(self.achieved, floor)
        bars = np.maximum([achieved - low, self.high - achieved], 0)
        ax.errorbar(
            self.asked, achieved, bars, fmt="o", color=COLOURS[0], capsize=3, label="achieved, 95 % interval"
        )
        none = self.achieved == 0
        if none.any():
            ax.plot(self.asked[none], achieved[none], "v", color=COLOURS[1], label="no alarm at all")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(0.8 * floor, ends[1])
        ax.set_xlabel("false alarms per step asked for")
        ax.set_ylabel("achieved on held-out data")
        ax.legend(loc="upper left", frameon=False, fontsize="small")
        return keep_axes(self, ax, title)
