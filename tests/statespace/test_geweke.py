"""Geweke's measure against formulas, prediction from explicit autocovariances, and statsmodels."""

import numpy as np
import pytest
from scipy.linalg import block_diag, solve_discrete_lyapunov
from statsmodels.tsa.statespace.kalman_filter import KalmanFilter

from skfedcausal.statespace.geweke import geweke_measures, loadings_of
from skfedcausal.statespace.matrices import Partition

from ._reference import Plant, assert_within, random_covariance, random_transition, rounding


@pytest.mark.parametrize("correlation", [0.0, 0.6])
@pytest.mark.parametrize("coupling", [0.0, 0.1, -0.8])
def test_bivariate_autoregression_has_the_measure_of_the_textbook(coupling, correlation):
    """x[t] = a x[t-1] + c y[t-1] + e, y[t] = b y[t-1] + f: on its own x is an ARMA(2, 1).

    Its moving average (1 - b L) e + c L f has covariances g0, g1 at lags 0 and 1 and so the innovation
    variance v with v (1 + theta**2) = g0, v theta = g1.
    """
    a, b, c = 0.7, -0.5, coupling
    Q = np.array([[1.0, correlation * np.sqrt(2)], [correlation * np.sqrt(2), 2.0]])
    g0 = (1 + b**2) * Q[0, 0] + c**2 * Q[1, 1] - 2 * b * c * Q[0, 1]
    g1 = -b * Q[0, 0] + c * Q[0, 1]
    expected = np.log((g0 + np.sqrt(g0**2 - 4 * g1**2)) / 2 / Q[0, 0])
    noise = 1e-7
    measures = geweke_measures(np.array([[a, c], [0.0, b]]), Q, np.eye(2) / noise, Partition((1, 1)))
    # noise moves either variance by a few times itself; a solve with I + P J has condition 1 / noise
    error = 20 * noise + rounding(2, np.abs(Q).max() / noise)
    assert measures[0, 1] == pytest.approx(expected, abs=error)
    assert measures[1, 0] == pytest.approx(0, abs=error)


