"""Solutions of the Riccati and Lyapunov equations put back into their equations, and against scipy."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are, solve_discrete_lyapunov

from skfedcausal.statespace.kalman import (
    NotStationaryError,
    adjoint_lyapunov,
    filtered_covariance,
    predicted_covariance,
    spectral_radius,
    stationary_covariance,
)

from ._reference import (
    EPS,
    assert_gradient,
    assert_within,
    radius,
    random_covariance,
    random_plant,
    random_transition,
    rounding,
)


def plant(kind, n, seed=0):
    """Plants on which a Riccati solver may stumble."""
    n_sensors = 1 if kind == "one sensor" else n + 2
    radius_ = {"near unit root": 1 - 1e-6, "unstable": 1.3}.get(kind, 0.8)
    noise = 1e-4 if kind == "good sensors" else 0.5
    return random_plant(seed, n, n_sensors, radius_, noise, P0=np.eye(n))


KINDS = ("ordinary", "one sensor", "near unit root", "unstable", "good sensors")


def closed_loop(A, P, J):
    """Matrix that carries a prediction error to the next step."""
    return A @ np.linalg.inv(np.eye(len(A)) + P @ J)


def amplification(F):
    """Factor from the residual of ``X = F X F' + G`` to the error of X."""
    n = len(F)
    return np.linalg.norm(np.linalg.inv(np.eye(n * n) - np.kron(F, F)), 2)


def riccati_rounding(model, P):
    """Residual to expect: rounding of a solve with I + P J, relative to the largest term."""
    n = model.n_states
    size = max(np.abs(P).max(), np.abs(model.A @ P @ model.A.T).max())
    return rounding(n, np.linalg.cond(np.eye(n) + P @ model.J)) * size


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_predicted_covariance_solves_the_riccati_equation(n, kind):
    model = plant(kind, n)
    P = predicted_covariance(model.A, model.J, model.Q)
    gain = np.linalg.solve(model.C @ P @ model.C.T + model.R, model.C @ P).T
    residual = model.A @ (P - gain @ model.C @ P) @ model.A.T + model.Q - P
    assert_within(residual, 0, riccati_rounding(model, P))
    np.testing.assert_array_equal(P, P.T)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_predicted_covariance_is_the_stabilising_solution_of_scipy(n, kind):
    model = plant(kind, n)
    P = predicted_covariance(model.A, model.J, model.Q)
    expected = solve_discrete_are(model.A.T, model.C.T, model.Q, model.R)
    F = closed_loop(model.A, expected, model.J)
    assert radius(closed_loop(model.A, P, model.J)) < 1
    # scipy solves an eigenproblem of 2 n + d unknowns that contains R as it is
    own = rounding(2 * n + len(model.C), np.linalg.cond(model.R)) * np.abs(expected).max()
    assert_within(P, expected, amplification(F) * (riccati_rounding(model, P) + own))


@pytest.mark.parametrize("kind", KINDS)
def test_a_stack_of_riccati_equations_gives_what_each_gives(kind):
    models = [plant(kind, 3, seed) for seed in range(6)]
    A, J, Q = (np.array([getattr(m, name) for m in models]) for name in ("A", "J", "Q"))
    stack = predicted_covariance(A.reshape(2, 3, 3, 3), J.reshape(2, 3, 3, 3), Q.reshape(2, 3, 3, 3))
    np.testing.assert_array_equal(stack, np.swapaxes(stack, -1, -2))
    for model, P in zip(models, stack.reshape(6, 3, 3), strict=True):
        single = predicted_covariance(model.A, model.J, model.Q)
        error = 2 * amplification(closed_loop(model.A, single, model.J)) * riccati_rounding(model, single)
        assert_within(P, single, error)


def test_without_measurements_the_prediction_is_the_stationary_distribution():
    rng = np.random.default_rng(0)
    A, Q = random_transition(rng, 4), random_covariance(rng, 4)
    P, S = predicted_covariance(A, np.zeros((4, 4)), Q), stationary_covariance(A, Q)
    assert_within(P, S, 2 * amplification(A) * rounding(4) * np.abs(S).max())


def test_states_without_process_noise_are_known_in_the_end():
    A, J, Q = np.diag([0.9, 0.5]), np.eye(2), np.diag([0.0, 1.0])
    P = predicted_covariance(A, J, Q)
    assert P[0, 0] == 0
    p = P[1, 1]
    assert p == pytest.approx(0.25 * p / (1 + p) + 1, rel=rounding(1))


@pytest.mark.parametrize("stacked", [False, True])
def test_an_unstable_mode_that_no_noise_excites_has_no_filter(stacked):
    """P = 0 solves the equation, and a filter started anywhere else never reaches it."""
    A, J, Q = np.array([[1.5]]), np.eye(1), np.zeros((1, 1))
    with pytest.raises(NotStationaryError, match="no noise excites"):
        predicted_covariance(*(x[None] if stacked else x for x in (A, J, Q)))


