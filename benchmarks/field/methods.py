"""Methods by task, and the decorator that adds one."""

import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from sklearn.decomposition import PCA

from skfedcausal import (
    Evidence,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GradientServer,
)
from skfedcausal.papers import StopRule

PAPER, DEFAULT = "papers' mode (GradientServer)", "skfedcausal, default"
TASKS: dict = {"links": {}, "effects": {}, "roots": {}}


class Method(NamedTuple):
    """A function of a case (effects: and of a unit and a horizon), and the package that it needs."""

    function: object
    package: str


def method(task, name, package=""):
    """Add a function to a task under a name; `package` is what has to be installed for it.

    Links: ``f(case)`` gives (n_units, n_units), row: effect, column: cause, larger: more evidence. Effects:
    ``f(case, unit, horizon)`` gives (horizon, sensors of all units), how every sensor changes when the unit's
    input is one unit higher from now on. Roots: ``f(case)`` gives a name for every one of `case.windows`.
    """

    def add(function):
        TASKS[task][name] = Method(function, package)
        return function

    return add


def available(task, s):
    """Methods of a task that can be run here; says which cannot."""
    out = {}
    for name, (function, package) in TASKS[task].items():
        if package and (not s["packages"] or not find_spec(package)):
            if s["packages"]:
                print(f"{task}: {name} is left out: {package} is not installed", flush=True)
            continue
        out[name] = function
    return out


def judged(task, s, judge):
    """Rows of all regimes and methods; a method that fails in a regime has a row that says so."""
    rows, methods = [], available(task, s)
    for regime in s["regimes"]:
        for name, function in methods.items():
            try:
                row = judge(function, s, regime)
            except Exception as error:  # of anybody's method: the others go on
                row = {"": f"failed: {type(error).__name__}"}
                print(f"{task}, {regime}: {name} failed: {error}", flush=True)
            rows.append({"regime": regime, "method": name} | row)
    return rows


def first_components(X):
    """First principal component of every unit, (n_samples, n_units), and its loadings."""
    fits = [PCA(1).fit(Y) for Y in X.values()]
    return np.hstack([fit.transform(Y) for fit, Y in zip(fits, X.values(), strict=True)]), fits


def quietly(function, *given, **named):
    """A call without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*given, **named)


def blocks(estimator, names):
    """Norm of every block between units, [effect, cause]."""
    slices = estimator.state_slices_
    A = estimator.transition_
    return np.array([[np.linalg.norm(A[slices[m], slices[n]]) for n in names] for m in names])


# -- links ---------------------------------------------------------------------------------------------------


@method("links", DEFAULT)
def default_links(case):
    """Evidence of the likelihood tests."""
    found = quietly(FederatedGrangerEstimator().fit, case.X).links_
    names, out = case.plant.names, np.zeros_like(case.plant.links)
    for row in found.itertuples():
        out[names.index(row.effect), names.index(row.cause)] = -np.log(max(row.p_value, 1e-300)) + row.strength
    return out


@method("links", PAPER)
def gradient_links(case):
    """Size of the blocks that the first paper's training ends at."""
    server = GradientServer(exchange="moments", stop=StopRule(max_iter=1000))
    return blocks(quietly(FederatedGrangerEstimator(server=server).fit, case.X), case.plant.names)


def wald(case, n_lags):
    """Wald statistics of a vector autoregression of the units' first components."""
    from statsmodels.tsa.api import VAR

    scores, _ = first_components(case.X)
    fit = VAR(scores).fit(n_lags, trend="c")
    n = scores.shape[1]
    cov, out = fit.cov_params(), np.zeros((n, n))
    cov = np.asarray(cov)
    params = np.asarray(fit.params)
    for effect in range(n):
        for cause in range(n):
            rows = [1 + lag * n + cause for lag in range(n_lags)]
            at = [row * n + effect for row in rows]
            b = params[rows, effect]
            out[effect, cause] = b @ np.linalg.solve(cov[np.ix_(at, at)], b)
    return out


@method("links", "VAR(1) on components, Wald")
def var_1(case):
    """One lag."""
    return wald(case, 1)


@method("links", "VAR(5) on components, Wald")
def var_5(case):
    """Five lags."""
    return wald(case, 5)


@method("links", "PCMCI on components (tigramite)", "tigramite")
def pcmci(case):
    """Largest partial correlation over five lags."""
    pp = import_module("tigramite.data_processing")
    test = import_module("tigramite.independence_tests.parcorr").ParCorr()
    run = import_module("tigramite.pcmci").PCMCI
    data = pp.DataFrame(first_components(case.X)[0])
    found = run(data, test, verbosity=0).run_pcmci(tau_min=1, tau_max=5, pc_alpha=0.05)
    return np.abs(found["val_matrix"][:, :, 1:]).max(axis=2).T


# -- effects -------------------------------------------------------------------------------------------------


def federated_effect(case, unit, horizon, server):
    """Counterfactual answer of the library."""
    est = FederatedCounterfactualEstimator(server=server)
    quietly(est.fit, case.X, inputs=case.inputs)
    found = est.counterfactual(unit, 0.0, 1.0, horizon=horizon).to_numpy()
    return found[-horizon:]  # one row more where an input was found to act within the row


@method("effects", DEFAULT)
def default_effect(case, unit, horizon):
    """Likelihood server."""
    return federated_effect(case, unit, horizon, None)


@method("effects", PAPER)
def gradient_effect(case, unit, horizon):
    """The second paper's training."""
    return federated_effect(
        case, unit, horizon, GradientServer(exchange="moments", xi=1.0, stop=StopRule(max_iter=1000))
    )


