"""Runs of models of lags against sums written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.server.responses.runs import radius_of, run, settled


@pytest.fixture(scope="module")
def models():
    """Two models of two lags, three states and two inputs."""
    rng = np.random.default_rng(0)
    return 0.2 * rng.standard_normal((2, 6, 3)), rng.standard_normal((2, 6, 3))


def test_runs_are_what_the_recursion_says(models):
    A, C = models
    rng = np.random.default_rng(1)
    moves, history, level = rng.standard_normal((9, 4, 2)), rng.standard_normal((2, 4, 3)), np.array([0.1, 0.0, -0.2])
    found = run(A, C, moves, history, level)
    for m in range(2):
        for s in range(4):
            states = [history[0, s], history[1, s]]
            for t in range(2, 9):
                past = np.concatenate([states[-1], states[-2]])
                inputs = np.concatenate([moves[t, s], moves[t - 1, s], moves[t - 2, s]])
                states.append(level + past @ A[m] + inputs @ C[m])
            assert_allclose(found[m, :, s], states[2:])


def test_effects_add_up_and_nothing_does_nothing(models):
    rng = np.random.default_rng(2)
    one, other = rng.standard_normal((2, 30, 1, 2))
    assert_allclose(run(*models, one) + run(*models, other), run(*models, one + other), atol=1e-12)
    assert not run(*models, np.zeros((30, 1, 2))).any()


@pytest.mark.parametrize("n", [2, 90])
def test_models_are_made_to_settle(n):
    A = np.vstack([1.2 * np.eye(n), np.zeros((n, n))])
    assert radius_of(A.reshape(2, n, n)) == pytest.approx(1.2, rel=0.01)
    calm = settled(A)
    after = run(calm[None], np.zeros((1, 3 * n, n)), np.zeros((2002, 1, n)), np.ones((2, 1, n)))[0, :, 0]
    assert np.abs(after[-1]).max() < np.abs(after[0]).max()
    assert_allclose(settled(0.5 * A), 0.5 * A)
