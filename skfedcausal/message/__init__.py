"""The frozen types that cross the border between a unit and the server. Nothing else does."""

from .networks import NetworkPlan, NoGradient, PredictedStates
from .promise import PrivacyPromise
from .states import EffectReply, FeedbackLaw, PredictionReply, SmoothedReply, StateMessage, StateReply
from .training import (
    AugmentedMessage,
    BlockRow,
    CorrectionMoments,
    GradientReply,
    LocalModel,
    PredictedMessage,
    TrainingEnd,
    TrainingPlan,
)
from .watching import FlagMessage, VerdictReply

__all__ = [
    "AugmentedMessage",
    "BlockRow",
    "CorrectionMoments",
    "EffectReply",
    "FeedbackLaw",
    "FlagMessage",
    "GradientReply",
    "LocalModel",
    "NetworkPlan",
    "NoGradient",
    "PredictedMessage",
    "PredictedStates",
    "PredictionReply",
    "PrivacyPromise",
    "SmoothedReply",
    "StateMessage",
    "StateReply",
    "TrainingEnd",
    "TrainingPlan",
    "VerdictReply",
]
