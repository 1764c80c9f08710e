"""States of a unit: what its measurements say about them, and the replies of the server."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import isfinite
from typing import Any, Self

import numpy as np

from ..statespace.observation import Information
from .clock import check_clock
from .packet import Packet, PacketError, n_leading
from .schema import WIRE_DTYPES as WIRE_DTYPES
from .schema import ArrayOrNone, Message, wire


class StateMessage(Message, op="states", first="z patterns index lengths inputs"):
    """Sufficient statistic of a unit's measurements, to learn the plant.

    Sent once for every record.

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
    rest : float or None
        Mean of `const` over the rows, sent by units whose model of their sensors would be better after
        another round, and only when the server asks who they are.
    gain_alone : float or None
        Mean log-density of the unit's measurements given its own past, less `const` and a penalty: what the
        plant has to give the states. Sent by units whose own past predicts more than their model of it, and
        only when the server asks.
    alone : bool or None
        Whether `const` is the whole log-density given the unit's own past.
    open_order : bool or None
        Whether the unit chose its number of states and may find more with the inputs of others; only when the server
        asks.
    sketch : ndarray of shape (n_sums, n_sensors) or None
        Sums of rows, with signs, of what the states and the unit's own past leave of its sensors; sent by units that
        may make a sensor a state, and only when the server asks.
    outdated : bool or None
        Whether the unit's model explains these rows clearly worse than those that it was learned from, or does not;
        only when the server asks.
    wanders : float or None
        Period in rows from which on the sensors of the unit wander more than their noise moves; only where they do,
        and when the server asks for what another look would help.
    clock : ndarray of shape (2 + n_episodes,) or None
        Seconds from row to row, whether the zone of the times is known (1) or not (0), and first time of each
        episode in seconds since 1970; sent by sites that know the times of their rows.
    grid : ndarray of int of shape (1,) or None
        Digest of the times of all rows, sent with it.
    events : ndarray of bool of shape (n_samples, 3) or None
        Whether a column that is constant in nominal operation has another value, a column repeats its value for
        longer than it ever did, and all columns do. Sent by watched units in records in which one is so.

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

    z: np.ndarray = wire("whitened T p", "sufficient statistic of the states")
    patterns: np.ndarray = wire("informations k p p", "how precisely the sensors see the states")
    index: ArrayOrNone = wire("positions T", "which sensors were seen in each time step", of="patterns", default=None)
    lengths: tuple[int, ...] = wire("lengths e", "number of time steps of each episode", default=())
    const: ArrayOrNone = wire("numbers T", "rest of the log-density of each time step", default=None)
    transition: ArrayOrNone = wire("numbers p p", "dynamics of the unit's own states", default=None)
    process_cov: ArrayOrNone = wire("covariance p p", "process noise of the unit's own states", default=None)
    inputs: ArrayOrNone = wire("inputs T q", "the unit's inputs as they are", default=None)
    input_matrix: ArrayOrNone = wire("numbers p q", "how the inputs act on the unit's states", default=None)
    off_subspace: ArrayOrNone = wire("numbers T", "distance of measurements from what states show", default=None)
    unpredicted: ArrayOrNone = wire("covariance p p", "what the past leaves unpredicted of the states", default=None)
    rest: float | None = wire(
        "number", "mean rest of the log-density of units that another round would help", default=None, least=-np.inf
    )
    gain_alone: float | None = wire(
        "number", "log-density of the measurements given the unit's own past", default=None, least=-np.inf
    )
    alone: bool | None = wire("flag", "whether the unit's own past predicts its measurements", default=None)
    open_order: bool | None = wire("flag", "whether others may add states", default=None)
    sketch: ArrayOrNone = wire("halves m d", "sums of what states and own past leave of sensors", default=None)
    outdated: bool | None = wire("flag", "whether the unit's model fits no longer", default=None)
    wanders: float | None = wire("number", "period in rows from which on the unit's sensors drift", default=None)
    clock: ArrayOrNone = wire(
        "numbers c", "seconds from row to row, 1 for a known zone, start of each episode", default=None
    )
    grid: ArrayOrNone = wire("whole 1", "digest of the times of all rows", default=None)
    events: ArrayOrNone = wire("bits T 3", "whether constant columns change and others hold their values", default=None)

    OF_RECORD = True

    @property
    def n_states(self) -> int:
        """Number of states of the unit."""
        return self.z.shape[1]

    @property
    def n_inputs(self) -> int:
        """Number of inputs of the unit."""
        return 0 if self.inputs is None else self.inputs.shape[1]

    @property
    def input_range(self) -> np.ndarray | None:
        """Least and largest value of each input, shape (2, n_inputs)."""
        return np.zeros((2, 0)) if self.inputs is None else np.array([self.inputs.min(axis=0), self.inputs.max(axis=0)])

    @classmethod
    def silent(
        cls, n_states: int, lengths: Sequence[int], inputs: np.ndarray | None = None, const: bool = False
    ) -> Self:
        """What stands in for a unit that does not answer: nothing is known of its states in any row.

        Parameters
        ----------
        n_states : int
        lengths : tuple of int
            Rows of each episode.
        inputs : ndarray of shape (n_samples, n_inputs), default=None
            What its inputs are taken to be.
        const : bool, default=False
            Whether likelihood values are wanted; the unit adds nothing to them.

        Returns
        -------
        StateMessage
        """
        n = sum(lengths)
        z, patterns = np.zeros((n, n_states)), np.zeros((1, n_states, n_states))
        return cls(z, patterns, lengths=tuple(lengths), inputs=inputs, const=np.zeros(n) if const else None)

    @classmethod
    def from_packet(cls, packet):
        """Message in a packet, see :meth:`Message.from_packet`; quickly where it is about one row."""
        return _of_one_row(packet) or super().from_packet(packet)

    def to_packet(self, round=0, dtype="float64"):
        """Packet form, see :meth:`Message.to_packet`; quickly where it follows one like it."""
        before, sizes = vars(self).get("_written", (None, None))
        if before is None or dtype != "float64":
            return super().to_packet(round, dtype)
        packet = Packet(self.OP, round, before | {"z": self.z, "off_subspace": self.off_subspace})
        kind = round, n_leading(self.z)  # all that the size depends on: a single number has no table
        if kind in sizes:
            packet.is_of_size(sizes[kind])
        else:
            sizes[kind] = packet.nbytes
        return packet

    def next_row(self, z: np.ndarray, off_subspace: np.ndarray) -> "StateMessage":
        """The message about another single row that says the same of everything else.

        Parameters
        ----------
        z : ndarray of shape (1, n_states)
        off_subspace : ndarray of shape (1,)

        Returns
        -------
        StateMessage
        """
        own = vars(self)
        if "_written" not in own:
            own["_written"] = super().to_packet().arrays, {}  # and sizes of packets
        other = object.__new__(StateMessage)  # without what `replace` makes of every field anew
        vars(other).update(own, z=z, off_subspace=off_subspace)
        return other

    @property
    def J(self) -> np.ndarray:
        """Information matrix ``C' R^-1 C``: one, or one per time step where they differ."""
        return self.patterns[0] if self.index is None else self.patterns[self.index]

    @property
    def information(self) -> Any:
        """The message as an information series."""
        return Information(self.z, self.patterns, self.index, self.const)

    def rows(self, start: int, stop: int) -> Self:
        """The message about some rows of one episode.

        Parameters
        ----------
        start, stop : int

        Returns
        -------
        StateMessage
        """
        return self.at(slice(start, stop), (stop - start,))

    def at(self, rows: slice | np.ndarray, lengths: Sequence[int]) -> Self:
        """The message about some rows, a slice or array of positions, that make up episodes of `lengths`.

        Parameters
        ----------
        rows : slice or ndarray of int
        lengths : tuple of int

        Returns
        -------
        StateMessage
        """
        by_row = ("z", "index", "const", "inputs", "off_subspace", "events")
        series = {name: value[rows] for name in by_row if (value := getattr(self, name)) is not None}
        return replace(self, lengths=tuple(lengths), **series)

    def with_inputs(self, inputs: np.ndarray, input_matrix: np.ndarray | None = None) -> Self:
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

    def _check(self, packet):
        if len(self.patterns) == 0:
            raise PacketError("Array 'patterns' of packet 'states' holds no information matrix.")
        if self.index is None and len(self.patterns) != 1:
            raise PacketError(f"Packet has {len(self.patterns)} patterns but no array 'index'.")
        for k in () if self.index is None else (self.index.min(initial=0), self.index.max(initial=0)):
            if not 0 <= k < len(self.patterns):
                raise PacketError(f"Array 'index' names pattern {k} of {len(self.patterns)}.")
        if sum(self.lengths) != len(self.z) or min(self.lengths, default=0) < 1:
            raise PacketError(f"Array 'lengths' is {self.lengths}, which does not cut {len(self.z)} rows.")
        if self.events is not None and len(self.events) != len(self.z):
            raise PacketError(f"Array 'events' has {len(self.events)} rows, and the message {len(self.z)}.")
        if self.clock is not None or self.grid is not None:
            check_clock(self.clock, self.grid, self.lengths, self.OP)


