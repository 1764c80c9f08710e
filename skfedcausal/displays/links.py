"""Pictures of the links of a plant."""

import numpy as np

from ._style import keep_axes, new_axes, pyplot, tick_names

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
    intervals : ndarray of shape (n_units, n_units, 2), default=None
        Lower and upper end of each strength, to be written in the cells.

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

    def __init__(self, strength, verdict, names, intervals=None):
        self.strength = strength
        self.verdict = verdict
        self.names = names
        self.intervals = intervals

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, title=None, intervals=None):
        """Draw the links between states of a fitted estimator.

        Parameters
        ----------
        estimator : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        ax : matplotlib Axes, default=None
        title : str, default=None
        intervals : float, default=None
            Coverage of the interval of the strength that is written in each cell, such as 0.95, see
            ``estimator.link_intervals``. None writes none.

        Returns
        -------
        LinkMatrixDisplay
        """
        links = estimator.links_
        links = links[links["kind"] == "state"]
        if intervals is not None:
            ends = estimator.link_intervals(intervals).drop(columns="strength")
            links = links.merge(ends, on=["cause", "effect"], validate="one_to_one")
        return cls.from_links(links, estimator.client_names_, ax=ax, title=title)

    @classmethod
    def from_links(cls, links, names, *, ax=None, title=None):
        """Draw a table of links.

        Parameters
        ----------
        links : DataFrame
            With columns ``cause, effect, strength`` and, where there are any, ``verdict`` and the ends of
            intervals, ``low, high``.
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
        intervals = None
        if {"low", "high"} <= set(links):
            intervals = np.full((*strength.shape, 2), np.nan)
            intervals[rows, cols] = links[["low", "high"]]
        return cls(strength, verdict, names, intervals).plot(ax=ax, title=title)

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
        n = len(self.names)
        cell = 0.8 if self.intervals is not None else min(0.45, 9 / n)  # inches
        ax = new_axes(ax, "Drawing links", (2.2 + cell * n, 1.8 + cell * n))
        cmap = pyplot("Drawing links").get_cmap("Blues").with_extremes(bad="0.85")
        image = ax.imshow(self.strength, cmap=cmap, vmin=0, vmax=vmax)
        top = image.norm.vmax
        for row, col in zip(*np.nonzero(np.isfinite(self.strength)), strict=True):
            label = self._label(row, col)
            if label:
                dark = self.strength[row, col] > 0.5 * top
                ax.text(
                    col,
                    row,
                    label,
                    ha="center",
                    va="center",
                    color="white" if dark else "black",
                    fontsize=None if self.intervals is None else "small",
                )
        tick_names(ax.xaxis, self.names)
        tick_names(ax.yaxis, self.names)
        for label in ax.get_xticklabels():
            label.set(rotation=45, ha="right", rotation_mode="anchor")
        ax.set_xlabel("cause")
        ax.set_ylabel("effect")
        self.image_ = image
        return keep_axes(self, ax, title)

    def _label(self, row, col):
        """Mark of the verdict and the interval of a pair."""
        mark = _MARKS.get(self.verdict[row, col], "")
        if self.intervals is None or not np.isfinite(self.intervals[row, col]).all():
            return mark
        low, high = self.intervals[row, col]
        return f"{mark}\n{low:.2f}–{high:.2f}".lstrip()
