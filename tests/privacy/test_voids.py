"""Whatever makes a promise void is said first, and makes the epsilon that was spent infinite."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal import (
    Evidence,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    RandomizedResponse,
    inspection,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.privacy import NoiseOptions, PrivacyAccountant, PrivacyBudgetError, Scope
from skfedcausal.privacy.promise import chosen_sampler

from ._words import gaussian_epsilon, number

pytestmark = pytest.mark.filterwarnings(
    *(f"ignore::skfedcausal.privacy.{name}" for name in ("UtilityWarning", "SeededNoiseWarning", "WeakPrivacyWarning")),
    "ignore::skfedcausal.privacy.PrivacyLeakWarning",
    "ignore:One false alarm per",
)
X, _ = make_granger_plant(2, n_samples=300, random_state=0)
SETTINGS = {"epsilon": 2.0, "delta": 1e-6, "clip_norm": 25.0, "event_radius": 3.0}
VOIDS = {
    "seed": {"random_state": 42},
    "clip_norm was taken": {"clip_norm": None},
    "event_radius is below": {"event_radius": 1e-9},
    "delta is above": {"delta": 0.9999},
}


@pytest.mark.parametrize("case", VOIDS)
def test_a_void_promise_begins_with_not_private_and_costs_everything(case):
    fitted = FederatedGrangerEstimator(privacy=GaussianMechanism(**SETTINGS | VOIDS[case])).fit(X)
    assert fitted.privacy_statement_.startswith("NOT PRIVATE: ")
    assert case in fitted.privacy_statement_
    assert fitted.privacy_spent_.epsilon == np.inf
    assert {spent["epsilon"] for spent in fitted.privacy_spent_.per_client.values()} == {np.inf}


def test_without_any_of_these_the_promise_stands():
    fitted = FederatedGrangerEstimator(privacy=GaussianMechanism(**SETTINGS)).fit(X)
    assert fitted.privacy_statement_.startswith("Differentially private per event")
    assert_allclose(fitted.privacy_spent_.epsilon, 2.0, rtol=1e-9)
    assert "sampler 'float-grid'" in fitted.privacy_statement_ or "sampler 'opendp'" in fitted.privacy_statement_
    assert "other accounts" in fitted.privacy_statement_


def test_several_reasons_are_all_told():
    privacy = GaussianMechanism(**SETTINGS | VOIDS["seed"] | VOIDS["delta is above"])
    words = FederatedGrangerEstimator(privacy=privacy).fit(X).privacy_statement_
    assert "seeded" in words
    assert "delta is above" in words


def test_flags_with_a_seed_promise_nothing():
    privacy = RandomizedResponse(epsilon=2.0, random_state=0)
    detector = FederatedRCADetector(privacy=privacy, evidence=Evidence("flags", n_steps=20)).fit(X)
    inspection.flags(detector, X)
    assert detector.privacy_statement_.startswith("NOT PRIVATE: the noise of unit0, unit1 is seeded")
    assert detector.privacy_spent_.epsilon == np.inf


def test_a_budget_refuses_a_void_release_and_says_why():
    privacy = GaussianMechanism(**SETTINGS | VOIDS["delta is above"], accountant=PrivacyAccountant(50.0, 1e-6))
    with pytest.raises(PrivacyBudgetError, match=r"inf.*delta is above one over"):
        privacy.release({"mill": X["unit0"]}, (300,))


def test_the_same_numbers_under_other_names_are_one_client():
    privacy = GaussianMechanism(**SETTINGS, accountant=PrivacyAccountant())
    Y, k = X["unit0"], 50
    drawn = [privacy.release({f"n{j}": Y}, (300,))[f"n{j}"].values for j in range(k)]
    mu = np.sqrt(k) * privacy.mu_of_release()
    spent = privacy.account.spent(1e-6)
    assert_allclose(spent.epsilon, gaussian_epsilon(mu, 1e-6), rtol=1e-6)
    assert np.std(np.mean(drawn, axis=0) - Y) < np.std(drawn[0] - Y) / 5  # what this is about
    words = privacy.statement(privacy.account.spent(1e-6, ["n7"]), ["n7"], 300)
    assert_allclose(number(words, "at most epsilon = "), spent.epsilon, rtol=1e-3)
    assert "50 releases" in words


def test_a_part_of_the_columns_is_the_same_client_too():
    privacy = GaussianMechanism(**SETTINGS, accountant=PrivacyAccountant())
    privacy.release({"mill": X["unit0"]}, (300,))
    privacy.release({"press": X["unit0"][:, ::-1][:, :1]}, (300,))
    assert_allclose(privacy.account.spent(1e-6).mu, np.sqrt(2) * privacy.mu_of_release(), rtol=1e-6)


def test_a_budget_counts_the_same_numbers_once():
    privacy = GaussianMechanism(**SETTINGS, accountant=PrivacyAccountant(2.05, 1e-6))
    privacy.release({"n0": X["unit0"]}, (300,))
    with pytest.raises(PrivacyBudgetError, match="'n1'"):
        privacy.release({"n1": X["unit0"]}, (300,))
    privacy.release({"other": X["unit1"]}, (300,))  # other numbers have a budget of their own


def test_columns_that_do_not_move_belong_to_nobody():
    privacy = GaussianMechanism(**SETTINGS, accountant=PrivacyAccountant())
    for name in ("mill", "press"):
        privacy.release({name: np.zeros((300, 2))}, (300,))
    assert_allclose(privacy.account.spent(1e-6).epsilon, 2.0, rtol=1e-6)


@pytest.mark.parametrize("radius", [1e-9, 1e-4, 3.0])
def test_a_radius_is_judged_by_the_measurements_in_units_of_their_scale(radius):
    scaled = GaussianMechanism(noise=NoiseOptions(scale=1e-3), **SETTINGS | {"event_radius": radius})
    scaled.release({"mill": 1e-3 * X["unit0"]}, (300,))
    assert np.isinf(scaled.account.spent(1e-6).epsilon) == (radius < 1)


def test_several_accounts_of_the_same_data_add_up_in_words():
    """Three mechanisms without an account of theirs in common: each statement says what they cost together."""
    same, other = np.random.default_rng(20).normal(size=(2, 300, 4))  # data of no other test of this process
    ones = [GaussianMechanism(**SETTINGS) for _ in range(3)]
    for k, one in enumerate(ones):
        one.release({f"n{k}": same, "other": other + k}, (300,))
    for k, one in enumerate(ones):
        spent = one.account.spent(1e-6)
        words = one.statement(spent, [f"n{k}", "other"], 300)
        assert_allclose(spent.epsilon, 2.0, rtol=1e-6)
        assert "2 other accounts of this process released the same data" in words
        expected = gaussian_epsilon(np.sqrt(3) * one.mu_of_release(), 1e-6)
        assert_allclose(number(words, "differentially private at epsilon = "), expected, rtol=1e-3)
    del one, ones[1:]
    assert "other account" not in ones[0].statement(spent, ["n0"], 300).replace("by other accounts add", "")


def test_accounts_of_other_data_or_units_do_not_add_up():
    first, second = GaussianMechanism(**SETTINGS), GaussianMechanism(**SETTINGS)
    data = np.random.default_rng(21).normal(size=(300, 4))  # of no other test of this process
    first.release({"mill": data + 1}, (300,))
    second.release({"mill": data + 2}, (300,))
    assert "NOTE" not in second.statement(second.account.spent(1e-6), ["mill"], 300)
    third = GaussianMechanism(**SETTINGS | {"protects": Scope("window", window=5)})
    third.release({"mill": data + 2}, (300,))
    assert "under another protected unit" in third.statement(third.account.spent(1e-6), ["mill"], 300)


def test_an_exact_sampler_is_taken_where_it_is_installed(monkeypatch):
    for found, expected in ((None, "float-grid"), (object(), "opendp")):
        monkeypatch.setattr("importlib.util.find_spec", lambda name, found=found: found)
        assert chosen_sampler("auto", None) == expected
        assert chosen_sampler("auto", 3) == "float-grid"
        assert chosen_sampler("float-grid", None) == "float-grid"
