"""Live sources of a plant's rows as batches: a file that grows, or a broker.

The batches go to :meth:`~skfedcausal.FederatedRCADetector.incidents`,
:meth:`~skfedcausal.FederatedRCADetector.predict_root_cause` or, one by one, to
:meth:`~skfedcausal.FederatedRCADetector.update`.
"""

from ..estimators._stream_batches import StreamWarning
from .clock import Clock
from .csv_file import follow_csv
from .mqtt import follow_mqtt

__all__ = ["Clock", "StreamWarning", "follow_csv", "follow_mqtt"]
