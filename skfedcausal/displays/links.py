"""Pictures of the links of a plant: matrix, graph, map of many units, frequencies, shapes; and what checks failed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from .. import inspection
from ._base import COLOURS, CirclePlan, Display, FlowPlan, line_look, small_legend, tick_names
from .tuning import TUNING

if TYPE_CHECKING:
    from ..estimators._plant import PlantEstimator


# Pictures of the links of a plant: as a matrix, as a graph, one of them over frequency; and what checks failed.

_MARKS = {"influence": "●", "coupled": "◆", "cannot tell": "?", "shared driver": "◇"}
_NOTHING = ("no influence", "negligible")
_COLOURS = {"influence": COLOURS[0], "coupled": "0.5"}
_GRADES = (*_COLOURS, "cannot tell")


def sizes_of(links):
    """How large links are, and in what: shares of what is unpredicted, norms of blocks where a table has no shares."""
    if "strength" in links and (links["strength"].notna().any() or "norm" not in links):
        return links["strength"].clip(lower=0), "share of what is unpredicted"
    return links["norm"], "norm of the block"


def _end_of_scale(strength):
    """End of a scale of colours that one link cannot set: the strongest, or well above what most links have."""
    there = strength[strength > 0]
    return min(there.max(), TUNING.links_outside * np.quantile(there, 0.75)) if len(there) else 0.0


def _one_line_each(links):
    """Links to draw: pairs that are coupled both ways once, as strong as the stronger, with `both` set."""
    ranked = links.sort_values("size", ascending=False, kind="stable")
    ends = pd.Series([tuple(sorted(map(str, pair))) for pair in zip(ranked["cause"], ranked["effect"], strict=True)])
    ends.index, coupled = ranked.index, ranked["verdict"] == "coupled"
    again = coupled & ends.where(coupled).duplicated()
    twice = coupled & ends.where(coupled).duplicated(keep=False)
    return ranked.assign(both=twice)[~again].sort_index()


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
    unit : str, default="strength"
        What the strength is, beside the scale of colours.

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

    def __init__(self, strength, verdict, names, intervals=None, unit="strength"):
        self.strength = strength
        self.verdict = verdict
        self.names = names
        self.intervals = intervals
        self.unit = unit

    @classmethod
    def from_estimator(
        cls, estimator: "PlantEstimator", *, ax: Any = None, title: str | None = None, intervals: float | None = None
    ) -> Self:
        """Draw the links between states of a fitted estimator.

        Parameters
        ----------
        estimator : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        ax : matplotlib Axes, default=None
        title : str, default=None
        intervals : float, default=None
            Coverage of the interval of the block's norm that is written in each cell, such as 0.95, see
            ``inspection.link_intervals``; the norm is then what is drawn. None: shares of news without ends.

        Returns
        -------
        LinkMatrixDisplay
        """
        links = estimator.links_
        links = links[links["kind"] == "state"]
        if intervals is not None:
            ends = inspection.link_intervals(estimator, intervals)
            links = ends.merge(links[["cause", "effect", "verdict"]], on=["cause", "effect"], validate="one_to_one")
        return cls.from_links(links, estimator.client_names_, ax=ax, title=title, intervals=intervals is not None)

    @classmethod
    def from_links(
        cls,
        links: pd.DataFrame,
        names: Sequence[str],
        *,
        ax: Any = None,
        title: str | None = None,
        intervals: bool = False,
    ) -> Self:
        """Draw a table of links.

        Parameters
        ----------
        links : DataFrame
            With columns ``cause, effect``, ``strength`` or ``norm`` and, where there are any, ``verdict``.
        names : sequence of str
            Units in the order of rows and columns.
        ax : matplotlib Axes, default=None
        title : str, default=None
        intervals : bool, default=False
            Write the ends ``low, high`` of the table in the cells.

        Returns
        -------
        LinkMatrixDisplay
        """
        position = {name: k for k, name in enumerate(names)}
        cells = links["effect"].map(position), links["cause"].map(position)
        strength = np.zeros((len(names), len(names)))
        np.fill_diagonal(strength, np.nan)
        strength[cells], unit = sizes_of(links)
        verdict = np.full(strength.shape, "", dtype=object)
        if "verdict" in links:
            verdict[cells] = links["verdict"]
        ends = None
        if intervals:
            ends = np.full((*strength.shape, 2), np.nan)
            ends[cells] = links[["low", "high"]]
        return cls(strength, verdict, names, ends, unit).plot(ax=ax, title=title)

    def plot(
        self, *, ax: Any = None, title: str | None = None, vmax: float | None = None, colorbar: bool = True
    ) -> Self:
        """Draw the matrix; cells of pairs without influence stay white.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        title : str, default=None
        vmax : float, default=None
            Strength at the end of the colour scale.
        colorbar : bool, default=True
            Draw the scale beside the matrix.

        Returns
        -------
        LinkMatrixDisplay
        """
        return self._drawn(ax, title, vmax=vmax, colorbar=colorbar)

    def _draw(self, ax, vmax=None, colorbar=True):
        cmap = self._pyplot().get_cmap("Blues").with_extremes(bad="0.85")
        shown = np.where(np.isin(self.verdict, _NOTHING), 0.0, self.strength)
        top = _end_of_scale(shown) if vmax is None else vmax
        roots = self._pyplot().matplotlib.colors.PowerNorm(0.5, 0, top or 1.0)  # one strong link leaves others seen
        self.image_ = ax.imshow(shown, cmap=cmap, norm=roots)
        if colorbar:
            more = "max" if np.nanmax(shown, initial=0.0) > top else "neither"
            ax.figure.colorbar(self.image_, ax=ax, shrink=0.8, label=self.unit, extend=more)
        size = None if self.intervals is None else "small"
        for row, col in zip(*np.nonzero(np.isfinite(self.strength)), strict=True):
            label = self._label(row, col)
            colour = "white" if roots(shown[row, col]) > TUNING.links_dark else "black"
            if label:
                ax.text(col, row, label, ha="center", va="center", color=colour, fontsize=size)
        tick_names(ax, self.names, range(len(self.names)), rotation=45, ha="right", rotation_mode="anchor")
        ax.set(xlabel="cause", ylabel="effect")

    def _size(self):
        side = len(self.names) * (0.8 if self.intervals is not None else min(0.45, 9 / len(self.names)))
        return 3.1 + side, 1.8 + side

    def _label(self, row, col):
        """Mark of the verdict and the interval of a pair."""
        mark = _MARKS.get(self.verdict[row, col], "")
        if self.intervals is None or not np.isfinite(self.intervals[row, col]).all():
            return mark
        low, high = self.intervals[row, col]
        return f"{mark}\n{low:.2f}–{high:.2f}".lstrip()


def _looks_of(grade):
    """Line of a link of a grade."""
    width, style = (1.5, "-") if grade in _COLOURS else (0.8, "--")
    return {"linewidth": width, "linestyle": style, "color": _COLOURS.get(grade, "0.5")}


class LinkGraphDisplay(Display):
    """Units from left to right as influence flows, an arrow for every influence that was found.

    Arrows are as wide as influences are strong, with their share where it is known. Pairs that are coupled, where a
    common driver would explain a link as well, are grey, those coupled both ways without a head; pairs about which
    nothing can be said are dashed; pairs without influence are left out, and units
    without any link stand below. A link that acts later than in the next row says when. Plants with more links than a
    page has room for are drawn on a circle. Use :meth:`from_estimator` or :meth:`from_links`; the constructor only
    stores.

    Parameters
    ----------
    links : DataFrame
        With columns ``cause, effect``, ``strength`` or ``norm``, ``verdict`` and, if known, ``delay``.
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
    >>> [text.get_text() for text in display.ax_.texts if "unit" in text.get_text()]
    ['unit0', 'unit1', 'unit2']
    """

    def __init__(self, links, names):
        self.links = links
        self.names = names

    @classmethod
    def from_estimator(
        cls,
        estimator: "PlantEstimator",
        *,
        ax: Any = None,
        title: str | None = None,
        undecided: bool = False,
        layout: str | None = None,
    ) -> Self:
        """Draw the links between states of a fitted estimator.

        Parameters
        ----------
        estimator : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        ax : matplotlib Axes, default=None
        title : str, default=None
        undecided : bool, default=False
            Also draw the pairs with the verdict "cannot tell".
        layout : {"flow", "circle"}, default=None
            None: from left to right where a page has room for it.

        Returns
        -------
        LinkGraphDisplay
        """
        links = estimator.links_[estimator.links_["kind"] == "state"]
        names = estimator.client_names_
        return cls.from_links(links, names, ax=ax, title=title, undecided=undecided, layout=layout)

    @classmethod
    def from_links(
        cls,
        links: pd.DataFrame,
        names: Sequence[str],
        *,
        ax: Any = None,
        title: str | None = None,
        undecided: bool = False,
        layout: str | None = None,
    ) -> Self:
        """Draw a table of links with columns ``cause, effect, verdict`` and ``strength`` or ``norm``.

        Parameters
        ----------
        links : DataFrame
        names : sequence of str
            Units; on a circle in this order.
        ax : matplotlib Axes, default=None
        title : str, default=None
        undecided : bool, default=False
            Also draw the pairs with the verdict "cannot tell".
        layout : {"flow", "circle"}, default=None

        Returns
        -------
        LinkGraphDisplay
        """
        return cls(links, names).plot(ax=ax, title=title, undecided=undecided, layout=layout)

    def plot(
        self, *, ax: Any = None, title: str | None = None, undecided: bool = False, layout: str | None = None
    ) -> Self:
        """Draw the graph.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        title : str, default=None
        undecided : bool, default=False
        layout : {"flow", "circle"}, default=None

        Returns
        -------
        LinkGraphDisplay

        Raises
        ------
        ValueError
            If `layout` is neither of these.
        """
        if layout not in (None, "flow", "circle"):
            raise ValueError(f"Got layout={layout!r}; give 'flow', 'circle' or None.")
        kept = _GRADES if undecided else [*_COLOURS]
        found = self.links[self.links["verdict"].isin(kept)]
        few = (found["verdict"] == "influence").sum() <= TUNING.links_most_shares
        self._shares = few and sizes_of(found)[0].name == "strength"
        self._drawn_links = _one_line_each(found.assign(size=sizes_of(found)[0].fillna(0.0)))
        pairs = {(link.cause, link.effect): float(link.size) for link in self._drawn_links.itertuples()}
        self._plan = FlowPlan(self.names, pairs) if layout == "flow" else CirclePlan(self.names)
        if layout is None and len(pairs) <= TUNING.links_most_arrows:
            flow = FlowPlan(self.names, pairs)
            self._plan = flow if max(flow.size) <= TUNING.links_most_inches else self._plan
        return self._drawn(ax, title)

    def _size(self):
        return self._plan.size

    def _draw(self, ax):
        labels, found, lines = self._plan.draw_names(ax), self._drawn_links, self._pyplot().matplotlib.lines
        top = _end_of_scale(found["size"].to_numpy(dtype=float)) or 1.0
        for link in found.itertuples():
            look = _looks_of(link.verdict)
            if link.verdict in _COLOURS:
                look |= {"linewidth": 0.7 + 2.5 * min(link.size / top, 1.0)}
            heads = {"arrowstyle": "-" if link.both else "-|>"}
            middle = self._plan.draw_arrow(ax, link.cause, link.effect, labels, look | heads)
            if words := self._words(link) if middle is not None else "":
                text = {"ha": "center", "va": "center", "fontsize": "small", "color": "0.3", "zorder": 4}
                box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
                ax.text(*middle, words, bbox=box, **text)
        grades = [grade for grade in _GRADES if (found["verdict"] == grade).any()]
        handles = [lines.Line2D([], [], label=grade, **_looks_of(grade)) for grade in grades]
        if len(handles) > 1:
            place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "ncols": len(handles)}
            ax.legend(handles=handles, frameon=False, fontsize="small", **place)
        ax.set_axis_off()

    def _words(self, link):
        """Share of an influence and when it acts, beside its arrow."""
        share = f"{link.size:.0%}" if link.verdict == "influence" and self._shares else ""
        later = f"{link.delay:.0f} rows later" if getattr(link, "delay", 1) > 1 else ""
        return ", ".join(filter(None, (share, later)))


class SpectrumDisplay(Display):
    """Influence of one unit on another over frequency, with the measure of the time domain as a line.

    Use :meth:`from_estimator`; the constructor only stores.

    Parameters
    ----------
    spectrum : DataFrame
        From ``inspection.spectrum(estimator, cause, effect)``.
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
    def from_estimator(
        cls,
        estimator: "PlantEstimator",
        cause: str,
        effect: str,
        *,
        conditional: bool = True,
        intervals: float | None = None,
        ax: Any = None,
    ) -> Self:
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
        spectrum = inspection.spectrum(estimator, cause, effect, conditional=conditional, confidence=intervals)
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
    def from_estimator(cls, estimator: "PlantEstimator", *, ax: Any = None) -> Self:
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


