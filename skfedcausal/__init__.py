"""Federated Granger causality, counterfactuals and root cause analysis for plants.

Units of a plant keep their raw measurements; a server learns how they influence each other from
low-dimensional messages.
"""

from ._version import __version__
from .client.augmenter import LinearAugmenter, RegressorAugmenter
from .client.kalman import KalmanClient
from .counterfactual import FederatedCounterfactualEstimator
from .granger import FederatedGrangerEstimator
from .server.gradient import GradientServer
from .server.likelihood import LikelihoodServer
from .utils import stack_clients

__all__ = [
    "FederatedCounterfactualEstimator",
    "FederatedGrangerEstimator",
    "GradientServer",
    "KalmanClient",
    "LikelihoodServer",
    "LinearAugmenter",
    "RegressorAugmenter",
    "__version__",
    "stack_clients",
]
