"""Nominal records of several campaigns, episodes that each have a level of their own."""

from dataclasses import replace

import numpy as np

from ..containers.layout import listed
from ..server.watching.operating import SETTLING
from ..statespace.episodes import episodes


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


def at_one_level(plant):
    """A record whose episodes all have the level of the first one."""
    return replace(plant, outputs=tuple(_at_first_level(Y, plant.starts) for Y in plant.outputs))


def _at_first_level(Y, starts):
    """Measurements of a unit with the mean of each sensor in the first episode in which it is there."""
    moved, first = np.array(Y, dtype=float), np.full(Y.shape[1], np.nan)
    for start, stop in episodes(starts, len(Y)):
        there = np.isfinite(Y[start:stop])
        level = np.where(there, Y[start:stop], 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        first = np.where(np.isnan(first) & there.any(axis=0), level, first)
        moved[start:stop] += np.nan_to_num(first) - level
    return moved
