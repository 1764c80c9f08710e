"""Where a fault began: share of faults whose root is named, the onset being known to every method."""

import numpy as np

from .methods import judged
from .plants import root_case

TITLE = "Field: roots"
TEXT = (
    "Regimes {regimes}, {n_units} units of {n_sensors} sensors, {n_samples} nominal rows, plants {plants}; "
    "faults of size {size} at one unit over {length} steps every {every} steps of a record of {n_test}. All "
    "methods know the windows and give one name for each, so that no threshold decides: right, and named at "
    "all."
)


def one(function, s, regime):
    """Share of faults named right, and named at all."""
    right, named = [], []
    for seed in s["plants"]:
        case = root_case(s, regime, seed)
        answers = np.array(function(case))
        right.append((answers == np.array(case.roots)).mean())
        named.append((answers != "").mean())
    return {"right": np.mean(right), "named": np.mean(named)}


def figures(s):
    """A section with every regime and method."""
    return {"Roots": judged("roots", s, one)}
