"""What crosses when a fitted estimator is asked passes the ledger, and a limit stops it before it goes."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

import skfedcausal.client.worker
from skfedcausal import (
    Communication,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    GradientServer,
    PrivacyAccountant,
    inspection,
    papers,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import ByteLimitError
from skfedcausal.message.schema import KINDS
from skfedcausal.papers import StopRule

N = 600
X, TRUTH = make_granger_plant(3, n_samples=N, links=[(0, 1), (1, 2)], n_inputs=1, input_links=[(0, 1)], random_state=0)
U = TRUTH.inputs
GAPS = {name: Y.copy() for name, Y in X.items()}
GAPS["unit1"][50:60, 2] = np.nan


def granger():
    return FederatedGrangerEstimator().fit(X)


def trained():
    return FederatedGrangerEstimator(server=GradientServer(stop=StopRule(max_iter=3, tol=0.0))).fit(X)


def counterfactual():
    return FederatedCounterfactualEstimator().fit(X, inputs=U)


def detector():
    return FederatedRCADetector(false_alarm_rate=0.05).fit(X)


# (how to fit, question, kind of packet down to every unit, or nothing)
QUESTIONS = {
    "predict": (granger, lambda e: e.predict(X, model="server"), "prediction"),
    "transform": (granger, lambda e: e.transform(X), None),
    "score": (granger, lambda e: e.score(X), None),
    "benefit": (granger, lambda e: inspection.benefit(e, X), None),
    "test_links": (granger, lambda e: e.test_links(X, "score"), None),
    "losses": (trained, lambda e: papers.losses(e, X), "loss"),
    "predict with inputs": (counterfactual, lambda e: e.predict(X, inputs=U, model="server"), "prediction"),
    "whatif": (counterfactual, lambda e: e.whatif(GAPS, {"unit0__u0": 0.0}, inputs=U), "factual"),
    "incidents": (detector, lambda e: e.incidents(X), "verdict"),
    "predict_root_cause": (detector, lambda e: e.predict_root_cause(X), "verdict"),
    "attribute": (detector, lambda e: e.attribute(X), None),
    "alarm levels": (detector, lambda e: e.transform(X), None),
    "density": (detector, lambda e: e.score_samples(X), None),
}


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("question", QUESTIONS)
def test_every_message_about_a_record_passes_the_ledger(question, monkeypatch):
    fit, ask, reply = QUESTIONS[question]
    estimator = fit()
    made, before = [], len(estimator.ledger_.entries)
    message_of = skfedcausal.client.worker.unit_message

    def counted(*args, **kwargs):
        made.append(message_of(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(skfedcausal.client.worker, "unit_message", counted)
    ask(estimator)
    new = estimator.ledger_.entries[before:]
    up = [entry for entry in new if entry.op == "states"]
    assert len(made) == 3
    assert [entry.n_bytes for entry in up] == [message.to_packet().nbytes for message in made]
    down = {entry.client for entry in new if entry.direction == "down" and entry.op == reply}
    assert down == (set() if reply is None else set(X))
    assert all(entry.op in KINDS for entry in new)


def test_answers_in_lower_precision_are_of_what_crossed():
    estimator = FederatedGrangerEstimator(communication=Communication(wire_dtype="float16")).fit(X)
    exact = FederatedGrangerEstimator().fit(X)
    rough, fine = estimator.predict(X, model="server"), exact.predict(X, model="server")
    assert 0 < np.abs(rough - fine).max() < 0.05 * fine.std()


# --- a limit of bytes -----------------------------------------------------------------------------------


@pytest.mark.medium
def test_a_limit_of_bytes_stops_before_the_packet_is_sent():
    sent = granger().communication_["bytes_up"]
    assert (
        FederatedGrangerEstimator(communication=Communication(max_bytes=sent)).fit(X).communication_["bytes_up"] == sent
    )
    with pytest.raises(ByteLimitError, match=f"'done' of 'unit2' was not sent: max_bytes={sent - 1}"):
        FederatedGrangerEstimator(communication=Communication(max_bytes=sent - 1)).fit(X)
    with pytest.raises(ByteLimitError, match="'states' of 'unit0' was not sent"):
        FederatedGrangerEstimator(communication=Communication(max_bytes=100)).fit(X)


def test_the_limit_holds_for_what_is_asked_afterwards():
    sent = granger().communication_["bytes_up"]
    estimator = FederatedGrangerEstimator(communication=Communication(max_bytes=2 * sent)).fit(X)
    estimator.score(X.copy() and {name: Y[: N // 2] for name, Y in X.items()})
    before = estimator.ledger_.total("up")
    with pytest.raises(ByteLimitError):
        estimator.score(X)
    assert estimator.ledger_.total("up") <= 2 * sent
    assert before < estimator.ledger_.total("up") + sent


# --- rehearsals -------------------------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize(
    ("estimator", "more"),
    [
        (FederatedGrangerEstimator(), {}),
        (FederatedGrangerEstimator(server=GradientServer(stop=StopRule(max_iter=3, tol=0.0))), {}),
        (FederatedCounterfactualEstimator(), {"inputs": U}),
        (FederatedRCADetector(false_alarm_rate=0.05), {}),
    ],
    ids=["granger", "gradient", "counterfactual", "detector"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_plan_shows_all_that_a_fit_sends_and_learns_nothing(estimator, more):
    plan = estimator.plan(X, **more)
    assert isinstance(plan, pd.DataFrame)
    with pytest.raises(NotFittedError):
        estimator.predict(X, **more)
    fitted = estimator.fit(X, **more)
    sums = fitted.communication_
    assert plan.query("direction == 'up'")["bytes"].sum() == sums["bytes_up"] == plan.attrs["bytes_up"]
    assert plan.query("direction == 'down'")["bytes"].sum() == sums["bytes_down"]
    assert plan["packets"].sum() == len(fitted.ledger_.entries)
    assert (plan["purpose"] != "").all()


def test_a_plan_sends_nothing_over_the_transport_and_charges_nothing():
    asked = []

    def transport(sites):
        asked.append(sites)
        raise AssertionError("a rehearsal must not open a transport")

    account = PrivacyAccountant(epsilon=8.0, delta=1e-6)
    mechanism = GaussianMechanism(epsilon=8.0, delta=1e-6, clip_norm=30.0, event_radius=1.0, accountant=account)
    estimator = FederatedGrangerEstimator(privacy=mechanism, communication=Communication(transport=transport))
    plan = estimator.plan(X)
    assert not asked
    assert len(account) == 0
    assert plan.attrs["privacy"].startswith("Differentially private per event")
    assert_array_equal(plan["client"].unique(), list(X))
