"""The gate of a site: the one place where bytes come in and go out, and the policy of what may be asked."""

import json
import logging
import os
import tomllib
import traceback
from collections import Counter
from dataclasses import dataclass, replace
from importlib.resources import files
from numbers import Integral
from pathlib import Path
from typing import Any, Self

from ..message.packet import NOTHING, Packet, PacketError
from ..message.requests import Acknowledgement, Close, Failed
from ..message.schema import KINDS
from ..message.states import MOST_SUMS, n_named
from .atomic import LedgerError, file_name, keep_private, write_whole
from .envelope import MAX_FRAME, Envelope, read_envelope
from .ledger import ByteLimitError, SiteLedger
from .tuning import TUNING

# What a site lets whoever holds its key ask, and what could be learned by asking all of it.

ANY = "*"
_TABLES = tomllib.loads(files(__package__).joinpath("policy.toml").read_text("utf-8"))
# names that users know, and the operations of packets that they need
OPERATIONS: dict[str, tuple[str, ...]] = {name: tuple(needed) for name, needed in _TABLES["operations"].items()}
RULES: dict[str, str] = _TABLES["rules"]
_LIMITS = ("total_bytes", "rows", "states")
_TRAINING = OPERATIONS["train"] + OPERATIONS["network-plan"]
_NEW_MODELS = frozenset(("refine", "inputs", *_TRAINING)) - {"finish", "networks trained"}
_BY_THE_MODEL = frozenset(("message", "predict", "loss", "flag"))  # answers by the model as it is then
_ALL_SENSORS = frozenset(("factual",))
_DISTANCES = frozenset(("message", "flag"))
_STATES = ("z", "filtered", "augmented", "predicted", "sensors")  # series of states in answers


class ExactStatesWarning(UserWarning):
    """States of a unit are as many as its sensors that move, so that these sensors follow from them exactly.

    A fit in one process may do so; a site needs `allow_exact` in its policy.
    """


def tells_exactly(n_states, n_sensors):
    """Whether the sensors of a unit that move follow from its states exactly; what stands still tells nothing."""
    return 0 < n_sensors <= n_states


class PolicyError(RuntimeError):
    """What a site's policy does not allow; nothing was computed or sent.

    `rule` is the key of ``[policy]`` that would allow it.
    """

    def __init__(self, site, rule, op, text):
        super().__init__(f"The policy of site {site!r} refused {op!r}: {text}")
        self.rule = rule


def allowing(rule, op):
    """How a site would allow an operation that a rule of its policy refused."""
    return RULES[rule].format(op=op)


class Answered(Counter):
    """How many questions of every operation were answered in a run, and about how many rows the unit answers."""

    n_rows = n_whole = 0

    def add(self, question, answer):
        """Count a question and what was answered."""
        self[question.op] += 1
        sized = question if question.op == "rows" else answer
        if "lengths" in sized.arrays:
            self.n_rows = int(sized.arrays["lengths"].sum())
            self.n_whole = max(self.n_whole, self.n_rows)

    @property
    def has_read(self):
        """Whether the unit was asked for more than its first message."""
        return not set(self) <= {"fit", "verdict"}

    def tell_rows(self, numbers):
        """Whether so many numbers about the rows that are left say much about single ones."""
        return self.n_rows < min(TUNING.policy_least_share * self.n_whole, TUNING.policy_rows_a_number * numbers)


