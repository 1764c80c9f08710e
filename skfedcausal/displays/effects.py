"""Counterfactual measurements with their bands."""

from pandas.api.types import is_datetime64_any_dtype

from ..optional import import_optional
from ._style import COLOURS, pyplot, short

_MOST = 12


class EffectDisplay:
    """What was measured and what would have been, with its band, one panel per sensor.

    Use :meth:`from_whatif` or :meth:`from_effect`; the constructor only stores.

    Parameters
    ----------
    table : DataFrame
        Columns ``time, column, counterfactual, low, high`` and perhaps ``factual``.
    columns : list of str
        Sensors to draw.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import EffectDisplay
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> effect, std = est.counterfactual("unit0", 0.0, 1.0, horizon=10, return_std=True)
    >>> len(EffectDisplay.from_effect(effect, std, columns=["unit1__x0", "unit1__x1"]).ax_)
    2
    """

    def __init__(self, table, columns):
        self.table = table
        self.columns = columns

    @classmethod
    def from_whatif(cls, table, *, columns=None, title=None):
        """Draw the answer of ``whatif``.

        Parameters
        ----------
        table : DataFrame
        columns : list of str, default=None
            None for the twelve sensors with the largest effect.
        title : str, default=None

        Returns
        -------
        EffectDisplay
        """
        return cls(table, _largest(table) if columns is None else list(columns)).plot(title=title)

    @classmethod
    def from_effect(cls, effect, std, *, columns=None, title=None):
        """Draw the answer of ``counterfactual(..., return_std=True)``, with 90 % bands.

        Parameters
        ----------
        effect, std : DataFrame
        columns : list of str, default=None
            None for the twelve sensors with the largest effect.
        title : str, default=None

        Returns
        -------
        EffectDisplay
        """
        long = effect.rename_axis("time").reset_index().melt("time", var_name="column", value_name="effect")
        half = 1.645 * std.rename_axis("time").reset_index().melt("time")["value"]
        table = long.assign(
            counterfactual=long["effect"], low=long["effect"] - half, high=long["effect"] + half
        )
        return cls(table, _largest(table) if columns is None else list(columns)).plot(title=title)

    def plot(self, *, title=None):
        """Draw the panels in a new figure.

        Parameters
        ----------
        title : str, default=None

        Returns
        -------
        EffectDisplay
        """
        plt = pyplot("Drawing counterfactuals")
        n = len(self.columns)
        across = 1 if n == 1 else 2 if n <= 4 else 3
        down = -(-n // across)
        figure, grid = plt.subplots(
            down,
            across,
            figsize=(3.6 * across + 0.6, 1.9 * down + 0.8),
            sharex=True,
            squeeze=False,
            layout="constrained",
        )
        axes = grid.ravel()
        for ax in axes[n:]:
            ax.set_axis_off()
        was, would = "as it was", "as it would have been"
        for ax, column in zip(axes, self.columns, strict=False):
            rows = self.table[self.table["column"] == column]
            ax.fill_between(
                rows["time"], rows["low"], rows["high"], color=COLOURS[1], alpha=0.25, linewidth=0
            )
            if "factual" in rows:
                ax.plot(rows["time"], rows["factual"], color=COLOURS[0], linewidth=1.2, label=was)
            else:
                ax.axhline(0, color="0.5", linewidth=0.8)
            ax.plot(rows["time"], rows["counterfactual"], color=COLOURS[1], linewidth=1, label=would)
            ax.set_title(short(column, 30), fontsize="medium")
        for ax in axes[max(n - across, 0) : n]:
            ax.tick_params(axis="x", labelbottom=True)
            ax.set_xlabel("steps" if "factual" not in self.table else "time")
            _few_ticks(ax.xaxis, self.table["time"])
        if "factual" in self.table:
            figure.legend(
                *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False
            )
        if title is not None:
            figure.suptitle(title)
        self.figure_, self.ax_ = figure, axes[:n]
        return self


def _few_ticks(axis, time):
    """Whole steps or short times, few enough to stand beside each other under a panel."""
    if not is_datetime64_any_dtype(time):
        axis.get_major_locator().set_params(integer=True, nbins=6)
        return
    dates = import_optional("matplotlib.dates", "plot", "Drawing counterfactuals")
    locator = dates.AutoDateLocator(maxticks=6, tz=getattr(time.dt, "tz", None))
    axis.set_major_locator(locator)
    axis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=getattr(time.dt, "tz", None)))


def _largest(table):
    """Sensors by their largest effect, in standard deviations of what was measured where that is there."""
    size = table["effect"].abs().groupby(table["column"], sort=False).max()
    if "factual" in table:
        spread = table["factual"].groupby(table["column"], sort=False).std()
        size = size / spread.where(spread > 0)
    return size.sort_values(ascending=False, kind="stable").index[:_MOST].tolist()
