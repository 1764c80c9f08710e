"""Nominal records of several campaigns, episodes that each have a level of their own."""

import warnings

from ..containers.layout import listed
from ..containers.levels import at_one_level
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
    stretches = detector._root_cause.visited
    limits = detector.client, detector.mode, detector.privacy, detector.max_bytes
    taken = plant is not None and all(limit is None for limit in limits)
    warn_of_levels(stretches, taken)
    return fit_visited(detector, plant, stretches) if taken else detector


def fit_visited(detector, plant, stretches):
    """Fit a fitted detector again to stretches of its record at levels of their own; the ledger goes on."""
    before = detector.ledger_
    kept = plant.stretches([(s.start, s.stop) for s in stretches])
    fit_campaigns(detector, kept, [s.level for s in stretches])
    detector._root_cause.visited = stretches
    detector.ledger_.begin_with(before)
    detector.communication_ = detector.ledger_.communication(plant.unit_bytes)
    return detector


def warn_of_levels(stretches, taken):
    """Tell of the levels that a nominal record visits, which were taken for operating points or not."""
    where = "; ".join(f"rows {s.start} to {s.stop - 1} at level {s.level + 1}" for s in stretches)
    done = "They are taken for nominal operating points: a switch between them is no incident."
    if not taken:
        done = "Nothing was done about that here, and a switch may be an incident."
    warnings.warn(
        f"The nominal record shifts between levels: {where}. {done} Tell of them by `mode`, `inputs` or "
        "levels='episode', or give levels=None if they are none.",
        stacklevel=6,
    )
