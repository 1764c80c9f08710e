"""Report on a fitted plant: which unit drives which."""

import numpy as np

from ..displays import LinkMatrixDisplay, TransferFunctionDisplay
from ..statespace.matrices import companion, spectral_radius
from .page import Page, add_departures, listed_in_words

_MOST_ROWS = 60
_COLUMNS = ("cause", "effect", "kind", "strength", "stderr", "p_adjusted", "verdict")
_DELAYS = ("delay", "delay_low", "delay_high")


def plant_page(estimator, title="Which unit drives which"):
    """Page on a fitted estimator of links or counterfactuals."""
    links, names = estimator.links_, estimator.client_names_
    page = Page(title).lead(_answer(links, names))
    figure = LinkMatrixDisplay.from_links(links[links["kind"] == "state"], names).figure_
    page.heading("Links").picture(figure, "Strength of every link; ● influence, ? cannot tell")
    ranked = links.sort_values(["p_adjusted", "strength"], ascending=[True, False], kind="stable")
    later = len(estimator.lag_transitions_) > 1
    page.table(ranked[[c for c in _COLUMNS + _DELAYS * later if c in ranked]].head(_MOST_ROWS))
    if len(ranked) > _MOST_ROWS:
        page.text(f"The {len(ranked) - _MOST_ROWS} pairs with the weakest evidence are left out.")
    page.text(
        "Strength: how far one standard deviation of the cause's states moves the effect's states one step later "
        "(Frobenius norm of the block). p_adjusted: chance of evidence as strong without a link, corrected for the "
        "number of pairs."
    )
    if later:
        page.text(
            "Delay: the first time step in which the cause acts, and the ends of the steps that hold it with 90 %. "
            "Strength is then the norm of the blocks of all steps together."
        )
    if hasattr(estimator, "transfer_function"):
        figure = TransferFunctionDisplay.from_transfer_function(estimator.transfer_function()).figure_
        caption = "Poles and zeros; singular values from inputs to sensors over frequency"
        page.heading("Dynamics").picture(figure, caption)
        page.heading("Inputs").table(estimator.excitation_.reset_index())
    page.heading("Why we think so").text(*_method(estimator))
    page.heading("What we do not know").items(_doubts(estimator, links))
    return add_departures(page, estimator)


def _answer(links, names):
    found = links[links["verdict"] == "influence"].sort_values("p_adjusted", kind="stable")
    unsure = int((links["verdict"] == "cannot tell").sum())
    rest = f"for {unsure} of {len(links)} ordered pairs the record cannot tell."
    if found.empty:
        return f"Among {len(names)} units no link could be shown; {rest}"
    pairs = list(dict.fromkeys(f"{link.cause} drives {link.effect}" for link in found.itertuples()))
    text = listed_in_words(pairs) if len(pairs) <= 6 else f"{', '.join(pairs[:6])} and {len(pairs) - 6} more"
    return f"{text}. {rest.capitalize()}" if unsure else f"{text}."


def _method(estimator):
    lags = estimator.lag_transitions_
    radius = float(spectral_radius(companion(np.hstack(list(lags)), len(lags))))
    states = ", ".join(f"{k}: {s.stop - s.start}" for k, s in estimator.state_slices_.items())
    yield f"Every unit was described by a few states of its own ({states});"
    yield f"a {type(estimator.server_).__name__} learned from messages how these states drive each other."
    if len(lags) > 1:
        yield f"Units act on each other over up to {len(lags)} time steps: one was not enough for this record."
    yield f"The slowest mode of the plant keeps {radius:.1%} of itself from one step to the next."


def _doubts(estimator, links):
    yield (
        "A link means that the past of one unit helps to predict another beyond its own past. An "
        "unmeasured cause of both, a level shift or a clock that is off looks the same."
    )
    yield "Links faster than one time step show as correlated noise, not as links."
    unsure = links[links["verdict"] == "cannot tell"]
    if len(unsure):
        pairs = [f"{link.cause} on {link.effect}" for link in unsure.itertuples()]
        more = f" and {len(pairs) - 8} more" if len(pairs) > 8 else ""
        yield f"Neither shown nor excluded: {', '.join(pairs[:8])}{more}."
    if not getattr(estimator.server_, "converged_", True):
        yield "The fit had not converged."
    if getattr(estimator.server_, "has_prior_", False):
        yield "The plant is nearly degenerate: single links are unreliable."
