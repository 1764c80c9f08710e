"""The machinery of the papers: training by gradients and by Algorithm 1, which the default servers do not use."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .. import theory
    from .mechanism import TrainingMechanism
    from .networks import AttentionRegressor, LSTMRegressor, SELURegressor
    from .problems import losses, training_problems
    from .server.gradient import GradientServer
    from .server.regressor import RegressorServer
    from .server.rounds import Rates, StopRule

# imported when they are asked for: units and servers use the modules of this room while these are being loaded
_HOMES = {
    "AttentionRegressor": ".networks", "GradientServer": ".server.gradient", "LSTMRegressor": ".networks",
    "Rates": ".server.rounds",
    "RegressorServer": ".server.regressor", "SELURegressor": ".networks", "StopRule": ".server.rounds",
    "TrainingMechanism": ".mechanism", "losses": ".problems", "training_problems": ".problems",
}  # fmt: skip
__all__ = [
    "AttentionRegressor", "GradientServer", "LSTMRegressor", "Rates", "RegressorServer", "SELURegressor", "StopRule",
    "TrainingMechanism", "losses", "theory", "training_problems",
]  # fmt: skip


def __getattr__(name):
    if name == "theory":
        return import_module("..theory", __name__)
    if name in _HOMES:
        return getattr(import_module(_HOMES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
