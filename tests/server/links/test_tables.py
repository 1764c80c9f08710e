"""The table of links: columns, order, uncertainty of the strength, verdicts."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from skfedcausal import FederatedGrangerEstimator
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation.evidence import BlockEstimates, adjusted_p_values
from skfedcausal.server.links.tables import COLUMNS, UNDIRECTED, correlation_table, links_table, verdicts
from skfedcausal.statespace.matrices import Partition

from ...statespace._reference import random_covariance
from .._reference import structure_of

NAMES = ("boiler", "mill", "silo")

DELAYS = ["delay", "delay_low", "delay_high"]


def blocks_of(sizes=(2, 1, 2), shift=0.0, noise=0.05, seed=0):
    partition = Partition(sizes)
    rng = np.random.default_rng(seed)
    e = max(sizes) ** 2
    real = partition.pair_elements < partition.n_states**2
    estimate, covariance = np.zeros((len(real), e)), np.zeros((len(real), e, e))
    for k, seen in enumerate(real):
        V = noise**2 * random_covariance(rng, seen.sum())
        covariance[k][np.ix_(seen, seen)] = V
        estimate[k, seen] = shift + np.linalg.cholesky(V) @ rng.normal(size=seen.sum())
    return partition, BlockEstimates.padded(estimate, covariance, partition), real


def table_of(partition, blocks, alpha=0.05, margin=0.1):
    geweke = np.arange(9.0).reshape(3, 3)
    return links_table(NAMES, partition, blocks, geweke, alpha=alpha, margin=margin)


def test_one_row_per_ordered_pair_with_the_documented_columns():
    table = table_of(*blocks_of()[:2])
    assert tuple(table.columns) == COLUMNS
    documented = "cause effect kind norm stderr statistic p_value p_adjusted geweke verdict because"
    assert [*documented.split(), *DELAYS] == list(COLUMNS)
    assert [(row.effect, row.cause) for row in table.itertuples()] == [
        ("boiler", "mill"),
        ("boiler", "silo"),
        ("mill", "boiler"),
        ("mill", "silo"),
        ("silo", "boiler"),
        ("silo", "mill"),
    ]
    assert (table.kind == "state").all()
    assert table.index.tolist() == list(range(6))


def test_rows_hold_the_numbers_of_their_pair():
    partition, blocks, _ = blocks_of()
    table = table_of(partition, blocks)
    np.testing.assert_allclose(table.norm, np.linalg.norm(blocks.estimate, axis=1))
    np.testing.assert_allclose(table.statistic, blocks.statistic)
    np.testing.assert_allclose(table.p_value, blocks.p_value)
    np.testing.assert_allclose(table.p_adjusted, adjusted_p_values(blocks))
    # measures[effect, cause], off the diagonal row by row
    np.testing.assert_array_equal(table.geweke, [1, 2, 3, 5, 6, 7])


@pytest.mark.parametrize("shift", [0.0, 0.3, 1e3])
def test_p_values_are_numbers_between_zero_and_one(shift):
    table = table_of(*blocks_of(shift=shift)[:2])
    for column in ("p_value", "p_adjusted"):
        assert table[column].between(0, 1).all()
    assert table.drop(columns=["geweke", *DELAYS]).notna().all(axis=None)


def test_one_unit_has_an_empty_table():
    partition = Partition((2,))
    blocks = BlockEstimates(np.zeros((0, 4)), np.zeros((0, 4, 4)), np.zeros(0, dtype=int))
    table = links_table(("alone",), partition, blocks, np.zeros((1, 1)), alpha=0.05, margin=0.1)
    assert len(table) == 0
    assert tuple(table.columns) == COLUMNS


def test_standard_error_is_that_of_the_norm():
    """Delta method, so right where the block is many standard errors from zero."""
    partition, blocks, real = blocks_of(shift=1.0, noise=0.02)
    table = table_of(partition, blocks)
    rng = np.random.default_rng(1)
    n_draws = 20_000
    for k, seen in enumerate(real):
        V = blocks.covariance[k][np.ix_(seen, seen)]
        draws = rng.multivariate_normal(blocks.estimate[k, seen], V, size=n_draws)
        spread = np.linalg.norm(draws, axis=1).std()
        # a standard deviation from draws has the relative error 1 / sqrt(2 n)
        assert table.stderr[k] == pytest.approx(spread, rel=5 / np.sqrt(2 * n_draws) + 0.02)


def test_a_block_of_zeros_has_no_direction_and_no_nan():
    partition, blocks, _ = blocks_of()
    blocks.estimate[0] = 0.0
    table = table_of(partition, blocks)
    assert table.norm[0] == 0
    assert table.p_value[0] == 1
    assert np.isfinite(table.stderr[0])


# --- verdicts ---------------------------------------------------------------------------------------


def scalar_blocks(estimates, errors):
    """Blocks of one element each, of three units."""
    estimate = np.array(estimates, dtype=float)[:, None]
    covariance = np.array(errors, dtype=float)[:, None, None] ** 2
    return BlockEstimates.padded(estimate, covariance, Partition((1, 1, 1)))


def test_verdicts_follow_their_rules():
    blocks = scalar_blocks([0.5, 0.0, 0.05, 0.09, 0.02, 0.3], [0.05, 0.01, 0.2, 0.01, 0.01, 0.2])
    p_adjusted = np.array([1e-6, 0.9, 0.9, 0.001, 0.3, 0.4])
    expected = ["influence", "no influence", "cannot tell", "influence", "no influence", "cannot tell"]
    assert verdicts(blocks, p_adjusted, 0.05, 0.1).tolist() == expected


def test_an_influence_needs_an_adjusted_p_value_of_at_most_the_level():
    blocks = scalar_blocks([0.5] * 6, [0.05] * 6)
    p_adjusted = np.array([0.0, 0.05, 0.0500001, 0.5, 1.0, 0.01])
    said = verdicts(blocks, p_adjusted, 0.05, 0.1) == "influence"
    np.testing.assert_array_equal(said, p_adjusted <= 0.05)


def test_no_influence_is_an_equivalence_test_of_the_margin():
    """For one element: the estimate lies in the lower 5 % of what a strength at the margin would give."""
    error, margin = 0.04, 0.1
    grid = np.linspace(0, 0.12, 7)[:6]
    said = verdicts(scalar_blocks(grid, [error] * 6), np.ones(6), 0.05, margin) == "no influence"
    chance = stats.norm.cdf((grid - margin) / error) - stats.norm.cdf((-grid - margin) / error)
    np.testing.assert_array_equal(said, chance <= 0.05)
    assert said.any()
    assert not said.all()


@pytest.mark.parametrize(("errors", "verdict"), [(1.94, "cannot tell"), (1.98, "no influence")])
def test_an_estimate_of_zero_decides_only_where_its_interval_lies_within_the_margin(errors, verdict):
    """The 95 % interval of one element is 1.96 standard errors to either side."""
    margin = 0.1
    said = verdicts(scalar_blocks([0.0] * 6, [margin / errors] * 6), np.ones(6), 0.05, margin)
    assert set(said) == {verdict}


def test_larger_margins_and_levels_allow_more_verdicts():
    blocks = scalar_blocks([0.01, 0.02, 0.05, 0.1, 0.15, 0.2], [0.05] * 6)

    def none(margin, alpha):
        return (verdicts(blocks, np.ones(6), alpha, margin) == "no influence").sum()

    counts = [none(margin, 0.05) for margin in (0.01, 0.1, 0.2, 0.5)]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] == 6
    assert none(0.15, 0.2) >= none(0.15, 0.01)


def test_a_claim_of_no_influence_is_wrong_at_most_at_the_level():
    """For a block at the margin, in the direction that is measured worst."""
    rng = np.random.default_rng(0)
    partition, margin = Partition((2, 2)), 0.2
    V = 0.06**2 * np.diag([1.0, 0.5, 0.2, 0.1])
    n_draws = 1000
    wrong = 0
    for _ in range(n_draws // 2):
        estimate = rng.multivariate_normal([margin, 0, 0, 0], V, size=2)
        blocks = BlockEstimates(estimate, np.array([V, V]), partition.pair_dof)
        wrong += (verdicts(blocks, np.ones(2), 0.05, margin) == "no influence").sum()
    assert abs(wrong / n_draws - 0.05) <= 4 * np.sqrt(0.05 * 0.95 / n_draws)


# --- correlated noise -------------------------------------------------------------------------------


def estimate_with(Q, correlated):
    partition = Partition((2, 1, 1))
    pairs = len(partition.pairs)
    tests = SimpleNamespace(statistic=np.arange(pairs) + 10.0, p_value=np.linspace(0.01, 0.06, pairs))
    return SimpleNamespace(Q=Q, structure=structure_of(partition, correlated=correlated), correlations=tests)


def test_correlations_are_listed_strongest_first():
    Q = np.eye(4)
    Q[0, 2] = Q[2, 0] = 0.3
    Q[2, 3] = Q[3, 2] = 0.6
    table = correlation_table(NAMES, estimate_with(Q, [(0, 1), (1, 2)]))
    assert table.columns.tolist() == ["first", "second", "correlation", "statistic", "p_value", *UNDIRECTED]
    assert table[["first", "second"]].to_numpy().tolist() == [["mill", "silo"], ["boiler", "mill"]]
    np.testing.assert_allclose(table.correlation, [0.6, 0.3])
    pairs = [tuple(pair) for pair in Partition((2, 1, 1)).pairs.tolist()]
    np.testing.assert_allclose(table.statistic, [10.0 + pairs.index((2, 1)), 10.0 + pairs.index((1, 0))])


def test_correlation_is_the_largest_canonical_one():
    rng = np.random.default_rng(0)
    Q = random_covariance(rng, 4)
    table = correlation_table(NAMES, estimate_with(Q, [(0, 1)]))
    first, second = Q[:2, :2], Q[2, 2]
    expected = np.sqrt(Q[2, :2] @ np.linalg.solve(first, Q[:2, 2]) / second)
    assert table.correlation[0] == pytest.approx(expected)


def test_without_correlations_the_table_is_empty():
    table = correlation_table(NAMES, estimate_with(np.eye(4), []))
    assert len(table) == 0
    assert table.columns.tolist() == ["first", "second", "correlation", "statistic", "p_value", *UNDIRECTED]


def test_measures_of_a_plant_of_one_lag_are_there_whatever_its_size(monkeypatch):
    monkeypatch.setattr("skfedcausal.server.dynamics._SMALL", 1)
    X, _ = make_granger_plant(2, n_samples=300, random_state=0)
    assert np.isfinite(FederatedGrangerEstimator().fit(X).links_["geweke"]).all()
