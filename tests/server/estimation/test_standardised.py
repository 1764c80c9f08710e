"""States of unit variance, and the uncoupled plant the estimation starts from."""

import numpy as np
import pytest

from skfedcausal import KalmanClient
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation import standardised as standardised_module
from skfedcausal.server.estimation.standardised import StandardisedPlant
from skfedcausal.server.joint import JointRecord, Scores
from skfedcausal.statespace.kalman import filter_radius
from skfedcausal.statespace.observation import information

from ...statespace._reference import assert_within, brute_force_rounding, rounding, with_gaps
from .._reference import coupled_plant


def standardised(coupled, Y, starts=(0,), **options):
    return StandardisedPlant(coupled.record(Y, starts), **options)


def own_models(coupled):
    A, Q = coupled.plant.A, coupled.plant.Q
    return [(A[rows, rows], Q[rows, rows]) for rows in coupled.partition.slices]


def test_states_have_unit_variance_as_far_as_the_scores_tell():
    coupled = coupled_plant(0, (2, 1), links=[(1, 0)])
    record = coupled.record(coupled.simulate(500, 1))
    plant = StandardisedPlant(record)
    scores = Scores(record)
    states = scores.covariance() - record.block_diagonal(scores.noise)
    for rows in coupled.partition.slices:
        p = rows.stop - rows.start
        # `unscaled_covariance` takes the unit matrix to the states' covariance
        own = plant.unscaled_covariance(np.eye(3))[rows, rows]
        assert_within(own, states[rows, rows], rounding(500, np.linalg.cond(own)) * np.abs(own).max())
        assert own.shape == (p, p)


def test_regressors_are_states_of_unit_variance_and_what_they_have_in_common():
    coupled = coupled_plant(0, (2, 1), links=[(1, 0)], strength=0.5)
    record = coupled.record(coupled.simulate(500, 1))
    plant = StandardisedPlant(record)
    covariance, scores = plant.regressor_covariance(), Scores(record)
    for rows in coupled.partition.slices:
        np.testing.assert_allclose(covariance[rows, rows], np.eye(rows.stop - rows.start), atol=1e-12)
    own, other = coupled.partition.slices
    between = plant.state_scale[own, own] @ covariance[own, other] @ plant.state_scale[other, other].T
    np.testing.assert_allclose(between, scores.covariance()[own, other], atol=1e-12)


def test_units_keep_their_own_coordinates():
    coupled = coupled_plant(0, (2, 1), links=[(1, 0)])
    plant = standardised(coupled, coupled.simulate(200, 1))
    rng = np.random.default_rng(0)
    A = rng.normal(size=(3, 3))
    np.testing.assert_allclose(np.poly(plant.unscaled(A)), np.poly(A), rtol=0, atol=1e-10)
    mask = coupled.partition.block_diagonal
    assert (plant.unscaled(np.where(mask, A, 0))[~mask] == 0).all()
    Q = rng.normal(size=(3, 3))
    Q = plant.unscaled_covariance(Q @ Q.T)
    np.testing.assert_array_equal(Q, Q.T)


def test_a_unit_at_rest_still_gets_a_scale():
    """Noise without states: the share of the score's variance left to the states has a floor."""
    coupled = coupled_plant(0, (2, 2))
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(300, 6)) * np.sqrt(np.diag(coupled.plant.R))
    plant = standardised(coupled, Y)
    variances = np.linalg.eigvalsh(plant.unscaled_covariance(np.eye(4)))
    assert variances[0] > 0
    A, Q = plant.uncoupled
    assert np.isfinite(A).all()
    assert np.isfinite(Q).all()


