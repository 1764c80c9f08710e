"""The third paper's propositions: what holds, and plants on which the printed bounds do not."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

from skfedcausal.privacy import gaussian_noise_multiplier
from skfedcausal.theory.root_cause_bounds import (
    central_gap,
    gradient_noise,
    learned_interdependency,
    local_convergence,
    server_convergence,
    several_roots,
    state_noise,
    structural_difference,
)

SCALE = 1e-3  # of the sensors: the printed term L_h C_x all but vanishes, nothing else changes


def test_the_chance_of_two_faults_in_a_window_vanishes_but_faults_that_last_meet():
    """Proposition 5.2 against simulated arrivals."""
    rates, length = np.array([0.01, 0.02]), 10.0
    told = [several_roots(rates, step, length) for step in (1.0, 0.1, 0.01)]
    assert all(one["probability"] <= one["bound"] for one in told)
    assert told[2]["probability"] < 1e-3 * told[0]["probability"]
    rng, horizon = np.random.default_rng(0), 400_000.0
    starts = [np.sort(rng.uniform(0, horizon, rng.poisson(rate * horizon))) for rate in rates]
    windows = [np.bincount((s / 1.0).astype(int), minlength=int(horizon)) for s in starts]
    share = (sum(windows) > 1).mean()
    assert abs(share - told[0]["probability"]) < 5 * np.sqrt(told[0]["probability"] / horizon)
    met = [np.searchsorted(b, a + length) > np.searchsorted(b, a - length) for a, b in (starts, starts[::-1])]
    met = np.concatenate(met).mean()
    assert abs(met - told[0]["overlap"]) < 0.02
    assert told[2]["overlap"] == told[0]["overlap"] > 0.2


def test_a_perfect_correction_need_not_be_the_sum_of_states():
    """Lemma 6.5 holds as an inequality; its epsilon* is large where nothing is left to learn."""
    x = np.random.default_rng(0).standard_normal((1000, 1))
    influence = 0.25 * x / 0.5  # makes A_22 (h + phi) = A_22 h + A_21 x exact for A_22 = 0.5, A_21 = 0.25
    told = learned_interdependency(influence, influence, x, 1.0, 0.0)
    assert told["distance"] <= told["bound"]
    assert told["irreducible"] == pytest.approx(0.5 * np.abs(x).mean())
    off = learned_interdependency(influence + 0.1, influence, x, 1.0, 0.1)
    assert off["distance"] <= off["bound"]


def steady_gain(A, C, Q, R):
    P = solve_discrete_are(A.T, C.T, Q, R)
    return P @ C.T @ np.linalg.inv(C @ P @ C.T + R)


def filtered(A, C, K, Y):
    """Filtered states and one-step predictions."""
    h, out = np.zeros(len(A)), []
    for y in Y:
        predicted = A @ h
        h = predicted + K @ (y - C @ predicted)
        out.append((h, predicted))
    return np.array(out).transpose(1, 0, 2)


def plant(A, process, sensor, n_samples=20_000):
    """Measurements of single-state units, one sensor each, and both kinds of filters."""
    n, rng = len(A), np.random.default_rng(0)
    C, Q, R = SCALE * np.eye(n), np.diag(process), SCALE**2 * np.diag(sensor)
    x, Y = np.zeros(n), np.empty((n_samples, n))
    for t in range(n_samples):
        x = A @ x + np.sqrt(process) * rng.standard_normal(n)
        Y[t] = C @ x + SCALE * np.sqrt(sensor) * rng.standard_normal(n)
    central = steady_gain(A, C, Q, R)
    gains, own = [], []
    for m in range(n):
        at = np.ix_([m], [m])
        gains.append(steady_gain(A[at], C[at], Q[at], R[at]))
        own.append(filtered(A[at], C[at], gains[-1], Y[:, [m]])[0][:, 0])
    states, predicted = filtered(A, C, central, Y)
    return Y, np.array(gains), np.array(own).T, central, states, predicted


def gap_of(m, A, gains, central, states, predicted, Y):
    """What the theorems need of unit m."""
    at = slice(m, m + 1)
    return central_gap(
        gains[m],
        central,
        rows=at,
        columns=at,
        f=abs(A[m, m]),
        h=SCALE,
        states=np.abs(states).mean(axis=0).max(),
        residual=np.abs(Y - SCALE * predicted).max(axis=0),
        n_units=len(A),
    )


@pytest.mark.medium
def test_theorem_6_10_does_not_hold_as_printed():
    """A correction that equals the other unit's state, as Lemma 6.5 wants it, on a negative influence."""
    A = np.array([[0.99, 0.0], [-1.0, 0.1]])
    Y, gains, own, central, states, predicted = plant(A, np.array([0.01, 1e-4]), np.array([1e-3, 1e-3]))
    told = gap_of(1, A, gains, central, states, predicted, Y)
    phi = -Y[:, 1] / SCALE
    augmented = A[1, 1] * (own[:, 1] + phi)
    distance = np.abs(augmented[:-1] - predicted[1:, 1]).mean()
    irreducible = np.abs(phi - states[:, 0]).mean()
    structural = structural_difference(A[1, 1] * states[:, 1:], states @ A[1:].T)
    assert told["condition"] < 1
    assert distance > 1.1 * local_convergence(told["printed"], A[1, 1], irreducible, structural)
    assert np.abs(own - states)[:, 1].mean() <= told["repaired"] * structural + told["offset"]


