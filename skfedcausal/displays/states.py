"""Correlations of the states of a plant."""

import numpy as np

from ._style import keep_axes, new_axes, pyplot, tick_names


class StateCorrelationDisplay:
    """Correlation of all states with the states one step before, units marked off by lines.

    Use :meth:`from_estimator`; the constructor only stores.

    Parameters
    ----------
    correlation : ndarray of shape (n, n)
        Effect in rows, the state `lag` steps before in columns.
    state_slices : dict of str to slice
        States of each unit.
    lag : int

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import StateCorrelationDisplay
    >>> X, _ = make_granger_plant(2, random_state=0)
    >>> StateCorrelationDisplay.from_estimator(FederatedGrangerEstimator().fit(X), X).correlation.shape
    (4, 4)
    """

    def __init__(self, correlation, state_slices, lag):
        self.correlation = correlation
        self.state_slices = state_slices
        self.lag = lag

    @classmethod
    def from_estimator(cls, estimator, X, *, inputs=None, lengths=None, lag=1, ax=None, title=None):
        """Draw the correlations of the filtered states of a record.

        Parameters
        ----------
        estimator : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        X : list, dict, DataFrame or ndarray
        inputs, lengths
            As in `fit`. Borders between episodes are not looked at.
        lag : int, default=1
            Steps; 0 for the same time.
        ax : matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        StateCorrelationDisplay
        """
        h = np.asarray(estimator.transform(X, inputs=inputs, lengths=lengths))
        n = h.shape[1]
        correlation = np.corrcoef(h[lag:].T, h[: len(h) - lag].T)[:n, n:]
        return cls(correlation, estimator.state_slices_, lag).plot(ax=ax, title=title)

    def plot(self, *, ax=None, title=None):
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        title : str, default=None

        Returns
        -------
        StateCorrelationDisplay
        """
        names = list(self.state_slices)
        side = min(3 + 0.4 * len(names), 11)
        ax = new_axes(ax, "Drawing states", (side + 1, side))
        image = ax.imshow(self.correlation, cmap="RdBu_r", vmin=-1, vmax=1)
        for states in list(self.state_slices.values())[1:]:
            ax.axhline(states.start - 0.5, color="0.3", linewidth=0.6)
            ax.axvline(states.start - 0.5, color="0.3", linewidth=0.6)
        centres = [(s.start + s.stop - 1) / 2 for s in self.state_slices.values()]
        for axis in (ax.xaxis, ax.yaxis):
            tick_names(axis, names, centres)
        ax.tick_params(axis="x", rotation=45 if len(names) <= 12 else 90)
        pyplot("Drawing states").setp(ax.get_xticklabels(), ha="right" if len(names) <= 12 else "center")
        ax.set_xlabel("states" if self.lag == 0 else f"states {self.lag} step{'s' * (self.lag > 1)} before")
        ax.set_ylabel("states")
        ax.figure.colorbar(image, ax=ax, shrink=0.8, label="correlation")
        self.image_ = image
        return keep_axes(self, ax, title)
