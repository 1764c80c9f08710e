"""The links of a plant as a graph."""

import numpy as np

from ._style import COLOURS, keep_axes, new_axes, short

_MOST_BOXES = 10  # names in boxes on the circle; more stand around it
_LINE = 0.18  # inches that a name needs around the circle


class LinkGraphDisplay:
    """Units on a circle and an arrow for every influence that was found, as wide as it is strong.

    Pairs about which nothing can be said are dashed; pairs without influence are left out. Use
    :meth:`from_estimator` or :meth:`from_links`; the constructor only stores.

    Parameters
    ----------
    links : DataFrame
        With columns ``cause, effect, strength, verdict``.
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
        links = estimator.links_
        return cls.from_links(
            links[links["kind"] == "state"], estimator.client_names_, ax=ax, title=title, undecided=undecided
        )

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
        n, boxed = len(self.names), len(self.names) <= _MOST_BOXES
        radius = 1.7 if boxed else max(1.7, _LINE * n / (2 * np.pi))  # inches
        beside = 0.8 if boxed else 1.5
        ax = new_axes(ax, "Drawing links", (2 * (radius + beside),) * 2)
        angles = np.pi / 2 - 2 * np.pi * np.arange(n) / n
        place = dict(zip(self.names, np.column_stack([np.cos(angles), np.sin(angles)]), strict=True))
        kept = ["influence", "cannot tell"] if undecided else ["influence"]
        drawn = self.links[self.links["verdict"].isin(kept)]
        top = drawn["strength"].max() if (drawn["strength"] > 0).any() else 1.0
        for link in drawn.itertuples():
            found = link.verdict == "influence"
            ax.annotate(
                "",
                xy=place[link.effect],
                xytext=place[link.cause],
                arrowprops={
                    "arrowstyle": "-|>",
                    "connectionstyle": "arc3,rad=0.15",
                    "linewidth": 0.5 + 2.5 * link.strength / top if found else 0.8,
                    "linestyle": "-" if found else "--",
                    "color": COLOURS[0] if found else "0.6",
                    "shrinkA": 22 if boxed else 4,
                    "shrinkB": 22 if boxed else 4,
                },
            )
        for (name, point), angle in zip(place.items(), angles, strict=True):
            (_name_in_a_box if boxed else _name_outside)(ax, name, point, angle)
        limits = (-1 - beside / radius, 1 + beside / radius)
        ax.set(xlim=limits, ylim=limits, aspect="equal")
        ax.set_axis_off()
        return keep_axes(self, ax, title)


def _name_in_a_box(ax, name, point, angle):
    box = {"boxstyle": "round", "facecolor": "white", "edgecolor": "0.4"}
    ax.text(*point, short(name), ha="center", va="center", bbox=box)


def _name_outside(ax, name, point, angle):
    """A point on the circle and the name along its radius: many names fit around it."""
    ax.plot(*point, "o", color="0.3", markersize=4)
    left = np.cos(angle) < -1e-9
    ax.text(
        *(1.05 * point),
        short(name),
        rotation=np.degrees(angle) + 180 * left,
        rotation_mode="anchor",
        ha="right" if left else "left",
        va="center",
        fontsize="small",
    )