@pytest.mark.medium
def test_theorem_6_13_does_not_hold_as_printed():
    """A server that is exact (sigma* = 0 in the proof's sense) over a unit whose sensors tell little."""
    A = np.array([[0.99, 0.0, 0.0], [1.0, 0.01, 0.0], [0.0, 1.0, 0.01]])
    noise = np.array([1e-3, 1e6, 1e-3])
    Y, gains, own, central, states, predicted = plant(A, np.array([0.01, 1e-4, 1e-4]), noise)
    told = [gap_of(m, A, gains, central, states, predicted, Y) for m in range(3)]
    rho = told[1]["printed"]
    assert told[1]["condition"] < 1
    distance = np.linalg.norm((own - states) @ A.T, axis=1).mean()
    bound = server_convergence(rho, np.linalg.norm(A, 2), 3, 0.0)
    assert distance > 1.1 * bound
    structural = structural_difference(A[1, 1] * states[:, [1]], states @ A[1:2].T)
    assert np.abs(own - states)[:, 1].mean() <= told[1]["repaired"] * structural + told[1]["offset"]


def test_the_noise_of_theorem_7_1_can_be_none():
    """A unit that nobody influences has the central filter's own gain, and sends its states as they are."""
    sizes = {"f": 0.9, "h": 1.0, "phi": 1.0, "states": 2.0, "residual": 3.0, "measurements": 4.0}
    told = state_noise((1.0, 1.0), (1e-5, 1e-5), gain_change=0.0, **sizes)
    assert told["filtered"] == 0
    expected = 2 * (0.9 * 2.0 + 1.0 * 4.0) * np.sqrt(2 * np.log(1.25e5))
    assert told["augmented"] == pytest.approx(expected)
    assert state_noise((1.0, 1.0), (1e-5, 1e-5), gain_change=0.1, **sizes)["filtered"] > 0


@pytest.mark.parametrize(("epsilon", "enough"), [(0.5, True), (1.0, True), (20.0, False)])
def test_the_noise_of_theorem_7_2_is_enough_for_one_release_of_a_small_epsilon(epsilon, enough):
    delta, clip = 1e-5, 3.0
    exact = 2 * clip * gaussian_noise_multiplier(epsilon, delta)
    assert (gradient_noise(epsilon, delta, clip) >= exact) == enough