def plant(sizes, seed=0):
    """A coupled plant whose units have two sensors more than states, with noises of their own."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    A, Q = random_transition(rng, n, 0.7), random_covariance(rng, n)
    C = block_diag(*[rng.normal(size=(p + 2, p)) for p in sizes])
    R = block_diag(*[random_covariance(rng, p + 2) for p in sizes])
    return Plant(A, Q, C, R, solve_discrete_lyapunov(A, Q))


def sensor_slices(sizes):
    return Partition(tuple(p + 2 for p in sizes)).slices


def explicit_innovations(model, sensors, n_lags=25):
    """Prediction error covariance of all sensors from the last rows of some: one big regression."""
    S = model.P0
    gamma = [model.C @ np.linalg.matrix_power(model.A, lag) @ S @ model.C.T for lag in range(n_lags + 1)]
    gamma[0] = gamma[0] + model.R
    past = np.block(
        [
            [(gamma[s - t] if s >= t else gamma[t - s].T)[np.ix_(sensors, sensors)] for s in range(n_lags)]
            for t in range(n_lags)
        ]
    )
    cross = np.hstack([gamma[lag][:, sensors] for lag in range(1, n_lags + 1)])
    return gamma[0] - cross @ np.linalg.solve(past, cross.T), np.linalg.cond(past)


def statsmodels_innovations(model, sensors, n_steps=200):
    """The same from the forecast error covariance that a Kalman filter settles on."""
    kalman = KalmanFilter(k_endog=len(sensors), k_states=model.n_states, tolerance=0.0)
    kalman.bind(np.zeros((n_steps, len(sensors))))
    kalman["design"], kalman["obs_cov"] = model.C[sensors], model.R[np.ix_(sensors, sensors)]
    kalman["transition"], kalman["selection"] = model.A, np.eye(model.n_states)
    kalman["state_cov"] = model.Q
    kalman.initialize_known(np.zeros(model.n_states), model.P0)
    P = kalman.filter().predicted_state_cov[..., -1]
    return model.C @ P @ model.C.T + model.R, np.linalg.cond(model.R)


@pytest.mark.parametrize("innovations", [explicit_innovations, statsmodels_innovations])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), (2, 1, 3)], ids=str)
def test_measure_compares_innovations_with_and_without_the_cause(sizes, innovations):
    model, sensors = plant(sizes), sensor_slices(sizes)
    everything = np.arange(len(model.C))
    full, condition = innovations(model, everything)
    measures = geweke_measures(model.A, model.Q, model.J, Partition(sizes))
    for cause, left_out in enumerate(sensors):
        reduced, _ = innovations(model, np.delete(everything, left_out))
        for effect, rows in enumerate(sensors):
            logs = [np.linalg.slogdet(V[rows, rows])[1] for V in (reduced, full)]
            expected = 0.0 if effect == cause else logs[0] - logs[1]
            # 25 rows of the past leave less than 0.7**50 = 2e-8 of the variance that is predicted at all
            error = rounding(len(model.C) * 25, condition) + 2e-8
            assert measures[effect, cause] == pytest.approx(expected, abs=error)
    assert (measures[~np.eye(len(sizes), dtype=bool)] > 1e-3).all()  # so that the comparison means something


def chain(*links):
    """Units of sizes 2, 1 and 2 with links (cause, effect) and noises of their own."""
    partition = Partition((2, 1, 2))
    rng = np.random.default_rng(0)
    A = random_transition(rng, 5, 0.7)
    coupled = partition.block_diagonal.copy()
    for cause, effect in links:
        coupled[partition.slices[effect], partition.slices[cause]] = True
    Q, J = (random_covariance(rng, 5) * partition.block_diagonal for _ in range(2))
    return A * coupled, Q, J, partition


def test_units_without_any_connection_have_no_measure_on_each_other():
    A, Q, J, partition = chain((0, 1))
    measures = geweke_measures(A, Q, J, partition)
    error = rounding(5, np.linalg.cond(Q))
    for effect, cause in ((0, 2), (1, 2), (2, 0), (2, 1)):
        assert measures[effect, cause] == pytest.approx(0, abs=error)
    assert measures[1, 0] > 1e-3


def test_only_direct_causes_have_a_measure_when_measurements_are_exact():
    """Noisy measurements of a unit are completed by those of its causes and of its effects, so that other
    pairs have a measure too, which vanishes with the noise."""
    A, Q, _, partition = chain((0, 1), (1, 2))
    direct = np.zeros((3, 3), dtype=bool)
    direct[[1, 2], [0, 1]] = True
    others = {}
    for noise in (1.0, 1e-4, 1e-7):
        measures = geweke_measures(A, Q, np.eye(5) / noise, partition)
        others[noise] = measures[~direct].max()
        assert np.all(measures[direct] > 1e-3)
    # at most of the order of the noise relative to Q; a solve with I + P J has condition 1 / noise
    scale = np.linalg.norm(np.linalg.inv(Q), 2)
    assert others[1.0] > 1e-6
    assert others[1e-4] < 1e-4 * scale
    assert others[1e-7] < 1e-7 * scale + rounding(5, 1e7)


def test_measures_do_not_depend_on_the_units_of_the_states():
    sizes = (2, 1, 3)
    model = plant(sizes)
    scale = np.array([10.0, 0.1, 3.0, 1.0, 0.2, 5.0])
    squares = np.outer(scale, scale)
    A, Q, J = model.A * scale[:, None] / scale, model.Q * squares, model.J / squares
    expected = geweke_measures(model.A, model.Q, model.J, Partition(sizes))
    result = geweke_measures(A, Q, J, Partition(sizes))
    condition = np.linalg.cond(np.eye(6) + model.P0 @ model.J) * (10.0 / 0.1) ** 2
    assert_within(result, expected, rounding(6, condition))


def test_measures_are_not_negative_and_a_unit_has_none_on_itself():
    for seed in range(10):
        model = plant((1, 2, 1), seed)
        measures = geweke_measures(model.A, model.Q, model.J, Partition((1, 2, 1)))
        assert measures.min() >= 0
        np.testing.assert_array_equal(np.diag(measures), 0)


def test_loadings_carry_the_information_of_each_unit_in_as_many_rows_as_it_has_directions():
    """Directions count from 1e-13 of the unit's largest on."""
    J = block_diag(np.diag([1.1e-13, 1.0]), np.diag([0.9e-13, 1.0]), np.zeros((1, 1)))
    loadings = loadings_of(J, Partition((2, 2, 1)))
    assert [len(C) for C in loadings] == [2, 1, 0]
    np.testing.assert_allclose(sum(C.T @ C for C in loadings), J, rtol=1e-12, atol=1e-13)


def test_a_unit_that_never_comes_back_has_a_measure_and_changes_no_other():
    """Without what it tells of itself no filter has a steady state: others' measures are what they were."""
    partition = Partition((1, 1, 1))
    A = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, 0.3, 0.4]])
    found = geweke_measures(A, np.eye(3), np.eye(3), partition)
    assert np.isfinite(found).all()
    alone = geweke_measures(A[1:, 1:], np.eye(2), np.eye(2), Partition((1, 1)))
    np.testing.assert_allclose(found[1:, 1:], alone, atol=1e-12)
    np.testing.assert_allclose(found[0], 0.0, atol=1e-9)
    np.testing.assert_allclose(found[:, 0], 0.0, atol=1e-9)
