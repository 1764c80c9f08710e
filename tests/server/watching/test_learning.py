"""A plant of one lag as it is watched: two models of it against the dense Gaussian of all rows, and what is learned."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import block_diag, solve_discrete_lyapunov
from sklearn.linear_model import LinearRegression

from skfedcausal.server.watching.learning import learned_regression
from skfedcausal.server.watching.monitor import ByRegression, MonitorState, PlantModel, PlantMonitor, UsualSensors
from skfedcausal.server.watching.thresholds import NominalRows
from skfedcausal.statespace.detection.shift import ConditionalEnergy, LinearMap, RowBelief

from ...statespace.detection._reference import dense_rows, dense_surprises
from .._reference import coupled_plant

pytestmark = pytest.mark.medium

# --- the two models -----------------------------------------------------------------------------------

N_ROWS = 70


def monitor_of(model, surprises, slices):
    return PlantMonitor(model, UsualSensors(model.J, model.noise, slices), surprises)


@pytest.fixture(scope="module")
def plant():
    """A plant, a monitor with a regression unlike it, measurements with gaps, off-subspace numbers."""
    coupled = coupled_plant(3, (2, 1, 2), links=[(1, 0), (2, 1)], radius=0.6)
    A, Q, J = coupled.plant.A, coupled.plant.Q, coupled.plant.J
    rng = np.random.default_rng(0)
    B = 0.6 * np.linalg.qr(rng.standard_normal((5, 5)))[0]
    root, level = rng.standard_normal((5, 5)), rng.standard_normal(5)
    innovation = root @ root.T + np.eye(5)
    usual = RowBelief(np.linalg.solve(np.eye(5) - B, level), solve_discrete_lyapunov(B, innovation) * 1.5)
    slices = coupled.partition.slices
    energy = ConditionalEnergy(innovation, slices)
    monitor = monitor_of(PlantModel(A, Q, J), ByRegression(LinearMap(B.T, level), energy, usual), slices)
    Y = coupled.simulate(N_ROWS, 1)
    Y[3, 0] = Y[12:14, 4] = Y[40, 7] = np.nan  # one sensor of a unit
    Y[6:9, 3:6] = np.nan  # a unit
    Y[10] = np.nan  # all of them
    return coupled, monitor, Y, rng.chisquare(2, (N_ROWS, 3))


def followed(coupled, monitor, Y, beside, bounds):
    """Innovations of an episode in pieces, joined, and the state after it."""
    state, pieces = MonitorState(), []
    for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
        record = coupled.record(Y[start:stop])
        found, state = monitor.rows(record, beside[start:stop], state)
        pieces.append(found)
    return [np.concatenate(parts) for parts in zip(*pieces, strict=True)], state


def dense_kalman(coupled, Y):
    """Predicted states and ``(I + J P)^-1 (z - J predicted)`` given all rows before, ``z = J h + e``."""
    A, Q, record = coupled.plant.A, coupled.plant.Q, coupled.record(Y)
    J, n = record.matrices(), len(A)
    _, states = dense_rows(A, np.zeros(n), solve_discrete_lyapunov(A, Q), Q, np.zeros(n), len(Y))
    predicted, scaled = np.zeros((len(Y), n)), np.zeros((len(Y), n))
    for t in range(len(Y)):
        past, now = slice(0, t * n), slice(t * n, t * n + n)
        P = states[now, now]
        if t:
            J_past = block_diag(*J[:t])
            gain = states[now, past] @ np.linalg.inv(np.eye(t * n) + J_past @ states[past, past])
            predicted[t] = gain @ record.z[:t].ravel()
            P = P - gain @ J_past @ states[past, now]
        scaled[t] = np.linalg.solve(np.eye(n) + J[t] @ P, record.z[t] - J[t] @ predicted[t])
    return predicted, scaled


@pytest.mark.parametrize("bounds", [(0, N_ROWS), (0, 1, 2, 5, 8, 11, 30, 41, N_ROWS), (0, 20, 60, 61, 62, N_ROWS)])
@pytest.mark.parametrize("gaps", [False, True])
def test_innovations_are_those_of_the_dense_gaussian(plant, bounds, gaps):
    """Kalman filter and regression, in pieces or at once, with and without gaps."""
    coupled, monitor, Y, beside = plant
    if not gaps:
        Y = coupled.simulate(N_ROWS, 1)
    (scaled, predicted, own, given, states, present, _), _ = followed(coupled, monitor, Y, beside, bounds)
    expected = dense_kalman(coupled, Y)
    assert_allclose(predicted, expected[0], rtol=1e-7, atol=1e-8)
    assert_allclose(scaled, expected[1], rtol=1e-7, atol=1e-8)
    seen = np.array([[np.isfinite(Y[t, rows]).any() for rows in coupled.sensors] for t in range(N_ROWS)])
    assert_array_equal(present, seen)
    J, z = coupled.record(Y).matrices(), coupled.record(Y).z
    nominal = np.linalg.inv(coupled.plant.J)
    B, level = monitor.surprises.regression.matrix.T, monitor.surprises.regression.level
    mean, covariance = dense_rows(B, *monitor.surprises.usual, monitor.energy.covariance, level, N_ROWS)
    for t in range(N_ROWS):
        for m, b in enumerate(coupled.partition.slices):
            at = slice(5 * t + b.start, 5 * t + b.stop)
            if seen[t, m]:
                assert_allclose(states[t, b], np.linalg.solve(J[t, b, b], z[t, b]), rtol=1e-9)
                covariance[at, at] += np.linalg.inv(J[t, b, b]) - nominal[b, b]
            else:
                assert not states[t, b].any()
    surprises = dense_surprises(mean, covariance, coupled.partition.slices, states, seen)
    assert_allclose(own, surprises[0] + np.where(seen, beside, 0.0), rtol=1e-6)
    assert_allclose(given, surprises[1] + np.where(seen, beside, 0.0), rtol=1e-6)


def test_filters_settle_again_after_a_gap(plant):
    """The state then holds no covariances, so that the fast path is taken."""
    coupled, monitor, Y, beside = plant
    _, state = followed(coupled, monitor, Y, beside, (0, 39))
    assert state.covariance is None
    assert state.row.covariance is None
    _, state = followed(coupled, monitor, Y, beside, (0, 41))
    assert state.covariance is not None
    assert state.row.covariance is not None
    _, state = followed(coupled, monitor, Y, beside, (0, 13))
    assert state.covariance is not None
    fresh, state = followed(coupled, monitor, coupled.simulate(3, 5), beside[:3], (0, 3))
    assert_allclose(state.covariance, monitor.model.schedule.at(3)[0])
    assert_array_equal(state.row.mean, fresh[4][-1])


def test_a_plant_without_memory_predicts_nothing(plant):
    """Its filter has settled from the first row on, and nothing is carried over gaps."""
    coupled, monitor, Y, beside = plant
    still = PlantModel(np.zeros((5, 5)), coupled.plant.Q, coupled.plant.J)
    settled = monitor_of(still, monitor.surprises, monitor.sensors.slices)
    for rows in (slice(14, 30), slice(0, 30)):
        record = coupled.record(Y[rows])
        found, state = settled.rows(record, beside[rows], MonitorState())
        J = record.matrices()
        expected = np.linalg.solve(np.eye(5) + J @ coupled.plant.Q, record.z[:, :, None])[:, :, 0]
        assert not found.predicted.any()
        assert_allclose(found.scaled, expected, rtol=1e-9)
        assert state.covariance is None


def test_a_unit_with_hardly_any_information_counts_as_absent(plant):
    """Below a thousandth of the nominal in some direction; above it the noise is allowed for."""
    coupled, monitor, _, beside = plant
    Y = coupled.simulate(6, 2)
    record = coupled.record(Y)
    for share, there in ((2e-3, True), (5e-4, False)):
        part = record.parts[0]
        J = part.patterns[0]
        root = np.linalg.cholesky(J)
        weak = root @ np.diag([1.0, share]) @ root.T
        patterns = np.array([J, weak])
        index = np.array([0, 1, 0, 1, 1, 0])
        changed = replace(part, patterns=patterns, index=index)
        found, _ = monitor.rows(replace(record, parts=(changed, *record.parts[1:])), beside[:6], MonitorState())
        assert_array_equal(found.present[:, 0], there | (index == 0))
        assert found.present[:, 1:].all()


def test_rounding_of_an_information_matrix_is_no_gap(plant):
    coupled, monitor, _, beside = plant
    record = coupled.record(coupled.simulate(8, 2))
    for change, nominal in ((5e-10, True), (5e-9, False)):
        part = record.parts[0]
        J = part.patterns * (1 - change)
        near = replace(record, parts=(replace(part, patterns=J), *record.parts[1:]))
        assert (monitor.rows(near, beside[:8], MonitorState())[1].row.covariance is None) == nominal


def test_rows_seen_better_than_nominally_are_judged_as_nominal(plant):
    """Where the usual information is an average, the surprises have its noise."""
    coupled, monitor, _, beside = plant
    record = coupled.record(coupled.simulate(8, 2))
    parts = tuple(replace(part, z=2 * part.z, patterns=2 * part.patterns) for part in record.parts)
    better, _ = monitor.rows(replace(record, parts=parts), beside[:8], MonitorState())
    usual, _ = monitor.rows(record, beside[:8], MonitorState())
    assert_allclose(better.own, usual.own, rtol=1e-10)
    assert_allclose(better.given_others, usual.given_others, rtol=1e-10)


# --- learning -----------------------------------------------------------------------------------------


def nominal_rows():
    rng = np.random.default_rng(4)
    x = np.empty((120, 3))
    row = np.zeros(3)
    for t in range(120):
        row = np.array([[0.8, 0, 0], [0.5, 0.2, 0], [0, 0.3, -0.4]]) @ row + rng.standard_normal(3) * [
            1,
            5,
            0.1,
        ]
        x[t] = row
    folds = [(0, 40), (40, 80), (80, 120)]
    return NominalRows(2 * np.eye(3), x + np.array([3, 0, -1]), rng.chisquare(2, (120, 2)), (0,), folds)


@pytest.mark.parametrize("regressor", [None, LinearRegression()])
def test_surprises_learned_are_those_of_rows_held_out(regressor):
    """Ridge regression of standardised rows; a hundredth of each variance is added to the covariance."""
    rows, slices = nominal_rows(), (slice(0, 2), slice(2, 3))
    surprises, errors_held_out = learned_regression(rows, slices, regressor)
    mean, scale = rows.x.mean(axis=0), rows.x.std(axis=0)
    u = (rows.x - mean) / scale
    pairs = [(u[i : j - 1], u[i + 1 : j]) for i, j in rows.folds]

    def fit(chosen, penalty):
        past, present = (np.concatenate(part) for part in zip(*chosen, strict=True))
        if regressor is not None:
            return LinearRegression().fit(past, present).predict
        ridge = np.sqrt(penalty * len(past)) * np.eye(3)
        past, present = np.vstack([past, ridge]), np.vstack([present, np.zeros((3, 3))])
        B = np.linalg.lstsq(past, present, rcond=None)[0]
        return lambda z: z @ B

    best = (np.inf, None, None)
    for penalty in (1e-5, 1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3):
        errors = [
            present - fit([p for j, p in enumerate(pairs) if j != k], penalty)(past)
            for k, (past, present) in enumerate(pairs)
        ]
        size = np.log((np.concatenate(errors) ** 2).sum(axis=0)).sum()
        if size < best[0]:
            best = size, errors, penalty
    errors = [e * scale for e in best[1]]
    e = np.concatenate(errors)
    C = e.T @ e / len(e) + 0.01 * np.diag(rows.x.var(axis=0))
    assert_allclose(surprises.energy.covariance, C, rtol=1e-9)
    for found, expected in zip(errors_held_out, errors, strict=True):
        assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    predict = fit(pairs, best[2])
    past = rows.x[:7]
    assert_allclose(surprises.regression.predict(past), predict((past - mean) / scale) * scale + mean, rtol=1e-9)
    assert_allclose(surprises.usual.mean, mean)
    assert_allclose(surprises.usual.covariance, np.cov(rows.x.T, bias=True))
