"""Reports on inputs: what a move of them did, and a record that was replayed under others."""

from functools import partial

import pandas as pd

from ..displays import EffectDisplay
from .page import Page, measures_of
from .record import add_check, check_of

_PICTURES, _SHOWN = 6, ("effect", "cannot tell")
_MOST_ROWS = 30
_CAPTION = "Measurements as they were and as they would have been, the effect, and the effect so far, with bands"


def impact_page(impact, title, check=None):
    """Page on an :class:`~skfedcausal.estimators.impact.Impact`."""
    page = Page(title, measures_of(check)).lead(impact.summary)
    page.heading("In total").text(
        f"Sums and means over the rows from {impact.window[0]} to {impact.window[1]}, with {impact.confidence:.0%} "
        f"bands: {impact.effect_is}."
    )
    page.table(impact.total).heading("Row by row")
    clear = impact.total[impact.total["verdict"].isin(_SHOWN)]
    shown = clear.sort_values("verdict", ascending=False, kind="stable")["column"].head(_PICTURES)
    for column in shown:
        draw = partial(impact.plot, column, measures=page.measures)
        page.picture(draw, f"{column}: recorded and {impact.other}, effect, effect so far")
    add_check(page, check)
    return page.heading("What this rests on").items(
        [
            "The plant that was learned is taken to hold for the record; a change of the plant itself is not seen.",
            "What else happened at the same time acts either way and is not part of the effect.",
            "Bands know the error of the estimate, not that of a plant of another kind than was learned.",
        ]
    )


def whatif_page(answer, change, X=None, check=None):
    """Page on an answer of ``whatif``; `change` says in words what each input was replaced by."""
    table = _mean_effects(answer)
    page = Page("What if", measures_of(X, check)).lead(_answer(table, change))
    page.picture(partial(EffectDisplay.from_whatif, answer, measures=page.measures), _CAPTION)
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
