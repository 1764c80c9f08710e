"""Promises in words: every number of a sentence is parsed and worked out anew from what was released."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal import GaussianMechanism, RandomizedResponse
from skfedcausal.bases import configured
from skfedcausal.papers import TrainingMechanism
from skfedcausal.papers.client.noise import GradientGuard, PaperNoise
from skfedcausal.privacy import PrivacySpent, Scope
from skfedcausal.privacy.promise import record_statement

from ._strangers import LaplaceMechanism, RoundingMechanism
from ._words import gaussian_epsilon, number, response_epsilon

pytestmark = pytest.mark.filterwarnings(
    "ignore::skfedcausal.privacy.UtilityWarning", "ignore::skfedcausal.privacy.WeakPrivacyWarning"
)
DELTA, CLIP, N = 1e-5, 2.0, 61
FOUR, THREE = 6e-4, 6e-3  # relative error of a number that is shown with so many digits


def farthest(mechanism, n_samples):
    """Two records all of whose rows differ as much as is protected, in the ball, and a unit's noise."""
    row = np.array([0.6, 0.8])
    moved = {"replace": 2 * CLIP, "zero_out": CLIP}[mechanism.scope.relation]
    moved = moved if mechanism.event_radius is None else mechanism.event_radius
    return np.tile(CLIP * row, (n_samples, 1)), np.tile((CLIP - moved) * row, (n_samples, 1))


CASES = {
    "event": {},
    "zero out": {"protects": Scope("event", "zero_out")},
    "part of the range": {"event_radius": 0.7},
    "window": {"protects": Scope("window", window=5)},
    "window and radius": {"protects": Scope("window", window=61), "event_radius": 0.3},
    "client": {"protects": "client"},
}


