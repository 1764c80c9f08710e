"""Noise on measurements: what it hides, when it is drawn, what it warns of."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import GaussianMechanism, PrivacyAccountant
from skfedcausal.bases import configured
from skfedcausal.papers import TrainingMechanism
from skfedcausal.papers.client.noise import check_training
from skfedcausal.privacy import (
    NoiseOptions,
    PrivacyBudgetError,
    PrivacyLeakWarning,
    Scope,
    SeededNoiseWarning,
    UtilityWarning,
    WeakPrivacyWarning,
    calibration,
    mu_from_epsilon,
)
from skfedcausal.privacy import mechanism as contract
from skfedcausal.privacy.calibration import clipped, generator, normal_noise
from skfedcausal.privacy.mechanism import bounds_of

from ._audit import gaussian_mu

N = 10_000  # draws of an audit
pytestmark = pytest.mark.filterwarnings(
    "ignore::skfedcausal.privacy.UtilityWarning",
    "ignore::skfedcausal.privacy.SeededNoiseWarning",
    "ignore::skfedcausal.privacy.WeakPrivacyWarning",
)


def noised(mechanism, Y, name="boiler"):
    return mechanism.release({name: Y}, (len(Y),))[name]


# --- what is hidden ---------------------------------------------------------------------------------


def neighbours(mechanism, d):
    """Rows of the two records that are furthest apart, in the mechanism's units."""
    direction = np.ones(d) / np.sqrt(d)
    plus = mechanism.clip_norm * direction
    if mechanism.scope.relation == "zero_out":
        return plus, np.zeros(d)
    radius = 2 * mechanism.clip_norm if mechanism.event_radius is None else mechanism.event_radius
    return plus, plus - radius * direction


AUDITED = {
    "noise above one": {"mu": 0.7},
    "noise below one": {"mu": 2.0, "clip_norm": 0.4},
    "epsilon": {"epsilon": 1.0, "delta": 1e-5},
    "part of the range": {"mu": 1.0, "event_radius": 0.5},
    "zero out": {"mu": 1.0, "protects": Scope("event", "zero_out")},
    "columns with units": {"mu": 1.0, "scale": [1.0, 100.0, 1e-3], "center": [5.0, -300.0, 0.01]},
}


@pytest.mark.parametrize("settings", AUDITED.values(), ids=AUDITED)
@pytest.mark.parametrize("halved", [False, True], ids=["as it is", "half the noise"])
def test_no_attack_learns_more_than_promised_and_half_the_noise_is_caught(settings, halved, monkeypatch):
    mechanism = configured(GaussianMechanism, {"clip_norm": 3.0, "random_state": 0} | settings)
    if halved:
        monkeypatch.setattr(contract, "normal_noise", lambda shape, std, *rest: normal_noise(shape, std / 2, *rest))
    mu, d = mechanism.mu_of_release(), 3
    first, second = neighbours(mechanism, d)
    scale, center = np.asarray(mechanism.scale, dtype=float), np.asarray(mechanism.center, dtype=float)
    scores = []
    for name, row in (("one", first), ("other", second)):
        values = noised(mechanism, np.tile(center + scale * row, (N, 1)), name).values
        scores.append((values - center) / scale @ (second - first))
    found = gaussian_mu(*scores)
    assert (found > mu) == halved


@pytest.mark.parametrize(("unit", "window", "steps"), [("event", None, 1), ("window", 7, 7), ("client", None, 50)])
def test_noise_hides_every_change_of_the_protected_unit(unit, window, steps):
    mechanism = GaussianMechanism(mu=0.5, clip_norm=2.0, protects=Scope(unit, window=window))
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(50, 3))
    release = noised(mechanism, Y)
    bounds = bounds_of(mechanism, "boiler", Y)
    std = np.sqrt(release.variance[0])
    largest = 0.0
    for scale in (0.1, 1.0, 10.0):
        for _ in range(200):
            other = Y.copy()
            start = rng.integers(0, 50 - steps + 1)
            other[start : start + steps] = scale * rng.normal(size=(steps, 3))
            largest = max(largest, np.linalg.norm(clipped(other, bounds) - clipped(Y, bounds)))
    Y[:steps], other = 100.0, Y.copy()
    other[:steps] = -100.0
    attained = np.linalg.norm(clipped(other, bounds) - clipped(Y, bounds))
    assert largest <= attained * (1 + 1e-12)
    rounding = np.sqrt(3 * steps) / 0.5 * 2.0**-20  # share of the sensitivity that is kept for it
    assert_allclose(attained, 0.5 * std, rtol=1.01 * rounding)
    assert attained <= 0.5 * std


# --- drawn once -------------------------------------------------------------------------------------


