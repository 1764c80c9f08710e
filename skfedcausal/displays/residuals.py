"""How well a unit's own filter, the augmented one, the server and the oracle predict a record."""

import numpy as np
import pandas as pd

from ._style import COLOURS, keep_axes, legend_beside, new_axes, short

_MODELS = ("client", "augmented", "server", "oracle")


class ResidualDisplay:
    """One-step-ahead prediction errors of every unit by client, augmented, server and oracle model.

    Use :meth:`from_estimator`; the constructor only stores.

    Parameters
    ----------
    errors : DataFrame of shape (n_units, n_models)
        Root mean square errors over standard deviations of the measurements.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import ResidualDisplay
    >>> X, _ = make_granger_plant(2, random_state=0)
    >>> display = ResidualDisplay.from_estimator(FederatedGrangerEstimator().fit(X), X)
    >>> list(display.errors)
    ['client', 'augmented', 'server', 'oracle']
    """

    def __init__(self, errors):
        self.errors = errors

    @classmethod
    def from_estimator(cls, estimator, X, *, inputs=None, lengths=None, oracle=True, ax=None, title=None):
        """Draw the errors of a fitted estimator on a record.

        Parameters
        ----------
        estimator : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        X : list, dict, DataFrame or ndarray
            Only for data that may be pooled where `oracle` is True.
        inputs, lengths
            As in `fit`.
        oracle : bool, default=True
            Also fit the oracle to the record.
        ax : matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        ResidualDisplay
        """
        record = {"inputs": inputs, "lengths": lengths}
        models = {name: (estimator, name) for name in _MODELS[:3]}
        if oracle:
            models["oracle"] = (estimator.oracle(X, **record), "server")
        data = estimator._read(X, **record)
        table = {
            name: [
                _relative_error(Y, predicted)
                for Y, predicted in zip(data.outputs, fitted._predict_blocks(data, model), strict=True)
            ]
            for name, (fitted, model) in models.items()
        }
        return cls(pd.DataFrame(table, index=list(data.names))).plot(ax=ax, title=title)

    def plot(self, *, ax=None, title=None):
        """Draw one group of points per unit.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        title : str, default=None

        Returns
        -------
        ResidualDisplay
        """
        n = len(self.errors)
        ax = new_axes(ax, "Drawing residuals", (6.5, 1.4 + 0.34 * n))
        marks = ("o", "s", "D", "x")
        places = np.arange(n)
        for k, model in enumerate(self.errors):
            shift = 0.14 * (k - (self.errors.shape[1] - 1) / 2)
            look = {"color": COLOURS[k], "marker": marks[k % len(marks)], "linestyle": ""}
            ax.plot(self.errors[model], places + shift, **look, markersize=5, label=model)
        for place in places[::2]:
            ax.axhspan(place - 0.5, place + 0.5, color="0.95", zorder=0)
        ax.set_yticks(places, [short(name) for name in self.errors.index])
        ax.set_ylim(n - 0.5, -0.5)
        ax.set_xlabel("prediction error / standard deviation")
        legend_beside(ax, self.errors.shape[1])
        return keep_axes(self, ax, title)


def _relative_error(Y, predicted):
    """Root mean square error over the columns that move, each in its standard deviations."""
    spread = np.nanstd(Y, axis=0)
    moving = spread > 0
    return float(np.sqrt(np.nanmean(((Y - predicted)[:, moving] / spread[moving]) ** 2)))
