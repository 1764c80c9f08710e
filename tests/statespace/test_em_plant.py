"""Expectation maximisation of a plant on complete data."""

import numpy as np
import pytest

from skfedcausal.statespace.em import block_statistics, expectation_maximisation
from skfedcausal.statespace.kalman import (
    covariance_schedule,
    filtered_states,
    log_likelihood_terms,
    predicted_states,
)

n, T = 4, 4000


@pytest.fixture(scope="module")
def record():
    """Plant, noise and centred scores of one long record."""
    rng = np.random.default_rng(1)
    A = rng.standard_normal((n, n))
    A *= 0.85 / np.abs(np.linalg.eigvals(A)).max()
    root = rng.standard_normal((n, n))
    N = 0.3 * (root @ root.T / n + 0.2 * np.eye(n))
    h, s = np.zeros(n), np.empty((T, n))
    noise = np.linalg.cholesky(N)
    for t in range(-200, T):
        h = A @ h + 0.5 * rng.standard_normal(n)
        if t >= 0:
            s[t] = h + noise @ rng.standard_normal(n)
    return A, N, s - s.mean(axis=0)


def log_likelihood(A, Q, N, s):
    J = np.linalg.inv(N)
    schedule = covariance_schedule(A, Q, J)
    z = s @ J
    predicted = predicted_states(A, filtered_states(schedule, z))
    return log_likelihood_terms(schedule, z, 0.0, predicted).sum()


def test_every_step_climbs_and_the_climb_ends_at_the_maximum(record):
    """Dempster, Laird & Rubin (1977), theorem 1; the ends of the record, treated as settled, cost less than
    a hundredth of a unit of log-likelihood."""
    _, N, s = record
    A, Q = 0.5 * np.eye(n), np.cov(s.T)
    values = [log_likelihood(A, Q, N, s)]
    for _ in range(60):
        A, Q = expectation_maximisation(s, N, A, Q, n_steps=1)
        values.append(log_likelihood(A, Q, N, s))
    assert np.diff(values).min() > -1e-2
    rng = np.random.default_rng(0)
    for _ in range(5):  # no direction leads up by more than what is left of the climb
        step = 0.01 * rng.standard_normal((n, n))
        up, down = (log_likelihood(A + sign * step, Q, N, s) for sign in (1, -1))
        assert max(up, down) < values[-1] + 0.2


def test_estimate_is_within_sampling_error_of_the_truth(record):
    """Standard errors are at least those of a regression on the states: half the noise over their spread."""
    A, N, s = record
    estimate, Q = expectation_maximisation(s, N, 0.5 * np.eye(n), np.cov(s.T), n_steps=60)
    J = np.linalg.inv(N)
    schedule = covariance_schedule(A, 0.25 * np.eye(n), J)
    filtered = filtered_states(schedule, s @ J)
    innovations = schedule.predicted[-1] + N
    spread = np.linalg.inv(filtered.T @ filtered)
    error = np.sqrt(np.outer(np.diag(innovations), np.diag(spread)))
    assert (np.abs(estimate - A) < 5 * error).all()
    assert np.abs(Q - 0.25 * np.eye(n)).max() < 0.1


def test_episodes_are_not_joined(record):
    """The same record twice gives the estimate of one; joined end to start it would not."""
    _, N, s = record
    short = s[:300]
    once = expectation_maximisation(short, N, 0.5 * np.eye(n), np.cov(short.T), n_steps=5)
    twice = expectation_maximisation(
        np.concatenate([short, short]), N, 0.5 * np.eye(n), np.cov(short.T), starts=(0, 300), n_steps=5
    )
    np.testing.assert_allclose(twice[0], once[0], rtol=1e-10)
    np.testing.assert_allclose(twice[1], once[1], rtol=1e-10)


BLOCKS = (slice(0, 2), slice(2, 4))


def _chain_records(seed, gain, n_samples, n_records):
    """Scores of two units of two states, the second driven by the first, (n_records, n_samples, n)."""
    rng = np.random.default_rng(seed)
    A = np.diag([0.8, 0.5, 0.7, 0.6])
    A[2:, :2] = gain * np.eye(2)
    h, s = np.zeros((n_records, n)), np.empty((n_samples, n_records, n))
    for t in range(-100, n_samples):
        h = h @ A.T + 0.5 * rng.standard_normal(h.shape)
        s[max(t, 0)] = h + 0.4 * rng.standard_normal(h.shape)
    return A, 0.16 * np.eye(n), (s - s.mean(axis=0)).swapaxes(0, 1)


def test_elements_outside_the_support_are_zero_and_the_others_maximise():
    A, N, (s,) = _chain_records(2, 0.3, 3000, 1)
    support = A != 0
    start = 0.5 * np.eye(n), np.cov(s.T)
    sparse, Q = expectation_maximisation(s, N, *start, n_steps=80, support=support)
    dense, _ = expectation_maximisation(s, N, *start, n_steps=80)
    assert (sparse[~support] == 0).all()
    assert np.abs(sparse - A).mean() < np.abs(dense - A).mean()
    best = log_likelihood(sparse, Q, N, s)
    for i, j in zip(*np.nonzero(support), strict=True):  # Q is nearly diagonal: rows are apart
        for step in (-0.02, 0.02):
            moved = sparse.copy()
            moved[i, j] += step
            assert log_likelihood(moved, Q, N, s) < best + 0.2


@pytest.mark.medium
def test_statistics_of_absent_links_are_chi_square_or_a_little_less():
    """Means over 60 records: 4 degrees of freedom, standard deviation of the mean sqrt(8 / 60) = 0.37."""
    absent, present = [], []
    A, N, records = _chain_records(0, 0.2, 800, 60)
    for s in records:
        fitted = expectation_maximisation(s, N, A, 0.25 * np.eye(n), n_steps=10)
        statistics = block_statistics(s, N, *fitted, BLOCKS)
        absent.append(statistics[0, 1])
        present.append(statistics[1, 0])
    assert 0.5 * 4 < np.mean(absent) < 4 + 3 * 0.37
    assert np.median(present) > 5 * 4
