"""Report on a fitted plant: which unit drives which."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ..displays import LinkGraphDisplay, LinkMatrixDisplay, TransferFunctionDisplay
from ..server.links.grades import MEASURED, TOLD, WORTH, told_links
from ..server.responses.runs import radius_of
from .page import (
    add_check,
    add_departures,
    add_trends,
    begun_page,
    check_of,
    counted,
    defects,
    listed_in_words,
    percent,
)
from .tuning import TUNING

_MOST_ROWS, _FIRST_ROWS, _MOST_NAMED = 60, 12, 4
_COLUMNS = ("cause", "effect", "kind", "verdict", "norm", "stderr", "p_adjusted", "because")
_ADJUSTED = {
    None: "probability of evidence this strong without a link, corrected for the number of pairs",
    "family-wise": "probability that any pair without a link shows evidence this strong",
    "fdr": "share of false links among all found at this strength of evidence (false discovery rate)",
}
_GRADES = (
    "Share: how much of the effect's unpredicted variation (what its own past and the other units leave) the cause's "
    "past predicts on held-out segments of the record, with 90% bounds on either side; summed over the states "
    "of a unit, so it can exceed 100%. Coupled: linked, but a common driver or a link in both directions would "
    "explain it as well."
)
_DELAYS = ("delay", "delay_low", "delay_high")


def plant_page(estimator, title="Which unit drives which", X=None, check=None, notes=()):
    """Page on a fitted estimator of links or counterfactuals; the record is for its check and its trends.

    `notes` are what was said of the fit, such as warnings: each speaks against the answer.
    """
    links, names = estimator.links_, estimator.client_names_
    page, X, check = begun_page(title, estimator, X, check)
    check = check_of(X, check)
    reserves = list(_reserves(estimator, check))
    page.lead(_answer(links, names, reserves))
    states = links[links["kind"] == "state"]
    if states["verdict"].isin(TOLD).any():
        draw: Any = partial(LinkGraphDisplay.from_links, states, names)
        page.picture(draw, "Links found, as wide as they are strong. Blue: influence; grey: coupled", narrows=False)
    page.heading("Links")
    correction = _ADJUSTED[getattr(estimator.server_, "correction_", None)]
    _add_links(page, ranked_links(links), len(estimator.lag_transitions_) > 1, correction)
    page.picture(
        partial(LinkMatrixDisplay.from_links, states, names),
        "Strength of every link. ● influence, ◆ coupled, ? cannot tell, ◇ shared driver, white: none",
    )
    page.against([*_doubts(links, reserves), *notes])
    page.check_first([*_steps(links), *defects(check)])
    if hasattr(estimator, "transfer_function"):
        draw = partial(TransferFunctionDisplay.from_transfer_function, estimator.transfer_function())
        caption = "Poles and zeros; singular values from inputs to sensors over frequency"
        page.heading("Dynamics").picture(draw, caption)
        page.heading("Inputs").table(estimator.excitation_.reset_index())
    page.heading("Why we think so").text(*_method(estimator))
    _add_checks(page, estimator)
    add_check(page, check)
    add_trends(page, X, "As measured, one tag of each unit", units=_shown(links, names))
    return add_departures(page, estimator)


def ranked_links(links):
    """A table of links, the clearest evidence first."""
    order = [name for name in ("evidence", "p_adjusted") if name in links]
    return links.sort_values(order, ascending=[name != "evidence" for name in order], kind="stable", na_position="last")


def _add_links(page, ranked, later, correction):
    """Links that were found, with what speaks against each, and all pairs in a table to open."""
    told = told_links(ranked)
    graded = told[told["strength"].notna()] if "strength" in told else told.iloc[:0]
    if len(graded):
        graded = graded.sort_values("verdict", key=lambda grade: grade != "influence", kind="stable")
        page.table(graded_table(graded.iloc[:_FIRST_ROWS]))
        if len(graded) > _FIRST_ROWS:
            page.table(graded_table(graded.iloc[_FIRST_ROWS:]), folded=f"{len(graded) - _FIRST_ROWS} more links")
        page.text(_GRADES, WORTH)
    columns = [c for c in _COLUMNS + _DELAYS[:1] * later if c in ranked]
    pairs = f"The first {_MOST_ROWS} of {len(ranked)} pairs" if len(ranked) > _MOST_ROWS else f"All {len(ranked)} pairs"
    shown = ranked.head(_MOST_ROWS)
    if later:
        ends = shown[list(_DELAYS)].itertuples(index=False)
        shown = shown.assign(delay=[f"{a:.0f} ({b:.0f} to {c:.0f})" if a == a else "" for a, b, c in ends])
    page.table(shown[columns], folded=f"{pairs}, with the likelihood tests")
    delay = "Delay: the first time step in which the cause acts, with its 90% interval; the norm covers all steps."
    page.text(
        "Norm: how far one standard deviation of the cause's states moves the effect's states one step later "
        f"(Frobenius norm of the block). p_adjusted: {correction}.",
        *[delay] * later,
    )


def graded_table(links):
    """Graded links as a person reads them: shares in per cent with a bar and an interval."""
    share = links["strength"].clip(lower=0)
    whole = max(1.0, share.max())  # of units of several states there is more than one
    return pd.DataFrame(
        {
            "link": links["cause"].astype(str) + " → " + links["effect"].astype(str),
            "verdict": links["verdict"],
            "share": [f"{s:.0%} {'█' * max(1, round(TUNING.plant_bar * s / whole))}" for s in share],
            "interval": [f"{max(a, 0):.1%} to {b:.1%}" for a, b in zip(links["low"], links["high"], strict=True)],
            "rows later": links["lag"].astype(int),
            "evidence": links["basis"],
            "what speaks against it": links["because"],
        }
    )


def _add_checks(page, estimator):
    """What was checked of the assumptions, and what did not hold."""
    table = getattr(estimator.server_, "validity_", None)
    if table is None or table.empty:
        return
    failed = table[~table["passed"]]
    page.heading("What was checked")
    kinds = listed_in_words(dict.fromkeys(table["check"]))
    page.text(
        f"{counted(len(table), 'check')} of what the verdicts assume ({kinds}); "
        + (f"{len(failed)} failed; verdicts there do not rest on the likelihood:" if len(failed) else "all passed.")
    )
    if len(failed):
        page.table(_by_check(failed))
        page.table(failed.drop(columns="passed").head(_MOST_ROWS), folded="Every failed check")


def _by_check(failed):
    """Checks that failed, a row each: where, and what would remedy it."""
    rows = []
    for check, own in failed.groupby("check", sort=False):
        alone = own["cause"] == own["effect"]
        where = dict.fromkeys(own["cause"].where(alone, own["cause"] + " → " + own["effect"]))
        remedies = dict.fromkeys(text for text in own["remedy"] if text)
        rows.append((check, len(own), _first_of(where), _first_of(remedies, 2)))
    return pd.DataFrame(rows, columns=["check", "failed", "where", "remedy"])


def _first_of(texts, most=_MOST_NAMED):
    """The first few of many texts in words."""
    texts = list(texts)
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return f"{', '.join(texts[:most])}{more}"


def _reserves(estimator, check):
    """What speaks against the fit or its data as a whole, in half-sentences; empty if nothing does."""
    told = told_links(estimator.links_)
    if told.empty or not told.get("basis", told["verdict"]).isin(MEASURED).all():
        yield from _reserves_of_likelihood(estimator)
    if check is not None and check.fix_first:
        yield f"the data have {counted(len(check.fix_first), 'defect')} to fix first"


def _reserves_of_likelihood(estimator):
    """What speaks against verdicts that rest on the likelihood of the plant."""
    server, because = estimator.server_, estimator.links_.get("because")
    if not getattr(server, "converged_", True):
        yield "the fit did not converge"
    if _is_degenerate(estimator):
        yield "the plant is nearly degenerate, so single links are unreliable"
    if because is not None and because.str.contains("drift").any():
        yield "units drift, and drifting units look linked"
    if getattr(server, "filled_", False):
        yield "the record was too long for the exact likelihood of its gaps"


def _is_degenerate(estimator):
    """Whether noise that units share, or a mode that hardly decays, leaves little to tell links by."""
    if not getattr(estimator.server_, "has_prior_", False):
        return False
    Q = estimator.server_.process_cov_
    scale = np.sqrt(np.diag(Q))
    shared = np.linalg.eigvalsh(Q / np.outer(scale, scale))[0] < TUNING.plant_singular
    return bool(shared or radius_of(estimator.lag_transitions_) > TUNING.plant_unit_root)


def _answer(links, names, reserves=()):
    found, coupled = (ranked_links(links[links["verdict"] == told]) for told in TOLD)
    unsure = links[links["verdict"] == "cannot tell"]
    verb = "seems to drive" if reserves else "drives"
    pairs = list(dict.fromkeys(f"{link.cause} {verb} {link.effect}" for link in found.itertuples()))
    said = [f"No influence could be shown among {len(names)} units{_strongest(unsure)}"]
    if pairs:
        said = [listed_in_words(pairs) if len(pairs) <= 6 else _first_of(pairs, 6)]
    if len(coupled):
        both = dict.fromkeys(" and ".join(sorted((link.cause, link.effect))) for link in coupled.itertuples())
        more = f"; {len(both) - 3} more" if len(both) > 3 else ""
        said.append(f"Coupled, direction open: {'; '.join(list(both)[:3])}{more}")
    if len(unsure):
        said.append(f"Undecided: {len(unsure)} of {len(links)} ordered pairs")
    text = ". ".join(f"{one[0].upper()}{one[1:]}" if k else one for k, one in enumerate(said))
    return f"Provisional ({'; '.join(reserves)}): {text}." if reserves else f"{text}."


def _strongest(unsure):
    """The undecided pairs with the strongest evidence, as an aside; empty where none has any."""
    if "strength" not in unsure:
        return ""
    ranked = unsure[unsure["strength"] > 0].sort_values("strength", ascending=False, kind="stable")
    pairs = [f"{link.cause} → {link.effect}" for link in ranked.head(3).itertuples()]
    return f"; strongest evidence: {', '.join(pairs)}" if pairs else ""


def _steps(links):
    """What to check on site, in order."""
    found, coupled = (ranked_links(links[links["verdict"] == told]) for told in TOLD)
    for link in found.head(2).itertuples():
        yield f"Does a pipe, a shaft, a signal or a controller lead from {link.cause} to {link.effect}?"
    for link in coupled.head(1).itertuples():
        yield (
            f"{link.cause} and {link.effect}: is there a common driver (load, weather, operator) with a tag that could "
            "be added, or a shorter time step to see which moves first?"
        )
    if found.empty and coupled.empty:
        yield "Is the time step short enough, and is there a record in which set points were moved?"


def _shown(links, names):
    """Units whose measurements are shown: those of the clearest links first."""
    found = ranked_links(links[links["verdict"].isin(TOLD) & (links["kind"] == "state")])
    linked = found[["cause", "effect"]].to_numpy().ravel().tolist()
    return list(dict.fromkeys([*linked, *names]))[:6]


def _method(estimator):
    lags = estimator.lag_transitions_
    states = ", ".join(f"{k}: {s.stop - s.start}" for k, s in estimator.state_slices_.items())
    yield f"Each unit is described by a few states of its own ({states});"
    yield f"a {type(estimator.server_).__name__} learned from messages how these states drive each other."
    if len(lags) > 1:
        yield f"Units act on each other over up to {len(lags)} time steps: one was not enough for this record."
    yield f"The slowest mode of the plant keeps {percent(radius_of(lags))} of its value from one step to the next."


def _doubts(links, reserves):
    yield (
        "A link means that the past of one unit helps to predict another beyond its own past. An "
        "unmeasured common cause, a level shift or a wrong clock looks the same."
    )
    yield "Links faster than one time step appear as correlated noise, not as links."
    unsure = ranked_links(links[links["verdict"] == "cannot tell"])
    if len(unsure):
        pairs = [f"{link.cause} on {link.effect}" for link in unsure.itertuples()]
        yield f"Neither shown nor excluded: {_first_of(pairs, 8)}."
    yield from (f"{text[0].upper()}{text[1:]}." for text in reserves)
