"""Random plants, settings and damage: every fit ends in time, with an answer or an error that says what to do.

A configuration is a small plant of random sizes with one or two kinds of damage and random settings; it is fitted
and asked its questions, and what happened is counted. Run ``python -m benchmarks.robustness`` for the table.
"""

import argparse
import traceback
import warnings
from collections import Counter
from time import process_time

import numpy as np
from joblib import Parallel, delayed

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    KalmanClient,
    LikelihoodServer,
)
from skfedcausal.datasets import make_granger_plant

from ._report import table, write

LIMIT = 30.0  # seconds of a fit
_DOUBTFUL = ("unclear error", "answered, NaN")
_CLEAR = (ValueError, TypeError, MemoryError)  # what a user is told with words; LinAlgError is a ValueError too


def _chosen(rng, Y):
    return int(rng.integers(Y.shape[1]))


def held(rng, X):
    """Every row twice or more, as a historian writes it that samples and holds."""
    k = int(rng.integers(2, 6))
    return {name: np.repeat(Y[::k], k, axis=0)[: len(Y)] for name, Y in X.items()}


def _of_one_unit(change):
    def damaged(rng, X):
        name = str(rng.choice(list(X)))
        return X | {name: change(rng, X[name].copy())}

    damaged.__doc__ = change.__doc__
    return damaged


def _of_all(change):
    def damaged(rng, X):
        return {name: change(rng, Y.copy()) for name, Y in X.items()}

    damaged.__doc__ = change.__doc__
    return damaged


def missing(rng, Y):
    """Cells missing at random."""
    Y[rng.random(Y.shape) < rng.choice([0.02, 0.1, 0.5])] = np.nan
    return Y


def outage(rng, Y):
    """All sensors silent for a while."""
    start, size = rng.integers(len(Y)), rng.integers(1, len(Y))
    Y[start : start + size] = np.nan
    return Y


def hardly_seen(rng, Y):
    """All but a few rows missing."""
    Y[rng.permutation(len(Y))[int(rng.integers(2, 20)) :]] = np.nan
    return Y


def every_other(rng, Y):
    """Reports in every k-th row only."""
    kept = np.arange(len(Y)) % int(rng.integers(2, 5)) == 0
    return np.where(kept[:, None], Y, np.nan)


def constant(rng, Y):
    """A sensor that never moves."""
    Y[:, _chosen(rng, Y)] = 3.0
    return Y


def empty(rng, Y):
    """A sensor that never reports."""
    Y[:, _chosen(rng, Y)] = np.nan
    return Y


def infinite(rng, Y):
    """An infinite number."""
    Y[rng.integers(len(Y)), _chosen(rng, Y)] = np.inf
    return Y


def copied(rng, Y):
    """A sensor twice."""
    return np.hstack([Y, Y[:, [_chosen(rng, Y)]]])


def rank_one(rng, Y):
    """All sensors say the same."""
    return Y[:, [0]] * rng.uniform(0.5, 2, Y.shape[1])


def exact(rng, Y):
    """States without sensor noise, or with hardly any."""
    return Y[:, [0]] + 10.0 ** -rng.integers(3, 12) * rng.standard_normal(Y.shape)


def outliers(rng, Y):
    """Spikes of many sizes."""
    at = rng.integers(len(Y), size=5)
    Y[at, _chosen(rng, Y)] = 10.0 ** rng.integers(2, 13)
    return Y


def filled(rng, Y):
    """Missing values written as -9999."""
    start = rng.integers(len(Y))
    Y[start : start + 40] = -9999.0
    return Y


def scaled(rng, Y):
    """Tiny or huge units of measurement."""
    return Y * 10.0 ** rng.choice([-150, -12, 9, 150])


def beyond(rng, Y):
    """Numbers whose squares cannot be written."""
    return Y * 10.0 ** rng.choice([-300, 200, 250])


def shifted(rng, Y):
    """A large offset."""
    return Y + 10.0 ** rng.integers(3, 10)


