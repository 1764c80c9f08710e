"""Intervals of strengths cover as often as they say; the rows that would decide do."""

import numpy as np
import pytest
from scipy import stats

from skfedcausal import FederatedGrangerEstimator, GradientServer, inspection
from skfedcausal.arguments import check_confidence, check_number
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation.evidence import BlockEstimates
from skfedcausal.server.links.tables import deciding_rows, pair_of, spectrum_intervals, strength_intervals
from skfedcausal.statespace.geweke import geweke_spectrum
from skfedcausal.statespace.matrices import Partition
from skfedcausal.statespace.whittle import FreeElements


def draws(norm, sizes=(2, 2), n=4000, seed=0, anisotropic=True):
    """Estimates of one block of a given norm; standard errors alike, or one 1.4 times the other."""
    rng = np.random.default_rng(seed)
    e = sizes[0] * sizes[1]
    axes = np.linalg.qr(rng.normal(size=(e, e)))[0]
    V = (axes * np.linspace(1, 2, e)) @ axes.T if anisotropic else np.eye(e)
    truth = rng.normal(size=e)
    truth *= norm / np.linalg.norm(truth)
    estimate = truth + rng.normal(size=(n, e)) @ np.linalg.cholesky(V).T
    return BlockEstimates(estimate, np.tile(V, (n, 1, 1)), np.full(n, e))


@pytest.mark.medium
@pytest.mark.parametrize("anisotropic", [False, True])
@pytest.mark.parametrize("norm", [0.0, 0.5, 1.0, 2.0, 4.0, 10.0])
def test_intervals_cover_between_93_and_97_per_cent(norm, anisotropic):
    for seed in range(3):
        low, high = strength_intervals(draws(norm, seed=seed, anisotropic=anisotropic))
        assert 0.93 <= np.mean((low <= norm) & (norm <= high)) <= 0.97


@pytest.mark.parametrize("unit", [1.0, 1e4, 1e-4])
@pytest.mark.parametrize("level", [0.95, 0.5])
def test_ends_of_an_interval_are_where_the_tails_of_the_gamma_distribution_are_as_thin_as_they_may_be(level, unit):
    blocks = draws(3.0, n=40)
    blocks = BlockEstimates(unit * blocks.estimate, unit**2 * blocks.covariance, blocks.dof)
    low, high = strength_intervals(blocks, level)
    assert (low == 0).any()
    assert (low > 0).any()
    alpha = 1 - level
    for k, (b, V) in enumerate(zip(blocks.estimate, blocks.covariance, strict=True)):
        trace, along = np.trace(V), b @ V @ b / (b @ b)

        def squared_norm(s, trace=trace, along=along, V=V):
            mean, variance = trace + s**2, 2 * np.trace(V @ V) + 4 * s**2 * along
            return stats.gamma(mean**2 / variance, scale=variance / mean)

        def least(s, trace=trace):
            return alpha / 2 * (1 - np.exp(-(s**2) / trace))

        assert squared_norm(high[k]).cdf(b @ b) == pytest.approx(least(high[k]), rel=1e-6)
        if low[k] > 0:
            assert squared_norm(low[k]).sf(b @ b) == pytest.approx(alpha - least(low[k]), rel=1e-6)
        else:
            assert squared_norm(0.0).sf(b @ b) >= alpha


def test_levels_numbers_and_pairs_that_there_are_not_are_refused():
    check_confidence(1e-9)
    check_number(1, "n_lags")
    check_number(np.int64(0), "n_lags", least=0)
    assert pair_of(("a", "b", "c"), "a", "c") == (2, 0)
    for question, message in (
        (lambda: check_confidence(0), "confidence=0"),
        (lambda: check_confidence(1), "confidence=1"),
        (lambda: check_number(0, "n_lags"), "n_lags=0; give a whole number, at least 1"),
        (lambda: check_number(1.0, "n_lags"), "n_lags=1.0"),
        (lambda: pair_of(("a", "b"), "a", "c"), "no unit 'c'; the units are a, b"),
        (lambda: pair_of(("a", "b"), "c", "a"), "no unit 'c'"),
        (lambda: pair_of(("a", "b"), "a", "a"), "both 'a'"),
    ):
        with pytest.raises(ValueError, match=message):
            question()


