"""Empirical-Bayes shrinkage against Bayes' formula."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.optimize import minimize

from skfedcausal.server.estimation.evidence import (
    _EXTRA_EMPTY_PAIRS,
    _MIN_SLAB,
    BlockEstimates,
    _joint_posterior,
    link_estimates,
    shrink,
    shrunk_transition,
)
from skfedcausal.server.estimation.scoring import Point, Scoring, is_valid
from skfedcausal.statespace.matrices import Partition

from ...statespace._reference import EPS, random_covariance
from .._reference import coupled_plant, endless, structure_of


def blocks_of(seed, n_links, sizes=(2, 1, 2, 2), noise=0.03, slab=0.2):
    """Estimates of blocks, the first `n_links` of which are not empty."""
    partition = Partition(sizes)
    rng = np.random.default_rng(seed)
    e = max(sizes) ** 2
    real = partition.pair_elements < partition.n_states**2
    estimate, covariance = np.zeros((len(real), e)), np.zeros((len(real), e, e))
    for k, seen in enumerate(real):
        d = seen.sum()
        V = noise**2 * (random_covariance(rng, d) + 0.2 * np.eye(d))
        mean = slab * rng.normal(size=d) if k < n_links else np.zeros(d)
        covariance[k][np.ix_(seen, seen)] = V
        estimate[k, seen] = mean + np.linalg.cholesky(V) @ rng.normal(size=d)
    return BlockEstimates.padded(estimate, covariance, partition), real


def densities(blocks, real, tau):
    """Log-density of each block's estimate if it is empty, and if it comes from the slab."""
    empty, full = [], []
    for k, seen in enumerate(real):
        b, V = blocks.estimate[k, seen], blocks.covariance[k][np.ix_(seen, seen)]
        empty.append(stats.multivariate_normal(cov=V).logpdf(b))
        full.append(stats.multivariate_normal(cov=V + tau**2 * np.eye(len(b))).logpdf(b))
    return np.array(empty), np.array(full)


@pytest.mark.parametrize("n_links", [0, 3, 12])
def test_means_and_probabilities_are_those_of_bayes_formula(n_links):
    blocks, real = blocks_of(0, n_links)
    result = shrink(blocks)
    empty, full = densities(blocks, real, result.slab)
    odds = result.share / (1 - result.share) * np.exp(full - empty)
    # Padding costs digits: the axes of a covariance with elements of 1e-4 are found beside a variance of 1e8.
    np.testing.assert_allclose(result.inclusion, odds / (1 + odds), rtol=1e8 / 1e-4 * EPS)
    for k, seen in enumerate(real):
        b, V = blocks.estimate[k, seen], blocks.covariance[k][np.ix_(seen, seen)]
        given_link = result.slab**2 * np.linalg.solve(V + result.slab**2 * np.eye(len(b)), b)
        expected = result.inclusion[k] * given_link
        np.testing.assert_allclose(result.posterior_mean[k, seen], expected, rtol=1e8 / 1e-4 * EPS, atol=1e-9)
        np.testing.assert_allclose(result.posterior_mean[k, ~seen], 0, atol=EPS)


def test_a_single_element_by_integration():
    blocks, _ = blocks_of(3, 1, sizes=(1, 1))
    result = shrink(blocks)
    b, V = blocks.estimate[0, 0], blocks.covariance[0, 0, 0]

    def posterior(a):
        return stats.norm.pdf(b, a, np.sqrt(V)) * stats.norm.pdf(a, 0, result.slab)

    width = 12 * result.slab
    weight, moment = (
        integrate.quad(f, -width, width, points=[b], epsabs=1e-14)[0] for f in (posterior, lambda a: a * posterior(a))
    )
    empty = (1 - result.share) * stats.norm.pdf(b, 0, np.sqrt(V))
    expected = result.share * moment / (result.share * weight + empty)
    assert result.posterior_mean[0, 0] == pytest.approx(expected, rel=1e-8)


