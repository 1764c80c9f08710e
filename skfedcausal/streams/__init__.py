"""Live sources of a plant's rows as batches: a file that grows, a broker, a database, an OPC UA server.

The batches go to :meth:`~skfedcausal.FederatedRCADetector.incidents`,
:meth:`~skfedcausal.FederatedRCADetector.predict_root_cause` or, one by one, to
:meth:`~skfedcausal.FederatedRCADetector.update`.
"""

from ..estimators._watching import StreamWarning
from .clock import Clock
from .csv_file import follow_csv
from .mqtt import follow_mqtt
from .opcua import follow_opcua
from .sources import follow_table

__all__ = ["Clock", "StreamWarning", "follow_csv", "follow_mqtt", "follow_opcua", "follow_table"]
