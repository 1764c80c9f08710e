"""Units that report in every k-th row: which lags they show, and where their model starts."""

import numpy as np
import pytest

from skfedcausal.statespace.whittle import lag_shares, slow_start

TURN, RADIUS, T = 0.5, 0.85, 30000


def test_shares_of_products_are_counted():
    rng = np.random.default_rng(0)
    present = (rng.random((50, 3)) < 0.6).astype(float)
    shares = lag_shares(present, 4)
    for lag in range(5):
        for m in range(3):
            for n in range(3):
                there = [present[t + lag, m] * present[t, n] for t in range(50 - lag)]
                assert shares[lag, m, n] == pytest.approx(np.mean(there))


def test_lags_longer_than_the_record_are_not_missing():
    np.testing.assert_array_equal(lag_shares(np.zeros((3, 2)), 5)[3:], 1.0)


@pytest.mark.parametrize("period", [2, 3])
@pytest.mark.parametrize("n_episodes", [1, 2])
def test_start_is_the_root_of_the_model_at_the_rate_of_the_reports(period, n_episodes):
    rng = np.random.default_rng(period)
    A = RADIUS * np.array([[np.cos(TURN), -np.sin(TURN)], [np.sin(TURN), np.cos(TURN)]])
    h = np.zeros((T, 2))
    for t in range(1, T):
        h[t] = A @ h[t - 1] + rng.normal(size=2)
    N = 0.5 * np.eye(2)
    present = np.zeros(T)
    starts = [0, 10001][:n_episodes]
    for number, start in enumerate(starts):
        stop = [*starts, T][number + 1]
        present[start + 1 + number : stop : period] = 1.0
    scores = (h + rng.normal(size=h.shape) * np.sqrt(0.5)) * present[:, None]
    found, Q = slow_start(scores, present, N, starts, period, 12)
    # a turning block's modulus and angle have errors of about sqrt((1 - radius^2) / reports), per period
    error = 5 * np.sqrt((1 - RADIUS ** (2 * period)) * period / T)
    np.testing.assert_allclose(found, A, atol=error)
    np.testing.assert_allclose(Q, np.eye(2), atol=10 * error)
