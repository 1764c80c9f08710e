"""The machinery of the papers: training by gradients and by Algorithm 1, which the default servers do not use."""

from .mechanism import TrainingMechanism
from .server.options import Rates, StopRule

__all__ = ["Rates", "StopRule", "TrainingMechanism"]
