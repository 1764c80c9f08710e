"""Long records with gaps: filled by passes that end where the exact smoother does, and links in time."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.dynamics import smooth_record
from skfedcausal.server.estimation import estimate, noise_share
from skfedcausal.server.estimation.estimate import Settings, estimate_plant, may_stand_in
from skfedcausal.server.estimation.scoring import Budget
from skfedcausal.server.estimation.standardised import StandardisedPlant
from skfedcausal.server.joint import JointRecord

LINKS = [(0, 1), (1, 2)]


def holed(n_samples=1500, share=0.02, seed=0):
    """A plant of three units, of which each misses whole rows and single cells."""
    X, _ = make_granger_plant(3, n_samples=n_samples, links=LINKS, link_strength=0.4, random_state=seed)
    rng = np.random.default_rng(seed)
    for Y in X.values():
        Y[rng.random(len(Y)) < share] = np.nan
        Y[rng.random(Y.shape) < share] = np.nan
    return X


def record_of(X):
    return JointRecord.from_messages({name: KalmanClient().fit(Y).message(Y) for name, Y in X.items()})


def found(estimator):
    links = estimator.links_[estimator.links_["verdict"] == "influence"]
    return set(zip(links["cause"], links["effect"], strict=True))


@pytest.mark.medium
def test_passes_end_at_what_the_smoother_of_a_record_with_gaps_expects(monkeypatch):
    record = record_of(holed(300)).centred()
    n = record.partition.n_states
    A, Q = 0.7 * np.eye(n), np.eye(n)
    monkeypatch.setattr(noise_share, "_SETTLED", 0.0)
    by_passes = noise_share._expected(A, Q, record, np.zeros((record.n_samples, n)), 600)
    assert_allclose(by_passes, smooth_record(A, Q, record, intercept=False)[0], atol=1e-4)


def test_only_plain_records_with_few_rows_missing_do_without_the_exact_likelihood():
    record, plain = record_of(holed()), Settings(budget=Budget(1e-3))
    assert may_stand_in(record, plain)
    assert not may_stand_in(record, replace(plain, time_domain=True))
    assert not may_stand_in(record_of(holed(share=0.2)), plain)
    complete, _ = make_granger_plant(2, random_state=0)
    assert not may_stand_in(record_of(complete), plain)


@pytest.mark.parametrize(("max_time", "stands_in"), [(1e-3, True), (1e3, False)])
def test_the_time_on_a_few_rows_says_whether_the_exact_likelihood_takes_too_long(max_time, stands_in):
    plant = StandardisedPlant(record_of(holed(300, share=0.05)))
    plant.may_stand_in, plant.budget = True, Budget(max_time)
    assert not plant.loses_little  # 5 % of the rows of each unit are missing, and 5 % of the other cells
    assert estimate._takes_too_long(plant, estimate.uncoupled_plant(plant)[1]) is stands_in


@pytest.mark.parametrize(("share", "loss"), [(0.0, 0.0), (0.002, 0.002), (0.1, 0.2)])
def test_loss_by_gaps_grows_with_the_share_of_missing_cells(share, loss):
    X, _ = make_granger_plant(2, n_sensors=6, n_samples=600, missing=share, random_state=1)
    found = StandardisedPlant(record_of(X)).loss_by_gaps
    assert 0.1 * loss <= found <= loss


def test_loss_by_gaps_counts_rows_twice_that_show_nothing():
    X, _ = make_granger_plant(2, n_samples=400, random_state=0)
    X["unit1"][50:60] = np.nan  # 10 products with the row before, and 10 with the row after
    assert_allclose(StandardisedPlant(record_of(X)).loss_by_gaps, 2 * 10 / 400, rtol=1e-12)


def test_rows_whose_noise_drowns_the_states_have_no_score():
    rng = np.random.default_rng(0)
    X, _ = make_granger_plant(2, n_sensors=3, n_samples=500, random_state=0)
    C = np.array([[1.0, 0.0], [1.0, 1e-3], [0.0, 1.0]])  # without the last sensor the second state is lost
    client = KalmanClient(A=np.diag([0.7, 0.5]), C=C, Q=np.eye(2), R=np.eye(3))
    X["unit0"] = rng.standard_normal((500, 3))
    X["unit0"][::50, 2] = np.nan
    X["unit0"][25::50, 0] = np.nan
    messages = {"unit0": client.fit(X["unit0"]).message(X["unit0"])}
    messages["unit1"] = KalmanClient().fit(X["unit1"]).message(X["unit1"])
    record = JointRecord.from_messages(messages)
    assert record.parts[0].determined_rows.all()
    assert_allclose(np.flatnonzero(record.scores.of_unit(0)[1][:, 0] == 0), np.arange(0, 500, 50))
    assert record.scores.of_unit(1)[1] is None


@pytest.mark.slow
def test_p_values_without_the_exact_likelihood_keep_their_level():
    p_values = []
    for seed in range(40):
        X, _ = make_granger_plant(3, n_sensors=4, n_samples=600, links=[], missing=0.05, random_state=seed)
        settings = Settings(level_shifts=None, budget=Budget(1e6), scores_alone=True)
        found = estimate_plant(record_of(X), settings)
        assert found.plant.stands_in
        p_values += list(found.blocks["state"].p_value)
    # 240 p values, in threes that share an effect: the share below 0.2 is off by 0.026 to 0.045 at one standard error
    assert abs(np.mean(np.array(p_values) < 0.2) - 0.2) < 0.12


@pytest.mark.medium
@pytest.mark.parametrize("missing", [0.002, 0.02, 0.1])
def test_gaps_take_no_link_of_a_chain(missing):
    links = [(k, k + 1) for k in range(3)]
    X, _ = make_granger_plant(4, n_samples=6000, links=links, missing=missing, random_state=0)
    assert found(FederatedGrangerEstimator().fit(X)) == {(f"unit{a}", f"unit{b}") for a, b in links}


@pytest.mark.medium
def test_links_without_time_for_the_exact_likelihood_are_those_of_it():
    X = holed()
    exact = FederatedGrangerEstimator(server=LikelihoodServer(max_time=1e3)).fit(X)
    with pytest.warns(UserWarning, match=r"exact likelihood of 1500 rows with gaps.*max_time=0.5"):
        quick = FederatedGrangerEstimator(server=LikelihoodServer(max_time=0.5)).fit(X)
    assert (quick.server_.filled_, exact.server_.filled_) == (True, False)
    assert (quick.server_.likelihood_, exact.server_.likelihood_) == ("whittle", "time-domain")
    assert found(quick) == found(exact) == {("unit0", "unit1"), ("unit1", "unit2")}
    both = exact.links_.merge(quick.links_, on=["cause", "effect"])
    both = both[both["verdict_x"] == "influence"]
    # rows whose states are missing are 2 % of all: their guess moves no link by a standard error
    assert (np.abs(both["strength_x"] - both["strength_y"]) < both["stderr_x"]).all()
