"""Checks whether an object can be a part of a federation, as scikit-learn has `check_estimator`."""

from .augmenter import check_augmenter
from .client import check_client
from .mechanism import check_mechanism
from .server import check_server
from .transport import check_transport

__all__ = ["check_augmenter", "check_client", "check_mechanism", "check_server", "check_transport"]
