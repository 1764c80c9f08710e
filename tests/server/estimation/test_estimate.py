"""The whole estimation against another likelihood, and where it has to take precautions."""

from dataclasses import replace

import numpy as np
import pytest

from skfedcausal import KalmanClient, LikelihoodServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation.estimate import (
    Settings,
    _observed,
    estimate_plant,
    fitted_likelihood,
    screen_plant,
)
from skfedcausal.server.estimation.scoring import Budget, Point, Scoring, ascend, is_valid, observed_information
from skfedcausal.server.estimation.standardised import StandardisedPlant
from skfedcausal.server.fitting import correction_of
from skfedcausal.server.joint import JointRecord
from skfedcausal.statespace.observation import Information, information

from ...statespace._reference import derivatives, with_gaps
from .._reference import coupled_plant, structure_of

GOAL = {"max_iter": 300, "tol": 1e-9}


def own_models(coupled):
    A, Q = coupled.plant.A, coupled.plant.Q
    return [(A[rows, rows], Q[rows, rows]) for rows in coupled.partition.slices]


def example(missing=0.0, n_samples=600, **options):
    coupled = coupled_plant(1, **{"sizes": (2, 1), "links": [(1, 0)], "strength": 0.5, **options})
    Y = coupled.simulate(n_samples, 4)
    return coupled, with_gaps(Y, 3, missing) if missing else Y


def test_settings_are_those_of_a_server_unless_told():
    server = LikelihoodServer()
    parameters = {**server.get_params(deep=False), "correction": correction_of(server, ())}
    assert Settings() == Settings(
        **{name: value for name, value in parameters.items() if name in Settings.__dataclass_fields__}
    )


@pytest.mark.medium
def test_dense_estimate_with_gaps_is_where_the_joint_gaussian_is_flat():
    """The derivatives of the density of all measurements vanish, by differences, by the shared noise too."""
    coupled, Y = example(missing=0.1, n_samples=40)
    estimate = estimate_plant(coupled.record(Y), Settings(sparsity=None, **GOAL))
    assert estimate.climb.converged
    assert not estimate.climb.has_prior

    def of_dynamics(A):
        return np.array(coupled.with_dynamics(A, estimate.Q).log_density(Y))

    def of_shared_noise(shared):
        Q = estimate.Q.copy()
        Q[:2, 2:], Q[2:, :2] = shared, shared.T
        return np.array(coupled.with_dynamics(estimate.A, Q).log_density(Y))

    for density, at in ((of_dynamics, estimate.A), (of_shared_noise, estimate.Q[:2, 2:])):
        slope, error = derivatives(density, at)
        # a derivative below 1e-9 per row in standardised states, 40 rows, states of other scales
        assert np.abs(slope).max() <= error + 40 * 1e-9 * 100


@pytest.mark.parametrize("sparsity", ["fdr", None])
def test_gradient_vanishes_and_is_reported(sparsity):
    coupled, Y = example()
    estimate = estimate_plant(coupled.record(Y), Settings(sparsity=sparsity, **GOAL))
    assert estimate.climb.converged
    assert estimate.climb.gradient_norm <= 1e-9
    assert is_valid(estimate.A, estimate.Q)


@pytest.mark.medium
def test_whittle_and_exact_likelihood_agree_on_a_long_record():
    """Complete, and with one cell missing, which calls for the exact likelihood."""
    coupled, Y = example(n_samples=4000)
    complete = estimate_plant(coupled.record(Y), Settings(sparsity=None, **GOAL))
    Y[2000, 0] = np.nan
    exact = estimate_plant(coupled.record(Y), Settings(sparsity=None, **GOAL))
    errors = np.sqrt(np.array([np.diag(c).min() for c in complete.blocks["state"].covariance]))
    # Edges and one cell are worth some rows; k rows move an estimate by k / sqrt(T) standard errors.
    difference = np.abs(complete.blocks["state"].estimate - exact.blocks["state"].estimate).max(axis=1)
    assert (difference <= 10 / np.sqrt(4000) * errors).all()


