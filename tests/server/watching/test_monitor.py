"""Models of plants that are watched, of several lags and in blocks, against the joint Gaussian of all rows."""

from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import block_diag, solve_discrete_lyapunov
from scipy.stats import chi2, poisson

from skfedcausal import FederatedRCADetector, KalmanClient, LikelihoodServer
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation.exchange import InProcessTransport
from skfedcausal.server.dynamics import Plant
from skfedcausal.server.watching.monitor import (
    BlockModel,
    ByFilter,
    MonitorState,
    PlantModel,
    PlantMonitor,
    UsualSensors,
)
from skfedcausal.server.watching.thresholds import AlarmLevels, direct_causes
from skfedcausal.statespace.detection import shift
from skfedcausal.statespace.detection.shift import (
    ConditionalEnergy,
    InnovationModel,
    OwnEnergy,
    bias_information,
    step_and_bias_scores,
    step_scores,
)

from .._reference import coupled_plant

pytestmark = pytest.mark.medium

N_ROWS = 40


@pytest.fixture(scope="module")
def coupled():
    return coupled_plant(3, (2, 1, 1), links=[(1, 0), (2, 1)], radius=0.5)


@pytest.fixture(scope="module")
def dynamics(coupled):
    """Three lags, the later ones weaker, a link of the second lag."""
    A = np.stack([coupled.plant.A, 0.25 * np.eye(4), -0.15 * np.eye(4)])
    A[1, 3, 0] = 0.4
    return Plant(A, np.zeros((2, 4, 0)), coupled.plant.Q)


@pytest.fixture(scope="module")
def model(coupled, dynamics):
    return PlantModel(dynamics.A, dynamics.Q, coupled.plant.J)


def measurements(coupled, dynamics, seed=0, n_rows=N_ROWS):
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(dynamics.Q)
    h = np.zeros((n_rows + 103, 4))
    for t in range(3, len(h)):
        h[t] = sum(A @ h[t - 1 - k] for k, A in enumerate(dynamics.A)) + root @ rng.standard_normal(4)
    C, R = coupled.plant.C, coupled.plant.R
    return h[103:] @ C.T + rng.standard_normal((n_rows, len(C))) @ np.sqrt(R)


def joint_covariance(dynamics, first, n_rows):
    """Covariance of the newest states of all rows, stacked, from that of states and lags in the first row."""
    A, Q, n = dynamics.transition, dynamics.process_cov, dynamics.n_states
    whole = np.zeros((n_rows, n, n_rows, n))
    P = first
    for t in range(n_rows):
        power = P
        for k in range(t, n_rows):
            whole[k, :, t], whole[t, :, k] = power[:n, :n], power[:n, :n].T
            power = A @ power
        P = A @ P @ A.T + Q
    return whole.reshape(n * n_rows, n * n_rows)


def dense_kalman(dynamics, record):
    """Predicted states, scaled innovations and covariances given all rows before."""
    n, n_rows, J = dynamics.n_states, record.n_samples, record.matrices()
    states = joint_covariance(dynamics, solve_discrete_lyapunov(dynamics.transition, dynamics.process_cov), n_rows)
    predicted, scaled, covariances = np.zeros((n_rows, n)), np.zeros((n_rows, n)), []
    for t in range(n_rows):
        past, now = slice(0, t * n), slice(t * n, t * n + n)
        P = states[now, now]
        if t:
            J_past = block_diag(*J[:t])
            gain = states[now, past] @ np.linalg.inv(np.eye(t * n) + J_past @ states[past, past])
            predicted[t] = gain @ record.z[:t].ravel()
            P = P - gain @ J_past @ states[past, now]
        scaled[t] = np.linalg.solve(np.eye(n) + J[t] @ P, record.z[t] - J[t] @ predicted[t])
        covariances.append(P)
    return predicted, scaled, np.array(covariances)


# --- the model ----------------------------------------------------------------------------------------


