"""Pictures of what the estimators found. They only draw; the numbers are the estimators'."""

from .effects import EffectDisplay, TransferFunctionDisplay
from .fits import LossDisplay, PrivacyCurveDisplay, ResidualDisplay, StateCorrelationDisplay
from .impact import ImpactDisplay
from .incidents import FalseAlarmDisplay, IncidentDisplay
from .links import LinkGraphDisplay, LinkMatrixDisplay, SpectrumDisplay
from .trends import TrendDisplay
from .validity import ValidityDisplay

__all__ = [
    "EffectDisplay",
    "FalseAlarmDisplay",
    "ImpactDisplay",
    "IncidentDisplay",
    "LinkGraphDisplay",
    "LinkMatrixDisplay",
    "LossDisplay",
    "PrivacyCurveDisplay",
    "ResidualDisplay",
    "SpectrumDisplay",
    "StateCorrelationDisplay",
    "TransferFunctionDisplay",
    "TrendDisplay",
    "ValidityDisplay",
]
