"""Coupled plants whose units own their sensors, their messages and dense formulas over all parameters."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_discrete_lyapunov

from skfedcausal.message import StateMessage
from skfedcausal.server.estimation.scoring import Point, Scoring, Structure
from skfedcausal.server.joint import JointRecord
from skfedcausal.statespace.matrices import Partition
from skfedcausal.statespace.observation import information
from skfedcausal.statespace.whittle import WhittleLikelihood

from ..statespace._reference import (
    EndlessRecord,
    Plant,
    generalised_least_squares,
    random_covariance,
    simulate,
    unit_directions,
    whittle_information,
    with_gaps,
)


@dataclass(frozen=True)
class CoupledPlant:
    """A plant, its division into units, and the sensors of each."""

    plant: Plant
    partition: Partition
    sensors: tuple

    @property
    def names(self):
        return tuple(f"unit{k}" for k in range(self.partition.n_units))

    def simulate(self, n_samples, seed, starts=(0,)):
        lengths = np.diff([*starts, n_samples])
        return np.vstack([simulate(self.plant, n, seed + 1000 * k) for k, n in enumerate(lengths)])

    def own(self, k):
        """Loadings and noise of one unit."""
        rows, states = self.sensors[k], self.partition.slices[k]
        return self.plant.C[rows, states], self.plant.R[rows, rows]

    def parts(self, Y):
        return [information(Y[:, rows], *self.own(k), with_const=True) for k, rows in enumerate(self.sensors)]

    def record(self, Y, starts=(0,)):
        return JointRecord(self.names, tuple(self.parts(Y)), tuple(starts))

    def messages(self, Y, starts=(0,), local_model=False):
        lengths = tuple(int(n) for n in np.diff([*starts, len(Y)]))
        messages = {}
        for name, info, rows in zip(self.names, self.parts(Y), self.partition.slices, strict=True):
            own = (self.plant.A[rows, rows], self.plant.Q[rows, rows]) if local_model else (None, None)
            messages[name] = StateMessage(info.z, info.patterns, info.index, lengths, info.const, *own)
        return messages

    def with_dynamics(self, A, Q):
        """The same sensors on another plant."""
        plant = Plant(A, Q, self.plant.C, self.plant.R, solve_discrete_lyapunov(A, Q))
        return CoupledPlant(plant, self.partition, self.sensors)

    def log_density(self, Y, starts=(0,)):
        """Joint Gaussian log-density with the level of each episode at its maximum."""
        episodes = np.split(Y, starts[1:])
        return sum(generalised_least_squares(self.plant, episode)[1] for episode in episodes)


def coupled_plant(seed, sizes=(2, 2), n_sensors=3, links=(), strength=0.3, noise=0.5, radius=0.7):
    """Units with rotating states of a given radius; blocks of norm `strength` at the linked pairs."""
    rng = np.random.default_rng(seed)
    partition = Partition(tuple(sizes))
    n, d = partition.n_states, n_sensors * len(sizes)
    sensors = tuple(slice(k * n_sensors, (k + 1) * n_sensors) for k in range(len(sizes)))
    A, Q, C, R = np.zeros((n, n)), np.zeros((n, n)), np.zeros((d, n)), np.zeros((d, d))
    for rows, own, p in zip(sensors, partition.slices, sizes, strict=True):
        A[own, own] = radius * np.linalg.qr(rng.normal(size=(p, p)))[0]
        Q[own, own] = random_covariance(rng, p) + 0.5 * np.eye(p)
        C[rows, own] = rng.normal(size=(n_sensors, p))
        R[rows, rows] = noise * np.diag(rng.uniform(0.5, 1.5, n_sensors))
    for effect, cause in links:
        block = rng.normal(size=(sizes[effect], sizes[cause]))
        A[partition.slices[effect], partition.slices[cause]] = strength * block / np.linalg.norm(block)
    return CoupledPlant(Plant(A, Q, C, R, solve_discrete_lyapunov(A, Q)), partition, sensors)


def coupled_record(missing=0.0, starts=(0, 25), sizes=(2, 1), n_samples=40):
    """A coupled plant, measurements of it and their record."""
    coupled = coupled_plant(0, sizes, links=[(1, 0)])
    Y = coupled.simulate(n_samples, 1, starts)
    if missing:
        Y = with_gaps(Y, 2, missing)
    return coupled, Y, coupled.record(Y, starts)


def structure_of(partition, linked=(), correlated=(), *, free_dynamics=True, free_noise=True):
    """Structure with links (effect, cause) and correlated units given as pairs."""
    links = {tuple(pair) for pair in linked}
    noise = {tuple(pair) for pair in correlated} | {tuple(pair[::-1]) for pair in correlated}
    pairs = [tuple(pair) for pair in partition.pairs.tolist()]
    return Structure(
        partition,
        linked=np.array([pair in links for pair in pairs], dtype=bool),
        correlated=np.array([pair in noise for pair in pairs], dtype=bool),
        free_dynamics=np.full(partition.n_units, free_dynamics),
        free_noise=np.full(partition.n_units, free_noise),
    )


def endless(coupled, n_samples=1000, n_frequencies=40, at=None):
    """Whittle likelihood of a record with exactly the plant's spectrum, and a point (at the truth)."""
    plant = coupled.plant
    N = np.linalg.inv(plant.J)
    record = EndlessRecord(plant.A, plant.Q, N, n_frequencies, n_transitions=n_samples)
    objective = WhittleLikelihood(record, N)
    return objective, Point.at(objective, *((plant.A, plant.Q) if at is None else at))


def scoring_of(coupled, structure, **options):
    objective, point = endless(coupled, **options)
    return objective, Scoring(objective, structure, point)


def dense_information(coupled, structure, extra_A=(), extra_Q=(), n_frequencies=40):
    """Information per time step of the free elements, then of further elements of A and of Q."""
    plant, free = coupled.plant, structure.free
    n = plant.n_states
    elements = list(zip(free.rows, free.cols, strict=True)), list(zip(free.first, free.second, strict=True))
    of_A = unit_directions(n, elements[0] + list(extra_A))
    of_Q = unit_directions(n, elements[1] + list(extra_Q), symmetric=True)
    N = np.linalg.inv(plant.J)
    matrix, error = whittle_information(plant.A, plant.Q, N, n_frequencies, of_A, of_Q)
    a, k, q = len(elements[0]), len(extra_A), len(elements[1])
    order = np.r_[0:a, a + k : a + k + q, a : a + k, a + k + q : len(matrix)]
    return matrix[np.ix_(order, order)], error


def block_elements(partition, effect, cause):
    """(row, column) of each element of a block, row by row."""
    rows, cols = partition.slices[effect], partition.slices[cause]
    return [(i, j) for i in range(rows.start, rows.stop) for j in range(cols.start, cols.stop)]
