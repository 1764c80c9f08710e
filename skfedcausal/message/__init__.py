"""The frozen types that cross the border between a unit and the server. Nothing else does."""

from .promise import PrivacyPromise
from .requests import (
    AggregateRequest,
    Ask,
    Close,
    FactualRequest,
    Failed,
    FitRequest,
    FlagsRequest,
    LawRequest,
    LossAnswer,
    LossRequest,
    Measurements,
    NetworksTrained,
    NothingYet,
    PredictRequest,
    RecordRequest,
    TrainRequest,
    WatchRequest,
)
from .schema import Message, wire
from .states import Acknowledgement, EffectReply, FeedbackLaw, PredictionReply, SmoothedReply, StateMessage, StateReply
from .training import (
    AugmentedMessage,
    BlockRow,
    CorrectionMoments,
    GradientReply,
    LocalModel,
    NetworkPlan,
    NoGradient,
    PredictedMessage,
    PredictedStates,
    TrainingEnd,
    TrainingPlan,
)
from .watching import FlagMessage, VerdictReply

__all__ = [
    "Acknowledgement", "AggregateRequest", "Ask", "AugmentedMessage", "BlockRow", "Close",
    "CorrectionMoments", "EffectReply", "FactualRequest", "Failed", "FeedbackLaw", "FitRequest",
    "FlagMessage", "FlagsRequest", "GradientReply", "LawRequest", "LocalModel", "LossAnswer",
    "LossRequest", "Measurements", "Message", "NetworkPlan", "NetworksTrained", "NoGradient",
    "NothingYet", "PredictRequest", "PredictedMessage", "PredictedStates", "PredictionReply",
    "PrivacyPromise", "RecordRequest", "SmoothedReply", "StateMessage", "StateReply", "TrainRequest",
    "TrainingEnd", "TrainingPlan", "VerdictReply", "WatchRequest", "wire",
]  # fmt: skip