def test_the_same_record_is_noised_once_and_charged_once():
    mechanism = GaussianMechanism(mu=1.0, clip_norm=3.0)
    Y = np.random.default_rng(0).normal(size=(100, 2))
    first = noised(mechanism, Y)
    assert noised(mechanism, Y.copy()) is first
    assert len(mechanism.account) == 1
    assert not first.values.flags.writeable
    assert not np.array_equal(noised(mechanism, Y[:-1]).values, first.values[:-1])
    assert len(mechanism.account) == 2
    mechanism.account.forget()
    assert not np.array_equal(noised(mechanism, Y).values, first.values)
    assert_allclose(mechanism.account.spent().mu, np.sqrt(3))


@pytest.mark.parametrize(
    "change",
    [{"mu": 0.5}, {"clip_norm": 2.0}, {"center": 1.0}, {"scale": 2.0}, {"event_radius": 1.0}],
    ids=lambda change: next(iter(change)),
)
def test_other_noise_is_another_release(change):
    account = PrivacyAccountant()
    settings = {"mu": 1.0, "clip_norm": 3.0, "accountant": account}
    Y = np.random.default_rng(0).normal(size=(100, 2))
    noised(configured(GaussianMechanism, settings), Y)
    noised(configured(GaussianMechanism, settings | change), Y)
    assert len(account) == 2


@pytest.mark.parametrize("random_state", [None, 0, np.random.RandomState(0)], ids=["entropy", "int", "state"])
def test_noise_of_units_and_releases_is_independent(random_state):
    mechanism = GaussianMechanism(mu=1.0, clip_norm=1.0, random_state=random_state)
    zeros = np.zeros((4000, 2))
    release = mechanism.release({"a": zeros, "b": zeros}, (4000,))
    mechanism.account.forget()
    again = mechanism.release({"a": zeros, "b": zeros}, (4000,))
    columns = np.hstack([r.values for r in (*release.values(), *again.values())])
    assert np.abs(np.corrcoef(columns.T) - np.eye(8)).max() < 5 / np.sqrt(4000)


def test_seeded_noise_repeats_in_a_fresh_account_and_warns():
    Y = np.zeros((50, 2))
    with pytest.warns(SeededNoiseWarning, match="seeded"):
        first = noised(GaussianMechanism(mu=1.0, clip_norm=1.0, random_state=3), Y)
    second = noised(GaussianMechanism(mu=1.0, clip_norm=1.0, random_state=3), Y)
    assert_array_equal(first.values, second.values)
    assert not np.array_equal(generator(None, "a").random(5), generator(None, "a").random(5))


def test_a_refused_release_draws_and_charges_nothing():
    account = PrivacyAccountant(epsilon=1.2, delta=1e-6)
    mechanism = GaussianMechanism(epsilon=1.0, delta=1e-6, clip_norm=1.0, accountant=account)
    noised(mechanism, np.zeros((10, 2)))
    with pytest.raises(PrivacyBudgetError, match="Nothing was released"):
        mechanism.release({"boiler": np.ones((10, 2)), "mill": np.ones((10, 2))}, (10,))
    assert len(account) == 1
    assert len(account._releases) == 1


# --- warnings and refusals --------------------------------------------------------------------------


def test_a_bound_from_the_data_is_a_leak():
    mechanism = GaussianMechanism(epsilon=1.0, delta=1e-6)
    Y = np.random.default_rng(0).normal(size=(100, 2))
    with pytest.warns(PrivacyLeakWarning, match="data of boiler.*NOT private"):
        noised(mechanism, Y)
    spent = mechanism.account.spent(1e-6)
    assert spent.epsilon == np.inf
    assert mechanism.statement(spent, ["boiler"], 100).startswith("NOT PRIVATE")


@pytest.mark.parametrize(
    ("settings", "n_rows", "match"),
    [
        ({"epsilon": 12.0, "delta": 1e-6}, 100, "epsilon = 12"),
        ({"epsilon": 1.0, "delta": 1e-3}, 5000, "above one over the 5000 protected units"),
        ({"epsilon": 1.0, "delta": 0.6, "protects": "client"}, 5000, None),
    ],
)
def test_promises_that_say_little_are_warned_of(settings, n_rows, match):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        noised(GaussianMechanism(clip_norm=3.0, **settings), np.zeros((n_rows, 1)))
    weak = [str(w.message) for w in caught if w.category is WeakPrivacyWarning]
    assert bool(weak) == bool(match)
    assert match is None or match in weak[0]


