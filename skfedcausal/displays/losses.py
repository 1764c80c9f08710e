"""Losses of gradient training against rounds."""

import numpy as np

from ._style import COLOURS, keep_axes, legend_beside, line_look, new_axes, short

_MOST = 8  # units that get a line each


class LossDisplay:
    """Client and server losses of every unit over the rounds of gradient training.

    Use :meth:`from_estimator`; the constructor only stores.

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
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import LossDisplay
    >>> X, _ = make_granger_plant(2, random_state=0)
    >>> est = FederatedGrangerEstimator(server=GradientServer(max_iter=50, tol=0.1)).fit(X)
    >>> LossDisplay.from_estimator(est).ax_.get_xlabel()
    'round'
    """

    def __init__(self, losses):
        self.losses = losses

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, title=None):
        """Draw the losses of an estimator with a GradientServer.

        Parameters
        ----------
        estimator : FederatedGrangerEstimator
        ax : matplotlib Axes, default=None
        title : str, default=None

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
            raise ValueError(
                f"A {type(estimator.server_).__name__} has no losses; fit with server=GradientServer()."
            )
        return cls(losses).plot(ax=ax, title=title)

    def plot(self, *, ax=None, title=None):
        """Draw the losses, logarithmic where all are positive.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        title : str, default=None

        Returns
        -------
        LossDisplay
        """
        ax = new_axes(ax, "Drawing losses", (7.5, 4))
        kinds = list(dict.fromkeys(self.losses.columns.get_level_values(0)))
        units = list(dict.fromkeys(self.losses.columns.get_level_values(1)))
        rounds = np.arange(1, len(self.losses) + 1)
        for k, kind in enumerate(kinds):
            if len(units) > _MOST:
                self._draw_range(ax, rounds, kind, k)
                continue
            for m, unit in enumerate(units):
                look = line_look(m) | {"linestyle": ("-", "--", ":")[k % 3]}
                ax.plot(rounds, self.losses[kind, unit], **look, linewidth=1.2, label=f"{kind} {short(unit)}")
        if (self.losses.to_numpy() > 0).all():
            ax.set_yscale("log")
        if len(rounds) > 20:
            ax.set_xscale("log")
        ax.set_xlabel("round")
        ax.set_ylabel("loss")
        legend_beside(ax, len(kinds) * min(len(units), _MOST))
        return keep_axes(self, ax, title)

    def _draw_range(self, ax, rounds, kind, k):
        """Median and range over many units."""
        losses, colour = self.losses[kind], COLOURS[k % len(COLOURS)]
        ax.fill_between(rounds, losses.min(axis=1), losses.max(axis=1), color=colour, alpha=0.2, linewidth=0)
        label = f"{kind}, median and range\nof {losses.shape[1]} units"
        ax.plot(rounds, losses.median(axis=1), color=colour, linewidth=1.4, label=label)
