"""Noise and epsilon exactly: against direct integration, another library and the known failures."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skfedcausal.privacy import (
    epsilon_from_mu,
    epsilon_of,
    gaussian_noise_multiplier,
    mu_from_epsilon,
    randomized_response_composition,
)
from skfedcausal.privacy.calibration import composed_epsilon, gaussian_log_delta, response_losses

EPSILONS = (1e-3, 0.1, 1.0, 3.0, 8.0, 20.0, 50.0, 300.0)
DELTAS = (1e-3, 1e-5, 1e-8, 1e-30)
RELEASES = (1, 2, 400, 2_000_000)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_noise_and_epsilon_invert_each_other(epsilon, delta):
    mu = mu_from_epsilon(epsilon, delta)
    assert_allclose(gaussian_log_delta(epsilon, mu), np.log(delta), rtol=0, atol=1e-9)
    assert_allclose(epsilon_from_mu(mu, delta), epsilon, rtol=1e-9)


@pytest.mark.medium
@pytest.mark.parametrize("mu", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("epsilon", [-1.0, 0.0, 0.5, 3.0])
def test_delta_is_the_mass_by_which_one_density_exceeds_the_other(mu, epsilon):
    x, step = np.linspace(-20, 25, 2_000_001, retstep=True)
    excess = stats.norm.pdf(x - mu) - np.exp(epsilon) * stats.norm.pdf(x)
    expected = np.maximum(excess, 0).sum() * step
    assert_allclose(np.exp(gaussian_log_delta(epsilon, mu)), expected, rtol=1e-6)


@pytest.mark.parametrize(("epsilon", "delta", "true_delta"), [(20.0, 1e-5, 1.5e-3), (50.0, 1e-5, 0.59)])
def test_the_classical_formula_breaks_its_promise_at_large_epsilon(epsilon, delta, true_delta):
    mu = epsilon / np.sqrt(2 * np.log(1.25 / delta))
    assert_allclose(np.exp(gaussian_log_delta(epsilon, mu)), true_delta, rtol=0.02)
    assert mu > mu_from_epsilon(epsilon, delta)


@pytest.mark.parametrize("n_releases", RELEASES)
@pytest.mark.parametrize("delta", DELTAS)
def test_composition_equals_dp_accounting(n_releases, delta):
    dp_accounting = pytest.importorskip("dp_accounting")
    for epsilon in EPSILONS:
        multiplier = gaussian_noise_multiplier(epsilon, delta, n_releases)
        expected = dp_accounting.get_sigma_gaussian(epsilon, delta)
        assert_allclose(multiplier / np.sqrt(n_releases), expected, rtol=1e-9)
        spent = dp_accounting.get_epsilon_gaussian(multiplier / np.sqrt(n_releases), delta)
        assert_allclose(epsilon_of(multiplier, delta, n_releases), spent, rtol=1e-9)


def test_figures_that_other_accountants_give():
    """Analytic Gaussian of Balle and Wang; noise for a total of one over 1, 2, 400 and 2 million releases."""
    multipliers = [gaussian_noise_multiplier(1.0, 1e-5, k) for k in RELEASES]
    assert gaussian_noise_multiplier(1.0, 1e-5) == multipliers[0]  # one release, if nothing is said
    assert epsilon_of(multipliers[0], 1e-5) == epsilon_of(multipliers[0], 1e-5, 1)
    assert_allclose(multipliers, [3.731, 5.276, 74.6, 5276], rtol=3e-4)


@pytest.mark.parametrize("n_categories", [2, 4])
def test_losses_of_responses_are_those_of_all_outcomes(n_categories):
    epsilon, count = 0.7, 3
    whole = np.exp(epsilon) + n_categories - 1
    p = np.full(n_categories, 1.0) / whole
    p[0] *= np.exp(epsilon)  # answers if the truth is 0, and if it is 1
    q = np.roll(p, 1)
    atoms = {}
    for outcome in np.ndindex(*(n_categories,) * count):
        loss = round(sum(np.log(p[k] / q[k]) for k in outcome) / epsilon)
        atoms[loss] = atoms.get(loss, 0.0) + np.prod(p[list(outcome)])
    losses, weights, lost = response_losses(epsilon, n_categories, count)
    assert lost == 0
    kept = weights > 0
    assert_allclose((losses / epsilon)[kept], sorted(atoms), atol=1e-12)
    assert_allclose(weights[kept], [atoms[k] for k in sorted(atoms)], rtol=1e-12)


@pytest.mark.parametrize(("epsilon", "count", "total"), [(0.1, 100, 4.307), (0.1, 1000, 17.787), (1.0, 10, 10.0)])
def test_responses_cost_less_together_than_one_by_one(epsilon, count, total):
    """The exact totals, 10, 100 and 10 when added up."""
    assert_allclose(randomized_response_composition(epsilon, count, 1e-5), total, rtol=1e-3)


@pytest.mark.parametrize("count", [5, 60])
def test_responses_compose_as_in_dp_accounting(count):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    epsilon, n_categories, delta = 0.4, 4, 1e-6
    noise = n_categories / (np.exp(epsilon) + n_categories - 1)  # their parameter: answer at random with it
    theirs = pld.from_randomized_response(noise, n_categories, value_discretization_interval=1e-4)
    expected = theirs.self_compose(count).get_epsilon_for_delta(delta)  # rounded up to their grid
    ours = randomized_response_composition(epsilon, count, delta, n_categories=n_categories)
    assert expected - count * 1e-4 - 1e-9 <= ours <= expected + 1e-9


def test_gaussian_and_responses_compose_as_in_dp_accounting():
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    epsilon, count, mu, delta, grid = 0.3, 20, 0.5, 1e-6, 1e-4
    noise = 4 / (np.exp(epsilon) + 3)
    responses = pld.from_randomized_response(noise, 4, value_discretization_interval=grid).self_compose(count)
    gaussian = pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=grid)
    expected = responses.compose(gaussian).get_epsilon_for_delta(delta)
    ours = composed_epsilon(mu, [(epsilon, 4, count)], delta)
    assert expected - (count + 1) * grid <= ours <= expected + 1e-6


def test_many_responses_need_no_long_time_and_tails_are_not_forgotten():
    total = randomized_response_composition(0.01, 100_000, 1e-5, n_categories=4)
    _, weights, lost = response_losses(0.01, 4, 100_000)
    # tails are cut after each of 17 doublings, and what is cut is doubled by those that follow
    assert 100_000 * 17 * len(weights) * 1e-60 < lost < 1e-45
    assert len(response_losses(140.0, 1000, 1)[1]) == 2
    assert response_losses(140.0, 1000, 1)[2] > 0  # a single value was cut
    assert len(weights) < 2e5
    assert total < epsilon_from_mu(0.01 * np.sqrt(100_000), 1e-5)  # a response is at most epsilon-GDP
    assert randomized_response_composition(0.01, 100, 0.0) == pytest.approx(1.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-12, 2e-9), (1e-12, 1e-11), (1e-9, 1e-9)])
def test_promises_that_ask_for_very_much_noise_are_kept(epsilon, delta):
    """At no epsilon delta is the total variation of the two normals, mu / sqrt(2 pi) to first order."""
    mu = mu_from_epsilon(epsilon, delta)
    assert_allclose(np.exp(gaussian_log_delta(epsilon, mu)), delta, rtol=1e-5)
    assert delta * np.sqrt(2 * np.pi) <= mu * (1 + 1e-5)


def test_a_delta_that_covers_everything_leaves_no_epsilon():
    assert epsilon_from_mu(0.5, 0.3) == 0.0
    assert randomized_response_composition(0.1, 2, 0.4) == 0.0
    assert composed_epsilon(0.0, (), 1e-6) == 0.0
    assert composed_epsilon(np.inf, (), 0.999) == np.inf


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 1e-5), (-1.0, 1e-5), (1.0, 0.0), (1.0, 1.0)])
def test_promises_that_no_noise_can_keep_are_refused(epsilon, delta):
    with pytest.raises(ValueError, match="must"):
        mu_from_epsilon(epsilon, delta)
