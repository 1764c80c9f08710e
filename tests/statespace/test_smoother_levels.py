"""Levels of several episodes share what their rows have in common: each is that of the episode alone."""

import numpy as np
import pytest

from skfedcausal.statespace.timedomain import smooth


@pytest.mark.parametrize("decay", [0.5, 0.97])
def test_episodes_together_are_episodes_alone(decay):
    rng = np.random.default_rng(0)
    A = np.array([[decay, 0.1], [0.0, 0.6]])
    Q, J = np.array([[1.0, 0.2], [0.2, 0.5]]), np.array([[0.3, 0.1], [0.1, 2.0]])
    lengths = (1, 2, 7, 400, 55)
    starts, z = tuple(np.cumsum((0, *lengths[:-1]))), rng.standard_normal((sum(lengths), 2))
    _, together = smooth(A, Q, z, None, J=J, starts=starts, keep=[slice(0, 2)])
    alone = [smooth(A, Q, z[a : a + k], None, J=J, keep=[slice(0, 2)])[1] for a, k in zip(starts, lengths, strict=True)]
    assert together.value == pytest.approx(sum(one.value for one in alone), rel=1e-12)
    np.testing.assert_allclose(together.levels, [one.levels[0] for one in alone], atol=1e-10)
    np.testing.assert_allclose(together.states, np.concatenate([one.states for one in alone]), atol=1e-10)
    for name in ("grad_A", "grad_Q", "grad_P0"):
        np.testing.assert_allclose(getattr(together, name), sum(getattr(one, name) for one in alone), atol=1e-9)
