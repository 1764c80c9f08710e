"""Processor time, memory and bytes of fits, batches, streams and filters, beside what a user would pick."""

import subprocess
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag
from statsmodels.stats.multitest import multipletests
from statsmodels.tsa.statespace.kalman_filter import KalmanFilter
from threadpoolctl import threadpool_limits

from skfedcausal import FederatedGrangerEstimator, FederatedRCADetector, KalmanClient
from skfedcausal.statespace.kalman import filtered_covariance, predicted_covariance

from .._limits import best_selection, known_links
from .._networks import dead_times, links_of, weak_links
from .._pages import RESULTS
from .._rivals import LEVEL, Autoregression, components

TITLE = "What a fit, a stream and a filter cost"
TEXT = (
    "CPU: processor seconds of one thread, measured in turns in one process (least of the turns), over those of one of "
    "the methods, so that machines can be compared."
)
PCA, RAW = "VAR of components", "VAR of sensors"
_WHOLE = 32  # units up to which decisions are family-wise, of more at a false discovery rate: `correction="auto"`
NOTES = {
    "Fits": (
        "`FederatedGrangerEstimator().fit(X)`, told nothing, beside statsmodels' `VAR` of the same record with Wald "
        "tests of all pairs of units from one inverse: of order 1 on as many principal components of every unit as it "
        "has states, and of all sensors, its order by AIC up to 5 (1 for plants of 512 sensors and more); with dead "
        "times both by AIC up to 20. Gaps are filled linearly for them. CPU: the VAR of components is 1. F1 of "
        "decisions at 5 %, family-wise up to 32 units, at a false discovery rate above; its limit is that of the best "
        "selection among all pairs, every link seen with its Cramer-Rao error, on average: one record may be luckier. "
        "Bytes: all messages over the record in double precision, which a pooled VAR has to collect. MB: peak of a "
        "fresh process less what it had with the record read."
    ),
    "Rows": (
        "A row of `FederatedRCADetector.update`, in arrays, that comes alone or in a batch, no incident under way, "
        "beside a Kalman filter of the whole plant that knows it: a step in NumPy with its covariances (1), and "
        "statsmodels' compiled `KalmanFilter` (the fastest of its settings, covariances settled). Then "
        "`KalmanClient.filter` of a unit of four states, beside the same. The limit is what any filter has to do: two "
        "products with settled gains for a row of a stream, one product of the gain and the whole record for a unit's."
    ),
    "Batches": (
        "A record learned by `partial_fit`, beside fits of every batch alone (1) and one fit of all rows with the same "
        "models of the units, and the largest difference of coefficients from that fit."
    ),
}


# -- plants and their links ------------------------------------------------------------------------


class Case(NamedTuple):
    """A plant: what it is called, its record, the pairs (effect, cause) that are linked, and the truth behind it."""

    name: str
    X: dict
    linked: np.ndarray
    truth: object = None


def side_by_side(functions, turns):
    """Least processor seconds and the last answer of every function by name, measured in turns.

    A busy machine disturbs all of them alike, so that ratios can be compared where seconds cannot.
    """
    seconds, answers = dict.fromkeys(functions, float("inf")), {}
    for _ in range(turns):
        for name, function in functions.items():
            begin = process_time()
            answers[name] = function()
            seconds[name] = min(seconds[name], process_time() - begin)
    return seconds, answers


def case(units, rows, sensors=8, *, seed=0, missing=0.0, noise=None, dead=False):
    """A plant by its settings: `noise` is the standard deviation of sensors, by default about that of the states;
    `dead`: links act after dead times, otherwise in the next row.
    """
    name = f"{units} units x {sensors} sensors, {rows} rows"
    if dead:
        found = dead_times(units, rows, seed)
        return Case(f"{name}, dead times", found.X, found.linked)
    changes: dict = {} if noise is None else {"measurement_noise": noise}
    X, truth = weak_links(units, rows, seed, n_sensors=sensors, missing=missing, **changes)
    name += f", {missing:.0%} of the cells missing" if missing else ""
    return Case(name, X, square(links_of(truth), units), truth)


def square(values, n_units):
    """Values of pairs in the order of ``links_`` as [effect, cause], nothing on the diagonal."""
    out = np.zeros((n_units, n_units), dtype=values.dtype)
    out[~np.eye(n_units, dtype=bool)] = values
    return out


def decided(links, names):
    """Links of a table that are told, [effect, cause]."""
    told = links[(links["p_adjusted"] < LEVEL) & (links["kind"] == "state")]
    place, out = {name: k for k, name in enumerate(names)}, np.zeros((len(names), len(names)), dtype=bool)
    out[[place[e] for e in told["effect"]], [place[c] for c in told["cause"]]] = True
    return out


def passed(p):
    """Pairs [effect, cause] whose p-values pass the correction that the library takes for as many units."""
    off, out = ~np.eye(len(p), dtype=bool), np.zeros_like(p, dtype=bool)
    out[off] = multipletests(p[off], LEVEL, method="holm" if len(p) <= _WHOLE else "fdr_bh")[0]
    return out


