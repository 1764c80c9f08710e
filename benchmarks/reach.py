"""Plans judged by the simulator: what `reach` promises, whether it is kept, and whether "not reachable" is right.

A sensor drawn at random is to be brought to a value in 40 rows and held there for 20. Half of the targets are what
inputs at some other place within their bounds bring about, in the simulator without further noise; the others lie
half a standard deviation beyond the most that any corner of the bounds brings about. The first ones are planned once
more every few rows, with what the simulator has shown so far. Run ``python -m benchmarks.reach``.
"""

import argparse
import itertools
import warnings
from time import process_time

import numpy as np
import pandas as pd

from skfedcausal import FederatedCounterfactualEstimator
from skfedcausal.datasets import make_granger_plant

from ._report import table, write
from ._simulated import PLANTS
from .plants import _KNOWN, Simulated, default

_KINDS = ("two reactors", "same row", "four tanks, upper hidden", "dead time")
_BY, _HOLD, _BEYOND, _PAST, _EVERY = 40, 20, 0.5, 500, 10


class Case:
    """A plant that has run for a while, and its simulator from there on."""

    def __init__(self, kind, seed):
        self.plant, self.rng = PLANTS[kind](), np.random.default_rng([seed, 41])
        self.U = self.plant.drive(self.rng)[:_KNOWN]
        self.noise = {key: x[: _KNOWN + _BY + _HOLD] for key, x in self.plant.noise(self.rng).items()}
        Y = self.plant.simulate(self.U, {key: x[:_KNOWN] for key, x in self.noise.items()})
        plant = self.plant
        names = [f"{unit}__{c}" for unit, own in plant.units.items() for c in own]
        self.inputs = [f"{unit}__{c}" for unit, own in plant.inputs.items() for c in own]
        data = pd.DataFrame(np.hstack([Y, self.U]), columns=names + self.inputs)
        data = data[sorted(data, key=lambda c: list(plant.units).index(c.split("__")[0]))]
        self.record = Simulated(kind, data, data, self.inputs)
        self.record.timing, self.record.curve = ("before" if plant.before else "after"), plant.basis
        self.outputs, self.sd = names, Y.std(axis=0)
        self.low, self.high = np.quantile(self.U, [0.02, 0.98], axis=0)
        self.low, self.high = np.minimum(self.low, self.U[-1]), np.maximum(self.high, self.U[-1])

    def run(self, schedule, quiet):
        """Measurements of the rows from now on under a schedule."""
        noise = {key: x.copy() for key, x in self.noise.items()}
        if quiet:
            for x in noise.values():
                x[_KNOWN:] = 0.0
        return self.plant.simulate(np.vstack([self.U, schedule]), noise)[_KNOWN:]

    def held(self, inputs):
        """The same with inputs that stay at values, without noise: means of the rows that count."""
        return self.run(np.repeat(np.asarray(inputs)[None], _BY + _HOLD, axis=0), quiet=True)[_BY - 1 :].mean(axis=0)

    def target(self, can):
        """A sensor and a value, within reach or not."""
        corners = np.array([self.held(c) for c in itertools.product(*zip(self.low, self.high, strict=True))])
        moves = np.flatnonzero(np.ptp(corners, axis=0) > 0.3 * self.sd)
        k = int(self.rng.choice(moves))
        if can:
            inside = 0.15 + 0.7 * self.rng.random(len(self.low))
            return k, float(self.held(self.low + inside * (self.high - self.low))[k])
        sign = self.rng.choice([-1.0, 1.0])
        return k, float(sign * (sign * corners[:, k]).max() + sign * _BEYOND * self.sd[k])


def asked(estimator, case, k, value, past, by, hold):
    """The plan that brings a sensor to a value."""
    bounds = {name: (low, high) for name, low, high in zip(case.inputs, case.low, case.high, strict=True)}
    X = past.iloc[-_PAST:].reset_index(drop=True)
    return estimator.reach({case.outputs[k]: value}, inputs=case.inputs, bounds=bounds, by=by, hold=hold, X=X)


def again(estimator, case, k, value, schedule):
    """Measurements where a new plan is made every few rows, with the rows until then."""
    done = schedule.copy()
    for now in range(_EVERY, _BY + _HOLD, _EVERY):
        seen = np.hstack([case.run(done, quiet=False)[:now], done[:now]])
        seen = pd.DataFrame(seen, columns=case.outputs + case.inputs)[list(case.record.known)]
        past, by = pd.concat([case.record.known, seen]), max(_BY - now, 1)
        plan = asked(estimator, case, k, value, past, by, _BY + _HOLD - now - by)
        done[now:] = plan.schedule[case.inputs].to_numpy()
    return case.run(done, quiet=False)