def test_noise_that_leaves_nothing_is_warned_of():
    Y = np.random.default_rng(0).normal(size=(1000, 3))
    with pytest.warns(UtilityWarning, match="can be told from noise"):
        noised(GaussianMechanism(epsilon=0.1, delta=1e-6, clip_norm=4.0), Y)
    with pytest.warns(UtilityWarning, match=r"100% of the rows .* are clipped"):
        noised(GaussianMechanism(mu=9.0, clip_norm=1.0), Y + 50)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "exactly one of them. There is no default"),
        ({"epsilon": 1.0, "delta": 1e-6, "mu": 1.0}, "exactly one of them"),
        ({"epsilon": 1.0}, "needs a `delta`"),
        ({"mu": 1.0, "protects": Scope("window")}, "window=None"),
        ({"mu": 1.0, "protects": Scope("event", window=3)}, "window=3"),
        ({"mu": 1.0, "protects": Scope("flag pair")}, "give unit='event', 'window' or 'client'"),
        ({"mu": 1.0, "protects": Scope("event", "add")}, "relation='replace' or 'zero_out'"),
        ({"mu": 1.0, "protects": "window"}, "'protects' parameter"),
        ({"mu": 1.0, "center": [1.0, 2.0, 3.0]}, r"`center` has shape \(3,\) for unit 'boiler', which has 2"),
        ({"mu": 1.0, "center": [[1.0, 2.0]]}, r"`center` has shape \(1, 2\) for unit 'boiler'"),
        ({"mu": 1.0, "scale": [1.0, -1.0]}, "`scale` of unit 'boiler'"),
        ({"mu": 1.0, "scale": [0.0, 1.0]}, "`scale` of unit 'boiler'"),
        ({"mu": 1.0, "scale": [np.nan, 1.0]}, "`scale` of unit 'boiler'"),
        ({"mu": 1.0, "center": [np.inf, 1.0]}, "`center` of unit 'boiler'"),
        ({"mu": 1.0, "delta": 1.0}, "'delta' parameter"),
        ({"mu": 1.0, "delta": 1.5}, "'delta' parameter"),
        ({"epsilon": 0.0, "delta": 1e-6}, "'epsilon' parameter"),
        ({"mu": 1.0, "clip_norm": {"mill": 1.0}}, "names \\['mill'\\] but not the unit 'boiler'"),
    ],
)
def test_promises_that_are_not_complete_are_refused(settings, problem):
    with pytest.raises(ValueError, match=problem):
        noised(configured(GaussianMechanism, {"clip_norm": 1.0, **settings}), np.zeros((10, 2)))


@pytest.mark.parametrize(("change", "place"), [({"protocol": "paper"}, "messages"), ({"trust": "server"}, "gradients")])
def test_noise_inside_training_is_none_on_a_record(change, place):
    mechanism = TrainingMechanism(mu=1.0, clip_norm=1.0, **change)
    with pytest.raises(ValueError, match=f"to the {place} of gradient training and has none for a record"):
        noised(mechanism, np.zeros((10, 2)))


@pytest.mark.parametrize("relation", ["replace", "zero_out"])
@pytest.mark.parametrize("size", [1e-3, 40.0])
def test_a_ball_taken_from_the_data_holds_them_and_no_more(size, relation):
    mechanism = GaussianMechanism(
        mu=1.0, protects=Scope("event", relation), noise=NoiseOptions(scale=[2.0, 5.0], center=[1.0, 0.0])
    )
    Y = size * np.array([[0.6 * 2, 0.8 * 5], [0.1, np.nan], [0.0, 0.2]]) + [1.0, 0.0]
    bounds = bounds_of(mechanism, "mill", Y)
    assert_allclose(bounds.clip, size, rtol=1e-12)
    assert_allclose(bounds.radius, size * (2 if relation == "replace" else 1), rtol=1e-12)
    assert not bounds.public
    assert bounds_of(mechanism, "mill", Y[:0]).clip > 0


@pytest.mark.parametrize(
    ("settings", "radius"),
    [
        ({}, 3.0),
        ({"protects": Scope("event", "zero_out")}, 1.5),
        ({"event_radius": 0.7}, 0.7),
        ({"event_radius": 9.0}, 3.0),
        ({"event_radius": {"mill": 2.0}}, 2.0),
        ({"event_radius": 2.0, "protects": Scope("event", "zero_out")}, 1.5),
    ],
)
def test_no_change_reaches_further_than_across_the_ball(settings, radius):
    bounds = bounds_of(GaussianMechanism(clip_norm=1.5, **settings), "mill", np.empty((0, 2)))
    assert (bounds.clip, bounds.radius, bounds.public) == (1.5, radius, True)


