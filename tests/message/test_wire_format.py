"""Not a byte of the wire format changes unnoticed: units and server may be of different versions."""

import hashlib

import pytest

from skfedcausal.message.packet import Packet
from skfedcausal.message.requests import PrivacyPromise
from skfedcausal.message.schema import KINDS, WIRE_DTYPES

from ._samples import SAMPLES

# first digits of the SHA-256 of all samples of a type in double, single and half precision
DIGESTS = {
    "StateMessage": "621a267c7e365b04",
    "SmoothedReply": "d5cf758e2be672ad",
    "StateReply": "548a66be8771e2d1",
    "EffectReply": "1f0e4c522336465b",
    "PredictionReply": "721ac1168f32f620",
    "FeedbackLaw": "735b04440097f310",
    "LocalModel": "226435baea405791",
    "TrainingPlan": "799f5c50819c0c52",
    "AugmentedMessage": "d01e91c4f8599767",
    "PredictedMessage": "4f5737d72011a7a3",
    "GradientReply": "1b377f817a4ea994",
    "CorrectionMoments": "12a06fcac914c594",
    "BlockRow": "e80a7a0fad7de252",
    "Influences": "5c14c773de5d7973",
    "InfluencesRequest": "39335d518f2ab2f5",
    "TrainingEnd": "7cfd7c3c6f17ad4c",
    "NetworkPlan": "0235672dca4d87e6",
    "PredictedStates": "ee2c8febd45f533d",
    "NoGradient": "7fc61901bc0527dc",
    "FlagMessage": "1a9826aeff8b81e4",
    "VerdictReply": "23d5b54c4fb7a0a2",
    "PrivacyPromise": "de1ee024ba364419",
    "Acknowledgement": "86aa2a5c469f99a5",
    "FitRequest": "7baedb4d3597e18d",
    "RecordRequest": "05fa3daceed5a881",
    "InputsOfOthers": "ddeb7e72c93b262a",
    "OrderAnswer": "32a9bfaea1e776f4",
    "SensorStates": "ea2724c56e45b925",
    "SensorsAsStates": "38d67769c85831b8",
    "CommonRows": "f58563f903f9f9e1",
    "LawRequest": "1782f67ecdd5e808",
    "TrainRequest": "d8e7c0c77239a0aa",
    "WatchRequest": "b44e60728c58439e",
    "Measurements": "8ce002c6ec49c616",
    "PredictRequest": "a5af3638aa66bd8c",
    "FactualRequest": "9ef2b2b9b44cb349",
    "AggregateRequest": "d9cf4b4572c23f89",
    "FlagsRequest": "d39658f2a9bfccc6",
    "LossRequest": "de975968f7a66028",
    "LossAnswer": "7bbe7054d70abf80",
    "SecureSumsRequest": "f568aa8d300cde03",
    "MaskedSeries": "6f9081ac4f17d3f8",
    "ProductsRequest": "f2c9bba0d91cedfe",
    "MaskedProducts": "1be50bbd2d84ce3f",
    "CorrectionsRequest": "35c58df8ce5598e9",
    "MaskCorrections": "eb22dc17a7194d24",
    "NothingYet": "865e33b70db2c578",
    "NetworksTrained": "dc3408ffaca2a0a9",
    "Close": "09aac726b9cfe2c6",
    "Failed": "85d895e750fec093",
}
KINDS_OF_PACKAGE = {kind for kind in KINDS.values() if kind.__module__.startswith("skfedcausal.message.")}


def encoded(message, dtype):
    if isinstance(message, PrivacyPromise):
        return message.put_on(Packet("states", 2)).encode()
    return message.to_packet(2, dtype).encode()


@pytest.mark.parametrize("name", DIGESTS)
def test_the_wire_format_is_what_it_was(name):
    digest = hashlib.sha256()
    for message in SAMPLES:
        if type(message).__name__ == name:
            for dtype in WIRE_DTYPES:
                digest.update(encoded(message, dtype))
    assert digest.hexdigest()[:16] == DIGESTS[name]


def test_every_kind_has_a_sample_and_a_digest():
    assert {type(message) for message in SAMPLES} == KINDS_OF_PACKAGE
    assert set(DIGESTS) == {kind.__name__ for kind in KINDS_OF_PACKAGE}
