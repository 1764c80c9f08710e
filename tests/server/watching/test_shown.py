"""Off-subspace numbers over what the states let expect."""

import numpy as np
import pytest

from skfedcausal.server.watching.shown import ShownOutside


def records(shift=0.0, n_samples=4000, seed=0):
    """States of two units and off-subspace numbers that show one of them a little; the second sends none."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_samples, 4)) @ np.array(
        [[1, 0.3, 0, 0], [0, 0.8, 0, 0], [0, 0, 1, 0], [0, 0, 0.5, 1]]
    )
    x += shift
    rest = x[:, :2] @ np.array([[0.4, 0.1], [-0.2, 0.5]]) + rng.standard_normal((n_samples, 2))
    return x, np.column_stack([(rest**2).sum(axis=1), np.zeros(n_samples)])


SLICES = (slice(0, 2), slice(2, 4))


def test_victims_that_are_pushed_far_show_nothing_new():
    """E(g | x) = 2 + |M' x|^2 for unit noise, so the ratio keeps its mean of one wherever the states are."""
    shown = ShownOutside(*records(), SLICES)
    x, g = records(shift=5.0, seed=1)
    assert g[:, 0].mean() > 3 * records()[1][:, 0].mean()
    # the scale of gamma-like numbers, estimated from 4000 rows, is known to some 2 % times the leverage
    assert shown.relative(x, g)[:, 0].mean() == pytest.approx(1.0, abs=0.15)


def test_nominal_mean_is_one_and_silent_units_stay_silent():
    x, g = records()
    relative = ShownOutside(x, g, SLICES).relative(x, g)
    assert relative[:, 0].mean() == pytest.approx(1.0, abs=1e-12)
    assert not relative[:, 1].any()


def test_what_the_states_do_not_explain_still_shows():
    x, g = records()
    faulty = g.copy()
    faulty[:, 0] *= 3
    shown = ShownOutside(x, g, SLICES)
    assert shown.relative(x, faulty)[:, 0].mean() == pytest.approx(3.0, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_units_of_the_states_do_not_matter(scale):
    x, g = records()
    expected = ShownOutside(x, g, SLICES).relative(x, g)
    assert np.allclose(ShownOutside(scale * x, g, SLICES).relative(scale * x, g), expected, rtol=1e-6)