def test_a_lag_that_does_nothing_changes_nothing(coupled):
    A, Q, J = coupled.plant.A, coupled.plant.Q, coupled.plant.J
    one, lagged = InnovationModel(A, Q, J), InnovationModel(np.stack([A, np.zeros((4, 4))]), Q, J)
    for name in ("scaling", "weight", "held"):
        assert_allclose(getattr(lagged, name), getattr(one, name), rtol=1e-9, atol=1e-11, err_msg=name)
    assert_allclose(lagged.carry[:4, :4], one.carry, rtol=1e-9, atol=1e-11)
    assert_allclose(lagged.step_information(9), one.step_information(9), rtol=1e-9, atol=1e-11)
    assert_allclose(bias_information(lagged, 9), bias_information(one, 9), rtol=1e-9, atol=1e-11)
    z = coupled.record(coupled.simulate(N_ROWS, 0)).z
    for mine, theirs in zip(lagged.filtered(z, starts=(0, 20)), one.filtered(z, starts=(0, 20)), strict=True):
        assert_allclose(mine, theirs, rtol=1e-7, atol=1e-9)
    u = one.filtered(z)[0]
    for mine, theirs in zip(step_and_bias_scores(lagged, u), step_and_bias_scores(one, u), strict=True):
        assert_allclose(mine, theirs, rtol=1e-8, atol=1e-10)


def test_first_rows_are_scaled_by_their_own_covariance(coupled):
    """Beside the steady filter of all rows, which has the same states before each and agrees once it has settled."""
    model = PlantModel(coupled.plant.A, coupled.plant.Q, coupled.plant.J)
    z = coupled.record(coupled.simulate(N_ROWS, 0)).z
    found, (scaled, predicted) = model.from_first(z), model.filtered(z)
    assert_allclose(found.predicted, predicted, rtol=1e-7, atol=1e-9)
    assert_allclose(found.scaled[30:], scaled[30:], rtol=1e-6, atol=1e-8)
    assert np.abs(found.scaled[0] - scaled[0]).max() > 1e-3


@pytest.mark.parametrize("kind", ["process", "sensor"])
def test_a_fault_moves_later_rows_through_all_lags(coupled, dynamics, model, kind):
    """Scores and information of a fault that stays are those of generalised least squares on all rows."""
    C, R = coupled.plant.C, coupled.plant.R
    Y = measurements(coupled, dynamics)[:12]
    seen = UsualSensors(model.J, model.noise, coupled.partition.slices).seen(coupled.record(Y))
    scaled = model.follow(seen, np.zeros(12)).scaled  # as if it had always run
    step, bias = step_and_bias_scores(model, scaled)
    scores = step if kind == "process" else bias
    information = model.step_information(12) if kind == "process" else bias_information(model, 12)
    everything = np.kron(np.eye(12), C)
    covariance = everything @ joint_covariance(dynamics, model.settled, 12) @ everything.T
    inverse = np.linalg.inv(covariance + np.kron(np.eye(12), R))
    assert_allclose(step_scores(model, scaled), step)
    for onset in (0, 5, 11):
        D = np.zeros((12, 4, 4))
        for t in range(onset, 12):
            for k, A in enumerate(dynamics.A):
                D[t] += A @ D[t - 1 - k] if t > k else 0.0
            D[t] += np.eye(4) if kind == "process" else 0.0
        if kind == "sensor":
            D[onset:] = np.eye(4)
        D = everything @ D.reshape(-1, 4)
        assert_allclose(scores[onset], D.T @ inverse @ Y.ravel(), rtol=1e-7, atol=1e-9)
        assert_allclose(information[11 - onset], D.T @ inverse @ D, rtol=1e-7, atol=1e-9)


def test_a_fault_that_stays_settles(model):
    responses = np.zeros((12, 4))
    for _ in range(300):
        responses = np.eye(12, 4) + model.carry @ responses
    assert_allclose(model.held, responses[:4], rtol=1e-9)


def test_causes_act_by_any_lag(coupled, model):
    causes = direct_causes(model.top, model.first, coupled.partition.slices)
    assert causes.tolist() == [[False, False, False], [True, False, False], [True, True, False]]


