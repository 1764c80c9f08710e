"""The account: additive where it should be, shared by reference, refusing what it cannot count."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from skfedcausal import GaussianMechanism, PrivacyAccountant, RandomizedResponse
from skfedcausal.privacy import Charge, PrivacyBudgetError, Scope, epsilon_from_mu, mu_from_epsilon
from skfedcausal.privacy.calibration import composed_epsilon

EVENT = Scope("event")


def gaussian(mu, client="boiler", **details):
    return Charge(client, "measurement", mu=mu, **details)


def test_k_equal_releases_cost_as_one_with_less_noise():
    account = PrivacyAccountant()
    for _ in range(9):
        account.charge([gaussian(0.2)], EVENT)
    spent = account.spent(1e-6)
    assert_allclose(spent.mu, 0.6, rtol=1e-12)
    assert_allclose(spent.epsilon, epsilon_from_mu(0.6, 1e-6), rtol=1e-12)
    counted = PrivacyAccountant()
    counted.charge([gaussian(0.2, count=9)], EVENT)
    assert_allclose(counted.spent(1e-6).epsilon, spent.epsilon, rtol=1e-12)


def test_order_does_not_matter_and_more_costs_more():
    charges = [
        gaussian(0.3),
        gaussian(0.7),
        Charge("boiler", "flag", "randomized response", epsilon=0.2, n_categories=4, count=30),
        Charge("boiler", "flag", "randomized response", epsilon=0.5, n_categories=4, count=3),
    ]
    totals = []
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        account = PrivacyAccountant()
        before = 0.0
        for k in order:
            account.charge([charges[k]], EVENT)
            after = account.spent(1e-6).epsilon
            assert after > before
            before = after
        totals.append(before)
    assert_allclose(totals, totals[0], rtol=1e-10)


def test_the_worst_client_is_reported_and_every_client_has_its_own_total():
    account = PrivacyAccountant()
    account.charge([gaussian(0.2, "a"), gaussian(0.5, "b")], EVENT)
    spent = account.spent(1e-6)
    assert spent.mu == 0.5
    assert spent.per_client["a"]["mu"] == 0.2
    assert account.spent(1e-6, ["a"]).mu == 0.2


def test_a_budget_refuses_before_and_takes_nothing():
    account = PrivacyAccountant(epsilon=1.0, delta=1e-6)
    mu = mu_from_epsilon(1.0, 1e-6)
    account.charge([gaussian(mu / 2, "a"), gaussian(mu, "b")], EVENT)  # exactly all of b's
    table = account.table
    with pytest.raises(PrivacyBudgetError, match=r"client 'b' to epsilon = 1\.\d+ .* budget is 1, of which 1 is"):
        account.charge([gaussian(mu / 10, "a"), gaussian(mu / 10, "b")], EVENT)
    assert account.table.equals(table)
    account.charge([gaussian(mu / 10, "a")], EVENT)


def test_what_leaves_without_noise_costs_everything():
    account = PrivacyAccountant()
    account.charge([gaussian(np.inf, bound="data")], EVENT)
    assert account.spent(1e-6).epsilon == np.inf
    with pytest.raises(PrivacyBudgetError):
        PrivacyAccountant(5.0, 1e-6).charge([gaussian(np.inf)], EVENT)


def test_gaussian_noise_promises_nothing_at_delta_zero():
    account = PrivacyAccountant()
    assert account.spent().epsilon == 0.0
    account.charge([gaussian(0.1)], EVENT)
    assert account.spent().epsilon == np.inf
    assert account.spent().delta == 0.0


def test_promises_about_different_units_are_not_added():
    account = PrivacyAccountant()
    account.charge([gaussian(0.1)], EVENT)
    for other in (Scope("client"), Scope("event", "zero_out"), Scope("window", window=3)):
        with pytest.raises(ValueError, match="does not add up"):
            account.charge([gaussian(0.1)], other)


def test_an_event_pays_for_one_period_and_a_client_for_all():
    for unit, expected in (("event", 0.5), ("client", np.sqrt(3) * 0.5)):
        account = PrivacyAccountant()
        for _ in range(3):
            account.charge([gaussian(0.5)], Scope(unit))
            account.new_period()
        assert_allclose(account.spent(1e-6).mu, expected)


def test_the_budget_of_a_period_is_its_own():
    account = PrivacyAccountant(1.0, 1e-6)
    mu = mu_from_epsilon(1.0, 1e-6)
    account.charge([gaussian(mu)], EVENT)
    with pytest.raises(PrivacyBudgetError):
        account.charge([gaussian(mu)], EVENT)
    account.new_period()
    account.charge([gaussian(mu)], EVENT)


@pytest.mark.parametrize("how", [clone, copy.copy, copy.deepcopy])
def test_copies_are_the_account_itself(how):
    account = PrivacyAccountant()
    assert how(account) is account
    for mechanism in (GaussianMechanism(accountant=account), RandomizedResponse(accountant=account)):
        assert how(mechanism).account is account
        assert how(mechanism) is not mechanism


@pytest.mark.parametrize("how", [clone, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("kind", [GaussianMechanism, RandomizedResponse])
def test_a_mechanism_without_an_accountant_shares_its_own_with_its_copies(kind, how):
    mechanism = kind(epsilon=1.0)
    assert how(mechanism).account is how(how(mechanism)).account is mechanism.account
    assert kind(epsilon=1.0).account is not mechanism.account


@pytest.mark.parametrize("thing", [PrivacyAccountant(), GaussianMechanism(), RandomizedResponse()])
def test_pickling_is_refused(thing):
    with pytest.raises(TypeError, match="copy in another process would lose its charges"):
        pickle.dumps(thing)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [((1.0,), "needs the `delta`"), ((0.0, 1e-6), "epsilon=0.0"), ((1.0, 2.0), "delta=2.0")],
)
def test_budgets_that_mean_nothing_are_refused(arguments, problem):
    with pytest.raises(ValueError, match=problem):
        PrivacyAccountant(*arguments)


def test_a_charge_that_says_nothing_is_one_response_without_loss_in_the_first_period():
    charge = Charge("a", "flag")
    assert (charge.mu, charge.epsilon, charge.n_categories, charge.count, charge.period) == (0, 0, 2, 1, 0)
    assert Charge("a", "flag", epsilon=1.0, count=0).count == 0  # no rows, no responses


@pytest.mark.parametrize("wrong", [{"mu": -1.0}, {"mu": np.nan}, {"epsilon": -0.1}, {"count": -1}])
def test_charges_cannot_be_negative(wrong):
    with pytest.raises(ValueError, match="cannot be negative"):
        Charge("a", "measurement", **wrong)


def test_the_table_names_every_charge():
    account = PrivacyAccountant()
    account.charge([gaussian(0.3, sensitivity=2.0, noise_std=6.0)], EVENT)
    row = account.table.iloc[0]
    assert (row["client"], row["channel"], row["mechanism"], row["bound"]) == (
        "boiler",
        "measurement",
        "gaussian",
        "public",
    )
    assert row["mu"] == pytest.approx(row["sensitivity"] / row["noise_std"], rel=0.2)


def test_names_of_records_depend_on_every_part_and_on_the_account():
    account = PrivacyAccountant()
    Y = np.arange(6.0)
    keys = [
        account.key_of("a", Y),
        account.key_of("a", Y.reshape(2, 3)),
        account.key_of("b", Y),
        account.key_of("a", Y + 1e-15),
    ]
    assert len({*keys, account.key_of("aa", Y)}) == 5
    assert account.key_of("a", Y.copy()) == keys[0]
    assert PrivacyAccountant().key_of("a", Y) != keys[0]


def test_units_that_change_together_have_noise_of_their_own():
    account = PrivacyAccountant()
    response = Charge("boiler", "flag", "randomized response", epsilon=0.2, n_categories=4, count=3)
    account.charge([gaussian(0.3), response], EVENT)
    many = PrivacyAccountant()
    many.charge([gaussian(0.3, count=50), Charge("boiler", "flag", epsilon=0.2, n_categories=4, count=150)], EVENT)
    found, expected = account.spent(1e-6, times=50), many.spent(1e-6)
    assert_allclose((found.epsilon, found.mu), (expected.epsilon, expected.mu), rtol=1e-12)
    assert account.spent(1e-6).epsilon < found.epsilon
    assert account.table["count"].tolist() == [1, 3]


def test_responses_of_one_kind_are_one_group_and_those_of_another_are_not():
    account = PrivacyAccountant()
    for epsilon, n_categories, count in ((0.2, 4, 2), (0.2, 2, 1), (0.2, 4, 3)):
        charge = Charge("boiler", "flag", epsilon=epsilon, n_categories=n_categories, count=count)
        account.charge([charge], EVENT)
    expected = composed_epsilon(0.0, [(0.2, 4, 5), (0.2, 2, 1)], 1e-3)
    assert_allclose(account.spent(1e-3).epsilon, expected, rtol=1e-12)
    assert expected < composed_epsilon(0.0, [(0.2, 2, 6)], 1e-3)


def test_what_would_be_spent_counts_in_this_period():
    account = PrivacyAccountant(delta=1e-6)
    account.charge([gaussian(0.4)], EVENT)
    assert_allclose(account.spent_with([gaussian(0.3)], EVENT).mu, 0.5)
    assert account.spent_with([gaussian(0.3, "mill")], EVENT).per_client["mill"]["mu"] == 0.3
    account.new_period()
    assert account.spent_with([gaussian(0.3)], EVENT).mu == 0.4
    assert account.spent_with([gaussian(0.3)], Scope("client"), delta=1e-3).mu == 0.5
    assert len(account) == 1
    assert PrivacyAccountant().spent_with([gaussian(0.3)], EVENT, 1e-6).unit == "event"


@pytest.mark.medium
def test_the_same_charge_again_is_counted_where_it_is_asked_for():
    account = PrivacyAccountant()
    for mu in (0.1, 0.2, 0.1, 0.1):
        account.charge([gaussian(mu)], EVENT, repeated=True)
    assert account.table[["mu", "count"]].to_numpy().tolist() == [[0.1, 3], [0.2, 1]]
    account.charge([gaussian(0.1, "mill"), gaussian(0.1, count=5)], EVENT, repeated=True)
    assert account.table["count"].tolist() == [8, 1, 1]
    account.new_period()
    account.charge([gaussian(0.1)], EVENT, repeated=True)
    account.charge([gaussian(0.1)], EVENT)
    assert account.table["count"].tolist() == [8, 1, 1, 1, 1]
    assert account.table["period"].tolist() == [0, 0, 0, 1, 1]


def test_a_budget_is_spent_to_the_last_and_not_beyond():
    mu = mu_from_epsilon(2.0, 1e-6)
    for more, fits in ((1.0, True), (1 + 1e-13, True), (1 + 1e-10, False)):
        account = PrivacyAccountant(2.0, 1e-6)
        try:
            account.charge([gaussian(mu * more)], EVENT)
        except PrivacyBudgetError:
            assert not fits
        assert len(account) == fits
        assert account.scope == (EVENT if fits else None)


def test_each_client_has_a_budget_and_its_charges():
    account = PrivacyAccountant(2.0, 1e-6)
    mu = mu_from_epsilon(2.0, 1e-6)
    account.charge([gaussian(mu, "a"), gaussian(mu, "b"), gaussian(0.0, "a")], EVENT)
    assert [charge.mu for charge in account.charges_of(["a"])] == [mu, 0.0]
    assert len(account.charges_of(["a", "b"])) == 3
    assert account.charges_of([]) == []
    with pytest.raises(PrivacyBudgetError, match="client 'a'"):
        account.charge([gaussian(mu / 2, "c"), gaussian(mu / 3, "a")], EVENT)
    account.charge([gaussian(mu / 2, "c"), gaussian(mu / 2, "c")], EVENT)
    assert_allclose(account.spent(clients=["c"]).mu, mu / np.sqrt(2))
    for nobody in ([], ["d"]):
        assert (account.spent(clients=nobody).epsilon, account.spent(clients=nobody).mu) == (0.0, 0.0)


def test_delta_is_that_of_the_question_or_of_the_budget():
    account = PrivacyAccountant(9.0, 1e-4)
    account.charge([gaussian(0.5)], EVENT)
    assert account.spent().delta == 1e-4
    assert_allclose(account.spent().epsilon, epsilon_from_mu(0.5, 1e-4), rtol=1e-12)
    assert_allclose(account.spent(1e-7).epsilon, epsilon_from_mu(0.5, 1e-7), rtol=1e-12)
    assert account.spent(0.0).epsilon == np.inf
    assert PrivacyAccountant().spent().unit == "none"


def test_periods_are_numbered_and_the_dearest_counts():
    account = PrivacyAccountant()
    for period, mu in enumerate((0.3, 0.5, 0.4)):
        assert account.period == period
        account.charge([gaussian(mu)], EVENT)
        assert account.new_period() == period + 1
    assert account.spent(1e-6).mu == 0.5
    assert account.spent(1e-6, times=4).mu == 1.0


def test_scopes_say_what_they_are_about():
    assert str(Scope("window", window=7)) == "window of 7 time steps (replace)"
    assert str(Scope("client", "zero_out")) == "client (zero_out)"


def test_gaps_empty_records_and_words_have_names_too():
    account = PrivacyAccountant()
    parts = [
        "a",
        1,
        1.0,
        np.array([]),
        np.zeros((0, 2)),
        np.zeros((2, 0)),
        np.array([np.nan]),
        np.array([True]),
    ]
    assert len({account.key_of(part) for part in parts}) == len(parts)
    Y = np.arange(12.0).reshape(3, 4)
    assert account.key_of(Y.T) == account.key_of(np.ascontiguousarray(Y.T))
    assert account.key_of("ab", "c") != account.key_of("a", "bc")