@pytest.mark.parametrize("given", [{"epsilon": 1.3, "delta": DELTA}, {"mu": 0.4, "delta": DELTA}], ids=str)
@pytest.mark.parametrize("n_releases", [1, 3])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_losses_of_a_record_are_those_of_what_was_released(case, n_releases, given):
    mechanism = GaussianMechanism(**given, **case, clip_norm=CLIP)
    for k in range(n_releases):
        Y, other = farthest(mechanism, N)
        std = np.sqrt(mechanism.release({"mill": Y + 0.1 * k}, (N,))["mill"].variance[0])
    text = mechanism.statement(mechanism.account.spent(DELTA), ["mill"], N)
    steps = {"event": 1, "window": mechanism.scope.window, "client": N}[mechanism.scope.unit]
    mu = np.sqrt(n_releases) * np.linalg.norm((Y - other)[:steps]) / std
    assert_allclose(number(text, "mu = "), mu, rtol=FOUR)
    assert_allclose(number(text, "at most epsilon = "), gaussian_epsilon(mu, DELTA), rtol=FOUR)
    assert number(text, ", delta = ") == DELTA
    assert number(text, "clipped to the public radius ") == CLIP
    whole = f"whole record of {N} time steps is protected only to epsilon = "
    if mechanism.scope.unit == "client":
        assert "whole record" not in text
    else:  # windows that reach over the end of the record count in full
        windows = np.linalg.norm(Y - other) * np.sqrt(-(-N // steps) * steps / N)
        expected = gaussian_epsilon(np.sqrt(n_releases) * windows / std, DELTA)
        assert_allclose(number(text, whole), expected, rtol=THREE)
    counted = "one release" if n_releases == 1 else f"{n_releases} releases"
    assert f"Exact composition of {counted} per unit" in text


def test_the_unit_and_the_change_are_named():
    for settings, words in (
        ({"protects": Scope("window", window=4)}, "per window of 4 time steps (replace): all measurements of one "
         "unit at 4 consecutive time steps having other values, each clipped"),
        ({"protects": "client"}, "per client (replace): all measurements of one unit at all time steps having"),
        ({"protects": Scope("event", "zero_out")}, "per event (zero_out): all measurements of one unit at one time "
         "step being replaced by `center`, each"),
        ({"event_radius": 0.25}, "each by at most 0.25 (larger changes are protected less) and clipped"),
        ({"clip_norm": {"mill": 2.5}}, "clipped to the public radius 2.5 (mill)"),
    ):  # fmt: skip
        mechanism = configured(GaussianMechanism, {"mu": 0.4, "delta": DELTA, "clip_norm": CLIP} | settings)
        mechanism.release({"mill": np.zeros((N, 2))}, (N,))
        assert words in mechanism.statement(mechanism.account.spent(DELTA), ["mill"], N)


def test_a_promise_without_delta_tells_mu_alone():
    mechanism = GaussianMechanism(mu=0.37, clip_norm=CLIP)
    mechanism.release({"mill": np.zeros((N, 2))}, (N,))
    text = mechanism.statement(mechanism.account.spent(), ["mill"], N)
    assert number(text, "at most mu = ") == 0.37
    assert "epsilon" not in text


def test_periods_and_other_units_are_not_mixed_into_a_promise():
    """An event is in one of the periods; the unit that has most is the one that is told of."""
    mechanism = GaussianMechanism(mu=0.4, delta=DELTA, clip_norm=CLIP)
    release = {"mill": np.zeros((N, 2)), "kiln": np.ones((N, 2))}
    mechanism.release(release, (N,))
    mechanism.release({"kiln": release["kiln"] + 1}, (N,))
    mechanism.account.new_period()
    mechanism.release({"mill": release["mill"] + 1, "kiln": release["kiln"] + 2}, (N,))
    cases = {("mill",): (2, 0.4), ("kiln",): (3, np.sqrt(2) * 0.4), ("mill", "kiln"): (3, np.sqrt(2) * 0.4)}
    for names, (n_releases, mu) in cases.items():
        text = mechanism.statement(mechanism.account.spent(DELTA, names), names, N)
        assert f"Exact composition of {n_releases} releases" in text
        assert_allclose(number(text, "mu = "), mu, rtol=FOUR)
        whole = gaussian_epsilon(mu * np.sqrt(N), DELTA)
        assert_allclose(number(text, "only to epsilon = "), whole, rtol=THREE)


@pytest.mark.parametrize("case", [{}, {"protects": Scope("window", window=5)}, {"protects": "client"}], ids=str)
def test_a_stream_is_told_with_all_its_batches(case):
    mechanism = GaussianMechanism(mu=0.4, delta=DELTA, clip_norm=CLIP, **case)
    Y, other = farthest(mechanism, N)
    noise = mechanism.release({"mill": Y}, (N,))["mill"].noise
    stream = mechanism.stream({"mill": noise})
    for k in range(0, 12, 3):
        stream.release({"mill": Y[k : k + 3]})
    text = mechanism.statement(mechanism.account.spent(DELTA), ["mill"], N)
    first, later = {"event": (1, 1), "window": (5, 5), "client": (N, 12)}[mechanism.scope.unit]
    changes = [np.linalg.norm((Y - other)[:rows]) for rows in (first, later)]
    mu = np.linalg.norm(changes) / noise.std  # a client is in the record and in every batch
    assert_allclose(number(text, "mu = "), mu, rtol=FOUR)
    assert_allclose(number(text, "at most epsilon = "), gaussian_epsilon(mu, DELTA), rtol=FOUR)


@pytest.mark.parametrize("n_releases", [1, 2])
def test_other_noise_than_gaussian_is_composed_as_it_is(n_releases):
    mechanism = LaplaceMechanism(epsilon=0.3, clip_norm=CLIP, delta=DELTA)
    for k in range(n_releases):
        mechanism.release({"mill": np.full((N, 2), 0.1 * k)}, (N,))
    text = mechanism.statement(mechanism.account.spent(DELTA), ["mill"], N)
    expected = response_epsilon(0.3, 2, n_releases, DELTA)
    assert_allclose(number(text, "at most epsilon = "), expected, rtol=FOUR)
    whole = response_epsilon(0.3, 2, n_releases * N, DELTA)
    assert_allclose(number(text, "only to epsilon = "), whole, rtol=THREE)
    assert "mu = " not in text


def test_a_mechanism_that_names_no_radius_is_clipped_to_a_public_ball():
    mechanism = RoundingMechanism(std=8.0, step=0.5, clip_norm=CLIP)
    mechanism.delta = DELTA
    mechanism.release({"mill": np.zeros((N, 2))}, (N,))
    text = mechanism.statement(mechanism.account.spent(DELTA), ["mill"], N)
    mu = 2 * CLIP / 8.0
    assert_allclose(number(text, "at most epsilon = "), gaussian_epsilon(mu, DELTA), rtol=FOUR)
    assert "each clipped to the public radius 2," in text
    spent = PrivacySpent(1.0, 1e-6, 0.5, "event")
    text = record_statement(Scope("event"), spent, 9.0, [], N)
    assert "each clipped to a public ball," in text
    assert "composition of 0 releases" in text


@pytest.mark.parametrize("leaking", [["mill"], ["mill", "kiln"]])
def test_bounds_from_the_data_are_named_and_nothing_is_promised(leaking):
    account = GaussianMechanism().account
    records = {"mill": np.eye(3), "kiln": np.ones((3, 2))}
    with pytest.warns(UserWarning, match="NOT private"):
        GaussianMechanism(mu=1.0, accountant=account).release({n: records[n] for n in leaking}, (3,))
    mechanism = GaussianMechanism(mu=1.0, clip_norm=1.0, accountant=account)
    mechanism.release({"oven": np.ones((3, 1))}, (3,))
    spent = account.spent(DELTA)
    text = mechanism.statement(spent, ["mill", "kiln", "oven"], 3)
    assert text.startswith(f"NOT PRIVATE: clip_norm was taken from the data of {', '.join(leaking)}, so")
    spent = account.spent(DELTA, ["oven"])
    assert mechanism.statement(spent, ["oven"], 3).startswith("Differentially private per event")


@pytest.mark.parametrize("unit", ["flag pair", "event"])
def test_responses_are_told_as_every_outcome_makes_them(unit):
    mechanism, n, delta = RandomizedResponse(epsilon=0.4, unit=unit), 6, 0.02
    for _ in range(2):
        mechanism.release({"mill": np.zeros((n, 2), dtype=bool)})
    text = mechanism.statement(mechanism.account.spent(delta), ["mill"], n)
    expected = response_epsilon(0.4, 4, 2 * (n if unit == "event" else 1), delta)
    assert_allclose(number(text, "at most epsilon = "), expected, rtol=FOUR)
    assert number(text, ", delta = ") == delta
    assert f"per {unit} (replace): " in text


def test_the_papers_total_and_the_exact_one():
    """A unit whose states are its measurements: no memory, a gain of one, the worst measurement known."""
    mechanism = TrainingMechanism(epsilon=0.9, delta=DELTA, clip_norm=CLIP, protocol="paper")
    K, F = np.eye(2), np.zeros((2, 2))
    noise = PaperNoise.calibrated(mechanism, "mill", np.zeros((N, 2)), [F], [K])
    mechanism.account.charge([noise.charge("mill", 7)], mechanism.scope)
    text = mechanism.statement(mechanism.account.spent(DELTA), ["mill"], N)
    assert number(text, "noise for epsilon = ") == 0.9
    assert "7 rounds of two messages" in text
    assert_allclose(number(text, "rounds of two messages make epsilon = "), 2 * 7 * 0.9, rtol=FOUR)
    std = 2 * CLIP * np.sqrt(2 * np.log(1.25 / DELTA)) / 0.9  # sent in seven rounds, filtered and augmented
    mu = np.sqrt(2 * 7) * 2 * CLIP / std
    assert_allclose(number(text, "(mu = "), mu, rtol=FOUR)
    assert_allclose(number(text, "at most epsilon = "), gaussian_epsilon(mu, DELTA), rtol=FOUR)
    assert re.findall(r"delta = (\d[\de.-]*\d)", text) == ["1e-05", "1e-05"]


def test_gradients_of_a_trusted_server():
    """All gradients of all steps, rounds and recipients move from one end of the clip to the other."""
    mechanism = TrainingMechanism(epsilon=1.5, delta=DELTA, trust="server", gradient_clip=0.125)
    steps, rounds, units = 40, 3, 2
    guard = GradientGuard.calibrated(0.125, mechanism.mu_of_release(), steps, rounds, units, 4)
    mechanism.account.charge([guard.charge(name) for name in ("mill", "kiln")], mechanism.scope)
    text = mechanism.statement(mechanism.account.spent(DELTA), ["mill", "kiln"], N)
    ends = np.full((rounds, units, steps, 1), 0.125)
    mu = np.linalg.norm(ends + ends) / guard.std
    assert_allclose(number(text, "(mu = "), mu, rtol=FOUR)
    assert_allclose(number(text, "at most epsilon = "), gaussian_epsilon(mu, DELTA), rtol=FOUR)
    assert number(text, "clipped to norm ") == 0.125
