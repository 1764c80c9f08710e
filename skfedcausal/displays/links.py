"""Pictures of the links of a plant."""

import numpy as np

from ..utils.optional import import_optional

_MARKS = {"influence": "●", "no influence": "", "cannot tell": "?"}


class LinkMatrixDisplay:
    """Strength of every link as a matrix, cause in columns and effect in rows.

    Use :meth:`from_estimator` or :meth:`from_links`; the constructor only stores.

    Parameters
    ----------
    strength : ndarray of shape (n_units, n_units)
        NaN on the diagonal.
    verdict : ndarray of str, shape (n_units, n_units)
    names : sequence of str

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import LinkMatrixDisplay
    >>> X, _ = make_granger_plant(n_units=3, random_state=0)
    >>> display = LinkMatrixDisplay.from_estimator(FederatedGrangerEstimator().fit(X))
    >>> display.ax_.get_xlabel()
    'cause'
    """

    def __init__(self, strength, verdict, names):
        self.strength = strength
        self.verdict = verdict
        self.names = names

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, title=None):
        """Draw the links of a fitted estimator.

        Parameters
        ----------
        estimator : FederatedGrangerEstimator
        ax : matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        LinkMatrixDisplay
        """
        return cls.from_links(estimator.links_, estimator.client_names_, ax=ax, title=title)

    @classmethod
    def from_links(cls, links, names, *, ax=None, title=None):
        """Draw a table of links.

        Parameters
        ----------
        links : DataFrame
            With columns ``cause, effect, strength`` and, where there are verdicts, ``verdict``.
        names : sequence of str
            Units in the order of rows and columns.
        ax : matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        LinkMatrixDisplay
        """
        position = {name: k for k, name in enumerate(names)}
        strength = np.zeros((len(names), len(names)))
        np.fill_diagonal(strength, np.nan)
        verdict = np.full(strength.shape, "", dtype=object)
        rows, cols = links["effect"].map(position), links["cause"].map(position)
        strength[rows, cols] = links["strength"]
        if "verdict" in links:
            verdict[rows, cols] = links["verdict"]
        return cls(strength, verdict, names).plot(ax=ax, title=title)

    def plot(self, *, ax=None, title=None, vmax=None):
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        title : str, default=None
        vmax : float, default=None
            Strength at the end of the colour scale.

        Returns
        -------
        LinkMatrixDisplay
        """
        plt = import_optional("matplotlib.pyplot", "plot", "Drawing links")
        n = len(self.names)
        if ax is None:
            _, ax = plt.subplots(figsize=(2.2 + 0.45 * n, 1.8 + 0.45 * n), layout="constrained")
        cmap = plt.get_cmap("Blues").with_extremes(bad="0.85")
        image = ax.imshow(self.strength, cmap=cmap, vmin=0, vmax=vmax)
        top = image.norm.vmax
        for row, col in zip(*np.nonzero(self.verdict != ""), strict=True):
            dark = self.strength[row, col] > 0.5 * top
            mark = _MARKS.get(self.verdict[row, col], "")
            ax.text(col, row, mark, ha="center", va="center", color="white" if dark else "black")
        ax.set_xticks(range(n), self.names, rotation=45, ha="right", rotation_mode="anchor")
        ax.set_yticks(range(n), self.names)
        ax.set_xlabel("cause")
        ax.set_ylabel("effect")
        if title is not None:
            ax.set_title(title)
        self.figure_, self.ax_, self.image_ = ax.figure, ax, image
        return self