def test_blocks_that_were_not_selected_are_zero_in_the_estimate_but_tested():
    coupled, Y = example()
    estimate = estimate_plant(coupled.record(Y), Settings(sparsity="fdr", **GOAL))
    pairs = [tuple(pair) for pair in estimate.structure.partition.pairs.tolist()]
    assert dict(zip(pairs, estimate.structure.linked.tolist(), strict=True)) == {(0, 1): False, (1, 0): True}
    assert (estimate.A[:2, 2] == 0).all()
    assert (estimate.A[2, :2] != 0).all()
    assert (estimate.blocks["state"].estimate[0, [0, 2]] != 0).all()
    assert ((estimate.blocks["state"].p_value > 0) & (estimate.blocks["state"].p_value <= 1)).all()


@pytest.mark.parametrize("sparsity", ["fdr", None])
@pytest.mark.parametrize("missing", [0.0, 0.1], ids=["complete", "missing"])
def test_fixed_local_blocks_are_exactly_the_units_own(sparsity, missing):
    coupled, Y = example(missing, n_samples=300)
    models = own_models(coupled)
    record = coupled.record(Y)
    estimate = estimate_plant(record, Settings(local=tuple(models), fix_local=True, sparsity=sparsity, **GOAL))
    for (A, _), rows in zip(models, coupled.partition.slices, strict=True):
        np.testing.assert_allclose(estimate.A[rows, rows], A, rtol=0, atol=1e-12)
        np.testing.assert_allclose(estimate.shrunk_A[rows, rows], A, rtol=0, atol=1e-12)


def test_under_feedback_errors_are_those_of_the_curvature_of_the_likelihood_at_its_top():
    coupled, Y = example(n_samples=300)
    record, settings = coupled.record(Y), Settings(sparsity=None, feedback=True, **GOAL)
    top = fitted_likelihood(record, settings)[1]
    curvature = observed_information(top.objective, top.scoring.structure.free, top.scoring.point)
    covariance = estimate_plant(record, settings).parameters.covariance
    np.testing.assert_allclose(covariance, np.linalg.inv(top.objective.n_samples * curvature), rtol=1e-8)


@pytest.mark.medium
def test_the_curvature_of_a_record_with_a_gap_is_that_of_the_scores_where_no_work_is_left(monkeypatch):
    coupled, Y = example(n_samples=2000)
    Y[1000, 0] = np.nan
    plant, top = fitted_likelihood(coupled.record(Y), Settings(sparsity=None, feedback=True, **GOAL))
    exact = np.sqrt(np.diag(_observed(plant, top).covariance))
    plant.budget = Budget(1e-9)
    monkeypatch.setattr(type(top.objective), "evaluate", None)  # nobody asks for it
    found = np.sqrt(np.diag(_observed(plant, top).covariance))
    np.testing.assert_allclose(found, exact, rtol=2 * 10 / 2000)  # ten rows at edges and gap, of twice the weight


def test_shrinkage_moves_off_diagonal_blocks_only_towards_zero():
    coupled, Y = example()
    record = coupled.record(Y)
    shrunk = estimate_plant(record, Settings(**GOAL))
    plain = estimate_plant(record, Settings(shrink=False, **GOAL))
    np.testing.assert_array_equal(plain.shrunk_A, plain.A)
    np.testing.assert_array_equal(shrunk.A, plain.A)
    assert 0 < np.linalg.norm(shrunk.shrunk_A[2, :2]) < np.linalg.norm(shrunk.A[2, :2])


def test_dense_estimates_are_never_shrunk():
    coupled, Y = example(n_samples=200)
    estimate = estimate_plant(coupled.record(Y), Settings(sparsity=None, shrink=True, **GOAL))
    np.testing.assert_array_equal(estimate.shrunk_A, estimate.A)


