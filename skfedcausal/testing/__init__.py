"""Checks whether an object can be a part of a federation, as scikit-learn has `check_estimator`."""

from .server_side import check_server, check_transport
from .unit_side import check_augmenter, check_client, check_mechanism

__all__ = ["check_augmenter", "check_client", "check_mechanism", "check_server", "check_transport"]
