"""Whatever one unit sends, a fit that has its quorum ends, in time, without it or with its name."""

import time
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skfedcausal import (
    Communication,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GradientServer,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import ClientError, InProcessTransport, LostUnits, LostUnitWarning
from skfedcausal.message import StateMessage
from skfedcausal.message.training import LocalModel
from skfedcausal.papers import StopRule

from ._lies import CONTENT, CONTENT_LEARNED, LIES, ODD, Lying

pytestmark = [
    pytest.mark.medium,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:One false alarm per"),
    # of a fit that ends within the seconds of the rule with 16 states of noise, which explain any input
    pytest.mark.filterwarnings("ignore:Inputs 'unit0__u0' hardly move on their own"),
]

X, _ = make_granger_plant(3, n_samples=400, random_state=3)
RNG = np.random.default_rng(1)
U = {"unit0": np.repeat(RNG.normal(size=(40, 1)), 10, axis=0), "unit1": None, "unit2": None}
RULE = LostUnits(quorum=2)
KINDS = {
    "granger": (FederatedGrangerEstimator, {}),
    "counterfactual": (FederatedCounterfactualEstimator, {"inputs": U}),
    "root cause": (FederatedRCADetector, {}),
}
LONG = 20.0  # seconds
# where the fit ends within the seconds of the rule, only the unit itself finds this out, told of its states
PLAUSIBLE = {"16 states of noise"}


def rest_of(record):
    return {name: part for name, part in record.items() if name != "unit1"}


def lied(kind, lie, op, **settings):
    estimator, more = KINDS[kind]
    began = time.monotonic()
    with pytest.warns(LostUnitWarning, match="unit1"):
        found = estimator(
            communication=Communication(lost_units=RULE, transport=lambda w: Lying(w, lie, op)), **settings
        ).fit(X, **more)
    assert time.monotonic() - began < LONG
    assert set(found.lost_units_["unit"]) == {"unit1"}
    return found


@pytest.fixture(scope="module")
def rests():
    found = {}

    def rest(kind):
        if kind not in found:
            estimator, more = KINDS[kind]
            own = {name: rest_of(value) for name, value in more.items()}
            found[kind] = estimator().fit(rest_of(X), **own)
        return found[kind]

    return rest


slow = pytest.mark.slow


# what is no message is refused before any estimator learns from it: once for all kinds
@pytest.mark.parametrize(
    ("kind", "lie"),
    [
        pytest.param(kind, lie, marks=[] if kind == "granger" and lie not in PLAUSIBLE else slow)
        for kind in KINDS
        for lie in [*(LIES if kind == "granger" else CONTENT), *CONTENT_LEARNED]
    ],
)
def test_a_fit_is_that_of_the_other_units(kind, lie, rests):
    found, rest = lied(kind, lie, "fit"), rests(kind)
    if lie in PLAUSIBLE and found.lost_units_["operation"].tolist() == ["reply"]:
        return
    assert found.client_names_ == rest.client_names_ == ("unit0", "unit2")
    assert_array_equal(found.transition_, rest.transition_)
    assert_array_equal(
        found.set_params(communication__transport=None).score_samples(X, **KINDS[kind][1]), scored(rest, kind)
    )


def scored(rest, kind):
    more = {name: rest_of(value) for name, value in KINDS[kind][1].items()}
    return rest.score_samples(rest_of(X), **more)


@pytest.mark.parametrize("lie", ODD)
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_sparse_tag_may_look_like_is_named_or_left_out(kind, lie):
    estimator, more = KINDS[kind]
    with pytest.warns(UserWarning, match="unit1"):
        estimator(communication=Communication(lost_units=RULE, transport=lambda w: Lying(w, lie, "fit"))).fit(X, **more)


class Silent(InProcessTransport):
    """A unit that has no answer to one operation."""

    def exchange(self, out, *, timeout=None):
        answers = super().exchange(out)
        return {k: None if (k, out[k].op) == ("unit1", "refine") else answer for k, answer in answers.items()}


def with_known_matrices():
    """Clients that are given their matrices: a detector's units have a second round with these only."""
    models = {name: client.model for name, client in FederatedGrangerEstimator().fit(X).clients_.items()}
    return {
        name: KalmanClient(A=m.A, C=m.C, Q=m.Q, R=m.R if m.R.ndim == 1 else np.diag(m.R)) for name, m in models.items()
    }


@slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_second_round_is_that_without_the_unit_s_answer(kind):
    estimator, more = KINDS[kind]
    settings = {"server": LikelihoodServer(options=LikelihoodOptions(n_rounds=2))}
    if kind == "root cause":
        settings["client"] = with_known_matrices()
    with pytest.warns(LostUnitWarning, match="unit1"):
        rest = estimator(communication=Communication(lost_units=RULE, transport=Silent), **settings).fit(X, **more)
    for lie in LIES:
        found = lied(kind, lie, "refine", **settings)
        assert_array_equal(found.transition_, rest.transition_, err_msg=lie)


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_is_refused_by_name(kind):
    estimator, more = KINDS[kind]
    found = estimator(communication=Communication(lost_units=RULE)).fit(X, **more)
    usual = found.score_samples(X, **more)
    for lie in LIES:
        found.set_params(communication__transport=lambda workers, lie=lie: Lying(workers, lie, "message"))
        with pytest.raises(ClientError, match="unit1"):
            found.score_samples(X, **more)
    found.set_params(communication__transport=None)
    assert_array_equal(found.score_samples(X, **more), usual)


def test_a_unit_without_an_answer_is_left_out_of_every_kind_of_fit(rests):
    for kind, (estimator, more) in KINDS.items():
        with pytest.warns(LostUnitWarning, match="unit1"):
            found = estimator(
                communication=Communication(lost_units=RULE, transport=lambda w: Lying(w, "nothing", "fit"))
            ).fit(X, **more)
        assert_array_equal(found.transition_, rests(kind).transition_)
        assert found.set_params(communication__transport=None).predict(X, **more).shape[0] == 400


def test_below_the_quorum_a_lie_ends_the_fit_with_its_name():
    estimator = FederatedGrangerEstimator(
        communication=Communication(lost_units=LostUnits(quorum=3), transport=lambda w: Lying(w, "one row less", "fit"))
    )
    with pytest.raises(ClientError, match=r"'unit1' sent 399 rows, the others 400 rows\.\n2 of 3"):
        estimator.fit(X)


def test_where_nobody_can_say_who_is_right_both_are_named():
    record = {name: X[name] for name in ("unit0", "unit1")}
    estimator = FederatedGrangerEstimator(
        communication=Communication(lost_units=LostUnits(quorum=1), transport=lambda w: Lying(w, "one row less", "fit"))
    )
    with pytest.raises(ClientError, match=r"(?s)'unit0' sent 400 rows.*'unit1' sent 399 rows"):
        estimator.fit(record)


def test_more_states_are_taken_where_the_rule_says_so():
    estimator = FederatedRCADetector(
        communication=Communication(
            lost_units=LostUnits(quorum=2, max_states=17), transport=lambda w: Lying(w, "17 states", "fit")
        )
    )
    with pytest.warns(LostUnitWarning):  # the honest worker in this test does not take the reply
        estimator.fit(X)
    assert estimator.lost_units_["operation"].tolist() == ["reply"]


def shown(z, precision):
    return lambda m: StateMessage(z, precision[None], lengths=m.lengths, off_subspace=m.off_subspace)


NOISE = np.random.default_rng(9).normal(size=(400, 2))
ONLY_WATCHED = {
    "two states that are one": shown(3 * NOISE[:, [0, 0]], np.eye(2)),
}


@pytest.mark.parametrize("lie", ONLY_WATCHED)
def test_what_thresholds_cannot_be_learned_from_is_left_out_of_a_detector(lie, rests, monkeypatch):
    """The plant can be fitted, and what is nominal cannot: the unit is found as in a fit that fails."""
    monkeypatch.setitem(CONTENT, lie, ONLY_WATCHED[lie])
    found = lied("root cause", lie, "fit")
    assert found.client_names_ == ("unit0", "unit2")
    assert_array_equal(found.transition_, rests("root cause").transition_)
    assert found.thresholds_ == rests("root cause").thresholds_


class Grows(LikelihoodServer):
    """Finds a plant that grows a thousand times in a row, with a unit that is named."""

    def fit(self, messages):
        super().fit(messages)
        if "unit1" in messages:
            self.plant_ = self.plant_.with_first_lag(1e3 * np.eye(len(self.transition_)), self.input_)
        return self


def test_a_plant_that_no_record_can_be_of_is_a_fit_that_fails():
    with pytest.warns(LostUnitWarning, match="unit1"):
        found = FederatedGrangerEstimator(server=Grows(), communication=Communication(lost_units=RULE)).fit(X)
    assert found.client_names_ == ("unit0", "unit2")


class Boasting(InProcessTransport):
    """A unit whose own model, which training by gradients begins with, is another one."""

    def __init__(self, workers, change):
        super().__init__(workers)
        self._change = change

    def exchange(self, out, *, timeout=None):
        answers = super().exchange(out)
        if "unit1" in out and out["unit1"].op == "train":
            told = self._change(LocalModel.from_packet(answers["unit1"]))
            answers["unit1"] = told.to_packet(out["unit1"].round)
        return answers


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"transition": 1e8}, "grows"),
        ({"transition": 1e300}, "grows"),
        ({"process_cov": 0.0}, "without process noise"),
        ({"information": 0.0}, "sees none of its states"),
    ],
    ids=str,
)
@pytest.mark.parametrize("exchange", ["series", "moments"])
def test_training_goes_on_without_a_unit_whose_model_is_none(change, reason, exchange):
    def changed(model):
        return replace(model, **{name: factor * getattr(model, name) for name, factor in change.items()})

    server = GradientServer(exchange=exchange, stop=StopRule(max_iter=5))
    with pytest.warns(LostUnitWarning, match="unit1"):
        found = FederatedGrangerEstimator(
            server=server,
            communication=Communication(lost_units=RULE, transport=lambda workers: Boasting(workers, changed)),
        ).fit(X)
    assert reason in found.lost_units_["reason"][0]
    rest = FederatedGrangerEstimator(server=server).fit(rest_of(X))
    assert_array_equal(found.transition_, rest.transition_)


