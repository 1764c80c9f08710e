"""Three panels about a sensor: what was and would have been, the effect, the effect so far."""

import numpy as np
from pandas.api.types import is_datetime64_any_dtype

from ..optional import import_optional
from ._base import COLOURS

TITLES = ("effect", "effect so far")  # of the second and the third
_BAND = {"color": COLOURS[1], "alpha": 0.25, "linewidth": 0}


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
