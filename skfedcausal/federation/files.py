"""Packets that leave the process: in envelopes, checked on return, and as files in a folder per site."""

import errno
import hashlib
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..message.packet import NOTHING, Failure, Packet, PacketError
from ..message.requests import Close, Failed
from .atomic import file_name, write_whole
from .envelope import MAX_FRAME, Envelope, Identity, PartialFrameError, identity, outside, read_signed
from .gate import RULES, Gate, SitePolicy, allowing
from .tuning import TUNING

# The server's side of every transport that leaves the process: packets in envelopes, checked on return.

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


# Packets as files: a folder per site with what is for it and what is from it.
#
# ``folder/<site>/inbox`` holds the questions of the server, ``folder/<site>/outbox`` the answers of the site,
# one file per packet, ``<run>-<number>.packet``. The folder may be a share, or be carried from one machine to
# the other by whatever the plant allows; over a one-way link (a data diode) only outboxes are carried.

_POLL = 0.02  # seconds between two looks into a folder
_SUFFIX = ".packet"
_IN_THE_WAY = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENOTEMPTY)


class FileTransport(FramedTransport):
    """The server's side of an exchange of files.

    Parameters
    ----------
    folder : str or Path
        Holds one folder per site.
    names : sequence of str
        The sites.
    run : str
        Name of the run.
    keys : dict of str to bytes or KeyPair
        One key per site, see :func:`write_key` and :func:`read_key_pair`.
    one_way : bool, default=False
        Only wait for what the sites send on their own; nothing is ever written.
    **settings
        `timeout`, `journal`, `max_frame` as in :class:`~skfedcausal.federation.files.FramedTransport`.

    Examples
    --------
    >>> import tempfile, threading
    >>> from skfedcausal import FederatedGrangerEstimator, KalmanClient
    >>> from skfedcausal.client.worker import UnitWorker
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.federation import FileSite, FileTransport, Gate
    >>> X, _ = make_granger_plant(2, n_samples=500, random_state=0)
    >>> folder = tempfile.TemporaryDirectory()
    >>> keys = {name: name.encode() * 8 for name in X}
    >>> for name, Y in X.items():  # in real life every site does this on its own machine
    ...     worker = UnitWorker(name, Y, None, (0,), None, KalmanClient())
    ...     gate = Gate(name, worker, f"{folder.name}/home/{name}", key=keys[name])
    ...     site = FileSite(gate, f"{folder.name}/exchange")
    ...     threading.Thread(target=site.serve, daemon=True).start()
    >>> transport = FileTransport(f"{folder.name}/exchange", list(X), "march", keys, timeout=30.0)
    >>> est = FederatedGrangerEstimator().fit_sites(transport)
    >>> transport.close()
    >>> bool((est.transition_ == FederatedGrangerEstimator().fit(X).transition_).all())
    True
    >>> folder.cleanup()
    """

    def __init__(self, folder, names, run, keys, *, one_way=False, **settings):
        super().__init__(names, run, keys, **settings)
        self.folder = Path(folder)
        self.one_way = one_way

    def _carry(self, frames, timeout):
        came: dict[str, bytes | Failure] = {}
        if not self.one_way:
            for name, frame in frames.items():
                try:
                    _put_aside(self._file(name, "outbox"))
                    with suppress(FileNotFoundError, NotADirectoryError):
                        self._file(name, "outbox").unlink()  # of a run that was broken off here
                    _put(self._file(name, "inbox"), frame)
                except OSError as error:  # something in the way of one site's files is that site's failure
                    if error.errno not in _IN_THE_WAY:
                        raise
                    _LOG.warning("Something is in the way of the files of site %r: %s", name, error)
                    came[name] = Failure("offline", f"its folder cannot be used: {os.strerror(error.errno)}")
        wrong: dict[str, str] = {}  # why what came is not the answer, and which files that was found of
        looked: dict[str, Identity] = {}
        end = time.monotonic() + timeout
        while True:
            for name in frames.keys() - came.keys():
                answer = self._look(name, wrong, looked)
                if answer is not None:
                    came[name] = answer
            if len(came) == len(frames):
                return came
            if time.monotonic() > end:
                break
            time.sleep(_POLL)
        return came | {name: self._given_up(name, wrong.get(name)) for name in frames.keys() - came.keys()}

    def _look(self, name, wrong, looked):
        """A site's whole answer, None while it is not there or not all of it.

        Over a two-way link what is not the site's answer may still be replaced by the one that is.
        """
        path = self._file(name, "outbox")
        try:
            found = identity(os.lstat(path))
            if found == looked.get(name):
                return None
            frame, found = read_signed(path, self._keys.get(name), self._max_frame)
            Envelope(self.run, name, "up", self._sequence).open(frame, self._keys.get(name), self._max_frame)
        except (FileNotFoundError, NotADirectoryError, PartialFrameError):
            return None
        except PacketError as error:
            if self.one_way:
                return self._refused(name, str(error))
            wrong[name], looked[name] = str(error), found
            return None
        return frame

    def _given_up(self, name, wrong=None):
        """A question without an answer is taken back: a site that comes late is asked anew.

        Not so that the run is over, which stays true.
        """
        path = self._file(name, "outbox")
        if not (self.one_way or self._closing):
            with suppress(OSError):
                self._file(name, "inbox").unlink(missing_ok=True)
        if wrong is not None:
            return self._refused(name, wrong)
        if os.path.lexists(path):
            return Failure("timeout", f"only part of a file came to {path}")
        return Failure("timeout", f"no file came to {path}; does its site run, with the same key?")

    def _file(self, name, box):
        return self.folder / file_name(name) / box / _numbered(self.run, self._sequence)


