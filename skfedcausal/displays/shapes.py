"""Pictures of links that are not straight."""

from typing import TYPE_CHECKING, Any, Self

import pandas as pd

from .. import inspection
from ._base import Display, line_look, small_legend

if TYPE_CHECKING:
    from ..estimators._plant import PlantEstimator


class LinkShapeDisplay(Display):
    """What a state of the cause adds to the next state of the effect along a curve, with a band, beside the line.

    Where the cause multiplies a state of another unit there are two curves, at a low and a high value of that. Use
    :meth:`from_estimator`; the constructor only stores.

    Parameters
    ----------
    shape : DataFrame
        From ``inspection.link_shape(estimator, cause, effect)``.
    cause, effect : str

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.displays import LinkShapeDisplay
    >>> rng = np.random.default_rng(0)
    >>> h = rng.normal(size=(1000, 2))
    >>> for t in range(1, 1000):
    ...     h[t] += 0.5 * h[t - 1] + [0, abs(h[t - 1, 0])]
    >>> X = {f"unit{m}": h[:, [m]] + 0.1 * rng.normal(size=(1000, 2)) for m in range(2)}
    >>> est = FederatedGrangerEstimator().fit(X)
    >>> LinkShapeDisplay.from_estimator(est, "unit0", "unit1").ax_.get_title()
    'unit0 → unit1'
    """

    _inches = 5.5, 3.6

    def __init__(self, shape: pd.DataFrame, cause: str, effect: str):
        self.shape = shape
        self.cause = cause
        self.effect = effect

    @classmethod
    def from_estimator(
        cls, estimator: "PlantEstimator", cause: str, effect: str, *, confidence: float = 0.9, ax: Any = None
    ) -> Self:
        """Draw the shape of one curved link of a fitted estimator.

        Parameters
        ----------
        estimator : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        cause, effect : str
        confidence : float, default=0.9
            Coverage of the band at each point.
        ax : matplotlib Axes, default=None

        Returns
        -------
        LinkShapeDisplay
        """
        shape = inspection.link_shape(estimator, cause, effect, confidence=confidence)
        return cls(shape, cause, effect).plot(ax=ax)

    def _draw(self, ax):
        for k, (level, rows) in enumerate(self.shape.groupby("level")):
            look = line_look(k)
            other = rows["other"].iloc[0]
            ax.plot(rows["state"], rows["adds"], **look, label=f"curve, {other} at {level:.2g}" if other else "curve")
            ax.fill_between(rows["state"], rows["low"], rows["high"], color=look["color"], alpha=0.25, linewidth=0)
        first = self.shape[self.shape["level"] == self.shape["level"].iloc[0]]
        ax.plot(first["state"], first["line"], color="0.5", linestyle="--", label="line")
        ax.set(xlabel=f"state of {self.cause} (standard deviations)", ylabel=f"adds to {self.effect}, next row")
        ax.set_title(f"{self.cause} → {self.effect}")
        small_legend(ax)