@pytest.mark.parametrize("conditional", [True, False])
def test_errors_of_a_spectrum_are_those_of_the_delta_method_for_its_root(conditional):
    rng = np.random.default_rng(0)
    partition, n_frequencies, level, step = Partition((1, 1)), 8, 0.8, 1e-5
    A, Q, J = np.array([[0.5, 0.3], [0.4, 0.2]]), np.array([[1.0, 0.2], [0.2, 0.7]]), np.diag([2.0, 3.0])
    free = FreeElements.from_masks(np.ones((2, 2)), np.ones((2, 2)))
    F = rng.normal(size=(7, 7))
    scale = np.diag([2.0, 0.5])  # states of the parameters are standardised
    inverse = np.linalg.inv(scale)
    covariance = 1e-10 * F @ F.T
    parameters = inverse @ A @ scale, inverse @ Q @ inverse, free, covariance, scale

    def root(vector):
        A, Q = free.scatter(vector, (2, 2))
        A, Q = scale @ A @ inverse, scale @ Q @ scale
        settings = {"conditional": conditional, "n_frequencies": n_frequencies}
        return np.sqrt(geweke_spectrum(A, Q, J, partition, 1, 0, **settings).measure)

    at = free.gather(*parameters[:2])
    slopes = np.array([(root(at + d) - root(at - d)) / (2 * step) for d in step * np.eye(7)])
    stderr = np.sqrt(np.einsum("iw,ij,jw->w", slopes, covariance, slopes))
    found = geweke_spectrum(A, Q, J, partition, 1, 0, conditional=conditional, n_frequencies=n_frequencies)
    low, high = spectrum_intervals(parameters, J, partition, (1, 0), found, conditional, level)
    reach = stats.norm.ppf(0.9) * stderr
    np.testing.assert_allclose(np.sqrt(high) - root(at), reach, rtol=1e-4)
    np.testing.assert_allclose(root(at) - np.sqrt(low), reach, rtol=1e-4)


def test_padding_changes_no_interval():
    blocks = draws(1.0, sizes=(1, 2), n=50)
    partition = Partition((1, 2))
    e = partition.pair_elements.shape[1]
    estimate, covariance = np.zeros((50, e)), np.zeros((50, e, e))
    estimate[:, :2], covariance[:, :2, :2] = blocks.estimate, blocks.covariance
    covariance[:, [2, 3], [2, 3]] = 1e8
    padded = BlockEstimates(estimate, covariance, blocks.dof)
    np.testing.assert_allclose(strength_intervals(padded), strength_intervals(blocks), rtol=1e-9)
    np.testing.assert_array_equal(deciding_rows(padded, 9, 0.05, 0.1), deciding_rows(blocks, 9, 0.05, 0.1))


def test_rows_that_decide_find_an_influence_of_the_margin_four_times_in_five():
    margin, n = 0.7, 4000
    blocks = draws(0.0, n=1, anisotropic=False)
    share = 1 / deciding_rows(blocks, 10**9, 0.05, margin)[0] * 10**9
    large = draws(margin, n=n, anisotropic=False)
    longer = BlockEstimates(
        margin * np.eye(4)[0] + (large.estimate - large.estimate.mean(axis=0)) * np.sqrt(share),
        large.covariance * share,
        large.dof,
    )
    assert np.mean(longer.p_value < 0.05) == pytest.approx(0.8, abs=3 * np.sqrt(0.16 / n))


def test_rows_that_decide_are_those_of_the_direction_that_is_known_worst():
    """In proportion to its variance, whatever the others are and however many elements are padded."""
    spread = np.array([[1.0, 2.0, 1e8, 1e8], [1.0, 2.0, 3.0, 4.0], [4.0, 4.0, 4.0, 4.0]])
    covariance = np.array([np.diag(variances) for variances in spread])
    dof = np.array([2, 4, 4])
    rows = deciding_rows(BlockEstimates(np.zeros((3, 4)), covariance, dof), 10**6, 0.05, 0.5)
    assert rows[1] == rows[2]
    for found, k, worst in zip(rows, dof, (2.0, 4.0, 4.0), strict=True):
        shift = found / 10**6 / worst * 0.5**2  # noncentrality of an influence of the margin
        assert stats.ncx2.sf(stats.chi2.isf(0.05, k), k, shift) == pytest.approx(0.8, abs=1e-5)


def test_estimator_gives_intervals_that_agree_with_its_links():
    X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    est = FederatedGrangerEstimator().fit(X)
    table = inspection.link_intervals(est)
    assert (table[["cause", "effect"]] == est.links_[["cause", "effect"]]).all(axis=None)
    np.testing.assert_allclose(table.norm, est.links_.norm)
    assert ((table.low <= table.norm) & (table.norm <= table.high)).all()
    linked = (table.cause == "unit0") & (table.effect == "unit2")
    assert table.low[linked].item() > 0
    with pytest.raises(ValueError, match="confidence=2"):
        inspection.link_intervals(est, 2)


def test_spectrum_of_an_estimator_totals_to_its_table():
    X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    est = FederatedGrangerEstimator().fit(X)
    row = est.links_.query("cause == 'unit0' and effect == 'unit2'")
    assert inspection.spectrum(est, "unit0", "unit2").attrs["total"] == pytest.approx(row.geweke.item(), abs=1e-8)
    assert len(inspection.spectrum(est, "unit0", "unit2", conditional=False, n_frequencies=20)) == 20
    with pytest.raises(ValueError, match="no unit 'mill'"):
        inspection.spectrum(est, "mill", "unit2")
    with pytest.raises(ValueError, match="two units"):
        inspection.spectrum(est, "unit0", "unit0")
    assert not hasattr(FederatedGrangerEstimator(server=GradientServer()), "spectrum")
