"""What a server may be told: likelihoods, covariances, corrections, knowledge, rounds, shifts, remedies."""

import numpy as np

from skfedcausal import Communication

from ..plants import Plant, Record, at_sites
from .common import (
    ABOUT,
    LEARNED,
    ask,
    ask_nothing,
    gappy,
    granger,
    likelihood,
    made,
    record,
    units_of,
)

SHORT = {**LEARNED, "test_links": ask("test_links"), "link_intervals": ask_nothing("link_intervals")}


def _short():
    return record(n_samples=500)


def _of_server(name, questions=SHORT, data=_short, ways=None, **settings):
    """A plant whose server is told something."""
    return Plant(name, made(granger, server=likelihood(**settings)), data, questions, ABOUT, ways or {})


def _shifted():
    """Two units switch to another level, the second unit back again."""
    found = record(n_samples=900)
    found.X["unit0"][500:] += 3.0 * found.X["unit0"].std(axis=0)
    found.X["unit1"][300:600] += 2.0 * found.X["unit1"].std(axis=0)
    return found


def _seasonal():
    """The sensors of a unit have a season and a trend that no state of the plant has."""
    found, rows = record(n_samples=900), np.arange(900)[:, None]
    found.X["unit0"] += 4.0 * np.sin(2 * np.pi * rows / 24) + 0.002 * rows
    return found


def _wandering():
    """The sensors of a unit are random walks beside their noise."""
    found, rng = record(n_samples=900), np.random.default_rng(2)
    found.X["unit1"] += 0.2 * np.cumsum(rng.standard_normal(found.X["unit1"].shape), axis=0)
    return found


def _heavy_tails():
    """Noise whose variance changes from row to row."""
    found, rng = record(n_samples=700), np.random.default_rng(3)
    for Y in found.X.values():
        Y *= 0.5 + rng.random((len(Y), 1)) ** 3 * 4.0
    return found


PLANTS = [
    _of_server("likelihood of the time domain", data=lambda: record(n_samples=250), likelihood="time-domain"),
    _of_server("time domain with gaps", LEARNED, lambda: gappy(record(n_samples=250)), likelihood="time-domain"),
    _of_server("covariance of scores", {**LEARNED, "test_links": ask("test_links", method="wald")}, covariance="hac"),
    _of_server("units' own blocks fixed", {**LEARNED, "link_intervals": SHORT["link_intervals"]}, fix_local=True),
    _of_server("no sparsity", sparsity=None),
    _of_server(
        "false discovery rate",
        {**SHORT, "link_effects": ask_nothing("link_effects")},
        correction="fdr",
        shrink=False,
        level_shifts=None,
    ),
    _of_server("family-wise", {"plant": LEARNED["plant"]}, correction="family-wise", alpha=0.01),
    _of_server("three rounds", n_rounds=3, questions={**SHORT, "predict": ask("predict")}, ways={"at sites": at_sites}),
    _of_server("known links", forbidden="unit0 -> unit2", required=["unit1 -> unit2"]),
    _of_server(
        "benefit held out",
        {**SHORT, "benefit_": lambda fitted: fitted.estimator.benefit_},
        held_out=0.3,
        ways={"at sites": at_sites},
    ),
    _of_server(
        "level shifts",
        {
            **LEARNED,
            "transform": ask("transform"),
            "predict": ask("predict"),
            "test_links": ask("test_links"),
            "forecast": ask("forecast", start=800, confidence=0.9),
        },
        _shifted,
        {"at sites": at_sites},
    ),
    Plant("remedy of a season", made(granger, remedy="auto"), _seasonal, LEARNED, ABOUT | {"units": units_of}),
    Plant("remedy of wandering sensors", made(granger, remedy="auto"), _wandering, LEARNED, ABOUT),
    Plant("remedy of levels", made(granger, remedy="auto"), _shifted, LEARNED, ABOUT),
    Plant("remedy of uneven noise", made(granger, remedy="auto"), _heavy_tails, LEARNED, ABOUT),
    Plant(
        "single precision on the wire",
        made(granger, communication=Communication(wire_dtype="float32")),
        _short,
        {**LEARNED, "predict": ask("predict")},
        ABOUT,
    ),
    Plant(
        "half precision on the wire",
        made(granger, communication=Communication(wire_dtype="float16")),
        lambda: Record(_short().X),
        {**LEARNED, "predict": ask("predict")},
        ABOUT,
    ),
]
