"""Common parts of all pictures: axes, colours that colour-blind readers can tell apart, names that fit."""

from ..optional import import_optional

# Okabe, Ito (2008), Color universal design; the yellow, too light for lines, is left out
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STYLES = ("-", "--", ":", "-.")


class Display:
    """Base of the displays: the constructor stores the numbers, `plot` draws them."""

    def plot(self, *, ax=None, title=None):
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.
        title : str, default=None

        Returns
        -------
        self : Display
        """
        ax = self._axes(ax)
        self._draw(ax)
        return self._keep(ax, title)

    def _size(self):
        """Width and height of a new figure, in inches."""
        raise NotImplementedError

    def _draw(self, ax):
        """Draw everything but the title."""
        raise NotImplementedError

    def _axes(self, ax):
        """The given axes, or those of a new figure of the size that the numbers need."""
        if ax is not None:
            return ax
        return self._pyplot().subplots(figsize=self._size(), layout="constrained")[1]

    def _pyplot(self):
        """matplotlib.pyplot, or an error that names the extra."""
        return import_optional("matplotlib.pyplot", "plot", f"A {type(self).__name__}")

    def _keep(self, ax, title):
        """The display itself, with the axes it was drawn in."""
        if title is not None:
            ax.set_title(title)
        self.figure_, self.ax_ = ax.figure, ax
        return self


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


def tick_names(ax, names, places=None, most=40):
    """Names of the rows and columns of a matrix; in small print for many, every k-th for very many."""
    every = 1 + (len(names) - 1) // most
    places = range(len(names)) if places is None else places
    size = "medium" if len(names) <= 12 else "small" if len(names) <= 24 else "x-small"
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(places[::every], [short(name) for name in names[::every]], fontsize=size)