# --- the monitor --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def monitor(coupled, model):
    covariance = model.settled[:4, :4] + np.linalg.inv(model.J)
    slices = coupled.partition.slices
    surprises = ByFilter(ConditionalEnergy(covariance, slices), model.settled[:4, :4])
    return PlantMonitor(model, UsualSensors(model.J, model.noise, slices), surprises)


def followed(coupled, monitor, Y, bounds):
    state, pieces = MonitorState(), []
    for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
        found, state = monitor.rows(coupled.record(Y[start:stop]), np.zeros((stop - start, 3)), state)
        pieces.append(found)
    return [np.concatenate(parts) for parts in zip(*pieces, strict=True)], state


@pytest.mark.parametrize("bounds", [(0, N_ROWS), (0, 1, 2, 5, 8, 11, 30, N_ROWS), (0, 20, 37, 38, 39, N_ROWS)])
@pytest.mark.parametrize("gaps", [False, True])
def test_innovations_are_those_of_the_dense_gaussian(coupled, dynamics, monitor, bounds, gaps):
    """In pieces or at once, with and without gaps; surprises are Mahalanobis distances of what is there."""
    Y = measurements(coupled, dynamics)
    if gaps:
        Y[3, 0] = Y[12:14, 4] = Y[30, 7] = np.nan  # one sensor of a unit
        Y[6:9, 3:6] = np.nan  # a unit
        Y[10] = np.nan  # all of them
    (scaled, predicted, own, given, states, present, _), _ = followed(coupled, monitor, Y, bounds)
    record = coupled.record(Y)
    expected = dense_kalman(dynamics, record)
    assert_allclose(predicted, expected[0], rtol=1e-6, atol=1e-8)
    assert_allclose(scaled, expected[1], rtol=1e-6, atol=1e-8)
    assert_array_equal(present, [[np.isfinite(row[s]).any() for s in coupled.sensors] for row in Y])
    J, slices = record.matrices(), coupled.partition.slices
    for t in range(1, N_ROWS):
        there = [b for b, seen in zip(slices, present[t], strict=True) if seen]
        if not there:
            continue
        at = np.r_[tuple(there)]
        N = block_diag(*(np.linalg.inv(J[t][b, b]) for b in there))
        covariance, e = expected[2][t][np.ix_(at, at)] + N, (states[t] - expected[0][t])[at]
        distances = np.zeros(3)
        for m, b in enumerate(slices):
            if present[t, m]:
                own_at = np.flatnonzero((at >= b.start) & (at < b.stop))
                part = e[own_at]
                distances[m] = part @ np.linalg.solve(covariance[np.ix_(own_at, own_at)], part)
        assert_allclose(own[t], distances, rtol=1e-5, atol=1e-8)
        if len(there) == 1:
            assert_allclose(given[t], own[t], rtol=1e-8)
    assert not own[0].any()


def test_filters_settle_again_after_a_gap(coupled, dynamics, monitor):
    Y = measurements(coupled, dynamics, n_rows=200)
    Y[20, 0] = np.nan
    assert followed(coupled, monitor, Y, (0, 22))[1].covariance is not None
    assert followed(coupled, monitor, Y, (0, 200))[1].covariance is None


# --- blocks -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models():
    """A plant of five units as a dense model, and as one of blocks that hold all of it."""
    rng = np.random.default_rng(0)
    A = np.diag(rng.uniform(0.3, 0.8, 10)) + 0.1 * np.triu(rng.standard_normal((10, 10)), 1)
    slices = [slice(k, k + 2) for k in range(0, 10, 2)]
    J, Q = np.zeros((10, 10)), np.diag(rng.uniform(0.5, 2.0, 10))
    for b in slices:
        root = rng.standard_normal((2, 2))
        J[b, b] = root @ root.T + np.eye(2)
    dense = PlantModel(A, Q, J)
    gain = dense.schedule.filtered[-1] @ J
    return dense, BlockModel(SimpleNamespace(A=A, Q=Q, gain=gain), J, slices), slices


def test_the_matrices_are_those_of_the_dense_filter(models):
    dense, large, _ = models
    assert_allclose(large.weight.toarray(), dense.weight, atol=1e-9)
    assert_allclose(large.carry.toarray(), dense.carry, atol=1e-9)
    assert_allclose(large.held.toarray(), dense.held, atol=1e-3 * np.abs(dense.held).max())


