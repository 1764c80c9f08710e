"""Pictures of what the estimators found. They only draw; the numbers are the estimators'."""

from .effects import EffectDisplay, ImpactDisplay, ResponseDisplay, TransferFunctionDisplay
from .fits import LossDisplay, PrivacyCurveDisplay, ResidualDisplay, StateCorrelationDisplay
from .incidents import FalseAlarmDisplay, IncidentDisplay, TagDisplay
from .links import LinkGraphDisplay, LinkMatrixDisplay, SpectrumDisplay, ValidityDisplay
from .maps import LinkMapDisplay, link_communities
from .shapes import LinkShapeDisplay
from .trends import TrendDisplay

__all__ = [
    "EffectDisplay", "FalseAlarmDisplay", "ImpactDisplay", "IncidentDisplay", "LinkGraphDisplay", "LinkMapDisplay",
    "LinkMatrixDisplay", "LinkShapeDisplay", "LossDisplay", "PrivacyCurveDisplay", "ResidualDisplay",
    "ResponseDisplay", "SpectrumDisplay", "StateCorrelationDisplay", "TagDisplay", "TransferFunctionDisplay",
    "TrendDisplay", "ValidityDisplay", "link_communities",
]  # fmt: skip
