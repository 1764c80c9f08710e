"""Report on a record that was replayed under other inputs."""

from functools import partial

import pandas as pd

from ..displays import EffectDisplay
from .page import Page
from .record import add_check, check_of

_MOST_ROWS = 30
_CAPTION = "Measurements as they were and as they would have been, the effect, and the effect so far, with bands"


def whatif_page(answer, change, X=None, check=None):
    """Page on an answer of ``whatif``; `change` says in words what each input was replaced by."""
    table = _mean_effects(answer)
    page = Page("What if").lead(_answer(table, change))
    page.picture(partial(EffectDisplay.from_whatif, answer), _CAPTION)
    page.heading("Mean effect").table(table.head(_MOST_ROWS))
    if len(table) > _MOST_ROWS:
        page.text(f"The {len(table) - _MOST_ROWS} tags with the smallest effects are left out.")
    page.text('Under "relative" an effect is in standard deviations of the tag in this record.')
    add_check(page, check_of(X, check))
    return page.heading("What this rests on").items(
        [
            "The same disturbances drive the plant again, and nothing but the inputs named is changed.",
            "Controllers that are not part of the record's units are taken to do what they did.",
            "Inputs outside what the fit has seen are extrapolated.",
            "Bands know the error of the estimate, not that of a plant of another kind than was learned.",
        ]
    )


def _mean_effects(answer):
    """Mean effect on every tag, its band, and its size beside the tag's scatter; the largest first."""
    bands = answer.assign(low=answer["low"] - answer["factual"], high=answer["high"] - answer["factual"])
    groups = bands.groupby("column", sort=False)
    table = groups[["effect", "low", "high"]].mean()
    spread = groups["factual"].std()
    table["relative"] = table["effect"] / spread.where(spread > 0)
    table["verdict"] = groups["verdict"].first()
    order = table["relative"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order].reset_index()


def _answer(table, change):
    words = " and ".join(f"{name} {what}" for name, what in change.items())
    clear = table[((table["low"] > 0) | (table["high"] < 0)) & (table["verdict"] == "effect")]
    if clear.empty:
        return f"With {words} no tag would have been clearly different on average."
    best = clear.iloc[0]
    more = f"; {len(clear)} of {len(table)} tags would have been clearly different" if len(clear) > 1 else ""
    way = "higher" if best["effect"] > 0 else "lower"
    size = "" if pd.isna(best["relative"]) else f", {abs(best['relative']):.2g} of its standard deviations"
    return f"With {words}, {best['column']} would have been {abs(best['effect']):.3g} {way} on average{size}{more}."
