"""Pictures of what the estimators found. They only draw; the numbers are the estimators'."""

from .alarms import FalseAlarmDisplay
from .effects import EffectDisplay
from .incidents import IncidentDisplay
from .links import LinkMatrixDisplay
from .losses import LossDisplay
from .privacy import PrivacyCurveDisplay
from .residuals import ResidualDisplay
from .states import StateCorrelationDisplay
from .transfer import TransferFunctionDisplay

__all__ = [
    "EffectDisplay",
    "FalseAlarmDisplay",
    "IncidentDisplay",
    "LinkMatrixDisplay",
    "LossDisplay",
    "PrivacyCurveDisplay",
    "ResidualDisplay",
    "StateCorrelationDisplay",
    "TransferFunctionDisplay",
]