@pytest.mark.parametrize("pole", [1.0, -1.0, 1.5])
def test_a_mode_that_stays_or_grows_has_no_steady_state_even_at_rest(pole):
    A, Q = np.array([[pole]]), np.zeros((1, 1))
    with pytest.raises(NotStationaryError, match=f"is {abs(pole):.4g}, it must be below 1"):
        stationary_covariance(A, Q)
    with pytest.raises(NotStationaryError):
        predicted_covariance(A, np.zeros((1, 1)), Q)


def test_a_stable_plant_at_rest_may_swell_before_it_settles():
    """Powers of the matrix are ``k 2**(1 - k) 1e30`` off the diagonal; nothing starts the second state."""
    A, Q = np.array([[0.5, 1e30], [0.0, 0.5]]), np.diag([1.0, 0.0])
    expected = np.diag([1 / (1 - 0.25), 0.0])
    np.testing.assert_allclose(stationary_covariance(A, Q), expected, rtol=1e-12)
    np.testing.assert_allclose(predicted_covariance(A, np.zeros((2, 2)), Q), expected, rtol=1e-12)


@pytest.mark.parametrize("radius_", [0.3, 0.8, 0.99, 1 - 1e-6])
@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_stationary_covariance_solves_the_lyapunov_equation(n, radius_):
    rng = np.random.default_rng(n)
    A, Q = random_transition(rng, n, radius_), random_covariance(rng, n)
    S = stationary_covariance(A, Q)
    error = rounding(n) * (np.abs(A) @ np.abs(S) @ np.abs(A.T) + np.abs(Q) + np.abs(S)).max()
    assert_within(A @ S @ A.T + Q, S, error)
    np.testing.assert_array_equal(S, S.T)
    # scipy's direct method solves n**2 equations with the matrix of the amplification
    expected = solve_discrete_lyapunov(A, Q, method="direct")
    assert_within(S, expected, 2 * n * amplification(A) * error)


@pytest.mark.parametrize("distance", [1e-4, 1e-8, 1e-12])
def test_the_variance_near_a_unit_root_is_as_exact_as_its_condition_allows(distance):
    a = 1 - distance
    S = stationary_covariance(np.array([[a]]), np.eye(1))[0, 0]
    # 1 / ((1 - a) (1 + a)) is exact to a few eps because 1 - a is; rounding of a**2 costs eps / distance
    assert pytest.approx(1 / ((1 - a) * (1 + a)), rel=10 * EPS / distance) == S


def test_a_stack_of_lyapunov_equations_gives_what_each_gives():
    rng = np.random.default_rng(1)
    A = np.array([random_transition(rng, 3, r) for r in (0.1, 0.5, 0.9, 0.99)])
    Q = np.array([random_covariance(rng, 3) for _ in A])
    for S, a, q in zip(stationary_covariance(A, Q), A, Q, strict=True):
        error = 2 * amplification(a) * rounding(3) * np.abs(S).max()
        assert_within(S, stationary_covariance(a, q), error)


@pytest.mark.parametrize("measured", [False, True])
def test_a_state_in_small_units_is_solved_as_well_as_one_in_large_units(measured):
    A, scale = np.diag([0.1, 0.9999]), np.array([1e6, 1.0])
    Q = np.diag(scale**2)
    if measured:  # too little to matter
        variance = predicted_covariance(A, np.diag(1e-14 / scale**2), Q)[1, 1]
    else:
        variance = stationary_covariance(A, Q)[1, 1]
    # the equations decouple: the scalar one has error eps / (1 - a), the measurement changes 1e-14 * 5000**2
    assert variance == pytest.approx(1 / (1 - 0.9999**2), rel=1e-6)


@pytest.mark.parametrize("measured", [False, True])
def test_a_unit_in_small_units_is_solved_as_well_beside_one_in_large_units(measured):
    A, Q = np.array([[[0.1]], [[0.9999]]]), np.array([[[1e12]], [[1.0]]])
    variances = predicted_covariance(A, 1e-14 / Q, Q) if measured else stationary_covariance(A, Q)
    assert variances[1, 0, 0] == pytest.approx(1 / (1 - 0.9999**2), rel=1e-6)


@pytest.mark.parametrize("radius_", [1.0, 1.01, 2.0])
@pytest.mark.parametrize("n", [1, 3])
def test_a_plant_that_is_not_stationary_has_no_stationary_covariance(n, radius_):
    A = np.diag(np.linspace(0, radius_, n + 1)[1:])
    with pytest.raises(NotStationaryError, match=f"spectral radius of the transition matrix is {radius_:.4g}"):
        stationary_covariance(A, np.eye(n))


