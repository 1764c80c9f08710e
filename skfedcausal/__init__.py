"""Federated Granger causality, counterfactuals and root cause analysis for plants.

Units of a plant keep their raw measurements; a server learns how they influence each other from
low-dimensional messages.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ._version import __version__

if TYPE_CHECKING:
    from . import containers as containers
    from . import datasets as datasets
    from . import displays as displays
    from . import federation as federation
    from . import historian as historian
    from . import message as message
    from . import metrics as metrics
    from . import papers as papers
    from . import privacy as privacy
    from . import quality as quality
    from . import saving as saving
    from . import secure as secure
    from . import streams as streams
    from . import testing as testing
    from . import theory as theory
    from . import transfer as transfer
    from .client.augmenter import Augmenter, LinearAugmenter, RegressorAugmenter
    from .client.baseline import Baseline
    from .client.extended_kalman import ExtendedKalmanClient
    from .client.kalman import KalmanClient
    from .client.unit_model import UnitClient
    from .containers import ClientArrays, stack_clients
    from .containers.scaler import UnitScaler
    from .estimators.counterfactual import FederatedCounterfactualEstimator, InputModel
    from .estimators.detector import Evidence, FederatedRCADetector
    from .estimators.granger import FederatedGrangerEstimator
    from .federation.exchange import Communication
    from .historian import PlantTable, read_historian
    from .papers.networks import LSTMRegressor, SELURegressor
    from .papers.server.gradient import GradientServer
    from .papers.server.regressor import RegressorServer
    from .privacy import GaussianMechanism, IndependentFlips, PrivacyAccountant, PrivacyMechanism, RandomizedResponse
    from .quality import check_plant
    from .saving import load, save
    from .server.fitting import Knowledge, LikelihoodOptions
    from .server.likelihood import LikelihoodServer
    from .server.moments import MomentServer
    from .server.plant import ServerLearner

__all__ = [
    "Augmenter", "Baseline", "ClientArrays", "Communication", "Evidence", "ExtendedKalmanClient",
    "FederatedCounterfactualEstimator", "FederatedGrangerEstimator", "FederatedRCADetector", "GaussianMechanism",
    "GradientServer", "IndependentFlips", "InputModel", "KalmanClient", "Knowledge", "LSTMRegressor",
    "LikelihoodOptions", "LikelihoodServer", "LinearAugmenter", "MomentServer", "PlantTable", "PrivacyAccountant",
    "PrivacyMechanism", "RandomizedResponse", "RegressorAugmenter", "RegressorServer", "SELURegressor",
    "ServerLearner", "UnitClient", "UnitScaler", "__version__", "check_plant", "load", "read_historian", "save",
    "stack_clients",
]  # fmt: skip

# where the public names are: imported when they are asked for, so that commands have a word to say at once
_HOMES = {
    name: home
    for home, names in {
        "client.augmenter": "Augmenter LinearAugmenter RegressorAugmenter",
        "client.baseline": "Baseline",
        "client.extended_kalman": "ExtendedKalmanClient",
        "client.kalman": "KalmanClient",
        "client.unit_model": "UnitClient",
        "containers": "ClientArrays stack_clients",
        "containers.scaler": "UnitScaler",
        "estimators.counterfactual": "FederatedCounterfactualEstimator InputModel",
        "estimators.detector": "Evidence FederatedRCADetector",
        "estimators.granger": "FederatedGrangerEstimator",
        "federation.exchange": "Communication",
        "historian": "PlantTable read_historian",
        "papers.networks": "LSTMRegressor SELURegressor",
        "papers.server.gradient": "GradientServer",
        "papers.server.regressor": "RegressorServer",
        "privacy": "GaussianMechanism IndependentFlips PrivacyAccountant PrivacyMechanism RandomizedResponse",
        "quality": "check_plant",
        "saving": "load save",
        "server.fitting": "Knowledge LikelihoodOptions",
        "server.likelihood": "LikelihoodServer",
        "server.moments": "MomentServer",
        "server.plant": "ServerLearner",
    }.items()
    for name in names.split()
}


if not TYPE_CHECKING:  # which would take every name for one that is there

    def __getattr__(name):
        if name in _HOMES:
            found = getattr(import_module(f".{_HOMES[name]}", __name__), name)
            globals()[name] = found
            return found
        if not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
            return import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
