"""Units on their own: the maximum of the Whittle likelihood, found from errors-in-variables moments."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov
from scipy.optimize import minimize

from skfedcausal.statespace import whittle as units_module
from skfedcausal.statespace.episodes import TransitionMoments, lag_covariances
from skfedcausal.statespace.matrices import symmetric_basis
from skfedcausal.statespace.whittle import (
    Evaluation,
    WhittleLikelihood,
    _line_search,
    fit_units,
    moment_start,
    unit_information,
)

from ._reference import (
    EndlessRecord,
    Plant,
    assert_within,
    radius,
    random_covariance,
    random_transition,
    rounding,
    simulate,
    unit_directions,
    whittle_information,
)

P, T, N_LAGS, TOL = 2, 2000, 20, 1e-3


def units(n_units, noise=0.5, radius_=0.8):
    """Units seen through scores, one below the other: A, Q, N of shape (n_units, P, P)."""
    rng = np.random.default_rng(0)
    A = np.array([random_transition(rng, P, radius_) for _ in range(n_units)])
    Q = np.array([random_covariance(rng, P) + 0.1 * np.eye(P) for _ in range(n_units)])
    N = noise * np.array([random_covariance(rng, P) + 0.1 * np.eye(P) for _ in range(n_units)])
    return A, Q, N


def record(A, Q, N, n_samples=T):
    """Moments of one record of every unit."""
    plants = [Plant(a, q, np.eye(P), n, solve_discrete_lyapunov(a, q)) for a, q, n in zip(A, Q, N, strict=True)]
    scores = np.hstack([simulate(plant, n_samples, 10 + k) for k, plant in enumerate(plants)])
    sums = lag_covariances(scores, range(N_LAGS + 2))
    slices = [slice(P * k, P * k + P) for k in range(len(plants))]
    return TransitionMoments.from_sums(sums, scores, (0,)).blocks(slices)


def one(moments, k):
    """Moments of unit k in a stack of one."""
    parts = (x[:, k : k + 1] for x in (moments.late, moments.cross, moments.early, moments.back))
    return TransitionMoments(*parts, moments.n_transitions)


def vectors(A, Q):
    """Parameters of each unit: A row by row and the lower triangle of Q."""
    rows, cols = np.tril_indices(P)
    return np.hstack([A.reshape(-1, P * P), Q[:, rows, cols]])


def squared_distance(moments, N, a, b):
    """Per unit, T (a - b)' I (a - b) with the information at b: in units of a standard error squared."""
    likelihood = WhittleLikelihood(moments, N)
    information = unit_information(likelihood.information(*b), symmetric_basis(P))
    change = vectors(*a) - vectors(*b)
    return likelihood.n_samples * np.einsum("ki,kij,kj->k", change, information, change)


def promised_gain(moments, N, A, Q, first=0):
    """Per unit, T g' I^-1 g over the parameters from `first` on."""
    likelihood = WhittleLikelihood(moments, N)
    result, basis = likelihood.evaluate(A, Q), symmetric_basis(P)
    gradient = np.hstack([result.grad_A.reshape(-1, P * P), np.einsum("kab,qab->kq", result.grad_Q, basis)])
    information = unit_information(likelihood.information(A, Q), basis)
    g, I = gradient[:, first:], information[:, first:, first:]  # noqa: E741
    return likelihood.n_samples * np.einsum("ki,ki->k", g, np.linalg.solve(I, g[..., None])[..., 0])


def test_information_of_each_unit_is_that_of_whittles_formula():
    A, Q, N = units(3)
    n_frequencies = 8
    basis = symmetric_basis(P)
    elements = unit_directions(P, np.ndindex(P, P))
    stacked = [WhittleLikelihood(EndlessRecord(*m, n_frequencies), m[2]) for m in zip(A, Q, N, strict=True)]
    for likelihood, a, q, n in zip(stacked, A, Q, N, strict=True):
        result = unit_information(likelihood.information(a, q), basis)
        expected, error = whittle_information(a, q, n, n_frequencies, elements, basis)
        assert_within(result, expected, error)


