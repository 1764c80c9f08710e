"""What another unit's input does: error of the effect on all sensors over ten steps."""

import numpy as np

from .methods import judged
from .plants import link_case, true_effect

TITLE = "Field: effects"
TEXT = (
    "Regimes {regimes}, {n_units} units of {n_sensors} sensors with one input each, {n_samples} rows, "
    "plants {plants}. The input of unit 0 is one unit higher from now on; relative error of the change of "
    "the sensors of the *other* units over {horizon} steps, which is the part that no unit can learn at "
    "home, and of all sensors."
)


def errors(function, s, regime, seed):
    """Relative errors: other units, all units."""
    case = link_case(s, regime, seed)
    found, truth = function(case, 0, s["horizon"]), true_effect(case.plant, 0, s["horizon"])
    first = s["n_sensors"]
    return [np.linalg.norm((found - truth)[:, k:]) / np.linalg.norm(truth[:, k:]) for k in (first, 0)]


def one(function, s, regime):
    """Median errors over the plants."""
    others, everything = np.median([errors(function, s, regime, k) for k in s["plants"]], axis=0)
    return {"other units": others, "all units": everything}


def figures(s):
    """A section with every regime and method."""
    return {"Effects": judged("effects", s, one)}