@pytest.mark.parametrize("a", [1.0, 1.5])
def test_an_unstable_mode_without_noise_has_no_stationary_covariance(a):
    with pytest.raises(NotStationaryError):
        stationary_covariance(np.diag([a, 0.5]), np.diag([0.0, 1.0]))


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("a", [1.0, 1.5])
def test_an_unstable_mode_that_no_sensor_sees_has_no_filter(a, stacked):
    A, J, Q = np.diag([a, 0.5]), np.diag([0.0, 1.0]), np.eye(2)
    with pytest.raises(NotStationaryError, match="sensors do not see"):
        predicted_covariance(*(x[None] if stacked else x for x in (A, J, Q)))


@pytest.mark.parametrize("stacked", [False, True])
def test_matrices_that_are_not_finite_have_no_filter(stacked):
    A, J, Q = np.array([[np.nan]]), np.eye(1), np.eye(1)
    with pytest.raises(ValueError, match="A has values that are not finite"):
        predicted_covariance(*(x[None] if stacked else x for x in (A, J, Q)))


def test_matrices_that_are_not_finite_have_no_stationary_covariance():
    with pytest.raises(ValueError, match="A has values that are not finite"):
        stationary_covariance(np.array([[np.nan]]), np.eye(1))


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_filtered_covariance_is_that_of_the_textbook(rank):
    rng = np.random.default_rng(rank)
    P, C, R = random_covariance(rng, 3), rng.normal(size=(rank, 3)), random_covariance(rng, rank)
    J = C.T @ np.linalg.inv(R) @ C
    expected = P - P @ C.T @ np.linalg.solve(C @ P @ C.T + R, C @ P) if rank else P
    condition = np.linalg.cond(np.eye(3) + P @ J)
    result = filtered_covariance(P, J)
    assert_within(result, expected, 2 * rounding(3, condition) * np.abs(P).max())
    np.testing.assert_array_equal(result, result.T)


def test_a_state_known_before_the_measurement_stays_known():
    np.testing.assert_array_equal(filtered_covariance(np.diag([0.0, 1.0]), np.eye(2)), np.diag([0.0, 0.5]))


def test_filtered_covariances_of_a_stack_are_those_of_each():
    rng = np.random.default_rng(0)
    P = np.array([random_covariance(rng, 3) for _ in range(4)])
    J = np.array([random_covariance(rng, 3) for _ in range(4)])
    each = [filtered_covariance(p, j) for p, j in zip(P, J, strict=True)]
    assert_within(filtered_covariance(P, J), each, rounding(3, 100) * np.abs(P).max())


@pytest.mark.parametrize("n", [1, 2, 4])
def test_the_adjoint_solves_its_equation_for_indefinite_matrices(n):
    rng = np.random.default_rng(n)
    A, G = random_transition(rng, n, 0.9), rng.normal(size=(n, n))
    G = G + G.T - 3 * np.eye(n)
    X = adjoint_lyapunov(A, G)
    size = (np.abs(A.T) @ np.abs(X) @ np.abs(A)).max()
    assert_within(X, A.T @ X @ A + G, rounding(n) * amplification(A) * size)


def test_the_adjoint_gives_derivatives_through_the_stationary_covariance():
    rng = np.random.default_rng(5)
    A, Q, weight = random_transition(rng, 3, 0.7), random_covariance(rng, 3), rng.normal(size=(3, 3))

    def function(A, Q):
        S = solve_discrete_lyapunov(A, Q)
        return np.linalg.slogdet(S)[1] + np.sum(weight * S)

    S = solve_discrete_lyapunov(A, Q)
    X = adjoint_lyapunov(A, np.linalg.inv(S) + (weight + weight.T) / 2)
    assert_gradient(X, lambda q: function(A, q), Q, symmetric=True)
    assert_gradient(2 * X @ A @ S, lambda a: function(a, Q), A)


def test_spectral_radius_of_each_matrix_in_a_stack():
    turn = np.array([[0.0, -0.5], [0.5, 0.0]])  # eigenvalues +-0.5 i
    assert spectral_radius(turn) == pytest.approx(0.5, rel=4 * EPS)
    np.testing.assert_allclose(spectral_radius(np.array([turn, np.diag([-0.9, 0.1])])), [0.5, 0.9], rtol=4 * EPS)


@pytest.mark.parametrize("name", ["A", "J", "Q"])
def test_matrices_with_a_number_that_is_none_are_refused_by_name(name):
    matrices = {"A": 0.5 * np.eye(2), "J": np.eye(2), "Q": np.eye(2)}
    matrices[name][1, 0] = np.nan
    with pytest.raises(ValueError, match=f"^{name} has values that are not finite"):
        predicted_covariance(**matrices)
