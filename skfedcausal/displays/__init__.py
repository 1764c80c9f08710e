"""Pictures of what the estimators found. They only draw; the numbers are the estimators'."""

from .effects import EffectDisplay, ImpactDisplay, ResponseDisplay, TransferFunctionDisplay
from .fits import LossDisplay, PrivacyCurveDisplay, ResidualDisplay, StateCorrelationDisplay, TrendDisplay
from .incidents import FalseAlarmDisplay, IncidentDisplay, TagDisplay
from .links import (
    LinkGraphDisplay,
    LinkMapDisplay,
    LinkMatrixDisplay,
    LinkShapeDisplay,
    SpectrumDisplay,
    ValidityDisplay,
    link_communities,
)

__all__ = [
    "EffectDisplay", "FalseAlarmDisplay", "ImpactDisplay", "IncidentDisplay", "LinkGraphDisplay", "LinkMapDisplay",
    "LinkMatrixDisplay", "LinkShapeDisplay", "LossDisplay", "PrivacyCurveDisplay", "ResidualDisplay",
    "ResponseDisplay", "SpectrumDisplay", "StateCorrelationDisplay", "TagDisplay", "TransferFunctionDisplay",
    "TrendDisplay", "ValidityDisplay", "link_communities",
]  # fmt: skip
