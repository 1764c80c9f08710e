"""The frozen types that cross the border between a unit and the server. Nothing else does.

Each type knows its packet form: which arrays of which shape, in which precision. Reading a packet checks
what came and what it means, so that nobody works on something that is not what it claims to be.

Below double precision a series travels scaled to the range of the precision, and what undoes the scaling
travels with it: rounding costs the same whatever the units of the states.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..statespace.observation import Information
from ..statespace.rounding import packed_products, packed_triangles, state_units, whitened_columns
from .codes import stepped
from .fields import Fields, series_arrays
from .packet import Packet, PacketError

WIRE_DTYPES = ("float64", "float32", "float16")
REQUEST = "fit"  # operation of a packet that asks for the first message
LAW_REQUEST = "ask law"  # operation of a packet that asks how a unit's inputs follow its measurements
ACKNOWLEDGEMENT = "done"  # operation of the packet that says a reply was taken


@dataclass(frozen=True)
class StateMessage:
    """What a unit's measurements say about its state, sent once.

    Attributes
    ----------
    z : ndarray of shape (n_samples, n_states)
        ``C' R^-1 y`` at every time step.
    patterns : ndarray of shape (n_patterns, n_states, n_states)
        Distinct information matrices ``C' R^-1 C``.
    index : ndarray of shape (n_samples,) or None
        Which pattern holds at each step; None when there is one.
    lengths : tuple of int
        Time steps of each episode.
    const : ndarray of shape (n_samples,) or None
        The rest of the log-density, ``-1/2 (D log 2 pi + log|R| + y' R^-1 y)``; sent only when likelihood
        values are asked for.
    transition, process_cov : ndarray of shape (n_states, n_states) or None
        The unit's own model; sent only when the server asks for it.
    inputs : ndarray of shape (n_samples, n_inputs) or None
        The unit's own inputs as they are; those of row t act on the states of row t + 1.
    input_matrix : ndarray of shape (n_states, n_inputs) or None
        How the inputs act on the states in the unit's own model, sent together with it.
    off_subspace : ndarray of shape (n_samples,) or None
        Mahalanobis distance of the measurements from what the states can show; sent by units that are
        watched for faults.
    unpredicted : ndarray of shape (n_states, n_states) or None
        Covariance that the noise of the scores ``J^-1 z`` had if all that the past leaves unpredicted of the
        measurements were sensor noise; sent by units with as many states as sensors, which cannot tell.

    Examples
    --------
    >>> from skfedcausal import KalmanClient
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.message import StateMessage
    >>> X, _ = make_granger_plant(1, random_state=0)
    >>> message = KalmanClient().fit(X["unit0"]).message(X["unit0"])
    >>> message.z.shape, message.J.shape
    ((2000, 2), (2, 2))
    >>> packet = message.to_packet(dtype="float16")
    >>> packet.nbytes < X["unit0"].nbytes / 10
    True
    >>> StateMessage.from_packet(packet).z.shape
    (2000, 2)
    """

    z: np.ndarray
    patterns: np.ndarray
    index: np.ndarray | None = None
    lengths: tuple[int, ...] = ()
    const: np.ndarray | None = None
    transition: np.ndarray | None = None
    process_cov: np.ndarray | None = None
    inputs: np.ndarray | None = None
    input_matrix: np.ndarray | None = None
    off_subspace: np.ndarray | None = None
    unpredicted: np.ndarray | None = None

    OP: ClassVar[str] = "states"

    @property
    def J(self):
        """Information matrix ``C' R^-1 C``: one, or one per time step where they differ."""
        return self.patterns[0] if self.index is None else self.patterns[self.index]

    @property
    def information(self):
        """The message as an information series."""
        return Information(self.z, self.patterns, self.index, self.const)

    def rows(self, start, stop):
        """The message about some rows of one episode.

        Parameters
        ----------
        start, stop : int

        Returns
        -------
        StateMessage
        """
        return self.at(slice(start, stop), (stop - start,))

    def at(self, rows, lengths):
        """The message about some rows, a slice or array of positions, that make up episodes of `lengths`.

        Parameters
        ----------
        rows : slice or ndarray of int
        lengths : tuple of int

        Returns
        -------
        StateMessage
        """
        series = {
            name: getattr(self, name)[rows]
            for name in ("z", "index", "const", "inputs", "off_subspace")
            if getattr(self, name) is not None
        }
        return replace(self, lengths=lengths, **series)

    def with_inputs(self, inputs, input_matrix=None):
        """The message with the unit's inputs; its input matrix only travels with the rest of its model.

        Parameters
        ----------
        inputs : ndarray of shape (n_samples, n_inputs)
        input_matrix : ndarray of shape (n_states, n_inputs), default=None

        Returns
        -------
        StateMessage
        """
        if inputs is None:
            return self
        return replace(self, inputs=inputs, input_matrix=None if self.transition is None else input_matrix)

    def to_packet(self, round=0, dtype="float64"):
        """Packet form, with the series in the given precision.

        Below double precision the series travels as ``J^-1/2 z`` (unit noise, J averaged over time), and
        information matrices of which there are several travel in single precision.

        Parameters
        ----------
        round : int, default=0
        dtype : str, default="float64"
            Of the series on the wire: "float64", "float32" or "float16".

        Returns
        -------
        Packet
        """
        arrays = {}
        packed = packed_triangles(self.patterns)
        if dtype == "float64":
            arrays["z"] = self.z
        else:
            arrays["z"], arrays["unscale"] = whitened_columns(
                self.z, self.information.mean_information, dtype
            )
            if len(packed) > 1:
                units = state_units(self.patterns)
                packed = (packed / packed_products(units)).astype(np.float32)
                arrays["patterns_units"] = units
        arrays["patterns"] = packed
        if self.index is not None:
            arrays["index"] = self.index.astype(_index_dtype(len(packed)))
        arrays["lengths"] = np.asarray(self.lengths, dtype=np.int64)
        if self.inputs is not None:  # half precision would round the position of a valve
            arrays |= series_arrays("inputs", self.inputs, "float32" if dtype == "float16" else dtype)
        for name in ("const", "transition", "process_cov", "input_matrix", "off_subspace", "unpredicted"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        return Packet(self.OP, round, arrays)

    @classmethod
    def from_packet(cls, packet):
        """Message in a packet.

        Parameters
        ----------
        packet : Packet

        Returns
        -------
        StateMessage

        Raises
        ------
        PacketError
            If the arrays do not fit together, are not finite or cannot be meant: no states, fractional or
            negative counts, matrices that are no covariances.
        """
        fields = Fields(packet, cls.OP)
        z = fields.whitened("z", "unscale")
        n_samples, p = z.shape
        units = fields.numbers("patterns_units", (p,), optional=True)
        patterns = fields.symmetric("patterns", p, units)
        index = fields.whole("index", (n_samples,), optional=True)
        _check_index(index, len(patterns))
        lengths = tuple(int(k) for k in fields.whole("lengths", (None,)))
        if sum(lengths) != n_samples or min(lengths, default=0) < 1:
            raise PacketError(f"Array 'lengths' is {lengths}, which does not cut {n_samples} rows.")
        const = fields.numbers("const", (n_samples,), optional=True)
        transition = fields.numbers("transition", (p, p), optional=True)
        process_cov = fields.covariance("process_cov", p, optional=True)
        inputs = fields.series("inputs", (n_samples, None), optional=True)
        k = None if inputs is None else inputs.shape[1]
        input_matrix = fields.numbers("input_matrix", (p, k), optional=True)
        off_subspace = fields.numbers("off_subspace", (n_samples,), optional=True)
        unpredicted = fields.covariance("unpredicted", p, optional=True)
        fields.check_all_read()
        own = (const, transition, process_cov, inputs, input_matrix, off_subspace, unpredicted)
        return cls(z, patterns, index, lengths, *own)


def _check_index(index, n_patterns):
    if n_patterns == 0:
        raise PacketError("Array 'patterns' of packet 'states' holds no information matrix.")
    if index is None:
        if n_patterns != 1:
            raise PacketError(f"Packet has {n_patterns} patterns but no array 'index'.")
        return
    for k in (index.min(initial=0), index.max(initial=0)):
        if not 0 <= k < n_patterns:
            raise PacketError(f"Array 'index' names pattern {k} of {n_patterns}.")


def _index_dtype(n_patterns):
    return np.min_scalar_type(max(n_patterns - 1, 0)).newbyteorder("<")


@dataclass(frozen=True)
class _StatesReply:
    """States with their covariances, in the packet form that the replies about them share."""

    states: np.ndarray
    covariances: np.ndarray | None = None

    OP: ClassVar[str]
    ROWS: ClassVar[str] = "steps"  # what the rows of `states` are
    ONE_FOR_ALL: ClassVar[bool] = False  # whether a single covariance may stand for all of them
    MAY_LACK: ClassVar[bool] = False  # whether there may be no covariances

    def to_packet(self, round=0, dtype="float64"):
        """Packet form, with the states in the given precision."""
        arrays = series_arrays("states", self.states, dtype)
        if not (self.MAY_LACK and self.covariances is None):
            arrays["packed"] = packed_triangles(self.covariances)
        return Packet(self.OP, round, arrays)

    @classmethod
    def from_packet(cls, packet):
        """Reply in a packet.

        Raises
        ------
        PacketError
            If the arrays do not fit together, are not finite or hold a matrix that is no covariance.
        """
        fields = Fields(packet, cls.OP)
        states = fields.series("states")
        if cls.MAY_LACK and "packed" not in packet.arrays:
            fields.check_all_read()
            return cls(states)
        covariances = fields.symmetric("packed", states.shape[1])
        if len(covariances) != len(states) and not (cls.ONE_FOR_ALL and len(covariances) == 1):
            raise PacketError(
                f"Array 'packed' has {len(covariances)} covariances for {len(states)} {cls.ROWS}."
            )
        fields.check_all_read()
        return cls(states, covariances)


@dataclass(frozen=True)
class SmoothedReply(_StatesReply):
    """A unit's own states given all units' messages, for re-estimating its sensors at home.

    Attributes
    ----------
    states : ndarray of shape (n_samples, n_states)
    covariances : ndarray of shape (n_samples or 1, n_states, n_states)
        Covariance of each time step's states, or one for all.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message import SmoothedReply
    >>> reply = SmoothedReply(np.zeros((4, 2)), np.eye(2)[None])
    >>> SmoothedReply.from_packet(reply.to_packet()).covariances.shape
    (1, 2, 2)
    """

    OP: ClassVar[str] = "refine"
    ROWS: ClassVar[str] = "time steps"
    ONE_FOR_ALL: ClassVar[bool] = True


@dataclass(frozen=True)
class StateReply:
    """What the server tells a unit about its own states.

    Attributes
    ----------
    cross_term : ndarray of shape (n_samples, n_states)
        Influence of the other units, ``sum_n A_mn E[h_n[t-1] | messages up to t-1] + B_mn u_n[t-1]``, inputs
        less their mean, and what an unannounced shift of the unit's level adds. In a packet it is rounded to
        halves of each column's standard deviation, whatever the precision of the other series: a unit
        learns a regression from it, which takes that for 2 % of noise.
    predicted : ndarray of shape (n_samples, n_states) or None
        The server's one-step-ahead prediction of the unit's states.
    transition, process_cov : ndarray of shape (n_states, n_states)
        The unit's diagonal blocks as the server estimated them.
    input_matrix : ndarray of shape (n_states, n_inputs) or None
        How the unit's own inputs act on its states; None for a unit without inputs.
    input_level : ndarray of shape (n_states,) or None
        Mean influence of the other units' inputs, ``sum_n B_mn mean(u_n)``; None for a plant without inputs.
    noise_share : ndarray of shape (1,) or None
        How much of what its past leaves unpredicted the unit is to take for sensor noise in messages from now
        on; None for a unit that did not ask.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message import StateReply
    >>> reply = StateReply(np.zeros((4, 2)), 0.5 * np.eye(2), np.eye(2))
    >>> [name for name in reply.to_packet().arrays if not name.startswith("cross_term_")]
    ['cross_term', 'length', 'transition', 'process_cov']
    """

    cross_term: np.ndarray
    transition: np.ndarray
    process_cov: np.ndarray
    predicted: np.ndarray | None = None
    input_matrix: np.ndarray | None = None
    input_level: np.ndarray | None = None
    noise_share: np.ndarray | None = None

    OP: ClassVar[str] = "reply"
    NEW_ROUND: ClassVar[bool] = False

    def to_packet(self, round=0, dtype="float64"):
        """Packet form: the cross term in 4 bits a number, the prediction in the given precision."""
        names = ("cross_term", "cross_term_beyond", "cross_term_level", "cross_term_step")
        arrays = dict(zip(names, stepped(self.cross_term), strict=True))
        arrays["length"] = np.array([len(self.cross_term)])
        if self.predicted is not None:
            arrays |= series_arrays("predicted", self.predicted, dtype)
        arrays["transition"], arrays["process_cov"] = self.transition, self.process_cov
        for name in ("input_matrix", "input_level", "noise_share"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        return Packet(self.OP, round, arrays)

    @classmethod
    def from_packet(cls, packet):
        """Reply in a packet.

        Raises
        ------
        PacketError
            If the arrays do not fit together, are not finite or hold a matrix that is no covariance.
        """
        fields = Fields(packet, cls.OP)
        cross_term = fields.stepped("cross_term", int(fields.whole("length", (1,))[0]))
        p = cross_term.shape[1]
        predicted = fields.series("predicted", cross_term.shape, optional=True)
        transition = fields.numbers("transition", (p, p))
        process_cov = fields.covariance("process_cov", p)
        input_matrix = fields.numbers("input_matrix", (p, None), optional=True)
        input_level = fields.numbers("input_level", (p,), optional=True)
        noise_share = fields.numbers("noise_share", (1,), optional=True)
        if noise_share is not None and not 0 <= noise_share[0] <= 1:
            raise PacketError(f"Array 'noise_share' is {noise_share[0]}, which is no share.")
        fields.check_all_read()
        return cls(cross_term, transition, process_cov, predicted, input_matrix, input_level, noise_share)


@dataclass(frozen=True)
class EffectReply(_StatesReply):
    """What a change of inputs does to a unit's states, for the unit to map through its own sensors.

    Attributes
    ----------
    states : ndarray of shape (n_steps, n_states)
        Effect on the states.
    covariances : ndarray of shape (n_steps, n_states, n_states) or None
        Covariance of the estimated effect; None from a server that has none.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message import EffectReply
    >>> reply = EffectReply(np.ones((3, 2)), np.zeros((3, 2, 2)))
    >>> EffectReply.from_packet(reply.to_packet()).states.shape  # one row per step ahead
    (3, 2)
    """

    OP: ClassVar[str] = "effect"
    MAY_LACK: ClassVar[bool] = True


@dataclass(frozen=True)
class PredictionReply(_StatesReply):
    """The server's one-step-ahead prediction of a unit's states, to be mapped through its own sensors.

    Attributes
    ----------
    states : ndarray of shape (n_samples, n_states)
    covariances : None

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message import PredictionReply
    >>> reply = PredictionReply(np.zeros((4, 2)))
    >>> PredictionReply.from_packet(reply.to_packet()).states.shape
    (4, 2)
    """

    OP: ClassVar[str] = "prediction"
    MAY_LACK: ClassVar[bool] = True


@dataclass(frozen=True)
class FeedbackLaw:
    """How a unit's controllers compute its inputs, in terms of the unit's states.

    ``u[t] = K0 h[t] + K1 h[t-1] + F u[t-1] + rest``, what a law ``u[t] = L0 y[t] + L1 y[t-1] + F u[t-1]`` in
    measurements makes of a change of the states. The gains L0 and L1 stay at the unit.

    Attributes
    ----------
    present, previous : ndarray of shape (n_inputs, n_states)
        K0 and K1.
    persistence : ndarray of shape (n_inputs, n_inputs)
        F.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message import FeedbackLaw
    >>> law = FeedbackLaw(np.array([[0.2, 0.0]]), np.array([[0.0, 0.1]]), np.array([[0.9]]))
    >>> FeedbackLaw.from_packet(law.to_packet()).present.shape
    (1, 2)
    """

    present: np.ndarray
    previous: np.ndarray
    persistence: np.ndarray

    OP: ClassVar[str] = "law"

    def to_packet(self, round=0, dtype="float64"):
        """Packet form; matrices travel in double precision."""
        names = ("present", "previous", "persistence")
        return Packet(self.OP, round, {name: getattr(self, name) for name in names})

    @classmethod
    def from_packet(cls, packet):
        """Law in a packet.

        Raises
        ------
        PacketError
            If the arrays do not fit together or are not finite.
        """
        fields = Fields(packet, cls.OP)
        present = fields.numbers("present", (None, None))
        previous = fields.numbers("previous", present.shape)
        persistence = fields.numbers("persistence", (len(present),) * 2)
        fields.check_all_read()
        return cls(present, previous, persistence)
