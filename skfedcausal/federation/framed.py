"""The server's side of every transport that leaves the process: packets in envelopes, checked on return."""

import hashlib
import logging
import re
import time
from collections.abc import Mapping
from pathlib import Path

from ..message.packet import NOTHING, Failure, Packet, PacketError
from ..message.requests import Close, Failed
from .atomic import file_name, write_whole
from .envelope import MAX_FRAME, Envelope, outside
from .policy import RULES, allowing

_LOG = logging.getLogger(__name__)
_KINDS = ("client-error", "refused")


class FramedTransport:
    """Base of the transports between machines: a subclass carries bytes.

    A subclass has the method ``_carry(frames, timeout)``, which takes the bytes for each site and gives each
    site's bytes or a :class:`~skfedcausal.federation.Failure`.

    Parameters
    ----------
    names : sequence of str
        The sites.
    run : str
        Name of the run. A run that is started again under its name, with a `journal`, goes on where it was.
    keys : dict of str to bytes or KeyPair, default=None
        One key per site, shared with it or in pairs. None where the channel proves who sends.
    timeout : float, default=600.0
        Seconds to wait for answers where `exchange` gets no other.
    journal : str or Path, default=None
        Folder for the answers of the run. None keeps none.
    max_frame : int, default=2**30
        Largest answer that is taken, in bytes.

    Examples
    --------
    A carrier that is unplugged:

    >>> from skfedcausal.federation import Failure, Packet
    >>> class Unplugged(FramedTransport):
    ...     def _carry(self, frames, timeout):
    ...         return dict.fromkeys(frames, Failure("timeout"))
    >>> transport = Unplugged(["mill"], "march", {"mill": bytes(32)})
    >>> transport.exchange({"mill": Packet("fit")})["mill"].kind
    'timeout'
    """

    one_way = False

    def __init__(self, names, run, keys=None, *, timeout=600.0, journal=None, max_frame=MAX_FRAME):
        self._names, self.run = tuple(names), run
        missing = [name for name in self._names if keys is not None and name not in keys]
        if missing:
            raise ValueError(f"No key for the sites {missing}; give one for each of {list(self._names)}.")
        self._keys = keys or {}
        self._timeout = timeout
        self._max_frame = max_frame
        self._journal = None if journal is None else Path(journal) / file_name(run)
        self._sequence, self._closing, self._asked = 0, False, False
        self._open = {}  # questions of the last packet to which sites had no answer yet
        kept = () if self._journal is None else self._journal.glob("[0-9]*-*")
        self._reached = max((int(path.name[:8]) for path in kept), default=0)  # the last before it was broken off
        self.refusals = []  # (site, reason) of everything that came and was not taken
        self.heads = {}  # of the sites' ledgers, as they last came: the journal holds all of them, signed
        self.bytes_up = self.bytes_down = 0  # on the wire, envelopes included
        self.seconds = []  # that every exchange took

    def clients(self) -> tuple[str, ...]:
        """Names of the sites.

        Returns
        -------
        tuple of str
        """
        return self._names

    def exchange(self, out: Mapping[str, Packet], *, timeout: float | None = None) -> dict[str, Packet | Failure]:
        """Send a packet to each named site and collect the answers.

        The question to which a site had nothing to say yet keeps its number when it is asked again.

        Parameters
        ----------
        out : dict of str to Packet
        timeout : float, default=None
            Seconds to wait; None takes that of the transport.

        Returns
        -------
        dict of str to (Packet or Failure)
            A site that is late, cannot be reached or sends what is not its answer to this packet is a
            failure.
        """
        started = time.monotonic()
        timeout = self._timeout if timeout is None else timeout
        payloads = {name: packet.encode() for name, packet in out.items()}
        if not payloads or any(self._open.get(name) != payload for name, payload in payloads.items()):
            self._sequence += 1
        answers = {name: self._remembered(name, payload, out[name]) for name, payload in payloads.items()}
        frames = {}
        for name in [name for name, answer in answers.items() if answer is None]:
            envelope = Envelope(self.run, name, "down", self._sequence, seen=self.heads.get(name, ""))
            frames[name] = envelope.seal(payloads[name], self._keys.get(name))
        self._asked = self._asked or bool(frames)
        if not self.one_way:
            self.bytes_down += sum(map(len, frames.values()))
        for name, came in self._carry(frames, timeout).items():
            answers[name] = self._taken(name, came, out[name])
            if out[name].op != Close.OP and not _is_open(answers[name]):
                self._remember(name, payloads[name], came, answers[name])
        self._open = {name: payloads[name] for name, answer in answers.items() if _is_open(answer)}
        self.seconds.append(time.monotonic() - started)
        return answers

    def close(self) -> None:
        """Tell the sites that the run is over, once. Not for a run that is to be resumed: see :meth:`leave`.

        Where a server before this one told them and nothing was asked since, they are not waited for.
        """
        closed = None if self._journal is None else self._journal.with_name(f"{self._journal.name}.closed")
        if not (self.one_way or self._closing) and (self._asked or closed is None or not closed.exists()):
            self._closing = True
            self.exchange(dict.fromkeys(self._names, Packet(Close.OP)), timeout=min(self._timeout, 5.0))
            if closed is not None:
                write_whole(closed, b"")
        self.leave()

    def leave(self) -> None:
        """Let go of what the transport holds; the sites wait for the run to be resumed."""

    def _carry(self, frames, timeout):
        raise NotImplementedError

    def _taken(self, name, came, question):
        """Packet in the bytes of a site that was asked with a packet, or why there is none."""
        if isinstance(came, Failure):
            return came
        self.bytes_up += len(came)
        try:
            expected = Envelope(self.run, name, "up", self._sequence)
            packet = Packet.decode(expected.open(came, self._keys.get(name), self._max_frame))
            self.heads[name] = outside(came).head
        except PacketError as error:
            return self._refused(name, str(error))
        return _failure(packet, question.op) if packet.op == Failed.OP else packet

    def _refused(self, name, reason):
        _LOG.warning("Refused what came from site %r: %s", name, reason)
        self.refusals.append((name, reason))
        return Failure("refused", reason)

    # -- the journal -----------------------------------------------------------------------------

    def _path(self, name):
        """File for what a site answers, None without a journal."""
        return None if self._journal is None else self._journal / f"{self._sequence:08d}-{file_name(name)}"

    def _remember(self, name, payload, came, answer):
        """Keep what came: an answer, or that there was none."""
        if (path := self._path(name)) is None:
            return
        failed = isinstance(came, Failure) or (isinstance(answer, Failure) and answer.kind == "refused")
        _keep(path, payload, _no_answer(answer) if failed else b"A" + came)

    def forget(self, name: str, packet: Packet, reason: str) -> None:
        """Remember an answer of the last exchange as none: it came, and what it says cannot be used.

        A run that was broken off for it asks the unit again; one that went on without goes the same way again.

        Parameters
        ----------
        name : str
            Unit whose answer it was.
        packet : Packet
            The question.
        reason : str
            Why the answer cannot be used.
        """
        if (path := self._path(name)) is not None:
            _keep(path, packet.encode(), _no_answer(Failure("refused", reason)))

    def _remembered(self, name, payload, question):
        """Reply to the same packet before the run was broken off, from the journal."""
        path = self._path(name)
        if path is None or not path.exists():
            return None
        kept = path.read_bytes()
        if kept[:32] != hashlib.sha256(payload).digest():
            raise ValueError(
                f"Run {self.run!r} was begun with other settings: packet {self._sequence} for {name!r} is "
                "another one now. Give the run a new name, or its settings back."
            )
        if kept[32:33] != b"F":
            return self._taken(name, kept[33:], question)
        if self._sequence == self._reached:
            return None  # what the run was broken off for: ask again
        return Failure(*kept[33:].decode().split(" ", 1))


def _keep(path, payload, kept):
    """Write what came of a question into the journal."""
    write_whole(path, hashlib.sha256(payload).digest() + kept)


def _no_answer(failure):
    """A failure as the journal has it."""
    return b"F" + f"{failure.kind} {failure.detail}".encode()


def _is_open(answer):
    """Whether a site may answer the same question later."""
    return isinstance(answer, Packet) and answer.op == NOTHING


def _failure(packet, op):
    """Failure that a site reports to a question, as far as it may: kind and one name, never a text."""
    kind, detail = packet.scalars.get("kind"), packet.scalars.get("detail")
    if kind == "policy" and detail in RULES:
        return Failure("refused", f"by its policy, {op!r}: {allowing(detail, op)}")
    if kind not in _KINDS or not isinstance(detail, str) or not re.fullmatch(r"\w{1,64}", detail, re.ASCII):
        return Failure("client-error")
    return Failure(kind, detail)
