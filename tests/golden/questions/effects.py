"""What if a unit had been operated otherwise: all questions about inputs, with and without gaps, by two records."""

import numpy as np

from skfedcausal import inspection

from ..plants import Plant, Record, at_sites, by_files, by_threads
from .common import (
    ABOUT,
    LEARNED,
    ask,
    ask_nothing,
    counterfactual,
    driven,
    gappy,
    page,
)

_STEP = ("unit0", 0.0, 1.0)
_LIMITS = {"inputs": ["unit0__u0"], "bounds": {"unit0__u0": (-4.0, 4.0)}}
_TOGETHER = (["unit0", "unit1"], {"unit0": 0.0, "unit1": 0.0}, {"unit0": 1.0, "unit1": -1.0})

QUESTIONS = {
    **LEARNED,
    "counterfactual": ask_nothing("counterfactual", *_STEP, horizon=8, return_std=True),
    "counterfactual of states": ask_nothing("counterfactual", 0, 0.0, 1.0, horizon=4, of="state"),
    "counterfactual of two units": ask_nothing("counterfactual", *_TOGETHER, horizon=4, return_std=True),
    "counterfactual of two units, split": ask_nothing("counterfactual", *_TOGETHER, split=True),
    "counterfactual, loops react": ask_nothing("counterfactual", *_TOGETHER, horizon=4, loops="react"),
    "whatif": ask("whatif", do={"unit0__u0": lambda u: 0.5 * u}),
    "whatif of a held sensor": ask("whatif", do={"unit0__x0": 0.5}, sensors="force"),
    "whatif of a unit": ask("whatif", do={"unit0": {"u0": 0.5, "x1": 0.2}}, sensors="force", split=True),
    "impact": ask("impact", do={"unit0__u0": 0.0}, window=(300, 330)),
    "dose_response": ask("dose_response", input="unit0__u0", doses=[0.0, 1.0], window=(300, 330)),
    "step_response": ask_nothing("step_response", "unit0__u0", "unit1__x0"),
    "frequency_response": ask_nothing("frequency_response", "unit0__u0", "unit1__x0"),
    "gain_table": ask_nothing("gain_table", confidence=0.8),
    "sensitivity": ask_nothing("sensitivity", *_STEP, horizon=5),
    "experiment": ask_nothing("experiment", "unit0", "unit1", **_LIMITS, rows=60),
    "experiment about an input": ask_nothing(
        "experiment",
        "unit0",
        "unit1",
        **_LIMITS,
        rows=40,
        kind="input",
        rates={"unit0__u0": 0.5},
        now={"unit0__u0": 1.0},
    ),
    "aggregate_counterfactual": ask_nothing("aggregate_counterfactual", "unit1", 1.5),
    "transfer_function": ask_nothing("transfer_function"),
    "forecast": ask("forecast", start=400),
    "forecast with a band": ask("forecast", start=400, confidence=0.9),
    "forecast with deviations": ask("forecast", start=400, return_std=True),
    "predict": ask("predict"),
    "predict by own filters": ask("predict", model="client"),
    "predict by the server": ask("predict", model="server"),
    "transform": ask("transform"),
    "score": ask("score"),
    "score_samples": ask("score_samples"),
    "test_links by likelihood ratios": ask("test_links"),
    "test_links by Wald's statistic": ask("test_links", method="wald"),
    "test_links by scores": ask("test_links", method="score"),
    "changed_links": ask("changed_links"),
    "link_effects": ask_nothing("link_effects"),
    "link_intervals": ask_nothing("link_intervals"),
    "links_over_time": ask("links_over_time"),
    "bootstrap_links": ask("bootstrap_links", n_resamples=3, random_state=0),
    "stable_links": ask("stable_links", n_resamples=3, random_state=0),
}
_GAPS = (
    "plant",
    "server",
    "counterfactual",
    "whatif",
    "whatif of a held sensor",
    "impact",
    "dose_response",
    "forecast with a band",
    "predict",
    "score",
    "transform",
    "aggregate_counterfactual",
    "gain_table",
    "test_links by likelihood ratios",
)


