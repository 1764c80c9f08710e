"""Pictures of what the estimators found. They only draw; the numbers are the estimators'."""

from .alarms import FalseAlarmDisplay
from .effects import EffectDisplay
from .graph import LinkGraphDisplay
from .incidents import IncidentDisplay
from .links import LinkMatrixDisplay
from .losses import LossDisplay
from .privacy import PrivacyCurveDisplay
from .residuals import ResidualDisplay
from .spectrum import SpectrumDisplay
from .states import StateCorrelationDisplay
from .transfer import TransferFunctionDisplay

__all__ = [
    "EffectDisplay",
    "FalseAlarmDisplay",
    "IncidentDisplay",
    "LinkGraphDisplay",
    "LinkMatrixDisplay",
    "LossDisplay",
    "PrivacyCurveDisplay",
    "ResidualDisplay",
    "SpectrumDisplay",
    "StateCorrelationDisplay",
    "TransferFunctionDisplay",
]
