"""Balls and noise on a grid."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skfedcausal import GaussianMechanism
from skfedcausal.privacy import Bounds, UnitNoise, calibration
from skfedcausal.privacy.calibration import clipped, generator, grid_of, into_ball, normal_noise, norms, on_grid
from skfedcausal.privacy.mechanism import bounds_of

pytestmark = pytest.mark.filterwarnings("ignore::skfedcausal.privacy.UtilityWarning")


def test_clipping_moves_no_two_rows_apart_and_keeps_gaps():
    rng = np.random.default_rng(0)
    bounds = bounds_of(GaussianMechanism(clip_norm=1.5), "boiler", np.empty((1, 4)))
    a, b = rng.normal(size=(2, 5000, 4)) * rng.gamma(1, 3, size=(2, 5000, 1))
    before, after = a - b, clipped(a, bounds) - clipped(b, bounds)
    assert (np.linalg.norm(after, axis=1) <= np.linalg.norm(before, axis=1) * (1 + 1e-12)).all()
    a[::3, 1] = np.nan
    assert_array_equal(np.isnan(clipped(a, bounds)), np.isnan(a))
    assert np.nanmax(np.linalg.norm(np.nan_to_num(clipped(a, bounds)), axis=1)) <= 1.5 * (1 + 1e-12)


def test_rows_inside_the_ball_stay_and_others_move_to_its_border():
    bounds = Bounds(np.array([1.0, -2.0]), np.array([2.0, 0.5]), clip=5.0, radius=10.0)
    scaled = np.array([[3.0, 4.0], [0.6, -0.8], [6.0, 8.0], [-60.0, 80.0]])
    Y = bounds.center + bounds.scale * scaled
    assert_allclose(norms(Y, bounds.center, bounds.scale), [5.0, 1.0, 10.0, 100.0])
    expected = scaled * np.array([1.0, 1.0, 0.5, 0.05])[:, None]
    assert_allclose(clipped(Y, bounds), expected)
    assert_allclose(into_ball(Y, bounds), bounds.center + bounds.scale * expected)
    assert_allclose(UnitNoise(bounds, 3.0).variance, [36.0, 2.25])


@pytest.mark.parametrize(("std", "grid"), [(1.0, 2.0**-20), (1.99, 2.0**-20), (2.0, 2.0**-19), (0.7, 2.0**-21)])
def test_the_grid_is_a_power_of_two_of_about_a_millionth_of_the_noise(std, grid):
    assert grid_of(std) == grid
    assert_array_equal(on_grid(np.array([0.4, 0.6, -1.4]) * grid, grid), [0.0, grid, -grid])


def test_generators_of_different_names_or_seeds_are_different():
    seeds = [generator(3, "a", 1), generator(3, "a", 2), generator(3, "b", 1), generator(4, "a", 1)]
    first = [rng.random() for rng in seeds]
    assert len(set(first)) == 4
    assert generator(3, "a", 1).random() == first[0]
    state = np.random.RandomState(0)
    assert len({generator(state, "a").random() for _ in range(300)}) == 300
    assert generator(None, "a").random() != generator(None, "a").random()


@pytest.mark.parametrize("sampler", ["float-grid", "opendp"])
def test_noise_is_normal_white_and_on_a_grid(sampler):
    if sampler == "opendp":
        pytest.importorskip("opendp")
    std = 0.37
    drawn = normal_noise((5000, 3), std, np.random.default_rng(0), sampler)
    assert stats.kstest(drawn.ravel() / std, "norm").pvalue > 1e-4
    assert np.abs(np.corrcoef(drawn.T) - np.eye(3)).max() < 5 / np.sqrt(5000)
    steps = drawn / grid_of(std)
    assert_array_equal(steps, np.round(steps))


def test_the_last_bits_do_not_tell_the_value():
    """Mironov's attack: without a grid the doubles near zero differ for neighbouring values."""
    std, rng = 1.0, np.random.default_rng(0)
    seen = []
    for value in (0.0, 1.0):
        out = value + rng.normal(size=20_000)
        near = out[np.abs(out) < 0.25]
        seen.append(np.mean(near * 2.0**53 % 1 == 0))
    assert seen[1] - seen[0] > 0.5  # the attack works on plain doubles
    for value in (0.0, 1.0):
        mechanism = GaussianMechanism(mu=1.0, clip_norm=std, event_radius=1.0)
        values = mechanism.release({"mill": np.full((5000, 1), value)}, (5000,))["mill"].values
        steps = values / grid_of(std)
        assert_array_equal(steps, np.round(steps))


def test_the_exact_sampler_is_asked_for_whole_numbers_of_grid_steps(monkeypatch):
    """With a stand-in for the package OpenDP: scale in, steps out."""

    class Stand:
        scales = []
        m = property(lambda self: self)
        enable_features = vector_domain = atom_domain = l2_distance = lambda self, *_, **__: None

        def then_gaussian(self, scale):
            self.scales.append(scale)
            return self

        def __rrshift__(self, space):
            return lambda zeros: [k + z for k, z in enumerate(zeros)]

    monkeypatch.setattr(calibration, "import_optional", lambda *_, **__: Stand())
    found = normal_noise((2, 3), 1.5, None, "opendp")
    assert Stand.scales == [1.5 * 2**20]
    assert_array_equal(found, np.arange(6.0).reshape(2, 3) * 2.0**-20)
