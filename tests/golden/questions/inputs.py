"""What inputs may be: words, bent, shared by units, set before a row, missing, moved by an instrument."""

import numpy as np
import pandas as pd

from skfedcausal import InputModel

from ..plants import Plant, Record
from .common import ABOUT, LEARNED, ask, ask_nothing, counterfactual, driven, likelihood, made, table_of

_SHORT = {
    **LEARNED,
    "counterfactual": ask_nothing("counterfactual", "unit0", 0.0, 1.0, horizon=5, return_std=True),
    "whatif": ask("whatif", do={"unit0__u0": 0.0}),
    "gain_table": ask_nothing("gain_table"),
    "step_response": ask_nothing("step_response", "unit0__u0", "unit1__x0"),
    "impact": ask("impact", do={"unit0__u0": 0.5}, window=(100, 130)),
    "predict": ask("predict"),
}
_BENT = {name: question for name, question in _SHORT.items() if name != "step_response"}
_BENT["step_response"] = ask_nothing("step_response", "unit0__u0[0]", "unit1__x0")
_COLUMNS = [f"unit{k}__u0" for k in range(3)]


def _words():
    """The input of the first unit is a grade in words."""
    found = driven(n_samples=600, through=lambda U: np.sign(U) * (np.abs(U) > 0.4))
    u = found.inputs[0][:, 0]
    return Record(table_of(found).assign(unit0__u0=np.where(u > 0.4, "fine", np.where(u < -0.4, "raw", "coarse"))))


def _bent():
    """Inputs act where they are above zero only."""
    return Record(table_of(driven(n_samples=600, through=lambda U: 2.0 * np.maximum(U, 0.0))))


def _before():
    """Inputs that act in the row that they stand in."""
    found = driven(n_samples=500)
    late = [np.vstack([U[:1] * 0.0, U[:-1]]) for U in found.inputs]
    return Record(found.X, late)


def _missing():
    table = table_of(driven(n_samples=500))
    table.loc[50:60, "unit0__u0"] = np.nan
    return Record(table)


def _shared():
    """Steam acts on two units at once."""
    rng, n = np.random.default_rng(0), 600
    u, h, rows = rng.standard_normal((n, 2)), np.zeros(3), []
    for t in range(n):
        push = np.array([[1.0, 0.0], [-0.5, 0.0], [0.0, 0.8]]) @ u[t - 1] if t else 0.0
        h = np.array([0.7, 0.6, 0.5]) * h + push + 0.3 * rng.standard_normal(3)
        rows.append(np.repeat(h, 2) * np.tile([1, 0.6], 3) + 0.3 * rng.standard_normal(6))
    table = pd.DataFrame(rows, columns=["a__s0", "a__s1", "b__s0", "b__s1", "c__s0", "c__s1"])
    return Record(table.assign(plant__steam=u[:, 0], c__valve=u[:, 1]))


def _shared_beside():
    """The same beside the record, by the units that they act on."""
    table = _shared().X
    inputs = {("a", "b"): table[["plant__steam"]].to_numpy(), "c": table[["c__valve"]].to_numpy()}
    return Record(table.iloc[:, :6], inputs)


def hidden_load(n=900):
    """A load moves the valve of the first unit, beside its set point, and acts on the second unit."""
    rng = np.random.default_rng(0)
    load, x, Y = np.zeros(n), np.zeros(2), np.zeros((n, 4))
    for t in range(1, n):
        load[t] = 0.8 * load[t - 1] + 0.6 * rng.standard_normal()
    set_point, other = np.repeat(rng.uniform(-1.3, 1.3, (2, n // 5)), 5, axis=1)
    U = np.column_stack([set_point + 0.8 * load, other])
    for t in range(n):
        Y[t] = np.kron(x, [1.0, 0.6]) + 0.1 * rng.standard_normal(4)
        noise = 0.1 * rng.standard_normal(2) + [0.0, 0.2 * load[t]]
        x = np.array([[0.8, 0.0], [0.15, 0.8]]) @ x + 0.3 * U[t] + noise
    columns = ["a__s0", "a__s1", "b__s0", "b__s1", "a__valve", "b__valve", "a__setpoint"]
    table = pd.DataFrame(np.column_stack([Y, U, set_point]), columns=columns)
    return Record(table[["a__s0", "a__s1", "a__valve", "a__setpoint", "b__s0", "b__s1", "b__valve"]])


_VALVES = {"counterfactual": ask_nothing("counterfactual", "a", 0.0, 1.0, horizon=5, return_std=True), **LEARNED}

PLANTS = [
    Plant(
        "inputs in words",
        made(counterfactual, input_columns=_COLUMNS),
        _words,
        {
            **LEARNED,
            "counterfactual": ask_nothing("counterfactual", "unit0", ["coarse"], ["fine"], horizon=5, return_std=True),
            "whatif": ask("whatif", do={"unit0__u0": "raw"}),
            "gain_table": ask_nothing("gain_table"),
            "dose_response": ask("dose_response", input="unit0__u0", doses=["raw", "fine"], window=(100, 130)),
        },
        ABOUT,
    ),
    Plant(
        "inputs through a spline",
        made(counterfactual, input_columns=_COLUMNS, input_model=InputModel(basis="spline")),
        _bent,
        _BENT,
        ABOUT,
    ),
    Plant(
        "inputs through a function",
        made(counterfactual, input_columns=_COLUMNS, input_model=InputModel(basis={"unit0__u0": np.sign})),
        _bent,
        {"plant": LEARNED["plant"], "whatif": _SHORT["whatif"]},
        ABOUT,
    ),
    Plant("inputs set before", made(counterfactual, sampled="before"), _before, _SHORT, ABOUT),
    Plant(
        "inputs set when the server says",
        made(counterfactual, server=likelihood(sampled={"unit0": "before"})),
        _before,
        {"plant": LEARNED["plant"]},
        ABOUT,
    ),
    Plant(
        "bends that are seen",
        made(counterfactual, input_columns=_COLUMNS),
        _bent,
        _SHORT | {"forecast": ask("forecast", start=500, confidence=0.9)},
        ABOUT,
    ),
    Plant(
        "inputs that are held",
        made(counterfactual, input_columns=_COLUMNS, input_model=InputModel(missing="hold")),
        _missing,
        {"plant": LEARNED["plant"], "whatif": _SHORT["whatif"]},
        ABOUT,
    ),
    Plant(
        "inputs of several units",
        made(counterfactual, input_columns={"plant__steam": ["a", "b"], "c__valve": None}),
        _shared,
        {**_VALVES, "whatif": ask("whatif", do={"plant__steam": 0.0}), "gain_table": ask_nothing("gain_table")},
        ABOUT,
    ),
    Plant(
        "inputs of several units beside the record",
        counterfactual,
        _shared_beside,
        {**_VALVES, "predict": ask("predict")},
        ABOUT,
    ),
    Plant(
        "a hidden cause",
        made(counterfactual, input_columns=["a__valve", "b__valve", "a__setpoint"]),
        hidden_load,
        {"plant": LEARNED["plant"]},
        ABOUT,
    ),
    Plant(
        "an instrument",
        made(
            counterfactual,
            input_columns=["a__valve", "b__valve", "a__setpoint"],
            input_model=InputModel(instruments={"a__valve": "setpoint"}),
        ),
        hidden_load,
        {
            **_VALVES,
            "instruments_": lambda fitted: fitted.estimator.instruments_,
            "impact": ask("impact", do={"a__valve": 0.5}, window=(100, 130)),
            "whatif of the instrument": ask("whatif", do={"a__setpoint": 0.5}),
        },
        ABOUT,
    ),
]
