"""Requests of the server, and the answers to them that are no states: each request names its answer."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .clock import check_clock
from .packet import NOTHING
from .schema import ArrayOrNone, Message, wire
from .states import Acknowledgement, FeedbackLaw, Measurements, SensorStates, StateMessage

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