@pytest.mark.medium
@pytest.mark.parametrize("n_links", [3, 8])
def test_share_and_slab_maximise_the_marginal_likelihood(n_links):
    """With ten more pairs known to be empty."""
    blocks, real = blocks_of(1, n_links)
    result = shrink(blocks)
    assert result.slab > _MIN_SLAB

    def minus_log_marginal(parameters):
        share, tau = 1 / (1 + np.exp(-parameters[0])), np.exp(parameters[1])
        empty, full = densities(blocks, real, tau)
        marginal = np.logaddexp(np.log(share) + full, np.log1p(-share) + empty).sum()
        return -(marginal + _EXTRA_EMPTY_PAIRS * np.log1p(-share))

    start = [np.log(result.share / (1 - result.share)), np.log(result.slab)]
    best = minimize(minus_log_marginal, [-1.0, -2.0], method="Nelder-Mead", options={"xatol": 1e-7})
    assert minus_log_marginal(start) <= best.fun + 1e-6
    np.testing.assert_allclose(start, best.x, rtol=0, atol=1e-3)


def test_the_slab_never_falls_below_its_floor():
    blocks, _ = blocks_of(2, 0)
    result = shrink(blocks)
    assert result.slab == pytest.approx(0.03)  # in states of unit variance
    assert result.share < 0.2
    assert np.linalg.norm(result.posterior_mean) < 0.5 * np.linalg.norm(blocks.estimate)


def test_strong_links_keep_their_value_and_empty_ones_lose_it():
    blocks, real = blocks_of(0, 4, slab=1.0)
    mean = shrink(blocks).posterior_mean
    kept = np.linalg.norm(mean, axis=1) / np.linalg.norm(np.where(real, blocks.estimate, 0), axis=1)
    assert (kept[:4] > 0.95).all()
    assert (kept[4:] < 0.5).all()


# --- the transition matrix --------------------------------------------------------------------------


def at_the_truth(links, linked, n_samples=2000, **options):
    coupled = coupled_plant(7, (2, 1, 2), links=links, **options)
    objective, point = endless(coupled, n_samples)
    structure = structure_of(coupled.partition, linked=linked)
    return objective, Scoring(objective, structure, point)


def test_without_links_nothing_is_left_off_the_diagonal():
    objective, scoring = at_the_truth([(1, 0)], [])
    A = shrunk_transition(objective, scoring, {"state": link_estimates(scoring)})
    partition = scoring.structure.partition
    np.testing.assert_array_equal(A, np.where(partition.block_diagonal, scoring.point.A, 0))


def test_blocks_in_the_model_get_their_joint_posterior_mean():
    """Of Gaussian estimates with their precision matrix, each block's prior included by its probability."""
    links = [(1, 0), (2, 1)]
    _, scoring = at_the_truth(links, links)
    blocks = link_estimates(scoring)
    prior = shrink(blocks)
    partition = scoring.structure.partition
    families = {"state": (partition, scoring.structure.linked)}
    result = _joint_posterior(scoring, families, {"state": blocks}, {"state": prior})
    x, P = scoring.vector, np.linalg.inv(scoring.covariance)
    added = np.zeros_like(P)
    for pair in np.flatnonzero(scoring.structure.linked):
        elements = partition.pair_elements[pair]
        seen = elements < partition.n_states**2
        where = scoring.structure.free.positions(scoring.point.A.shape)[0][elements[seen]]
        V = blocks.covariance[pair][np.ix_(seen, seen)]
        # alone, the block's posterior mean has to be that of the two-group prior
        own = np.linalg.inv(V)
        wanted = prior.posterior_mean[pair, seen]
        b = blocks.estimate[pair, seen]
        extra = np.linalg.inv(V) * (1 / prior.inclusion[pair] - 1)
        extra = extra + np.eye(len(where)) / (prior.inclusion[pair] * prior.slab**2)
        np.testing.assert_allclose(np.linalg.solve(own + extra, own @ b), wanted, rtol=1e-6)
        added[np.ix_(where, where)] = extra
    expected = np.linalg.solve(P + added, P @ x)
    np.testing.assert_allclose(result, expected, rtol=1e-7, atol=1e-9)


