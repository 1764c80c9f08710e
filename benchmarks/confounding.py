"""Hidden causes of an input and a unit: whether a record is flagged, what an instrument and a sensitivity band do.

A load that nobody measures moves the valve of one unit and acts on another; records in which it does one of the two
alone, or in which controllers move the valves, are clean. Run ``python -m benchmarks.confounding``.
"""

import argparse
import warnings

import numpy as np
import pandas as pd

from skfedcausal import FederatedCounterfactualEstimator

from ._report import table, write
from ._simulated import CONFOUNDED

_MOVED, _ROWS, _FIRST = 30, 60, 2840
_NEGLIGIBLE, _STRENGTH = 0.02, 0.5


def drawn(kind, seed):
    """A record, the plant that made it with its inputs and noise."""
    plant, rng = CONFOUNDED[kind](), np.random.default_rng([seed, 23])
    U = plant.drive(rng)
    noise = plant.noise(rng)
    U, Y = plant.closed(U, noise)
    outputs = [f"{unit}__{c}" for unit, own in plant.units.items() for c in own]
    inputs = [f"{unit}__{c}" for unit, own in plant.inputs.items() for c in own]
    data = pd.DataFrame(np.hstack([Y, U]), columns=outputs + inputs)
    if hasattr(plant, "set_point"):
        data["a__setpoint"] = plant.set_point
    return data[sorted(data, key=lambda c: c[0])], outputs, inputs, plant, U, noise


def effect_error(estimator, data, outputs, plant, U, noise):
    """Relative error of the effect of a move of 1.2 standard deviations, and share of bands that hold it."""
    other, rows = U.copy(), slice(_FIRST, _FIRST + _MOVED)
    other[rows, 0] += 1.2 * U[:, 0].std() * (1 if U[rows, 0].mean() < U[:, 0].mean() else -1)
    last = _FIRST + _ROWS
    truth = plant.effect(U, noise, other, _FIRST, last)
    found = estimator.whatif(data.iloc[:last], {"a__valve": other[:last, 0]})
    wide = {
        name: found.pivot(index="time", columns="column", values=name)[outputs].to_numpy()[_FIRST:last]
        for name in ("effect", "low", "high", "factual")
    }
    scale = data[outputs].std().to_numpy()
    counts = np.abs(truth) > _NEGLIGIBLE * np.abs(truth).max(axis=0)
    inside = (wide["low"] - wide["factual"] <= truth) & (truth <= wide["high"] - wide["factual"])
    error = np.linalg.norm((wide["effect"] - truth) / scale) / np.linalg.norm(truth / scale)
    return float(error), float(inside[counts].mean())


def sensitivity_cover(estimator, outputs, plant, U, noise):
    """Share of sensitivity bands of a step that hold its effect."""
    runs = []
    for level in (0.0, 1.0):
        other = U.copy()
        other[_FIRST : _FIRST + _MOVED, 0] = level
        runs.append(plant.simulate(other, noise)[_FIRST + 1 : _FIRST + _MOVED + 1])
    found = estimator.sensitivity("a", 0.0, 1.0, horizon=_MOVED, strength=_STRENGTH).query("step > 0")
    low, high = (
        found.pivot(index="step", columns="column", values=name)[outputs].to_numpy() for name in ("low", "high")
    )
    return float(((low <= runs[1] - runs[0]) & (runs[1] - runs[0] <= high)).mean())


def measured(kind, seed):
    """One row: flagged, error and cover as it comes, of sensitivity bands, and with the instrument."""
    data, outputs, inputs, plant, U, noise = drawn(kind, seed)
    plain = data[outputs + inputs][sorted(outputs + inputs, key=lambda c: c[0])]
    estimator = FederatedCounterfactualEstimator(input_columns=inputs).fit(plain)
    row = {"plant": kind, "flagged": bool(estimator.hidden_causes_["suspect"].any())}
    if "a__setpoint" not in data:
        return row
    row["error"], row["cover"] = effect_error(estimator, plain, outputs, plant, U, noise)
    row["sensitivity"] = sensitivity_cover(estimator, outputs, plant, U, noise)
    if plant.on_input:
        told = {"input_columns": [*inputs, "a__setpoint"], "instruments": {"a__valve": "setpoint"}}
        estimator = FederatedCounterfactualEstimator(**told).fit(data)
        row["instrument error"], row["instrument cover"] = effect_error(estimator, data, outputs, plant, U, noise)
    return row


def summary(rows):
    """One row per kind of record."""
    found = []
    for kind, part in pd.DataFrame(rows).groupby("plant", sort=False):
        row = {"record": kind, "flagged": f"{part['flagged'].sum()} of {len(part)}"}
        for name, spread in (("error", "largest"), ("instrument error", "largest with it")):
            if part[name].notna().any():
                row |= {f"median {name}": f"{part[name].median():.3f}", spread: f"{part[name].max():.3f}"}
        for name in ("cover", "instrument cover", "sensitivity"):
            row[name] = f"{part[name].mean():.2f}" if part[name].notna().any() else ""
        found.append(row)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    arguments = parser.parse_args()
    rows, seeds = [], range(arguments.first, arguments.first + arguments.seeds)
    for kind in CONFOUNDED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows += [measured(kind, seed) for seed in seeds]
        print(pd.DataFrame(summary(rows)).to_string(), flush=True)
    names = ["record", "flagged", "median error", "largest", "cover", "sensitivity"]
    names += ["median instrument error", "largest with it", "instrument cover"]
    write(
        "confounding",
        "Hidden causes of inputs",
        f"{arguments.seeds} records of 3000 rows each. Flagged: some pair of `hidden_causes_` is suspect. Error: "
        f"relative, of the effect of a move of the valve for {_MOVED} rows over {_ROWS} rows on all sensors; cover: "
        f"share of 90 % bands that hold it. Sensitivity: share of bands for a hidden cause of strength {_STRENGTH} "
        "that hold the effect of a step. Instrument: the set point that the load is added to.",
        table([{name: row.get(name, "") for name in names} for row in summary(rows)], names),
    )


if __name__ == "__main__":
    main()