class FileSite:
    """A site's side of an exchange of files.

    Parameters
    ----------
    gate : Gate
    folder : str or Path
        Holds the folder of this site.

    Examples
    --------
    >>> import tempfile
    >>> from skfedcausal.federation import FileSite, Gate, Packet
    >>> class Echo:
    ...     def handle(self, packet, state):
    ...         return Packet("echo"), state
    >>> folder = tempfile.TemporaryDirectory()
    >>> site = FileSite(Gate("boiler", Echo(), f"{folder.name}/home"), f"{folder.name}/exchange")
    >>> site.send("march", Packet("hello")).exists()
    True
    >>> folder.cleanup()
    """

    def __init__(self, gate, folder):
        self.gate = gate
        self.folder = Path(folder) / file_name(gate.name)
        self._seen: dict[str, Identity] = {}
        self._looked = False

    def serve(
        self,
        timeout: float | None = None,
        watch: Callable[..., Any] = lambda packet_file: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Answer what is asked until the server closes the run.

        Parameters
        ----------
        timeout : float, default=None
            Seconds without a question after which to give up; None waits for ever.
        watch : callable, default=None
            Called with the path of every answer that was written.
        stop : callable
            Ends when it is true.

        Returns
        -------
        bool
            Whether the run was closed; False if it ended for another reason.
        """
        self.gate.closed = False
        last = time.monotonic()
        while not (self.gate.closed or stop()):
            answered = self.step()
            for path in answered:
                watch(path)
            if answered:
                last = time.monotonic()
            elif timeout is not None and time.monotonic() - last > timeout:
                return False
            else:
                time.sleep(_POLL)
        return self.gate.closed

    def step(self) -> list[Path]:
        """Answer the questions that are there.

        Returns
        -------
        list of Path
            The answers.
        """
        answered = []
        for path, found in self._questions():
            try:
                frame, found = read_signed(path, *self.gate.key)
                address = outside(frame)
                name = _numbered(address.run, address.sequence)
                answer = self.gate.answer(frame, path.name)
            except (FileNotFoundError, PartialFrameError):
                continue  # the server has taken it back; or the rest may still come
            except (PacketError, ValueError) as error:  # a name that no file can have
                answer = None
                self.gate.refuse(str(error), path.name)
            self._seen[path.name] = found
            if answer is not None and self.gate.waiting == (address.run, address.sequence):
                # it will be asked again under this name; a share may not tell by the time of the file
                with suppress(OSError):
                    path.unlink()
                    del self._seen[path.name]
            if answer is not None:
                answered.append(self._send(name, answer))
        return [path for path in answered if path is not None]

    def send(self, run: str, packet: Packet) -> Path | None:
        """Send without having been asked, as over a one-way link.

        What was sent before keeps its number.

        Parameters
        ----------
        run : str
            Name of the run.
        packet : Packet
            What the server would have asked.

        Returns
        -------
        Path or None
            None if there is nothing to send yet.
        """
        sequence, frame = self.gate.volunteer(run, packet)
        return None if frame is None else self._send(_numbered(run, sequence), frame)

    def _questions(self):
        """New files for this site and what tells them from others, oldest first."""
        inbox = self.folder / "inbox"
        new = []
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(inbox) as files:
            for one in files:
                if one.name.endswith(_SUFFIX) and one.name[0] != ".":
                    with suppress(FileNotFoundError):  # taken back meanwhile
                        new.append((identity(one.stat(follow_symlinks=False)), one.name))
        if not self._looked:  # answered by a process before this one
            self._looked = inbox.is_dir()
            taken = {_numbered(run, sequence) for run, sequence in self.gate.ledger.questions()}
            self._seen = {name: when for when, name in new if name in taken and self._answered_before(name)}
        return [(inbox / name, when) for when, name in sorted(new) if self._seen.get(name) != when]

    def _answered_before(self, name):
        """Whether the ledger has a question whose answer is still there; others may put anything in its place."""
        if not (self.folder / "outbox" / name).is_file():
            return False
        try:
            frame, _ = read_signed(self.folder / "inbox" / name, *self.gate.key)
        except (FileNotFoundError, PacketError):
            return False
        return self.gate.ledger.has_taken(outside(frame), frame)

    def _send(self, name, frame):
        """Write an answer; None where something that is no file is in its way."""
        path = self.folder / "outbox" / name
        try:
            if not _holds(path, frame):
                _put(path, frame)
        except OSError as error:
            if error.errno not in _IN_THE_WAY:
                raise
            self.gate.refuse(f"An answer could not be written: {os.strerror(error.errno)}.", f"outbox/{name}")
            return None
        return path


def _holds(path, frame):
    """Whether a regular file has these bytes."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return path.is_file() and not path.is_symlink() and status.st_size == len(frame) and path.read_bytes() == frame


def _put_aside(path):
    """Move a folder that has the name of a packet out of the way."""
    if path.is_dir() and not path.is_symlink():
        os.rename(path, path.with_name(f".refused-{secrets.token_hex(4)}-{path.name}"))


def _put(path, frame):
    """Write a packet for the other side, which may be another user; whatever is there is replaced."""
    for left in reversed(range(TUNING.files_tries)):
        try:
            _put_aside(path)
            write_whole(path, frame, shared=True)
            return
        except OSError as error:
            if error.errno not in _IN_THE_WAY or not left:
                raise  # else somebody was quick to put a folder there


def _numbered(run, sequence):
    return f"{file_name(run)}-{sequence:08d}{_SUFFIX}"


class FileLoopback:
    """All units of an estimator in this process, with files between them and the server: for trying out.

    Parameters
    ----------
    folder : str or Path
        For the exchange and the homes of the sites.
    timeout : float, default=600.0
    policy : SitePolicy, default=None
        What the units answer. None: everything, for whoever asks has the record anyway.

    Examples
    --------
    >>> import tempfile
    >>> from skfedcausal import Communication, FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.federation import FileLoopback, verify_ledger
    >>> X, _ = make_granger_plant(2, n_samples=500, random_state=0)
    >>> folder = tempfile.TemporaryDirectory()
    >>> est = FederatedGrangerEstimator(communication=Communication(transport=FileLoopback(folder.name))).fit(X)
    >>> verify_ledger(f"{folder.name}/home/unit0/ledger.jsonl")["entries"]
    6
    >>> folder.cleanup()
    """

    def __init__(self, folder, timeout=600.0, policy=None):
        self.folder = Path(folder)
        self.timeout = timeout
        self.policy = SitePolicy.unlimited() if policy is None else policy

    def __call__(self, sites):
        """Transport to these workers."""
        keys = {name: secrets.token_bytes(32) for name in sites}
        run = secrets.token_hex(4)
        exchange = self.folder / "exchange"
        transport = _LoopbackTransport(exchange, list(sites), run, keys, timeout=self.timeout)
        homes = {name: self.folder / "home" / file_name(name) for name in sites}
        gates = [
            Gate(name, site, homes[name], key=keys[name], policy=self.policy.for_run(run))
            for name, site in sites.items()
        ]
        transport.threads = [threading.Thread(target=FileSite(gate, exchange).serve, daemon=True) for gate in gates]
        for thread in transport.threads:
            thread.start()
        return transport


class _LoopbackTransport(FileTransport):
    threads: list[threading.Thread]

    def leave(self):
        for thread in self.threads:
            thread.join()
