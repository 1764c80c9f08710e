"""Filtered states of one unit: our filter, statsmodels and one product ``Y K'`` in one process.

Run ``python -m benchmarks.filter`` for the table.
"""

import argparse
import resource
from functools import partial
from multiprocessing import get_context

import numpy as np
from scipy.linalg import solve_discrete_are
from statsmodels.tsa.statespace.kalman_filter import KalmanFilter

from skfedcausal import KalmanClient
from skfedcausal.statespace.kalman import covariance_schedule, driven_recurrence, filtered_states
from skfedcausal.statespace.riccati import filtered_covariance, predicted_covariance

from ._report import table, write
from ._timing import peak_bytes, side_by_side

N_STATES = 4
_TOLERANCE = 1e-9  # at which statsmodels takes its gain for settled
DOOR = 1.15  # times what it calls, for a public method
_COMPARED = 20_000  # rows whose filtered states are compared with an exact filter
STATSMODELS = {
    "statsmodels conserve": (),
    "statsmodels collapsed": ("filter_collapsed",),
    "statsmodels univariate": ("filter_univariate",),
    "statsmodels collapsed, univariate": ("filter_collapsed", "filter_univariate"),
}
GOALS = {8: 5.5, 32: 2.4, 128: 1.4}  # times the product Y K'


class Unit:
    """Model of one unit and a record of it."""

    def __init__(self, n_samples, n_sensors, n_states=N_STATES, seed=0):
        rng = np.random.default_rng(seed)
        A = rng.standard_normal((n_states, n_states))
        self.A = 0.95 * A / np.abs(np.linalg.eigvals(A)).max()
        self.C = rng.standard_normal((n_sensors, n_states)) / np.sqrt(n_states)
        self.Q, self.R = 0.1 * np.eye(n_states), np.ones(n_sensors)
        noise = rng.standard_normal((n_samples, n_states)) * np.sqrt(0.1)
        states = driven_recurrence(self.A, (noise, None))
        self.Y = rng.standard_normal((n_samples, n_sensors))
        for start in range(0, n_samples, 10_000):
            rows = slice(start, start + 10_000)
            self.Y[rows] += states[rows] @ self.C.T
        self.J = self.C.T @ self.C
        self.out = np.empty((n_samples, n_states))
        self.KT = np.ascontiguousarray((filtered_covariance(self.riccati(), self.J) @ self.C.T).T)
        self.client = KalmanClient(self.A, None, self.C, self.Q, self.R)

    def riccati(self):
        """Covariance of the steady-state prediction."""
        return predicted_covariance(self.A, self.J, self.Q)

    def product(self):
        """``Y K'`` into a preallocated output: the least any filter has to do."""
        return np.dot(self.Y, self.KT, out=self.out)

    def statespace(self):
        """Covariances and filter of the statespace module."""
        W = self.C / self.R[:, None]
        schedule = covariance_schedule(self.A, self.Q, self.C.T @ W)
        return filtered_states(schedule, (self.Y, W))

    def by_client(self):
        """What a user calls."""
        return self.client.filter(self.Y)

    def by_transform(self):
        """The same by scikit-learn's name."""
        return self.client.transform(self.Y)

    def gain(self):
        """Steady-state gain."""
        P = self.riccati()
        return filtered_covariance(P, self.J) @ self.C.T

    def gain_scipy(self):
        """Steady-state gain from scipy's Riccati solver, over the sensors."""
        P = solve_discrete_are(self.A.T, self.C.T, self.Q, np.diag(self.R))
        return np.linalg.solve(self.C @ P @ self.C.T + np.diag(self.R), self.C @ P).T

    def gain_scipy_small(self):
        """The same over the states: the measurements enter through a factor of J only."""
        L = np.linalg.cholesky(self.J)
        P = solve_discrete_are(self.A.T, L, self.Q, np.eye(len(self.A)))
        return np.linalg.solve(np.linalg.inv(P) + self.J, self.C.T)

    def statsmodels(self, methods, n_samples=None, tolerance=_TOLERANCE):
        """Filter of statsmodels with as little output as it can do."""
        model = KalmanFilter(len(self.C), len(self.A), tolerance=tolerance)
        model["design"], model["transition"] = self.C, self.A
        model["selection"], model["state_cov"] = np.eye(len(self.A)), self.Q
        model["obs_cov"] = np.diag(self.R)
        model.initialize_stationary()
        model.memory_no_forecast = model.memory_no_predicted = model.memory_no_gain = True
        model.memory_no_likelihood = model.memory_no_smoothing = True
        model.memory_no_std_forecast = model.memory_no_filtered_cov = True
        for method in methods:
            setattr(model, method, True)
        model.bind(self.Y[:n_samples])
        return model.filter().filtered_state.T


