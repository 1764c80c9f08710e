"""One full and one bare message of every kind, of numbers that every machine rounds alike."""

import numpy as np

from skfedcausal.message import StateMessage
from skfedcausal.message.requests import (
    AggregateRequest,
    Close,
    CommonRows,
    FactualRequest,
    Failed,
    FitRequest,
    FlagMessage,
    FlagsRequest,
    InputsOfOthers,
    LawRequest,
    NothingYet,
    OrderAnswer,
    PredictRequest,
    PrivacyPromise,
    RecordRequest,
    SensorsAsStates,
    VerdictReply,
    WatchRequest,
)
from skfedcausal.message.secure import (
    CorrectionsRequest,
    MaskCorrections,
    MaskedProducts,
    MaskedSeries,
    ProductsRequest,
    SecureSumsRequest,
)
from skfedcausal.message.states import (
    Acknowledgement,
    EffectReply,
    FeedbackLaw,
    Measurements,
    PredictionReply,
    SensorStates,
    SmoothedReply,
    StateReply,
)
from skfedcausal.message.training import (
    AugmentedMessage,
    BlockRow,
    CorrectionMoments,
    GradientReply,
    Influences,
    InfluencesRequest,
    LocalModel,
    LossAnswer,
    LossRequest,
    NetworkPlan,
    NetworksTrained,
    NoGradient,
    PredictedMessage,
    PredictedStates,
    TrainingEnd,
    TrainingPlan,
    TrainRequest,
)
from skfedcausal.statespace.lag_products import fraction_bits, lagged_products, to_ring


def numbers(*shape):
    """Multiples of 1/8 of both signs, which sums of any order leave exact."""
    size = int(np.prod(shape))
    return (np.arange(size) * 7 % (size + 3) - size / 2).reshape(shape) / 8


def ring(*shape):
    """Elements of the ring modulo 2^64, large ones too."""
    return (np.arange(np.prod(shape), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)).reshape(shape)


def octets(*shape):
    """Bytes."""
    return (np.arange(np.prod(shape)) * 7 % 256).astype(np.uint8).reshape(shape)


SQUARES = np.array([[1.0, -1.0], [1.0, 1.0], [1.0, 1.0], [-1.0, 1.0]])
OWN_SUMS = lagged_products(*[to_ring(SQUARES, fraction_bits(4))] * 2, lags=2, starts=(0, 1))
EYE = np.eye(2)
J = np.diag([4.0, 16.0])
CROSS = np.array([[1.0, -2.0], [-1.0, 2.0]])  # mean 0, standard deviations 1 and 2, in two rows

