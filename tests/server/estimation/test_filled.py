"""Long records with gaps: filled by passes that end where the exact smoother does, and links in time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation import filled
from skfedcausal.server.estimation.estimate import Settings, has_no_time, may_be_filled
from skfedcausal.server.estimation.scoring import Budget
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.prediction import smooth_plant

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
    monkeypatch.setattr(filled, "_SETTLED", 0.0)
    by_passes = filled._expected(A, Q, record, np.zeros((record.n_samples, n)), 600)
    assert_allclose(by_passes, smooth_plant(A, Q, record, intercept=False)[0], atol=1e-4)


def test_only_records_with_few_gaps_and_too_many_rows_are_filled():
    record, plain = record_of(holed()), Settings(budget=Budget(1e-3))
    assert may_be_filled(record, plain)
    assert has_no_time(record, plain)
    assert not has_no_time(record, plain._replace(budget=Budget(1e3)))
    assert not may_be_filled(record, plain._replace(time_domain=True))
    assert not may_be_filled(record_of(holed(share=0.2)), plain)
    complete, _ = make_granger_plant(2, random_state=0)
    assert not has_no_time(record_of(complete), plain)


@pytest.mark.medium
def test_links_without_time_for_the_exact_likelihood_are_those_of_it():
    X = holed()
    exact = FederatedGrangerEstimator(server=LikelihoodServer(max_time=1e3)).fit(X)
    with pytest.warns(UserWarning, match=r"exact likelihood of 1500 rows with gaps.*max_time=0.5"):
        quick = FederatedGrangerEstimator(server=LikelihoodServer(max_time=0.5)).fit(X)
    assert (quick.server_.filled_, exact.server_.filled_) == (True, False)
    assert found(quick) == found(exact) == {("unit0", "unit1"), ("unit1", "unit2")}
    both = exact.links_.merge(quick.links_, on=["cause", "effect"])
    both = both[both["verdict_x"] == "influence"]
    # rows whose states are missing are 2 % of all: their guess moves no link by a standard error
    assert (np.abs(both["strength_x"] - both["strength_y"]) < both["stderr_x"]).all()
