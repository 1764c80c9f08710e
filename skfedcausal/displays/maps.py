"""The links of a plant of many units: units by community, a point for every link, zoomed in on some of them."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import pandas as pd

from ._base import Display, tick_names
from .links import sizes_of
from .tuning import TUNING


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
