"""Recorded plants with inputs: free runs, k-step forecasts and one-step densities beside other tools.

Every record of `load_sysid` is learned from its first 70 % and judged on the rest. Run ``python -m
benchmarks.records`` with the folder of the records in ``SKFEDCAUSAL_DATA``; nothing is downloaded. Another
estimator is measured by ``--factory module:function``, a function of a `Plant` that gives an estimator that
is not fitted; ``--tools`` leaves others out and ``--name`` says where the table goes. N4SID needs the package
nfoursid and is left out without it.
"""

import argparse
import inspect
import os
import warnings
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd

from skfedcausal import FederatedCounterfactualEstimator
from skfedcausal.datasets import load_sysid

from ._report import table, write
from ._rivals import Boosting, cva, n4sid, order_chosen, varx

RECORDS = (
    *("exchanger", "cascaded_tanks", "cd_player_arm", "cstr", "winding", "winding5"),
    *("evaporator", "steamgen", "glassfurnace", "powerplant"),
)
STEPS = (1, 5, 10, 20, 50)
_SHARE, _BURN, _PAST, _ORIGINS = 0.7, 60, 300, 40
# Records whose inputs the row that they stand in already shows: those of which a VARX by AIC, learned from
# the first 70 % of the rows to learn from, forecasts the others at least 2 % better in a free run if all
# inputs may act on their own row (`python -m benchmarks.records --timing`).
BEFORE = ("exchanger", "cd_player_arm", "winding", "winding5", "evaporator", "glassfurnace")
# Records of which the library, learned from the first 70 % of the rows to learn from, forecasts the others at
# least 2 % better in a free run if inputs may act through a curve (`python -m benchmarks.records --curves`).
SPLINE = ("exchanger", "cascaded_tanks", "cstr", "winding5", "steamgen")
# winding with the roles that DaISy gives: the measured speeds of the reels are inputs, too
_WINDING5 = {"reel1": "12", "reel3": "23"}


@dataclass
class Plant:
    """A record: the rows to learn from, those to judge by, inputs, and the word for each input's timing."""

    name: str
    known: pd.DataFrame
    tail: pd.DataFrame
    inputs: list[str]

    @property
    def basis(self):
        """Through which curve inputs act."""
        return "spline" if self.name in SPLINE else "linear"

    @property
    def outputs(self):
        return [name for name in self.known if name not in self.inputs]

    @property
    def sampled(self):
        """Whether each input was read before or after it was set: the argument of estimators."""
        return dict.fromkeys(self.inputs, "before" if self.name in BEFORE else "after")

    @property
    def before(self):
        return np.array([self.sampled[name] == "before" for name in self.inputs], dtype=bool)

    def arrays(self, frame):
        return frame[self.outputs].to_numpy(float), frame[self.inputs].to_numpy(float)


def read(folder, name):
    """Record by name, its first 70 % apart from the rest."""
    record = load_sysid(Path(folder) / "sysid", name.removesuffix("5"))
    data, inputs = record.data.astype(float).reset_index(drop=True), list(record.inputs)
    if name == "winding5":
        roles = {c: c.replace("reel2__", "reel1__") for c in data}
        data = data.rename(columns=roles)
        data = data[sorted(data, key=lambda c: (c.split("__")[0], "__u_" in c))]
        inputs = [c for c in data if "__u_" in c]
    n_known = int(_SHARE * len(data))
    return Plant(name, data.iloc[:n_known], data.iloc[n_known:].reset_index(drop=True), inputs)


# --- tools ------------------------------------------------------------------------------------------------


def default(plant):
    """The library as it comes, told of the inputs' timing and of curves where it can be told."""
    known = inspect.signature(FederatedCounterfactualEstimator).parameters
    told = {name: getattr(plant, name) for name in ("sampled", "basis") if name in known}
    return FederatedCounterfactualEstimator(input_columns=plant.inputs, **told)


class Library:
    """An estimator of this library behind the interface of the others."""

    def __init__(self, factory, plant):
        self.outputs = plant.outputs
        self.estimator = factory(plant).fit(plant.known).set_output(transform="pandas")
        sent = self.estimator.communication_["per_client"].values()
        up = sum(unit["bytes_up"] for unit in sent)
        self.note = f"{len(self.estimator.transition_)} states, {up / len(plant.known):.0f} bytes a row"

    def free_runs(self, frame, origins, n_steps):
        found = []
        for o in origins:
            first = max(o - _PAST, 0)
            window = frame.iloc[first : o + n_steps].reset_index(drop=True)
            found.append(self.estimator.forecast(window, int(o - first))[self.outputs].to_numpy())
        return np.stack(found)

    def log_density(self, frame):
        return self.estimator.score_samples(frame)


