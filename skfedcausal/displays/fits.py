"""Pictures of a record and of a fit: trends, losses, errors, states, and what privacy costs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from .. import inspection
from ..arguments import Lengths, Record
from ..containers import read_plant
from ..containers.rows import position
from ..optional import import_optional
from ._base import (
    COLOURS,
    Display,
    few_ticks,
    legend_below,
    legend_beside,
    line_look,
    panel_title,
    short,
    tick_names,
    with_measure,
)
from .tuning import TUNING

if TYPE_CHECKING:
    from ..estimators._plant import PlantEstimator
    from ..estimators.granger import FederatedGrangerEstimator


# Pictures of a fit: its losses, its prediction errors, its states, and what privacy costs it.

_MODELS = ("client", "augmented", "server")
_MARKS = ("o", "s", "D", "x")


class LossDisplay(Display):
    """Client and server losses of every unit over the rounds of gradient training.

    Logarithmic where all are positive. Use :meth:`from_estimator`; the constructor only stores.

    Parameters
    ----------
    losses : DataFrame of shape (n_rounds, n_losses * n_units)
        Columns (loss, unit), as ``loss_history_`` of a GradientServer.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator, GradientServer
    >>> from skfedcausal.papers import StopRule
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import LossDisplay
    >>> X, _ = make_granger_plant(2, random_state=0)
    >>> est = FederatedGrangerEstimator(server=GradientServer(stop=StopRule(max_iter=50, tol=0.1))).fit(X)
    >>> LossDisplay.from_estimator(est).ax_.get_xlabel()
    'round'
    """

    _inches = 7.5, 4.0

    def __init__(self, losses):
        self.losses = losses

    @classmethod
    def from_estimator(
        cls, estimator: "FederatedGrangerEstimator", *, ax: Any = None, title: str | None = None, relative: bool = False
    ) -> Self:
        """Draw the losses of an estimator with a GradientServer.

        Parameters
        ----------
        estimator : FederatedGrangerEstimator
        ax : matplotlib Axes, default=None
        title : str, default=None
        relative : bool, default=False
            Draw each loss as a share of that of the first round: shows small changes of unequal losses.
            Losses that begin at zero are left out.

        Returns
        -------
        LossDisplay

        Raises
        ------
        ValueError
            If its server has no loss history.
        """
        losses = getattr(estimator.server_, "loss_history_", None)
        if losses is None:
            raise ValueError(f"A {type(estimator.server_).__name__} has no losses; fit with server=GradientServer().")
        return cls(losses)._drawn(ax, title, relative=relative)

    def _draw(self, ax, relative=False):
        table = self.losses
        if relative:
            table = table.loc[:, table.iloc[0] != 0]
            table = table / table.iloc[0]
        kinds, units = (list(dict.fromkeys(table.columns.get_level_values(k))) for k in (0, 1))
        rounds = np.arange(1, len(self.losses) + 1)
        for k, kind in enumerate(kinds):
            if len(units) > TUNING.fits_most_units:  # median and range
                losses, colour = table[kind], COLOURS[k % len(COLOURS)]
                ax.fill_between(rounds, losses.min(axis=1), losses.max(axis=1), color=colour, alpha=0.2, linewidth=0)
                label = f"{kind}, median and range\nof {len(units)} units"
                ax.plot(rounds, losses.median(axis=1), color=colour, linewidth=1.4, label=label)
                continue
            for m, unit in enumerate(name for name in units if (kind, name) in table):
                look = line_look(m) | {"linestyle": ("-", "--", ":")[k % 3]}
                ax.plot(rounds, table[kind, unit], **look, linewidth=1.2, label=f"{kind} {short(unit)}")
        if (table.to_numpy() > 0).all() and not relative:
            ax.set_yscale("log")
        if len(rounds) > 20:
            ax.set_xscale("log")
        ax.set(xlabel="round", ylabel="loss, share of the first round's" if relative else "loss")
        legend_beside(ax, len(kinds) * min(len(units), TUNING.fits_most_units))


class ResidualDisplay(Display):
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
    def from_estimator(
        cls,
        estimator: "PlantEstimator",
        X: Record,
        *,
        inputs: Any = None,
        lengths: Lengths = None,
        oracle: bool = True,
        ax: Any = None,
        title: str | None = None,
    ) -> Self:
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
        predicted = {model: estimator.predict(X, model=model, **record) for model in _MODELS}
        if oracle:
            predicted["oracle"] = inspection.oracle(estimator, X, **record).predict(X, model="server", **record)
        columns = estimator.layout_.output_positions
        present = np.sort(np.concatenate(columns))  # predictions leave out the inputs inside X
        blocks = [Y for _, _, Y in read_plant(X, layout=estimator.layout_, min_samples=1, **record).units()]
        errors = pd.DataFrame(index=list(estimator.client_names_))
        for model, table in predicted.items():
            own = (np.asarray(table)[:, np.searchsorted(present, places)] for places in columns)
            errors[model] = [_relative_error(Y, block) for Y, block in zip(blocks, own, strict=True)]
        return cls(errors).plot(ax=ax, title=title)

    def _size(self):
        return 6.5, 1.4 + 0.34 * len(self.errors)

    def _draw(self, ax):
        places = np.arange(len(self.errors))
        for k, model in enumerate(self.errors):
            shift = 0.14 * (k - (self.errors.shape[1] - 1) / 2)
            look = {"color": COLOURS[k], "marker": _MARKS[k % len(_MARKS)], "linestyle": ""}
            ax.plot(self.errors[model], places + shift, **look, markersize=5, label=model)
        for place in places[::2]:
            ax.axhspan(place - 0.5, place + 0.5, color="0.95", zorder=0)
        ax.set_yticks(places, [short(name) for name in self.errors.index])
        ax.set_ylim(len(places) - 0.5, -0.5)
        ax.set_xlabel("prediction error / standard deviation")
        legend_beside(ax, self.errors.shape[1])


def _relative_error(Y, predicted):
    """Root mean square error over the columns that move, each in its standard deviations."""
    spread = np.nanstd(Y, axis=0)
    moving = spread > 0
    return float(np.sqrt(np.nanmean(((Y - predicted)[:, moving] / spread[moving]) ** 2)))


class StateCorrelationDisplay(Display):
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
    def from_estimator(
        cls,
        estimator: "PlantEstimator",
        X: Record,
        *,
        inputs: Any = None,
        lengths: Lengths = None,
        lag: int = 1,
        ax: Any = None,
        title: str | None = None,
    ) -> Self:
        """Draw the correlations of the filtered states of a record.

        Parameters
        ----------
        estimator : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        X : list, dict, DataFrame or ndarray
        inputs, lengths
            As in `fit`. Pairs of rows that straddle two episodes are not left out.
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

    def _size(self):
        side = min(3 + 0.4 * len(self.state_slices), 11)
        return side + 1, side

    def _draw(self, ax):
        names = list(self.state_slices)
        self.image_ = ax.imshow(self.correlation, cmap="RdBu_r", vmin=-1, vmax=1)
        for states in list(self.state_slices.values())[1:]:
            ax.axhline(states.start - 0.5, color="0.3", linewidth=0.6)
            ax.axvline(states.start - 0.5, color="0.3", linewidth=0.6)
        centres = [(states.start + states.stop - 1) / 2 for states in self.state_slices.values()]
        turn = {"rotation": 45, "ha": "right"} if len(names) <= 12 else {"rotation": 90, "ha": "center"}
        tick_names(ax, names, centres, **turn)
        steps = f" {self.lag} step{'s' * (self.lag > 1)} before" if self.lag else ""
        ax.set(xlabel=f"states{steps}", ylabel="states")
        ax.figure.colorbar(self.image_, ax=ax, shrink=0.8, label="correlation")


