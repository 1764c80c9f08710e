"""Picture of the assumption report: which pairs and units have checks that failed."""

import numpy as np

from ._base import Display, tick_names


class ValidityDisplay(Display):
    """Checks that failed as a matrix, cause in columns and effect in rows, those of units on the diagonal.

    Use :meth:`from_estimator`; the constructor only stores.

    Parameters
    ----------
    failed : ndarray of int, shape (n_units, n_units)
        How many checks failed.
    words : ndarray of str, shape (n_units, n_units)
        Which, one a line.
    names : sequence of str

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import ValidityDisplay
    >>> X, _ = make_granger_plant(n_units=3, random_state=0)
    >>> display = ValidityDisplay.from_estimator(FederatedGrangerEstimator().fit(X))
    >>> display.failed.shape
    (3, 3)
    """

    def __init__(self, failed, words, names):
        self.failed = failed
        self.words = words
        self.names = names

    @classmethod
    def from_estimator(cls, estimator, *, ax=None):
        """Draw the report of a fitted estimator.

        Parameters
        ----------
        estimator : FederatedGrangerEstimator or FederatedCounterfactualEstimator
            Fitted.
        ax : matplotlib Axes, default=None

        Returns
        -------
        ValidityDisplay
        """
        names, table = list(estimator.client_names_), estimator.validity_
        failed, words = np.zeros((len(names),) * 2, dtype=int), np.full((len(names),) * 2, "", dtype=object)
        for check, cause, effect in table.loc[~table["passed"], ["check", "cause", "effect"]].itertuples(index=False):
            place = names.index(effect), names.index(cause)
            failed[place] += 1
            words[place] += f"\n{check}" if words[place] else check
        return cls(failed, words, names).plot(ax=ax)

    def _size(self):
        side = 2.0 + 1.1 * min(len(self.names), 12)
        return side, side

    def _draw(self, ax):
        ax.imshow(self.failed, cmap="Oranges", vmin=0, vmax=max(4, self.failed.max(initial=0)))
        places = range(len(self.names))
        tick_names(ax, self.names, places, rotation=45, ha="right", rotation_mode="anchor")
        if len(self.names) <= 12:
            for effect, cause in zip(*np.nonzero(self.failed), strict=True):
                ax.text(cause, effect, self.words[effect, cause], ha="center", va="center", fontsize="xx-small")
        ax.set(xlabel="cause", ylabel="effect")
        ax.set_title("Checks that failed" if self.failed.any() else "All checks passed")