MOST_NAMED, MOST_SUMS = 2, 50  # sensors that a fit may name, and sums in the sketch that tells which
_OF_NEW_STATES = ("patterns", "const", "transition", "process_cov", "input_matrix", "rest", "gain_alone")


def n_named(n_states, n_sensors):
    """Sensors of a unit that a fit may name: one at least is left that tells of noise."""
    return max(min(MOST_NAMED, n_sensors - n_states - 1), 0)


class SensorStates(Message, op="sensor states"):
    """Sensors that became states of their own, and how the unit's message follows from them and the one before.

    Attributes
    ----------
    sensors : ndarray of shape (n_samples, n_sensors)
        These sensors less their level.
    mixed : ndarray of shape (n_states, n_states)
        What takes the `z` before and the sensors, side by side, to the new `z`.
    patterns : ndarray of shape (1, n_states, n_states)
        Information matrix of the new states.
    const, transition, process_cov, input_matrix, rest, gain_alone
        Of the new states, as in :class:`StateMessage`.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message import StateMessage
    >>> from skfedcausal.message.states import SensorStates
    >>> before = StateMessage(np.ones((3, 1)), np.eye(1)[None], lengths=(3,))
    >>> SensorStates(np.zeros((3, 1)), np.eye(2), np.eye(2)[None]).after(before).z.shape
    (3, 2)
    """

    sensors: np.ndarray = wire("series T q", "sensors that became states", least=1)
    mixed: np.ndarray = wire("numbers p p", "what takes the message before and the sensors to the new one")
    patterns: np.ndarray = wire("informations k p p", "how precisely the sensors see the states")
    const: ArrayOrNone = wire("numbers T", "rest of the log-density of each time step", default=None)
    transition: ArrayOrNone = wire("numbers p p", "dynamics of the unit's own states", default=None)
    process_cov: ArrayOrNone = wire("covariance p p", "process noise of the unit's own states", default=None)
    input_matrix: ArrayOrNone = wire("numbers p u", "how the inputs act on the unit's states", default=None)
    rest: float | None = wire("number", "mean rest of the log-density", default=None, least=-np.inf)
    gain_alone: float | None = wire(
        "number", "log-density of the measurements given the unit's own past", default=None, least=-np.inf
    )

    @classmethod
    def of(cls, message: StateMessage, sensors: np.ndarray, mixed: np.ndarray) -> Self:
        """The part of a message that does not follow from the one before.

        Parameters
        ----------
        message : StateMessage
        sensors : ndarray of shape (n_samples, n_sensors)
        mixed : ndarray of shape (n_states, n_states)

        Returns
        -------
        SensorStates
        """
        return cls(sensors, mixed, **{name: getattr(message, name) for name in _OF_NEW_STATES})

    def after(self, message: StateMessage) -> StateMessage:
        """The message that follows from the one before.

        Parameters
        ----------
        message : StateMessage

        Returns
        -------
        StateMessage

        Raises
        ------
        PacketError
            If the sizes do not go together.
        """
        both = message.z.shape[1] + self.sensors.shape[1]
        if len(self.sensors) != len(message.z) or both != len(self.mixed) or len(self.patterns) != 1:
            raise PacketError(
                f"Packet {self.OP!r} makes {self.sensors.shape} sensors and {message.z.shape} states before into "
                f"{len(self.mixed)} states with {len(self.patterns)} information matrices, which does not fit."
            )
        z = np.hstack([message.z, self.sensors]) @ self.mixed.T
        return replace(message, z=z, **{name: getattr(self, name) for name in _OF_NEW_STATES})


