"""What a move did on records that hold it, and plans to reach a target, judged by the simulator."""

import itertools

import numpy as np
import pandas as pd
from statsmodels.tsa.statespace.structural import UnobservedComponents

from skfedcausal import inspection

from .._rivals import lagged
from .._simulated import PLANTS, moved, record_of, relative_error, share_inside

TITLE = "What a move did, and how to reach a target"
TEXT = (
    "`impact`: the first input moves by 1.2 standard deviations for {n_moved} rows of a record that holds the move. "
    "Judged is what it did to all sensors in {n_rows} rows, by the simulator without the move under the same noise: "
    "median error over the size of the true effect, share of draws in which the signs of the summed effects on all "
    "sensors that move are right, share of 90 % bands that hold the truth (should be 0.90). A user would take "
    "CausalImpact's model, a local level (statsmodels' UnobservedComponents, by sensor), here with {n_lags} lags of "
    "all inputs of the pooled table. `reach`: a sensor is to be brought to a value in {by} rows and held for {hold}; "
    "one target within reach, one {beyond} standard deviations beyond what any inputs within their bounds bring "
    "about. Miss: median distance from a target within reach, standard deviations, in the simulator without further "
    "noise, with noise, and with noise where a new plan is made every {every} rows. {n_known} rows to learn from, as "
    "many draws of every plant as seeds. The limit of errors and misses is 0, that of verdicts 1."
)
NOTES = {
    "Plans to reach a target": "Nothing that a user would take instead gives a verdict; a plan by hand would be judged "
    "by the same miss."
}
OURS, OTHER = "impact", "local level"
FIELDS = ("effect", "effect_low", "effect_high")


# -- what a move did ----------------------------------------------------------------------------------------


def realised(kind, seed, s):
    """A record that holds the move, the inputs without it, and what it did."""
    plant, rng = PLANTS[kind](), np.random.default_rng([seed, 29])
    U = plant.drive(rng)
    noise, n_known = plant.noise(rng), s["n_known"]
    other, last = moved(U, n_known, s["n_moved"]), n_known + s["n_rows"]
    without, Y = plant.simulate(U, noise), plant.simulate(other, noise)
    return record_of(kind, plant, Y[:last], other[:last], n_known), U[:last], (Y - without)[n_known:last]


def by_library(record, untouched, s):
    """Effect and its band by `impact`."""
    first, n_past = len(record.known) - s["n_past"], s["n_past"]
    rows = record.tail.iloc[first:].reset_index(drop=True)
    window = (n_past, n_past + s["n_rows"])
    asked = {record.inputs[0]: untouched[len(record.known) :, 0]}
    found = record.estimator().fit(record.known).impact(rows, asked, window, confidence=0.9)
    wide = (found.table.pivot(index="time", columns="column", values=f)[record.outputs] for f in FIELDS)
    return tuple(frame.to_numpy()[n_past:] for frame in wide)


def by_local_level(record, untouched, s):
    """The same by a local level with lags of all inputs, sensor by sensor.

    Its variances are those of what least squares leave, its regressors are states: all at once it takes minutes.
    """
    Y, n_lags = record.arrays(record.tail)[0], s["n_lags"]
    Z = lagged(untouched, range(n_lags), len(untouched), n_lags)
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    n_known, found = len(record.known) - n_lags, []
    for y in Y.T:
        known, late = y[n_lags : len(record.known)], y[len(record.known) :]
        rest = known - Z[:n_known] @ np.linalg.lstsq(Z[:n_known], known - known.mean(), rcond=None)[0]
        variances = UnobservedComponents(rest, "local level").fit(disp=False).params
        model = UnobservedComponents(known, "local level", exog=Z[:n_known], mle_regression=False)
        ahead = model.smooth(variances).get_forecast(s["n_rows"], exog=Z[n_known:])
        low, high = np.asarray(ahead.conf_int(alpha=0.1)).T
        found.append((late - ahead.predicted_mean, late - high, late - low))
    return tuple(np.column_stack(part) for part in zip(*found, strict=True))


def signs_right(effect, truth, scale, negligible):
    """Whether the signs of the summed effects on all sensors that move are right."""
    sums = truth.sum(axis=0) / scale
    clear = np.abs(sums) > negligible * np.abs(sums).max()
    return bool((np.sign(effect.sum(axis=0)) == np.sign(sums))[clear].all())


def one_move(kind, seed, s):
    """Error, signs and cover of both tools about one draw."""
    record, untouched, truth = realised(kind, seed, s)
    scale, row = record.arrays(record.known)[0].std(axis=0), {"plant": kind}
    for tool, ask in ((OURS, by_library), (OTHER, by_local_level)):
        effect, low, high = ask(record, untouched, s)
        row[f"{tool}, error"] = relative_error(effect, truth, scale)
        row[f"{tool}, signs"] = signs_right(effect, truth, scale, s["negligible"])
        row[f"{tool}, band"] = share_inside(low, high, truth, s["negligible"])
    return row


def moves(rows):
    """Figures of the draws of some plant."""
    errors = {f"{tool}: error": rows[f"{tool}, error"].median() for tool in (OURS, OTHER)}
    signs = {f"{tool}: signs right": rows[f"{tool}, signs"].mean() for tool in (OURS, OTHER)}
    return errors | signs | {f"{tool}: band holds": rows[f"{tool}, band"].mean() for tool in (OURS, OTHER)}


# -- plans to reach a target --------------------------------------------------------------------------------


