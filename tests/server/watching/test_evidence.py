"""Rows of evidence: two models of a plant against the dense Gaussian of all rows, and the onset rule."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import block_diag, solve_discrete_lyapunov
from sklearn.linear_model import LinearRegression

from skfedcausal.server.watching.evidence import MonitorState, OnsetRule, PlantMonitor
from skfedcausal.server.watching.nominal import NominalRows
from skfedcausal.server.watching.posterior import Answer
from skfedcausal.statespace.detection.energy import ConditionalEnergy, LinearMap, RowBelief
from skfedcausal.statespace.detection.shift import InnovationModel

from ...statespace.detection._reference import dense_rows, dense_surprises
from .._reference import coupled_plant
from ._rows import evidence

pytestmark = pytest.mark.medium

# --- rows ---------------------------------------------------------------------------------------------


def test_rows_between_two_positions_and_joined_again():
    rng = np.random.default_rng(0)
    series = {name: rng.standard_normal((9, 2)) for name in ("scaled", "surprise", "outside")}
    rows = evidence(9, 2, 2, first=30, **series)
    assert rows.stop == 39
    head, tail = rows.between(30, 34), rows.between(34, 39)
    assert (head.first, head.stop, tail.first, tail.stop) == (30, 34, 34, 39)
    assert_array_equal(tail.surprise, series["surprise"][4:])
    whole = head.followed_by(tail)
    assert whole.first == 30
    for one, other in zip(whole[1:], rows[1:], strict=True):
        assert_array_equal(one, other)


# --- the two models -----------------------------------------------------------------------------------

N_ROWS = 70


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
    monitor = PlantMonitor(InnovationModel(A, Q, J), LinearMap(B.T, level), energy, usual, slices)
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
    B, level = monitor.regression.matrix.T, monitor.regression.level
    mean, covariance = dense_rows(B, *monitor.usual, monitor.energy.covariance, level, N_ROWS)
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
    still = InnovationModel(np.zeros((5, 5)), coupled.plant.Q, coupled.plant.J)
    settled = PlantMonitor(still, monitor.regression, monitor.energy, monitor.usual, monitor.slices)
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
    model = InnovationModel(0.5 * np.eye(3), np.eye(3), rows.J)
    monitor, own, given = PlantMonitor.learn(model, rows, slices, regressor)
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
    assert_allclose(monitor.energy.covariance, C, rtol=1e-9)
    energy = ConditionalEnergy(C, slices)
    for k, (start, stop) in enumerate(rows.folds):
        beside = rows.distance[start + 1 : stop]
        assert_allclose(own[k], energy.own(errors[k]) + beside, rtol=1e-8)
        assert_allclose(given[k], energy.given_others(errors[k]) + beside, rtol=1e-8)
    predict = fit(pairs, best[2])
    past = rows.x[:7]
    assert_allclose(monitor.regression.predict(past), predict((past - mean) / scale) * scale + mean, rtol=1e-9)
    assert_allclose(monitor.usual.mean, mean)
    assert_allclose(monitor.usual.covariance, np.cov(rows.x.T, bias=True))


# --- onset rule ---------------------------------------------------------------------------------------

LIMIT = np.log1p(np.full(3, 4.0))  # of every unit


def revised(surprise, alone=False, prior=(1 / 3, 1 / 3, 1 / 3), detected=20):
    rule = OnsetRule(LIMIT, np.array(prior), alone)
    answer = Answer("energy", 5.0, np.array([0.1, 0.2, 0.7]), start=3)
    return rule.revised(answer, evidence(len(surprise), 3, given_others=surprise), detected)


def quiet():
    return np.full((60, 3), 0.5)


def test_the_first_to_jump_is_the_root_whatever_follows():
    surprise = quiet()
    surprise[20, 0] = LIMIT[0] + 1
    surprise[21:, 2] = LIMIT[2] + 5
    answer = revised(surprise)
    assert answer.probability.argmax() == 0
    assert_allclose(answer.probability, [0.98 + 0.02 * 0.1, 0.02 * 0.2, 0.02 * 0.7])
    assert answer.start == 20


def test_one_that_only_just_passes_its_limit_says_nothing():
    surprise = quiet()
    surprise[20, 0] = LIMIT[0] + 0.3
    surprise[21:, 0] = LIMIT[0] + 5
    assert revised(surprise).start == 3


def test_where_rows_are_slow_no_other_may_pass_with_it():
    surprise = quiet()
    surprise[20] = LIMIT + np.array([2.0, 0.1, -1.0])
    assert revised(surprise).probability.argmax() == 0
    assert revised(surprise, alone=True).start == 3


def test_two_that_jump_alike_are_not_told_apart():
    surprise = quiet()
    surprise[20] = LIMIT + np.array([2.0, 1.9, -1.0])
    assert revised(surprise).start == 3


def test_jump_of_a_unit_that_cannot_be_the_root_is_not_heard():
    surprise = quiet()
    surprise[20, 0] = LIMIT[0] + 1
    assert revised(surprise, prior=(0, 0.5, 0.5)).start == 3


def test_jumps_before_the_alarm_belong_to_another_incident():
    surprise = quiet()
    surprise[10, 0] = LIMIT[0] + 1
    assert revised(surprise).start == 3


def test_limits_are_the_largest_nominal_surprises():
    given = [np.array([[1.0, 2.0], [3.0, 1.0]]), np.array([[2.0, 8.0]])]
    rule = OnsetRule.learn(given, np.array([1.0, 2.0]), np.full(2, 0.5), np.array([0.3, 0.3]))
    assert_allclose(rule.largest, np.log1p([3.0, 4.0]))
    assert rule.alone


def test_units_share_much_of_their_innovations_from_fifteen_hundredths_on():
    given, usual, prior = [np.ones((2, 2))], np.ones(2), np.full(2, 0.5)
    assert not OnsetRule.learn(given, usual, prior, np.array([0.0, 0.3])).alone
    assert OnsetRule.learn(given, usual, prior, np.array([0.0, 0.31])).alone


@pytest.mark.parametrize(("row", "heard"), [(17, False), (18, True), (19, True), (20, True), (29, True), (30, False)])
def test_jumps_are_looked_for_from_two_rows_before_the_alarm_to_nine_after(row, heard):
    """The incident starts with the jump, but never after its alarm."""
    surprise = quiet()
    surprise[row, 1] = LIMIT[1] + 1
    answer = revised(surprise)
    assert answer.start == (min(row, 20) if heard else 3)
    assert (answer.probability.argmax() == 1) == heard


def test_rows_before_the_first_and_after_the_last_are_not_there():
    surprise = quiet()[:3]
    surprise[1, 1] = LIMIT[1] + 1
    rows = evidence(3, 3, given_others=surprise, first=40)
    answer = Answer("energy", 5.0, np.full(3, 1 / 3), start=40)
    rule = OnsetRule(LIMIT, np.full(3, 1 / 3), False)
    assert rule.revised(answer, rows, 41).probability.argmax() == 1
    assert rule.revised(answer, rows, 41).start == 41
    assert rule.revised(answer, rows.between(40, 41), 40) is answer


def test_share_of_a_jump_weighs_the_prior():
    """0.98 of jumps begin in the root, the rest in any of the others."""
    surprise = quiet()
    surprise[20, 0] = LIMIT[0] + 1
    prior = np.array([0.1, 0.3, 0.6])
    here, elsewhere = 0.98 * 0.1, 0.02 * 0.9 / 2
    share = here / (here + elsewhere)
    expected = (1 - share) * np.array([0.1, 0.2, 0.7]) + [share, 0, 0]
    assert_allclose(revised(surprise, prior=prior).probability, expected)


@pytest.mark.parametrize(("excess", "jumps"), [(0.69, False), (0.70, True)])
def test_jumps_pass_limits_and_all_others_by_a_factor_of_two(excess, jumps):
    alone, beside = quiet(), quiet()
    alone[20, 0] = LIMIT[0] + excess
    beside[20] = LIMIT + np.array([0.5 + excess, 0.5, -1.0])
    assert (revised(alone).start == 20) == jumps
    assert (revised(beside).start == 20) == jumps


def test_the_limit_itself_is_not_passed():
    surprise = quiet()
    surprise[19, 2], surprise[20, 0] = LIMIT[2], LIMIT[0] + 1
    assert revised(surprise).start == 20


def test_twice_the_limit_is_enough():
    """Exactly, of surprises whose logarithm is taken."""
    rule = OnsetRule(np.zeros(2), np.full(2, 0.5), False)
    rows = evidence(1, 2, given_others=np.array([[np.log(2), -1.0]]))
    assert rule.revised(Answer("energy", 5.0, np.full(2, 0.5), start=0), rows, 0).probability[0] > 0.9


def test_a_unit_on_its_own_jumps_as_well():
    rule = OnsetRule(LIMIT[:1], np.ones(1), True)
    rows = evidence(30, 1, given_others=np.where(np.arange(30) == 20, 9.0, 0.0)[:, None])
    answer = rule.revised(Answer("energy", 5.0, np.ones(1), start=3), rows, 20)
    assert answer.start == 20
    assert_allclose(answer.probability, [1.0])
