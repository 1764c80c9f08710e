"""The gate of a site: the one place where bytes come in and go out.

Whatever carries the bytes (files, an engine), a worker behind a gate is only asked what was signed by the
server for this unit and this run, in turn and once; everything that leaves is in the site's ledger before it
leaves; and a gate that was shut down in the middle of a run goes on where it was.
"""

import json
import logging
import traceback
from pathlib import Path
from typing import Any

from ..message.packet import NOTHING, Packet, PacketError
from ..message.requests import Acknowledgement, Close, Failed
from .atomic import file_name, write_whole
from .envelope import MAX_FRAME, Envelope, read_envelope
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
    key : bytes, default=None
        Shared with the server. None where the channel proves who sends.
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
    ):
        self.name = name
        self.worker = worker
        self.home = Path(home)
        self.ledger = SiteLedger(self.home / "ledger.jsonl", max_bytes, noise)
        self.run: Any = None  # its name, once there is one
        self.state: dict[str, Any] = {}
        self.closed = False
        self._key, self._max_frame, self._fingerprint = key, max_frame, fingerprint
        self._after = after
        self._sequence = 0

    # -- answering -------------------------------------------------------------------------------

    def answer(self, frame):
        """Answer to a packet of the server.

        Parameters
        ----------
        frame : bytes

        Returns
        -------
        bytes or None
            What may leave; None where nothing must be answered, as to a packet that is not the server's.
        """
        try:
            sequence, packet, payload, kept = self._question(frame)
        except PacketError as error:
            _LOG.warning("%s refused a packet: %s", self.name, error)
            self.ledger.refuse(self.run, self.name, str(error))
            return None
        if kept is not None:
            return kept
        self.ledger.record(self.run, self.name, "down", packet, frame, sequence)
        return self._answered(sequence, packet, payload)

    def volunteer(self, run, packet):
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
            If the answer would take what left over `max_bytes`.
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
        return sequence, self._released(sequence, packet, payload, answer, state)

    def _question(self, frame):
        """Number, packet, payload and kept answer, if any, of a question; PacketError if it must not be answered."""
        envelope, payload = read_envelope(frame, self._key, self._max_frame)
        site, way, sequence = envelope.site, envelope.direction, envelope.sequence
        if site != self.name or way != "down":
            raise PacketError(f"Packet is for {site!r} ({way}), not for {self.name!r}: astray.")
        packet = Packet.decode(payload)
        self._enter(envelope.run)
        kept = _kept(self._journal / f"{sequence:08d}.question", payload)
        if kept is None and sequence <= self._sequence:
            at = f"number {sequence}, but the run is at {self._sequence}"
            raise PacketError(f"Packet {packet.op!r} has {at}: sent again, or late.")
        return sequence, packet, payload, kept

    def _answered(self, sequence, packet, payload):
        try:
            answer, state = self._handled(packet)
        except Exception as error:
            return self._failed(sequence, packet, "client-error", type(error).__name__)
        try:
            return self._released(sequence, packet, payload, answer, state)
        except ByteLimitError:
            return self._failed(sequence, packet, "refused", "max_bytes")

    def _released(self, sequence, packet, payload, answer, state):
        """The answer as bytes, in the account and the journal.

        That there is nothing to say yet, and that the run is over, are not kept: what is asked next has the
        same number.
        """
        frame = self._sealed(sequence, answer)
        self.ledger.record(self.run, self.name, "up", answer, frame, sequence)
        self.closed = packet.op == Close.OP
        if answer.op == NOTHING or self.closed:
            return frame
        question, record = self._journal / f"{sequence:08d}.question", state.get("record", "")
        write_whole(question.with_suffix(".answer"), frame)
        if record:
            write_whole(question.with_suffix(".record"), record.encode())
        write_whole(question, payload)  # last: a question that is there has its answer
        self.state, self._sequence = state, sequence
        if self._after is not None:
            self._after(packet, state)
        return frame

    def _handled(self, packet):
        if packet.op == Close.OP:
            return Acknowledgement().to_packet(packet.round), self.state
        try:
            answer, state = self.worker.handle(packet, self.state)
            answer.encode()  # what cannot travel is an error of the worker
        except Exception:
            _LOG.error("%s: packet %r of round %d failed", self.name, packet.op, packet.round)
            with open(self.home / "errors.log", "a", encoding="utf-8") as file:
                file.write(traceback.format_exc())
            raise
        return answer, state

    def _failed(self, sequence, packet, kind, detail):
        """Tell the server that there is no answer. All is as before the packet, which may come again."""
        answer = Failed(kind, detail).to_packet(packet.round)
        frame = self._sealed(sequence, answer)
        try:
            self.ledger.record(self.run, self.name, "up", answer, frame, sequence)
        except ByteLimitError:
            return None
        return frame

    def _sealed(self, sequence, answer):
        return Envelope(self.run, self.name, "up", sequence).seal(answer.encode(), self._key)

    # -- the journal -----------------------------------------------------------------------------

    def _enter(self, run):
        """Begin a run, or go on with one after the gate was shut down."""
        if run == self.run:
            return
        journal = self.home / "runs" / file_name(run)
        head, about = journal / "run.json", {"run": run, "site": self.name, "record": self._fingerprint}
        if not head.exists():
            write_whole(head, json.dumps(about).encode())
        elif json.loads(head.read_text()) != about:
            raise PacketError(f"Run {run!r} was begun on another record of {self.name!r}: give the run a new name.")
        self.state, self._sequence = self._replayed(run, journal)
        self.run, self._journal = run, journal

    def _replayed(self, run, journal):
        """State of the worker after all questions in the journal, and the number of the last."""
        state: dict[str, Any] = {}
        sequence = 0
        for question in _questions(journal):
            _, state = self.worker.handle(Packet.decode(question.read_bytes()), state)
            sequence, record = int(question.stem), question.with_suffix(".record")
            if record.exists() and record.read_text() != state.get("record", ""):
                raise PacketError(
                    f"What {self.name!r} sent as packet {sequence} of run {run!r} was about another record "
                    "than it has now: give the record back, or the run a new name."
                )
        return state, sequence


def _questions(journal):
    """Questions in the journal of a run, in their order."""
    return sorted(journal.glob("*.question"), key=lambda path: int(path.stem))


def _kept(question, payload):
    """The answer in the journal, if it is to the same question."""
    same = question.exists() and question.read_bytes() == payload
    return question.with_suffix(".answer").read_bytes() if same else None