def frozen(rng, Y):
    """Constant for half the record."""
    Y[len(Y) // 2 :] = Y[len(Y) // 2]
    return Y


def quantised(rng, Y):
    """Few levels."""
    step = Y.std() * rng.choice([0.1, 1.0, 3.0])
    return np.round(Y / step) * step


def clipped(rng, Y):
    """Saturated sensors."""
    return np.clip(Y, -Y.std(), Y.std())


def heavy(rng, Y):
    """Tails without a variance."""
    return Y + rng.standard_t(1.5, Y.shape)


def walk(rng, Y):
    """Sensors that wander off."""
    return Y + np.cumsum(rng.standard_normal(Y.shape), axis=0)


def ramp(rng, Y):
    """A trend."""
    return Y + 5 * Y.std() * np.linspace(0, 1, len(Y))[:, None]


def season(rng, Y):
    """A period."""
    return Y + 3 * np.sin(2 * np.pi * np.arange(len(Y)) / rng.choice([7, 24, 288]))[:, None]


def stepped(rng, Y):
    """Set points that change."""
    return Y + np.repeat(rng.normal(0, 3, 11), len(Y) // 10 + 1)[: len(Y), None]


def alternating(rng, Y):
    """A mode near the highest frequency."""
    return Y + np.cumprod(-np.ones(len(Y)))[:, None] * rng.uniform(0, 3)


def late(rng, X):
    """All sensors of a unit several rows late."""
    name = str(rng.choice(list(X)))
    return X | {name: np.roll(X[name], int(rng.integers(2, 15)), axis=0)}


def second_order(rng, X):
    """A resonance behind the sensors of a unit."""
    name = str(rng.choice(list(X)))
    x = X[name].copy()
    for t in range(2, len(x)):
        x[t] += 1.6 * x[t - 1] - 0.9 * x[t - 2]
    return X | {name: x}


def twin(rng, X):
    """A unit twice."""
    return X | {"twin": X[str(rng.choice(list(X)))].copy()}


def driven(rng, X):
    """A hidden slow driver of all units."""
    n, driver = len(next(iter(X.values()))), 0.0
    series = np.empty((n, 1))
    for t in range(n):
        driver = 0.97 * driver + rng.standard_normal()
        series[t] = driver
    return {name: Y + series for name, Y in X.items()}


def unharmed(rng, X):
    """As simulated."""
    return X


DAMAGE = {
    "none": unharmed,
    "sample and hold": held,
    "missing cells": _of_one_unit(missing),
    "missing cells everywhere": _of_all(missing),
    "outage": _of_one_unit(outage),
    "hardly seen": _of_one_unit(hardly_seen),
    "every k-th row": _of_one_unit(every_other),
    "constant sensor": _of_one_unit(constant),
    "empty sensor": _of_one_unit(empty),
    "infinite number": _of_one_unit(infinite),
    "sensor twice": _of_one_unit(copied),
    "rank one": _of_one_unit(rank_one),
    "hardly any noise": _of_one_unit(exact),
    "outliers": _of_one_unit(outliers),
    "-9999": _of_one_unit(filled),
    "units of measurement": _of_one_unit(scaled),
    "numbers beyond squares": _of_one_unit(beyond),
    "offset": _of_one_unit(shifted),
    "frozen": _of_one_unit(frozen),
    "quantised": _of_all(quantised),
    "clipped": _of_all(clipped),
    "heavy tails": _of_all(heavy),
    "random walk": _of_all(walk),
    "trend": _of_one_unit(ramp),
    "season": _of_all(season),
    "set points": _of_one_unit(stepped),
    "alternating": _of_one_unit(alternating),
    "delay": late,
    "second order": second_order,
    "unit twice": twin,
    "hidden driver": driven,
}


def _inputs(rng, X, truth):
    """Inputs of a plant, some damaged too."""
    inputs = {}
    for name, U in zip(X, truth.inputs, strict=False):
        if U is None:
            continue
        U = U.copy()
        kind = rng.choice(
            ["as it is", "held", "switch", "constant", "follows", "twice"], p=[0.5, 0.15, 0.15, 0.05, 0.1, 0.05]
        )
        if kind == "held":
            U = np.repeat(U[::10], 10, axis=0)[: len(U)]
        elif kind == "switch":
            U = (U > 0).astype(float)
        elif kind == "constant":
            U[:] = 1.0
        elif kind == "follows":
            U = U - 0.5 * np.nan_to_num(X[name][:, :1])
        elif kind == "twice":
            U = np.hstack([U, U])
        inputs[name] = U
    return inputs


def drawn(seed):
    """An estimator, the keywords of its `fit`, and what to call the configuration."""
    rng = np.random.default_rng([seed, 31])
    kind = str(rng.choice(["granger", "counterfactual", "detector"], p=[0.5, 0.3, 0.2]))
    n_units, n_samples = int(rng.integers(1, 6)), int(rng.choice([40, 120, 300, 500, 1000, 3000]))
    n_sensors, n_states = int(rng.integers(1, 6)), int(rng.integers(1, 3))
    sizes = {"n_states": min(n_states, n_sensors), "n_sensors": n_sensors, "n_samples": n_samples}
    with_inputs = {"n_inputs": 1} if kind == "counterfactual" else {}
    X, truth = make_granger_plant(n_units, random_state=seed, **sizes, **with_inputs)
    damage = [str(d) for d in rng.choice(list(DAMAGE), size=int(rng.integers(1, 3)), replace=False)]
    inputs = _inputs(rng, X, truth) if with_inputs else None
    for one in damage:
        X = DAMAGE[one](rng, X)
    asked = {"X": X}
    if rng.random() < 0.2:
        cuts = np.sort(rng.integers(1, n_samples, size=3))
        lengths = np.diff([0, *cuts, n_samples])
        asked["lengths"] = [int(k) for k in lengths if k]
    if inputs:
        asked["inputs"] = inputs
    settings = {"wire_dtype": str(rng.choice(["float64", "float32", "float16"], p=[0.8, 0.1, 0.1]))}
    if rng.random() < 0.3:
        settings["client"] = KalmanClient(n_states=int(rng.integers(1, n_sensors + 1)))
    server = {}
    for name, value in {
        "sparsity": None,
        "covariance": "sandwich",
        "likelihood": "time-domain",
        "horizon": 1,
        "n_rounds": 2,
    }.items():
        if rng.random() < 0.08:
            server[name] = value
    if server and kind != "detector":
        settings["server"] = LikelihoodServer(**server)
    if kind == "counterfactual":
        settings["sampled"] = str(rng.choice(["auto", "before", "after"]))
        settings["basis"] = str(rng.choice(["linear", "spline"], p=[0.8, 0.2]))
        return FederatedCounterfactualEstimator(**settings), asked, (kind, *damage)
    if kind == "detector":
        return FederatedRCADetector(false_alarm_rate=0.01, **settings), asked, (kind, *damage)
    return FederatedGrangerEstimator(**settings), asked, (kind, *damage)


def _questions(estimator, asked, kind):
    """Numbers that the fitted estimator answers."""
    given = {name: value for name, value in asked.items() if name != "X"}
    X = asked["X"]
    if kind == "detector":
        estimator.incidents(X, **given)
        return [estimator.transform(X, **given)]
    found = [
        estimator.score_samples(X, **given),
        np.asarray(estimator.predict(X, **given)),
        estimator.transform(X, **given),
    ]
    if kind == "counterfactual":
        unit = next(name for name in estimator.client_names_ if estimator._plant_inputs.of(name))
        found.append(estimator.counterfactual(unit, 0.0, 1.0, horizon=5).to_numpy())
    return found


def measured(seed):
    """What one configuration came to: outcome, seconds of its fit, words."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        start = process_time()
        try:
            estimator, asked, names = drawn(seed)
            start = process_time()
            estimator.fit(**asked)
            seconds = process_time() - start
            numbers = _questions(estimator, asked, names[0])
            outcome, words = "answered", ""
            if not all(np.isfinite(x).all() for x in numbers):
                outcome = "answered, NaN"
        except Exception as error:
            seconds, words = process_time() - start, f"{type(error).__name__}: {error}"
            is_clear = isinstance(error, _CLEAR) and not isinstance(error, np.linalg.LinAlgError)
            last = traceback.extract_tb(error.__traceback__)[-1].filename
            outcome = "clear error" if is_clear and ("skfedcausal" in last or "sklearn" in last) else "unclear error"
    if outcome == "answered" and told:
        outcome = "answered, warned"
    if outcome in _DOUBTFUL or seconds > LIMIT / 4:
        print(f"{seed}: {', '.join(names)}: {outcome} after {seconds:.1f} s. {words[:300]}", flush=True)
    return {"seed": seed, "what": ", ".join(names), "outcome": outcome, "seconds": seconds, "words": words[:160]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configurations", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--name", default="robustness", help="of the file in results")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.configurations)
    rows = Parallel(n_jobs=arguments.n_jobs)(delayed(measured)(seed) for seed in seeds)
    counts = Counter(row["outcome"] for row in rows)
    seconds = np.array([row["seconds"] for row in rows])
    outcomes = [{"outcome": name, "configurations": n} for name, n in sorted(counts.items())]
    times = {"median": np.median(seconds), "90 %": np.quantile(seconds, 0.9), "99 %": np.quantile(seconds, 0.99)}
    times |= {"longest": seconds.max()}
    slowest = sorted(rows, key=lambda row: -row["seconds"])[:8]
    doubtful = [row for row in rows if row["outcome"] in _DOUBTFUL]
    sections = [
        f"{len(rows)} random configurations of `benchmarks/robustness.py`: fit, then predictions, densities, states, "
        f"effects or incidents. {int((seconds > LIMIT).sum())} fits took longer than {LIMIT:.0f} s of a processor.",
        table(outcomes),
        "Seconds of a fit:",
        table([{name: f"{value:.2f}" for name, value in times.items()}]),
        "The slowest ones:",
        table(
            [
                {"seed": r["seed"], "what": r["what"], "seconds": f"{r['seconds']:.1f}", "outcome": r["outcome"]}
                for r in slowest
            ]
        ),
    ]
    if doubtful:
        sections += ["Errors without words of ours, or answers that are not numbers:"]
        sections += [
            table(
                [
                    {
                        "seed": r["seed"],
                        "what": r["what"],
                        "outcome": r["outcome"],
                        "words": r["words"].replace("|", "/").replace("\n", " "),
                    }
                    for r in doubtful
                ]
            )
        ]
    write(arguments.name, "Robustness", *sections)


if __name__ == "__main__":
    main()