@dataclass(frozen=True)
class SitePolicy:
    """What a site answers to whoever holds its key; by default one fit in one round of one run.

    Attributes
    ----------
    operations : tuple of str
        What is answered besides a fit in one round: names of queries ("predict", "whatif", "test_links"), of
        training ("train", "network-plan"), of further rounds ("refine"), of any number of sensors that units share
        ("sensors"; two of them are part of every fit), of monitoring ("watch"), or of single messages. ``"*"`` answers
        everything. Messages that this library does not declare are none of the policy's business: a worker of your own
        that knows them decides.
    rounds : int or None
        Rounds of learning in one run: questions that make the unit identify, refine or train its model. None
        sets no limit, and only then does a server that goes on for as long as rounds help ask for "refine".
    runs : tuple of str
        Names of the runs that are answered. If empty the first run that the site answers is its only one;
        ``"*"`` answers every run.
    total_bytes : int or None
        Most bytes that may leave in all runs together, envelopes included.
    rows : int or None
        Most rows that one answer may be about.
    states : int or None
        Most states that an answer may have.
    allow_exact : bool
        Whether states may leave that are as many as the sensors of the unit that move: these sensors follow from them
        exactly, so by default they do not.

    See Also
    --------
    Gate : Holds a unit to it.

    Notes
    -----
    Every operation that makes the unit read its record with a model that the server had a hand in ("refine",
    training, "message" after a reply) gives the holder of the key further projections of the same rows. As
    many as there are sensors, and the record follows from them exactly; :meth:`worst_case` counts them.

    How inputs follow measurements is a regression on the raw rows: two of them about nearly the same rows tell of the
    rows between. So a fit can leave out rows ("rows") once, before any other question, and ask for the law ("ask law")
    once, about half of the record or 50 rows for each number of the law. It can name two sensors that others seem to
    read as well ("sensors"), once in a run: these leave the unit as they are. Which ones is told from the sketch of the
    first message, at most 50 sums of ten rows or more of what the states and the unit's own past leave of each sensor.
    Nobody may name sensors of a site that answers every run, or sets a limit of `states`. Name these operations in
    `operations` to lift that.

    Examples
    --------
    >>> from skfedcausal.federation import SitePolicy
    >>> SitePolicy().worst_case(n_states=2, n_sensors=8).rank
    4
    >>> SitePolicy(operations=("refine",), rounds=4).worst_case(n_states=2, n_sensors=8).exact
    True
    """

    operations: tuple = ("fit",)
    rounds: int | None = 1
    runs: tuple = ()
    total_bytes: int | None = None
    rows: int | None = None
    states: int | None = None
    allow_exact: bool = False

    def __post_init__(self):
        if not isinstance(self.allow_exact, bool):
            raise ValueError(f"allow_exact={self.allow_exact!r} of the policy; give true or false.")
        for name in ("operations", "runs"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(isinstance(one, str) for one in value):
                raise ValueError(f"{name}={value!r} of the policy; give a list of names.")
            object.__setattr__(self, name, tuple(value))
        unknown = [name for name in self.operations if name not in (ANY, *OPERATIONS, *KINDS)]
        if unknown:
            raise ValueError(f"operations={unknown!r} of the policy are not known; known are {sorted(OPERATIONS)}.")
        for name in ("rounds", "total_bytes", "rows", "states"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, Integral) or isinstance(value, bool) or value < 1):
                raise ValueError(f"{name}={value!r} of the policy; give a number from 1.")

    @classmethod
    def unlimited(cls) -> Self:
        """Policy that allows everything: whoever asks can learn the whole record.

        Returns
        -------
        SitePolicy
        """
        return cls(operations=(ANY,), rounds=None, runs=(ANY,), allow_exact=True)

    def for_run(self, run: str | None) -> Self:
        """The policy of a site whose settings name its run.

        Parameters
        ----------
        run : str or None

        Returns
        -------
        SitePolicy
        """
        return self if run is None or self.runs else replace(self, runs=(run,))

    def and_watching(self) -> Self:
        """The policy of a site that names a record to be monitored.

        Returns
        -------
        SitePolicy
        """
        return replace(self, operations=(*self.operations, "watch"))

    @property
    def allowed(self) -> frozenset[str] | None:
        """Operations of packets that are answered, a frozenset; None where all are."""
        if ANY in self.operations:
            return None
        names = ("fit", *self.operations)
        return frozenset(op for name in names for op in (name, *OPERATIONS.get(name, ())))

    def narrowed(self, packet: Packet) -> Packet:
        """A question as the unit gets to see it: without offers of more rounds than are allowed.

        Parameters
        ----------
        packet : Packet

        Returns
        -------
        Packet
        """
        if packet.op != "fit":
            return packet
        allowed, refused = self.allowed, []
        if self.rounds is not None or (allowed is not None and "refine" not in allowed):
            refused.append("refine")
        if allowed is not None and not {"inputs", "message"} <= allowed:
            refused.append("orders")
        if not self._names_sensors:
            refused.append("sketch")
        scalars = {name: value for name, value in packet.scalars.items() if name not in refused}
        return packet if scalars == packet.scalars else replace(packet, scalars=scalars)

    def in_words(self) -> str:
        """The policy as the ledger has it.

        Returns
        -------
        str
        """
        limits = [f"{name} {getattr(self, name)}" for name in _LIMITS if getattr(self, name) is not None]
        rounds = "any number of" if self.rounds is None else self.rounds
        runs = f"runs {', '.join(self.runs)}" if self.runs else "the first run"
        exact = ["as many states as sensors"] if self.allow_exact else []
        return "; ".join([f"operations {', '.join(self.operations)}", f"{rounds} rounds", runs, *limits, *exact])

    # -- at the door -----------------------------------------------------------------------------

    def check_run(self, site: str, packet: Packet, run: str, first: str | None) -> None:
        """Refuse a question of a run that is not to be answered.

        Parameters
        ----------
        site : str
        packet : Packet
        run : str
            Of the question.
        first : str or None
            The first run that the site answered.

        Raises
        ------
        PolicyError
        """
        named = ANY in self.runs or run in self.runs
        if packet.op in KINDS and not (named or (not self.runs and first in (None, run))):
            self._refuse(site, "runs", packet.op)

    def check_question(self, site: str, packet: Packet, answered: Answered) -> None:
        """Refuse a question that is not to be answered.

        Parameters
        ----------
        site : str
        packet : Packet
        answered : Answered
            How many questions of every operation were answered in this run.

        Raises
        ------
        PolicyError
        """
        op, allowed = packet.op, self.allowed
        if op not in KINDS or (op == "effect" and packet.scalars.get("keep") is True):  # it stays at the site
            return
        if allowed is not None and op not in allowed:
            self._refuse(site, "operations", op)
        if allowed is not None and op == "fit" and packet.scalars.get("const") and "message" not in allowed:
            self._refuse(site, "operations", "message")  # constants tell how far every row is from the model
        again = {
            "rows": answered.has_read,
            "sensors": answered["sensors"] > 0 or not self._names_sensors,
            "ask law": answered["ask law"] > 0,
        }
        if not self._lifts(op) and again.get(op, False):
            self._refuse(site, "once", op)
        if self.rounds is None:
            return
        rounds = sum(number for one, number in answered.items() if _is_round(one))
        replies = answered.get(op, 0) if op in ("reply", "finish", "networks trained") else 0
        if (_is_round(op) and rounds >= self.rounds) or replies >= self.rounds:
            self._refuse(site, "rounds", op)

    def check_answer(self, site: str, question: Packet, answer: Packet, answered: Answered, n_sensors: int = 0) -> None:
        """Refuse to send an answer that is about too much, or about too few rows.

        Parameters
        ----------
        site : str
        question, answer : Packet
        answered : Answered
            What was answered before in this run.
        n_sensors : int, default=0
            Sensors of the record that move, 0 where states cannot tell them: under noise, or without a record.

        Raises
        ------
        PolicyError
        """
        arrays = answer.arrays
        rows = max((len(value) for value in arrays.values() if value.ndim), default=0)
        states = max((arrays[name].shape[1] for name in _STATES if name in arrays and arrays[name].ndim > 1), default=0)
        for rule, number in (("rows", rows), ("states", states)):
            most = getattr(self, rule)
            if most is not None and number > most:
                self._refuse(site, rule, question.op)
        if tells_exactly(states, n_sensors) and not self.allow_exact:
            self._refuse(site, "allow_exact", question.op)
        numbers = sum(array.size for array in arrays.values())
        if answer.op == "law" and not self._lifts(question.op) and answered.tell_rows(numbers):
            self._refuse(site, "once", question.op)

    def _lifts(self, op):
        """Whether the policy itself names an operation that a fit asks for once."""
        return ANY in self.operations or op in self.operations

    @property
    def _names_sensors(self):
        """Whether a server may name a few sensors: not where it could do so in any number of runs, or of few states."""
        return self._lifts("sensors") or (ANY not in self.runs and self.states is None)

    def _refuse(self, site, rule, op):
        raise PolicyError(site, rule, op, f"{allowing(rule, op)}.")

    # -- the worst case --------------------------------------------------------------------------

    def worst_case(
        self, n_states: int, n_sensors: int, *, monitored: bool = False, n_records: int = 1, n_inputs: int = 0
    ) -> "WorstCase":
        """The most that the holder of the key can learn of a row, whatever it asks and in whatever order.

        Parameters
        ----------
        n_states : int
            The most states that a message of the unit has.
        n_sensors : int
        monitored : bool, default=False
            Whether messages may also tell what the states do not show.
        n_records : int, default=1
            Forms of the record that are asked about: one more for each time that it was put right in a run.
        n_inputs : int, default=0
            Inputs of the unit, as they are sent.

        Returns
        -------
        WorstCase
        """
        ops = self.allowed
        several = ANY in self.runs or self.rounds is None
        rounds = float("inf") if several else max(len(self.runs), 1) * (self.rounds or 1)
        models = min(rounds, 2.0 if monitored else 1.0)  # the same fit twice says the same
        if ops is None or ops & _NEW_MODELS:
            models = rounds
        if ops is None or ops & _BY_THE_MODEL:
            models += rounds  # a reply changes what the unit's model makes of the record
        everything = ops is None or bool(ops & _ALL_SENSORS) or self._lifts("sensors")
        named = max(len(self.runs), 1) * n_named(n_states, n_sensors) if self._names_sensors else 0
        rank = n_sensors if everything else int(min(n_sensors, models * n_states * n_records + named))
        distances = models * n_records if monitored or ops is None or ops & _DISTANCES else 0
        laws = float("inf") if self._lifts("ask law") or ANY in self.runs else max(len(self.runs), 1)
        numbers = laws * n_inputs * (2 * n_states + n_inputs) if n_inputs else 0
        counted = None if numbers == float("inf") else int(numbers)
        exact = rank + distances >= n_sensors or counted is None
        return WorstCase(rank, n_sensors, exact, counted, MOST_SUMS if named and not exact else 0)