# The links of a plant of many units: units by community, a point for every link, zoomed in on some of them.


def link_communities(links: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Communities of units that act on each other more than on others, by spreading labels along links.

    Every unit takes the label that weighs most among its neighbours, link strengths both ways added up, in the order of
    the units until none changes; units without links are communities of their own.

    Parameters
    ----------
    links : DataFrame
        With columns ``cause, effect, strength`` and, where there are any, ``verdict``: only influences count.
    names : sequence of str
        Units.

    Returns
    -------
    DataFrame
        One row per unit: ``unit``, ``community`` (numbers from zero on, the largest community first), ``size`` of the
        community, ``inside`` and ``outside``, the strengths of the unit's links in its community and beyond.

    References
    ----------
    .. [1] Raghavan, Albert, Kumara (2007), Near linear time algorithm to detect community structures in large-scale
           networks, Physical Review E 76.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.displays import link_communities
    >>> links = pd.DataFrame({"cause": ["a", "c"], "effect": ["b", "d"], "strength": [0.2, 0.1]})
    >>> link_communities(links, "abcde")["community"].tolist()
    [0, 0, 1, 1, 2]
    """
    near = _neighbours(_influences(links), names)
    label = list(range(len(names)))
    for _ in range(TUNING.maps_sweeps):
        before = list(label)
        for unit, others in enumerate(near):
            weights: dict[int, float] = {}
            for other, strength in others.items():
                weights[label[other]] = weights.get(label[other], 0.0) + strength
            if weights:
                label[unit] = max(weights, key=lambda k: (weights[k], k == label[unit], -k))
        if label == before:
            break
    kinds, first, size = np.unique(label, return_index=True, return_counts=True)
    order = np.lexsort((first, -size))
    number = {int(kinds[k]): place for place, k in enumerate(order)}
    found = np.array([number[k] for k in label])
    inside = [sum(s for other, s in near[unit].items() if label[other] == label[unit]) for unit in range(len(names))]
    outside = [sum(near[unit].values()) - inside[unit] for unit in range(len(names))]
    sums = {"inside": np.array(inside, dtype=float), "outside": np.array(outside, dtype=float)}
    return pd.DataFrame({"unit": list(names), "community": found, "size": np.bincount(found)[found], **sums})


def _influences(links):
    return links[links["verdict"] == "influence"] if "verdict" in links else links


def _neighbours(links, names):
    """Strengths of what joins every unit with others, dicts by unit."""
    place = {name: k for k, name in enumerate(names)}
    near: list[dict] = [{} for _ in names]
    for cause, effect, strength in zip(links["cause"], links["effect"], sizes_of(links)[0].tolist(), strict=True):
        a, b = place[cause], place[effect]
        near[a][b] = near[b][a] = near[a].get(b, 0.0) + strength
    return near


class LinkMapDisplay(Display):
    """Every influence of a plant of many units as a point, units in the order of their communities.

    Causes in columns and effects in rows; communities are framed. The point of a link is as dark as it is strong. Names
    are written where at most 60 units are shown.

    Parameters
    ----------
    links : DataFrame
        With columns ``cause, effect``, ``strength`` or ``norm`` and, where there are any, ``verdict``.
    communities : DataFrame
        Of :func:`link_communities`.

    Attributes
    ----------
    order_ : list of str
        Units along the axes.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.displays import LinkMapDisplay
    >>> links = pd.DataFrame({"cause": ["a", "c"], "effect": ["b", "d"], "strength": [0.2, 0.1]})
    >>> LinkMapDisplay.from_links(links, "abcde").order_
    ['a', 'b', 'c', 'd', 'e']
    """

    _inches = 7.0, 6.2

    def __init__(self, links, communities):
        self.links = links
        self.communities = communities

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, units: Sequence[str] | int | None = None, ax: Any = None, title: str | None = None
    ) -> Self:
        """Draw the links between states of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator with `links_`
        units : sequence of str or int, default=None
            Zoom: only these units, or those of the community of this number, with what is linked to them.
        ax : matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        LinkMapDisplay
        """
        links = estimator.links_[estimator.links_["kind"] == "state"]
        return cls.from_links(links, estimator.client_names_, units=units, ax=ax, title=title)

    @classmethod
    def from_links(
        cls,
        links: pd.DataFrame,
        names: Sequence[str],
        *,
        units: Sequence[str] | int | None = None,
        ax: Any = None,
        title: str | None = None,
    ) -> Self:
        """Draw a table of links.

        Parameters
        ----------
        links : DataFrame
        names : sequence of str
        units : sequence of str or int, default=None
        ax : matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        LinkMapDisplay
        """
        return cls(_influences(links), link_communities(links, names)).plot(units=units, ax=ax, title=title)

    def plot(self, *, units: Sequence[str] | int | None = None, ax: Any = None, title: str | None = None) -> Self:
        """Draw the map.

        Parameters
        ----------
        units : sequence of str or int, default=None
            Zoom: only these units, or those of the community of this number, with what is linked to them.
        ax : matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        LinkMapDisplay
        """
        return self._drawn(ax, title, units=units)

    def _shown(self, units):
        """Communities of the units that are shown, in the order of the axes."""
        table = self.communities.sort_values(["community", "unit"], kind="stable")
        if units is None:
            return table
        known = set(table["unit"])
        chosen = set(table["unit"][table["community"] == units]) if isinstance(units, int) else set(units)
        if not chosen or chosen - known:
            raise ValueError(
                f"Got units={units!r}; give names of units, or the number of a community below "
                f"{self.communities['community'].max() + 1}."
            )
        touched = self.links["cause"].isin(chosen) | self.links["effect"].isin(chosen)
        chosen |= set(self.links["cause"][touched]) | set(self.links["effect"][touched])
        return table[table["unit"].isin(chosen)]

    def _draw(self, ax, units=None):
        shown = self._shown(units)
        self.order_ = shown["unit"].tolist()
        place, n = {name: k for k, name in enumerate(self.order_)}, len(self.order_)
        links = self.links[self.links["cause"].isin(place) & self.links["effect"].isin(place)]
        size = float(np.clip(9e4 / n**2, 3.0, 120.0))
        points = links["cause"].map(place), links["effect"].map(place)
        sizes, unit = sizes_of(links)
        look = {"c": sizes, "s": size, "cmap": "cividis_r", "marker": "s", "linewidths": 0}
        self.points_ = ax.scatter(*points, **look)
        if len(links):
            ax.figure.colorbar(self.points_, ax=ax, label=unit, shrink=0.8)
        for _, rows in shown.groupby("community", sort=False)["unit"]:
            if len(rows) > 1:
                first = place[rows.iloc[0]] - 0.5
                ax.add_patch(self._frame(first, len(rows)))
        ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), xlabel="cause", ylabel="effect", aspect="equal")
        if n <= TUNING.maps_named:
            tick_names(ax, self.order_, range(n), most=TUNING.maps_named, rotation=90)
        else:
            ax.set(xticks=[], yticks=[])

    def _frame(self, first, n):
        return self._pyplot().Rectangle((first, first), n, n, fill=False, edgecolor="0.6", linewidth=0.6)


# Pictures of links that are not straight.


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
