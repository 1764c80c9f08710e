"""What a server is: it learns a plant from messages, and the rounds in which it asks for them."""

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from ..bases import Checked, Versioned
from ..message.requests import Acknowledgement, Ask, FitRequest, LawRequest
from ..message.schema import Message
from ..message.states import FeedbackLaw, SmoothedReply, StateMessage, StateReply
from .dynamics import OperatingPoint, Plant, PlantFilter
from .joint import JointRecord


class ServerLearner(Versioned, Checked, ABC):
    """Base of servers that learn a plant from one message per unit.

    A subclass defines ``fit(messages)``, which sets the attributes below. From these the base gives the
    rounds of messages, the filter and the smoother of the plant and the replies to the units. Which further
    questions a server answers is a matter of the methods it has (`test_links`, `effects`, ...): estimators
    offer those that their server has.

    Attributes
    ----------
    names_ : tuple of str
        Units in the order of the matrices.
    state_slices_ : dict of str to slice
        States of each unit.
    transition_ : ndarray of shape (n, n)
        Transition matrix of the plant.
    process_cov_ : ndarray of shape (n, n)
        Covariance of its process noise.
    input_ : ndarray of shape (n, k)
        Input matrix, with `input_slices_` (dict of str to slice) and `input_level_` (mean of each input,
        ndarray of shape (k,)); only set for plants with inputs.
    excitation_, feedback_, hidden_causes_ : object or None
        Whether the inputs move enough and how they follow measurements; None where that is not looked at.
    controlled_units_ : tuple of str
        Units that are asked how their inputs follow their measurements; none unless set. Their answers are
        `laws_`, a dict of str to FeedbackLaw.
    n_rounds : int
        Rounds of messages; class or instance attribute, one unless set.
    needs_local_model : bool
        Whether units have to send their own transition matrix and process covariance.
    needs_replies : bool
        Whether a fit needs more than the first message of every unit, all that a one-way link gives.
    dealer : str or None
        Client that hands out masks, for a server that learns from secure sums and can be asked nothing about
        rows; None unless set.
    tests_links : bool
        Whether a fit leaves a table `links_` behind, with the `unshrunk_transition_` that it is about and the
        `information_` of the measurements, ndarrays of shape (n, n).

    See Also
    --------
    LikelihoodServer : Maximum likelihood, tests of links.
    skfedcausal.testing.check_server : Whether an object can be a server.

    Examples
    --------
    A server that takes the units as they are, not joined at all:

    >>> import numpy as np
    >>> from scipy.linalg import block_diag
    >>> from skfedcausal import KalmanClient, ServerLearner
    >>> from skfedcausal.datasets import make_granger_plant
    >>> class Apart(ServerLearner):
    ...     needs_local_model = True
    ...
    ...     def fit(self, messages):
    ...         self.names_ = tuple(messages)
    ...         ends = np.cumsum([0, *(len(m.transition) for m in messages.values())])
    ...         self.state_slices_ = dict(zip(messages, map(slice, ends[:-1], ends[1:])))
    ...         self.transition_ = block_diag(*(m.transition for m in messages.values()))
    ...         self.process_cov_ = block_diag(*(m.process_cov for m in messages.values()))
    ...         return self
    >>> X, _ = make_granger_plant(2, random_state=0)
    >>> clients = {name: KalmanClient().fit(Y) for name, Y in X.items()}
    >>> messages = {name: c.message(X[name], local_model=True) for name, c in clients.items()}
    >>> Apart().fit(messages).filter(messages).predicted.shape
    (2000, 4)
    """

    names_: tuple[str, ...]
    state_slices_: dict[str, slice]
    transition_: np.ndarray
    process_cov_: np.ndarray
    input_level_: np.ndarray
    n_rounds: Any = 1  # or "auto"
    dealer: str | None = None
    tests_links: bool = False
    controlled_units_: tuple[str, ...] = ()
    excitation_: dict | None = None
    _how: dict[str, Any] = {}  # what the fits of a round may take and know already, while it goes on
    feedback_: Any = None
    hidden_causes_: Any = None

    @property
    def relays_inputs(self) -> bool:
        """Whether units that choose their order are told inputs of others, before any round of their own."""
        return False

    @property
    def needs_local_model(self) -> bool:
        """Whether units have to send their own transition matrix and process covariance."""
        return False

    @property
    def acts_at_once(self) -> bool:
        """Whether some input acts in the row that it is recorded in."""
        return False

    @property
    def needs_replies(self) -> bool:
        """Whether a fit needs more than the first message of each unit, which is all a one-way link gives."""
        return self.n_rounds > 1

    @abstractmethod
    def fit(self, messages: Mapping[str, StateMessage]) -> Self:
        """Learn the plant.

        Parameters
        ----------
        messages : dict of str to StateMessage
            By unit, in the order of the plant.

        Returns
        -------
        self : ServerLearner
        """

    def dialogue(self, names: Sequence[str], inputs: bool = False) -> Generator[Any, Any, None]:
        """All rounds of a fit as a generator that yields requests and receives the units' replies.

        Parameters
        ----------
        names : sequence of str
            Units of the plant, in the order of its matrices.
        inputs : bool, default=False
            Whether the plant has inputs.

        Yields
        ------
        Ask
            One message to each unit, and the type of the answers: of all units first, of those who gave an
            answer from there on. What was learned is learned: nobody has to take the last replies.

        Raises
        ------
        ValueError
            If a unit has no reply.
        """
        request = self._first_request(inputs)
        if inputs and self.relays_inputs:
            request = replace(request, orders=True)
        first: dict[str, Message] = dict.fromkeys(names, request)
        came = yield Ask(first, StateMessage)
        if any(message.open_order for message in came.values()):
            from .orders import with_inputs_of_others  # for plants with inputs

            came = yield from with_inputs_of_others(came, self.needs_local_model)
        messages = yield from self._rounds(came)
        if self.controlled_units_:
            self.laws_ = dict((yield Ask(dict.fromkeys(self.controlled_units_, LawRequest()), FeedbackLaw)))
        try:
            replies = self.replies(messages)
        except Exception:
            self._check_learned(messages)  # may say why
            raise
        if len(replies) < len(messages):
            self._check_learned(messages)
            missing = sorted(messages.keys() - replies.keys())
            raise ValueError(f"`replies` of {type(self).__name__} leaves out {missing}; tell every unit.")
        yield Ask(replies, Acknowledgement, needed=0)

    def _first_request(self, inputs):
        return FitRequest(local_model=self.needs_local_model)

    def _rounds(self, came):
        """Learn from the first answers that came and from those of further rounds; the messages that were used."""
        messages = self._learned_from(dict(came), came)
        for _ in range(1, self.n_rounds):
            came = yield Ask(self.smoothed(messages), StateMessage)
            messages = self._learned_from({**messages, **came}, came, messages)
        return messages

    def _learned_from(self, messages, came, earlier=None, **how):
        """Fit to messages as :func:`learned_from` does; what else rests on them has to be learned, too.

        `how` is what the fits of a round may take, and know already.
        """
        self._how = how
        try:
            if getattr(came, "rule", None) is None:
                self.fit(messages)
                return messages
            from .leave_out import checked

            return learned_from(checked(self, came), messages, came, came.earlier if earlier is None else earlier)
        finally:
            del self._how  # of this round alone

    # -- the plant over a record ---------------------------------------------------------------------

    def filter(self, messages: Mapping[str, StateMessage]) -> PlantFilter:
        """Filter of the whole plant over a record, a `PlantFilter`.

        Parameters
        ----------
        messages : dict of str to StateMessage
            By unit.

        Returns
        -------
        PlantFilter
        """
        return self._filter(self.joint_record(messages))

    def smoothed(self, messages: Mapping[str, StateMessage]) -> dict[str, SmoothedReply]:
        """Each unit's own states given all units' messages.

        Parameters
        ----------
        messages : dict of str to StateMessage
            By unit.

        Returns
        -------
        dict of str to SmoothedReply
        """
        return self._smoothed(messages, self.unshrunk_plant_)

    def abducted(self, messages: Mapping[str, StateMessage]) -> dict[str, SmoothedReply]:
        """Each unit's states given all messages, at the operating point of `fit`.

        Unlike :meth:`smoothed` with the plant that answers questions, and without a level of their own for
        the episodes.

        Parameters
        ----------
        messages : dict of str to StateMessage
            By unit.

        Returns
        -------
        dict of str to SmoothedReply
        """
        return self._smoothed(messages, self.plant_, intercept=False)

    def _abducted_states(self, messages):
        """States of all units, (n_samples, n), as of :meth:`abducted`, without the covariances that take half of it."""
        return self.plant_.smooth(self.joint_record(messages), intercept=False, spread=False)[0]

    def replies(self, messages: Mapping[str, StateMessage]) -> dict[str, StateReply]:
        """Reply to each unit: its own part of the plant and the other units' influence on its states.

        Parameters
        ----------
        messages : dict of str to StateMessage
            By unit.

        Returns
        -------
        dict of str to StateReply
        """
        record = self.joint_record(messages)
        return dict(zip(self.state_slices_, self.plant_.replies(record, self._filter(record)), strict=True))

    def _check_learned(self, messages):
        """Refuse what `fit` of a subclass should not leave behind."""
        who, n = type(self).__name__, 0
        for learned in ("names_", "state_slices_", "transition_", "process_cov_"):
            if not hasattr(self, learned):
                raise AttributeError(f"`fit` of {who} left no `{learned}` behind; every server has to set it.")
        for name, message in messages.items():
            rows, expected = self.state_slices_.get(name), slice(n, n + message.z.shape[1])
            if rows != expected:
                raise ValueError(f"`state_slices_[{name!r}]` of {who} is {rows}, expected {expected}.")
            n = expected.stop
        for learned in ("transition_", "process_cov_"):
            matrix = getattr(self, learned)
            if np.shape(matrix) != (n, n) or not np.isfinite(matrix).all():
                raise ValueError(
                    f"`{learned}` of {who} has shape {np.shape(matrix)} or is not finite; expected ({n}, {n})."
                )

    def joint_record(self, messages: "Mapping[str, StateMessage]") -> JointRecord:
        """Record of the units of `fit`, with their inputs.

        Parameters
        ----------
        messages : dict of str to StateMessage
            By unit.

        Returns
        -------
        JointRecord

        Raises
        ------
        ValueError
            If the units have other inputs than in `fit`.
        """
        record = JointRecord.from_messages(messages, names=self.names_)
        known = getattr(self, "input_slices_", dict.fromkeys(self.names_, slice(0, 0))).values()
        came, learned = (tuple(u.stop - u.start for u in each) for each in (record.partition.input_slices, known))
        if came != learned:
            raise ValueError(f"The units have {came} inputs, in `fit` they had {learned}.")
        return record

    @property
    def plant_(self) -> Any:
        """What was learned as a `Plant`, around the mean of its inputs."""
        n = len(self.transition_)
        B = getattr(self, "input_", np.zeros((n, 0)))
        point = OperatingPoint.at(self.input_level_ if B.shape[1] else np.zeros(0), n)
        return Plant.of_one_lag(self.transition_, B, self.process_cov_, point=point)

    @property
    def watched_plant_(self) -> Any:
        """The plant that rows are watched by."""
        return self.plant_

    @property
    def unshrunk_plant_(self) -> Any:
        """The plant that tests and smoothed states are about."""
        return self.plant_

    def _filter(self, record):
        return self.plant_.run(record)

    def _smoothed(self, messages, plant, **settings):
        return smoothed_replies(self.state_slices_, *plant.smooth(self.joint_record(messages), **settings))


def learned_from(fit, messages, came, earlier=None):
    """Fit to messages, without those of a unit with which it fails where the answers that came have a rule for that.

    The messages that were used: `earlier` ones of units whose newest one is left out.
    """
    if getattr(came, "rule", None) is None:
        fit(messages)
        return messages
    from .leave_out import fit_rest

    return fit_rest(fit, messages, came, {} if earlier is None else earlier)


def smoothed_replies(state_slices, states, covariances):
    """Each unit's own states given a whole record, as a `SmoothedReply` by name."""
    return {
        name: SmoothedReply(np.ascontiguousarray(states[:, rows]), covariance)
        for (name, rows), covariance in zip(state_slices.items(), covariances, strict=True)
    }
