"""The gate of a site: the one place where bytes come in and go out.

Whatever carries the bytes (files, an engine), a worker behind a gate is only asked what was signed by the
server for this unit and this run, in turn and once; everything that leaves is in the site's ledger before it
leaves; and a gate that was shut down in the middle of a run goes on where it was.
"""

import json
import logging
import os
import traceback
from pathlib import Path
from typing import Any

from ..message.packet import NOTHING, Packet, PacketError
from ..message.requests import Acknowledgement, Close, Failed
from .atomic import file_name, keep_private, write_whole
from .chain import LedgerError
from .envelope import MAX_FRAME, Envelope, read_envelope
from .policy import Answered, PolicyError, SitePolicy
from .site_ledger import ByteLimitError, SiteLedger

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
