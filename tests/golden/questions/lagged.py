"""Plants of several lags: links, forecasts, effects of inputs, watching."""

import numpy as np

from skfedcausal import Baseline

from ..plants import Plant, Record, at_sites
from .common import (
    ABOUT,
    LEARNED,
    ask,
    ask_nothing,
    counterfactual,
    detector,
    gappy,
    granger,
    lagged,
    likelihood,
    made,
)
from .watching import WATCHED

_LINKS = {
    **LEARNED,
    "test_links by scores": ask("test_links", method="score"),
    "predict": ask("predict"),
    "predict by the server": ask("predict", model="server"),
    "forecast with a band": ask("forecast", start=800, confidence=0.9),
    "transform": ask("transform"),
    "score_samples": ask("score_samples"),
    "changed_links": ask("changed_links"),
    "benefit": ask("benefit"),
    "link_effects": ask_nothing("link_effects"),
    "link_intervals": ask_nothing("link_intervals"),
    "link_intervals of Geweke's measure": ask_nothing("link_intervals", geweke=True),
    "spectrum": ask_nothing("spectrum", "unit0", "unit1", n_frequencies=32),
    "to_networkx": ask_nothing("to_networkx"),
    "links_over_time": ask("links_over_time"),
}


def _driven(n_samples=600):
    """What moves the first unit acts on the second four rows later."""
    found, rng = lagged(n_samples), np.random.default_rng(1)
    inputs = [rng.standard_normal((n_samples, 1)) for _ in found.X]
    found.X["unit0"][1:] += 0.5 * inputs[0][:-1]
    found.X["unit1"][4:] += 0.8 * inputs[0][:-4]
    return Record(found.X, inputs)


def _watched():
    """Rows of a plant of several lags, the second of whose units is pushed at last."""
    found = lagged(2000)
    found.X["unit1"][1700:] += 4.0
    return found


_EFFECTS = {
    **LEARNED,
    "counterfactual": ask_nothing("counterfactual", "unit0", 0.0, 1.0, horizon=8, return_std=True),
    "counterfactual of states": ask_nothing("counterfactual", "unit0", 0.0, 1.0, horizon=8, of="state"),
    "whatif": ask("whatif", do={"unit0__u0": 0.0}),
    "impact": ask("impact", do={"unit0__u0": 0.0}, window=(300, 330)),
    "step_response": ask_nothing("step_response", "unit0__u0", "unit1__x0"),
    "frequency_response": ask_nothing("frequency_response", "unit0__u0", "unit1__x0"),
    "gain_table": ask_nothing("gain_table"),
    "sensitivity": ask_nothing("sensitivity", "unit0", 0.0, 1.0, horizon=6),
    "transfer_function": ask_nothing("transfer_function"),
    "forecast": ask("forecast", start=500, confidence=0.9),
    "test_links": ask("test_links", method="score"),
    "links held": ask("whatif", do={"unit0__x0": 0.5}, sensors="force"),
}


def _followed(fitted):
    """What a stream of the last rows tells, batch by batch."""
    watch, late = fitted.copy(), fitted.record.rows(1500).X
    return [watch.update({name: Y[k : k + 100] for name, Y in late.items()}) for k in range(0, 500, 100)]


PLANTS = [
    Plant("several lags", granger, lagged, _LINKS, {**ABOUT, "oracle": ask("oracle")}, {"at sites": at_sites}),
    Plant(
        "several lags with gaps",
        granger,
        lambda: gappy(lagged(900), 0.03),
        {
            **LEARNED,
            **{
                name: _LINKS[name]
                for name in (
                    "predict",
                    "forecast with a band",
                    "score_samples",
                    "transform",
                    "link_effects",
                    "link_intervals",
                )
            },
        },
        ABOUT,
    ),
    Plant(
        "several lags, two records",
        granger,
        lambda: Record(lagged(1200).X, None, (700, 500)),
        {**LEARNED, "predict": ask("predict"), "test_links": ask("test_links", method="score"), "score": ask("score")},
        ABOUT,
    ),
    Plant(
        "delays that are told",
        made(granger, server=likelihood(delays={"unit0 -> unit1": 3, "unit1 -> unit2": (1, 3)})),
        lambda: lagged(800),
        LEARNED,
        ABOUT,
    ),
    Plant("effects of several lags", counterfactual, _driven, _EFFECTS, ABOUT, {"at sites": at_sites}),
    Plant(
        "watching by several lags",
        made(detector, server=likelihood(), baseline=Baseline(levels=None)),
        _watched,
        WATCHED,
        {
            "update": _followed,
        },
        {"at sites": at_sites},
        fit=lambda estimator, record: estimator.fit(record.X),
    ),
]