def _reached(fitted, by=12, **settings):
    """A plan for the next rows."""
    given = {"record_inputs" if name == "inputs" else name: value for name, value in fitted.given.items()}
    return inspection.reach(fitted.estimator, {"unit1__x0": 0.8}, **_LIMITS, by=by, **given, **settings)


QUESTIONS["reach"] = _reached
QUESTIONS["reach what cannot be"] = lambda fitted: _reached(fitted, by=3, rates={"unit0__u0": 0.01})

_HERE = {
    **ABOUT,
    "oracle": ask("oracle"),
    "oracle_gap": ask("oracle_gap"),
    "plan": ask("plan"),
    "predict other rows": lambda fitted: fitted.estimator.predict(**driven(seed=0, n_samples=300).given()),
    "report": page(lambda fitted, path: fitted.estimator.report(path)),
    "report of an impact": page(
        lambda fitted, path: fitted.estimator.impact(do={"unit0__u0": 0.0}, window=(300, 330), **fitted.given).report(
            path
        )
    ),
}


def _two_records():
    found = driven(n_samples=700)
    return Record(found.X, found.inputs, (400, 300))


def _in_a_loop():
    """A controller of the first unit reads its first sensor."""
    rng, n = np.random.default_rng(4), 700
    h, u, Y = np.zeros(4), np.zeros((n, 2)), np.zeros((n, 8))
    C = rng.standard_normal((2, 4, 2))
    A = np.array([[0.8, 0.1, 0, 0], [0, 0.7, 0, 0], [0.3, 0, 0.6, 0], [0, 0, 0.1, 0.7]])
    B = np.array([[0.8, 0], [0.3, 0], [0, 0.5], [0, 0.4]])
    for t in range(n):
        Y[t] = np.concatenate([C[0] @ h[:2], C[1] @ h[2:]]) + 0.5 * rng.standard_normal(8)
        u[t] = [-0.3 * Y[t, 0] + 0.7 * rng.standard_normal(), rng.standard_normal()]
        h = A @ h + B @ u[t] + 0.5 * rng.standard_normal(4)
    return Record({"unit0": Y[:, :4], "unit1": Y[:, 4:]}, [u[:, :1], u[:, 1:]])


PLANTS = [
    Plant("effects", counterfactual, driven, QUESTIONS, _HERE, {"at sites": at_sites}),
    Plant(
        "effects, other ways",
        counterfactual,
        lambda: driven(n_samples=400),
        {name: QUESTIONS[name] for name in ("plant", "counterfactual", "whatif", "impact")},
        ways={"by threads": by_threads, "by files": by_files},
    ),
    Plant(
        "effects with gaps",
        counterfactual,
        lambda: gappy(driven()),
        {name: QUESTIONS[name] for name in _GAPS} | {"reach": _reached},
        ABOUT,
        {"at sites": at_sites},
    ),
    Plant(
        "effects, two records",
        counterfactual,
        _two_records,
        {
            name: QUESTIONS[name]
            for name in ("plant", "server", "counterfactual", "whatif", "predict", "score_samples", "reach")
        },
        ABOUT,
        {"at sites": at_sites},
    ),
    Plant(
        "effects in a closed loop",
        counterfactual,
        _in_a_loop,
        {
            name: QUESTIONS[name]
            for name in (
                "plant",
                "server",
                "counterfactual",
                "counterfactual, loops react",
                "whatif",
                "impact",
                "gain_table",
                "predict",
                "sensitivity",
            )
        }
        | {
            "whatif, loops react": ask("whatif", do={"unit1__u0": 0.0}, loops="react"),
            "whatif of a sensor that its controller holds": ask("whatif", do={"unit0__x0": 0.5}),
        },
        ABOUT,
        {"at sites": at_sites},
    ),
]
