"""The papers' calibration: reproduced, and measured against what it promises."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.privacy import epsilon_from_mu, event_sensitivity
from skfedcausal.privacy.paper import (
    classical_epsilon,
    classical_noise_multiplier,
    message_noise,
    messages_mu,
    noised_gradients,
    stated_and_true_epsilon,
)
from skfedcausal.privacy.sensitivity import gradient_sensitivity

from ._audit import gaussian_mu

F = np.array([[0.9, 0.1], [0.0, 0.8]])
K = np.array([[0.3, 0.1, 0.0], [0.0, 0.2, 0.2]])
THETA = np.array([[0.05, 0.0, 0.02], [0.01, 0.03, 0.0]])


def test_the_classical_formula_and_its_inverse():
    assert_allclose(classical_noise_multiplier(1.0, 1e-5), 4.845, atol=5e-4)
    assert_allclose(classical_epsilon(classical_noise_multiplier(3.0, 1e-6), 1e-6), 3.0)


def test_noise_follows_the_norms_of_the_gains():
    filtered, augmented = message_noise(K, THETA, 2.0, 1.0, 1e-5)
    multiplier = classical_noise_multiplier(1.0, 1e-5)
    assert_allclose(filtered, 4.0 * np.linalg.norm(K, 2) * multiplier)
    assert_allclose(augmented - filtered, 4.0 * np.linalg.norm(THETA, 2) * multiplier)


@pytest.mark.parametrize("n_rounds", [1, 7])
def test_exact_total_equals_brute_force(n_rounds):
    stds, columns = (0.7, 1.9), []
    for dy in np.eye(3):
        h, parts = K @ dy, []
        for step in range(400):
            parts += [h / stds[0], (h + (THETA @ dy if step == 0 else 0)) / stds[1]]
            h = F @ h
        columns.append(np.concatenate(parts * n_rounds))
    exact = 2 * 1.5 * np.linalg.norm(np.column_stack(columns), 2)
    assert_allclose(messages_mu(F, K, THETA, stds, 1.5, n_rounds), exact, rtol=1e-9)


def test_one_release_noised_as_the_papers_say_gives_away_more_than_they_say():
    """Of a filter that remembers: the promise of each step is not the promise of the run."""
    slow = np.array([[0.997, 0.0], [0.0, 0.5]])
    std, _ = message_noise(K, THETA, 1.0, 0.5, 1e-5)
    true = epsilon_from_mu(event_sensitivity(slow, K, 2.0) / std, 1e-5)
    assert true > 3 * 0.5


def test_adding_up_rounds_states_much_more_than_is_given_away():
    stated, true = stated_and_true_epsilon(F, K, THETA, 1.0, 2.0, 1e-5, 200)
    assert stated == 800
    assert true < stated / 4


@pytest.mark.parametrize("halved", [False, True])
def test_no_attack_on_noised_gradients_learns_more_than_promised(halved):
    rng, mu, clip, n = np.random.default_rng(0), 1.0, 0.2, 10_000
    std = gradient_sensitivity(clip, 1, 1, 1) / mu / (1 + halved)
    direction = np.array([3.0, 4.0])  # longer than the clip
    scores = [noised_gradients(np.tile(s * direction, (n, 1)), clip, std, rng) @ direction for s in (-1, 1)]
    assert (gaussian_mu(*scores) > mu) == halved


def test_any_change_of_all_gradients_stays_within_their_sensitivity():
    rng = np.random.default_rng(0)
    T, R, M, clip = 30, 2, 3, 0.5
    one, other = rng.normal(size=(2, R, M, T, 4)) * 10

    def clipped(G):
        return G * np.minimum(1, clip / np.linalg.norm(G, axis=-1, keepdims=True))

    bound = gradient_sensitivity(clip, T, R, M)
    assert np.linalg.norm(clipped(one) - clipped(other)) <= bound
    assert_allclose(np.linalg.norm(clipped(one) - clipped(-one)), bound)
