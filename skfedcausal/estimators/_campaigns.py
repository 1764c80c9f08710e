"""Nominal records of several campaigns, episodes that each have a level of their own."""

import warnings

from ..containers.layout import listed
from ..containers.rows import at_one_level
from ..server.watching.operating import SETTLING


def fit_campaigns(detector, plant, levels=None):
    """Fit a detector to campaigns at one level, and let it know the levels that they have.

    `levels` are the numbers of the levels of the episodes, None where each has its own.
    """
    if detector.evidence == "flags":
        raise ValueError("levels='episode' needs the levels of states; fit with evidence='innovations'.")
    short = [k for k, n_rows in enumerate(plant.lengths) if n_rows <= SETTLING]
    if short and levels is None:
        raise ValueError(
            f"Episodes {listed(map(str, short))} have at most {SETTLING} rows, too few for a level of their own. Give "
            "longer ones, or leave `levels` out."
        )
    detector._fit_units(at_one_level(plant, levels))
    with detector._asking_about(plant.only(detector.client_names_)) as units:
        detector._root_cause.know(units.messages(), levels)
    return detector


def with_visited(detector, plant=None):
    """A fitted detector that knows the levels its record visits, where they can be learned from; they are told."""
    stretches, before = detector._root_cause.visited, detector.__dict__.copy()
    limits = detector.client, detector.mode, detector.privacy, detector.max_bytes
    done = "Nothing was done about that here, and a switch may be an incident."
    if plant is not None and all(limit is None for limit in limits):
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "One false alarm per")  # said of the whole record
                fit_visited(detector, plant, stretches)
            done = "They are taken for nominal operating points: a switch between them is no incident."
        except ValueError as error:  # at one level units may be too short, or not to be told apart
            tried, detector.__dict__ = detector._account, before
            _count_in(detector, tried, plant)
            done = f"A switch may be an incident, as the detector cannot be fitted to what is between them: {error}"
    warn_of_levels(stretches, done)
    return detector


def fit_visited(detector, plant, stretches):
    """Fit a fitted detector again to stretches of its record at levels of their own; the ledger goes on."""
    before = detector.ledger_
    kept = plant.stretches([(s.start, s.stop) for s in stretches])
    fit_campaigns(detector, kept, [s.level for s in stretches])
    detector._root_cause.visited = stretches
    account, detector.ledger_ = detector.ledger_, before
    _count_in(detector, account, plant)
    return detector


def _count_in(detector, account, plant):
    """Let a detector's account go on with another one."""
    account.begin_with(detector.ledger_)
    detector.ledger_ = account
    detector.communication_ = account.communication(plant.unit_bytes)


def warn_of_levels(stretches, done):
    """Tell of the levels that a nominal record visits, and what was done about them."""
    where = "; ".join(f"rows {s.start} to {s.stop - 1} at level {s.level + 1}" for s in stretches)
    warnings.warn(
        f"The nominal record shifts between levels: {where}. {done} Tell of them by `mode`, `inputs` or "
        "levels='episode', or give levels=None if they are none.",
        stacklevel=6,
    )
