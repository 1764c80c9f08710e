"""Common parts of all pictures: axes, colours that colour-blind readers can tell apart, names, layouts of graphs."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from pandas.api.types import is_datetime64_any_dtype

from ..optional import import_optional
from .tuning import TUNING

# Common parts of all pictures: axes, colours that colour-blind readers can tell apart, names that fit.

# Okabe, Ito (2008), Color universal design; the yellow, too light for lines, is left out
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STYLES = ("-", "--", ":", "-.")
TITLES = ("effect", "effect so far")  # of the second and the third
_BAND = {"color": COLOURS[1], "alpha": 0.25, "linewidth": 0}


class Display:
    """Base of the displays: the constructor stores the numbers, `plot` draws them."""

    _inches: Any = 6.5, 4.0  # of a new figure
    _panels = 1  # side by side
    _draw: Callable[..., None]  # everything but the title, in the axes given

    def plot(self, *, ax: Any = None, title: str | None = None) -> Self:
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes, or a sequence of them for a display of several panels, default=None
            None makes a new figure.
        title : str, default=None

        Returns
        -------
        self : Display
        """
        return self._drawn(ax, title)

    def _size(self):
        """Width and height of a new figure that the numbers need, in inches."""
        return self._inches

    def _drawn(self, ax, title, **how):
        """The display itself, drawn in the given axes or in those of a new figure."""
        if ax is None:
            ax = self._pyplot().subplots(1, self._panels, figsize=self._size(), layout="constrained")[1]
        self._draw(ax, **how)
        self.figure_, self.ax_ = np.ravel(ax)[0].figure, np.asarray(ax) if self._panels > 1 else ax
        if title is not None:
            (self.figure_.suptitle if self._panels > 1 else ax.set_title)(title)
        return self

    def _pyplot(self):
        """matplotlib.pyplot, or an error that names the extra."""
        return import_optional("matplotlib.pyplot", "plot", f"A {type(self).__name__}")


def line_look(k):
    """Colour and line style of the k-th of many series: all pairs differ up to 28."""
    return {"color": COLOURS[k % len(COLOURS)], "linestyle": STYLES[k // len(COLOURS) % len(STYLES)]}


def short(name, longest=18):
    """A name shortened in the middle."""
    name = str(name)
    if len(name) <= longest:
        return name
    kept = longest - 1
    return f"{name[: kept - kept // 2]}…{name[-(kept // 2) :]}"


def with_measure(column, measures, longest=18):
    """Name of a column, shortened in the middle, with its unit of measurement where one is known."""
    measure = (measures or {}).get(column)
    if not measure:
        return short(column, longest)
    plain = str(column).removesuffix(f"[{measure}]").removesuffix(f"({measure})").rstrip()
    return f"{short(plain, longest)} [{measure}]"


def panel_title(ax, text):
    """A title in small print at the left of one of several panels."""
    ax.set_title(text, loc="left", fontsize="small", pad=3)


def small_legend(ax, **place):
    """A legend without a frame in small print."""
    ax.legend(**place, frameon=False, fontsize="small")


def legend_below(ax, distance):
    """A legend of two columns under the axes."""
    small_legend(ax, loc="upper center", bbox_to_anchor=(0.5, -distance), ncols=2)


def legend_beside(ax, n_entries):
    """A legend right of the axes, in enough columns to be no taller than they are."""
    columns = 1 + (n_entries - 1) // 16
    small_legend(ax, loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, ncols=columns)


def tick_names(ax, names, places, most=40, **turn):
    """Names of the rows and the turned columns of a matrix; in small print for many, every k-th for very many."""
    every = 1 + (len(names) - 1) // most
    size = "medium" if len(names) <= 12 else "small" if len(names) <= 24 else "x-small"
    for axis, look in ((ax.xaxis, turn), (ax.yaxis, {})):
        axis.set_ticks(places[::every], [short(name) for name in names[::every]], fontsize=size, **look)


def draw_three(axes, rows, summed, words):
    """Draw the rows of one sensor.

    `rows` has ``time, factual, counterfactual, low, high, effect, effect_low, effect_high``, `summed` the last
    three added up, `words` names the two lines of the first panel.
    """
    time = rows["time"]
    axes[0].plot(time, rows["factual"], color=COLOURS[0], linewidth=1.2, label=words[0])
    axes[0].plot(time, rows["counterfactual"], color=COLOURS[1], linewidth=1, label=words[1])
    axes[0].fill_between(time, rows["low"], rows["high"], **_BAND)
    for ax, found in zip(axes[1:], (rows, summed), strict=True):
        ax.plot(time, found["effect"], color=COLOURS[1], linewidth=1.2)
        ax.fill_between(time, found["effect_low"], found["effect_high"], **_BAND)
        ax.axhline(0, color="0.5", linewidth=0.8)


def few_ticks(axes, time):
    """Whole rows or short times, few enough to stand beside each other under a panel."""
    for ax in axes:
        if not is_datetime64_any_dtype(time):
            ax.xaxis.get_major_locator().set_params(integer=True, nbins=6)
            continue
        dates = import_optional("matplotlib.dates", "plot", "A picture of times")
        locator = dates.AutoDateLocator(minticks=2, maxticks=6, tz=time.dt.tz)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=time.dt.tz))


