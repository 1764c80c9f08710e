"""Plants of many units: learned in blocks, with gaps, inputs and watching; screening of pairs beyond 200 units."""

from ..plants import Plant, at_sites
from .common import (
    ABOUT,
    LEARNED,
    ask,
    ask_nothing,
    counterfactual,
    detector,
    faulty,
    gappy,
    granger,
    likelihood,
    made,
    record,
)
from .watching import WATCHED

_FEW = {"n_sensors": 3, "n_states": 1, "links": None}
_LINKS = {
    **LEARNED,
    "test_links by scores": ask("test_links", method="score"),
    "predict": ask("predict"),
    "forecast": ask("forecast", start=300),
    "transform": ask("transform"),
    "score_samples": ask("score_samples"),
    "benefit": ask("benefit"),
    "link_effects": ask_nothing("link_effects"),
    "link_intervals": ask_nothing("link_intervals"),
    "spectrum": ask_nothing("spectrum", "unit0", "unit1", n_frequencies=8),
}
_EFFECTS = {
    **LEARNED,
    "counterfactual": ask_nothing("counterfactual", "unit0", 0.0, 1.0, horizon=4, return_std=True),
    "whatif": ask("whatif", do={"unit0__u0": 0.0}),
    "gain_table": ask_nothing("gain_table"),
    "predict": ask("predict"),
    "test_links by scores": ask("test_links", method="score"),
}

PLANTS = [
    Plant(
        "34 units",
        granger,
        lambda: record(34, 400, **_FEW),
        _LINKS,
        {**ABOUT, "changed_links": ask("changed_links")},
        {"at sites": at_sites},
    ),
    Plant(
        "34 units with gaps",
        granger,
        lambda: gappy(record(34, 300, **_FEW), 0.03),
        {
            **LEARNED,
            "predict": ask("predict"),
            "score": ask("score"),
            "transform": ask("transform"),
            "changed_links": ask("changed_links"),
        },
        ABOUT,
    ),
    Plant(
        "33 units with inputs",
        counterfactual,
        lambda: record(33, 600, n_inputs=1, **_FEW),
        _EFFECTS,
        ABOUT,
        {"at sites": at_sites},
    ),
    Plant(
        "33 watched units",
        detector,
        lambda: faulty(record(33, 700, **_FEW), "unit5", 600),
        WATCHED,
        ABOUT,
        {"at sites": at_sites},
        fit=lambda estimator, record: estimator.fit(record.X),
    ),
    Plant(
        "52 watched units",
        detector,
        lambda: faulty(record(52, 700, n_sensors=4, n_states=2, links=None), "unit5", 600),
        WATCHED,
        ABOUT,
    ),
    Plant(
        "202 units",
        made(granger, server=likelihood(level_shifts=None)),
        lambda: record(202, 250, n_sensors=1, n_states=1, links=None),
        {"plant": LEARNED["plant"]},
        ABOUT,
    ),
]
