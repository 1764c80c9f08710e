"""What the links say where a series that nobody measures drives two units."""

import numpy as np
import pytest
from scipy.signal import lfilter

from skfedcausal import FederatedGrangerEstimator, KalmanClient

pytestmark = pytest.mark.medium

A = np.array([[0.7, 0.1], [-0.1, 0.7]])


def answers(seed, memory, delay, gain=0.6, n_samples=2000, verdict="influence"):
    """Pairs with a verdict and pairs whose process noise is correlated; c is not driven."""
    rng = np.random.default_rng(seed)
    z = lfilter([np.sqrt(1 - memory**2)], [1.0, -memory], rng.normal(size=(n_samples, 2)), axis=0)
    X = {}
    for name, late in (("a", 0), ("b", delay), ("c", None)):
        push = rng.normal(size=(n_samples, 2))
        if late is not None:
            push[late:] += gain * z[: n_samples - late]
        h = np.zeros((n_samples, 2))
        for t in range(1, n_samples):
            h[t] = A @ h[t - 1] + push[t]
        X[name] = h @ rng.normal(size=(2, 8)) + rng.normal(size=(n_samples, 8))
    est = FederatedGrangerEstimator([KalmanClient(n_states=2) for _ in X]).fit(X)
    links, common = est.server_.likelihood_links_.query("verdict == @verdict"), est.server_.correlations_
    pairs = zip(links["cause"], links["effect"], strict=True)
    return set(pairs), set(zip(common["first"], common["second"], strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_a_white_driver_of_one_row_is_common_noise_and_no_link(seed):
    links, common = answers(seed, memory=0.0, delay=0)
    assert links == set()
    assert common == {("a", "b")}


@pytest.mark.parametrize("seed", range(3))
def test_a_driver_with_a_memory_shows_as_one_and_as_common_noise_of_the_driven_only(seed):
    driven, common = answers(seed, memory=0.7, delay=0, verdict="shared driver")
    assert driven == {("a", "b"), ("b", "a")}
    assert ("a", "b") in common  # one in twenty of what the false discovery rate lets in may be another


@pytest.mark.parametrize("seed", range(3))
def test_a_white_driver_that_reaches_one_unit_later_cannot_be_told_from_a_link(seed):
    links, common = answers(seed, memory=0.0, delay=1)
    assert links == {("a", "b")}
    assert common == set()
