"""Pictures of the links of a plant: as a matrix, as a graph, and one of them over frequency."""

import numpy as np

from ._base import COLOURS, Display, short, tick_names

_MARKS = {"influence": "●", "cannot tell": "?"}
_MOST_BOXES = 10  # names in boxes on the circle; more stand around it
_BENT = 0.15  # arrows, as a share of their length
_LINE = 0.18  # inches that a name needs around the circle


class LinkMatrixDisplay(Display):
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
        cells = links["effect"].map(position), links["cause"].map(position)
        strength = np.zeros((len(names), len(names)))
        np.fill_diagonal(strength, np.nan)
        strength[cells] = links["strength"]
        verdict = np.full(strength.shape, "", dtype=object)
        if "verdict" in links:
            verdict[cells] = links["verdict"]
        intervals = None
        if {"low", "high"} <= set(links):
            intervals = np.full((*strength.shape, 2), np.nan)
            intervals[cells] = links[["low", "high"]]
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
        return self._drawn(ax, title, vmax=vmax)

    def _draw(self, ax, vmax=None):
        cmap = self._pyplot().get_cmap("Blues").with_extremes(bad="0.85")
        self.image_ = ax.imshow(self.strength, cmap=cmap, vmin=0, vmax=vmax)
        middle, size = 0.5 * self.image_.norm.vmax, None if self.intervals is None else "small"
        for row, col in zip(*np.nonzero(np.isfinite(self.strength)), strict=True):
            label = self._label(row, col)
            colour = "white" if self.strength[row, col] > middle else "black"
            if label:
                ax.text(col, row, label, ha="center", va="center", color=colour, fontsize=size)
        tick_names(ax, self.names, range(len(self.names)), rotation=45, ha="right", rotation_mode="anchor")
        ax.set(xlabel="cause", ylabel="effect")

    def _size(self):
        side = len(self.names) * (0.8 if self.intervals is not None else min(0.45, 9 / len(self.names)))
        return 2.2 + side, 1.8 + side

    def _label(self, row, col):
        """Mark of the verdict and the interval of a pair."""
        mark = _MARKS.get(self.verdict[row, col], "")
        if self.intervals is None or not np.isfinite(self.intervals[row, col]).all():
            return mark
        low, high = self.intervals[row, col]
        return f"{mark}\n{low:.2f}–{high:.2f}".lstrip()


class LinkGraphDisplay(Display):
    """Units on a circle and an arrow for every influence that was found, as wide as it is strong.

    Pairs about which nothing can be said are dashed; pairs without influence are left out. A link that acts later than
    in the next row says when. Use :meth:`from_estimator` or :meth:`from_links`; the constructor only stores.

    Parameters
    ----------
    links : DataFrame
        With columns ``cause, effect, strength, verdict`` and, if known, ``delay``.
    names : sequence of str

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import LinkGraphDisplay
    >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    >>> display = LinkGraphDisplay.from_estimator(FederatedGrangerEstimator().fit(X))
    >>> [text.get_text() for text in display.ax_.texts if text.get_text()]
    ['unit0', 'unit1', 'unit2']
    """

    def __init__(self, links, names):
        self.links = links
        self.names = names

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, title=None, undecided=False):
        """Draw the links between states of a fitted estimator.

        Parameters
        ----------
        estimator : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        ax : matplotlib Axes, default=None
        title : str, default=None
        undecided : bool, default=False
            Also draw the pairs with the verdict "cannot tell".

        Returns
        -------
        LinkGraphDisplay
        """
        links = estimator.links_[estimator.links_["kind"] == "state"]
        return cls.from_links(links, estimator.client_names_, ax=ax, title=title, undecided=undecided)

    @classmethod
    def from_links(cls, links, names, *, ax=None, title=None, undecided=False):
        """Draw a table of links with columns ``cause, effect, strength, verdict``.

        Parameters
        ----------
        links : DataFrame
        names : sequence of str
            Units in their order around the circle.
        ax : matplotlib Axes, default=None
        title : str, default=None
        undecided : bool, default=False
            Also draw the pairs with the verdict "cannot tell".

        Returns
        -------
        LinkGraphDisplay
        """
        return cls(links, names).plot(ax=ax, title=title, undecided=undecided)

    def plot(self, *, ax=None, title=None, undecided=False):
        """Draw the graph.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        title : str, default=None
        undecided : bool, default=False

        Returns
        -------
        LinkGraphDisplay
        """
        return self._drawn(ax, title, undecided=undecided)

    def _draw(self, ax, undecided=False):
        boxed = len(self.names) <= _MOST_BOXES
        angles = np.pi / 2 - 2 * np.pi * np.arange(len(self.names)) / len(self.names)
        place = dict(zip(self.names, np.column_stack([np.cos(angles), np.sin(angles)]), strict=True))
        kept = ["influence", "cannot tell"] if undecided else ["influence"]
        drawn = self.links[self.links["verdict"].isin(kept)]
        top = drawn["strength"].max() if (drawn["strength"] > 0).any() else 1.0
        room = 22 if boxed else 4
        arrow = {"arrowstyle": "-|>", "connectionstyle": f"arc3,rad={_BENT}", "shrinkA": room, "shrinkB": room}
        for link in drawn.itertuples():
            look = {"linewidth": 0.8, "linestyle": "--", "color": "0.6"}
            if link.verdict == "influence":
                look = {"linewidth": 0.5 + 2.5 * link.strength / top, "linestyle": "-", "color": COLOURS[0]}
            start, end = place[link.cause], place[link.effect]
            ax.annotate("", xy=end, xytext=start, arrowprops=arrow | look)
            if boxed and getattr(link, "delay", 1) > 1:
                text = {"ha": "center", "va": "center", "fontsize": "small", "color": "0.3"}
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
                ax.text(*_middle(start, end), f"{link.delay:.0f} rows later", bbox=box, **text)
        for (name, point), angle in zip(place.items(), angles, strict=True):
            if boxed:
                box = {"boxstyle": "round", "facecolor": "white", "edgecolor": "0.4"}
                ax.text(*point, short(name), ha="center", va="center", bbox=box)
                continue
            ax.plot(*point, "o", color="0.3", markersize=4)  # and the name along the radius: many fit around it
            left = np.cos(angle) < -1e-9
            turn = {"rotation": np.degrees(angle) + 180 * left, "rotation_mode": "anchor"}
            ax.text(*(1.05 * point), short(name), **turn, ha="right" if left else "left", va="center", fontsize="small")
        radius, beside = self._radii()
        limits = (-1 - beside / radius, 1 + beside / radius)
        ax.set(xlim=limits, ylim=limits, aspect="equal")
        ax.set_axis_off()

    def _radii(self):
        """Radius of the circle, and space around it for the names, in inches."""
        if len(self.names) <= _MOST_BOXES:
            return 1.7, 0.8
        return max(1.7, _LINE * len(self.names) / (2 * np.pi)), 1.5

    def _size(self):
        return (2 * sum(self._radii()),) * 2