class PrivacyCurveDisplay(Display):
    """Links kept and forecast error against epsilon, and the smallest useful epsilon where there is one.

    Use :meth:`from_table`; the constructor only stores.

    Parameters
    ----------
    table : DataFrame
        From ``inspection.privacy_curve(estimator, X, epsilons)``.

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

    _inches = 6.5, 3.8

    def __init__(self, table):
        self.table = table

    @classmethod
    def from_table(cls, table: pd.DataFrame, *, ax: Any = None, title: str | None = None) -> Self:
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

    def _draw(self, ax):
        epsilon, error = self.table["epsilon"], self.table["forecast_error"]
        ax.plot(epsilon, self.table["links_kept"], "o-", color=COLOURS[0], label="share of links kept")
        ax.plot(epsilon, error, "s--", color=COLOURS[1], label="forecast error / standard deviation")
        smallest = self.table.attrs.get("smallest_useful_epsilon", np.nan)
        if np.isfinite(smallest):
            ax.axvline(smallest, color=COLOURS[2], linestyle=":", label=f"smallest useful: {smallest:.3g}")
        ax.set(xlabel="epsilon", xscale="log", ylim=(-0.05, max(1.1, 1.05 * float(np.nanmax(error)))))
        legend_below(ax, 0.18)


# Picture of measurements as they were recorded: one panel per tag, with what is usual.

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
