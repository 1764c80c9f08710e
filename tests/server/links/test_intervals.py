"""Intervals of strengths cover as often as they say; the rows that would decide do."""

import numpy as np
import pytest

from skfedcausal import FederatedGrangerEstimator, GradientServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation.evidence import BlockEstimates
from skfedcausal.server.links.intervals import deciding_rows, strength_intervals
from skfedcausal.statespace.partition import Partition


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


@pytest.mark.parametrize("anisotropic", [False, True])
@pytest.mark.parametrize("norm", [0.0, 0.5, 1.0, 2.0, 4.0, 10.0])
def test_intervals_cover_between_93_and_97_per_cent(norm, anisotropic):
    for seed in range(3):
        low, high = strength_intervals(draws(norm, seed=seed, anisotropic=anisotropic))
        assert 0.93 <= np.mean((low <= norm) & (norm <= high)) <= 0.97


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


def test_estimator_gives_intervals_that_agree_with_its_links():
    X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    est = FederatedGrangerEstimator().fit(X)
    table = est.link_intervals()
    assert (table[["cause", "effect"]] == est.links_[["cause", "effect"]]).all(axis=None)
    np.testing.assert_allclose(table.strength, est.links_.strength)
    assert ((table.low <= table.strength) & (table.strength <= table.high)).all()
    linked = (table.cause == "unit0") & (table.effect == "unit2")
    assert table.low[linked].item() > 0
    with pytest.raises(ValueError, match="level=2"):
        est.link_intervals(2)


def test_spectrum_of_an_estimator_totals_to_its_table():
    X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    est = FederatedGrangerEstimator().fit(X)
    row = est.links_.query("cause == 'unit0' and effect == 'unit2'")
    assert est.spectrum("unit0", "unit2").attrs["total"] == pytest.approx(row.geweke.item(), abs=1e-8)
    assert len(est.spectrum("unit0", "unit2", conditional=False, n_frequencies=20)) == 20
    with pytest.raises(ValueError, match="no unit 'mill'"):
        est.spectrum("mill", "unit2")
    with pytest.raises(ValueError, match="two units"):
        est.spectrum("unit0", "unit0")
    assert not hasattr(FederatedGrangerEstimator(server=GradientServer()), "spectrum")
