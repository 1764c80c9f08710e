"""A fit goes on without lost answers, exactly, and says which; below the quorum it ends with names."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import (
    Communication,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    GradientServer,
    InputModel,
    LikelihoodOptions,
    LikelihoodServer,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import ClientError, Failure, InProcessTransport, LostUnits, LostUnitWarning, Packet
from skfedcausal.papers import StopRule
from skfedcausal.papers.server.rounds import moving
from skfedcausal.statespace.matrices import Partition

X, _ = make_granger_plant(3, n_samples=400, random_state=3)
RULE = LostUnits(quorum=2)


class Unreliable(InProcessTransport):
    """Loses answers of units at chosen rounds: on the way there, or on the way back."""

    def __init__(self, workers, before=(), after=()):
        super().__init__(workers)
        self.before, self.after = set(before), set(after)

    def exchange(self, out, *, timeout=None):
        lost = {name for name, packet in out.items() if (name, packet.round, packet.op) in self.before}
        answers = super().exchange({name: packet for name, packet in out.items() if name not in lost})
        gone = {name for name, packet in out.items() if (name, packet.round, packet.op) in self.after}
        return answers | dict.fromkeys(lost | gone, Failure("timeout"))


def fitted(server=None, *, rule=RULE, **losses):
    estimator = FederatedGrangerEstimator(
        server=server, communication=Communication(lost_units=rule, transport=lambda sites: Unreliable(sites, **losses))
    )
    with pytest.warns(LostUnitWarning, match="unit1"):
        return estimator.fit(X)


OTHERS = {name: X[name] for name in ("unit0", "unit2")}


def test_a_unit_without_a_message_is_missing_data():
    est = fitted(before=[("unit1", 1, "fit")])
    assert_array_equal(est.transition_, FederatedGrangerEstimator().fit(OTHERS).transition_)
    assert list(est.state_slices_) == ["unit0", "unit2"]
    assert est.lost_units_.to_dict("records")[0]["reason"] == "gave no answer: timeout"


@pytest.mark.medium
def test_a_unit_that_is_lost_in_a_later_round_keeps_its_message():
    server = LikelihoodServer(options=LikelihoodOptions(n_rounds=2))
    est = fitted(server, before=[("unit1", 2, "refine")])
    whole = FederatedGrangerEstimator(server=server).fit(X)
    assert_allclose(est.transition_, whole.transition_, atol=0.1)
    assert est.transition_.shape == whole.transition_.shape


def test_a_reply_that_is_not_taken_changes_nothing_at_the_server():
    est = fitted(before=[("unit1", 1, "reply")])
    assert_array_equal(est.transition_, FederatedGrangerEstimator().fit(X).transition_)
    assert set(est.augmenters_) == {"unit0", "unit2"}


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("stale", ["hold", "skip"])
@pytest.mark.parametrize("exchange", [pytest.param("series", marks=pytest.mark.slow), "moments"])
@pytest.mark.parametrize("way", ["before", "after"])
def test_training_with_lost_rounds_converges_to_the_same_plant(exchange, stale, way):
    op = {"series": "gradient", "moments": "blocks"}[exchange]
    server = GradientServer(exchange=exchange, stop=StopRule(max_iter=4000, tol=1e-8))
    lost = [("unit1", k, op) for k in (4, 5, 6, 20, 31)]
    est = fitted(server, rule=LostUnits(quorum=2, stale=stale), **{way: lost})
    whole = FederatedGrangerEstimator(server=server).fit(X)
    assert_allclose(est.transition_, whole.transition_, atol=1e-5)
    assert len(est.lost_units_) == 5


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("round", "op"), [(1, "train"), (2, "plan")])
def test_a_unit_that_is_lost_before_training_is_left_out(round, op):
    server = GradientServer(stop=StopRule(max_iter=5, tol=0.0))
    est = fitted(server, before=[("unit1", round, op)])
    assert_array_equal(est.transition_, FederatedGrangerEstimator(server=server).fit(OTHERS).transition_)


def test_a_skipped_unit_s_block_row_rests():
    plant = SimpleNamespace(names=("unit0", "unit1"), states=Partition((2, 1)))
    turn = np.ones((3, 3))
    assert_array_equal(moving(plant, frozenset(), turn), turn)
    assert_array_equal(moving(plant, frozenset({"unit0"}), turn), [[0] * 3, [0] * 3, [1] * 3])


def test_without_a_rule_every_unit_has_to_answer():
    estimator = FederatedGrangerEstimator(
        communication=Communication(transport=lambda sites: Unreliable(sites, before=[("unit1", 1, "fit")]))
    )
    with pytest.raises(ClientError, match=r"^Client 'unit1' gave no answer: timeout$"):
        estimator.fit(X)


def test_below_the_quorum_a_fit_ends():
    losses = [(name, 1, "fit") for name in ("unit1", "unit2")]
    estimator = FederatedGrangerEstimator(
        communication=Communication(lost_units=RULE, transport=lambda sites: Unreliable(sites, before=losses))
    )
    with pytest.raises(ClientError, match="1 of 3 units are there; the quorum is 2"):
        estimator.fit(X)


def test_training_step_by_step_needs_everybody():
    server = GradientServer(update="online", stop=StopRule(max_iter=1))
    estimator = FederatedGrangerEstimator(
        server=server,
        communication=Communication(
            lost_units=RULE, transport=lambda sites: Unreliable(sites, before=[("unit1", 5, "gradient")])
        ),
    )
    with pytest.raises(ClientError, match="'unit1'"):
        estimator.fit(X)


def test_a_message_that_cannot_be_used_counts_as_lost():
    class Garbling(InProcessTransport):
        def exchange(self, out, *, timeout=None):
            answers = super().exchange(out)
            bad = answers.get("unit1")
            if bad is not None and bad.op == "states":
                z = np.full_like(bad.arrays["z"], np.nan)
                answers["unit1"] = Packet(bad.op, bad.round, {**bad.arrays, "z": z})
            return answers

    estimator = FederatedGrangerEstimator(communication=Communication(lost_units=RULE, transport=Garbling))
    with pytest.warns(LostUnitWarning, match="unit1"):
        estimator.fit(X)
    assert "not finite" in estimator.lost_units_["reason"][0]


@pytest.mark.parametrize("wrong", [{"quorum": 0}, {"quorum": 1.5}, {"timeout": 0}, {"stale": "guess"}], ids=str)
def test_a_rule_that_cannot_be_meant_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        LostUnits(**wrong)


@pytest.mark.parametrize(("quorum", "needed"), [(1, 1), (3, 3), (0.5, 2), (0.75, 3), (1.0, 4)])
def test_a_share_is_rounded_up(quorum, needed):
    assert LostUnits(quorum).needed(4) == needed


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore:The behavior of DataFrame concatenation:FutureWarning")  # by old pandas
@pytest.mark.parametrize("lost", ["unit0", "unit2"])
@pytest.mark.parametrize("basis", ["linear", "spline"])
def test_questions_about_inputs_go_on_without_those_of_a_lost_unit(lost, basis):
    record, truth = make_granger_plant(3, n_samples=250, n_inputs=1, random_state=3)
    inputs = dict(zip(record, truth.inputs, strict=True))
    inputs[lost, "unit1"] = inputs.pop(lost)  # it is the one that sends what acts on both
    losses = {"before": [(lost, 1, "fit")]}
    how = Communication(lost_units=RULE, transport=lambda sites: Unreliable(sites, **losses))
    est = FederatedCounterfactualEstimator(communication=how, input_model=InputModel(basis=basis))
    with pytest.warns(LostUnitWarning, match=lost):
        est.fit(record, inputs=inputs)
    others = {name: record[name] for name in record if name != lost}
    known = {name: inputs[name] for name in others}
    alone = FederatedCounterfactualEstimator(input_model=InputModel(basis=basis)).fit(others, inputs=known)
    assert est.shared_inputs_ == {}
    effects = [one.counterfactual("unit1", 0.0, 1.0, horizon=3) for one in (est, alone)]
    assert_array_equal(*effects)
    do = {"unit1__u0": 0.5}
    whole, rest = est.whatif(record, do, inputs=inputs), alone.whatif(others, do, inputs=known)
    assert_array_equal(whole["effect"], rest["effect"])


def late(names, timeout=None):
    """An estimator of which some units, fitted like the others, are late from then on."""
    est = FederatedGrangerEstimator(communication=Communication(lost_units=LostUnits(quorum=2, timeout=timeout))).fit(X)
    return est.set_params(
        communication__transport=lambda sites: Unreliable(sites, before=[(name, 0, "message") for name in names])
    )


def test_a_late_unit_is_left_out_of_scores_and_states():
    """The density of what the others measured, and their states given that."""
    est = late(["unit1"])
    with pytest.warns(LostUnitWarning, match="unit1"):
        density = est.score_samples(X)
    missing = {**X, "unit1": np.full_like(X["unit1"], np.nan)}
    usual = est.set_params(communication__transport=None)
    assert_allclose(density, usual.score_samples(missing), atol=1e-8)
    states = usual.transform(missing)
    with pytest.warns(LostUnitWarning, match="unit1"):
        assert_allclose(late(["unit1"]).transform(X), states, atol=1e-8)


def test_too_many_late_units_are_an_error_and_so_is_one_in_predictions():
    with pytest.raises(ClientError, match="the quorum is 2"):
        late(["unit1", "unit2"]).score(X)
    est = FederatedGrangerEstimator(communication=Communication(lost_units=RULE)).fit(X)
    est.set_params(communication__transport=lambda sites: Unreliable(sites, before=[("unit1", 0, "predict")]))
    with pytest.raises(ClientError, match="unit1"):
        est.predict(X)