def test_blocks_outside_the_model_get_their_own_posterior_mean():
    coupled = coupled_plant(7, (2, 1, 2), links=[(1, 0), (2, 1)], strength=0.1)
    objective, _ = endless(coupled, 2000)
    structure = structure_of(coupled.partition, linked=[(1, 0)])
    A = np.where(structure.transition_mask, coupled.plant.A, 0)
    scoring = Scoring(objective, structure, Point.at(objective, A, coupled.plant.Q))
    blocks = link_estimates(scoring)
    A = shrunk_transition(objective, scoring, {"state": blocks})
    prior, partition = shrink(blocks), scoring.structure.partition
    flat = np.append(A.ravel(), 0)
    outside = ~scoring.structure.linked
    actual = flat[partition.pair_elements[outside]]
    np.testing.assert_allclose(actual, prior.posterior_mean[outside], rtol=0, atol=1e-12)
    assert np.linalg.norm(actual) > 0


def test_with_much_data_links_are_not_shrunk():
    links = [(1, 0), (2, 1)]
    relative = []
    for n_samples in (10**3, 10**5, 10**7):
        objective, scoring = at_the_truth(links, links, n_samples)
        A = shrunk_transition(objective, scoring, {"state": link_estimates(scoring)})
        relative.append(np.linalg.norm(A - scoring.point.A) / np.linalg.norm(scoring.point.A))
    assert relative[0] > relative[1] > relative[2]
    assert relative[2] < 1e-4


def test_the_shrunk_plant_is_stable():
    links = [(1, 0), (0, 1), (2, 1)]
    objective, scoring = at_the_truth(links, links, 60, strength=0.2, radius=0.9)
    A = shrunk_transition(objective, scoring, {"state": link_estimates(scoring)})
    assert is_valid(A, scoring.point.Q)
    value = objective.evaluate(A, scoring.point.Q).value
    allowed = max(scoring.structure.free.n_transition, 10)
    assert 60 * (scoring.point.evaluation.value - value) <= allowed


@pytest.mark.parametrize("n_halvings", [0, 2])
def test_a_shrunk_plant_is_half_as_far_away_until_its_likelihood_is_nearly_the_largest(n_halvings):
    objective, scoring = at_the_truth([(1, 0), (2, 1)], [(1, 0), (2, 1)], strength=0.1)
    blocks = {"state": link_estimates(scoring)}
    whole = shrunk_transition(objective, scoring, blocks) - scoring.point.A
    values = [-np.inf] * n_halvings + [scoring.point.evaluation.value]
    judged = SimpleNamespace(n_samples=2000, evaluate=lambda A, Q: SimpleNamespace(value=values.pop(0)))
    found = shrunk_transition(judged, scoring, blocks) - scoring.point.A
    assert np.abs(whole).max() > 1e-3
    np.testing.assert_allclose(found, whole / 2**n_halvings, atol=1e-12)


@pytest.mark.parametrize("more", [-1e-6, 1e-6])
def test_a_shrunk_plant_may_cost_as_much_likelihood_as_it_has_free_coefficients(more):
    _, scoring = at_the_truth([(1, 0), (2, 1)], [(1, 0), (2, 1)], strength=0.1)
    blocks, trials = {"state": link_estimates(scoring)}, []
    allowed = scoring.structure.free.n_transition / 2000
    assert scoring.structure.free.n_transition > 10

    def evaluate(A, Q):
        trials.append(A)
        loss = (1 + more) * allowed if len(trials) == 1 else 0.0
        return SimpleNamespace(value=scoring.point.evaluation.value - loss)

    shrunk_transition(SimpleNamespace(n_samples=2000, evaluate=evaluate), scoring, blocks)
    assert len(trials) == (1 if more < 0 else 2)
