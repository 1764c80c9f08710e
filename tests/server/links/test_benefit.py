"""Held-out gains from joining: zero without coupling, half of Geweke's measure with it."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodOptions, LikelihoodServer, inspection
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.links.questions import benefit, connected, split_messages
from skfedcausal.statespace.episodes import mean_with_error
from skfedcausal.statespace.matrices import Partition

CHAIN = [("unit0", "unit1"), ("unit1", "unit2")]


def messages_of(X, lengths=None):
    return {
        name: KalmanClient().fit(Y, lengths=lengths).message(Y, lengths=lengths, const=True) for name, Y in X.items()
    }


@pytest.fixture(scope="module")
def chain():
    X, _ = make_granger_plant(3, n_samples=8000, links=CHAIN, link_strength=0.5, random_state=0)
    return messages_of(X)


@pytest.fixture(scope="module")
def plant(chain):
    return LikelihoodServer().fit(chain)


def with_patterns(message, J, rows):
    """The message with another information matrix in some rows; nothing was measured where it is zero."""
    index = np.zeros(len(message.z), dtype=int)
    index[rows] = 1
    z = message.z.copy()
    if not J.any():
        z[rows] = 0.0
    return replace(message, z=z, patterns=np.stack([message.patterns[0], J]), index=index)


@pytest.mark.parametrize("t", [0, 1, 2, 40])
def test_densities_of_a_unit_are_those_of_the_plant_when_the_others_are_absent_at_that_step(plant, chain, t):
    short = {name: message.rows(0, 50) for name, message in chain.items()}
    found = plant.filter(short).unit_log_densities()
    for m, name in enumerate(plant.names_):
        others = {
            other: with_patterns(message, np.zeros_like(message.patterns[0]), [t])
            for other, message in short.items()
            if other != name
        }
        own = short[name]
        others = {other: replace(message, const=np.zeros(50)) for other, message in others.items()}
        expected = plant.filter({name: own} | others).log_likelihood()[t] - own.const[t]
        assert found[t, m] == pytest.approx(expected, rel=1e-9)


def test_densities_with_changing_information_agree_with_those_of_a_constant_one(plant, chain):
    short = {name: message.rows(0, 200) for name, message in chain.items()}
    changing = {name: with_patterns(m, m.patterns[0], [3]) for name, m in short.items()}
    np.testing.assert_allclose(
        plant.filter(changing).unit_log_densities(), plant.filter(short).unit_log_densities(), atol=1e-9
    )


@pytest.mark.medium
def test_gain_from_a_neighbour_is_half_of_gewekes_measure(plant, chain):
    """The expectation of a log-density of D numbers is ``-1/2 (log|V| + D)`` less a constant."""
    pairs = benefit(plant, chain).by_pair().set_index(["cause", "effect"])
    measures = plant.links_.set_index(["cause", "effect"])["geweke"]
    for pair in CHAIN:
        found = pairs.loc[pair]
        assert found["gain"] > 4 * found["stderr"]
        assert abs(found["gain"] - measures[pair] / 2) < 4 * found["stderr"]


@pytest.mark.medium
def test_the_neighbour_that_acts_is_named(chain, plant):
    table = benefit(plant, chain).by_unit()
    assert table["neighbour"].to_dict() == {"unit0": "", "unit1": "unit0", "unit2": "unit1"}
    assert (table["rows"] == 2400).all()
    assert table.loc["unit1", "gain"] > 4 * table.loc["unit1", "stderr"]
    assert abs(table.loc["unit0", "gain"]) < 4 * table.loc["unit0", "stderr"] + 1e-9


@pytest.mark.slow
def test_nothing_is_gained_where_nothing_couples():
    """What is estimated for nothing costs the number of its parameters over twice the rows, no more."""
    gains = []
    for seed in range(8):
        X, _ = make_granger_plant(3, n_samples=2000, links=[], random_state=seed)
        messages = messages_of(X)
        sparse = benefit(LikelihoodServer().fit(messages), messages).by_unit()
        assert (sparse["gain"].abs() <= 4 * sparse["stderr"]).all()
        whole = LikelihoodServer(options=LikelihoodOptions(sparsity=None)).fit(messages)
        gains.extend(benefit(whole, messages).by_unit()["gain"])
    cost, error = 2 * 4 / (2 * 1400), np.std(gains) / np.sqrt(len(gains))
    assert -cost - 4 * error < np.mean(gains) < 4 * error


def test_a_unit_without_connections_gains_exactly_zero():
    A, Q = np.diag([0.5, 0.5, 0.5]), np.eye(3)
    A[1, 0] = 0.1
    expected = np.array([[True, True, False], [True, True, False], [False, False, True]])
    np.testing.assert_array_equal(connected(A, Q, Partition((1, 1, 1))), expected)
    X, _ = make_granger_plant(2, n_samples=500, links=[], random_state=3)
    messages = messages_of(X)
    table = benefit(LikelihoodServer(alpha=1e-6).fit(messages), messages).by_unit()
    assert (table[["gain", "stderr"]] == 0).all(axis=None)


@pytest.mark.medium
def test_gaps_and_episodes_count_the_rows_that_were_measured():
    X, _ = make_granger_plant(2, n_samples=1500, links=[(0, 1)], random_state=0)
    X["unit1"][1400:] = np.nan
    lengths = [700, 800]
    est = FederatedGrangerEstimator().fit(X, lengths=lengths)
    table = inspection.benefit(est, X, lengths=lengths)
    assert table.loc["unit0", "rows"] == 210 + 240
    assert table.loc["unit1", "rows"] == 210 + 140
    assert np.isfinite(table[["gain", "stderr"]]).all(axis=None)


def test_every_episode_is_split_at_its_own_end():
    X, _ = make_granger_plant(1, n_samples=30, random_state=0)
    message = KalmanClient(n_states=1).fit(X["unit0"]).message(X["unit0"])
    message = replace(message, lengths=(10, 20))
    head, tail = split_messages({"unit0": message}, 0.3)
    assert head["unit0"].lengths == (7, 14)
    assert tail["unit0"].lengths == (3, 6)
    rows = np.r_[0:7, 10:24]
    np.testing.assert_array_equal(head["unit0"].z, message.z[rows])
    np.testing.assert_array_equal(tail["unit0"].z, np.delete(message.z, rows, axis=0))


def message_of(*lengths):
    X, _ = make_granger_plant(1, n_samples=sum(lengths), random_state=0)
    message = KalmanClient(n_states=1).fit(X["unit0"]).message(X["unit0"])
    return {"unit0": replace(message, lengths=lengths)}


@pytest.mark.parametrize("held_out", [0, 1, -0.1])
def test_what_is_no_share_is_refused(plant, chain, held_out):
    with pytest.raises(ValueError, match="share between 0 and 1"):
        benefit(plant, chain, held_out=held_out)


def test_every_episode_keeps_a_row_in_either_part():
    for held_out in (0.24, 0.76):  # less than half of the two rows, or more than three halves
        with pytest.raises(ValueError, match=rf"\(20, 2\) time steps cannot be split with held_out={held_out}"):
            split_messages(message_of(20, 2), held_out)
    for held_out in (0.26, 0.74):
        head, tail = split_messages(message_of(20, 2), held_out)
        assert head["unit0"].lengths[1] == tail["unit0"].lengths[1] == 1


def test_errors_of_means_are_those_of_statsmodels():
    rng = np.random.default_rng(0)
    values = np.convolve(rng.normal(size=1200), [1, 0.8, 0.4], mode="valid")
    fit = sm.OLS(values, np.ones(len(values))).fit(
        cov_type="HAC", cov_kwds={"maxlags": int(np.cbrt(len(values))), "use_correction": False}
    )
    mean, stderr = mean_with_error(values)
    assert mean == pytest.approx(fit.params[0], rel=1e-9)
    assert stderr == pytest.approx(fit.bse[0], rel=1e-9)


@pytest.mark.parametrize(
    ("values", "expected"), [([], (np.nan, np.nan)), ([3.0], (3.0, 0.0)), ([1.0, 3.0], (2.0, 0.5))]
)
def test_means_of_very_few_values_have_errors(values, expected):
    """Of 1 and 3: squares 1 + 1, and the product -1 at lag 1 with weight 1/2, twice; the root of 1 over 2 rows."""
    np.testing.assert_allclose(mean_with_error(np.array(values)), expected)