def added_up(rows, counts=True):
    """Effect and its band added up over the rows that count; missing ones add nothing."""
    return {
        name: np.nancumsum(np.where(counts, rows[name].to_numpy(dtype=float), 0.0))
        for name in ("effect", "effect_low", "effect_high")
    }


# Where units and arrows of a graph are drawn: from left to right, or on a circle.


class FlowPlan:
    """Units in layers, links to the right; those against the flow go back from left edges. In inches."""

    def __init__(self, names, pairs):
        self.pairs = pairs
        placed, halfway = flow_places(names, pairs)
        alone = [name for name in names if name not in placed]
        self.box = TUNING.graphs_padding + TUNING.graphs_letter * max((len(short(name)) for name in names), default=1)
        layers = 1 + max((layer for layer, _ in placed.values()), default=0)
        width = layers * (self.box + TUNING.graphs_gap) - TUNING.graphs_gap
        across = max(1, int((max(width, 5.0) + 0.3) / (self.box + 0.3)))
        heights = [*(height for _, height in placed.values()), *halfway.values(), *([] if placed else [0.0])]
        low, self.high = min(heights) * TUNING.graphs_row, max(heights) * TUNING.graphs_row
        self.place = {
            name: np.array([k * (self.box + TUNING.graphs_gap), height * TUNING.graphs_row])
            for name, (k, height) in placed.items()
        }
        for k, name in enumerate(alone):
            below = low - TUNING.graphs_row * (k // across + bool(placed))
            self.place[name] = np.array([(k % across) * (self.box + 0.3), below])
        self.place = {name: self.place[name] for name in names}
        self.halfway = {pair: height * TUNING.graphs_row for pair, height in halfway.items()}
        places = np.array(list(self.place.values()))
        self.corner = np.array([-self.box / 2 - 0.15, min(low, places[:, 1].min()) - 0.45])
        self.far = np.array([places[:, 0].max() + self.box / 2 + 0.15, self.high + 0.45])
        self.size = tuple(self.far - self.corner)

    def draw_names(self, ax):
        """Draw the units; the labels, at which arrows begin and end."""
        ax.set(xlim=(self.corner[0], self.far[0]), ylim=(self.corner[1], self.far[1]), aspect="equal")
        box = {"boxstyle": "round", "facecolor": "white", "edgecolor": "0.4"}
        middle = {"ha": "center", "va": "center", "bbox": box, "zorder": 5}
        return {name: ax.text(*point, short(name), **middle) for name, point in self.place.items()}

    def draw_arrow(self, ax, cause, effect, labels, look):
        """Draw a link, bent to pass beside the units between its ends; the point half-way along it."""
        start, end = self.place[cause], self.place[effect]
        along, chord = end[0] >= start[0], end - start
        middle = (start + end) / 2
        aside = self.halfway[cause, effect] - middle[1]
        both = (effect, cause) in self.pairs
        edges = (1.0, 0.0) if along else (0.0, 1.0)
        height = 0.5 if not both else 0.8 if along else 0.2
        bend = 2 * aside * np.sign(-chord[0] or 1.0) / max(np.hypot(*chord), 1e-9)
        ends = {"xycoords": labels[effect], "textcoords": labels[cause]}
        style = {"connectionstyle": f"arc3,rad={bend:.3f}", "shrinkA": 4, "shrinkB": 4, "zorder": 2}
        ax.annotate("", xy=(edges[1], height), xytext=(edges[0], height), arrowprops=style | look, **ends)
        return middle[0], middle[1] + aside + (0.15 if along else -0.15) * both


class CirclePlan:
    """Units on a circle, in boxes or, if they are many, around it."""

    def __init__(self, names):
        self.names, self.boxed = names, len(names) <= TUNING.graphs_most_boxes
        self.angles = np.pi / 2 - 2 * np.pi * np.arange(len(names)) / len(names)
        points = np.column_stack([np.cos(self.angles), np.sin(self.angles)])
        self.place = dict(zip(names, points, strict=True))
        around = TUNING.graphs_line * len(names) / (2 * np.pi)
        self.radius, self.beside = (1.7, 0.8) if self.boxed else (max(1.7, around), 1.5)
        self.size = (2 * (self.radius + self.beside),) * 2

    def draw_names(self, ax):
        """Draw the units; nothing, as arrows end at their places."""
        for (name, point), angle in zip(self.place.items(), self.angles, strict=True):
            if self.boxed:
                box = {"boxstyle": "round", "facecolor": "white", "edgecolor": "0.4"}
                ax.text(*point, short(name), ha="center", va="center", bbox=box)
                continue
            ax.plot(*point, "o", color="0.3", markersize=4)  # and the name along the radius: many fit around it
            left = np.cos(angle) < -1e-9
            turn = {"rotation": np.degrees(angle) + 180 * left, "rotation_mode": "anchor"}
            ax.text(*(1.05 * point), short(name), **turn, ha="right" if left else "left", va="center", fontsize="small")
        limits = (-1 - self.beside / self.radius, 1 + self.beside / self.radius)
        ax.set(xlim=limits, ylim=limits, aspect="equal")

    def draw_arrow(self, ax, cause, effect, labels, look):
        """Draw a link; the point half-way along it, where there is room for words."""
        start, end = self.place[cause], self.place[effect]
        room = 22 if self.boxed else 4
        style = {"connectionstyle": f"arc3,rad={TUNING.graphs_bent}", "shrinkA": room, "shrinkB": room}
        ax.annotate("", xy=end, xytext=start, arrowprops=style | look)
        x, y = end - start
        return (start + end) / 2 + TUNING.graphs_bent / 2 * np.array([y, -x]) if self.boxed else None


def flow_places(names, links):
    """Layer and height of every unit that has links, and the height of each link half-way.

    `links` maps (cause, effect) to strength. Heights are in rows, around zero. Links against the flow are few: units
    are ordered by Eades's greedy rule [2]_, layers are longest paths along the links that follow the order [1]_, and
    units of a layer stand near the mean of their neighbours. Links over several layers have a place in each of them,
    so that they pass beside the units there.

    References
    ----------
    .. [1] Sugiyama, Tagawa, Toda (1981), Methods for visual understanding of hierarchical system structures, IEEE
           Transactions on Systems, Man, and Cybernetics 11(2).
    .. [2] Eades, Lin, Smyth (1993), A fast and effective heuristic for the feedback arc set problem, Information
           Processing Letters 47(6).
    """
    units = [name for name in names if any(name in pair for pair in links)]
    layer = _layers(_flow_order(units, links), links)
    columns, chains = _with_passages(units, layer, links)
    height = _heights(columns, chains)
    halfway = {pair: float(np.mean([height[one] for one in chain[1:-1] or chain])) for pair, chain in chains.items()}
    return {name: (layer[name], height[name]) for name in units}, halfway


def _flow_order(units, links):
    """Units in an order that few and weak links go against."""
    left: list[str] = list(units)
    first: list[str] = []
    last: list[str] = []
    while left:
        out, into = dict.fromkeys(left, 0.0), dict.fromkeys(left, 0.0)
        for (cause, effect), strength in links.items():
            if cause in out and effect in into:
                out[cause] += strength
                into[effect] += strength
        sinks = [name for name in left if not out[name]]
        sources = [name for name in left if not into[name]]
        if sinks:
            last[:0] = sinks
        elif sources:
            first += sources
        else:
            first.append(max(left, key=lambda name: out[name] - into[name]))
        placed = {*first, *last}
        left = [name for name in left if name not in placed]
    return first + last


def _layers(order, links):
    """Layer of every unit: the longest way along the order, sources beside what they drive first."""
    position = {name: k for k, name in enumerate(order)}
    along = [pair for pair in links if position[pair[0]] < position[pair[1]]]
    layer = dict.fromkeys(order, 0)
    for name in order:
        layer[name] = max((layer[cause] + 1 for cause, effect in along if effect == name), default=0)
    for name in reversed(order):
        if not any(effect == name for _, effect in along):
            layer[name] = min((layer[effect] - 1 for cause, effect in along if cause == name), default=layer[name])
    return layer


def _with_passages(units, layer, links):
    """Members of every layer, and the members that each link goes along, from the lower layer to the higher."""
    columns, chains = defaultdict(list), {}
    for name in units:
        columns[layer[name]].append(name)
    for pair in links:
        low, high = sorted(pair, key=layer.__getitem__)
        between = [(pair, k) for k in range(layer[low] + 1, layer[high])]
        for one in between:
            columns[one[1]].append(one)
        chains[pair] = [low, *between, high]
    return [columns[k] for k in sorted(columns)], chains


def _heights(columns, chains):
    """Height of every member of a layer: sweeps that put it near the mean of its neighbours."""
    beside = defaultdict(set)
    for chain in chains.values():
        for one, other in zip(chain, chain[1:], strict=False):
            beside[one].add(other)
            beside[other].add(one)
    height: dict = {}
    for column in columns:
        _stack(column, height)
    for sweep in range(TUNING.graphs_sweeps):
        for column in columns if sweep % 2 else reversed(columns):
            wanted = {one: np.mean([height[other] for other in beside[one]]) for one in column}
            column.sort(key=wanted.__getitem__, reverse=True)
            _stack(column, height)
    return height


def _stack(column, height):
    """Give the members of a layer heights one row apart, from the top."""
    height.update({one: (len(column) - 1) / 2 - k for k, one in enumerate(column)})
