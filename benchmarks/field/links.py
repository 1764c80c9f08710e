"""Which unit drives which: ranking of all pairs, and links found at one budget of false ones."""

import numpy as np
from sklearn.metrics import roc_auc_score

from .methods import judged
from .plants import link_case

TITLE = "Field: links"
TEXT = (
    "Regimes {regimes}, {n_units} units of {n_sensors} sensors, {n_samples} rows, plants {plants}. AUROC "
    "ranks all ordered pairs. Found: share of the true links whose score exceeds what a share of {budget} "
    "of the pairs of twin plants without links reach, the same budget for every method. Methods and how to "
    "add one: `benchmarks/field/methods.py`."
)


def one(function, s, regime):
    """Ranking and links found by a method in a regime."""
    pairs = ~np.eye(s["n_units"], dtype=bool)
    told, alone, truth = [], [], []
    for seed in s["plants"]:
        case, twin = link_case(s, regime, seed), link_case(s, regime, seed, linked=False)
        told.append(function(case)[pairs])
        alone.append(function(twin)[pairs])
        truth.append(case.plant.linked[pairs])
    areas = [roc_auc_score(t, score) for t, score in zip(truth, told, strict=True)]
    threshold = np.quantile(np.concatenate(alone), 1 - s["budget"])
    told, truth = np.concatenate(told), np.concatenate(truth)
    return {
        "AUROC": np.mean(areas),
        "found": (told[truth] > threshold).mean(),
        "false": (told[~truth] > threshold).mean(),
    }


def figures(s):
    """A section with every regime and method."""
    return {"Links": judged("links", s, one)}
