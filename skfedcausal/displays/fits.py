"""Pictures of a fit: its losses, its prediction errors, its states, and what privacy costs it."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from .. import inspection
from ..containers import read_plant
from ..given import Lengths, Record
from ._base import COLOURS, Display, legend_below, legend_beside, line_look, short, tick_names
from .tuning import TUNING

if TYPE_CHECKING:
    from ..estimators._plant import PlantEstimator
    from ..estimators.granger import FederatedGrangerEstimator

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
