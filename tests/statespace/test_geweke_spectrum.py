"""Spectrum of Geweke's measure: analytic cases, the integral, the root condition, statsmodels' VAR."""

import numpy as np
import pytest
from scipy.linalg import block_diag
from statsmodels.tsa.api import VAR

from skfedcausal.statespace.geweke import Innovations, geweke_measures, geweke_spectrum, loadings_of
from skfedcausal.statespace.matrices import Partition

from ._reference import random_covariance, random_transition


def unconditional_measures(A, Q, J, partition):
    """Geweke's measure between two units looked at on their own, for every ordered pair."""
    loadings = loadings_of(J, partition)
    alone = [np.linalg.slogdet(Innovations(A, Q, [C]).covariance)[1] for C in loadings]
    measures = np.zeros((partition.n_units, partition.n_units))
    for m in range(partition.n_units):
        for n in range(m):
            S, d = Innovations(A, Q, [loadings[m], loadings[n]]).covariance, len(loadings[m])
            measures[m, n] = max(alone[m] - np.linalg.slogdet(S[:d, :d])[1], 0.0)
            measures[n, m] = max(alone[n] - np.linalg.slogdet(S[d:, d:])[1], 0.0)
    return measures


def random_plant(sizes, seed):
    partition = Partition(sizes)
    rng = np.random.default_rng(seed)
    n = partition.n_states
    J = block_diag(*[random_covariance(rng, p) for p in sizes])
    return random_transition(rng, n, 0.7), random_covariance(rng, n), J, partition


@pytest.mark.parametrize("noise", [0.3, 2.0])
@pytest.mark.parametrize("gain", [0.5, -2.0])
def test_white_cause_has_the_measure_in_closed_form(gain, noise):
    """x[t] = g y[t-1] + e with y white: x alone is white, and y[t-1] is known to q r / (q + r)."""
    q, s = 1.5, 0.7
    A, Q = np.array([[0.0, gain], [0.0, 0.0]]), np.diag([s, q])
    alone = s + gain**2 * q + noise
    known = s + gain**2 * q * noise / (q + noise) + noise
    partition, J = Partition((1, 1)), np.eye(2) / noise
    expected = np.log(alone / known)
    spectrum = geweke_spectrum(A, Q, J, partition, 0, 1)
    for value in (
        geweke_measures(A, Q, J, partition)[0, 1],
        unconditional_measures(A, Q, J, partition)[0, 1],
        spectrum.total,
    ):
        assert value == pytest.approx(expected, abs=1e-12)
    np.testing.assert_allclose(spectrum.measure, expected, atol=1e-12)  # the delay alone: the same everywhere
    assert geweke_measures(A, Q, J, partition)[1, 0] == pytest.approx(0, abs=1e-12)


def test_geweke_textbook_spectrum_of_a_first_order_autoregression():
    """x = a x + c y + e, y = b y + f, no sensor noise: f(w) = log(1 + c^2 s_f / (s_e |1 - b z|^2))."""
    a, b, c, noise = 0.6, 0.5, 0.8, 1e-9
    A, Q = np.array([[a, c], [0, b]]), np.diag([1.0, 2.0])
    spectrum = geweke_spectrum(A, Q, np.eye(2) / noise, Partition((1, 1)), 0, 1)
    z = np.exp(-1j * spectrum.frequency)
    expected = np.log(1 + c**2 * 2.0 / np.abs(1 - b * z) ** 2)
    # the noise moves variances by a few times itself, solves have a condition of one over it
    np.testing.assert_allclose(spectrum.measure, expected, atol=1e-6)
    assert spectrum.has_roots_inside
    assert spectrum.measure.mean() == pytest.approx(spectrum.total, abs=1e-6)


@pytest.mark.parametrize("conditional", [True, False])
@pytest.mark.parametrize("sizes", [(1, 1), (2, 2), (2, 1, 3)], ids=str)
def test_spectrum_averages_to_the_measure_where_the_roots_allow(sizes, conditional):
    held = 0
    for seed in range(6):
        plant = random_plant(sizes, seed)
        measures = (geweke_measures if conditional else unconditional_measures)(*plant)
        for effect in range(len(sizes)):
            for cause in set(range(len(sizes))) - {effect}:
                spectrum = geweke_spectrum(*plant, effect, cause, conditional=conditional)
                assert spectrum.total == pytest.approx(measures[effect, cause], abs=1e-8)
                assert (spectrum.measure >= 0).all()
                if spectrum.has_roots_inside:
                    held += 1
                    assert spectrum.measure.mean() == pytest.approx(spectrum.total, abs=1e-6)
                else:
                    assert spectrum.measure.mean() < spectrum.total - 1e-8
    assert held > 0


def test_two_units_have_the_same_measure_given_nobody_else():
    plant = random_plant((2, 1), 3)
    np.testing.assert_allclose(unconditional_measures(*plant), geweke_measures(*plant), atol=1e-12)


@pytest.mark.medium
def test_measure_of_an_observed_autoregression_is_that_of_statsmodels_var():
    """Log-ratio of residual variances of long fitted autoregressions with and without the cause."""
    rng = np.random.default_rng(0)
    A, n = np.array([[0.5, 0.3, 0.0], [0.0, 0.6, 0.2], [0.0, 0.0, 0.4]]), 100_000
    x = np.zeros((n, 3))
    for t in range(1, n):
        x[t] = A @ x[t - 1] + rng.normal(size=3)
    fitted = VAR(x).fit(1, trend="c")
    reduced = VAR(x[:, [0, 2]]).fit(20, trend="c")
    expected = np.log(reduced.sigma_u[0, 0] / fitted.sigma_u[0, 0])
    plant = fitted.coefs[0], fitted.sigma_u, np.eye(3) * 1e9, Partition((1, 1, 1))
    # the sampling error of the difference of two log-variances of nested fits, 20 terms of order 1 / n
    assert geweke_measures(*plant)[0, 1] == pytest.approx(expected, abs=3 * np.sqrt(4 * expected / n) + 20 / n)


def test_by_default_frequencies_are_doubled_from_64_until_the_roots_of_the_measure_stay():
    flat = np.array([[0.0, 0.5], [0.0, 0.0]]), np.eye(2), np.eye(2), Partition((1, 1))
    assert len(geweke_spectrum(*flat, 0, 1).frequency) == 128  # the same everywhere: doubled once
    radius = 0.99  # what is left of a pole falls as radius ** (2 n)
    slow = np.array([[radius, 0.5], [0.0, radius]]), np.eye(2), 1e-4 * np.eye(2), Partition((1, 1))
    n_frequencies = len(geweke_spectrum(*slow, 0, 1).frequency)
    assert n_frequencies in 64 * 2 ** np.arange(2, 8)
