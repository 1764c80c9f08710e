"""Randomised response of pairs of flags."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import IndependentFlips, PrivacyAccountant, RandomizedResponse
from skfedcausal.privacy import (
    PrivacyBudgetError,
    SeededNoiseWarning,
    WeakPrivacyWarning,
    randomized_response_composition,
)
from skfedcausal.privacy import mechanism as randomized_response
from skfedcausal.privacy.mechanism import pair_frequencies

from ._audit import response_epsilon

pytestmark = pytest.mark.filterwarnings("ignore::skfedcausal.privacy.SeededNoiseWarning")
PAIRS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=bool)


def received(mechanism, pair, n, name="boiler"):
    answers = mechanism.release({name: np.tile(pair, (n, 1))})[name]
    return 2 * answers[:, 0] + answers[:, 1]


@pytest.mark.parametrize(("epsilon", "correct"), [(1.0, 0.475), (2.0, 0.711), (4.0, 0.948)])
def test_more_pairs_survive_than_with_two_independent_flips(epsilon, correct):
    confusion = RandomizedResponse(epsilon=epsilon).confusion
    assert_allclose(np.diag(confusion), correct, atol=5e-4)
    flip = 1 / (1 + np.exp(-epsilon / 2))
    assert (np.diag(confusion) > flip**2).all()
    assert_allclose(confusion.sum(axis=1), 1)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
def test_no_answer_is_more_than_e_epsilon_times_as_likely_and_the_bound_is_reached(epsilon):
    confusion = RandomizedResponse(epsilon=epsilon).confusion
    ratios = np.log(confusion[:, None, :] / confusion[None, :, :])
    assert_allclose(ratios.max(), epsilon, rtol=1e-12)


@pytest.mark.parametrize("lies", [1.0, 0.5], ids=["as it is", "half the lies"])
def test_no_attack_learns_more_than_promised_and_half_the_lies_are_caught(lies, monkeypatch):
    epsilon, n = 1.0, 10_000
    mechanism = RandomizedResponse(epsilon=epsilon, random_state=0)
    if lies < 1:
        kept = 1 - lies * (1 - mechanism.confusion[0, 0])
        monkeypatch.setattr(randomized_response, "_chances", lambda epsilon: (kept, (1 - kept) / 3))
    for k, other in ((0, 3), (1, 2)):
        found = response_epsilon(received(mechanism, PAIRS[k], n, "a"), received(mechanism, PAIRS[other], n, "b"), 4)
        assert (found > epsilon) == (lies < 1)


def test_answers_have_the_stated_probabilities_for_every_pair():
    mechanism, n = RandomizedResponse(epsilon=1.5, random_state=1), 40_000
    for k, pair in enumerate(PAIRS):
        shares = np.bincount(received(mechanism, pair, n), minlength=4) / n
        assert np.abs(shares - mechanism.confusion[k]).max() < 5 * 0.5 / np.sqrt(n)


def test_frequencies_of_the_true_pairs_are_recovered_without_bias():
    mechanism, rng = RandomizedResponse(epsilon=1.0, random_state=2), np.random.default_rng(0)
    truth = rng.choice(4, p=[0.9, 0.02, 0.03, 0.05], size=100_000)
    answers = mechanism.release({"a": PAIRS[truth]})["a"]
    shares = pair_frequencies(mechanism, answers)
    assert shares.sum() == pytest.approx(1)
    p = mechanism.confusion[0, 0]
    q = (1 - p) / 3
    assert np.abs(shares - np.bincount(truth) / len(truth)).max() < 5 * 0.5 / (p - q) / np.sqrt(len(truth))


def test_flags_of_the_same_record_are_answered_once():
    mechanism = RandomizedResponse(epsilon=1.0)
    flags = {"a": np.zeros((200, 2), dtype=bool), "b": np.ones((200, 2), dtype=bool)}
    records = {name: np.arange(200.0) for name in flags}
    first = mechanism.release(flags, records=records)
    again = mechanism.release(flags, records={name: Y.copy() for name, Y in records.items()})
    for name in flags:
        assert_array_equal(first[name], again[name])
    assert len(mechanism.account) == 2
    assert mechanism.account.spent(0.0).epsilon == pytest.approx(1.0)
    assert mechanism.account.spent().unit == "flag pair"


@pytest.mark.parametrize("other", [{}, {"records": {"a": np.ones(200)}}, {"flagger": "another"}])
def test_equal_flags_of_something_else_get_answers_of_their_own(other):
    """Or else answers that agree to the last would show that the flags do."""
    mechanism = RandomizedResponse(epsilon=1.0)
    flags, asked = {"a": np.zeros((200, 2), dtype=bool)}, {"records": {"a": np.zeros(200)}}
    first = mechanism.release(flags, **asked)["a"]
    second = mechanism.release(flags, **(asked | other if other else {}))["a"]
    assert (first != second).any()
    assert mechanism.account.spent(0.0).epsilon == pytest.approx(2.0)


def test_a_measurement_can_move_every_later_pair():
    """Per event the pairs of a whole record count together."""
    mechanism = RandomizedResponse(epsilon=0.01, unit="event")
    mechanism.release({"a": np.zeros((500, 2), dtype=bool)})
    expected = randomized_response_composition(0.01, 500, 1e-6, n_categories=4)
    assert mechanism.account.spent(1e-6).epsilon == pytest.approx(expected)
    assert "through every flag" in mechanism.statement(mechanism.account.spent(1e-6), ["a"], 500)


def test_a_budget_holds_for_flags_too():
    account = PrivacyAccountant(1.5, 1e-9)
    mechanism = RandomizedResponse(epsilon=1.0, accountant=account)
    mechanism.release({"a": np.zeros((5, 2), dtype=bool)})
    with pytest.raises(PrivacyBudgetError):
        mechanism.release({"a": np.ones((5, 2), dtype=bool)})


def test_seeded_answers_warn():
    with pytest.warns(SeededNoiseWarning):
        RandomizedResponse(epsilon=1.0, random_state=0).release({"a": np.zeros((5, 2), dtype=bool)})


@pytest.mark.parametrize("flags", [np.zeros((5, 2)), np.zeros((5, 3), dtype=bool), np.zeros(5, dtype=bool)])
def test_flags_that_are_no_pairs_are_refused(flags):
    with pytest.raises(ValueError, match=r"booleans of shape \(n_samples, 2\)"):
        RandomizedResponse(epsilon=1.0).release({"a": flags})


def test_there_is_no_default_epsilon():
    with pytest.raises(ValueError, match="no default"):
        RandomizedResponse().release({"a": np.zeros((5, 2), dtype=bool)})


# --- every outcome by brute force ---------------------------------------------------------------------


def outcomes(mechanism, truth):
    """Probability of every sequence of answers to a few pairs, shape (4,) * n_pairs."""
    joint = np.ones(())
    for pair in truth:
        joint = np.multiply.outer(joint, mechanism.confusion[2 * pair[0] + pair[1]])
    return joint


@pytest.mark.parametrize(("unit", "changed"), [("flag pair", 1), ("event", 3)])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.05])
def test_what_is_paid_is_exactly_what_the_answers_give_away(unit, changed, delta):
    mechanism = RandomizedResponse(epsilon=0.8, unit=unit)
    truth = PAIRS[[0, 2, 3]]
    mechanism.release({"a": truth})
    epsilon, worst = mechanism.account.spent(delta).epsilon, 0.0
    p = outcomes(mechanism, truth.astype(int))
    for codes in np.ndindex(4, 4, 4):
        other = PAIRS[list(codes)]
        if (other != truth).any(axis=1).sum() > changed:
            continue
        q = outcomes(mechanism, other.astype(int))
        worst = max(worst, np.maximum(p - np.exp(epsilon) * q, 0).sum())
    assert_allclose(worst, delta, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("unit", ["flag pair", "event"])
def test_a_stream_of_flags_costs_what_its_pairs_do(unit):
    mechanism, flags = RandomizedResponse(epsilon=0.8, unit=unit), {"a": np.zeros((5, 2), dtype=bool)}
    stream = mechanism.stream({"a": mechanism.noise_of("a", flags["a"])})
    told = [stream.release(flags) for _ in range(3)]
    assert [charged for _, charged in told] == [True, unit == "event", unit == "event"]
    assert all(answers["a"].shape == (5, 2) for answers, _ in told)
    assert mechanism.account.spent(0.0).epsilon == pytest.approx(0.8 * (15 if unit == "event" else 1))


def test_asking_costs_what_was_said_before_and_may_be_noisier_than_asked():
    mechanism, flags = RandomizedResponse(epsilon=2.0), {"a": np.zeros((4000, 2), dtype=bool)}
    (charge,) = mechanism.cost(flags, (4000,))
    assert (charge.epsilon, charge.count, charge.n_categories, charge.channel) == (2.0, 1, 4, "flag")
    assert len(mechanism.account) == 0
    answers = mechanism.release(flags, noise={"a": 0.5})["a"]
    assert mechanism.account.spent(0.0).epsilon == 0.5
    kept = np.exp(0.5) / (np.exp(0.5) + 3)
    assert abs((~answers).all(axis=1).mean() - kept) < 5 * 0.5 / np.sqrt(4000)
    records = {"a": np.zeros(3)}
    first = mechanism.release(flags, records=records)["a"]
    assert (mechanism.release(flags, records=records, noise={"a": 0.5})["a"] != first).any()
    assert_array_equal(mechanism.release(flags, records=records | {"b": np.ones(3)})["a"], first)


def test_large_epsilons_are_said_to_say_little():
    with pytest.warns(WeakPrivacyWarning, match=r"epsilon = 10\.5 .* one protected pair of flags"):
        RandomizedResponse(epsilon=10.5).release({"a": np.zeros((5, 2), dtype=bool)})


def test_independent_flips_are_the_third_papers_mechanism():
    """Theorem 7.3: each flag kept with e^eps/(1 + e^eps) of its part, and the parts add up."""
    mechanism = IndependentFlips(epsilon=2.0, share=0.25, random_state=0)
    p = 1 / (1 + np.exp(-np.array([0.5, 1.5])))
    np.testing.assert_allclose(mechanism.kept, p)
    ratios = mechanism.confusion[:, None] / mechanism.confusion[None]
    np.testing.assert_allclose(np.log(ratios).max(), 2.0)
    np.testing.assert_allclose(mechanism.confusion.sum(axis=1), 1.0)
    told = mechanism.release({"unit0": np.zeros((20_000, 2), dtype=bool)})["unit0"]
    error = 4 * np.sqrt(p * (1 - p) / 20_000)
    assert (np.abs(1 - told.mean(axis=0) - p) < error).all()


def test_independent_flips_are_charged_no_less_than_they_lose():
    """One pair costs epsilon; many cost no less than the exact loss of the two flags."""
    mechanism = IndependentFlips(epsilon=1.0)
    charge = mechanism.charge_of("unit0", 1.0, 10)
    assert (charge.epsilon, charge.n_categories, charge.count) == (1.0, 2, 1)
    one = randomized_response_composition(0.5, 20, 1e-5)
    bound = randomized_response_composition(1.0, 10, 1e-5)
    assert bound >= one
