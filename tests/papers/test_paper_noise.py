"""The papers' calibration: reproduced, and measured against what it promises."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.papers import TrainingMechanism
from skfedcausal.papers.client.noise import (
    GradientGuard,
    PaperNoise,
    classical_epsilon,
    classical_noise_multiplier,
    message_noise,
    messages_mu,
    run_mu,
)
from skfedcausal.privacy import NoiseOptions, epsilon_from_mu, event_sensitivity
from skfedcausal.privacy.calibration import normal_noise, on_grid
from skfedcausal.privacy.sensitivity import gradient_sensitivity

from ..privacy._audit import gaussian_mu

F = np.array([[0.9, 0.1], [0.0, 0.8]])
K = np.array([[0.3, 0.1, 0.0], [0.0, 0.2, 0.2]])
THETA = np.array([[0.05, 0.0, 0.02], [0.01, 0.03, 0.0]])


def stated_and_true_epsilon(F, K, theta, radius, epsilon, delta, n_rounds):
    """Total the papers state for a run, and the exact one over rounds and later steps, at `delta` in total.

    `epsilon` is that of each message of each round; `delta` is shared evenly among the ``2 n_rounds``
    messages.
    """
    stds = message_noise(K, theta, radius, epsilon, delta / (2 * n_rounds))
    return 2 * n_rounds * epsilon, epsilon_from_mu(messages_mu(F, K, theta, stds, radius, n_rounds), delta)


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
    assert messages_mu(F, K, THETA, stds, 1.5) == messages_mu(F, K, THETA, stds, 1.5, 1)


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
    scores = [GradientGuard(clip, std, 0.0).noised(np.tile(s * direction, (n, 1)), rng) @ direction for s in (-1, 1)]
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


@pytest.mark.parametrize("size", [1.0, 0.01])
@pytest.mark.parametrize("settled", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_a_run_bounds_every_measurement_of_a_filter_that_settles(seed, settled, size):
    """Measurements of all time steps, filters whose gains are any numbers until they stay what they are."""
    rng = np.random.default_rng(seed)
    gains = [size * rng.normal(size=(2, 3)) for _ in range(settled)]
    sizes = np.linspace(0.2, 0.8, settled)  # the settled filter remembers longest
    transitions = [a * np.linalg.qr(rng.normal(size=(2, 2)))[0] for a in sizes]
    std, n = message_noise(gains[-1], np.zeros((2, 3)), 1.0, 1.0, 1e-5)[0], settled + 3
    worst = 0.0
    for s in range(n):
        columns = []
        for dy in np.eye(3):
            h, parts = gains[min(s, settled - 1)] @ dy, []
            for t in range(s, n + 60):
                parts += [h, h]  # filtered and augmented, the correction is zero
                h = transitions[min(t + 1, settled - 1)] @ h
            columns.append(np.concatenate(parts))
        worst = max(worst, 2 * np.linalg.norm(np.column_stack(columns), 2) / std)
    bound = run_mu(transitions, gains, 1.0, 1e-5)
    assert worst <= bound * (1 + 1e-9)
    assert bound <= worst * np.sqrt(2)


def test_a_run_without_memory_is_twice_its_last_state():
    """No later state knows of a measurement: the two messages of one step are all that tell of it."""
    gain = np.diag([3.0, 0.5])
    mu = run_mu([np.zeros((2, 2))], [gain], 0.7, 1e-5)
    assert_allclose(mu, np.sqrt(2) / classical_noise_multiplier(0.7, 1e-5), rtol=1e-12)


@pytest.mark.parametrize("remembers", [0.0, 0.8])
def test_the_charge_and_the_noise_of_a_unit(remembers):
    mechanism = TrainingMechanism(
        epsilon=0.7,
        delta=1e-5,
        clip_norm=3.0,
        protocol="paper",
        noise=NoiseOptions(scale=[1.0, 2.0], center=[3.0, 4.0]),
    )
    gains = [np.diag([4.0, 1.0]), np.diag([2.0, 0.25])]
    transitions = [np.zeros((2, 2)), remembers * np.eye(2)]
    noise = PaperNoise.calibrated(mechanism, "mill", np.zeros((5, 2)), transitions, gains)
    assert noise.reach == 5.0 + 2.0 * 3.0  # centre and radius, in the units of the largest scale
    assert_allclose(noise.largest_state, 4.0 * noise.reach / (1 - remembers))
    theta = np.diag([0.0, 0.5])
    multiplier = classical_noise_multiplier(0.7, 1e-5)
    assert_allclose(noise.stds(theta), np.array([2.0, 3.0]) * 2 * 3.0 * multiplier)
    charge = noise.charge("mill", 4)
    assert_allclose((charge.sensitivity, charge.noise_std), np.array([1, multiplier]) * 12.0)
    assert (charge.count, charge.client, charge.bound) == (4, "mill", "theta taken for public")
    scaled = [K * np.array([1.0, 2.0]) for K in gains]
    assert_allclose(charge.mu, run_mu(transitions, scaled, 0.7, 1e-5))
    assert noise.key != PaperNoise.calibrated(mechanism, "mill", np.zeros((5, 2)), transitions, gains).key
    seeded = mechanism.set_params(random_state=0)
    keys = [PaperNoise.calibrated(seeded, n, np.zeros((5, 2)), transitions, gains).key for n in ("a", "a", "b")]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("std", [0.00195, 0.99, 1.0 - 1e-7, 1.5])
def test_noise_of_gradients_pays_for_the_grid(std):
    """Neighbouring gradients, clipped and rounded, are as far apart as is paid for and no further."""
    clip, steps, rounds, units, width = 0.5, 3, 2, 2, 4
    mu = gradient_sensitivity(clip, steps, rounds, units) / std
    guard = GradientGuard.calibrated(clip, mu, steps, rounds, units, width)
    grid = 2.0 ** (np.floor(np.log2(guard.std)) - 20)
    assert_allclose(guard.std, std * (1 + np.sqrt(width) * grid / 2 / clip), rtol=1e-12)
    ends = np.tile(clip * np.array([0.5, 0.5, 0.5, 0.5]), (steps * rounds * units, 1))
    apart = np.linalg.norm(on_grid(ends, grid) - on_grid(-ends, grid))
    assert apart <= mu * guard.std
    assert_allclose(apart, mu * guard.std, rtol=1e-5)
    charge = guard.charge("mill")
    assert (charge.mu, charge.noise_std, charge.channel) == (mu, guard.std, "gradients")
    assert_allclose(charge.sensitivity, mu * guard.std)


def test_gradients_are_clipped_one_by_one_and_small_ones_stay():
    rng = np.random.default_rng(0)
    gradients = np.array([[3.0, 4.0], [0.03, 0.04], [0.0, 0.0]])
    noised = GradientGuard(0.5, 1e-9, 0.0).noised(gradients, rng)
    assert_allclose(noised, [[0.3, 0.4], [0.03, 0.04], [0.0, 0.0]], atol=1e-8)
    assert_allclose(GradientGuard(0.5, 3.0, 0.0).noised(np.zeros((40_000, 2)), rng).std(), 3.0, rtol=0.02)
    noised = GradientGuard(9.0, 3.0, 0.0).noised(gradients, np.random.default_rng(1))
    assert_allclose(noised, gradients + normal_noise((3, 2), 3.0, np.random.default_rng(1)), atol=1e-5)


def test_the_stated_total_shares_delta_among_all_messages():
    stated, true = stated_and_true_epsilon(F, K, THETA, 1.0, 2.0, 1e-5, 3)
    assert stated == 12.0
    stds = [2 * np.sqrt(2 * np.log(1.25 / (1e-5 / 6))) / 2.0 * size for size in (
        np.linalg.norm(K, 2), np.linalg.norm(K, 2) + np.linalg.norm(THETA, 2)
    )]  # fmt: skip
    assert_allclose(true, epsilon_from_mu(messages_mu(F, K, THETA, stds, 1.0, 3), 1e-5))
    assert_allclose(classical_epsilon(2.0, 1e-5), np.sqrt(2 * np.log(1.25e5)) / 2)
