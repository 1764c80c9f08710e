"""Federated Granger causality, counterfactuals and root cause analysis for plants.

Units of a plant keep their raw measurements; a server learns how they influence each other from
low-dimensional messages.
"""

from ._version import __version__
from .client.augmenter import Augmenter, LinearAugmenter, RegressorAugmenter
from .client.extended_kalman import ExtendedKalmanClient
from .client.kalman import KalmanClient
from .client.unit_model import UnitClient
from .containers import stack_clients
from .containers.scaler import UnitScaler
from .estimators.counterfactual import FederatedCounterfactualEstimator
from .estimators.detector import FederatedRCADetector
from .estimators.granger import FederatedGrangerEstimator
from .historian import PlantTable, read_historian
from .networks import LSTMRegressor, SELURegressor
from .privacy import (
    GaussianMechanism,
    IndependentFlips,
    PrivacyAccountant,
    PrivacyMechanism,
    RandomizedResponse,
)
from .quality import check_plant
from .server.gradient.server import GradientServer
from .server.likelihood import LikelihoodServer
from .server.moments import MomentServer
from .server.plant import ServerLearner
from .server.regressor import RegressorServer

__all__ = [
    "Augmenter",
    "ExtendedKalmanClient",
    "FederatedCounterfactualEstimator",
    "FederatedGrangerEstimator",
    "FederatedRCADetector",
    "GaussianMechanism",
    "GradientServer",
    "IndependentFlips",
    "KalmanClient",
    "LSTMRegressor",
    "LikelihoodServer",
    "LinearAugmenter",
    "MomentServer",
    "PlantTable",
    "PrivacyAccountant",
    "PrivacyMechanism",
    "RandomizedResponse",
    "RegressorAugmenter",
    "RegressorServer",
    "SELURegressor",
    "ServerLearner",
    "UnitClient",
    "UnitScaler",
    "__version__",
    "check_plant",
    "read_historian",
    "stack_clients",
]
