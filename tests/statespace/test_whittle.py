"""The Whittle likelihood against explicit likelihoods, its gradient and its information."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are, solve_discrete_lyapunov

from skfedcausal.statespace.episodes import TransitionMoments, lag_covariances
from skfedcausal.statespace.kalman import (
    covariance_schedule,
    filtered_states,
    log_likelihood_terms,
    predicted_states,
)
from skfedcausal.statespace.observation import Information
from skfedcausal.statespace.timedomain import TimeDomainLikelihood
from skfedcausal.statespace.whittle import FreeElements, InformationColumns, WhittleLikelihood, frequencies_of_states

from ._reference import (
    EndlessRecord,
    Plant,
    assert_gradient,
    assert_within,
    derivatives,
    gaussian_log_density,
    joint_measurements,
    random_covariance,
    random_transition,
    rounding,
    simulate,
    unit_directions,
    whittle_information,
)

N_LAGS = 30


def plant_of_scores(seed, n, radius_=0.8, noise=0.5):
    """A plant whose measurements are the scores: C = I, R = N."""
    rng = np.random.default_rng(seed)
    A, Q = random_transition(rng, n, radius_), random_covariance(rng, n)
    return Plant(A, Q, np.eye(n), noise * random_covariance(rng, n), solve_discrete_lyapunov(A, Q))


def moments(scores, starts=(0,), n_lags=N_LAGS):
    return TransitionMoments.from_sums(lag_covariances(scores, range(n_lags + 2), starts), scores, starts)


@pytest.mark.parametrize("starts", [(0,), (0, 1, 20, 25)], ids=str)
def test_without_noise_it_is_the_conditional_likelihood_of_a_first_order_autoregression(starts):
    rng = np.random.default_rng(0)
    s, A, Q = rng.normal(size=(60, 3)), random_transition(rng, 3), random_covariance(rng, 3)
    likelihood = WhittleLikelihood(moments(s, starts), np.zeros((3, 3)))
    entered = np.setdiff1d(np.arange(60), starts)
    r = s[entered] - s[entered - 1] @ A.T
    expected = sum(gaussian_log_density(row, Q) for row in r) + 0.5 * r.size * np.log(2 * np.pi)
    assert likelihood.n_samples == len(r)
    # sums over 2 n_lags + 1 lags, each with its rounding, through a solve with Q
    error = (2 * N_LAGS + 1) * rounding(len(s), np.linalg.cond(Q))
    assert likelihood.n_samples * likelihood.evaluate(A, Q).value == pytest.approx(expected, rel=error)


@pytest.mark.parametrize("n", [1, 3])
def test_gradients_are_those_of_the_value(n):
    plant = plant_of_scores(0, n)
    likelihood = WhittleLikelihood(moments(simulate(plant, 200, 1), (0, 80)), plant.R)
    rng = np.random.default_rng(2)
    A, Q = random_transition(rng, n), random_covariance(rng, n)  # far from the truth
    result = likelihood.evaluate(A, Q)
    step = 1e-3 * np.linalg.eigvalsh(Q)[0]
    assert_gradient(result.grad_A, lambda a: likelihood.evaluate(a, Q).value, A)
    assert_gradient(result.grad_Q, lambda q: likelihood.evaluate(A, q).value, Q, symmetric=True, step=step)
    np.testing.assert_array_equal(result.grad_Q, result.grad_Q.T)


def test_stacked_problems_give_what_each_gives():
    plants = [plant_of_scores(seed, 2) for seed in range(4)]
    scores = np.hstack([simulate(p, 100, 1) for p in plants])
    slices = [slice(2 * k, 2 * k + 2) for k in range(4)]
    A, Q, N = (np.array([getattr(p, name) for p in plants]) for name in "AQR")
    stacked = WhittleLikelihood(moments(scores).blocks(slices), N)
    result, info = stacked.evaluate(A, Q), stacked.information(A, Q)
    for k, (plant, part) in enumerate(zip(plants, slices, strict=True)):
        alone = WhittleLikelihood(moments(scores[:, part]), plant.R)
        single, single_info = alone.evaluate(plant.A, plant.Q), alone.information(plant.A, plant.Q)
        error = rounding(100, np.linalg.cond(plant.Q))
        pairs = [(getattr(result, x), getattr(single, x)) for x in ("value", "grad_A", "grad_Q")]
        pairs += [(getattr(info, x), getattr(single_info, x)) for x in "UHWV"]
        for a, b in pairs:
            assert_within(a[k], b, error * (1 + np.abs(b).max()))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_value_is_greatest_at_the_truth_when_the_spectrum_is(n):
    plant = plant_of_scores(n, n)
    likelihood = WhittleLikelihood(EndlessRecord(plant.A, plant.Q, plant.R, 200), plant.R)
    best = likelihood.evaluate(plant.A, plant.Q)
    # exact but for the aliasing of 200 frequencies, 0.8 ** 399 of a power of A
    error = rounding(n, np.linalg.cond(plant.Q) * np.linalg.cond(plant.R)) / (1 - 0.8) ** 2
    assert_within(best.grad_A, 0, error)
    assert_within(best.grad_Q, 0, error * np.linalg.norm(np.linalg.inv(plant.Q), 2))
    rng = np.random.default_rng(0)
    for _ in range(10):
        A = plant.A + 0.05 * rng.normal(size=(n, n))
        Q = plant.Q + 0.1 * np.linalg.eigvalsh(plant.Q)[0] * random_covariance(rng, n)
        assert likelihood.evaluate(A, Q).value < best.value


def free_elements(kind, n):
    if kind == "all":
        return FreeElements.from_masks(np.ones((n, n)), np.ones((n, n)))
    rng = np.random.default_rng(3)
    transition, covariance = rng.random((n, n)) < 0.5, rng.random((n, n)) < 0.5
    if kind == "of A":
        covariance[:] = False
    if kind == "of Q":
        transition[:] = False
    return FreeElements.from_masks(transition, covariance | covariance.T)


@pytest.mark.parametrize("kind", ["all", "some", "of A", "of Q"])
@pytest.mark.parametrize("n", [2, 4])
def test_information_is_minus_the_derivative_of_the_expected_gradient(n, kind):
    plant, free = plant_of_scores(n, n), free_elements(kind, n)
    # 120 frequencies: log |det Z| and its derivatives average to zero up to 240 * 0.8**240 of their size
    likelihood = WhittleLikelihood(EndlessRecord(plant.A, plant.Q, plant.R, 120), plant.R)
    n_free = free.n_transition + len(free.first)
    assert n_free > 0

    def gradient(vector):
        dA, dQ = free.scatter(vector[0], (n, n))
        result = likelihood.evaluate(plant.A + dA, plant.Q + dQ)
        return free.gradient(result.grad_A, result.grad_Q)

    step = 1e-3 * np.linalg.eigvalsh(plant.Q)[0]
    slopes, error = derivatives(gradient, np.zeros((1, n_free)), step=step)
    expected = -slopes[0]
    assert error < 1e-5 * np.abs(expected).max()
    result = InformationColumns(likelihood.information(plant.A, plant.Q), free).square()
    assert_within(result, expected, error)


def test_information_is_that_of_whittles_formula():
    plant = plant_of_scores(0, 3)
    record = EndlessRecord(plant.A, plant.Q, plant.R, 20)
    free = free_elements("all", 3)
    expected, error = whittle_information(
        plant.A,
        plant.Q,
        plant.R,
        20,
        unit_directions(3, zip(free.rows, free.cols, strict=True)),
        unit_directions(3, zip(free.first, free.second, strict=True), symmetric=True),
    )
    info = WhittleLikelihood(record, plant.R).information(plant.A, plant.Q)
    assert_within(InformationColumns(info, free).square(), expected, error)


# -- Whittle against the exact likelihood -------------------------------------------------------------


def filter_radius(A, Q, N):
    P = solve_discrete_are(A.T, np.eye(len(A)), Q, N)
    return np.abs(np.linalg.eigvals(A @ np.linalg.inv(np.eye(len(A)) + P @ np.linalg.inv(N)))).max()


def expected_moments(A, Q, N, n_samples, n_lags=N_LAGS):
    """What :class:`TransitionMoments` is on average over records of `n_samples` rows."""
    S = solve_discrete_lyapunov(A, Q)
    gamma = [S + N]
    for lag in range(1, n_lags + 2):
        gamma.append(np.linalg.matrix_power(A, lag) @ S)
    n = n_samples - 1
    share = ((n - np.arange(n_lags + 1)) / n)[:, None, None]
    late, cross = share * gamma[: n_lags + 1], share * gamma[1 : n_lags + 2]
    back = share * np.array([gamma[1].T, *gamma[:n_lags]])
    return TransitionMoments(late, cross, late, back, n)


def test_expected_value_differs_from_that_of_the_exact_likelihood_by_a_constant():
    """Neither the log-determinant nor the quadratic form drifts with the length of the record.

    Residuals at the truth have no covariances beyond lag one, so at ``T`` rows the Whittle value is a
    constant plus T times the log-determinant of the innovations; the exact one comes within ``rho**T`` of
    that (rho: radius of the filter), and frequencies alias by ``rho**(2 * n_lags)``.
    """
    plant = plant_of_scores(0, 2)
    rho = filter_radius(plant.A, plant.Q, plant.R)
    lengths, gaps = (40, 80, 160), []
    for T in lengths:
        cov = joint_measurements(plant, np.zeros((T, 2))).cov
        exact = -0.5 * (np.linalg.slogdet(cov)[1] + 2 * T)
        m = expected_moments(plant.A, plant.Q, plant.R, T)
        gaps.append(exact - m.n_transitions * WhittleLikelihood(m, plant.R).evaluate(plant.A, plant.Q).value)
    condition = np.linalg.cond(plant.Q) * np.linalg.cond(plant.R)
    error = lengths[-1] * (rho ** (2 * N_LAGS) + rounding(2, condition))
    assert error < 1e-6
    assert_within(gaps, gaps[-1], error + rho ** (2 * lengths[0]))


def exact_log_likelihood(A, Q, N, s):
    J = np.linalg.inv(N)
    schedule, z = covariance_schedule(A, Q, J), s @ J
    predicted = predicted_states(A, filtered_states(schedule, z))
    const = -0.5 * (np.linalg.slogdet(N)[1] + np.einsum("ti,ti->t", s, z))
    return log_likelihood_terms(schedule, z, const, predicted).sum()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["at the truth", "elsewhere"])
def test_difference_from_the_exact_likelihood_does_not_grow_with_the_record(where):
    plant = plant_of_scores(1, 3)
    A, Q = (plant.A, plant.Q) if where == "at the truth" else (0.8 * plant.A, 1.3 * plant.Q)
    # truncation at n_lags leaves out terms of size sqrt(T) rho**n_lags at the truth, T rho**n_lags elsewhere
    rho = filter_radius(A, Q, plant.R)
    assert 4000 * rho**N_LAGS < 0.01
    spread = {}
    for T in (250, 4000):
        gaps = []
        for seed in range(40):
            s = simulate(plant, T, seed)
            value = WhittleLikelihood(moments(s), plant.R).evaluate(A, Q).value
            gaps.append(exact_log_likelihood(A, Q, plant.R, s) - (T - 1) * value)
        spread[T] = np.sqrt(np.mean(np.square(gaps)))
    # root mean squares of 40 values have standard errors of 11 %, their ratio of 16 %: 1 + 6 * 0.16 < 2,
    # against 4 for a difference like sqrt(T) and 16 for one like T
    assert spread[4000] < 2 * spread[250]
    # what the filter remembers at either end, times the log-density of a row and its standard deviation
    per_row = abs(exact_log_likelihood(A, Q, plant.R, s)) / T + np.sqrt(plant.n_states / 2)
    assert spread[4000] < 2 / (1 - rho) * per_row


def maximum(likelihood, A, Q, free):
    """Fisher scoring to a promised gain of 1e-8 nats."""
    for _ in range(100):
        result = likelihood.evaluate(A, Q)
        gradient = free.gradient(result.grad_A, result.grad_Q)
        information = InformationColumns(likelihood.information(A, Q), free).square()
        step = np.linalg.solve(information, gradient)
        if likelihood.n_samples * gradient @ step < 1e-8:
            return free.gather(A, Q), information
        dA, dQ = free.scatter(step, A.shape)
        A, Q = A + dA, Q + dQ
    raise AssertionError("scoring did not converge")


@pytest.mark.slow
def test_estimates_are_those_of_the_exact_likelihood_to_a_small_fraction_of_a_standard_error():
    """The gradients differ by O(1) in total, so the estimates by O(1 / sqrt(T)) standard errors."""
    n, n_records = 3, 6
    plant = plant_of_scores(1, n)
    free = free_elements("all", n)
    distance = {}
    for T in (500, 4000):
        squares = []
        for seed in range(n_records):
            s = simulate(plant, T, seed)
            s -= s.mean(axis=0)
            info = Information(s @ np.linalg.inv(plant.R), np.linalg.inv(plant.R)[None])
            exact = TimeDomainLikelihood(info.z, info.matrices, [(1.0, info.patterns[0])], (0,), N_LAGS)
            whittle = WhittleLikelihood(moments(s), plant.R)
            estimates = [maximum(x, plant.A, plant.Q, free) for x in (whittle, exact)]
            change, information = estimates[0][0] - estimates[1][0], estimates[1][1]
            squares.append(T * change**2 / np.diag(np.linalg.inv(information)))
        distance[T] = np.sqrt(np.mean(squares))
    # a gradient difference of one standard deviation of a single row's score would be 1 / sqrt(T) = 0.016 at
    # T = 4000; boundaries of a few rows on either side may add up to several of these
    assert distance[4000] < 0.1
    # falls like 1 / sqrt(T): expected ratio sqrt(1 / 8) = 0.35, with a margin of two for six records
    assert distance[4000] < 0.7 * distance[500]


@pytest.mark.parametrize("radius", [0.6, 0.9, 0.97])
def test_information_resolves_the_peaks_of_slow_states(radius):
    """However few the lags: the spectrum of the states has the poles of A, not those of the filter."""
    A = radius * np.array([[np.cos(0.3), np.sin(0.3)], [-np.sin(0.3), np.cos(0.3)]])
    few, many = (
        WhittleLikelihood(EndlessRecord(A, np.eye(2), np.eye(2), n), np.eye(2)).information(A, np.eye(2))
        for n in (12, 2000)
    )
    coarse, fine = ((info.V * info.U).real.mean(axis=0) for info in (few, many))
    # one in a hundred of the covariance may come back from a distance, on either side
    np.testing.assert_allclose(coarse, fine, atol=2e-2 * np.abs(fine).max())


@pytest.mark.parametrize(("pole", "n_frequencies"), [(0.3, 2), (0.46, 4), (0.6, 7), (0.7, 7), (0.8, 11), (0.99, 12)])
def test_midpoints_grow_by_a_half_and_one_until_a_hundredth_comes_back(pole, n_frequencies):
    """2, 4, 7, 11, at most 12: the first n of which ``pole ** (2 n)`` is a hundredth or less."""
    assert frequencies_of_states(np.array([[pole]]), 2, most=12) == n_frequencies
