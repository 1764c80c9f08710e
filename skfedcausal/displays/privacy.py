"""What a privacy budget buys."""

import numpy as np

from ._style import COLOURS, keep_axes, new_axes


class PrivacyCurveDisplay:
    """Links kept and forecast error against epsilon.

    Use :meth:`from_table`; the constructor only stores.

    Parameters
    ----------
    table : DataFrame
        Of ``estimator.privacy_curve(X, epsilons)``.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.displays import PrivacyCurveDisplay
    >>> curve = {"epsilon": [1, 4], "links_kept": [0.2, 1.0], "forecast_error": [1.0, 0.8]}
    >>> PrivacyCurveDisplay.from_table(pd.DataFrame(curve)).ax_.get_xlabel()
    'epsilon'
    """

    def __init__(self, table):
        self.table = table

    @classmethod
    def from_table(cls, table, *, ax=None, title=None):
        """Draw the table of a privacy curve.

        Parameters
        ----------
        table : DataFrame
        ax : matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        PrivacyCurveDisplay
        """
        return cls(table).plot(ax=ax, title=title)

    def plot(self, *, ax=None, title=None):
        """Draw both curves, and the smallest useful epsilon where there is one.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        title : str, default=None

        Returns
        -------
        PrivacyCurveDisplay
        """
        ax = new_axes(ax, "Drawing a privacy curve", (6.5, 3.8))
        t = self.table
        ax.plot(t["epsilon"], t["links_kept"], "o-", color=COLOURS[0], label="share of links kept")
        ax.plot(
            t["epsilon"],
            t["forecast_error"],
            "s--",
            color=COLOURS[1],
            label="forecast error / standard deviation",
        )
        smallest = t.attrs.get("smallest_useful_epsilon", np.nan)
        if np.isfinite(smallest):
            ax.axvline(smallest, color=COLOURS[2], linestyle=":", label=f"smallest useful: {smallest:.3g}")
        ax.set_xscale("log")
        ax.set_ylim(-0.05, max(1.1, 1.05 * float(np.nanmax(t["forecast_error"]))))
        ax.set_xlabel("epsilon")
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, frameon=False, fontsize="small")
        return keep_axes(self, ax, title)