def measured(kind, seed):
    """Two plans of one draw: a target within reach, and one beyond it."""
    case, rows = Case(kind, seed), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = default(case.record).fit(case.record.known)
        for can in (True, False):
            k, value = case.target(can)
            start = process_time()
            plan = asked(estimator, case, k, value, case.record.known, _BY, _HOLD)
            seconds = process_time() - start
            schedule = plan.schedule[case.inputs].to_numpy()
            found, happened = case.run(schedule, quiet=True), case.run(schedule, quiet=False)
            rows_that_count = found[_BY - 1 : _BY + _HOLD, k]
            promised = plan.trajectory[plan.trajectory["column"] == case.outputs[k]]
            inside = (promised["low"] <= happened[:, k]) & (happened[:, k] <= promised["high"])
            anew = again(estimator, case, k, value, schedule) if can else np.full_like(happened, np.nan)
            noisy, anew = (float(np.abs(x[_BY - 1 :, k].mean() - value) / case.sd[k]) for x in (happened, anew))
            rows.append(
                {
                    "plant": kind,
                    "can": can,
                    "verdict": plan.verdict,
                    "miss": float(np.abs(rows_that_count.mean() - value) / case.sd[k]),
                    "rms": float(np.sqrt(np.square(rows_that_count - value).mean()) / case.sd[k]),
                    "disturbed": noisy,
                    "again": anew,
                    "cover": float(inside.mean()),
                    "promised miss": next(iter(plan.miss.values())),
                    "seconds": seconds,
                }
            )
    return rows


def share_right(rows):
    """Share of verdicts that are right."""
    right = [row["verdict"] == ("reachable" if row["can"] else "not reachable") for row in rows]
    return f"{sum(right)} of {len(right)}"


def large():
    """Seconds of a plan with 100 inputs over 60 rows."""
    X, truth = make_granger_plant(
        20, n_samples=3000, links=[(k, k + 1) for k in range(19)], n_inputs=5, input_links=[(0, 1)], random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
        names = list(estimator._plant_inputs.names)
        bounds = dict.fromkeys(names, (-5.0, 5.0))
        start = process_time()
        settings = {"inputs": names, "bounds": bounds, "by": 50, "hold": 10, "X": X, "record_inputs": truth.inputs}
        plan = estimator.reach({"unit3__x0": 1.0, "unit7__x1": -0.5}, **settings)
    return len(names), plan.verdict, process_time() - start


def _error_of_draws(values):
    """Standard error of a mean over draws, of which both plans meet the same disturbance."""
    draws = values.to_numpy().reshape(-1, 2).mean(axis=1)
    return draws.std() / np.sqrt(len(draws))


def summary(rows):
    """One row per plant."""
    found = []
    for kind, part in pd.DataFrame(rows).groupby("plant", sort=False):
        can, cannot = part[part["can"]], part[~part["can"]]
        said = can[can["verdict"] == "reachable"]
        found.append(
            {
                "plant": kind,
                "reachable, said so": f"{len(said)} of {len(can)}",
                "not reachable, said so": f"{(cannot['verdict'] == 'not reachable').sum()} of {len(cannot)}",
                "wrong verdicts": (can["verdict"] == "not reachable").sum() + (cannot["verdict"] == "reachable").sum(),
                "median miss": f"{can['miss'].median():.3f}",
                "largest": f"{can['miss'].max():.3f}",
                "median rms": f"{can['rms'].median():.3f}",
                "disturbed": f"{can['disturbed'].median():.3f}",
                "planned again": f"{can['again'].median():.3f}",
                "cover": f"{part['cover'].mean():.2f} ± {_error_of_draws(part['cover']):.2f}",
                "seconds": f"{part['seconds'].median():.2f}",
            }
        )
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plants", nargs="+", choices=_KINDS, default=_KINDS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--large", action="store_true", help="only the plan of 100 inputs")
    arguments = parser.parse_args()
    print(large(), flush=True)
    if arguments.large:
        return
    rows = []
    for kind in arguments.plants:
        for seed in range(arguments.first, arguments.first + arguments.seeds):
            rows += measured(kind, seed)
        print(pd.DataFrame(summary(rows)).to_string(), flush=True)
    n_inputs, _, seconds = large()
    write(
        "reach",
        "Plans to reach a target",
        f"A sensor is brought to a value in {_BY} rows and held for {_HOLD}, {arguments.seeds} draws of each plant "
        f"with one target within reach and one {_BEYOND} standard deviations beyond it, {_KNOWN} rows to learn from. "
        "Miss: distance of the mean over the rows that count from the target, in standard deviations of the sensor, in "
        "the simulator without further noise; rms: the same row by row. Disturbed: the median miss in the simulator "
        f"with noise; planned again: the same where a new plan is made every {_EVERY} rows. Cover: share of rows of "
        "the simulator with noise inside the promised 90 % band, with its standard error over the draws.",
        f"- a plan of {n_inputs} inputs over 60 rows: {seconds:.2f} s\n- verdicts that are right: {share_right(rows)}",
        table(summary(rows)),
    )


if __name__ == "__main__":
    main()
