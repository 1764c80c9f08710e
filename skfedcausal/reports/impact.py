"""Reports on inputs: what a move of them did, and a record that was replayed under others."""

import re
from functools import partial

import pandas as pd

from ..displays import EffectDisplay
from ..estimators._interventions import SAY_WHEN
from .page import Page, add_check, check_of, counted, defects, listed_in_words, measures_of

_PICTURES, _SHOWN = 6, ("effect", "cannot tell")
_MOST_ROWS = 30
_CAPTION = "Measurements as recorded and as they would have been, the effect, and the effect added up, with bands"
_OTHER_PLANT = "Bands cover the error of the estimate, not a plant of another kind than the one learned."
_UNCLEAR = "not clear on average"  # an effect in some rows, whose mean may be zero


def impact_page(impact, title, check=None, notes=()):
    """Page on an :class:`~skfedcausal.estimators.impact.Impact`; each of `notes` speaks against it."""
    whole, *more = re.split(r"(?<=[.!?]) (?=[A-Z])", impact.summary)
    page = Page(title, measures_of(check)).lead(_shortened(whole, int((impact.total["verdict"] == "effect").sum())))
    shown = _clearest(impact.total)
    words = f"recorded and {impact.other}; the effect; the effect added up"
    draw = partial(impact.plot, measures=page.measures)
    pictures = [(partial(draw, column), f"{column}: {words}") for column in shown.head(_PICTURES)]
    for draw, caption in pictures[:1]:
        page.picture(draw, caption)
    page.heading("In total").table(_totals(impact.total)).text(
        whole,
        f"Sums and means over the rows from {impact.window[0]} to {impact.window[1]}, with {impact.confidence:.0%} "
        f"bands: {impact.effect_is}.",
    )
    page.against(
        [
            *dict.fromkeys([*more, *notes]),
            "A change of the plant itself in these rows would not be seen: the plant is taken to be the one learned.",
            "Whatever else happened at the same time acts in both cases and is not part of the effect.",
            _OTHER_PLANT,
        ]
    )
    page.check_first(
        [
            f"The logbook for these rows: did anything else change when {listed_in_words(impact.inputs)} moved?",
            *_timing(impact.total),
            *defects(check),
        ]
    )
    if pictures[1:]:
        page.heading("Other tags")
    for draw, caption in pictures[1:]:
        page.picture(draw, caption)
    add_check(page, check)
    return page


def _shortened(sentence, n_effects):
    """A sentence about several tags cut down to the clearest one and the number of the others."""
    first, *rest = sentence.split("; ")
    return f"{first}; {counted(n_effects - 1, 'other tag')} moved clearly as well." if rest else first


def _clearest(total):
    """Tags whose pictures are shown, those with the clearest effect first."""
    wide = total["mean_high"] - total["mean_low"]
    size = (total["mean"] / wide.where(wide > 0)).abs()
    shown = total["verdict"].isin(_SHOWN)
    return _largest_first(total[shown], size[shown])["column"]


def _largest_first(table, size):
    """Rows with an effect before the others, each by a size."""
    ranked = table.assign(size=size, later=table["verdict"] != "effect")
    return table.loc[ranked.sort_values(["later", "size"], ascending=[True, False], kind="stable").index]


def _totals(total):
    """The table of totals in a reader's words, without columns that are empty."""
    table = pd.DataFrame(
        {
            "tag": total["column"],
            "verdict": total["verdict"],
            "mean": total["mean"],
            "its band": _band(total["mean_low"], total["mean_high"]),
            "total": total["total"],
            "total's band": _band(total["low"], total["high"]),
            "shows from": total["shows"],
            "trust": total["trust"],
        }
    )
    return table.loc[:, [table[name].replace("", pd.NA).notna().any() for name in table]]


def _band(low, high):
    return [f"{a:.3g} to {b:.3g}" if a == a else "" for a, b in zip(low, high, strict=True)]


def _timing(total):
    if (total["verdict"] == SAY_WHEN).any():
        yield "When are the inputs set: before or after the tags of their row are measured? Give `sampled` (--sampled)."


def whatif_page(answer, change, X=None, check=None, notes=()):
    """Page on an answer of ``whatif``; `change` says in words what each input was replaced by.

    `notes` are what was said of the fit and of the answer, such as warnings: each speaks against it.
    """
    table, check = mean_effects(answer), check_of(X, check)
    page = Page("What if", measures_of(X, check)).lead(_answer(table, change, notes))
    columns = table["column"].head(_PICTURES).tolist()
    page.picture(partial(EffectDisplay.from_whatif, answer, columns=columns, measures=page.measures), _CAPTION)
    names = {"column": "tag", "low": "from", "high": "to", "relative": "in standard deviations"}
    page.heading("Mean effect").table(table.head(_MOST_ROWS).rename(columns=names))
    if len(table) > _MOST_ROWS:
        page.text(f"The {len(table) - _MOST_ROWS} tags with the smallest effects are left out.")
    page.text("Effects are in the unit of the tag, and in standard deviations of the tag in this record.")
    page.against(
        [
            *notes,
            "The same disturbances act again, and nothing but the inputs named changes.",
            "Controllers outside the record's units are taken to do what they did.",
            "Inputs beyond the range seen in the fit are extrapolated.",
            _OTHER_PLANT,
        ]
    )
    page.check_first([*_trial(table, change), *defects(check)])
    add_check(page, check)
    return page


def _trial(table, change):
    """What to check on site, in order."""
    names = listed_in_words(change)
    yield f"Are the new values of {names} within limits, interlocks and the range that was run before?"
    clear = table[table["verdict"] == "effect"]["column"].head(2)
    if len(clear):
        yield f"A small trial move of {names}: does {listed_in_words(clear)} follow as shown?"
    yield from _timing(table)


def mean_effects(answer):
    """Mean effect on every tag, its band, and its size beside the tag's scatter; the largest first."""
    bands = answer.assign(low=answer["low"] - answer["factual"], high=answer["high"] - answer["factual"])
    groups = bands.groupby("column", sort=False)
    table = groups[["effect", "low", "high"]].mean()
    spread = groups["factual"].std()
    table["relative"] = table["effect"] / spread.where(spread > 0)
    table["verdict"] = groups["verdict"].first()
    clear = (table["low"] > 0) | (table["high"] < 0)
    table["verdict"] = table["verdict"].mask((table["verdict"] == "effect") & ~clear, _UNCLEAR)
    size = table["relative"].abs().where(table["relative"].notna(), 0.0)
    return _largest_first(table, size).reset_index()


def _answer(table, change, notes=()):
    words = " and ".join(f"{name} {what}" for name, what in change.items())
    clear = table[table["verdict"] == "effect"]
    if clear.empty:
        return f"With {words} no tag would have been clearly different on average."
    best = clear.iloc[0]
    surely = "clearly " * (not notes)
    more = f"; {len(clear)} of {len(table)} tags would have been {surely}different" if len(clear) > 1 else ""
    way = "higher" if best["effect"] > 0 else "lower"
    size = "" if pd.isna(best["relative"]) else f", {abs(best['relative']):.2g} of its standard deviations"
    text = f"{best['column']} would have been {abs(best['effect']):.3g} {way} on average{size}{more}."
    reserve = f"Provisional ({counted(len(notes), 'reservation')} below). " if notes else ""
    return f"{reserve}With {words}, {text}"
