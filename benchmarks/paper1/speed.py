"""Seconds of gradient training: kernel, protocol and stationary solve against the literal algorithm."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skfedcausal import FederatedGrangerEstimator, GradientServer, KalmanClient
from skfedcausal.client.training import UnitTraining, unit_series
from skfedcausal.statespace.training.augmented import augmented_problem
from skfedcausal.statespace.training.descent import Rates
from skfedcausal.statespace.training.fixed_point import fixed_point, recurrence
from skfedcausal.theory.descent import descend, descend_online, stack_problems

from .._plants import weak_links
from .._timing import side_by_side

TITLE = "First paper: gradient training, M = 16, D = 8, P = 2"
TEXT = "Best of {repeats} turns side by side, on one thread; compare within the page."
GOALS = {"kernel": 0.5, "stationary": 0.05}


class Problem:
    """A plant's training problems and every way to solve them as a function without arguments."""

    def __init__(self, n_units, n_samples, rounds, seed=0):
        self.X, truth = weak_links(n_units, n_samples, seed=seed)
        self.models = [KalmanClient(**model) for model in truth.clients().values()]
        self.rounds = rounds
        sizes = self.fit(max_iter=1, exchange="moments")
        self.rates = sizes.server_.rates_.to_numpy()
        self.units = []
        for client, Y in zip(sizes.clients_.values(), self.X.values(), strict=True):
            series = unit_series(client, Y, None, (0,), Y - client.mean_)
            self.units.append(UnitTraining.start(client.model, series, False))
        self.states = np.hstack([unit.series.filtered for unit in self.units])[:-1]
        self.problems = self.moments()
        q, k = self.problems[0].n_local, self.problems[0].n_drivers
        columns = zip(self.rates.T, (q, q, k), strict=True)
        self.stacked = Rates(*(np.tile(rate[:, None, None], (1, 1, size)) for rate, size in columns))
        self.start = np.zeros((n_units, 2, q)), np.zeros((n_units, 2, k))

    def fit(self, **settings):
        """Training through messages, transport and ledger."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            server = GradientServer(**{"tol": 0.0, **settings})
            return FederatedGrangerEstimator(list(self.models), server=server).fit(self.X)

    def series_of(self, m):
        """Series of unit m's problem."""
        others = np.delete(np.arange(self.states.shape[1]), np.s_[2 * m : 2 * m + 2])
        unit = self.units[m]
        return unit.series.measurements[:-1], self.states[:, others], unit.residuals

    def moments(self):
        """The one pass over the data."""
        return [augmented_problem(unit.model.A, unit.model.C, *self.series_of(m)) for m, unit in enumerate(self.units)]

    def kernel(self):
        """All rounds on moments."""
        return descend(stack_problems(self.problems), self.stacked, *self.start, max_iter=self.rounds)

    def stationary(self):
        """One linear solve per unit."""
        return [
            fixed_point(recurrence(problem, Rates.constant(problem, *rates)))
            for problem, rates in zip(self.problems, self.rates, strict=True)
        ]

    def literal_pass(self):
        """One pass of the per-step algorithm, numerics alone."""
        for m, (unit, rates) in enumerate(zip(self.units, self.rates, strict=True)):
            y, v, c = self.series_of(m)
            steps = Rates.constant(self.problems[m], *(1e-3 * rates))
            zeros = self.start[0][m], self.start[1][m]
            descend_online(unit.model.A, unit.model.C, steps, *zeros, measurements=y, drivers=v, residuals=c)


def same_iterates():
    """Largest relative difference of both exchanges and the kernel on a small case."""
    small = Problem(3, 300, 50)
    one, other = (small.fit(max_iter=50, exchange=exchange).transition_ for exchange in ("series", "moments"))
    end = small.kernel()
    kernel = np.array(one)
    for m in range(3):
        others = np.delete(np.arange(6), np.s_[2 * m : 2 * m + 2])
        kernel[2 * m : 2 * m + 2, others] = end.blocks[m]
    blocks = [one[2 * m : 2 * m + 2, np.delete(np.arange(6), np.s_[2 * m : 2 * m + 2])] for m in range(3)]
    scale = np.abs(blocks).max()
    return np.abs(one - other).max() / scale, np.abs(one - kernel).max() / scale


def rows_of(n_samples, rounds, repeats):
    """Rows of the table for one length of the record."""
    case, few = Problem(16, n_samples, rounds), 30
    calls = {
        f"kernel: {rounds} rounds on moments": (case.kernel, 1),
        "stationary solve, all units": (case.stationary, 1),
        "the pass over the data that forms the moments": (case.moments, 1),
        f"{rounds} rounds through messages, transport and ledger, exchange='moments'": (
            lambda: case.fit(max_iter=rounds, exchange="moments"),
            1,
        ),
        f"{rounds} rounds the same way, exchange='series' (from {few})": (
            lambda: case.fit(max_iter=few),
            rounds / few,
        ),
        "solve='stationary' the same way, in all": (lambda: case.fit(solve="stationary"), 1),
    }
    if n_samples == 5000:
        calls["literal per-step algorithm, one pass, numerics alone"] = (case.literal_pass, 1)
    seconds = side_by_side({name: call for name, (call, _) in calls.items()}, repeats=repeats, budget=20.0)
    return [
        {
            "what": name,
            "T": n_samples,
            "seconds": seconds[name] * factor,
            "goal": verdict(name, seconds[name]),
        }
        for name, (_, factor) in calls.items()
    ]


def verdict(name, seconds):
    """Whether a goal is met."""
    goals = [goal for start, goal in GOALS.items() if name.startswith(start)]
    return f"{goals[0]} s: {'met' if seconds <= goals[0] else 'missed'}" if goals else ""


def figures(s):
    """Sections of the page."""
    exchange, kernel = same_iterates()
    same = {"": "M = 3, T = 300, 50 rounds", "both exchanges": exchange, "protocol and kernel": kernel}
    seconds = [row for n_samples in s["sizes"] for row in rows_of(n_samples, s["max_iter"], s["repeats"])]
    return {"Seconds": seconds, "Largest relative difference of the iterates": [same]}
