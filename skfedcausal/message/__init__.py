"""The frozen types that cross the border between a unit and the server. Nothing else does."""

from typing import TYPE_CHECKING

from .promise import PrivacyPromise
from .requests import (
    AggregateRequest,
    Ask,
    Close,
    CommonRows,
    FactualRequest,
    Failed,
    FitRequest,
    InputsOfOthers,
    LawRequest,
    Measurements,
    NothingYet,
    OrderAnswer,
    PredictRequest,
    RecordRequest,
    SensorsAsStates,
)
from .schema import Message, wire
from .states import (
    Acknowledgement,
    EffectReply,
    FeedbackLaw,
    PredictionReply,
    SensorStates,
    SmoothedReply,
    StateMessage,
    StateReply,
)
from .training import (
    AugmentedMessage,
    BlockRow,
    CorrectionMoments,
    GradientReply,
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
from .watching import FlagMessage, FlagsRequest, VerdictReply, WatchRequest

if TYPE_CHECKING:
    from .secure import (
        CorrectionsRequest,
        MaskCorrections,
        MaskedProducts,
        MaskedSeries,
        ProductsRequest,
        SecureSumsRequest,
    )

__all__ = [
    "Acknowledgement", "AggregateRequest", "Ask", "AugmentedMessage", "BlockRow", "Close", "CommonRows",
    "CorrectionMoments", "CorrectionsRequest", "EffectReply", "FactualRequest", "Failed", "FeedbackLaw",
    "FitRequest", "FlagMessage", "FlagsRequest", "GradientReply", "InputsOfOthers", "LawRequest", "LocalModel",
    "LossAnswer", "LossRequest", "MaskCorrections", "MaskedProducts", "MaskedSeries", "Measurements",
    "Message", "NetworkPlan", "NetworksTrained", "NoGradient", "NothingYet", "OrderAnswer", "PredictRequest",
    "PredictedMessage", "PredictedStates", "PredictionReply", "PrivacyPromise", "ProductsRequest",
    "RecordRequest", "SecureSumsRequest", "SensorStates", "SensorsAsStates", "SmoothedReply", "StateMessage",
    "StateReply", "TrainRequest", "TrainingEnd", "TrainingPlan", "VerdictReply", "WatchRequest",
    "wire",
]  # fmt: skip
_OF_SECURE_SUMS = {
    "CorrectionsRequest", "MaskCorrections", "MaskedProducts", "MaskedSeries", "ProductsRequest", "SecureSumsRequest",
}  # fmt: skip


if not TYPE_CHECKING:  # which would take every name for one that is there

    def __getattr__(name):
        """Messages of secure sums when they are asked for: other fits have none."""
        if name not in _OF_SECURE_SUMS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import secure

        return getattr(secure, name)