def test_innovations_are_those_of_the_dense_filter_once_it_is_settled(models):
    dense, large, _ = models
    z = np.random.default_rng(1).standard_normal((300, 10)).cumsum(axis=0) * 0.1
    for found, expected in zip(large.filtered(z), dense.filtered(z), strict=True):
        assert_allclose(found[100:], expected[100:], atol=1e-8)  # the slowest mode has decayed to 0.8 ** 100


def test_rows_without_a_unit_are_predicted_by_what_is_known_of_it(models):
    dense, large, slices = models
    rng = np.random.default_rng(2)
    scores = rng.standard_normal((20, 10))
    scores[5:9, slices[1]] = np.nan
    absent = np.isnan(scores)
    predicted, mean = large.predicted(np.nan_to_num(scores), np.zeros(10), absent)
    gain, expected = dense.schedule.filtered[-1] @ dense.J, np.zeros(10)
    for t, score in enumerate(scores):
        assert_allclose(predicted[t], expected, atol=1e-9)
        expected = dense.A @ (expected + gain @ np.nan_to_num(score - expected))
    assert_allclose(mean, expected, atol=1e-9)


def test_a_part_is_the_plant_of_these_units(models):
    dense, large, _ = models
    part, states = large.part((1, 3))
    assert_array_equal(states, [2, 3, 6, 7])
    assert_array_equal(part.A, dense.A[np.ix_(states, states)])
    assert_array_equal(part.J, dense.J[np.ix_(states, states)])


def test_own_surprises_of_nominal_errors_are_chi_square(models):
    _, _, slices = models
    e = np.random.default_rng(3).standard_normal((20_000, 10)) @ np.diag(np.arange(1.0, 11.0))
    surprise = OwnEnergy([np.diag(1.01 * np.arange(1.0, 11.0)[b] ** 2) for b in slices]).own(e)
    # the floor of a hundredth widens them
    beyond = (surprise > chi2.isf(0.05, 2)).mean(axis=0)
    assert_allclose(beyond, 0.05, atol=4 * np.sqrt(0.05 * 0.95 / 20_000) + 0.003)


def test_levels_of_many_units_are_those_of_few(models, monkeypatch):
    dense, large, slices = models
    rng = np.random.default_rng(4)
    scaled = dense.filtered(rng.standard_normal((1200, 10)))[0]
    surprise, held, found = np.abs(rng.standard_normal((1200, 5))), scaled @ dense.held, []
    for model, many in ((dense, 200), (large, 9)):
        monkeypatch.setattr(shift, "_MANY", many)
        levels = AlarmLevels(("energy", "shift"), model, slices)
        levels.learn(scaled, (0,), [surprise], [held], 200.0)
        found.append((levels.rows(surprise, held)[0], list(levels.thresholds.values())))
    (few, limits), (many, same) = found
    assert_allclose(many, few, rtol=5e-3, atol=5e-3)  # small responses are left out
    assert_allclose(same, limits, rtol=5e-3)


# --- end to end ---------------------------------------------------------------------------------------

FAULT_AT, ROWS = 2150, 2400


def plant_with_dead_time(n_rows=ROWS, fault=0.0, seed=0):
    """Three units behind three sensors of one quantity each; the first moves the second four rows later."""
    rng = np.random.default_rng(seed)
    x, w = np.zeros((n_rows, 3)), rng.standard_normal((n_rows, 3))
    w[FAULT_AT:, 0] += fault
    for t in range(5, n_rows):
        x[t] = 0.7 * x[t - 1] + w[t]
        x[t, 1] += 0.5 * x[t - 5, 0]
    return {f"unit{m}": x[:, [m]] + 0.3 * rng.standard_normal((n_rows, 3)) for m in range(3)}


def detector_of(X, n_states=1, **settings):
    return FederatedRCADetector(client=KalmanClient(n_states=n_states), server=LikelihoodServer(), **settings).fit(X)


@pytest.fixture(scope="module")
def detector():
    return detector_of({name: Y[:2000] for name, Y in plant_with_dead_time().items()}, false_alarm_rate=0.005)


