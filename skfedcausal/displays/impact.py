"""Picture of what a move did: the record and what would have been, the effect, the effect so far."""

import numpy as np

from ._base import Display
from ._panels import TITLES, added_up, draw_three, few_ticks


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

    def __init__(self, table, column, window, other="without the move"):
        self.table = table
        self.column = column
        self.window = window
        self.other = other

    @classmethod
    def from_impact(cls, impact, *, column=None, before=60, ax=None, title=None):
        """Draw what a move did to a sensor.

        Parameters
        ----------
        impact : Impact
        column : str, default=None
            None for the column with the clearest effect.
        before : int, default=60
            Rows before and after the window that are drawn.
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
        return cls(rows, column, impact.window, impact.other).plot(ax=ax, title=column if title is None else title)

    def _draw(self, ax):
        began = (self.table["time"] >= self.window[0]).to_numpy()
        draw_three(ax, self.table, added_up(self.table, began), ("recorded", self.other))
        few_ticks(ax, self.table["time"])
        ax[0].legend(frameon=False, fontsize="small")
        for panel, title in zip(ax, (f"recorded, and {self.other}", *TITLES), strict=True):
            panel.axvspan(*self.window, color="0.9", zorder=-1)
            panel.set_title(title, fontsize="medium")