@method("effects", "VARX(1) on components")
def varx_effect(case, unit, horizon):
    """Least squares on components and inputs, put together."""
    scores, fits = first_components(case.X)
    U = np.hstack(list(case.inputs.values()))
    past = np.hstack([scores[:-1], U[:-1], np.ones((len(U) - 1, 1))])
    found = np.linalg.lstsq(past, scores[1:], rcond=None)[0].T
    n = scores.shape[1]
    A, b, x, out = found[:, :n], found[:, n + unit], np.zeros(n), []
    for _ in range(horizon):
        x = A @ x + b
        out.append(np.hstack([x[m] * fit.components_[0] for m, fit in enumerate(fits)]))
    return np.array(out)


# -- roots ---------------------------------------------------------------------------------------------------


def most_named(named, windows):
    """Unit named most often in every window, "" for none."""
    out = []
    for first, stop in windows:
        names, counts = np.unique([n for n in named[first:stop] if n not in ("", "undecided")], return_counts=True)
        out.append(str(names[counts.argmax()]) if len(names) else "")
    return out


@method("roots", DEFAULT)
def default_roots(case):
    """What the detector attributes to each window, with the record up to its end."""
    detector = quietly(FederatedRCADetector().fit, case.X)
    until = [{unit: rows[:stop] for unit, rows in case.test.items()} for _, stop in case.windows]
    found = [detector.attribute(X, start=first) for X, (first, _) in zip(until, case.windows, strict=True)]
    return [told["client"].iloc[0] for told in found]


@method("roots", "skfedcausal, watching: no window told")
def watched_roots(case):
    """What the detector names on its own, row by row."""
    detector = quietly(FederatedRCADetector(false_alarm_rate=1e-2).fit, case.X)
    return most_named(quietly(detector.predict_root_cause, case.test), case.windows)


@method("roots", "papers' mode (flags)")
def flag_roots(case):
    """Two flags of every unit and step."""
    detector = FederatedRCADetector(false_alarm_rate=1e-2, evidence=Evidence("flags", percentile=95.0))
    quietly(detector.fit, case.X)
    return most_named(quietly(detector.predict_root_cause, case.test), case.windows)


def largest(residual, nominal, case):
    """Unit with the largest mean square in every window, in nominal variances."""
    z = (residual - nominal.mean(axis=0)) ** 2 / nominal.var(axis=0)
    return [case.plant.names[int(z[a:b].mean(axis=0).argmax())] for a, b in case.windows]


@method("roots", "largest deviation")
def deviation_roots(case):
    """No model at all."""
    scores, fits = first_components(case.X)
    test = np.hstack([fit.transform(Y) for fit, Y in zip(fits, case.test.values(), strict=True)])
    return largest(test, scores, case)


@method("roots", "VAR(1) innovations")
def var_roots(case):
    """Innovations of a pooled autoregression of the components."""
    scores, fits = first_components(case.X)
    test = np.hstack([fit.transform(Y) for fit, Y in zip(fits, case.test.values(), strict=True)])
    parts = [np.hstack([Z[:-1], np.ones((len(Z) - 1, 1))]) for Z in (scores, test)]
    A = np.linalg.lstsq(parts[0], scores[1:], rcond=None)[0]
    rest = [np.vstack([np.zeros(Z.shape[1]), Z[1:] - P @ A]) for Z, P in zip((scores, test), parts, strict=True)]
    return largest(rest[1], rest[0], case)


@method("roots", "dowhy.gcm, true graph", "dowhy")
def gcm_roots(case):
    """Anomaly score of every unit's noise given its parents one step before, the true links being told."""
    gcm, networkx = import_module("dowhy.gcm"), import_module("networkx")
    pandas = import_module("pandas")
    scores, fits = first_components(case.X)
    test = np.hstack([fit.transform(Y) for fit, Y in zip(fits, case.test.values(), strict=True)])
    names = case.plant.names
    frames = [
        pandas.DataFrame(np.hstack([Z[1:], Z[:-1]]), columns=[*names, *(f"{n} before" for n in names)])
        for Z in (scores, test)
    ]
    graph = networkx.DiGraph([(f"{n} before", n) for n in names])
    graph.add_edges_from((f"{names[n]} before", names[m]) for m, n in np.argwhere(case.plant.linked))
    model = gcm.StructuralCausalModel(graph)
    for node in graph.nodes:
        if graph.in_degree(node):
            model.set_causal_mechanism(node, gcm.AdditiveNoiseModel(gcm.ml.create_linear_regressor()))
        else:
            model.set_causal_mechanism(node, gcm.EmpiricalDistribution())
    gcm.config.disable_progress_bars()
    quietly(gcm.fit, model, frames[0])
    padded = []
    for frame in frames:
        parts = [np.zeros(len(frame) + 1) for _ in names]
        for part, node in zip(parts, names, strict=True):
            parents = frame[sorted(graph.predecessors(node))].to_numpy()
            part[1:] = model.causal_mechanism(node).estimate_noise(frame[[node]].to_numpy(), parents).ravel()
        padded.append(np.column_stack(parts))
    return largest(padded[1], padded[0], case)


@method("roots", "RCAEval BARO", "RCAEval")
def baro_roots(case):
    """Robust scores of BARO on a window around every known onset."""
    pandas = import_module("pandas")
    baro = import_module("RCAEval.e2e.baro").baro
    columns = [f"{n}_{k}" for n, Y in case.test.items() for k in range(Y.shape[1])]
    Y, out = np.hstack(list(case.test.values())), []
    for first, stop in case.windows:
        table = pandas.DataFrame(Y[first - 80 : stop], columns=columns)
        table.insert(0, "time", np.arange(len(table)))
        ranks = quietly(baro, table, inject_time=80)["ranks"]
        out.append(ranks[0].rpartition("_")[0])
    return out