def f1(found, linked):
    """Harmonic mean of precision and recall."""
    return 2 * (found & linked).sum() / max(1, found.sum() + linked.sum())


def best_f1(one):
    """F1 of the best selection among all pairs, under the same correction."""
    n = len(one.linked)
    n_rows = len(next(iter(one.X.values())))
    found = best_selection(*known_links(one.truth, one.linked, n_rows), n * (n - 1), LEVEL)
    return found["F1 family-wise" if n <= _WHOLE else "F1 at the false discovery rate"]


# -- fits ---------------------------------------------------------------------------------------------


def fitted(X):
    """The default estimator."""
    return FederatedGrangerEstimator().fit(X)


def var(X, n_components, lags):
    """p-values by a VAR of some components a unit (None: all sensors), its order by AIC where there is a choice."""
    series = components(X, n_components)[0]  # all of them: sensors in other axes, which changes no p-value
    return Autoregression(series, *((1,) if lags == 1 else (None, lags))).p_values()


def fit_row(options):
    """Price and links of a fit, and of two autoregressions."""
    options = dict(options)
    pca, sensors, turns = options.pop("pca"), [None, options.pop("lags")], options.pop("turns")
    with_memory, one = options.pop("memory", True), case(**options)
    calls = {"ours": partial(fitted, one.X), PCA: partial(var, one.X, *pca), RAW: partial(var, one.X, *sensors)}
    seconds, answers = side_by_side(calls, turns)
    ours = answers["ours"]
    found = {"": decided(ours.links_, one.X)} | {name: passed(answers[name]) for name in (PCA, RAW)}
    row = {"plant": one.name, "CPU": seconds["ours"] / seconds[PCA]}
    row |= {f"CPU, {name}": seconds[name] / seconds[PCA] for name in (PCA, RAW)}
    row |= {", ".join(["F1", *([name] if name else [])]): f1(pairs, one.linked) for name, pairs in found.items()}
    row["F1, limit"] = best_f1(one) if one.truth is not None and not options.get("missing") else None
    sent, states = ours.communication_, sum(client.n_states_ for client in ours.clients_.values())
    row["bytes / record"] = (sent["bytes_up"] + sent["bytes_down"]) / sent["raw_bytes"]
    row["states / sensors"] = states / sum(Y.shape[1] for Y in one.X.values())
    if with_memory:
        row |= {"MB": peak(fitted, one.X), f"MB, {PCA}": peak(var, one.X, *pca)}
    return row


def peak(function, X, *arguments):
    """MB that a fresh process takes beyond what it had with the record read."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "record.npz"
        np.savez(file, **X)
        name = function.__name__
        code = f"from {__name__} import growth, {name}\nprint(growth({(str(file), *arguments)}, {name}))"
        command = [sys.executable, "-c", code]
        return float(subprocess.run(command, cwd=RESULTS.parents[1], check=True, stdout=subprocess.PIPE).stdout)


def growth(file_and_arguments, function):
    """MB by which a call makes this process grow at its peak; what a first call imports does not count."""
    file, *arguments = file_and_arguments
    X = dict(np.load(file))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function(weak_links(4, 500)[0], *arguments)
        before = _resident("VmRSS")
        function(X, *arguments)
    return (_resident("VmHWM") - before) / 1024


def _resident(name):
    """Resident memory of this process in KB: VmRSS now, VmHWM at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


# -- rows -----------------------------------------------------------------------------------------------


class Matrices:
    """A filter's matrices, and steps of it in NumPy."""

    def __init__(self, A, C, Q, R):
        self.A, self.C, self.Q, self.R = A, C, Q, R
        J = C.T @ np.linalg.solve(R, C)
        predicted = predicted_covariance(A, J, Q)
        self.gain = np.linalg.solve(R, C @ filtered_covariance(predicted, J)).T
        self.product = np.ascontiguousarray(self.gain.T)
        self.back = A - self.gain @ C @ A

    def steps(self, Y):
        """Predictions and updates with their covariances, row by row."""
        x, P = np.zeros(len(self.A)), self.Q
        for y in Y:
            x, P = self.A @ x, self.A @ P @ self.A.T + self.Q
            K = np.linalg.solve(self.C @ P @ self.C.T + self.R, self.C @ P).T
            x, P = x + K @ (y - self.C @ x), P - K @ self.C @ P

    def settled(self, Y):
        """The same with a settled gain: two products a row."""
        x = np.zeros(len(self.A))
        for y in Y:
            x = self.back @ x + self.gain @ y

    def at_once(self, Y):
        """Gain times the whole record."""
        return Y @ self.product

    def by_statsmodels(self, Y, methods=()):
        """Filtered states by statsmodels, with as little output as it can do."""
        model = KalmanFilter(len(self.C), len(self.A), tolerance=1e-9)
        model["design"], model["transition"], model["selection"] = self.C, self.A, np.eye(len(self.A))
        model["state_cov"], model["obs_cov"] = self.Q, self.R
        model.initialize_stationary()
        for name in ("forecast", "predicted", "gain", "likelihood", "smoothing", "std_forecast", "filtered_cov"):
            setattr(model, f"memory_no_{name}", True)
        for name in methods:
            setattr(model, name, True)
        model.bind(Y)
        return model.filter().filtered_state.T