class FailsWith(LikelihoodServer):
    """Cannot fit units together that are named."""

    together: frozenset = frozenset({"unit1"})

    def fit(self, messages):
        if self.together <= set(messages):
            raise np.linalg.LinAlgError("Singular matrix")
        return super().fit(messages)


def test_a_fit_that_fails_is_tried_without_each_unit():
    with pytest.warns(LostUnitWarning, match="unit1"):
        found = FederatedGrangerEstimator(server=FailsWith(), communication=Communication(lost_units=RULE)).fit(X)
    assert_array_equal(found.transition_, FederatedGrangerEstimator().fit(rest_of(X)).transition_)
    assert found.lost_units_["reason"][0] == "sent a message with which the fit fails (LinAlgError)."
    with pytest.raises(np.linalg.LinAlgError):
        FederatedGrangerEstimator(server=FailsWith()).fit(X)


class FailsAlone(FailsWith):
    """Cannot fit either of two units, with whomever."""

    def fit(self, messages):
        if {"unit1", "unit2"} & set(messages):
            raise np.linalg.LinAlgError("Singular matrix")
        return LikelihoodServer.fit(self, messages)


def test_two_units_with_which_a_fit_fails_are_both_left_out():
    with pytest.warns(LostUnitWarning, match="unit1.*unit2"):
        found = FederatedGrangerEstimator(
            server=FailsAlone(), communication=Communication(lost_units=LostUnits(quorum=1))
        ).fit(X)
    assert found.client_names_ == ("unit0",)


class FailsAlways(LikelihoodServer):
    def fit(self, messages):
        raise RuntimeError("out of order")


def test_a_fit_that_fails_without_anybody_fails_as_it_is():
    with pytest.raises(RuntimeError, match="out of order") as caught:
        FederatedGrangerEstimator(server=FailsAlways(), communication=Communication(lost_units=RULE)).fit(X)
    assert "whichever of 'unit0', 'unit1', 'unit2' is left out" in caught.value.__notes__[0]
