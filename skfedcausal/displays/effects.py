"""Pictures of what inputs do: to a record, as responses over time and frequency, and as a transfer function."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from .. import inspection
from ..arguments import Setting
from ..optional import import_optional
from ._base import (
    COLOURS,
    TITLES,
    Display,
    added_up,
    draw_three,
    few_ticks,
    legend_below,
    line_look,
    panel_title,
    with_measure,
)
from .tuning import TUNING

if TYPE_CHECKING:
    from ..estimators.counterfactual import FederatedCounterfactualEstimator
    from ..estimators.impact import Impact
    from ..transfer import TransferFunction

_WAS, _WOULD = "as it was", "as it would have been"


class EffectDisplay:
    """What other inputs do to measurements, with bands.

    A record that was replayed has three panels per sensor: as it was and as it would have been, the effect, the
    effect so far; a response to a step has one. Use :meth:`from_estimator`, :meth:`from_whatif` or
    :meth:`from_effect`; the constructor only stores.

    Parameters
    ----------
    table : DataFrame
        Columns ``time, column, counterfactual, low, high`` and perhaps ``factual``.
    columns : list of str
        Sensors to draw.
    measures : dict of str to str, default=None
        Units of measurement by column.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        One per sensor; of a record three.
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

    def __init__(self, table, columns, measures=None):
        self.table = table
        self.columns = columns
        self.measures = measures

    @classmethod
    def from_whatif(
        cls,
        table: pd.DataFrame,
        *,
        columns: Sequence[str] | None = None,
        measures: Mapping[str, str] | None = None,
        title: str | None = None,
    ) -> Self:
        """Draw the result of ``whatif``.

        Parameters
        ----------
        table : DataFrame
        columns : list of str, default=None
            None for the six sensors with the largest effect.
        measures : dict of str to str, default=None
            Units of measurement by column, such as `measures` of a :class:`~skfedcausal.PlantTable`.
        title : str, default=None

        Returns
        -------
        EffectDisplay
        """
        chosen = _largest(table, TUNING.effects_most_records) if columns is None else list(columns)
        return cls(table, chosen, measures).plot(title=title)

    @classmethod
    def from_effect(
        cls, effect: pd.DataFrame, std: pd.DataFrame, *, columns: Sequence[str] | None = None, title: str | None = None
    ) -> Self:
        """Draw the result of ``counterfactual(..., return_std=True)``, with 90 % bands.

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
        ends = {"low": long["effect"] - half, "high": long["effect"] + half}
        table = long.assign(counterfactual=long["effect"], **ends)
        chosen = _largest(table, TUNING.effects_most_sensors) if columns is None else list(columns)
        return cls(table, chosen).plot(title=title)

    @classmethod
    def from_estimator(
        cls,
        estimator: "FederatedCounterfactualEstimator",
        n: str | int,
        u0: Setting,
        u1: Setting,
        *,
        horizon: int = 30,
        columns: Sequence[str] | None = None,
        title: str | None = None,
    ) -> Self:
        """Draw what other inputs of a unit do, as ``estimator.counterfactual`` answers.

        Parameters
        ----------
        estimator : FederatedCounterfactualEstimator
            Fitted.
        n : str or int
            Unit, by name or position.
        u0, u1 : float or array-like
            Inputs of the unit as they were, and as they would be.
        horizon : int, default=30
            Steps ahead.
        columns : list of str, default=None
            None for the twelve sensors with the largest effect.
        title : str, default=None

        Returns
        -------
        EffectDisplay
        """
        effect, std = estimator.counterfactual(n, u0, u1, horizon=horizon, return_std=True)
        return cls.from_effect(effect, std, columns=columns, title=title)

    def plot(self, *, title: str | None = None) -> Self:
        """Draw the panels in a new figure.

        Parameters
        ----------
        title : str, default=None

        Returns
        -------
        EffectDisplay
        """
        draw = self._draw_record if "factual" in self.table else self._draw_response
        self.figure_, self.ax_ = draw(import_optional("matplotlib.pyplot", "plot", "An EffectDisplay"))
        if title is not None:
            self.figure_.suptitle(title)
        return self

    def _draw_record(self, plt):
        """Three panels for every sensor, below each other."""
        n = len(self.columns)
        size = {"figsize": (11, 1.9 * n + 1.0), "layout": "constrained"}
        figure, axes = plt.subplots(n, 3, sharex=True, squeeze=False, **size)
        for panels, column in zip(axes, self.columns, strict=True):
            rows = self.table[self.table["column"] == column]
            bands = {"effect_low": rows["low"] - rows["factual"], "effect_high": rows["high"] - rows["factual"]}
            rows = rows.assign(**bands)
            draw_three(panels, rows, added_up(rows), (_WAS, _WOULD))
            for ax, title in zip(panels, (with_measure(column, self.measures, 40), *TITLES), strict=True):
                panel_title(ax, title)
        few_ticks(axes[-1], self.table["time"])
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
        return figure, axes

    def _draw_response(self, plt):
        """One panel for every sensor, beside each other."""
        n = len(self.columns)
        across = 1 if n == 1 else 2 if n <= 4 else 3
        down = -(-n // across)
        size = {"figsize": (3.6 * across + 0.6, 1.9 * down + 0.8), "layout": "constrained"}
        figure, panels = plt.subplots(down, across, sharex=True, squeeze=False, **size)
        axes = panels.ravel()
        for ax in axes[n:]:
            ax.set_axis_off()
        for ax, column in zip(axes, self.columns, strict=False):
            rows = self.table[self.table["column"] == column]
            ax.fill_between(rows["time"], rows["low"], rows["high"], color=COLOURS[1], alpha=0.25, linewidth=0)
            ax.axhline(0, color="0.5", linewidth=0.8)
            ax.plot(rows["time"], rows["counterfactual"], color=COLOURS[1], linewidth=1, label=_WOULD)
            ax.set_title(with_measure(column, self.measures, 40), fontsize="small")
        lowest = axes[max(n - across, 0) : n]
        few_ticks(lowest, self.table["time"])
        for ax in lowest:
            ax.tick_params(axis="x", labelbottom=True)
            ax.set_xlabel("steps")
        return figure, axes[:n]


def _largest(table, most):
    """Sensors by their largest effect, in standard deviations of what was measured where that is there."""
    size = table["effect"].abs().groupby(table["column"], sort=False).max()
    if "factual" in table:
        spread = table["factual"].groupby(table["column"], sort=False).std()
        size = size / spread.where(spread > 0)
    return size.sort_values(ascending=False, kind="stable").index[:most].tolist()


class TransferFunctionDisplay(Display):
    """Poles and zeros of a plant beside its singular values over frequency.

    Use :meth:`from_transfer_function`; the constructor only stores.

    Parameters
    ----------
    poles, zeros : ndarray of complex of shape (n_poles,), (n_zeros,)
    frequencies : ndarray of shape (n_frequencies,)
        Radians per step.
    singular_values : ndarray of shape (n_frequencies, min(n_outputs, n_inputs))

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes of shape (2,)
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.displays import TransferFunctionDisplay
    >>> from skfedcausal.transfer import TransferFunction
    >>> G = TransferFunction(np.array([[0.5]]), np.array([[1.0]]), np.array([[2.0]]), ("u",), ("y",))
    >>> float(TransferFunctionDisplay.from_transfer_function(G).singular_values[0, 0].round(2))
    4.0
    """

    _inches = 9.0, 4.0
    _panels = 2

    def __init__(self, poles, zeros, frequencies, singular_values):
        self.poles = poles
        self.zeros = zeros
        self.frequencies = frequencies
        self.singular_values = singular_values

    @classmethod
    def from_transfer_function(
        cls, G: "TransferFunction", *, frequencies: ArrayLike | None = None, ax: Any = None, title: str | None = None
    ) -> Self:
        """Draw a transfer function.

        Parameters
        ----------
        G : TransferFunction
            From ``FederatedCounterfactualEstimator.transfer_function()``.
        frequencies : array-like, default=None
            Radians per step; None for 200 of them, from a thousandth of pi to pi.
        ax : sequence of two matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        TransferFunctionDisplay
        """
        if frequencies is None:
            frequencies = np.geomspace(1e-3 * np.pi, np.pi, 200)
        frequencies = np.asarray(frequencies, dtype=float)
        display = cls(G.poles(), G.zeros(), frequencies, G.singular_values(frequencies))
        return display.plot(ax=ax, title=title)

    def _draw(self, ax):
        plane, gain = ax
        circle = np.exp(2j * np.pi * np.linspace(0, 1, 200))
        plane.plot(circle.real, circle.imag, color="0.6", linewidth=0.8)
        plane.plot(self.poles.real, self.poles.imag, "x", color=COLOURS[1], label="poles")
        inside = self.zeros[np.abs(self.zeros) <= 2]
        beyond = len(self.zeros) - len(inside)
        label = f"zeros ({beyond} beyond 2)" if beyond else "zeros"
        plane.plot(inside.real, inside.imag, "o", color=COLOURS[0], fillstyle="none", label=label)
        plane.set_aspect("equal", adjustable="datalim")
        plane.set(xlabel="real part", ylabel="imaginary part")
        legend_below(plane, 0.16)
        for k, values in enumerate(self.singular_values.T):
            gain.loglog(self.frequencies, values, **line_look(k), linewidth=1.2)
        gain.set(xlabel="radians per step", ylabel="singular values")
        gain.grid(alpha=0.3)


class ImpactDisplay(Display):
    """Three panels about one sensor, above each other's time.

    Use :meth:`from_impact`; the constructor only stores.

    Parameters
    ----------
    table : DataFrame
        Rows of one column of the table of an `Impact`.
    column : str
        The sensor.
    window : tuple
        Times of the first and the last row of the window.
    other : str, default="without the move"
        What is drawn beside the record.
    measures : dict of str to str, default=None
        Units of measurement by column.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes of shape (3,)
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import ImpactDisplay
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> found = est.impact(X, {"unit0__u0": 0.0}, (1000, 1030), inputs=truth.inputs)
    >>> ImpactDisplay.from_impact(found, column="unit1__x0").ax_.shape
    (3,)
    """

    _inches = 11.0, 3.4
    _panels = 3

    def __init__(self, table, column, window, other="without the move", measures=None):
        self.table = table
        self.column = column
        self.window = window
        self.other = other
        self.measures = measures

    @classmethod
    def from_impact(
        cls,
        impact: "Impact",
        *,
        column: str | None = None,
        before: int = 60,
        measures: Mapping[str, str] | None = None,
        ax: Any = None,
        title: str | None = None,
    ) -> Self:
        """Draw what a move did to a sensor.

        Parameters
        ----------
        impact : Impact
        column : str, default=None
            None for the column with the clearest effect.
        before : int, default=60
            Rows before and after the window that are drawn.
        measures : dict of str to str, default=None
            Units of measurement by column, such as `measures` of a :class:`~skfedcausal.PlantTable`.
        ax : sequence of three matplotlib Axes, default=None
        title : str, default=None
            None for the name of the column.

        Returns
        -------
        ImpactDisplay

        Raises
        ------
        ValueError
            If the impact does not know the column.
        """
        total = impact.total
        if column is None:
            width = (total["mean_high"] - total["mean_low"]).clip(lower=np.finfo(float).tiny)
            column = total["column"].iloc[int((total["mean"].abs() / width).fillna(0.0).to_numpy().argmax())]
        if column not in set(total["column"]):
            raise ValueError(f"Got column={column!r}; the impact knows {', '.join(total['column'])}.")
        rows = impact.table[impact.table["column"] == column].reset_index(drop=True)
        first, last = (rows.index[rows["time"] == edge][0] for edge in impact.window)
        rows = rows.iloc[max(first - before, 0) : last + before + 1].reset_index(drop=True)
        title = with_measure(column, measures, len(column)) if title is None else title
        return cls(rows, column, impact.window, impact.other, measures).plot(ax=ax, title=title)

    def _draw(self, ax):
        began = (self.table["time"] >= self.window[0]).to_numpy()
        draw_three(ax, self.table, added_up(self.table, began), ("recorded", self.other))
        few_ticks(ax, self.table["time"])
        ax[0].legend(frameon=False, fontsize="small")
        for panel, title in zip(ax, (f"recorded, and {self.other}", *TITLES), strict=True):
            panel.axvspan(*self.window, color="0.9", zorder=-1)
            panel.set_title(title, fontsize="medium")
        ax[0].set_ylabel((self.measures or {}).get(self.column, ""))


class ResponseDisplay(Display):
    """Step response, gain and phase of one sensor and one input, with bands.

    Use :meth:`from_estimator`; the constructor only stores.

    Parameters
    ----------
    step : DataFrame
        From ``step_response``.
    bode : DataFrame
        From ``frequency_response``.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes of shape (3,)
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import ResponseDisplay
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> len(ResponseDisplay.from_estimator(est, "unit0__u0", "unit1__x0").ax_)
    3
    """

    _inches = 11.0, 3.4
    _panels = 3

    def __init__(self, step, bode):
        self.step = step
        self.bode = bode

    @classmethod
    def from_estimator(
        cls,
        estimator: "FederatedCounterfactualEstimator",
        input: str,
        output: str,
        *,
        n_steps: int | None = None,
        confidence: float = 0.9,
        ax: Any = None,
        title: str | None = None,
    ) -> Self:
        """Draw what a fitted estimator knows of an input and a sensor.

        Parameters
        ----------
        estimator : FederatedCounterfactualEstimator
            Fitted.
        input, output : str
            As in ``step_response``.
        n_steps : int, default=None
            Of the step response.
        confidence : float, default=0.9
            Of the bands.
        ax : sequence of three matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        ResponseDisplay
        """
        step = inspection.step_response(estimator, input, output, n_steps=n_steps, confidence=confidence)
        bode = inspection.frequency_response(estimator, input, output, confidence=confidence)
        return cls(step, bode).plot(ax=ax, title=f"{output} after {input}" if title is None else title)

    def _draw(self, ax):
        step, gain, phase = ax
        _band(step, self.step, "step", "response")
        step.axhline(0, color="0.5", linewidth=0.8)
        step.set(xlabel="rows", ylabel="step response")
        _band(gain, self.bode, "frequency", "gain")
        gain.set(xscale="log", yscale="log", xlabel="radians per row", ylabel="gain")
        _band(phase, self.bode, "frequency", "phase", unit=np.pi / 180)
        phase.set(xscale="log", xlabel="radians per row", ylabel="phase in degrees")
        for panel in (gain, phase):
            panel.grid(alpha=0.3)


def _band(ax, table, along, name, unit=1.0):
    """A curve with its band."""
    x, low, high = (table[column] for column in (along, f"{name}_low", f"{name}_high"))
    ax.fill_between(x, low / unit, high / unit, color=COLOURS[1], alpha=0.25, linewidth=0)
    ax.plot(x, table[name] / unit, color=COLOURS[1], linewidth=1.2)
