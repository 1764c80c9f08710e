"""Requests say what answers them, travel as they always did, and refuse what cannot be meant."""

import json

import numpy as np
import pytest

from skfedcausal.message import StateMessage
from skfedcausal.message.packet import Packet, PacketError
from skfedcausal.message.requests import (
    AggregateRequest,
    Ask,
    Close,
    Failed,
    FitRequest,
    FlagMessage,
    FlagsRequest,
    LawRequest,
    NothingYet,
    PredictRequest,
    RecordRequest,
    WatchRequest,
)
from skfedcausal.message.states import Acknowledgement, Measurements
from skfedcausal.message.training import ANSWERS, LossAnswer, LossRequest, NetworksTrained, TrainingPlan, TrainRequest

FIT = {"dtype": "float32", "const": True, "local_model": False}
TRAIN = {
    "relay": True,
    "stepwise": False,
    "start_scale": 0.1,
    "seed": 7,
    "constant": False,
    "dtype": "float32",
}
PACKETS = [
    (FitRequest(const=True), Packet("fit", 2, scalars=FIT)),
    (TrainRequest(True, False, 0.1, 7, False), Packet("train", 2, scalars=TRAIN)),
    (WatchRequest(4), Packet("watch", 2, scalars={"dtype": "float32", "batch": 4})),
    (LawRequest(), Packet("ask law", 2)),
    (Acknowledgement(), Packet("done", 2)),
    (NothingYet(), Packet("nothing yet", 2)),
    (NetworksTrained(), Packet("networks trained", 2)),
    (Close(), Packet("close", 2)),
    (Failed("refused", "max_bytes"), Packet("error", 2, scalars={"kind": "refused", "detail": "max_bytes"})),
    (RecordRequest(), Packet("message", 2, scalars=FIT | {"const": False})),
]


@pytest.mark.parametrize(("message", "packet"), PACKETS, ids=lambda value: getattr(value, "op", ""))
def test_requests_travel_in_packets_of_scalars(message, packet):
    assert message.to_packet(2, "float32").encode() == packet.encode()
    assert type(message).from_packet(packet) == message


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (FitRequest(), StateMessage),
        (RecordRequest(), StateMessage),
        (PredictRequest("client"), Measurements),
        (AggregateRequest(2.0), Measurements),
        (LossRequest(np.zeros((3, 2))), LossAnswer),
        (FlagsRequest(99.0), Acknowledgement),
        (FlagsRequest(), FlagMessage),
        *((TrainingPlan(mode, np.ones(5)), kind) for mode, kind in ANSWERS.items()),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_requests_say_what_answers_them(request_, answer):
    assert request_.answer is answer


def test_a_request_without_scalars_asks_for_what_is_usual():
    assert FitRequest.from_packet(Packet("fit")) == FitRequest(const=False, local_model=False)
    assert WatchRequest.from_packet(Packet("watch")).batch == 1
    assert RecordRequest.from_packet(Packet("message")).until is None
    assert FlagsRequest.from_packet(Packet("flag")).percentile is None


@pytest.mark.parametrize(
    ("message", "change", "expected"),
    [
        (FitRequest(), {"const": 1}, "'const' of packet 'fit' is 1, expected true or false"),
        (FitRequest(), {"dtype": "float8"}, "'dtype'.*'float8', expected .*float64, float32, float16"),
        (FitRequest(), {"raw": True}, "has the scalars"),
        (RecordRequest(), {"until": -1}, "expected a whole number, at least 0"),
        (RecordRequest(), {"until": 2.5}, "expected a whole number, at least 0"),
        (WatchRequest(1), {"batch": 0}, "expected a whole number, at least 1"),
        (WatchRequest(1), {"batch": True}, "expected a whole number, at least 1"),
        (TrainRequest(True, True, 0.1, 7, True), {"start_scale": -0.1}, "expected a number, not below 0"),
        (TrainRequest(True, True, 0.1, 7, True), {"seed": "x"}, "'seed'"),
        (PredictRequest("client"), {"model": "server"}, "model that predicts: client, augmented"),
        (AggregateRequest(1.0), {"scale": "double"}, "'scale'"),
        (AggregateRequest(1.0), {"scale": float("nan")}, "'scale'"),
        (FlagsRequest(99.0), {"percentile": 101.0}, "'percentile'.*at most 100"),
        (FlagsRequest(99.0), {"percentile": -1.0}, "'percentile'"),
        (LossAnswer(0.1, 0.2), {"server": "much"}, "'server'"),
        (Failed("refused"), {"kind": 3}, "'kind'"),
    ],
)
def test_requests_that_cannot_be_meant_are_refused(message, change, expected):
    packet = message.to_packet()
    with pytest.raises(PacketError, match=expected):
        type(message).from_packet(Packet(packet.op, 0, {}, {**packet.scalars, **change}))


@pytest.mark.parametrize(
    "names",
    [
        '["flow"]',
        '["flow", "flow"]',
        '["flow", "level", "pH"]',
        '["flow", 1]',
        '"flow"',
        "flow",
        "",
        7,
        "[" * 9999,
    ],
    ids=lambda names: str(names)[:12],
)
def test_columns_of_measurements_are_as_many_names_as_there_are_columns(names):
    packet = Measurements(np.zeros((3, 2)), columns=("flow", "level")).to_packet()
    with pytest.raises(PacketError, match=r"'columns' of packet 'measurements'.*name of its own for every column"):
        Measurements.from_packet(Packet(packet.op, 0, packet.arrays, {"columns": names}))


def test_measurements_are_finite_and_their_variance_is_of_their_shape():
    with pytest.raises(PacketError, match=r"'values'.*not finite"):
        Measurements.from_packet(Measurements(np.full((1, 1), np.nan), columns=("a",)).to_packet())
    with pytest.raises(PacketError, match=r"'variance'.*\(2, 1\), expected \(1, 1\)"):
        Measurements.from_packet(Measurements(np.ones((1, 1)), np.ones((2, 1)), ("a",)).to_packet())


def test_values_at_the_end_of_what_can_be_meant_are_taken():
    for message in (
        FlagsRequest(100.0), FlagsRequest(0.0), RecordRequest(until=0), WatchRequest(1), AggregateRequest(-1e300),
        TrainRequest(True, True, 0.0, 0, True), LossAnswer(0.0, 0.0), Failed("refused"),
    ):  # fmt: skip
        assert type(message).from_packet(message.to_packet()) == message


def test_a_percentile_just_above_all_is_refused():
    with pytest.raises(PacketError, match="expected at most 100"):
        FlagsRequest.from_packet(FlagsRequest(np.nextafter(100.0, 101.0)).to_packet())


def test_a_question_takes_the_quorum_of_the_fit_unless_it_says_otherwise():
    assert Ask({"mill": FitRequest()}, StateMessage).needed is None
    assert FitRequest() == FitRequest(const=False, local_model=False, monitor=None)
    assert RecordRequest() == RecordRequest(const=False, until=None, local_model=False)
    assert WatchRequest() == WatchRequest(batch=1, flags=None)


@pytest.mark.parametrize("names", [(), ("a",)])
def test_no_column_and_one_column_have_names(names):
    packet = Packet("measurements", 0, {"values": np.zeros((3, len(names)))}, {"columns": json.dumps(names)})
    if names:
        assert Measurements.from_packet(packet).columns == names
    else:
        with pytest.raises(PacketError, match="'values' of packet 'measurements' has no states"):
            Measurements.from_packet(packet)