class Rival:
    """A tool that works on standardised arrays."""

    def __init__(self, fit, plant, before):
        self.plant = plant
        Y, U = plant.arrays(plant.known)
        self.level, self.scale = Y.mean(axis=0), Y.std(axis=0)
        self.input_level, self.input_scale = U.mean(axis=0), U.std(axis=0)
        self.model = fit(*self._scaled(plant.known), before)
        self.note = self.model.note

    def _scaled(self, frame):
        Y, U = self.plant.arrays(frame)
        return (Y - self.level) / self.scale, (U - self.input_level) / self.input_scale

    def free_runs(self, frame, origins, n_steps):
        return self.model.free_runs(*self._scaled(frame), origins, n_steps) * self.scale + self.level

    def log_density(self, frame):
        return self.model.log_density(*self._scaled(frame)) - np.log(self.scale).sum()


def _subspace(Y, U, before, how):
    most = min(4 * Y.shape[1], len(Y) // 40, 24)
    orders = range(Y.shape[1], max(most, Y.shape[1]) + 1, 1 if most < 10 else 2)
    fit = partial(cva, before=before) if how == "cva" else n4sid
    return order_chosen(lambda Y, U, n: fit(Y, U, order=n), Y, U, orders)


def _boosting(Y, U, before):
    return Boosting().fit(Y, U, before)


def tools(plant, factory):
    """Name and maker of everything that is measured."""
    late, declared = np.zeros(len(plant.inputs), dtype=bool), plant.before
    makers: dict[str, Any] = {"this library": partial(Library, factory, plant)}
    makers["VARX(AIC)"] = partial(Rival, varx, plant, late)
    if declared.any():
        makers["VARX(AIC), same row where declared"] = partial(Rival, varx, plant, declared)
    makers["CVA of chosen order"] = partial(Rival, partial(_subspace, how="cva"), plant, declared)
    if find_spec("nfoursid"):
        makers["N4SID of chosen order (nfoursid)"] = partial(Rival, partial(_subspace, how="n4sid"), plant, declared)
    makers["boosting on lags"] = partial(Rival, _boosting, plant, declared)
    return makers


# --- judging ----------------------------------------------------------------------------------------------


def judged(model, plant):
    """Errors over the standard deviation of the tail, mean over outputs, and nats a row in raw units."""
    Y = plant.arrays(plant.tail)[0]
    spread, burn, longest = Y.std(axis=0), min(_BURN, len(Y) // 4), min(max(STEPS), len(Y) // 4)
    whole = model.free_runs(plant.tail, np.array([burn]), len(Y) - burn)[0]
    origins = np.unique(np.linspace(burn, len(Y) - longest, _ORIGINS).astype(int))
    runs = model.free_runs(plant.tail, origins, longest)
    errors = np.array([found - Y[o : o + longest] for o, found in zip(origins, runs, strict=True)])
    by_step = (np.sqrt((errors**2).mean(axis=0)) / spread).mean(axis=1)
    free = float((np.sqrt(((whole - Y[burn:]) ** 2).mean(axis=0)) / spread).mean())
    scores = {"free run": free} | {f"{k} rows": by_step[k - 1] for k in STEPS if k <= longest}
    return scores | {"nats a row": float(np.mean(model.log_density(plant.tail)[burn:]))}


def measured(plant, factory, wanted=None):
    """One row of raw numbers per tool."""
    rows = []
    for tool, make in tools(plant, factory).items():
        if wanted and not any(tool.startswith(one) for one in wanted):
            continue
        start = process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = make()
            seconds = process_time() - start
            scores = judged(model, plant)
        rows.append({"record": plant.name, "tool": tool, **scores, "seconds": seconds, "model": model.note})
        print(shown(rows[-1]), flush=True)
    return rows


def shown(row):
    """A row as text for a table."""
    return {
        name: (f"{value:.2f}" if name in ("seconds", "nats a row") else f"{value:.3g}")
        if isinstance(value, float)
        else value
        for name, value in row.items()
    }


def summary(rows):
    """How the library stands beside the linear tools over all records."""
    frame = pd.DataFrame(rows)
    linear = frame[~frame["tool"].str.startswith(("this", "boosting"))]
    own = frame[frame["tool"] == "this library"].set_index("record")
    if own.empty or linear.empty:
        return ""
    ratio = own["free run"] / linear.groupby("record")["free run"].min().loc[own.index]
    plain = frame[frame["tool"] == "VARX(AIC)"].set_index("record").loc[own.index]
    denser = own["nats a row"] > plain["nats a row"]
    return "\n".join(
        [
            f"- free run at most 5 % above the best linear tool: {(ratio <= 1.05).sum()} of {len(ratio)} "
            f"({', '.join(ratio.index[ratio <= 1.05]) or 'none'}); geometric mean of the ratios "
            f"{np.exp(np.log(ratio).mean()):.2f}",
            f"- density above VARX(AIC): {denser.sum()} of {len(denser)} ({', '.join(own.index[denser]) or 'none'})",
            f"- geometric mean of the free-run errors: {np.exp(np.log(own['free run']).mean()):.4f}",
        ]
    )


def inside(plant):
    """The rows to learn from as a record of their own."""
    n_known = int(_SHARE * len(plant.known))
    tail = plant.known.iloc[n_known:].reset_index(drop=True)
    return Plant(plant.name, plant.known.iloc[:n_known], tail, plant.inputs)


def curves(plant):
    """Free-run error of the library on the last 30 % of the rows to learn from, without and with curves."""
    inner, errors = inside(plant), {}
    Y = inner.arrays(inner.tail)[0]
    burn = min(_BURN, len(Y) // 4)
    for basis in ("linear", "spline"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = Library(lambda plant, basis=basis: default(plant).set_params(basis=basis), inner)
            found = model.free_runs(inner.tail, np.array([burn]), len(Y) - burn)[0]
        errors[basis] = round(float((np.sqrt(((found - Y[burn:]) ** 2).mean(axis=0)) / Y.std(axis=0)).mean()), 4)
    return errors


def timing(plant):
    """Free-run error of a VARX of the last 30 % of the rows to learn from, each input let act at once."""
    inner = inside(plant)
    Y = inner.arrays(inner.tail)[0]
    late = np.zeros(len(plant.inputs), dtype=bool)
    choices = {"none": late, "all": ~late}
    choices |= {c.split("__")[1]: np.array(plant.inputs) == c for c in plant.inputs}
    row = {}
    for name, before in choices.items():
        found = Rival(varx, inner, before).free_runs(inner.tail, np.array([30]), len(Y) - 30)[0]
        row[name] = round(float((np.sqrt(((found - Y[30:]) ** 2).mean(axis=0)) / Y.std(axis=0)).mean()), 4)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", nargs="+", choices=RECORDS, default=RECORDS)
    parser.add_argument("--tools", nargs="+", help="beginnings of the names of tools; all if not given")
    parser.add_argument("--factory", default="benchmarks.records:default")
    parser.add_argument("--name", default="records", help="of the file in results")
    parser.add_argument("--timing", action="store_true", help="only what decides the timing of inputs")
    parser.add_argument("--curves", action="store_true", help="only what decides whether inputs act through curves")
    arguments = parser.parse_args()
    folder = os.environ.get("SKFEDCAUSAL_DATA")
    if not folder:
        parser.error("set SKFEDCAUSAL_DATA to the folder that holds sysid")
    plants = [read(folder, name) for name in arguments.records]
    if arguments.timing or arguments.curves:
        for plant in plants:
            print(plant.name, timing(plant) if arguments.timing else curves(plant), flush=True)
        return
    module, function = arguments.factory.split(":")
    factory = getattr(import_module(module), function)
    rows = [row for plant in plants for row in measured(plant, factory, arguments.tools)]
    write(
        arguments.name,
        "Recorded plants with inputs",
        f"Learned from the first {_SHARE:.0%} of every record of `load_sysid` (winding5: winding with the "
        "speeds of the reels as inputs), judged on the rest. Errors over the standard deviation of the rest, "
        f"mean over outputs: a free run from row {_BURN} to the end, and forecasts from {_ORIGINS} rows. "
        "Nats a row: log-density of a single step in raw units, larger is better. Inputs may act on the row "
        f"that they stand in in {', '.join(BEFORE)} (`--timing` shows why), and the library is told that "
        f"they act through curves in {', '.join(SPLINE)} (`--curves`). Tools other than this library "
        "see the pooled table. Bytes: what all units sent in `fit`, a row.",
        summary(rows),
        table([shown(row) for row in rows]),
    )


if __name__ == "__main__":
    main()
