"""Packets as files: a folder per site with what is for it and what is from it.

``folder/<site>/inbox`` holds the questions of the server, ``folder/<site>/outbox`` the answers of the site,
one file per packet, ``<run>-<number>.packet``. The folder may be a share, or be carried from one machine to
the other by whatever the plant allows; over a one-way link (a data diode) only outboxes are carried.
"""

import os
import secrets
import threading
import time
from pathlib import Path

from ..message.packet import Failure, PacketError
from .atomic import file_name, write_whole
from .envelope import PartialFrameError, outside, read_envelope
from .framed import FramedTransport
from .gate import Gate

_POLL = 0.02  # seconds between two looks into a folder
_SUFFIX = ".packet"


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
    keys : dict of str to bytes
        One key per site, see :func:`write_key`.
    one_way : bool, default=False
        Only wait for what the sites send on their own; nothing is ever written.
    **settings
        `timeout`, `journal`, `max_frame` as in :class:`~skfedcausal.federation.framed.FramedTransport`.

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
        if not self.one_way:
            for name, frame in frames.items():
                self._file(name, "outbox").unlink(missing_ok=True)  # of a run that was broken off here
                write_whole(self._file(name, "inbox"), frame)
        came: dict[str, bytes | Failure] = {}
        end = time.monotonic() + timeout
        while True:
            for name in frames.keys() - came.keys():
                answer = self._look(name)
                if answer is not None:
                    came[name] = answer
            if len(came) == len(frames):
                return came
            if time.monotonic() > end:
                break
            time.sleep(_POLL)
        return came | {name: self._given_up(name) for name in frames.keys() - came.keys()}

    def _look(self, name):
        """A site's whole answer, None while it is not there or not all of it."""
        path = self._file(name, "outbox")
        try:
            if path.stat().st_size > self._max_frame:
                return self._refused(name, f"A file of {path.stat().st_size} bytes is larger than {self._max_frame}.")
            frame = path.read_bytes()
        except OSError:
            return None
        try:
            read_envelope(frame, self._keys.get(name), self._max_frame)
        except PartialFrameError:
            return None
        except PacketError:
            return frame  # whole, and wrong: the caller says why
        return frame

    def _given_up(self, name):
        """A question without an answer is taken back: a site that comes late is asked anew."""
        if not self.one_way:
            self._file(name, "inbox").unlink(missing_ok=True)
        path = self._file(name, "outbox")
        came = "only part of a file" if path.exists() else "no file"
        return Failure("timeout", f"{came} came to {path}; does its site run, with the same key?")

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
        self._seen = {}

    def serve(self, timeout=None, watch=lambda packet_file: None, stop=lambda: False):
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

    def step(self):
        """Answer the questions that are there.

        Returns
        -------
        list of Path
            The answers.
        """
        answered = []
        for path in self._questions():
            try:
                modified, frame = path.stat().st_mtime_ns, path.read_bytes()
                asked = outside(frame)
            except (PartialFrameError, FileNotFoundError):
                continue  # the rest may still come; or the server has taken it back
            except PacketError:
                asked = None  # the gate says what is wrong
            self._seen[path.name] = modified
            answer = self.gate.answer(frame)
            if answer is not None:
                answered.append(self._send(_numbered(asked.run, asked.sequence), answer))
        return answered

    def send(self, run, packet):
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
        """New files for this site, oldest first, without those that were answered before this process."""
        inbox = self.folder / "inbox"
        if not inbox.is_dir():
            return []
        with os.scandir(inbox) as files:
            new = [
                (one.stat().st_mtime_ns, one.name) for one in files if one.name.endswith(_SUFFIX) and one.name[0] != "."
            ]
        if not self._seen:  # answered by a process before this one
            self._seen = {name: when for when, name in new if (self.folder / "outbox" / name).exists()}
        return [inbox / name for when, name in sorted(new) if self._seen.get(name) != when]

    def _send(self, name, frame):
        path = self.folder / "outbox" / name
        if not (path.exists() and path.read_bytes() == frame):
            write_whole(path, frame)
        return path


def _numbered(run, sequence):
    return f"{file_name(run)}-{sequence:08d}{_SUFFIX}"


class FileLoopback:
    """All units of an estimator in this process, with files between them and the server: for trying out.

    Parameters
    ----------
    folder : str or Path
        For the exchange and the homes of the sites.
    timeout : float, default=600.0

    Examples
    --------
    >>> import tempfile
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.federation import FileLoopback, verify_ledger
    >>> X, _ = make_granger_plant(2, n_samples=500, random_state=0)
    >>> folder = tempfile.TemporaryDirectory()
    >>> est = FederatedGrangerEstimator(transport=FileLoopback(folder.name)).fit(X)
    >>> verify_ledger(f"{folder.name}/home/unit0/ledger.jsonl")["entries"]
    6
    >>> folder.cleanup()
    """

    def __init__(self, folder, timeout=600.0):
        self.folder = Path(folder)
        self.timeout = timeout

    def __call__(self, sites):
        """Transport to these workers."""
        keys = {name: secrets.token_bytes(32) for name in sites}
        run = secrets.token_hex(4)
        exchange = self.folder / "exchange"
        transport = _LoopbackTransport(exchange, list(sites), run, keys, timeout=self.timeout)
        gates = [
            Gate(name, site, self.folder / "home" / file_name(name), key=keys[name]) for name, site in sites.items()
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