def test_too_few_iterations_are_reported():
    coupled, Y = example(n_samples=200)
    estimate = estimate_plant(coupled.record(Y), Settings(sparsity=None, max_iter=1, tol=1e-12))
    assert not estimate.climb.converged
    assert estimate.climb.n_iter == 1
    assert estimate.climb.gradient_norm > 1e-12


def test_screen_tests_what_the_search_starts_from():
    coupled, Y = example()
    record = coupled.record(Y)
    blocks = screen_plant(record)
    p_value = dict(zip(map(tuple, coupled.partition.pairs.tolist()), blocks.p_value, strict=True))
    assert p_value[1, 0] < 1e-3
    assert p_value[0, 1] > 1e-3


def test_permuted_units_give_the_permuted_plant():
    coupled = coupled_plant(1, (2, 1, 2), links=[(1, 0), (2, 1)])
    messages = coupled.messages(coupled.simulate(800, 2))
    forward = JointRecord.from_messages(messages)
    turned = JointRecord.from_messages(messages, names=list(messages)[::-1])
    first, second = (estimate_plant(record, Settings(**GOAL)) for record in (forward, turned))
    order = np.r_[3:5, 2, 0:2]
    # both stop where the gradient per row is 1e-9; the information per row is of order one
    np.testing.assert_allclose(second.A, first.A[np.ix_(order, order)], rtol=0, atol=1e-6)
    np.testing.assert_allclose(second.Q, first.Q[np.ix_(order, order)], rtol=0, atol=1e-6)


# --- difficult plants -------------------------------------------------------------------------------


def home_messages(seed, n_samples):
    """Eight uncoupled units with noisy sensors and known loadings."""
    rng = np.random.default_rng([seed, 8])
    scale = np.sqrt(8 * rng.uniform(0.5, 1.5, 8)).tolist()
    X, truth = make_granger_plant(
        8, n_samples=n_samples, measurement_noise=scale, n_links=0, random_state=rng.integers(2**31)
    )
    return X, truth


@pytest.mark.slow
def test_a_likelihood_without_a_maximum_inside_gets_the_prior():
    """Sensors said to be noisier than they are: the likelihood rises until process noise is singular."""
    X, truth = home_messages(10, 500)
    messages = {
        name: KalmanClient(C=C, R=3 * R).fit(X[name]).message(X[name])
        for name, C, R in zip(truth.names, truth.observation, truth.measurement_cov, strict=True)
    }
    record = JointRecord.from_messages(messages)
    plant = StandardisedPlant(record)
    objective = plant.whittle()
    scoring = Scoring(objective, plant.structure(), Point.at(objective, *plant.uncoupled))
    bare = ascend(objective, scoring, gain_tol=1e-12)
    assert not bare.converged
    estimate = estimate_plant(record, Settings(**GOAL))
    assert estimate.climb.has_prior
    assert estimate.climb.converged
    assert np.linalg.eigvalsh(estimate.Q)[0] > 1e-4
    assert estimate.blocks["state"].p_value.min() > 1e-6


def blind_record(noise, n_samples=500):
    """Three independent units; the sensors of the last see its states in much noise."""
    coupled = coupled_plant(0, (1, 1, 1))
    Y = coupled.simulate(n_samples, 4)
    rows, C = coupled.sensors[2], coupled.plant.C
    R = np.diag(coupled.plant.R)[rows] * noise
    Y[:, rows] += np.random.default_rng(5).normal(size=(n_samples, 3)) * np.sqrt(R)
    parts = coupled.parts(Y)
    parts[2] = information(Y[:, rows], C[rows, 2:], R, with_const=True)
    return JointRecord(coupled.names, tuple(parts), (0,))