def _is_round(op):
    """Whether answering makes the unit learn once more."""
    return op == "fit" or (op in _NEW_MODELS and KINDS[op].NEW_ROUND)


@dataclass(frozen=True)
class WorstCase:
    """What could be learned of a record by asking all that a policy allows.

    Attributes
    ----------
    rank : int
        Independent projections of every row.
    n_sensors : int
    exact : bool
        Whether the rows follow from what is known.
    numbers : int or None, default=0
        What tells how inputs follow measurements, each about most rows: of single rows at most as many values follow
        from them. None where there is no limit.
    sums : int, default=0
        Sums of ten rows or more, of each sensor, of what the projections and the unit's own past leave.

    Examples
    --------
    >>> from skfedcausal.federation import SitePolicy
    >>> SitePolicy().worst_case(2, 8).in_words().partition(".")[0]
    '4 of 8 projections of every row and, of each sensor, 50 sums of ten rows or more of what they leave'
    """

    rank: int
    n_sensors: int
    exact: bool
    numbers: int | None = 0
    sums: int = 0

    def in_words(self) -> str:
        """The worst case in words.

        Returns
        -------
        str
        """
        known = f"{self.rank} of {self.n_sensors} projections of every row"
        if self.numbers != 0:
            known += _TABLES["known"]["numbers"].format("any number of" if self.numbers is None else self.numbers)
        if self.sums:
            known += _TABLES["known"]["sums"].format(self.sums)
        return known + _TABLES["known"]["exact" if self.exact else "guessed"].format(self.n_sensors + 1)


