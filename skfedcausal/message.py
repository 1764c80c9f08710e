"""The frozen types that cross the border between a unit and the server. Nothing else does.

Each type knows its packet form: which arrays of which shape, in which precision. Reading a packet checks
shapes and content, so that a server never works on something that is not what it claims to be.
"""

from dataclasses import dataclass

import numpy as np

from .federation.packet import Packet, PacketError
from .statespace.observation import Information

WIRE_DTYPES = ("float64", "float32", "float16")
_HALF_TOP = 2.0**14  # scaled scores stay well below the largest half-precision number, 65504


def _checked(packet, name, ndim, *, shape=None):
    """Array of a packet with the expected number of dimensions and finite content."""
    if name not in packet.arrays:
        raise PacketError(f"Packet {packet.op!r} lacks the array {name!r}.")
    value = packet.arrays[name]
    if value.ndim != ndim or (shape is not None and value.shape != shape):
        expected = shape if shape is not None else f"{ndim} dimensions"
        raise PacketError(
            f"Array {name!r} of packet {packet.op!r} has shape {value.shape}, expected {expected}."
        )
    if not np.isfinite(value).all():
        raise PacketError(f"Array {name!r} of packet {packet.op!r} has values that are not finite.")
    return value


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

    OP = "states"

    @property
    def J(self):
        """Information matrix ``C' R^-1 C``: one, or one per time step where they differ."""
        return self.patterns[0] if self.index is None else self.patterns[self.index]

    @property
    def information(self):
        """The message as an information series."""
        return Information(self.z, self.patterns, self.index, self.const)

    def to_packet(self, round=0, dtype="float64"):
        """Packet form, with the series in the given precision.

        Below double precision the series travels as ``J^-1/2 z`` (unit noise, J averaged over time), scaled
        by powers of two so that half precision neither overflows nor loses digits; the small matrix that
        undoes this travels with it.
        """
        arrays = {}
        if dtype == "float64":
            arrays["z"] = self.z
        else:
            arrays["z"], arrays["unscale"] = _scaled(self.z, self.information.mean_information, dtype)
        rows, cols = np.tril_indices(self.patterns.shape[1])
        packed = self.patterns[:, rows, cols]
        single = dtype == "float64" or len(packed) == 1
        arrays["patterns"] = packed if single else packed.astype(np.float32)
        if self.index is not None:
            arrays["index"] = self.index.astype(_index_dtype(len(packed)))
        arrays["lengths"] = np.asarray(self.lengths, dtype=np.int64)
        if self.inputs is not None:  # half precision would round a valve's position
            arrays["inputs"] = self.inputs.astype(_at_least_single(dtype), copy=False)
        for name in ("const", "transition", "process_cov", "input_matrix"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        return Packet(self.OP, round, arrays)

    @classmethod
    def from_packet(cls, packet):
        """Message in a packet.

        Raises
        ------
        PacketError
            If the arrays do not fit together or are not finite.
        """
        z = _checked(packet, "z", 2).astype(float, copy=False)
        n_samples, p = z.shape
        if "unscale" in packet.arrays:
            z = z @ _checked(packet, "unscale", 2, shape=(p, p))
        packed = _checked(packet, "patterns", 2)
        if len(packed) == 0:
            raise PacketError("Packet has no information matrix.")
        patterns = _unpacked(packed, p)
        index = None
        if "index" in packet.arrays:
            index = _checked(packet, "index", 1, shape=(n_samples,)).astype(np.intp)
            if n_samples and index.max() >= len(packed):
                raise PacketError(f"Array 'index' names pattern {index.max()} of {len(packed)}.")
        elif len(packed) != 1:
            raise PacketError(f"Packet has {len(packed)} patterns but no array 'index'.")
        lengths = tuple(int(k) for k in _checked(packet, "lengths", 1))
        if sum(lengths) != n_samples or min(lengths, default=0) < 1:
            raise PacketError(f"Array 'lengths' is {lengths}, which does not cut {n_samples} rows.")
        square = {"transition": (p, p), "process_cov": (p, p), "const": (n_samples,)}
        optional = {
            name: _checked(packet, name, len(shape), shape=shape)
            for name, shape in square.items()
            if name in packet.arrays
        }
        inputs = None
        if "inputs" in packet.arrays:
            inputs = _checked(packet, "inputs", 2).astype(float, copy=False)
            if len(inputs) != n_samples or inputs.shape[1] == 0:
                raise PacketError(f"Array 'inputs' has shape {inputs.shape}, expected {n_samples} rows.")
        input_matrix = None
        if "input_matrix" in packet.arrays:
            shape = (p, 0 if inputs is None else inputs.shape[1])
            input_matrix = _checked(packet, "input_matrix", 2, shape=shape)
        return cls(z, patterns, index, lengths, **optional, inputs=inputs, input_matrix=input_matrix)


def _at_least_single(dtype):
    return "float32" if dtype == "float16" else dtype


def _index_dtype(n_patterns):
    return np.min_scalar_type(max(n_patterns - 1, 0)).newbyteorder("<")


def _scaled(z, J, dtype):
    """Scaled series in the given precision and the matrix that undoes the scaling."""
    values, vectors = np.linalg.eigh(J)
    kept = values > 1e-12 * max(values[-1], 1e-300)
    root = np.sqrt(np.where(kept, values, 1.0))
    whitened = (z @ vectors) / root * kept
    top = np.abs(whitened).max(axis=0, initial=0.0)
    exponent = np.floor(np.log2(_HALF_TOP / np.where(top > 0, top, 1.0)))
    scale = np.exp2(exponent)
    unscale = (vectors * (root / scale * kept)).T
    return (whitened * scale).astype(dtype), np.ascontiguousarray(unscale)


@dataclass(frozen=True)
class SmoothedReply:
    """A unit's own states given all units' messages, for re-estimating its sensors at home.

    Attributes
    ----------
    states : ndarray of shape (n_samples, n_states)
    covariances : ndarray of shape (n_samples or 1, n_states, n_states)
        Covariance of each time step's states, or one for all.
    """

    states: np.ndarray
    covariances: np.ndarray

    OP = "refine"

    def to_packet(self, round=0, dtype="float64"):
        """Packet form, with the states in the given precision."""
        rows, cols = np.tril_indices(self.states.shape[1])
        packed = np.ascontiguousarray(self.covariances[:, rows, cols])
        return Packet(self.OP, round, {"states": self.states.astype(dtype, copy=False), "packed": packed})

    @classmethod
    def from_packet(cls, packet):
        """Reply in a packet.

        Raises
        ------
        PacketError
            If the arrays do not fit together or are not finite.
        """
        states = _checked(packet, "states", 2).astype(float, copy=False)
        packed = _checked(packet, "packed", 2)
        if len(packed) not in {1, len(states)}:
            raise PacketError(f"Packet has {len(packed)} covariances for {len(states)} time steps.")
        return cls(states, _unpacked(packed, states.shape[1]))


def _unpacked(packed, p):
    """Symmetric matrices from their lower triangles."""
    rows, cols = np.tril_indices(p)
    if packed.shape[1] != len(rows):
        raise PacketError(f"Packed matrices have {packed.shape[1]} elements, expected {len(rows)}.")
    matrices = np.empty((len(packed), p, p))
    matrices[:, rows, cols] = packed
    matrices[:, cols, rows] = packed
    return matrices


@dataclass(frozen=True)
class StateReply:
    """What the server tells a unit about its own states.

    Attributes
    ----------
    cross_term : ndarray of shape (n_samples, n_states)
        Influence of the other units, ``sum_n A_mn E[h_n[t-1] | messages up to t-1] + B_mn u_n[t-1]``, inputs
        less their mean.
    predicted : ndarray of shape (n_samples, n_states) or None
        The server's one-step-ahead prediction of the unit's states.
    transition, process_cov : ndarray of shape (n_states, n_states)
        The unit's diagonal blocks as the server estimated them.
    input_matrix : ndarray of shape (n_states, n_inputs) or None
        How the unit's own inputs act on its states; None for a unit without inputs.
    input_level : ndarray of shape (n_states,) or None
        Mean influence of the other units' inputs, ``sum_n B_mn mean(u_n)``; None for a plant without inputs.
    """

    cross_term: np.ndarray
    transition: np.ndarray
    process_cov: np.ndarray
    predicted: np.ndarray | None = None
    input_matrix: np.ndarray | None = None
    input_level: np.ndarray | None = None

    OP = "reply"

    def to_packet(self, round=0, dtype="float64"):
        """Packet form, with series in the given precision."""
        arrays = {"cross_term": self.cross_term.astype(dtype, copy=False)}
        if self.predicted is not None:
            arrays["predicted"] = self.predicted.astype(dtype, copy=False)
        arrays["transition"], arrays["process_cov"] = self.transition, self.process_cov
        for name in ("input_matrix", "input_level"):
            if getattr(self, name) is not None:
                arrays[name] = getattr(self, name)
        return Packet(self.OP, round, arrays)

    @classmethod
    def from_packet(cls, packet):
        """Reply in a packet.

        Raises
        ------
        PacketError
            If the arrays do not fit together or are not finite.
        """
        cross_term = _checked(packet, "cross_term", 2).astype(float, copy=False)
        p = cross_term.shape[1]
        predicted = None
        if "predicted" in packet.arrays:
            predicted = _checked(packet, "predicted", 2, shape=cross_term.shape).astype(float)
        transition = _checked(packet, "transition", 2, shape=(p, p))
        process_cov = _checked(packet, "process_cov", 2, shape=(p, p))
        input_matrix = input_level = None
        if "input_matrix" in packet.arrays:
            input_matrix = _checked(packet, "input_matrix", 2)
            if len(input_matrix) != p:
                raise PacketError(f"Array 'input_matrix' has {len(input_matrix)} rows, expected {p}.")
        if "input_level" in packet.arrays:
            input_level = _checked(packet, "input_level", 1, shape=(p,))
        return cls(cross_term, transition, process_cov, predicted, input_matrix, input_level)


@dataclass(frozen=True)
class EffectReply:
    """What a change of inputs does to a unit's states, for the unit to map through its own sensors.

    Attributes
    ----------
    states : ndarray of shape (n_steps, n_states)
        Effect on the states.
    covariances : ndarray of shape (n_steps, n_states, n_states)
        Covariance of the estimated effect.
    """

    states: np.ndarray
    covariances: np.ndarray

    OP = "effect"

    def to_packet(self, round=0, dtype="float64"):
        """Packet form, with the effects in the given precision."""
        rows, cols = np.tril_indices(self.states.shape[1])
        packed = np.ascontiguousarray(self.covariances[:, rows, cols])
        return Packet(self.OP, round, {"states": self.states.astype(dtype, copy=False), "packed": packed})

    @classmethod
    def from_packet(cls, packet):
        """Reply in a packet.

        Raises
        ------
        PacketError
            If the arrays do not fit together or are not finite.
        """
        states = _checked(packet, "states", 2).astype(float, copy=False)
        packed = _checked(packet, "packed", 2)
        if len(packed) != len(states):
            raise PacketError(f"Packet has {len(packed)} covariances for {len(states)} steps.")
        return cls(states, _unpacked(packed, states.shape[1]))
