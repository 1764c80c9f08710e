"""Multiplicity control and tails against statsmodels, scipy and simulation."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln
from statsmodels.stats.multitest import multipletests

from skfedcausal.server.estimation.evidence import (
    BlockEstimates,
    adjusted_p_values,
    benjamini_hochberg,
    log_bayes_factors,
    shrink,
    weighted_chi2_logsf,
)
from skfedcausal.server.links.tables import verdicts
from skfedcausal.statespace.matrices import Partition

from ...statespace._reference import assert_within, random_covariance, rounding


def estimates(seed, sizes=(2, 1, 2), scale=0.05, shift=0.0):
    """Estimates of all blocks with random covariances, drawn around `shift`."""
    partition = Partition(sizes)
    rng = np.random.default_rng(seed)
    e = max(sizes) ** 2
    k = len(partition.pairs)
    covariance = np.zeros((k, e, e))
    estimate = np.zeros((k, e))
    real = partition.pair_elements < partition.n_states**2
    for pair in range(k):
        d = int(real[pair].sum())
        V = scale**2 * random_covariance(rng, d)
        covariance[pair][np.ix_(real[pair], real[pair])] = V
        estimate[pair, real[pair]] = shift + np.linalg.cholesky(V) @ rng.normal(size=d)
    return BlockEstimates.padded(estimate, covariance, partition), real


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_benjamini_hochberg_is_that_of_statsmodels(seed, alpha):
    p = np.random.default_rng(seed).beta(0.4, 1.0, size=30)
    p[3] = p[7]  # ties
    np.testing.assert_array_equal(benjamini_hochberg(p, alpha), multipletests(p, alpha, "fdr_bh")[0])


def test_benjamini_hochberg_of_nothing_rejects_nothing():
    assert benjamini_hochberg([], 0.05).shape == (0,)
    assert not benjamini_hochberg([0.9, 0.8], 0.05).any()


def test_statistic_and_p_value_are_those_of_the_real_elements():
    blocks, real = estimates(0, shift=0.05)
    statistic, p_value = blocks.statistic, blocks.p_value
    for k, seen in enumerate(real):
        b, V = blocks.estimate[k, seen], blocks.covariance[k][np.ix_(seen, seen)]
        expected = b @ np.linalg.solve(V, b)
        assert statistic[k] == pytest.approx(expected, rel=rounding(4, np.linalg.cond(V)))
        assert p_value[k] == pytest.approx(stats.chi2.sf(expected, seen.sum()))


def test_rotated_estimates_are_independent_and_padding_says_nothing():
    blocks, real = estimates(0)
    c, v, axes = blocks.rotated()
    for k, seen in enumerate(real):
        d = seen.sum()
        assert np.isinf(v[k, d:]).all()
        assert (c[k, d:] == 0).all()
        V = (axes[k][:, :d] * v[k, :d]) @ axes[k][:, :d].T
        scale = np.abs(blocks.covariance[k][np.ix_(seen, seen)]).max()
        # the padded variance of 1e8 beside the real ones costs digits of these
        assert_within(V[np.ix_(seen, seen)], blocks.covariance[k][np.ix_(seen, seen)], 1e8 * rounding(4) + scale * 1e-6)
        statistic = (c[k, :d] ** 2 / v[k, :d]).sum()
        assert statistic == pytest.approx(blocks.statistic[k], rel=1e-6)


@pytest.mark.parametrize("tau", [0.03, 0.3])
def test_bayes_factor_is_the_ratio_of_the_densities(tau):
    blocks, real = estimates(0, shift=0.05)
    c, v, _ = blocks.rotated()
    values = log_bayes_factors(c, v, tau)
    for k, seen in enumerate(real):
        b, V = blocks.estimate[k, seen], blocks.covariance[k][np.ix_(seen, seen)]
        slab = stats.multivariate_normal(cov=V + tau**2 * np.eye(len(b))).logpdf(b)
        assert values[k] == pytest.approx(slab - stats.multivariate_normal(cov=V).logpdf(b), rel=1e-6, abs=1e-8)


# --- tails of weighted sums -------------------------------------------------------------------------


def saddlepoint_error(dof):
    """Relative error of the formula for chi-squared tails.

    A saddlepoint density of a gamma variable is exact but for Stirling's formula in place of its constant;
    far out the tail has the error of the density, elsewhere less.
    """
    shape = dof / 2
    stirling = 0.5 * np.log(2 * np.pi) + (shape - 0.5) * np.log(shape) - shape
    return np.exp(gammaln(shape) - stirling) - 1


@pytest.mark.parametrize("dof", [1, 2, 4, 9])
def test_equal_weights_give_the_chi_squared_tail(dof):
    x = np.linspace(0.2 * dof, dof + 40, 25)
    logsf = weighted_chi2_logsf(2.5 * x[None], np.full((1, dof), 2.5))[0]
    ratio = np.exp(logsf - stats.chi2.logsf(x, dof))
    np.testing.assert_allclose(ratio, 1, rtol=0, atol=saddlepoint_error(dof))
    assert (ratio[x > 2 * dof] > 1).all()  # it errs on the safe side in the tail


@pytest.mark.parametrize("weights", [[1.0, 0.1], [1.0, 0.5, 0.2, 0.1], [0.9, 0.9, 0.05]], ids=str)
def test_unequal_weights_give_the_simulated_tail(weights):
    n_draws = 400_000
    sums = np.random.default_rng(0).chisquare(1, size=(n_draws, len(weights))) @ weights
    x = np.sum(weights) * np.array([0.3, 0.8, 1.0, 1.5, 3.0, 6.0])
    tails = np.exp(weighted_chi2_logsf(x[None], np.array([weights]))[0])
    expected = np.array([np.mean(sums > at) for at in x])
    # the largest weight governs the tail, so a single degree of freedom is the worst case
    error = saddlepoint_error(1) * expected + 5 * np.sqrt(expected / n_draws)
    assert (np.abs(tails - expected) <= error).all()


def test_the_tail_is_continuous_where_the_formula_is_singular():
    weights = np.array([[1.0, 0.6, 0.2]])
    mean = weights.sum()
    x = mean * (1 + np.array([-1e-3, -1e-6, 0, 1e-6, 1e-3]))
    tails = np.exp(weighted_chi2_logsf(x[None], weights)[0])
    assert (np.diff(tails) <= 1e-9).all()
    density = -(tails[-1] - tails[0]) / (x[-1] - x[0])
    np.testing.assert_allclose(tails, tails[2] - density * (x - mean), rtol=0, atol=1e-5)


def test_nothing_is_below_zero_and_far_tails_stay_finite():
    logsf = weighted_chi2_logsf(np.array([[-1.0, 0.0, 1e-9, 1e6]]), np.array([[1.0, 0.5]]))[0]
    np.testing.assert_array_equal(logsf[:2], 0.0)
    assert np.isfinite(logsf).all()
    assert logsf[2] == pytest.approx(0.0, abs=1e-3)


# --- adjusted p-values ------------------------------------------------------------------------------


def test_adjusted_p_value_is_the_chance_that_any_empty_pair_shows_as_much():
    blocks, _ = estimates(3, sizes=(2, 1, 2, 2), scale=0.04, shift=0.02)
    adjusted = adjusted_p_values(blocks)
    rng = np.random.default_rng(0)
    c, v, _ = blocks.rotated()
    observed = log_bayes_factors(c, v, 0.05)
    finite = np.where(np.isfinite(v), v, 0.0)
    n_draws = 40_000
    best = np.full(n_draws, -np.inf)
    for k in range(len(v)):
        draws = np.sqrt(finite[k]) * rng.normal(size=(n_draws, v.shape[1]))
        np.maximum(best, log_bayes_factors(draws, v[k], 0.05), out=best)
    for k, value in enumerate(observed):
        chance = np.mean(best >= value)
        if adjusted[k] > 1 - np.exp(-1):
            assert chance > 0.5  # beyond one expected pair only the order counts
            continue
        error = 5 * np.sqrt(chance * (1 - chance) / n_draws + 1e-9)
        # `exp(-E)` for independent pairs with small chances each, and log-linear between 32 thresholds
        assert abs(adjusted[k] - chance) <= error + (saddlepoint_error(1) + 0.05) * chance


def test_more_evidence_never_means_a_larger_adjusted_p_value():
    blocks, _ = estimates(4, sizes=(2, 2, 1, 3), shift=0.03)
    c, v, _ = blocks.rotated()
    order = np.argsort(-log_bayes_factors(c, v, 0.05))
    adjusted = adjusted_p_values(blocks)
    assert (np.diff(adjusted[order]) >= -1e-12).all()
    assert ((adjusted >= 0) & (adjusted <= 1)).all()


def test_pairs_with_equal_evidence_get_equal_values():
    partition = Partition((1, 1))
    blocks = BlockEstimates.padded(np.full((2, 1), 0.1), np.full((2, 1, 1), 0.01), partition)
    first, second = adjusted_p_values(blocks)
    assert first == second
    assert np.isfinite(first)


@pytest.mark.slow
def test_family_wise_error_rate_is_the_level():
    draws = np.array([adjusted_p_values(estimates(seed, sizes=(2, 1, 2, 2))[0]).min() for seed in range(4000)])
    for level in (0.05, 0.2):
        error = np.sqrt(level * (1 - level) / len(draws))
        assert abs(np.mean(draws < level) - level) <= 4 * error


def test_what_follows_from_estimates_does_not_travel_with_them():
    blocks = BlockEstimates(np.ones((2, 1)), np.ones((2, 1, 1)), np.ones(2, dtype=int))
    blocks.spectra  # keeps what it found
    copy = pickle.loads(pickle.dumps(blocks))
    assert set(vars(copy)) == {"estimate", "covariance", "dof"}
    np.testing.assert_array_equal(copy.spectra[0], blocks.spectra[0])


def test_beyond_one_expected_pair_adjusted_values_only_keep_the_order():
    """Two pairs of which three in four empty ones show as much: one and a half are expected."""
    partition = Partition((1, 1))
    size = np.full((2, 1), 0.1 * np.sqrt(stats.chi2.isf(0.75, 1)))
    adjusted = adjusted_p_values(BlockEstimates.padded(size, np.full((2, 1, 1), 0.01), partition))
    np.testing.assert_allclose(adjusted, 1 - np.exp(-1) / 1.5, rtol=0.03)  # the saddlepoint's error


@pytest.mark.parametrize("k", [1, 2, 40])
def test_tails_of_any_sum_and_any_weights_are_numbers(k):
    x = np.array([-1e308, 0.0, 5e-324, *10.0 ** np.arange(-300, 301, 20.0), 1e308])
    for weights in (np.ones(k), np.geomspace(1e-12, 1, k), np.full(k, 1e-300), np.full(k, 1e80)):
        logsf = weighted_chi2_logsf(x[None], weights[None])[0]
        assert np.isfinite(logsf).all()
        assert (np.diff(logsf) <= 1e-9).all()
        assert logsf[0] == pytest.approx(0, abs=1e-6)
        assert logsf[-1] < -600


def test_variances_that_rounding_makes_negative_are_as_small_as_rounding():
    """A covariance of widely different directions has eigenvalues a little below zero, by the last bit."""
    axes = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    covariance = (axes * [1e13, 1.0, -1e-4]) @ axes.T
    blocks = BlockEstimates(np.ones((1, 3)), (covariance + covariance.T)[None] / 2, np.array([3]))
    assert (blocks.rotated()[1] > 0).all()
    assert np.isfinite(adjusted_p_values(blocks)).all()
    assert np.isfinite(shrink(blocks).posterior_mean).all()
    along = BlockEstimates(axes[:, 2][None], blocks.covariance, blocks.dof)
    assert 0 <= along.stderr[0] < 1


def test_variances_of_ordinary_and_padded_blocks_stay_as_they_are():
    family = SimpleNamespace(pair_elements=np.array([[0, 1], [2, 3]]), n_elements=3, pair_dof=np.array([2, 1]))
    covariance = np.array([[[1e-6, 0], [0, 1e-9]], [[1e-12, 0.0], [0.0, 1.0]]])
    blocks = BlockEstimates.padded(np.ones((2, 2)), covariance.copy(), family)
    np.testing.assert_array_equal(blocks.spectra[0], [[1e-9, 1e-6], [1e-12, 1e8]])


def test_a_pair_without_a_covariance_says_so_and_changes_no_other():
    n, rng = 12, np.random.default_rng(3)
    estimate = 0.02 * rng.normal(size=(n, 2))
    estimate[0] = 0.3
    covariance = np.tile(4e-4 * np.eye(2), (n, 1, 1))
    without = BlockEstimates(estimate, covariance.copy(), np.full(n, 2))
    covariance[5] = [[4e-4, 6e-4], [6e-4, 4e-4]]  # a negative eigenvalue
    found = BlockEstimates(estimate, covariance, np.full(n, 2))
    assert not found.is_known[5]
    assert found.is_known.sum() == n - 1
    assert found.p_value[5] == 1.0
    others = np.arange(n) != 5
    np.testing.assert_array_equal(found.p_value[others], without.p_value[others])
    adjusted, usual = adjusted_p_values(found), adjusted_p_values(without)
    assert adjusted[0] <= 1e-10
    np.testing.assert_allclose(adjusted[others], usual[others], atol=1.5 / n)
    assert verdicts(found, adjusted, 0.05, 0.1)[5] == "cannot tell"
