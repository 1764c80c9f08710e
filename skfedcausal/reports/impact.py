"""Report on a move: what it did, by sensor, in pictures."""

from functools import partial

from .page import Page
from .record import add_check

_PICTURES, _SHOWN = 6, ("effect", "cannot tell")


def impact_page(impact, title, check=None):
    """Page on an :class:`~skfedcausal.estimators.impact.Impact`."""
    page = Page(title).lead(impact.summary)
    page.heading("In total").text(
        f"Sums and means over the rows from {impact.window[0]} to {impact.window[1]}, with {impact.confidence:.0%} "
        f"bands: {impact.effect_is}."
    )
    page.table(impact.total).heading("Row by row")
    clear = impact.total[impact.total["verdict"].isin(_SHOWN)]
    shown = clear.sort_values("verdict", ascending=False, kind="stable")["column"].head(_PICTURES)
    for column in shown:
        page.picture(partial(impact.plot, column), f"{column}: recorded and {impact.other}, effect, effect so far")
    add_check(page, check)
    return page.heading("What this rests on").items(
        [
            "The plant that was learned is taken to hold for the record; a change of the plant itself is not seen.",
            "What else happened at the same time acts either way and is not part of the effect.",
            "Bands know the error of the estimate, not that of a plant of another kind than was learned.",
        ]
    )
