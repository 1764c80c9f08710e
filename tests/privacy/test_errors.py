"""Warnings before a release: when they come, and that their numbers are right."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal import FederatedGrangerEstimator, GaussianMechanism, KalmanClient, RandomizedResponse
from skfedcausal.datasets import make_granger_plant
from skfedcausal.privacy import (
    NoiseOptions,
    Scope,
    SeededNoiseWarning,
    UtilityWarning,
    WeakPrivacyWarning,
    mu_from_epsilon,
)
from skfedcausal.privacy.calibration import largest_deviation
from skfedcausal.privacy.mechanism import bounds_of

from ._strangers import LaplaceMechanism
from ._words import gaussian_epsilon, number

DELTA = 1e-6


def warned(mechanism, Y, category, **how):
    """Messages of one kind that a release brings."""
    records = Y if isinstance(Y, dict) else {"mill": Y}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mechanism.release(records, (len(next(iter(records.values()))),), **how)
    return [str(warning.message) for warning in caught if warning.category is category]


# --- weak promises ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "weak"), [(9.99, False), (10.0, False), (10.01, True), (900.0, True)])
def test_an_epsilon_above_ten_says_little(epsilon, weak):
    for given in ({"epsilon": epsilon}, {"mu": mu_from_epsilon(epsilon, DELTA)}):
        mechanism = GaussianMechanism(**given, delta=DELTA, clip_norm=3.0)
        messages = warned(mechanism, np.eye(3), WeakPrivacyWarning)
        assert bool(messages) == weak
        if weak:
            assert_allclose(number(messages[0], "epsilon = "), epsilon, rtol=5e-3)
            factor = number(messages[0].rstrip("."), "change by a factor of ")
            assert_allclose(np.log(factor), min(epsilon, 700), atol=0.05)
            assert "one protected event change" in messages[0]


def test_epsilons_of_other_noise_and_of_responses():
    (message,) = warned(LaplaceMechanism(epsilon=11.0, clip_norm=3.0), np.eye(3), WeakPrivacyWarning)
    assert_allclose(number(message, "epsilon = "), 11.0, rtol=5e-3)
    assert not warned(LaplaceMechanism(epsilon=2.0, clip_norm=3.0), np.eye(3), WeakPrivacyWarning)
    for epsilon in (9.0, 12.0):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            RandomizedResponse(epsilon=epsilon).release({"mill": np.zeros((3, 2), dtype=bool)})
        assert [str(w.message)[:12] for w in caught] == ["epsilon = 12"] * (epsilon > 10)


def test_the_unit_that_pays_most_is_the_one_that_is_warned_of():
    mechanism = GaussianMechanism(epsilon=9.0, delta=DELTA, clip_norm=3.0, protects="client")
    noise = {name: mechanism.noise_of(name, np.eye(3)) for name in ("kiln", "mill", "oven")}
    records = {"kiln": np.eye(3), "mill": np.eye(12)[:, :3], "oven": np.eye(3)}
    (message,) = warned(mechanism, records, WeakPrivacyWarning, noise=noise)
    mu = 2 * mu_from_epsilon(9.0, DELTA)  # four times the rows of those that the noise was made for
    assert_allclose(number(message, "epsilon = "), gaussian_epsilon(mu, DELTA), rtol=5e-3)


@pytest.mark.parametrize(
    ("unit", "delta", "limit"),
    [
        ("event", 0.024, None),
        ("event", 1 / 40, None),
        ("event", 0.026, 0.03),
        ("client", 0.4, None),
        ("client", 0.6, 0.5),
    ],
)
def test_a_delta_above_one_over_the_protected_units(unit, delta, limit):
    """Two units of 20 time steps each: 40 events, two clients."""
    mechanism = GaussianMechanism(epsilon=1.0, delta=delta, clip_norm=3.0, protects=Scope(unit))
    messages = warned(mechanism, {"mill": np.eye(20), "kiln": -np.eye(20)}, WeakPrivacyWarning)
    assert bool(messages) == (limit is not None)
    if limit is not None:
        assert_allclose(number(messages[0], "delta = "), delta)
        assert number(messages[0], "above one over the ") == {"event": 40, "client": 2}[unit]
        assert number(messages[0].rstrip("."), "Use less than ") == limit


# --- noise that drowns everything, balls that are too small -------------------------------------------


def test_a_record_of_one_row():
    messages = warned(GaussianMechanism(mu=90.0, clip_norm=1.0), np.array([[3.0]]), UtilityWarning)
    assert messages[0].startswith("100% of the rows")


@pytest.mark.parametrize(("n_outside", "said"), [(0, None), (5, None), (6, 6), (100, 100)])
def test_the_share_of_clipped_rows(n_outside, said):
    Y = np.tile([[1.0, 0.0], [-1.0, 0.0]], (50, 1))  # on the border of the ball
    Y[:n_outside] *= 1.5
    messages = warned(GaussianMechanism(mu=90.0, clip_norm=1.0), Y, UtilityWarning)
    assert len(messages) == bool(said)
    if said:
        assert f"{said}% of the rows of unit 'mill' lie outside the ball of radius 1 and" in messages[0]


def strong(n_samples, size):
    """A record whose strongest direction has standard deviation `size`, the other one half of it."""
    y = np.tile([1.0, -1.0], n_samples // 2)
    z = np.repeat([0.5, -0.5], n_samples // 2)
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    return size * np.column_stack([y, z]) @ turn + 3.0


@pytest.mark.parametrize("given", ["epsilon", "mu", "mu and delta", "laplace"])
@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_noise_that_leaves_no_link_of_a_fifth(given, factor):
    """Rule of thumb: steps needed are the fourth power of noise over signal, over the squared correlation."""
    n, mu = 400, mu_from_epsilon(2.0, DELTA)
    settings = {"epsilon": {"epsilon": 2.0, "delta": DELTA}, "mu": {"mu": mu}}
    settings |= {"mu and delta": {"mu": mu, "delta": DELTA}}
    epsilon = 20.0 if given == "laplace" else 2.0
    if given == "laplace":
        mechanism = LaplaceMechanism(epsilon=epsilon, clip_norm=30.0)
    else:
        mechanism = GaussianMechanism(**settings[given], clip_norm=30.0, event_radius=4.0)
    std = mechanism.noise_of("mill", np.zeros((n, 2))).std
    Y = strong(n, std / (factor * (n * 0.2**2) ** 0.25))
    messages = warned(mechanism, Y, UtilityWarning)
    assert len(messages) == (factor > 1)
    if factor < 1:
        return
    text = messages[0]
    ratio = factor * 16**0.25
    assert_allclose(number(text, "on unit 'mill' is "), ratio, rtol=0.05)
    assert number(text, "needs about ") == float(f"{ratio**4 / 0.04:.1g}")
    assert number(text, "the record has ") == n
    smallest = mu * factor if given.startswith("mu") else epsilon * factor
    if given == "mu and delta":
        smallest = gaussian_epsilon(mu * factor, DELTA)
    word = "mu" if given == "mu" else "epsilon"
    assert number(text, f"smallest useful {word}: about ") == float(f"{smallest:.1g}")
    stated = f"epsilon {epsilon:.2g}" if given in ("epsilon", "laplace") else f"mu {mu:.2g}"
    assert f"At {stated} no link" in text


def test_a_far_smaller_budget_than_is_useful():
    mechanism = GaussianMechanism(epsilon=0.05, delta=DELTA, clip_norm=6.0)
    Y = strong(400, 0.5)
    (text,) = warned(mechanism, Y, UtilityWarning)
    std = mechanism.noise_of("mill", Y).std
    mu = mu_from_epsilon(0.05, DELTA) * std / 0.5 / 2.0  # 2 = (400 * 0.04) ** 0.25
    assert number(text, "smallest useful epsilon: about ") == float(f"{gaussian_epsilon(mu, DELTA):.1g}")


def test_a_record_that_does_not_move_is_no_use_at_any_budget():
    (text,) = warned(GaussianMechanism(mu=1.0, clip_norm=30.0), np.ones((9, 2)), UtilityWarning)
    assert "does not move, so no budget is enough" in text
    assert number(text, "mill' is ") == number(text, "needs about ") == np.inf


def test_noise_that_was_set_before_brings_no_warning_about_its_use():
    mechanism = GaussianMechanism(mu=0.01, clip_norm=3.0)
    noise = {"mill": mechanism.noise_of("mill", np.eye(3))}
    assert not warned(mechanism, np.eye(3), UtilityWarning, noise=noise)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mechanism.stream(noise).release({"mill": np.eye(3)})
    assert warned(mechanism, 2 * np.eye(3), UtilityWarning)


def test_the_strongest_direction_is_that_of_the_eigenvalues_and_gaps_are_level():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 3)) + 5
    expected = np.sqrt(np.linalg.eigvalsh(np.cov(Y.T, bias=True))[-1])
    assert_allclose(largest_deviation(Y), expected, rtol=1e-12)
    Y[rng.random(Y.shape) < 0.2] = np.nan
    filled = np.where(np.isnan(Y), np.nanmean(Y, axis=0), Y)
    expected = np.sqrt(np.linalg.eigvalsh(np.cov(filled.T, bias=True))[-1])
    assert_allclose(largest_deviation(Y), expected, rtol=1e-12)
    assert_allclose(largest_deviation(strong(40, 2.5)), 2.5)
    seen_once = np.full((40, 1), np.nan)
    seen_once[3] = 1000.0
    assert_allclose(largest_deviation(np.hstack([strong(40, 2.5), seen_once])), 2.5)
    assert largest_deviation(np.full((4, 2), np.nan)) == 0.0
    bounds = bounds_of(GaussianMechanism(clip_norm=1.0, noise=NoiseOptions(scale=10.0)), "mill", np.empty((0, 2)))
    assert_allclose(largest_deviation(strong(40, 2.5) - 3.0, bounds), 0.25)


@pytest.mark.medium
@pytest.mark.parametrize("how", ["release", "stream", "response", "fit"])
def test_warnings_point_at_the_line_of_the_user(how):
    settings = {"mu": 1.0, "clip_norm": 25.0, "random_state": 0}
    X, _ = make_granger_plant(2, n_samples=300, random_state=0)
    gaussian, response = GaussianMechanism(**settings), RandomizedResponse(epsilon=1.0, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if how == "release":
            gaussian.release(X, (300,))
        elif how == "stream":
            gaussian.stream({name: gaussian.noise_of(name, Y) for name, Y in X.items()}).release(X)
        elif how == "response":
            response.release({name: Y[:, :2] > 0 for name, Y in X.items()})
        else:
            FederatedGrangerEstimator(KalmanClient(n_states=2), privacy=gaussian).fit(X)
    files = {warning.filename for warning in caught if issubclass(warning.category, SeededNoiseWarning)}
    assert files == {__file__}
