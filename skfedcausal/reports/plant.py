"""Report on a fitted plant: which unit drives which."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ..displays import LinkGraphDisplay, LinkMatrixDisplay, TransferFunctionDisplay
from ..server.links.grades import MEASURED, TOLD, WORTH, told_links
from ..server.responses.runs import radius_of
from .page import add_departures, begun_page, listed_in_words
from .record import add_check, add_trends, check_of

_MOST_ROWS = 60
_SINGULAR = 0.1  # smallest eigenvalue of the correlations of process noise, and
_UNIT_ROOT = 0.999  # radius, beyond which a plant that needed a prior is nearly degenerate
_COLUMNS = ("cause", "effect", "kind", "verdict", "norm", "stderr", "p_adjusted", "because")
_BAR = 12  # letters of a bar of the whole news
_ADJUSTED = {
    None: "chance of evidence as strong without a link, corrected for the number of pairs",
    "family-wise": "chance that any pair without a link shows evidence as strong",
    "fdr": "share of false influences among all that are found with evidence as strong (false discovery rate)",
}
_DELAYS = ("delay", "delay_low", "delay_high")


def plant_page(estimator, title="Which unit drives which", X=None, check=None):
    """Page on a fitted estimator of links or counterfactuals; the record is for its check and its trends."""
    links, names = estimator.links_, estimator.client_names_
    page, X, check = begun_page(title, estimator, X, check)
    check = check_of(X, check)
    reserves = list(_reserves(estimator, check))
    page.lead(_answer(links, names, reserves))
    states = links[links["kind"] == "state"]
    if states["verdict"].isin(TOLD).any():
        draw: Any = partial(LinkGraphDisplay.from_links, states, names)
        page.picture(draw, "Influences that were found, as wide as they are strong; grey: coupled")
    page.heading("Links").picture(
        partial(LinkMatrixDisplay.from_links, states, names),
        "Strength of every link; ● influence, ◆ coupled, ? cannot tell, ◇ shared driver, white: nothing",
    )
    _add_links(page, ranked_links(links), len(estimator.lag_transitions_) > 1)
    page.text(
        "Norm: how far one standard deviation of the cause's states moves the effect's states one step later "
        f"(Frobenius norm of the block). p_adjusted: {_ADJUSTED[getattr(estimator.server_, 'correction_', None)]}."
    )
    if hasattr(estimator, "transfer_function"):
        draw = partial(TransferFunctionDisplay.from_transfer_function, estimator.transfer_function())
        caption = "Poles and zeros; singular values from inputs to sensors over frequency"
        page.heading("Dynamics").picture(draw, caption)
        page.heading("Inputs").table(estimator.excitation_.reset_index())
    page.heading("Why we think so").text(*_method(estimator))
    _add_checks(page, estimator)
    add_check(page, check)
    add_trends(page, X, "As measured, one tag of each unit", units=_shown(links, names))
    page.heading("What we do not know").items(_doubts(links, reserves))
    return add_departures(page, estimator)


def ranked_links(links):
    """A table of links, the clearest evidence first."""
    order = [name for name in ("evidence", "p_adjusted") if name in links]
    return links.sort_values(order, ascending=[name != "evidence" for name in order], kind="stable", na_position="last")


def _add_links(page, ranked, later):
    """Links that are told, with what speaks against each, and all pairs in a table to open."""
    told = told_links(ranked)
    graded = told[told["strength"].notna()] if "strength" in told else told.iloc[:0]
    if len(graded):
        page.table(graded_table(graded).head(_MOST_ROWS))
        page.text(
            "Share: of what the effect's own past and the other units leave unpredicted, how much the cause's past "
            "tells on stretches of the record that were left out, with the ends of its interval; of a unit of several "
            "states the sum over their directions, which may be more than 100 %. Coupled: linked, but "
            "a driver of both, or a link both ways, explains it as well.",
            WORTH,
        )
    columns = [c for c in _COLUMNS + _DELAYS * later if c in ranked]
    folded = f"All {len(ranked)} pairs, with the tests of the likelihood" if len(graded) else None
    page.table(ranked[columns].head(_MOST_ROWS), folded=folded)
    if len(ranked) > _MOST_ROWS:
        page.text(f"The {len(ranked) - _MOST_ROWS} pairs with the weakest evidence are left out.")
    if later:
        page.text(
            "Delay: the first time step in which the cause acts, and the ends of the steps that hold it with 90 %. "
            "The norm is then that of the blocks of all steps together."
        )


def graded_table(links):
    """Graded links as a person reads them: shares in per cent with a bar."""
    share = links["strength"].clip(lower=0)
    whole = max(1.0, share.max())  # of units of several states there is more than one
    return pd.DataFrame(
        {
            "cause": links["cause"],
            "effect": links["effect"],
            "verdict": links["verdict"],
            "share": [f"{100 * s:.0f} % {'█' * max(1, round(_BAR * s / whole))}" for s in share],
            "from, to": [
                f"{100 * max(a, 0):.1f}, {100 * b:.1f} %" for a, b in zip(links["low"], links["high"], strict=True)
            ],
            "later by rows": links["lag"].astype(int),
            "rests on": links["basis"],
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
    page.text(
        f"{len(table)} checks of what the verdicts assume ({listed_in_words(list(dict.fromkeys(table['check'])))}); "
        + (f"{len(failed)} failed, and verdicts do not rest on the likelihood there:" if len(failed) else "all passed.")
    )
    if len(failed):
        page.table(failed.drop(columns="passed").head(_MOST_ROWS))


def _reserves(estimator, check):
    """What speaks against the fit or its data as a whole, in half-sentences; empty if nothing does."""
    told = told_links(estimator.links_)
    if told.empty or not told.get("basis", told["verdict"]).isin(MEASURED).all():
        yield from _reserves_of_likelihood(estimator)
    if check is not None and check.fix_first:
        yield f"the data have {_number(len(check.fix_first), 'defect')} to be put right first"


def _reserves_of_likelihood(estimator):
    """What speaks against verdicts that rest on the likelihood of the plant."""
    server, because = estimator.server_, estimator.links_.get("because")
    if not getattr(server, "converged_", True):
        yield "the fit had not converged"
    if _is_degenerate(estimator):
        yield "the plant is nearly degenerate, so that single links are unreliable"
    if because is not None and because.str.contains("drift").any():
        yield "units drift, and drifting units seem to drive each other"
    if getattr(server, "filled_", False):
        yield "the record was too long for the exact likelihood of its gaps"


def _is_degenerate(estimator):
    """Whether noise that units share, or a mode that hardly decays, leaves little to tell links by."""
    if not getattr(estimator.server_, "has_prior_", False):
        return False
    Q = estimator.server_.process_cov_
    scale = np.sqrt(np.diag(Q))
    shared = np.linalg.eigvalsh(Q / np.outer(scale, scale))[0] < _SINGULAR
    return bool(shared or radius_of(estimator.lag_transitions_) > _UNIT_ROOT)


def _number(count, word):
    return f"{count} {word}{'s' * (count != 1)}"


def _answer(links, names, reserves=()):
    found, coupled = (ranked_links(links[links["verdict"] == told]) for told in TOLD)
    unsure = int((links["verdict"] == "cannot tell").sum())
    rest = f"for {unsure} of {len(links)} ordered pairs the record cannot tell."
    if len(coupled):
        pairs = [f"{link.cause} with {link.effect}" for link in coupled.itertuples()]
        more = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
        rest = f"coupled, in whichever way: {', '.join(pairs[:3])}{more}; {rest}"
    if found.empty:
        text = f"Among {len(names)} units no influence could be shown; {rest}"
    else:
        verb = "seems to drive" if reserves else "drives"
        pairs = list(dict.fromkeys(f"{link.cause} {verb} {link.effect}" for link in found.itertuples()))
        text = listed_in_words(pairs) if len(pairs) <= 6 else f"{', '.join(pairs[:6])} and {len(pairs) - 6} more"
        text = f"{text}. {rest[0].upper()}{rest[1:]}" if unsure or len(coupled) else f"{text}."
    return f"With reserve, as {listed_in_words(reserves)}: {text}" if reserves else text


def _shown(links, names):
    """Units whose measurements are shown: those of the clearest links first."""
    found = ranked_links(links[links["verdict"].isin(TOLD) & (links["kind"] == "state")])
    linked = found[["cause", "effect"]].to_numpy().ravel().tolist()
    return list(dict.fromkeys([*linked, *names]))[:6]


def _method(estimator):
    lags = estimator.lag_transitions_
    states = ", ".join(f"{k}: {s.stop - s.start}" for k, s in estimator.state_slices_.items())
    yield f"Every unit was described by a few states of its own ({states});"
    yield f"a {type(estimator.server_).__name__} learned from messages how these states drive each other."
    if len(lags) > 1:
        yield f"Units act on each other over up to {len(lags)} time steps: one was not enough for this record."
    yield f"The slowest mode of the plant keeps {radius_of(lags):.1%} of itself from one step to the next."


def _doubts(links, reserves):
    yield (
        "A link means that the past of one unit helps to predict another beyond its own past. An "
        "unmeasured cause of both, a level shift or a clock that is off looks the same."
    )
    yield "Links faster than one time step show as correlated noise, not as links."
    unsure = ranked_links(links[links["verdict"] == "cannot tell"])
    if len(unsure):
        pairs = [f"{link.cause} on {link.effect}" for link in unsure.itertuples()]
        more = f" and {len(pairs) - 8} more" if len(pairs) > 8 else ""
        yield f"Neither shown nor excluded: {', '.join(pairs[:8])}{more}."
    yield from (f"{text[0].upper()}{text[1:]}." for text in reserves)
