"""Nominal records of several campaigns, episodes that each have a level of their own."""

from ..containers.layout import listed
from ..containers.levels import at_one_level
from ..server.watching.operating import SETTLING


def fit_campaigns(detector, plant):
    """Fit a detector to campaigns at one level, and let it know the levels that they have."""
    if detector.evidence == "flags":
        raise ValueError("levels='episode' needs the levels of states; fit with evidence='innovations'.")
    short = [k for k, n_rows in enumerate(plant.lengths) if n_rows <= SETTLING]
    if short:
        raise ValueError(
            f"Episodes {listed(map(str, short))} have at most {SETTLING} rows, too few for a level of their own. Give "
            "longer ones, or leave `levels` out."
        )
    detector._fit_units(at_one_level(plant))
    with detector._asking_about(plant.only(detector.client_names_)) as units:
        detector._root_cause.know(units.messages())
    return detector