@pytest.mark.parametrize("std", [0.00195, 0.99, 1.0, 1.0 - 1e-7])
def test_rounding_to_the_grid_is_paid_for_also_where_the_grid_doubles(std):
    """Noise that grows over a power of two for the rounding gets a grid twice as wide."""
    mechanism = GaussianMechanism(mu=2.0 / std, clip_norm=1.0)
    for d in (1, 7):
        noise = mechanism.noise_of("mill", np.zeros((5, d)))
        grid = 2.0 ** (np.floor(np.log2(noise.std)) - 20)
        assert_allclose(noise.std, std * (1 + np.sqrt(d) * grid / 2), rtol=1e-13)
        assert mechanism.noise_for(noise.bounds, 5, mechanism.mu_of_release()).std == noise.std


def test_a_window_of_one_step_is_an_event_and_one_of_none_is_refused():
    Y = np.zeros((10, 2))
    event, window = (
        GaussianMechanism(mu=1.0, clip_norm=1.0, protects=Scope(u, window=w))
        for u, w in (("event", None), ("window", 1))
    )
    assert event.noise_of("mill", Y).std == window.noise_of("mill", Y).std
    with pytest.raises(ValueError, match="a window of so many"):
        noised(GaussianMechanism(mu=1.0, clip_norm=1.0, protects=Scope("window", window=0)), Y)


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 1.0, "delta": 1e-5, "clip_norm": 1.0, "protocol": "paper"},
        {"mu": 1.0, "trust": "server", "gradient_clip": 0.1},
    ],
)
@pytest.mark.parametrize("random_state", [None, 0])
def test_seeds_inside_training_are_warned_of(settings, random_state):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_training(TrainingMechanism(**settings, random_state=random_state))
    assert [w.category for w in caught] == [SeededNoiseWarning] * (random_state is not None)


def test_the_papers_noise_is_not_that_of_a_trusted_server():
    settings = {"epsilon": 1.0, "delta": 1e-5, "clip_norm": 1.0, "gradient_clip": 0.1, "trust": "server"}
    check_training(configured(TrainingMechanism, settings))
    for change in ({"protocol": "paper"}, {"gradient_clip": None}):
        with pytest.raises(ValueError, match="Got trust='server' with"):
            check_training(configured(TrainingMechanism, settings | change))


@pytest.mark.parametrize(
    "change", [{"protects": "client"}, {"event_radius": 0.5}, {"clip_norm": None}, {"epsilon": None, "mu": 1.0}]
)
def test_the_papers_noise_is_for_events_inside_a_public_ball(change):
    settings = {"epsilon": 1.0, "delta": 1e-5, "clip_norm": 1.0, "protocol": "paper"}
    check_training(configured(TrainingMechanism, settings))
    with pytest.raises(ValueError, match="protocol='paper' needs"):
        check_training(configured(TrainingMechanism, settings | change))


def test_units_have_bounds_of_their_own():
    mechanism = GaussianMechanism(
        mu=1.0,
        clip_norm={"a": 1.0, "b": 10.0},
        noise=NoiseOptions(center={"a": 0.0, "b": [1.0, 2.0]}, scale={"a": 1.0, "b": [1.0, 5.0]}),
    )
    release = mechanism.release({name: np.zeros((10, 2)) for name in "ab"}, (10,))
    assert_allclose(np.sqrt(release["a"].variance), 2.0, rtol=1e-5)
    assert_allclose(np.sqrt(release["b"].variance), [20.0, 100.0], rtol=1e-5)


def test_a_statement_says_unit_relation_bound_composition_and_what_is_left_out():
    mechanism = GaussianMechanism(epsilon=1.0, delta=1e-6, clip_norm=3.0, event_radius=0.6)
    noised(mechanism, np.zeros((1000, 2)))
    text = mechanism.statement(mechanism.account.spent(1e-6), ["boiler"], 1000)
    for part in (
        "per event (replace)",
        "one unit at one time step",
        "at most 0.6",
        "public radius 3",
        "epsilon = 1, delta = 1e-06",
        "Exact composition of one release",
        "whole record of 1000 time steps is protected only to",
        "Not covered",
        "which values are missing",
    ):
        assert part in text
    assert mu_from_epsilon(1.0, 1e-6) == pytest.approx(mechanism.account.spent(1e-6).mu)


def test_a_long_record_is_noised_and_judged_some_rows_at_a_time(monkeypatch):
    """The same noise and the same warnings, whatever the pieces."""
    Y = np.random.default_rng(0).normal(size=(100, 3))
    Y[5, 1] = np.nan
    outcomes = []
    for chunk in (1000, 7):
        monkeypatch.setattr(calibration, "_CHUNK", chunk)
        mechanism = GaussianMechanism(mu=0.5, clip_norm=1.5, random_state=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            values = mechanism.release({"mill": Y}, (100,))["mill"].values
        outcomes.append((values, [str(warning.message) for warning in caught]))
    assert_array_equal(outcomes[0][0], outcomes[1][0])
    assert outcomes[0][1] == outcomes[1][1]
    assert any("are clipped" in message for message in outcomes[0][1])