class FilterSuite:
    """Time and memory of the filter for asv."""

    params = ([100_000, 1_000_000], [8, 32, 128])
    param_names = ("n_samples", "n_sensors")

    def setup(self, n_samples, n_sensors):
        self.unit = Unit(n_samples, n_sensors)

    def time_product(self, n_samples, n_sensors):
        self.unit.product()

    def time_statespace(self, n_samples, n_sensors):
        self.unit.statespace()

    def time_client(self, n_samples, n_sensors):
        self.unit.by_client()

    def peakmem_client(self, n_samples, n_sensors):
        self.unit.by_client()

    def track_memory_over_output(self, n_samples, n_sensors):
        return peak_bytes(self.unit.by_client) / self.unit.out.nbytes


class GainSuite:
    """Time of the steady-state gain for asv."""

    params = [8, 32, 128]
    param_names = ("n_sensors",)

    def setup(self, n_sensors):
        self.unit = Unit(100, n_sensors)

    def time_gain(self, n_sensors):
        self.unit.gain()

    def time_gain_scipy(self, n_sensors):
        self.unit.gain_scipy()


def _resident_growth(unit, pipe):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit.by_client()
    pipe.send((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)


def resident_growth(unit):
    """Growth of the resident memory of a forked process that filters, in bytes."""
    context = get_context("fork")
    receiver, sender = context.Pipe(False)
    process = context.Process(target=_resident_growth, args=(unit, sender))
    process.start()
    growth = receiver.recv()
    process.join()
    return growth


def filter_rows(n_samples, n_sensors, repeats):
    """One row per method, the product first."""
    unit = Unit(n_samples, n_sensors)
    exact = unit.statsmodels(("filter_univariate",), n_samples=_COMPARED, tolerance=0.0)
    ours = {"statespace functions": unit.statespace, "KalmanClient.filter": unit.by_client}
    peers = {name: partial(unit.statsmodels, methods) for name, methods in STATSMODELS.items()}
    best = side_by_side({"product": unit.product, **ours, **peers}, repeats=repeats, budget=30.0)
    fastest = min(best[name] for name in peers)
    rows = []
    for name, seconds in best.items():
        row = {
            "T": f"{n_samples:.0e}".replace("e+0", "e"),
            "D": n_sensors,
            "method": name,
            "ms": f"{1e3 * seconds:.2f}" if np.isfinite(seconds) else "out of memory",
            "x product": f"{seconds / best['product']:.2f}" if np.isfinite(seconds) else "",
            "statsmodels / this": f"{fastest / seconds:.1f}" if np.isfinite(seconds) else "",
        }
        if name in ours:
            output = unit.out.nbytes
            row["peak memory / output"] = f"{peak_bytes(ours[name]) / output:.2f}"
            if name == "KalmanClient.filter":
                row["resident growth / output"] = f"{resident_growth(unit) / output:.2f}"
            row["largest error"] = f"{np.abs(ours[name]()[:_COMPARED] - exact).max():.0e}"
            met = seconds / best["product"] <= GOALS[n_sensors] and fastest / seconds >= 12
            row["goals"] = "met" if met else "missed"
        rows.append(row)
    return rows


def door_rows(n_samples, n_sensors, repeats):
    """The public methods beside what they call and the product, a row each."""
    unit = Unit(n_samples, n_sensors)
    methods = {"KalmanClient.filter": unit.by_client, "KalmanClient.transform": unit.by_transform}
    functions = {"product": unit.product, "statespace functions": unit.statespace, **methods}
    best = side_by_side(functions, repeats=repeats)
    core, rows = best["statespace functions"], []
    for name, seconds in best.items():
        row = {
            "T": f"{n_samples:.0e}".replace("e+0", "e"),
            "D": n_sensors,
            "method": name,
            "ms": f"{1e3 * seconds:.2f}",
        }
        row |= {"x product": f"{seconds / best['product']:.2f}", "x core": f"{seconds / core:.2f}"}
        if name in methods:
            is_met = seconds <= GOALS[n_sensors] * best["product"] and seconds <= DOOR * core
            row["goals"] = "met" if is_met else "missed"
        rows.append(row)
    return rows


def gain_rows(repeats=200):
    """Time of the gain by sensors."""
    rows = []
    for n_sensors in (8, 32, 128):
        unit = Unit(100, n_sensors)
        functions = {
            "ours": unit.gain,
            "ours, Riccati equation only": unit.riccati,
            "scipy, over the sensors": unit.gain_scipy,
            "scipy, over the states": unit.gain_scipy_small,
        }
        best = side_by_side(functions, repeats=repeats)
        difference = np.abs(unit.gain() - unit.gain_scipy()).max()
        for name, seconds in best.items():
            rows.append(
                {
                    "D": n_sensors,
                    "gain": name,
                    "ms": f"{1e3 * seconds:.3f}",
                    "this / ours": f"{seconds / best['ours']:.1f}",
                    "difference": f"{difference:.0e}" if "scipy" in name else "",
                }
            )
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", default="100000,1000000")
    parser.add_argument("--sensors", default="8,32,128")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--door", action="store_true", help="only what public methods add to what they call")
    options = parser.parse_args()
    rows = []
    if options.door:
        for n_samples in map(int, options.samples.split(",")):
            for n_sensors in map(int, options.sensors.split(",")):
                rows += door_rows(n_samples, n_sensors, options.repeats)
        write(
            "filter_door",
            "What public methods of a unit's filter add to what they call, P = 4",
            f"Seconds are the best of {options.repeats} turns, side by side. Goals: at most "
            f"{' / '.join(map(str, GOALS.values()))} times the product `Y K'` into a preallocated output at D = "
            f"{' / '.join(map(str, GOALS))}, and {DOOR} times the functions of the statespace module.",
            table(rows, ("T", "D", "method", "ms", "x product", "x core", "goals")),
        )
        return
    for n_samples in map(int, options.samples.split(",")):
        for n_sensors in map(int, options.sensors.split(",")):
            rows += filter_rows(n_samples, n_sensors, options.repeats)
            print(table(rows[-7:]), flush=True)
    write(
        "filter",
        "Filtered states of one unit, P = 4",
        f"Seconds are the best of {options.repeats} turns (statsmodels: at most 30 s each). statsmodels "
        "keeps filtered states only (memory_conserve) and takes its gain for settled at a tolerance of "
        f"{_TOLERANCE:g}. Goals: at least 12 times as fast as its fastest setting, at most "
        f"{' / '.join(map(str, GOALS.values()))} times the product `Y K'` into a preallocated output at D = "
        f"{' / '.join(map(str, GOALS))}, memory at most twice the output. "
        "Peak memory is what numpy allocated, the output included. Errors are against statsmodels "
        f"with an exact gain over the first {_COMPARED} rows.",
        table(rows, _COLUMNS),
        "## Steady-state gain\n\nGoal: at most 0.1 ms.",
        table(gain_rows()),
    )


_COLUMNS = (
    "T",
    "D",
    "method",
    "ms",
    "x product",
    "statsmodels / this",
    "peak memory / output",
    "resident growth / output",
    "largest error",
    "goals",
)

if __name__ == "__main__":
    main()