@pytest.fixture(scope="module")
def faulty():
    return {name: Y[2000:] for name, Y in plant_with_dead_time(fault=1.0).items()}


def test_the_record_asks_for_lags_and_gets_them(detector):
    assert len(detector.lag_transitions_) >= 5
    assert_array_equal(detector._root_cause.model.A, detector.lag_transitions_)


def test_the_root_is_named_behind_its_dead_time(detector, faulty):
    found = detector.incidents(faulty).query("detected >= 150")
    assert found["root"].iloc[0] == "unit0"
    window = detector.attribute(faulty, start=150)
    assert window["client"][0] == "unit0"
    assert window["probability"][0] > 0.9


@pytest.mark.parametrize("sizes", [(1,), (7, 1, 30)])
def test_a_stream_in_pieces_gives_the_incidents_of_the_whole(detector, faulty, sizes):
    whole = detector.incidents(faulty)
    detector.reset()
    told, start, k = {}, 0, 0
    while start < 400:
        stop = min(start + sizes[k % len(sizes)], 400)
        for row in detector.update({name: Y[start:stop] for name, Y in faulty.items()}).itertuples():
            told[row.detected] = (row.start, row.root, row.probability)
        start, k = stop, k + 1
    detector.reset()
    assert list(told) == whole["detected"].tolist()
    for (first, root, probability), row in zip(told.values(), whole.itertuples(), strict=True):
        assert (first, root) == (row.start, row.root)
        assert probability == pytest.approx(row.probability, abs=0.01)  # smaller changes are not told


def test_a_detector_that_was_saved_finds_the_same(detector, faulty, tmp_path):
    file = tmp_path / "detector.joblib"
    joblib.dump(detector, file)
    assert file.stat().st_size < 1e6
    assert joblib.load(file).incidents(faulty).equals(detector.incidents(faulty))


def test_sites_and_this_process_learn_the_same(detector, faulty):
    X = {name: Y[:2000] for name, Y in plant_with_dead_time().items()}
    columns = ("a", "b", "c")
    workers = {name: UnitWorker(name, Y, None, (0,), columns, KalmanClient(n_states=1)) for name, Y in X.items()}
    there = FederatedRCADetector(server=LikelihoodServer(), false_alarm_rate=0.005)
    there.fit_sites(InProcessTransport(workers))
    assert there.thresholds_ == detector.thresholds_
    assert_array_equal(there.lag_transitions_, detector.lag_transitions_)
    assert_array_equal(there._root_cause.model.held, detector._root_cause.model.held)


def test_missing_measurements_leave_the_root(detector, faulty):
    holes = {name: Y.copy() for name, Y in faulty.items()}
    rng = np.random.default_rng(0)
    for Y in holes.values():
        Y[rng.random(Y.shape) < 0.1] = np.nan
    holes["unit2"][100:220] = np.nan
    assert detector.attribute(holes, start=150)["client"][0] == "unit0"


def test_gaps_in_the_nominal_record_are_filled_by_all_lags(faulty):
    X = {name: Y[:2000].copy() for name, Y in plant_with_dead_time(seed=1).items()}
    X["unit1"][300:340] = np.nan
    X["unit2"][::10, 0] = np.nan
    detector = detector_of(X, false_alarm_rate=0.005)
    assert len(detector.lag_transitions_) >= 5
    assert detector.attribute(faulty, start=150)["client"][0] == "unit0"


def test_false_alarms_on_new_rows_keep_the_budget(detector):
    record = plant_with_dead_time(8000, seed=2)
    n_alarms = len(detector.incidents(record))
    assert n_alarms <= poisson.isf(1e-3, 0.005 * 8000)


def test_a_record_of_one_lag_is_watched_by_one():
    X, _ = make_granger_plant(n_units=2, links=[("unit0", "unit1")], n_samples=600, random_state=0)
    detector = detector_of(X, n_states=2, false_alarm_rate=0.01)
    assert len(detector.lag_transitions_) == 1
    assert_array_equal(detector._root_cause.model.A, detector.transition_)