@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["complete", "missing"])
def test_likelihood_in_standardised_states_is_the_log_density_of_the_measurements(missing):
    coupled = coupled_plant(1, (1, 1), n_sensors=2, links=[(1, 0)])
    starts = (0, 14)
    Y = coupled.simulate(30, 3, starts)
    if missing:
        Y = with_gaps(Y, 1, missing)
    record = coupled.record(Y, starts)
    plant = StandardisedPlant(record)
    to_own = plant.unscaled(np.eye(2))
    np.testing.assert_allclose(to_own, np.eye(2), atol=1e-12)
    scale = np.sqrt(np.diag(plant.unscaled_covariance(np.eye(2))))  # one state per unit
    A = coupled.plant.A * scale[None, :] / scale[:, None]
    Q = coupled.plant.Q / np.outer(scale, scale)
    value = plant.time_domain().evaluate(A, Q).value
    expected = coupled.log_density(Y, starts)
    error = brute_force_rounding(coupled.plant, Y) * 100
    assert len(Y) * value + record.const().sum() == pytest.approx(expected, rel=error)


def test_uncoupled_plant_is_every_unit_alone():
    coupled = coupled_plant(2, (2, 1, 2), links=[(1, 0), (2, 1)])
    Y = coupled.simulate(400, 1)
    record = coupled.record(Y)
    plant = StandardisedPlant(record)
    A, Q = plant.uncoupled
    mask = coupled.partition.block_diagonal
    assert (A[~mask] == 0).all()
    assert (Q[~mask] == 0).all()
    for k, rows in enumerate(coupled.partition.slices):
        alone = StandardisedPlant(JointRecord(("one",), (record.parts[k],), (0,)))
        own_A, own_Q = alone.uncoupled
        # Both stop when less than 1e-3 is left to gain, so within sqrt(1e-3) standard errors, which are
        # about 1 / sqrt(T) in states of unit variance.
        error = 2 * np.sqrt(1e-3 / len(Y))
        np.testing.assert_allclose(A[rows, rows], own_A, rtol=0, atol=error)
        np.testing.assert_allclose(Q[rows, rows], own_Q, rtol=0, atol=error)


def test_uncoupled_plant_is_close_to_the_maximum():
    coupled = coupled_plant(2, (2, 1))
    plant = standardised(coupled, coupled.simulate(400, 1))
    A, Q = plant.uncoupled
    likelihood = plant.whittle()
    best = likelihood.evaluate(A, Q).value
    rng = np.random.default_rng(0)
    mask = coupled.partition.block_diagonal
    for size in (1e-1, 1e-2):
        for _ in range(20):
            move = size * np.where(mask, rng.normal(size=(3, 3)), 0.0)
            noise = size * np.where(mask, rng.normal(size=(3, 3)), 0.0)
            trial = likelihood.evaluate(A + move, Q + noise @ noise.T).value
            assert trial <= best + 1e-3 / 400  # two units may each leave half of their tolerance


def test_slow_filters_get_more_lags():
    fast = coupled_plant(0, (1, 1), noise=0.1)
    slow = coupled_plant(0, (1, 1), noise=30.0, radius=0.98)
    lags = []
    for coupled in (fast, slow):
        plant = standardised(coupled, coupled.simulate(4000, 1))
        plant.uncoupled
        lags.append(plant._n_lags)
    assert lags[0] == 12
    assert lags[1] > 12


def test_short_records_are_not_asked_for_more_lags_than_they_have():
    slow = coupled_plant(0, (1, 1), noise=30.0, radius=0.98)
    plant = standardised(slow, slow.simulate(120, 1))
    A, Q = plant.uncoupled
    assert plant._n_lags <= 120 // 8
    assert np.isfinite(A).all()
    assert np.isfinite(Q).all()


def lags_of_filter(plant, A, Q):
    return plant._lags_for(filter_radius(A, np.linalg.inv(plant.score_noise), Q))


