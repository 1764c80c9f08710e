"""The registry of what a unit answers."""

import pytest

from skfedcausal.client.worker import handler_of, handles
from skfedcausal.message import requests, training
from skfedcausal.message.requests import FitRequest
from skfedcausal.message.schema import KINDS


def test_every_kind_that_is_asked_of_a_unit_has_a_handler():
    asked = {requests.FitRequest, training.TrainRequest, training.NetworkPlan, training.GradientReply}
    assert all(handler_of(kind.OP) is not None for kind in asked)
    assert handler_of("states") is None  # an answer, no question


@pytest.mark.parametrize("op", ["fit", "train", "network-plan"])
def test_what_begins_a_fit_or_a_training_sets_the_precision_of_later_answers(op):
    assert handler_of(op).sets_precision
    others = {other for other in KINDS if handler_of(other) is not None and handler_of(other).sets_precision}
    assert others == {"fit", "train", "network-plan"}


def test_a_kind_is_answered_by_one_module():
    handler_of(FitRequest.OP)
    with pytest.raises(ValueError, match=r"FitRequest is answered by skfedcausal\.client\..* already"):
        handles(FitRequest)(lambda unit, message, state, round: None)