def test_information_of_a_stack_is_that_of_each():
    A, Q, N = units(3)
    moments, basis = record(A, Q, N, 100), symmetric_basis(P)
    stacked = unit_information(WhittleLikelihood(moments, N).information(A, Q), basis)
    for k in range(3):
        alone = WhittleLikelihood(one(moments, k), N[k : k + 1]).information(A[k : k + 1], Q[k : k + 1])
        np.testing.assert_allclose(stacked[k], unit_information(alone, basis)[0], rtol=rounding(N_LAGS))


def test_start_is_exact_on_the_moments_of_an_endless_record():
    A, Q, N = units(4, radius_=0.7)
    S = np.array([solve_discrete_lyapunov(a, q) for a, q in zip(A, Q, strict=True)])
    lag0, lag1 = S + N, A @ S
    moments = TransitionMoments(lag0[None], lag1[None], lag0[None], lag1[None], 1)
    start_A, start_Q = moment_start(moments, N)
    # 4 % and 0.5 % of the sample variance are below every eigenvalue here, so no floor acts
    error = rounding(P, np.linalg.cond(S).max()) * np.abs(lag0).max() ** 2
    assert_within(start_A, A, error)
    assert_within(start_Q, Q, error)


@pytest.mark.parametrize("noise", [0.01, 1.0, 100.0])
def test_start_is_stable_and_positive_definite_on_short_records(noise):
    A, Q, N = units(20, noise=noise, radius_=0.97)
    start_A, start_Q = moment_start(record(A, Q, N, 15), N)
    assert max(radius(a) for a in start_A) <= 0.98 * (1 + rounding(P))
    assert np.linalg.eigvalsh(start_Q).min() > 0


@pytest.mark.parametrize("noise", [0.05, 0.5, 5.0])
def test_fit_is_a_maximum(noise):
    A, Q, N = units(5, noise=noise)
    moments = record(A, Q, N)
    fit = fit_units(moments, N)
    assert fit.converged.all()
    assert np.all(promised_gain(moments, N, fit.A, fit.Q) < TOL)
    rows, cols = np.tril_indices(P)
    for k in range(5):
        likelihood = WhittleLikelihood(one(moments, k), N[k : k + 1])

        def loss(vector, likelihood=likelihood):
            L = np.zeros((P, P))
            L[rows, cols] = vector[P * P :]
            result = likelihood.evaluate(vector[: P * P].reshape(1, P, P), (L @ L.T)[None])
            return -likelihood.n_samples * result.value[0]

        start = np.concatenate([fit.A[k].ravel(), np.linalg.cholesky(fit.Q[k])[rows, cols]])
        best = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 2000, "fatol": 1e-7, "xatol": 1e-5})
        # a step that promises g' I^-1 g gains half of it where the likelihood is quadratic
        assert loss(start) - best.fun < TOL


def test_without_noise_the_fit_is_least_squares():
    A, Q, _ = units(3)
    N = np.zeros_like(A)
    moments = record(A, Q, N)
    fit = fit_units(moments, N)
    late, cross, early = moments.late[0], moments.cross[0], moments.early[0]
    least_A = cross @ np.linalg.inv(early)
    least_Q = late - least_A @ np.swapaxes(cross, 1, 2)
    assert np.all(squared_distance(moments, N, (fit.A, fit.Q), (least_A, least_Q)) < 2 * TOL)


def test_given_transition_matrices_are_kept_and_covariances_are_fitted_to_them():
    A, Q, N = units(4)
    moments = record(A, Q, N)
    fit = fit_units(moments, N, fixed_A=A)
    np.testing.assert_array_equal(fit.A, A)
    assert fit.converged.all()
    assert np.all(promised_gain(moments, N, fit.A, fit.Q, first=P * P) < TOL)


@pytest.mark.parametrize("keep_A", [False, True])
def test_units_in_a_batch_are_fitted_as_on_their_own(keep_A):
    A, Q, N = units(6)
    moments = record(A, Q, N)
    together = fit_units(moments, N, fixed_A=A if keep_A else None)
    for k in range(6):
        part = slice(k, k + 1)
        alone = fit_units(one(moments, k), N[part], fixed_A=A[part] if keep_A else None)
        distance = squared_distance(one(moments, k), N[part], (together.A[part], together.Q[part]), (alone.A, alone.Q))
        # both lie within sqrt(TOL) standard errors of the maximum
        assert distance[0] < 4 * TOL