@pytest.mark.parametrize("noise", [0.1, 2.0, 10.0])
def test_at_the_last_lag_a_filter_remembers_two_thousandths_at_most(noise):
    """Of one state: the variance P of a prediction, the share ``N / (P + N)`` of it that a measurement leaves."""
    coupled = coupled_plant(0, (1,), n_sensors=1, noise=noise)
    plant = standardised(coupled, coupled.simulate(4000, 1))
    a, q, N = 0.9, 0.19, plant.score_noise[0, 0]
    P = 1.0
    for _ in range(1000):
        P = a**2 * P * N / (P + N) + q
    memory = a * N / (P + N)
    n_lags = lags_of_filter(plant, np.array([[a]]), np.array([[q]]))
    assert memory**n_lags <= 2e-3 < memory ** (n_lags - 1)


@pytest.mark.parametrize(("n_samples", "most"), [(4000, 400), (3199, 399), (120, 15), (8, 1), (7, 1)])
def test_lags_are_four_hundred_or_an_eighth_of_the_rows_at_most(n_samples, most):
    coupled = coupled_plant(0, (1,), noise=1.0)
    plant = standardised(coupled, coupled.simulate(n_samples, 1))
    slow, q = np.array([[1 - 1e-9]]), np.array([[1e-12]])
    assert lags_of_filter(plant, slow, q) == most
    assert lags_of_filter(plant, np.zeros((1, 1)), q) == 1


@pytest.mark.parametrize("more", [0, 1])
def test_a_likelihood_is_lengthened_where_the_filter_remembers_more_lags(more):
    coupled = coupled_plant(0, (1,), noise=0.1)
    plant = standardised(coupled, coupled.simulate(4000, 1))
    plant.uncoupled
    assert plant.whittle().n_covariances == 12
    # the poles of slow states, of which the filter remembers the more the slower they are
    poles = [pole for pole in np.linspace(0.9, 1, 2000, endpoint=False) if lags(plant, pole) == 12 + more]
    A, Q = np.array([[poles[0]]]), np.array([[1e-2]])
    assert plant.lengthen(A, Q) == bool(more)
    assert plant.whittle().n_covariances == 12 + more


def lags(plant, pole):
    return lags_of_filter(plant, np.array([[pole]]), np.array([[1e-2]]))


def one_sensor_for_two_states():
    coupled = coupled_plant(0, (2, 1))
    Y = coupled.simulate(200, 1)
    C, R = coupled.own(0)
    poor = information(Y[:, :1], C[:1], R[:1, :1], with_const=True)
    return coupled, JointRecord(("poor", "rich"), (poor, coupled.parts(Y)[1]), (0,))


def test_a_unit_whose_sensors_do_not_determine_its_states_must_send_a_model():
    _, record = one_sensor_for_two_states()
    with pytest.raises(ValueError, match=r"unit 'poor' do not determine its 2 states, .* matrices A and Q"):
        StandardisedPlant(record)


