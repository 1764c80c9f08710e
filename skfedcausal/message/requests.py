"""Requests of the server and the answers to them, those of a watch included, and what a site promises."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .clock import check_clock
from .packet import NOTHING, Packet, PacketError
from .schema import RIDERS, ArrayOrNone, Message, wire
from .states import Acknowledgement, FeedbackLaw, Measurements, SensorStates, StateMessage

# Requests of the server, and the answers to them that are no states: each request names its answer.

_CONST = "whether to send the rest of the log-density, for likelihood values"
_LOCAL = "whether to send the unit's own model"
FITS = "whether to tell if the unit's model fits later rows as well"


class Ask(NamedTuple):
    """What a server asks of units next: a step of its dialogue with them.

    Attributes
    ----------
    requests : dict of str to Message
        By unit.
    answer : type
        Kind of message that the units answer with.
    needed : int or None
        Units that have to answer; None takes the quorum of the fit.

    Examples
    --------
    >>> from skfedcausal.message import StateMessage
    >>> from skfedcausal.message.requests import Ask, FitRequest
    >>> Ask({"mill": FitRequest()}, StateMessage).needed is None
    True
    """

    requests: Mapping[str, Message]
    answer: type[Message]
    needed: int | None = None


class FitRequest(Message, op="fit", answer=StateMessage, first="dtype"):
    """Asks for the first message: the unit identifies its model.

    Attributes
    ----------
    const : bool
        Whether the message is to hold the constants that likelihood values need.
    local_model : bool
        Whether it is to hold the unit's own model.
    monitor : bool or None
        Whether to tell also what the states do not show; None, like False, for no.
    refine : bool or None
        Whether to say where another look at the sensors, with the plant as help, would make the unit's model
        better; None, like False, for no.
    orders : bool or None
        Whether to say if the unit, which chose its number of states from its own record, may find more where it is
        told the inputs of others; None, like False, for no.
    fits : bool or None
        Whether to remember how well the model explains these rows, to be compared with that of later ones; None, like
        False, for no.
    own_past : bool or None
        Whether to tell how much better the unit's own past predicts its measurements than its model; None, like
        False, for no.
    sharp : bool or None
        Whether a unit of which that is so is to send its states nearly without noise; False where the plant has
        inputs, None where nobody cares.
    sketch : bool or None
        Whether such a unit is to send a sketch of what its states leave, by which sensors are named; None, like False,
        for no.

    Examples
    --------
    >>> from skfedcausal.message.requests import FitRequest
    >>> FitRequest().to_packet(dtype="float32").scalars
    {'dtype': 'float32', 'const': False, 'local_model': False}
    """

    const: bool = wire("flag", _CONST, default=False)
    local_model: bool = wire("flag", _LOCAL, default=False)
    monitor: bool | None = wire("flag", "whether to tell what states do not show", default=None)
    refine: bool | None = wire("flag", "whether to tell where another round may help", default=None)
    orders: bool | None = wire("flag", "whether to tell if inputs of others may add states", default=None)
    fits: bool | None = wire("flag", FITS, default=None)
    own_past: bool | None = wire("flag", "whether to tell how much better the own past predicts", default=None)
    sharp: bool | None = wire("flag", "whether states go without noise where it does", default=None)
    sketch: bool | None = wire("flag", "whether to send a sketch of what those leave", default=None)
    OPENS = LEARNED = True


class RecordRequest(Message, op="message", answer=StateMessage, first="dtype"):
    """Asks for a message about the unit's record by the model that it has.

    Attributes
    ----------
    const : bool
        Whether the message is to hold the constants that likelihood values need.
    until : int or None
        Measurements of rows from there on are not looked at.
    local_model : bool
        Whether it is to hold the unit's own model.
    fits : bool or None
        Whether to say if the model explains these rows clearly worse than those that it was learned from; None, like
        False, for no.

    Examples
    --------
    >>> from skfedcausal.message.requests import RecordRequest
    >>> RecordRequest.from_packet(RecordRequest(until=100).to_packet()).until
    100
    """

    const: bool = wire("flag", _CONST, default=False)
    until: int | None = wire("count", "first row that is not looked at", default=None, least=0)
    local_model: bool = wire("flag", _LOCAL, default=False)
    fits: bool | None = wire("flag", FITS, default=None)


class OrderAnswer(Message, op="order"):
    """Says whether the unit has another model than in its first message, now that it knows the inputs of others.

    Attributes
    ----------
    grown : bool
        It has more states, or as many that its sensors tell better. Its next message is about these.

    Examples
    --------
    >>> from skfedcausal.message.requests import OrderAnswer
    >>> OrderAnswer(True).to_packet().scalars
    {'grown': True}
    """

    grown: bool = wire("flag", "whether there are more states than before, or better loadings of as many")


class InputsOfOthers(Message, op="inputs", answer=OrderAnswer):
    """The inputs of all other units, for a unit that chooses its number of states.

    Attributes
    ----------
    inputs : ndarray of shape (n_samples, n_inputs)
        Side by side, as the units sent them.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.requests import InputsOfOthers
    >>> InputsOfOthers(np.ones((5, 2))).answer.__name__
    'OrderAnswer'
    """

    inputs: np.ndarray = wire("inputs T q", "inputs of all other units")


class SensorsAsStates(Message, op="sensors", answer=SensorStates):
    """Names sensors of the unit that share with other units what its states leave: each becomes a state of its own.

    Attributes
    ----------
    sensors : ndarray of int of shape (k,)
        Their positions among the columns of the `sketch` of :class:`StateMessage`.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.requests import SensorsAsStates
    >>> SensorsAsStates(np.array([2])).answer.__name__
    'SensorStates'
    """

    sensors: np.ndarray = wire("whole k", "sensors that become states of their own")
    LEARNED = NEW_STATES = True


class CommonRows(Message, op="rows", answer=Acknowledgement):
    """Names the times that all units have: further questions are about these rows.

    Attributes
    ----------
    clock : ndarray of shape (2 + n_episodes,)
        Seconds from row to row, whether the zone is known and first time of each episode, as of :class:`StateMessage`.
    lengths : tuple of int
        Rows of each episode.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.requests import CommonRows
    >>> CommonRows(np.array([10.0, 1.0, 1.8e9]), (500,)).answer.__name__
    'Acknowledgement'
    """

    NEW_ROUND = False

    clock: np.ndarray = wire("numbers c", "seconds from row to row, 1 for a known zone, start of each episode")
    lengths: tuple[int, ...] = wire("lengths e", "rows of each episode")

    def _check(self, packet):
        check_clock(self.clock, None, self.lengths, self.OP)


class LawRequest(Message, op="ask law", answer=FeedbackLaw):
    """Asks how the unit's controllers compute its inputs.

    Examples
    --------
    >>> from skfedcausal.message.requests import LawRequest
    >>> LawRequest.ANSWER.__name__
    'FeedbackLaw'
    """

    NEW_ROUND = False


class FactualRequest(Message, op="factual", answer=Measurements):
    """Asks for the unit's record, with expected measurements where they are missing.

    Attributes
    ----------
    states : ndarray of shape (n_samples, n_states) or None
        The unit's own states given all messages; None where nothing is missing.
    covariances : ndarray of shape (1 or n_samples, n_states, n_states) or None

    Examples
    --------
    >>> from skfedcausal.message.requests import FactualRequest
    >>> FactualRequest.from_packet(FactualRequest().to_packet()).states is None
    True
    """

    states: ArrayOrNone = wire("series T p", "the unit's own states given all messages", default=None)
    covariances: ArrayOrNone = wire("covariances k p p", "covariances of these states", default=None)


class PredictRequest(Message, op="predict", answer=Measurements, first="model dtype"):
    """Asks for the unit's own one-step predictions of its measurements.

    Attributes
    ----------
    model : {"client", "augmented"}
        Model that predicts: the unit's own, or the augmented one.

    Examples
    --------
    >>> from skfedcausal.message.requests import PredictRequest
    >>> PredictRequest("augmented").answer.__name__
    'Measurements'
    """

    model: str = wire("word", "model that predicts", of="client augmented")


class AggregateRequest(Message, op="aggregate", answer=Measurements):
    """Asks for the effect on the unit's sensors of scaling the inputs of all others together.

    Attributes
    ----------
    scale : float
        Level of all other units' inputs, as a multiple of what it was.

    Examples
    --------
    >>> from skfedcausal.message.requests import AggregateRequest
    >>> AggregateRequest.from_packet(AggregateRequest(0.5).to_packet()).scale
    0.5
    """

    scale: float = wire("number", "level of the others' inputs, as a multiple", least=-np.inf)


class NothingYet(Message, op=NOTHING):
    """Says that there is no further batch to be monitored yet.

    Examples
    --------
    >>> from skfedcausal.message.requests import NothingYet
    >>> NothingYet().to_packet(3).round
    3
    """


class Close(Message, op="close", answer=Acknowledgement):
    """Says that the run is over.

    Examples
    --------
    >>> from skfedcausal.message.requests import Close
    >>> Close.PURPOSE
    'says that the run is over'
    """


class Failed(Message, op="error"):
    """Says that there is no answer, and of which kind the reason is.

    Attributes
    ----------
    kind : str
        As of :class:`~skfedcausal.federation.Failure`.
    detail : str
        What may be said about it outside the site.

    Examples
    --------
    >>> from skfedcausal.message.requests import Failed
    >>> Failed("client-error", "ValueError").to_packet().scalars
    {'kind': 'client-error', 'detail': 'ValueError'}
    """

    kind: str = wire("word", "kind of the reason")
    detail: str = wire("word", "what may be said about it", default="")


# Messages of monitoring for faults.


class FlagMessage(Message, op="flags"):
    """Two bits per time step: whether the unit's own models call it unusual.

    Attributes
    ----------
    pairs : ndarray of bool of shape (n_samples, 2)
        Flags of the proprietary and of the augmented model.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.requests import FlagMessage
    >>> message = FlagMessage(np.zeros((1000, 2), dtype=bool))
    >>> message.to_packet().arrays["bits"].nbytes
    250
    >>> FlagMessage.from_packet(message.to_packet()).pairs.shape
    (1000, 2)
    """

    pairs: np.ndarray = wire("bits T 2", "flags, four time steps to a byte", array="bits")


class WatchRequest(Message, op="watch", answer=StateMessage, first="dtype"):
    """Asks for a message about the next batch of the record that is monitored for faults.

    Attributes
    ----------
    batch : int
        Number of the batch, counted from 1.
    flags : bool or None
        Whether to send flags in place of states; None, like False, for states.
    fits : bool or None
        Whether to say if the model explains these rows clearly worse than those that it was learned from; None, like
        False, for no.

    Examples
    --------
    >>> from skfedcausal.message.requests import WatchRequest
    >>> WatchRequest(3).to_packet().scalars
    {'dtype': 'float64', 'batch': 3}
    """

    batch: int = wire("count", "number of the batch", default=1)
    flags: bool | None = wire("flag", "whether to send flags in place of states", default=None)
    fits: bool | None = wire("flag", FITS, default=None)


class FlagsRequest(Message, op="flag"):
    """Asks for flags about the unit's record, or to learn from it what is nominal.

    Attributes
    ----------
    percentile : float or None
        Percentile of the nominal record above which time steps are flagged: learn it. None: raise flags.

    Examples
    --------
    >>> from skfedcausal.message.requests import FlagsRequest
    >>> FlagsRequest(99.0).answer.__name__, FlagsRequest().answer.__name__
    ('Acknowledgement', 'FlagMessage')
    """

    percentile: float | None = wire("number", "percentile of the nominal record", default=None)

    @property
    def answer(self) -> Any:
        """Kind of message that answers this request."""
        return FlagMessage if self.percentile is None else Acknowledgement

    def _check(self, packet):
        if self.percentile is not None and self.percentile > 100:
            raise PacketError(f"Scalar 'percentile' of packet 'flag' is {self.percentile}, expected at most 100.")


class VerdictReply(Message, op="verdict", answer=Acknowledgement):
    """Incidents of the plant.

    Attributes
    ----------
    rows : ndarray of int of shape (n_incidents, 3)
        Onset, first and last row in alarm.
    roots : ndarray of int of shape (n_incidents,)
        Position of the most probable root among the units; their number where nobody can tell.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.requests import VerdictReply
    >>> reply = VerdictReply(np.array([[10, 12, 40]]), np.array([2]))
    >>> VerdictReply.from_packet(reply.to_packet()).rows.tolist()
    [[10, 12, 40]]
    """

    rows: np.ndarray = wire("whole k 3", "onset, first and last row in alarm")
    roots: np.ndarray = wire("whole k", "which unit is the root")


# Differential privacy as a site promises it for everything that leaves it.
#
# The promise rides on another packet, the first message of the site, and is taken off before that is read.

_NOISE = "added_noise"
_PREFIX = "promise_"


class PrivacyPromise(Message, op="promise"):
    """Differential privacy of a unit's record, as its site promises it.

    Attributes
    ----------
    noise : ndarray of shape (n_sensors,)
        Variance of the noise that was added to each sensor, before anything was computed.
    mu : float
        Gaussian-DP parameter of everything that the site has released, this run included.
    delta : float
        At which epsilon is reported.
    clip_norm : float
        Public radius that time steps are clipped to, in the site's scaled measurements.
    rows, releases : int
        Time steps of the record, and noised records released so far.
    unit : {"event", "window", "client"}
    relation : {"replace", "zero_out"}
    window : int or None
    event_radius : float or None
        Largest change that is protected, where that is less than any inside the ball.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.federation import Packet
    >>> from skfedcausal.message.requests import PrivacyPromise
    >>> promise = PrivacyPromise(np.array([0.5, 0.5]), 0.3, 1e-6, 6.0, 1000, 1, "event", "replace")
    >>> packet, promised = PrivacyPromise.taken_off(promise.put_on(Packet("states", 1)))
    >>> (promised.mu, promised.unit, packet.scalars)
    (0.3, 'event', {})
    """

    noise: np.ndarray = wire("numbers d", "variance of the noise added to each sensor", array=_NOISE)
    mu: float = wire("number", "Gaussian-DP parameter of all releases")
    delta: float = wire("number", "at which epsilon is reported")
    clip_norm: float = wire("number", "radius that time steps are clipped to")
    rows: int = wire("count", "time steps of the record")
    releases: int = wire("count", "noised records released so far")
    unit: str = wire("word", "protected unit", of="event window client")
    relation: str = wire("word", "neighbouring relation", of="replace zero_out")
    window: int | None = wire("count", "time steps of a protected window", default=None)
    event_radius: float | None = wire("number", "largest change that is protected", default=None)

    def put_on(self, packet: Packet) -> Packet:
        """A packet with this promise on it.

        Parameters
        ----------
        packet : Packet

        Returns
        -------
        Packet
        """
        own = self.to_packet()
        promised = {_PREFIX + name: value for name, value in own.scalars.items()}
        return Packet(packet.op, packet.round, {**packet.arrays, **own.arrays}, {**packet.scalars, **promised})

    @classmethod
    def taken_off(cls, packet: Packet) -> tuple[Packet, "PrivacyPromise | None"]:
        """A packet without the promise on it, and the promise.

        Parameters
        ----------
        packet : Packet

        Returns
        -------
        packet : Packet
        promise : PrivacyPromise or None
            None if there is none on it.

        Raises
        ------
        PacketError
            If what is on it cannot be meant as a promise.
        """
        arrays, scalars = dict(packet.arrays), dict(packet.scalars)
        noise = {name: arrays.pop(name) for name in packet.arrays if name == _NOISE}
        riding = [name for name in scalars if name.startswith(_PREFIX)]
        promised = {name.removeprefix(_PREFIX): scalars.pop(name) for name in riding}
        if not noise and not promised:
            return packet, None
        promise = cls.from_packet(Packet(cls.OP, packet.round, noise, promised))
        return Packet(packet.op, packet.round, arrays, scalars), promise

    def _check(self, packet):
        radius = 1.0 if self.event_radius is None else self.event_radius
        positive = (self.noise > 0).all() and min(self.mu, self.delta, self.clip_norm, radius) > 0
        if not (positive and self.delta < 1 and (self.unit == "window") == (self.window is not None)):
            raise PacketError("A packet promises differential privacy in terms that make no sense.")


RIDERS[_NOISE] = PrivacyPromise.PURPOSES[_NOISE]