class Case:
    """A plant that has run for a while, and its simulator from there on."""

    def __init__(self, kind, seed, s):
        self.plant, self.rng, self.n_known = PLANTS[kind](), np.random.default_rng([seed, 41]), s["n_known"]
        self.by, self.n_rows = s["by"], s["by"] + s["hold"]
        self.U = self.plant.drive(self.rng)[: self.n_known]
        self.noise = {key: x[: self.n_known + self.n_rows] for key, x in self.plant.noise(self.rng).items()}
        Y = self.plant.simulate(self.U, {key: x[: self.n_known] for key, x in self.noise.items()})
        self.record, self.sd = record_of(kind, self.plant, Y, self.U, self.n_known), Y.std(axis=0)
        self.low, self.high = np.quantile(self.U, [0.02, 0.98], axis=0)
        self.low, self.high = np.minimum(self.low, self.U[-1]), np.maximum(self.high, self.U[-1])

    def run(self, schedule, quiet):
        """Measurements of the rows from now on under a schedule."""
        noise = {key: x.copy() for key, x in self.noise.items()}
        if quiet:
            for x in noise.values():
                x[self.n_known :] = 0.0
        return self.plant.simulate(np.vstack([self.U, schedule]), noise)[self.n_known :]

    def held(self, inputs):
        """Means of the rows that count under inputs that stay at values, without noise."""
        schedule = np.repeat(np.asarray(inputs)[None], self.n_rows, axis=0)
        return self.run(schedule, quiet=True)[self.by - 1 :].mean(axis=0)

    def target(self, can, beyond):
        """A sensor and a value, within reach or not."""
        corners = np.array([self.held(c) for c in itertools.product(*zip(self.low, self.high, strict=True))])
        k = int(self.rng.choice(np.flatnonzero(np.ptp(corners, axis=0) > 0.3 * self.sd)))
        if can:
            inside = 0.15 + 0.7 * self.rng.random(len(self.low))
            return k, float(self.held(self.low + inside * (self.high - self.low))[k])
        sign = self.rng.choice([-1.0, 1.0])
        return k, float(sign * (sign * corners[:, k]).max() + sign * beyond * self.sd[k])

    def plan(self, estimator, k, value, past, by):
        """The plan that brings a sensor to a value."""
        inputs = self.record.inputs
        bounds = {name: (low, high) for name, low, high in zip(inputs, self.low, self.high, strict=True)}
        asked = {"inputs": inputs, "bounds": bounds, "by": by, "X": past.reset_index(drop=True)}
        left = self.n_known + self.n_rows - past.index[-1] - 1
        return inspection.reach(estimator, {self.record.outputs[k]: value}, hold=left - by, **asked)

    def planned_again(self, estimator, k, value, schedule, s):
        """Measurements where a new plan is made every few rows, with the rows until then."""
        done, outputs, inputs = schedule.copy(), self.record.outputs, self.record.inputs
        for now in range(s["every"], self.n_rows, s["every"]):
            seen = pd.DataFrame(np.hstack([self.run(done, quiet=False)[:now], done[:now]]), columns=outputs + inputs)
            past = pd.concat([self.record.known, seen[list(self.record.known)]], ignore_index=True)
            plan = self.plan(estimator, k, value, past.iloc[-s["shown"] :], max(self.by - now, 1))
            done[now:] = plan.schedule[inputs].to_numpy()
        return self.run(done, quiet=False)


def one_plant(kind, seed, s):
    """Two plans of one draw: a target within reach, and one beyond it."""
    case, rows = Case(kind, seed, s), []
    estimator = case.record.estimator().fit(case.record.known)
    for can in (True, False):
        k, value = case.target(can, s["beyond"])
        plan = case.plan(estimator, k, value, case.record.known.iloc[-s["shown"] :], case.by)
        schedule = plan.schedule[case.record.inputs].to_numpy()
        noisy = case.run(schedule, quiet=False)
        runs = {"miss": case.run(schedule, quiet=True), "miss, noise": noisy}
        if can:
            runs["miss, planned again"] = case.planned_again(estimator, k, value, schedule, s)
        misses = {name: abs(Y[case.by - 1 :, k].mean() - value) / case.sd[k] for name, Y in runs.items() if can}
        promised = plan.trajectory[plan.trajectory["column"] == case.record.outputs[k]]
        inside = (promised["low"] <= noisy[:, k]) & (noisy[:, k] <= promised["high"])
        rows.append({"plant": kind, "can": can, "verdict": plan.verdict, "band": inside.mean(), **misses})
    return rows


def plans(rows):
    """Figures of the draws of some plant."""
    right = rows["verdict"] == np.where(rows["can"], "reachable", "not reachable")
    wrong = rows["verdict"] == np.where(rows["can"], "not reachable", "reachable")
    misses = {name: rows[name].median() for name in ("miss", "miss, noise", "miss, planned again")}
    return {"verdict right": right.mean(), "verdict wrong": wrong.mean(), **misses, "band holds": rows["band"].mean()}


def figures(s):
    """A row of every plant and of all, for moves and for plans."""
    told = pd.DataFrame([one_move(kind, seed, s) for kind in s["moved"] for seed in s["seeds"]])
    asked = pd.DataFrame([row for kind in s["planned"] for seed in s["seeds"] for row in one_plant(kind, seed, s)])
    return {"What a move did": by_plant(told, moves), "Plans to reach a target": by_plant(asked, plans)}


def by_plant(rows, figures_of):
    """A row of every plant and of all."""
    parts = [*rows.groupby("plant", sort=False), ("all plants", rows)]
    return [{"plant": kind, **figures_of(part)} for kind, part in parts]