def test_such_a_unit_keeps_its_own_model():
    coupled, record = one_sensor_for_two_states()
    models = own_models(coupled)
    plant = StandardisedPlant(record, local=[(*models[0], None), None])
    assert not plant.determined.all()
    assert not plant.has_clear_scores
    assert not plant.is_complete
    A, Q = plant.uncoupled
    own = slice(0, 2)
    np.testing.assert_allclose(plant.unscaled(A)[own, own], models[0][0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(plant.unscaled_covariance(Q)[own, own], models[0][1], rtol=0, atol=1e-12)
    structure = plant.structure()
    np.testing.assert_array_equal(structure.free_dynamics, [False, True])
    np.testing.assert_array_equal(structure.free_noise, [False, True])


def test_fixed_local_dynamics_stay_and_their_noise_is_free():
    coupled = coupled_plant(0, (2, 1), links=[(1, 0)])
    models = own_models(coupled)
    plant = standardised(coupled, coupled.simulate(200, 1), local=models, fix_local=True)
    A, Q = plant.uncoupled
    for (own, noise), rows in zip(models, coupled.partition.slices, strict=True):
        np.testing.assert_allclose(plant.unscaled(A)[rows, rows], own, rtol=0, atol=1e-12)
        assert not np.allclose(plant.unscaled_covariance(Q)[rows, rows], noise)
    assert not plant.structure().free_dynamics.any()
    assert plant.structure().free_noise.all()


@pytest.mark.parametrize(("missing", "complete"), [(0.0, True), (0.1, False)])
def test_a_record_is_complete_if_no_cell_is_missing(missing, complete):
    coupled = coupled_plant(0, (1, 1))
    Y = with_gaps(coupled.simulate(100, 0), 0, missing)
    plant = standardised(coupled, Y)
    assert plant.is_complete is complete
    assert plant.determined.all()


def with_reports(n_samples, rows, radius=0.97):
    """Two units of one state; the second reports in some rows only."""
    coupled = coupled_plant(0, (1, 1), radius=radius)
    Y = coupled.simulate(n_samples, 1)
    Y[np.setdiff1d(np.arange(n_samples), rows), coupled.sensors[1]] = np.nan
    return coupled, coupled.record(Y)


@pytest.mark.parametrize("period", [12, 13, 20])
def test_a_unit_that_reports_rarely_starts_with_the_model_of_its_reports(period):
    n_samples = 12000
    coupled, record = with_reports(n_samples, np.arange(0, n_samples, period))
    A, _ = StandardisedPlant(record).uncoupled
    # error of the pole of so many reports, sqrt((1 - pole^(2 period)) period / n_samples), per row of a period
    pole = coupled.plant.A[1, 1]
    error = 5 * np.sqrt((1 - pole ** (2 * period)) * period / n_samples) * pole / (period * pole**period)
    assert A[1, 1] == pytest.approx(pole, abs=error)


@pytest.mark.parametrize(
    ("n_samples", "early", "period"),
    [
        (4000, 0, 20),
        (4000, 2, 20),  # 2 of 201 distances are shorter: less than a hundredth
        (4000, 3, 5),  # 3 of 202
        (252, 0, 20),  # a dozen reports tell the distance, fewer do not
        (251, 0, 1),
    ],
)
def test_rate_of_reports_is_the_shortest_distance_that_is_not_rare(n_samples, early, period, monkeypatch):
    reports = np.arange(0, n_samples, 20)
    _, record = with_reports(n_samples, np.r_[reports, reports[3 : 3 + 2 * early : 2] + 5])
    periods = []

    def slow_start(scores, present, N, starts, period, n_lags):
        periods.append(period)
        return np.zeros_like(N), np.ones_like(N)

    monkeypatch.setattr(standardised_module, "slow_start", slow_start)
    StandardisedPlant(record).uncoupled
    assert periods == [period]


def test_units_on_their_own_are_those_that_measurements_determine_row_by_row():
    coupled, record = one_sensor_for_two_states()
    plant = StandardisedPlant(record, local=[(*own_models(coupled)[0], None), None])
    assert [unit.scores.shape[1] for unit in plant.unit_records()] == [1]
    _, record = with_reports(400, np.arange(0, 400, 2))
    (unit,) = StandardisedPlant(record).unit_records()
    assert unit.present is None


def test_fixed_models_of_units_keep_what_their_own_inputs_do():
    X, truth = make_granger_plant(3, n_inputs=1, n_states=1, n_sensors=2, n_samples=200, random_state=0)
    inputs = [10.0**k * U for k, U in enumerate(truth.inputs)]
    units = zip(X.items(), inputs, strict=True)
    record = JointRecord.from_messages(
        {name: KalmanClient(n_states=1).fit(Y, inputs=U).message(Y, inputs=U) for (name, Y), U in units}
    )
    local = [(0.5 * np.eye(1), np.eye(1), np.full((1, 1), k + 1.0)) for k in range(3)]
    plant = StandardisedPlant(record, local=local, fix_local=True)
    of_inputs = plant.unscaled(plant.uncoupled[0])[:, 3:]
    np.testing.assert_allclose(of_inputs[np.arange(3), np.arange(3)], [1.0, 2.0, 3.0])
    assert not plant.structure().own_inputs.any()