_ROW = ["z", "patterns", "lengths", "off_subspace"]  # arrays about one row of a watched unit


def _of_one_row(packet):
    """Message about one row in double precision, as streams bring them again and again; None of any other."""
    arrays = packet.arrays
    if list(arrays) != _ROW or packet.op != StateMessage.OP or packet.scalars:
        return None
    z, packed, lengths, distance = values = arrays.values()
    if any(type(x) is not np.ndarray or x.dtype.char not in "dl" for x in values) or lengths.dtype.kind != "i":
        return None
    if z.shape != (1, z.size) or lengths.shape != (1,) or distance.shape != (1,) or lengths.item() != 1:
        return None
    if not isfinite(sum(z[0].tolist()) + distance.item()) or packed.dtype.kind != "f" or packed.ndim != 2:
        return None
    row = _row_like(packed.tobytes(), packed.shape, z.size)
    return None if row is None else row.next_row(z, distance)


@lru_cache(4096)
def _row_like(packed, shape, p):
    """A message about one row with these triangles, from which others differ in their numbers only; None of others."""
    if shape != (1, p * (p + 1) // 2):
        return None
    arrays = {"z": np.zeros((1, p)), "patterns": np.frombuffer(packed).reshape(shape), "lengths": np.ones(1, dtype=int)}
    try:
        row = super(StateMessage, StateMessage).from_packet(Packet(StateMessage.OP, 0, arrays))
    except PacketError:
        return None  # whoever reads the whole packet says why
    row.patterns.setflags(write=False)
    return row


class Acknowledgement(Message, op="done"):
    """Says that a reply was taken.

    Examples
    --------
    >>> from skfedcausal.message.states import Acknowledgement
    >>> Acknowledgement().to_packet().op
    'done'
    """


class SmoothedReply(Message, op="refine", answer=StateMessage):
    """The unit's smoothed states, to re-estimate its sensors locally.

    They are given all units' messages.

    Attributes
    ----------
    states : ndarray of shape (n_samples, n_states)
    covariances : ndarray of shape (n_samples or 1, n_states, n_states)
        Covariance of each time step's states, or one for all.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.states import SmoothedReply
    >>> reply = SmoothedReply(np.zeros((4, 2)), np.eye(2)[None])
    >>> SmoothedReply.from_packet(reply.to_packet()).covariances.shape
    (1, 2, 2)
    """

    states: np.ndarray = wire("series T p", "the unit's own states")
    covariances: np.ndarray = wire("covariances k p p", "their covariances", array="packed")
    LEARNED = True

    def _check(self, packet):
        n, k = len(self.states), len(self.covariances)
        if k not in (1, n):
            raise PacketError(f"Array 'packed' has {k} covariances for {n} time steps.")


class StateReply(Message, op="reply", answer=Acknowledgement, first="cross_term predicted"):
    """Results of the server about this unit.

    Attributes
    ----------
    cross_term : ndarray of shape (n_samples, n_states)
        Influence of the other units, ``sum_n A_mn E[h_n[t-1] | messages up to t-1] + B_mn u_n[t-1]``, inputs
        less their mean, and what an unannounced shift of the unit's level adds; summed over the lags of a
        plant that has several. In a packet it is rounded to halves of each column's standard deviation, whatever
        the precision of the other series: a unit learns a regression from it, which takes that for 2 % of noise.
    predicted : ndarray of shape (n_samples, n_states) or None
        The server's one-step-ahead prediction of the unit's states.
    transition : ndarray of shape (n_states, p * n_states)
        The unit's diagonal blocks of lags 1 to p side by side, as the server estimated them; one where the
        plant has one lag.
    process_cov : ndarray of shape (n_states, n_states)
        The same of the process noise.
    input_matrix : ndarray of shape (n_states, q * n_inputs) or None
        How the unit's own inputs act on its states one row later or, side by side, after 0, 1, ..., q - 1 rows;
        None for a unit without inputs.
    input_level : ndarray of shape (n_states,) or None
        Mean influence of the other units' inputs, ``sum_n B_mn mean(u_n)``; None for a plant without inputs.
    noise_share : ndarray of shape (1,) or None
        How much of what its past leaves unpredicted the unit is to take for sensor noise in messages from now
        on; below zero, how much of the noise that it supposed is none. None for a unit that did not ask.
    alone : bool or None
        Whether the unit's own past predicts its measurements better than the plant does.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.states import StateReply
    >>> reply = StateReply(np.zeros((4, 2)), 0.5 * np.eye(2), np.eye(2))
    >>> [name for name in reply.to_packet().arrays if not name.startswith("cross_term_")]
    ['cross_term', 'length', 'transition', 'process_cov']
    """

    NEW_ROUND = False

    cross_term: np.ndarray = wire("stepped T p", "influence of the other units in 4 bits a number")
    transition: np.ndarray = wire("numbers p a", "the unit's own dynamics, lag by lag")
    process_cov: np.ndarray = wire("covariance p p", "the unit's own process noise")
    predicted: ArrayOrNone = wire("series T p", "prediction of the unit's states", default=None)
    input_matrix: ArrayOrNone = wire("numbers p b", "how the unit's inputs act on its states", default=None)
    input_level: ArrayOrNone = wire("numbers p", "mean influence of the other units' inputs", default=None)
    noise_share: ArrayOrNone = wire("numbers 1", "part of the unpredicted to take for noise", default=None)
    alone: bool | None = wire("flag", "whether the unit's own past predicts it better", default=None)

    def _check(self, packet):
        n_states, n_columns = self.transition.shape
        if n_columns < 1 or n_columns % n_states:
            raise PacketError(f"Array 'transition' has {n_columns} columns, no blocks of {n_states} states.")
        if self.noise_share is not None and not -1 < self.noise_share[0] <= 1:
            raise PacketError(f"Array 'noise_share' is {self.noise_share[0]}, which is no share.")


class Measurements(Message, op="measurements"):
    """Numbers that the unit was asked for, in the units of its own sensors.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_columns)
        Predictions, effects of inputs or a replayed record.
    variance : ndarray of shape (n_rows, n_columns) or None
        Of the values, where it is known.
    columns : tuple of str
        Names of the columns.
    stops : ndarray of shape (3, n_stops) or None
        Stops of valves and full or empty tanks that the record of `fit` shows: position of the column, -1 for its
        lowest value and 1 for its highest, value. With a replayed record alone.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.states import Measurements
    >>> answer = Measurements(np.zeros((5, 2)), columns=("flow", "level"))
    >>> Measurements.from_packet(answer.to_packet()).columns
    ('flow', 'level')
    """

    values: np.ndarray = wire("series T d", "numbers in the units of the sensors")
    variance: ArrayOrNone = wire("series T d", "variance of these numbers", default=None)
    columns: tuple[str, ...] = wire("names d", "names of the sensors", default=())
    stops: ArrayOrNone = wire("numbers 3 k", "column, side and value of stops that the record shows", default=None)

    def _check(self, packet):
        if self.stops is not None:
            columns, sides, _ = self.stops
            if not (np.isin(columns, range(self.values.shape[1])) & np.isin(sides, (-1, 1))).all():
                raise PacketError(f"Array 'stops' of packet {self.OP!r} names columns or sides that there are none of.")


class EffectReply(Message, op="effect", answer=Measurements):
    """Effect of a change of inputs on this unit's states, to be mapped through its own sensors.

    Attributes
    ----------
    states : ndarray of shape (n_steps, n_states)
        Effect on the states.
    covariances : ndarray of shape (n_steps, n_states, n_states) or None
        Covariance of the estimated effect; None from a server that has none.
    keep : bool or None
        Whether the unit keeps the effect on its sensors to itself and answers with an acknowledgement.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.states import EffectReply
    >>> reply = EffectReply(np.ones((3, 2)), np.zeros((3, 2, 2)))
    >>> EffectReply.from_packet(reply.to_packet()).states.shape  # one row per step ahead
    (3, 2)
    """

    states: np.ndarray = wire("series T p", "effect on the unit's states")
    covariances: ArrayOrNone = wire("covariances T p p", "their covariances", array="packed", default=None)
    keep: bool | None = wire("flag", "whether the effect on the sensors stays at the unit", default=None)


class PredictionReply(Message, op="prediction", answer=Measurements):
    """Prediction of this unit's states one step ahead, to be mapped through its own sensors.

    Attributes
    ----------
    states : ndarray of shape (n_samples, n_states)
    covariances : ndarray of shape (n_samples, n_states, n_states) or None
        Of what the prediction misses of the scores ``J^-1 z`` of these rows, where bands are asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.states import PredictionReply
    >>> reply = PredictionReply(np.zeros((4, 2)))
    >>> PredictionReply.from_packet(reply.to_packet()).states.shape
    (4, 2)
    """

    states: np.ndarray = wire("series T p", "the unit's own states one step ahead")
    covariances: ArrayOrNone = wire("covariances T p p", "their covariances", array="packed", default=None)


class FeedbackLaw(Message, op="law"):
    """How the unit's controllers compute its inputs, in terms of its states.

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
    >>> from skfedcausal.message.states import FeedbackLaw
    >>> law = FeedbackLaw(np.array([[0.2, 0.0]]), np.array([[0.0, 0.1]]), np.array([[0.9]]))
    >>> FeedbackLaw.from_packet(law.to_packet()).present.shape
    (1, 2)
    """

    present: np.ndarray = wire("numbers q p", "gain on the states")
    previous: np.ndarray = wire("numbers q p", "gain on the states one step before")
    persistence: np.ndarray = wire("numbers q q", "gain on the inputs one step before")