def _middle(start, end):
    """Point half-way along an arrow that is bent by `_BENT`."""
    x, y = end - start
    return (start + end) / 2 + _BENT / 2 * np.array([y, -x])


class SpectrumDisplay(Display):
    """Influence of one unit on another over frequency, with the measure of the time domain as a line.

    Use :meth:`from_estimator`; the constructor only stores.

    Parameters
    ----------
    spectrum : DataFrame
        From ``estimator.spectrum(cause, effect)``.
    cause, effect : str

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import SpectrumDisplay
    >>> X, _ = make_granger_plant(2, links=[("unit0", "unit1")], random_state=0)
    >>> est = FederatedGrangerEstimator().fit(X)
    >>> SpectrumDisplay.from_estimator(est, "unit0", "unit1").ax_.get_title()
    'unit0 → unit1'
    """

    _inches = 5.5, 3.2

    def __init__(self, spectrum, cause, effect):
        self.spectrum = spectrum
        self.cause = cause
        self.effect = effect

    @classmethod
    def from_estimator(cls, estimator, cause, effect, *, conditional=True, intervals=None, ax=None):
        """Draw the spectrum of one link of a fitted estimator.

        Parameters
        ----------
        estimator : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        cause, effect : str
        conditional : bool, default=True
            Given the measurements of all other units.
        intervals : float, default=None
            Coverage of the intervals to shade. None shades none.
        ax : matplotlib Axes, default=None

        Returns
        -------
        SpectrumDisplay
        """
        spectrum = estimator.spectrum(cause, effect, conditional=conditional, level=intervals)
        return cls(spectrum, cause, effect).plot(ax=ax)

    def _draw(self, ax):
        ax.plot(self.spectrum["frequency"], self.spectrum["measure"], label="over frequency")
        if "low" in self.spectrum:
            ax.fill_between(*(self.spectrum[name] for name in ("frequency", "low", "high")), alpha=0.25)
        total = self.spectrum.attrs["total"]
        note = "" if self.spectrum.attrs["averages_to_total"] else " (not its average)"
        ax.axhline(total, color="0.5", linestyle="--", label=f"time domain {total:.3g}{note}")
        ax.set(xlabel="frequency (radians per time step)", ylabel="Geweke's measure (nats)")
        ax.set(xlim=(0, None), ylim=(0, None), title=f"{self.cause} → {self.effect}")
        ax.legend()
