"""The account of a site: charges and noised records that outlive the process that made them."""

import os
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from ..federation.atomic import Chain, in_turn, write_whole
from .accountant import Charge, PrivacyAccountant, Scope
from .calibration import Bounds, UnitNoise
from .mechanism import Release
from .tuning import TUNING

_CHARGED, _RELEASED = "charged", "released"


class SiteAccount(PrivacyAccountant):
    """Accountant whose charges and noised records are files in a folder that only the site reads.

    Parameters
    ----------
    folder : str or Path
        Made with the first charge. ``account.jsonl`` holds the charges, each line sealed with the one before
        it; ``*.npy`` are the noised records; ``secret`` is the key under which they are named.
    epsilon, delta : float, default=None
        Budget, as of every accountant.

    Raises
    ------
    LedgerError
        If there is an account whose chain of lines is broken.

    Notes
    -----
    The charge of a release is on the disk before its noise is drawn, and the noised record is there, and
    said to be, before anything is computed from it. So a release that was broken off by a crash had not left
    the process: its charge, taken already, pays for the one that is drawn in its place. A record that was
    released is read again and costs nothing. One whose file is lost costs again: other noise would be drawn.

    Processes that share the folder take turns.

    A noised record that lies in the folder without its charge says that the account was cut back, or that an
    older copy was put in its place. What was spent is not known then: every statement begins with NOT PRIVATE,
    and epsilon is infinite, which a budget refuses.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from skfedcausal import GaussianMechanism
    >>> from skfedcausal.privacy import SiteAccount
    >>> Y = np.sin(np.arange(8000.0).reshape(4000, 2))
    >>> folder = tempfile.TemporaryDirectory()
    >>> releases = []
    >>> for _ in range(2):  # as in two processes, one after the other
    ...     account = SiteAccount(folder.name, epsilon=8.0, delta=1e-6)
    ...     mechanism = GaussianMechanism(epsilon=8.0, delta=1e-6, clip_norm=1.5, accountant=account)
    ...     releases.append(mechanism.release({"boiler": Y}, (4000,))["boiler"].values)
    >>> bool((releases[0] == releases[1]).all()), len(account)
    (True, 1)
    >>> folder.cleanup()
    """

    def __init__(self, folder, epsilon=None, delta=None):
        super().__init__(epsilon, delta)
        self.folder = Path(folder)
        self.ledger = None  # gives the head of the site's ledger, which every charge then holds
        self._in_turn = False
        self._catch_up()

    def _catch_up(self) -> None:
        """Read the account from its file: others may have written there."""
        secret = self.folder / "secret"
        self._key = secret.read_bytes() if secret.exists() else self._key
        self._chain = Chain(self.folder / "account.jsonl")
        self._charges, self._noise = [], {}
        self._unused = set()
        self.scope = None
        for entry in self._chain.entries():
            if entry["event"] == _CHARGED:
                self._keep(Charge(**entry["charge"]))
                self.scope = Scope(**entry["scope"])
            elif entry["event"] == _RELEASED:
                self._unused.discard(entry["release"])
                self._noise[entry["release"]] = _noise_from(entry["noise"])
        self.period = max([self.period, *(charge.period for charge in self._charges)])
        paid = {charge.release[: TUNING.site_account_named] for charge in self._charges}
        self._is_cut = any(path.stem not in paid for path in self.folder.glob("*.npy"))
        self._charges = [self._marked(charge) for charge in self._charges]

    def _marked(self, charge):
        """A charge, void where others are missing."""
        return replace(charge, void=f"{charge.void} account".strip()) if self._is_cut else charge

    def charge(self, charges, scope, *, repeated=False) -> None:
        """Spend as every accountant does, but once for every release; see the notes on crashes."""
        with self.turn():
            super().charge([self._marked(charge) for charge in charges], scope)

    def _take(self, charge, scope, repeated):
        if not (self.folder / "secret").exists():
            write_whole(self.folder / "secret", self._key)
        seen = {} if self.ledger is None else {"ledger": self.ledger()}
        self._chain.append({"event": _CHARGED, "scope": asdict(scope), "charge": asdict(charge), **seen})
        self._keep(charge)

    def room(self, key, shape):
        """Array in a file for a noised record."""
        draft = self._path(key, ".part")
        room = np.lib.format.open_memmap(draft, "w+", dtype=float, shape=shape)
        if hasattr(os, "posix_fallocate"):  # a full disk is an error now, and would end the process later
            with open(draft, "r+b") as file:
                os.posix_fallocate(file.fileno(), 0, draft.stat().st_size)
        return room

    def remember(self, key, release) -> None:
        """Keep a noised record, and say in the account that it may be used from now on."""
        draft = self._path(key, ".part")
        release.values.flush()
        os.replace(draft, self._path(key))
        with self.turn():
            self._chain.append({"event": _RELEASED, "release": key.hex(), "noise": _noise_to(release.noise)})
            self._unused.discard(key.hex())
            self._noise[key.hex()] = release.noise

    def recall(self, key):
        """Release under a key, or None."""
        noise = self._noise.get(key.hex())
        if noise is None or not self._path(key).exists():
            return None
        return Release(np.load(self._path(key), mmap_mode="r"), noise)

    def forget(self) -> None:
        """Delete the noised records, not the charges: asking for them again will cost again."""
        for path in self.folder.glob("*.npy"):
            path.unlink()

    def _path(self, key, suffix=""):
        return self.folder / f"{key.hex()[: TUNING.site_account_named]}.npy{suffix}"

    @contextmanager
    def turn(self):
        """Let no other process write the account meanwhile; a process that dies lets go."""
        with self._lock:
            if self._in_turn:
                yield
                return
            self.folder.mkdir(parents=True, exist_ok=True)
            with open(self.folder / "lock", "ab") as file, in_turn(file):
                self._in_turn = True
                try:
                    self._catch_up()
                    yield
                finally:
                    self._in_turn = False


def _noise_to(noise):
    bounds = asdict(noise.bounds)
    return {"std": noise.std, **bounds, **{k: bounds[k].tolist() for k in ("center", "scale")}}


def _noise_from(kept):
    kept = {**kept, **{k: np.array(kept[k]) for k in ("center", "scale")}}
    return UnitNoise(std=kept.pop("std"), bounds=Bounds(**kept))
