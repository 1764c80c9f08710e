"""Colours that colour-blind readers can tell apart, axes, names that fit."""

from ..optional import import_optional

# Okabe, Ito (2008), Color universal design; the yellow, too light for lines, is left out
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STYLES = ("-", "--", ":", "-.")
_LONGEST = 18


def pyplot(purpose):
    """matplotlib.pyplot, or an error that names the extra."""
    return import_optional("matplotlib.pyplot", "plot", purpose)


def new_axes(ax, purpose, figsize, **grid):
    """The axes that were given, or those of a new figure."""
    if ax is not None:
        return ax
    return pyplot(purpose).subplots(figsize=figsize, layout="constrained", **grid)[1]


def keep_axes(display, ax, title=None):
    """The display with the axes it was drawn in, under a title where there is one."""
    if title is not None:
        ax.set_title(title)
    display.figure_, display.ax_ = ax.figure, ax
    return display


def line_look(k):
    """Colour and line style of the k-th of many series: all pairs differ up to 28."""
    return {"color": COLOURS[k % len(COLOURS)], "linestyle": STYLES[k // len(COLOURS) % len(STYLES)]}


def short(name, longest=_LONGEST):
    """A name cut in its middle."""
    name = str(name)
    if len(name) <= longest:
        return name
    kept = longest - 1
    return f"{name[: kept - kept // 2]}…{name[-(kept // 2) :]}"


def legend_beside(ax, n_entries, **options):
    """A legend outside the axes, in as many columns as keep it shorter than they are."""
    if n_entries == 0:
        return None
    columns = 1 + (n_entries - 1) // 16
    place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0}
    return ax.legend(**place, ncols=columns, frameon=False, fontsize="small", **options)


def tick_names(axis, names, places=None, most=40):
    """Names at a matrix' rows or columns, or at other places: smaller for many, every k-th for very many."""
    every = 1 + (len(names) - 1) // most
    places = range(len(names)) if places is None else places
    size = "medium" if len(names) <= 12 else "small" if len(names) <= 24 else "x-small"
    axis.set_ticks(places[::every], [short(name) for name in names[::every]], fontsize=size)
