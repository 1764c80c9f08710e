"""How an estimator reaches its units, as one object."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral

from sklearn.utils._param_validation import Interval, StrOptions

from ..message.states import WIRE_DTYPES
from ..parameters import ParameterGroup
from .lost import LostUnits


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Communication(ParameterGroup):
    """What carries the messages of a fit, how precisely, how many bytes, and what is done about units that are lost.

    Parameters
    ----------
    transport : callable, default=None
        Called with a dict of the units' workers by name, returns what carries the packets: an object with
        the methods ``clients()``, ``exchange(packets, timeout=)`` and ``close()``. None keeps everything
        in this process.
    wire_dtype : {"float64", "float32", "float16"}, default="float64"
        Precision of the series in the messages; inputs travel in single precision at least.
    lost_units : LostUnits, default=None
        What the fit does about units that do not answer, see
        :class:`~skfedcausal.federation.LostUnits`. None: every unit has to answer.
    max_bytes : int, default=None
        Most bytes that may leave all units together, in `fit` and when the estimator is asked about records
        afterwards (streams aside): what would exceed it is not sent, and a
        :class:`~skfedcausal.federation.ByteLimitError` says so. Sites of their own have limits of their own.

    Examples
    --------
    >>> from skfedcausal import Communication, FederatedGrangerEstimator
    >>> est = FederatedGrangerEstimator(communication=Communication(wire_dtype="float32"))
    >>> est.set_params(communication__max_bytes=10**6).communication
    Communication(max_bytes=1000000, wire_dtype='float32')
    """

    transport: Callable | None = None
    wire_dtype: str = "float64"
    lost_units: LostUnits | None = None
    max_bytes: int | None = None

    _parameter_constraints = {
        "transport": [callable, None],
        "wire_dtype": [StrOptions(set(WIRE_DTYPES))],
        "lost_units": [LostUnits, None],
        "max_bytes": [Interval(Integral, 0, None, closed="left"), None],
    }
