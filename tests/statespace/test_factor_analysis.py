"""Factor analysis: against scikit-learn, at its own equations, and its likelihood ratio."""

import numpy as np
import pytest
from scipy.stats import chi2, kstest
from sklearn.decomposition import FactorAnalysis

from skfedcausal.statespace.observation import degrees_of_freedom, factor_analysis


def _rows(n_samples, seed, n_sensors=7, n_factors=2):
    rng = np.random.default_rng(seed)
    C, R = rng.standard_normal((n_sensors, n_factors)), rng.uniform(0.3, 2, n_sensors)
    return rng.standard_normal((n_samples, n_factors)) @ C.T + np.sqrt(R) * rng.standard_normal((n_samples, n_sensors))


def _fit(Y, n_factors):
    S = Y.T @ Y / len(Y)
    return S, factor_analysis(S, n_factors, np.full(len(S), 1e-3))


@pytest.mark.medium
def test_it_reaches_the_likelihood_of_another_library():
    Y = _rows(800, 0)
    Y -= Y.mean(axis=0)
    S, found = _fit(Y, 2)
    other = FactorAnalysis(2, tol=1e-10, max_iter=10_000).fit(Y)
    logdet = np.linalg.slogdet(S)[1]
    best = -0.5 * (len(S) * np.log(2 * np.pi) + logdet + len(S))
    assert best - 0.5 * found.misfit == pytest.approx(other.score(Y), abs=1e-6)
    np.testing.assert_allclose(found.R, other.noise_variance_, rtol=1e-2)


def test_the_misfit_is_the_likelihood_ratio_and_the_maximum_solves_its_equations():
    S, found = _fit(_rows(500, 1), 2)
    root = np.sqrt(found.R)
    values = np.linalg.eigvalsh(S / np.outer(root, root))
    C = found.C * np.sqrt(np.maximum(values[::-1][:2] - 1, 0))
    expected = C @ C.T + np.diag(found.R)
    ratio = np.linalg.slogdet(expected)[1] - np.linalg.slogdet(S)[1]
    ratio += np.trace(np.linalg.solve(expected, S)) - len(S)
    assert found.misfit == pytest.approx(ratio, rel=1e-6)
    np.testing.assert_allclose(np.diag(expected), np.diag(S), rtol=1e-3)  # Lawley's equation


def test_the_likelihood_ratio_is_chi_squared_with_as_many_factors_as_there_are():
    n = 2000
    statistics = [n * _fit(_rows(n, seed), 2)[1].misfit for seed in range(200)]
    assert degrees_of_freedom(7, 2) == 8
    assert kstest(statistics, chi2(8).cdf).pvalue > 0.01


def test_too_few_factors_do_not_fit():
    _, found = _fit(_rows(2000, 3), 1)
    assert 2000 * found.misfit > 100


def test_noise_stays_above_its_floor():
    Y = _rows(400, 5, n_sensors=5)
    Y[:, 0] = Y[:, 1]
    S = Y.T @ Y / len(Y) + 1e-6 * np.eye(5)
    floor = np.full(5, 0.05)
    assert (floor * (1 - 1e-12) <= factor_analysis(S, 2, floor).R).all()


@pytest.mark.parametrize(("sensors", "factors", "expected"), [(6, 2, 4), (4, 2, 0), (3, 1, 0), (20, 3, 133)])
def test_degrees_of_freedom(sensors, factors, expected):
    assert degrees_of_freedom(sensors, factors) == expected