SAMPLES = [
    StateMessage(numbers(4, 2), J[None], None, (4,)),
    StateMessage(
        numbers(4, 2), np.array([J / 2, J * 1.5]), np.array([0, 1, 1, 0]), (1, 3), numbers(4), numbers(2, 2),
        EYE, numbers(4, 3), numbers(2, 3), np.arange(4.0), EYE / 4,
    ),
    SmoothedReply(numbers(3, 2), EYE[None]),
    SmoothedReply(numbers(3, 2), np.array([EYE, 2 * EYE, J])),
    StateReply(CROSS, numbers(2, 2), EYE),
    StateReply(CROSS, numbers(2, 2), EYE, numbers(2, 2), numbers(2, 3), numbers(2), np.array([0.25])),
    EffectReply(numbers(2, 2)),
    EffectReply(numbers(2, 2), np.array([EYE, J])),
    PredictionReply(numbers(4, 2)),
    FeedbackLaw(numbers(3, 2), numbers(3, 2), np.eye(3)),
    LocalModel(numbers(2, 2), EYE, J, np.array([1, 3]), np.arange(4.0), 0.5, 2.0),
    LocalModel(
        numbers(2, 2), EYE, J, np.array([4]), np.arange(2.0), 0.5, 2.0, numbers(2, 3), numbers(3, 3),
        numbers(4, 2), numbers(4, 3),
    ),
    TrainingPlan("series", np.full(5, 0.125)),
    TrainingPlan("moments", np.full(5, 0.125), 0.5, 0.25, numbers(4, 3), 1, 2, np.full(5, 0.5)),
    TrainingPlan("stationary", np.full(5, 0.125), drivers=np.zeros((4, 0))),
    AugmentedMessage(numbers(3, 2), numbers(3, 2) + 1, 0.5, 0.25),
    AugmentedMessage(
        numbers(3, 2), numbers(3, 2) + 1, 0.5, 0.25, numbers(3, 2) + 2, numbers(3, 1), numbers(2)
    ),
    PredictedMessage(numbers(3, 2), numbers(2), 0.5, 0.25),
    GradientReply(numbers(3, 2)),
    GradientReply(numbers(3, 2), numbers(3, 2) + 1),
    CorrectionMoments(numbers(2, 3), numbers(2, 3) + 1, 4.0, 2.0, 0.5, 0.25),
    CorrectionMoments(numbers(2, 3), numbers(2, 3) + 1, 4.0, 2.0, 0.5, 0.25, numbers(2)),
    BlockRow(numbers(2, 3)),
    BlockRow(numbers(2, 3), numbers(3), numbers(2)),
    BlockRow(numbers(2, 3), influences=numbers(4, 6)),
    Influences(),
    Influences(numbers(4, 6)),
    InfluencesRequest(200),
    TrainingEnd(),
    TrainingEnd(numbers(2)),
    NetworkPlan(32, 0.5),
    PredictedStates(numbers(3, 2), 0.5),
    PredictedStates(numbers(3, 2), 0.5, numbers(3, 2) + 1, numbers(2, 2)),
    NoGradient(),
    FlagMessage(np.array([[True, False], [False, False], [True, True]])),
    VerdictReply(np.array([[1, 2, 3], [5, 6, 9]]), np.array([0, 2])),
    VerdictReply([], []),
    PrivacyPromise(np.array([0.5, 0.25]), 0.5, 1e-6, 6.0, 100, 1, "event", "replace"),
    PrivacyPromise(np.array([0.5]), 0.5, 1e-6, 6.0, 100, 2, "window", "zero_out", 10, 2.0),
    Acknowledgement(),
    FitRequest(),
    FitRequest(const=True, local_model=True),
    RecordRequest(),
    RecordRequest(const=True, until=7, local_model=True),
    InputsOfOthers(numbers(3, 2)),
    OrderAnswer(True),
    SensorStates(numbers(3, 1), EYE, J[None]),
    SensorStates(numbers(3, 1), EYE, J[None], numbers(3), numbers(2, 2), EYE, numbers(2, 1), -1.5, 0.25),
    SensorsAsStates(np.array([0, 2])),
    CommonRows(np.array([10.0, 1.0, 1.8e9]), (500,)),
    LawRequest(),
    TrainRequest(True, False, 0.125, 7, True),
    WatchRequest(3),
    Measurements(numbers(3, 2), columns=("flow", "level")),
    Measurements(numbers(3, 2), numbers(3, 2) ** 2, ("Füllstand", 'a "b"')),
    Measurements(numbers(3, 2), None, ("flow", "level"), np.array([[1.0], [-1.0], [0.5]])),
    PredictRequest("client"),
    FactualRequest(),
    FactualRequest(numbers(3, 2), np.array([J / 2])),
    AggregateRequest(-0.5),
    FlagsRequest(),
    FlagsRequest(99.5),
    LossRequest(numbers(3, 2)),
    LossAnswer(0.5, 0.25),
    SecureSumsRequest(13),
    MaskedSeries(ring(4, 2), OWN_SUMS, np.array([0.5, 2.0]), J, (1, 3), octets(32)),
    ProductsRequest(ring(4, 3), np.array([1, 2]), octets(2, 32), ("mill", "Füllstand")),
    MaskedProducts(ring(3, 3, 2), ring(3, 2, 3)),
    CorrectionsRequest(np.array([2, 1]), octets(2, 32), (1, 3), ("mill", "kiln"), 2, octets(2, 32)[::-1]),
    MaskCorrections(ring(3, 3, 3)),
    NothingYet(),
    NetworksTrained(),
    Close(),
    Failed("client-error", "ValueError"),
]  # fmt: skip
NAMES = [f"{type(message).__name__}-{k}" for k, message in enumerate(SAMPLES)]
