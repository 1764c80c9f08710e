"""Common parts of all pictures: axes, colours that colour-blind readers can tell apart, names that fit."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from pandas.api.types import is_datetime64_any_dtype

from ..optional import import_optional

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