@pytest.mark.parametrize("noise", [1.0, 1e2, 1e4])
def test_a_unit_whose_sensors_see_next_to_nothing_is_not_linked_to_the_others(noise):
    """The edges of the record that the Whittle likelihood neglects are larger than its information."""
    record = blind_record(noise)
    plant = StandardisedPlant(record)
    assert plant.has_clear_scores is (noise == 1.0)
    assert screen_plant(record).p_value.min() > 1e-4
    estimate = estimate_plant(record, Settings(**GOAL))
    assert estimate.blocks["state"].p_value.min() > 1e-4
    assert not estimate.structure.linked.any()
    assert not estimate.structure.correlated.any()


@pytest.mark.medium
def test_a_unit_that_does_not_determine_its_states_keeps_its_own_model():
    coupled = coupled_plant(0, (2, 1), links=[(1, 0)])
    Y = coupled.simulate(1500, 1)
    C, R = coupled.own(0)
    poor = information(Y[:, :1], C[:1], R[:1, :1], with_const=True)
    record = JointRecord(coupled.names, (poor, coupled.parts(Y)[1]), (0,))
    models = own_models(coupled)
    estimate = estimate_plant(record, Settings(local=(models[0], None), **GOAL))
    assert estimate.climb.converged
    np.testing.assert_allclose(estimate.A[:2, :2], models[0][0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(estimate.Q[:2, :2], models[0][1], rtol=0, atol=1e-12)
    assert estimate.structure.linked.tolist() == [False, True]


def test_units_that_move_together_are_called_correlated_not_linked():
    rng = np.random.default_rng(0)
    n_samples, n = 1500, 3
    Q = np.eye(n)
    Q[0, 1] = Q[1, 0] = 0.9
    w = rng.multivariate_normal(np.zeros(n), Q, size=n_samples)
    h = np.zeros((n_samples, n))
    for t in range(1, n_samples):
        h[t] = 0.6 * h[t - 1] + w[t]
    y = h + 0.3 * rng.normal(size=h.shape)
    parts = tuple(Information(y[:, k : k + 1] / 0.09, np.array([[[1 / 0.09]]])) for k in range(n))
    estimate = estimate_plant(JointRecord(("a", "b", "c"), parts, (0,)), Settings(**GOAL))
    assert estimate.climb.has_prior
    assert estimate.climb.converged
    expected = structure_of(estimate.structure.partition, correlated=[(0, 1)])
    assert estimate.structure.key == expected.key
    correlation = estimate.Q[0, 1] / np.sqrt(estimate.Q[0, 0] * estimate.Q[1, 1])
    # five standard errors (1 - r^2) / sqrt(T), a few of them for the sensors' noise
    assert abs(correlation - 0.9) < 5 * 2 * 0.19 / np.sqrt(n_samples)


def test_a_copied_unit_is_handled():
    """Two units with the very same states: the noise is singular, influences between them unidentified."""
    coupled, Y = example(n_samples=400, sizes=(1, 1), links=())
    record = coupled.record(Y)
    twin = replace(record, parts=(record.parts[0], record.parts[0]))
    estimate = estimate_plant(twin, Settings(**GOAL))
    assert estimate.climb.has_prior
    assert np.isfinite(estimate.A).all()
    assert np.isfinite(estimate.Q).all()
    assert not np.isnan(estimate.blocks["state"].p_value).any()
    assert is_valid(estimate.A, estimate.Q)


def test_a_random_walk_gives_a_stable_plant():
    rng = np.random.default_rng(0)
    y = np.cumsum(rng.normal(size=(500, 2)), axis=0) + rng.normal(size=(500, 2))
    parts = tuple(Information(y[:, k : k + 1].copy(), np.ones((1, 1, 1))) for k in range(2))
    estimate = estimate_plant(JointRecord(("a", "b"), parts, (0,)), Settings(**GOAL))
    assert estimate.climb.has_prior
    assert estimate.climb.converged
    assert is_valid(estimate.A, estimate.Q)
    assert not np.isnan(estimate.blocks["state"].p_value).any()