STATSMODELS = ((), ("filter_univariate",), ("filter_collapsed", "filter_univariate"))


def row_costs(name, ours, limit, matrices, Y, turns, n_steps=200):
    """A row of the table: seconds a row of ours, of other filters and of the limit, over those of a step in NumPy."""
    steps, (call, n_ours), (least, n_least) = Y[:n_steps], ours, limit
    peers = {str(methods): partial(matrices.by_statsmodels, Y, methods) for methods in STATSMODELS}
    functions = {"ours": call, "limit": least, "steps": partial(matrices.steps, steps), **peers}
    seconds, _ = side_by_side(functions, turns)
    unit = seconds["steps"] / len(steps)
    return {
        "row": name,
        "CPU": seconds["ours"] / n_ours / unit,
        "CPU, step in NumPy": 1.0,
        "CPU, statsmodels": min(seconds[peer] for peer in peers) / len(Y) / unit,
        "CPU, limit": seconds["limit"] / n_least / unit,
    }


def stream_rows(units, sensors, s):
    """A row that comes alone and one in a batch, of a plant that is watched."""
    X, truth = weak_links(units, s["watched"] + 1000, n_sensors=sensors)
    learned = {name: Y[:-1000] for name, Y in X.items()}
    batch = {name: np.ascontiguousarray(Y[-1000:]) for name, Y in X.items()}
    single = [{name: Y[k : k + 1] for name, Y in batch.items()} for k in range(s["single"])]
    detector = FederatedRCADetector().fit(learned)
    C, R = block_diag(*truth.observation), block_diag(*truth.measurement_cov)
    matrices, Y = Matrices(truth.transition, C, truth.process_cov, R), np.hstack(list(batch.values()))
    settled = partial(matrices.settled, Y), len(Y)

    def follow(parts):
        detector.reset()
        for part in parts:
            detector.update(part)

    plant = f"a stream of {units} units x {sensors} sensors"
    alone = partial(follow, single), len(single)
    together = partial(follow, [batch]), len(Y)
    yield row_costs(f"{plant}, row by row", alone, settled, matrices, Y, s["turns"])
    yield row_costs(f"{plant}, batches of 1000", together, settled, matrices, Y, s["turns"])


def filter_row(sensors, s, n_states=4):
    """Filtered states of one unit whose model is known."""
    rng = np.random.default_rng(sensors)
    A = rng.standard_normal((n_states, n_states))
    A *= 0.95 / np.abs(np.linalg.eigvals(A)).max()
    C, R = rng.standard_normal((sensors, n_states)) / 2, np.ones(sensors)
    matrices = Matrices(A, C, 0.1 * np.eye(n_states), np.diag(R))
    Y, client = rng.standard_normal((s["filtered"], sensors)), KalmanClient(A, None, C, matrices.Q, R)
    ours, limit = (partial(client.filter, Y), len(Y)), (partial(matrices.at_once, Y), len(Y))
    return row_costs(f"`KalmanClient.filter`, {sensors} sensors", ours, limit, matrices, Y, s["turns"])


# -- batches ------------------------------------------------------------------------------------------


def batch_row(units, rows, s):
    """A record learned batch by batch beside fits of every batch alone and of all rows."""
    X, _ = weak_links(units, rows * s["n_batches"])
    batches = [{name: Y[k * rows : (k + 1) * rows] for name, Y in X.items()} for k in range(s["n_batches"])]

    def learned():
        estimator = FederatedGrangerEstimator()
        for batch in batches:
            estimator.partial_fit(batch)
        return estimator

    def whole():
        models = {name: client.model for name, client in known.clients_.items()}
        clients = {name: KalmanClient(A=m.A, C=m.C, Q=m.Q, R=m.R) for name, m in models.items()}
        return FederatedGrangerEstimator(clients).fit(X, lengths=[rows] * len(batches))

    known = learned()
    functions = {"batches": learned, "alone": lambda: [fitted(batch) for batch in batches], "whole": whole}
    seconds, answers = side_by_side(functions, 1)
    difference = answers["batches"].transition_ - answers["whole"].transition_
    return {
        "record": f"{units} units x 8 sensors, {len(batches)} batches of {rows} rows",
        "CPU": seconds["batches"] / seconds["alone"],
        "CPU, fits of every batch": 1.0,
        "CPU, one fit": seconds["whole"] / seconds["alone"],
        "difference from one fit": float(np.abs(difference).max()),
    }


def figures(s):
    """Sections of the page."""
    with threadpool_limits(1):
        fitted(weak_links(4, 500)[0])  # what a first fit imports is no part of its price
        rows = [row for plant in s["streams"] for row in stream_rows(*plant, s)]
        return {
            "Fits": [fit_row(options) for options in s["cases"]],
            "Rows": [*rows, *(filter_row(sensors, s) for sensors in s["sensors"])],
            "Batches": [batch_row(*batches, s) for batches in s["batches"]],
        }
