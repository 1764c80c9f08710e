"""Pictures of what the estimators found. They only draw; the numbers are the estimators'."""

from .effects import EffectDisplay, TransferFunctionDisplay
from .fits import LossDisplay, PrivacyCurveDisplay, ResidualDisplay, StateCorrelationDisplay
from .impact import ImpactDisplay
from .incidents import FalseAlarmDisplay, IncidentDisplay
from .links import LinkGraphDisplay, LinkMatrixDisplay, SpectrumDisplay
from .maps import LinkMapDisplay, link_communities
from .responses import ResponseDisplay
from .tags import TagDisplay
from .trends import TrendDisplay
from .validity import ValidityDisplay

__all__ = [
    "EffectDisplay",
    "FalseAlarmDisplay",
    "ImpactDisplay",
    "IncidentDisplay",
    "LinkGraphDisplay",
    "LinkMapDisplay",
    "LinkMatrixDisplay",
    "LossDisplay",
    "PrivacyCurveDisplay",
    "ResidualDisplay",
    "ResponseDisplay",
    "SpectrumDisplay",
    "StateCorrelationDisplay",
    "TagDisplay",
    "TransferFunctionDisplay",
    "TrendDisplay",
    "ValidityDisplay",
    "link_communities",
]