def test_a_fit_cut_short_says_so():
    A, Q, N = units(3)
    moments = record(A, Q, N)
    fit = fit_units(moments, N, max_iter=0)
    assert not fit.converged.any()
    for result, start in zip((fit.A, fit.Q), moment_start(moments, N), strict=True):
        np.testing.assert_array_equal(result, start)


@pytest.mark.medium
@pytest.mark.parametrize("noise", [0.1, 10.0])
def test_fits_to_drifting_or_short_records_stay_stable_and_positive_definite(noise):
    A, Q, N = units(20, noise=noise)
    A[:10] = 0.999 * np.eye(P)
    for n_samples in (25, 300):
        fit = fit_units(record(A, Q, N, n_samples), N)
        assert max(radius(a) for a in fit.A) < 0.999
        assert np.linalg.eigvalsh(fit.Q).min() > 0


def test_a_fit_ends_where_no_step_can_rise(monkeypatch):
    """At the border of stability every step is halved until it counts as none, and the next one is the same."""
    ends, whole = [], units_module._line_search
    monkeypatch.setattr(units_module, "_line_search", lambda *asked: ends.append(whole(*asked)) or ends[-1])
    walk = np.random.default_rng(1).normal(size=T).cumsum()[:, None]
    sums = lag_covariances(walk - walk.mean(), range(14), (0,))
    moments = TransitionMoments.from_sums(sums, walk, (0,))
    fit = fit_units(moments.blocks([slice(0, 1)]), 0.01 * np.eye(1)[None], tol=0.0)
    assert not fit.converged.any()
    assert fit.n_iter == len(ends) < 30
    (A, Q, last, moving), (stuck_A, stuck_Q, again, none) = ends[-2:]
    assert moving.tolist() == [0]
    assert not len(none)
    assert again.value == last.value
    np.testing.assert_array_equal([A[0], Q[0]], [stuck_A[0], stuck_Q[0]])
    np.testing.assert_array_equal(fit.A, stuck_A)


def test_a_unit_that_cannot_rise_is_not_tried_again_and_changes_no_other():
    walk = np.random.default_rng(1).normal(size=T).cumsum()
    noise = np.random.default_rng(2).normal(size=T)
    series = np.stack([walk - walk.mean(), noise], axis=1)
    moments = TransitionMoments.from_sums(lag_covariances(series, range(14), (0,)), series, (0,))
    both, N = moments.blocks([slice(0, 1), slice(1, 2)]), 0.01 * np.ones((2, 1, 1))
    fit, known = fit_units(both, N, tol=0.0), np.sqrt(4 * 1000 * np.finfo(float).eps)
    for k in range(2):
        alone = fit_units(one(both, k), N[k : k + 1], tol=0.0)
        # where no step raises the likelihood, it is flat up to the rounding of some 1000 products in its value
        np.testing.assert_allclose(fit.A[k], alone.A[0], atol=known)
        np.testing.assert_allclose(fit.Q[k], alone.Q[0], rtol=known)


def test_errors_of_the_fit_are_those_of_the_information():
    A, Q, N = units(1)
    n_units = 60
    A, Q, N = (np.repeat(x, n_units, axis=0) for x in (A, Q, N))
    moments = record(A, Q, N)
    fit = fit_units(moments, N)
    squares = squared_distance(moments, N, (fit.A, fit.Q), (A, Q))
    # chi-squared with 7 degrees of freedom: the mean of 60 has a standard error of sqrt(14 / 60) = 0.48,
    # terms of higher order are about 7 / sqrt(T) = 0.16
    assert squares.mean() == pytest.approx(7, abs=4 * np.sqrt(14 / n_units) + 0.16)


@pytest.mark.parametrize("p", [1, 2])
def test_a_step_takes_no_variance_below_a_fiftieth_of_the_mean_one(p):
    Q = 5.0 * np.eye(p)[None]

    class Rising:
        def of(self, chosen):
            return self

        def evaluate(self, A, Q):
            return Evaluation(np.ones(1), A, Q)

    step = np.diag([-20.0, 0.0][:p])[None]
    found = _line_search(Rising(), Evaluation(np.zeros(1), 0 * Q, 0 * Q), 0 * Q, Q, 0 * Q, step, np.arange(1))[1]
    np.testing.assert_allclose(found[0], np.diag([5.0 / 50, 5.0][:p]), rtol=1e-12)