# The gate of a site: the one place where bytes come in and go out.
#
# Whatever carries the bytes (files, an engine), a worker behind a gate is only asked what was signed by the
# server for this unit and this run, in turn and once; everything that leaves is in the site's ledger before it
# leaves; and a gate that was shut down in the middle of a run goes on where it was.

_LOG = logging.getLogger(__name__)


class Gate:
    """A worker of a site behind checks, a ledger and a journal.

    Parameters
    ----------
    name : str
        The unit.
    worker : Worker
        Answers the same packets alike: the journal rests on it.
    home : str or Path
        Folder of the site that no other party reads: ledger, journals, errors.
    key : bytes or KeyPair, default=None
        Shared with the server, or the site's own private key and the server's public one. None where the channel
        proves who sends.
    max_bytes : int, default=None
        Most bytes that may leave in one run.
    max_frame : int, default=2**30
        Largest packet that is taken.
    noise : str, default="none"
        What noise was added to the measurements, for the ledger.
    fingerprint : str, default=""
        Of the unit's record: a run is not continued on another one.
    after : callable, default=None
        Called with every packet that was answered and the worker's state then.
    policy : SitePolicy, default=None
        What is answered. None: one fit, in one round, of the first run.
    account : callable, default=None
        Gives the head of the site's account of privacy, for the ledger.
    n_sensors : int, default=0
        Sensors of the record that move: as many states leave only where the policy has `allow_exact`. 0 where
        states cannot tell the record.

    Raises
    ------
    LedgerError
        If the ledger in the home is broken, or that of another site.

    Notes
    -----
    The journal holds the packets that were answered and the answers. A gate that starts again lets the worker
    answer them once more, which brings it to the state it was in; nothing is sent by that. The same question
    gets the answer that is in the journal, so that nothing is counted twice.

    What goes wrong at the site stays there (``errors.log``); the server is told the kind of the exception.

    Examples
    --------
    >>> import tempfile
    >>> from skfedcausal.federation import Gate, Packet
    >>> class Echo:
    ...     def handle(self, packet, state):
    ...         return Packet("echo", scalars={"heard": packet.op}), state
    >>> folder = tempfile.TemporaryDirectory()
    >>> gate = Gate("boiler", Echo(), folder.name)
    >>> number, frame = gate.volunteer("may", Packet("hello"))
    >>> [entry["op"] for entry in gate.ledger.entries()]
    ['echo']
    >>> folder.cleanup()
    """

    def __init__(
        self,
        name,
        worker,
        home,
        *,
        key=None,
        max_bytes=None,
        max_frame=MAX_FRAME,
        noise="none",
        fingerprint="",
        after=None,
        policy=None,
        account=None,
        n_sensors=0,
    ):
        self.name = name
        self.worker = worker
        self.home = Path(home)
        self.policy = SitePolicy() if policy is None else policy
        limits = {"max_bytes": max_bytes, "total_bytes": self.policy.total_bytes}
        words = {"noise": noise, "policy": self.policy.in_words()}
        keep_private(self.home)
        self.ledger = SiteLedger(self.home / "ledger.jsonl", account=account, **words, **limits)
        if others := sorted(self.ledger.sites - {name}):
            raise LedgerError(
                f"{self.ledger.path} is the ledger of {', '.join(others)}, and this is the home of {name!r}: put its "
                "own ledger back, or give the site a home of its own."
            )
        self.run: Any = None  # its name, once there is one
        self.state: dict[str, Any] = {}
        self.closed = False
        self.waiting = None  # run and number of the question to which there was nothing to say yet
        self._key, self._max_frame, self._fingerprint = key, max_frame, fingerprint
        self._after, self._n_sensors = after, n_sensors
        self._sequence = 0  # the last number of the run
        self._done = Answered()  # operations that were answered in it

    @property
    def key(self) -> Any:
        """The key that signs and checks packets, and the most bytes of a packet that are taken."""
        return self._key, self._max_frame

    # -- answering -------------------------------------------------------------------------------

    def answer(self, frame: bytes, source: str | None = None) -> bytes | None:
        """Answer to a packet of the server.

        Parameters
        ----------
        frame : bytes
        source : str, default=None
            Name of the file or channel that it came by: what is refused is one line of the ledger for each.

        Returns
        -------
        bytes or None
            What may leave; None where nothing must be answered, as to a packet that is not the server's.
        """
        try:
            envelope, payload, packet = self._opened(frame)
            run, sequence = envelope.run, envelope.sequence
            self.ledger.check_seen(envelope.seen)
            try:
                self.policy.check_run(self.name, packet, run, self.ledger.first_run)
            except PolicyError as error:
                return self._denied(envelope, packet, frame, error)
            kept = self._in_turn(run, sequence, packet, payload)
        except PacketError as error:
            self.refuse(str(error), source or frame)
            return None
        if kept is not None:
            return kept
        again = (run, sequence) == self.waiting
        taken = self._taken(envelope, packet, frame, again)
        try:
            self.policy.check_question(self.name, packet, self._done)
            return self._answered(sequence, packet, payload, taken, again)
        except PolicyError as error:
            return self._denied(envelope, packet, frame, error)

    def refuse(self, reason: str, source: str | bytes) -> None:
        """Take note of something that came and is not the server's; once for every source.

        Parameters
        ----------
        reason : str
        source : str or bytes
            Name of the file that it came in, or what came.
        """
        if self.ledger.refuse(self.run, self.name, reason, source) is not None:
            _LOG.warning("%s refused a packet: %s", self.name, reason)

    def volunteer(self, run: str, packet: Packet) -> tuple[int, bytes | None]:
        """Answer to a packet that the site asks itself, where nothing comes in.

        Parameters
        ----------
        run : str
            Name of the run.
        packet : Packet
            What the server would have asked.

        Returns
        -------
        sequence : int
            Number of the packet in the run.
        frame : bytes or None
            None where the site has nothing to say yet.

        Raises
        ------
        ByteLimitError
            If the answer would take what left over `max_bytes`, or over that of the policy.
        PolicyError
            If it is about more rows or states than the policy lets leave.
        """
        payload = packet.encode()
        self._enter(run)
        for question in _questions(self._journal):
            if (kept := _kept(question, payload)) is not None:
                return int(question.stem), kept
        sequence = self._sequence + 1
        answer, state = self._handled(packet)
        if answer.op == NOTHING:
            return sequence, None
        self.policy.check_answer(self.name, packet, answer, self._done, self._n_sensors)
        head = self.ledger.head_before(run, sequence)
        return sequence, self._released(sequence, packet, payload, answer, state, head)

    def _taken(self, envelope, packet, frame, again=False):
        """Head of the ledger with the question in it, which rides on the answer."""
        how = {"again": again, "seen": envelope.seen}
        return self.ledger.record(envelope.run, self.name, "down", packet, frame, envelope.sequence, **how)["hash"]

    def _opened(self, frame):
        """Envelope, content and packet of a question to this unit."""
        envelope, payload = read_envelope(frame, self._key, self._max_frame)
        site, way = envelope.site, envelope.direction
        if site != self.name or way != "down":
            raise PacketError(f"Packet is for {site!r} ({way}), not for {self.name!r}: misrouted.")
        return envelope, payload, Packet.decode(payload)

    def _in_turn(self, run, sequence, packet, payload):
        """The kept answer to a question, if there is one; PacketError if it is out of turn."""
        self._enter(run, payload)
        kept = _kept(self._journal / f"{sequence:08d}.question", payload)
        if kept is None and sequence <= self._sequence:
            at = f"number {sequence}, but the run is at {self._sequence}"
            raise PacketError(f"Packet {packet.op!r} has {at}: sent again, or late.")
        return kept

    def _answered(self, sequence, packet, payload, head, again):
        try:
            answer, state = self._handled(packet)
        except PolicyError:  # a limit that the unit itself keeps
            raise
        except Exception as error:
            return self._failed(self.run, sequence, packet, head, "client-error", type(error).__name__)
        self.policy.check_answer(self.name, packet, answer, self._done, self._n_sensors)
        try:
            return self._released(sequence, packet, payload, answer, state, head, again)
        except ByteLimitError as error:
            return self._failed(self.run, sequence, packet, head, error.kind, error.rule)

    def _denied(self, envelope, packet, frame, error):
        """Tell the server which rule of the policy does not allow its question."""
        run, head = envelope.run, self._taken(envelope, packet, frame)
        if self.ledger.refuse(run, self.name, str(error), frame, op=packet.op, rule=error.rule) is not None:
            _LOG.warning("%s", error)
        return self._failed(run, envelope.sequence, packet, head, "policy", error.rule)

    def _released(self, sequence, packet, payload, answer, state, head, again=False):
        """The answer as bytes, in the account and the journal.

        That there is nothing to say yet, and that the run is over, are not kept: what is asked next has the
        same number.
        """
        frame = self._sealed(self.run, sequence, answer, head)
        self.ledger.record(self.run, self.name, "up", answer, frame, sequence, again=again)
        self.closed = packet.op == Close.OP
        self.waiting = (self.run, sequence) if answer.op == NOTHING else None
        if answer.op == NOTHING or self.closed:
            return frame
        question, record = self._journal / f"{sequence:08d}.question", state.get("record", "")
        write_whole(question.with_suffix(".answer"), frame)
        if record:
            write_whole(question.with_suffix(".record"), record.encode())
        write_whole(question, payload)  # last: a question that is there has its answer
        self.state, self._sequence = state, sequence
        self._done.add(packet, answer)
        if self._after is not None:
            self._after(packet, state)
        return frame

    def _handled(self, packet):
        if packet.op == Close.OP:
            return Acknowledgement().to_packet(packet.round), self.state
        try:
            answer, state = self.worker.handle(self.policy.narrowed(packet), self.state)
            answer.encode()  # what cannot travel is an error of the worker
        except Exception:
            _LOG.error("%s: packet %r of round %d failed", self.name, packet.op, packet.round)
            made = os.open(self.home / "errors.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with open(made, "a", encoding="utf-8") as file:
                file.write(traceback.format_exc())
            raise
        return answer, state

    def _failed(self, run, sequence, packet, head, kind, detail):
        """Tell the server that there is no answer. All is as before the packet, which may come again."""
        answer = Failed(kind, detail).to_packet(packet.round)
        frame = self._sealed(run, sequence, answer, head)
        try:
            self.ledger.record(run, self.name, "up", answer, frame, sequence)
        except ByteLimitError:
            return None
        return frame

    def _sealed(self, run, sequence, answer, head):
        return Envelope(run, self.name, "up", sequence, head=head).seal(answer.encode(), self._key)

    # -- the journal -----------------------------------------------------------------------------

    def _enter(self, run, payload=None):
        """Begin a run, or go on with one after the gate was shut down.

        `payload`: what is asked, where somebody asks.
        """
        if run == self.run:
            return
        try:
            journal = self.home / "runs" / file_name(run)
        except ValueError as error:
            raise PacketError(str(error)) from None
        head, about = journal / "run.json", {"run": run, "site": self.name, "record": self._fingerprint}
        if head.exists() and json.loads(head.read_text(encoding="utf-8")) != about:
            self._begin_again(run, journal, payload)
        if not head.exists():
            write_whole(head, json.dumps(about).encode())
        self.state, self._sequence, self._done = self._replayed(run, journal)
        self.run, self._journal = run, journal

    def _begin_again(self, run, journal, payload):
        """Put away what was said about a record that was put right since, if the server asks for it anew.

        Once in a run, and only while nothing but its first question was answered: what leaves about two records
        that are nearly the same says more of the rows that both have.
        """
        answered, before = _questions(journal), journal.with_name(f"{journal.name}.before")
        if before.exists() or len(answered) > 1 or not answered or answered[0].read_bytes() != payload:
            raise PacketError(f"Run {run!r} was begun on another record of {self.name!r}: give the run a new name.")
        _LOG.warning("%s: run %r begins again, for the record was changed", self.name, run)
        self.ledger.begun_again(run, self.name)
        os.rename(journal, before)

    def _replayed(self, run, journal):
        """State of the worker after all questions in the journal, the number of the last, and their operations."""
        state: dict[str, Any] = {}
        sequence, done = 0, Answered()
        for question in _questions(journal):
            packet = Packet.decode(question.read_bytes())
            answer, state = self.worker.handle(self.policy.narrowed(packet), state)
            done.add(packet, answer)
            sequence, record = int(question.stem), question.with_suffix(".record")
            if record.exists() and record.read_text(encoding="utf-8") != state.get("record", ""):
                raise PacketError(
                    f"What {self.name!r} sent as packet {sequence} of run {run!r} was about another record "
                    "than it has now: give the record back, or the run a new name."
                )
        return state, sequence, done


def _questions(journal):
    """Questions in the journal of a run, in their order."""
    return sorted(journal.glob("*.question"), key=lambda path: int(path.stem))


def _kept(question, payload):
    """The answer in the journal, if it is to the same question."""
    same = question.exists() and question.read_bytes() == payload
    return question.with_suffix(".answer").read_bytes() if same else None
