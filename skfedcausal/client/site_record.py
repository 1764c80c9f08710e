"""The record of a site on its own machine, and what differential privacy it promises for it."""

import hashlib
import tempfile
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..arguments import warn
from ..beside import beside
from ..containers import check_lengths, constant_columns, episode_starts
from ..containers.arrays import (
    SEPARATOR,
    listed,
    mode_codes,
    mode_indicators,
    modes_in,
    n_moving,
    refuse_unknown,
    warn_of_mode,
)
from ..federation.atomic import START, LedgerError, read_ledger, write_whole
from ..message.clock import Clock
from ..message.packet import NOTHING
from ..message.requests import FitRequest, PrivacyPromise, WatchRequest
from ..message.training import TrainRequest
from ..privacy import GaussianMechanism, NoiseOptions, Scope, SiteAccount
from ..statespace.episodes import episodes
from .watching import Batch
from .worker import UnitWorker

# The record of a site on its own machine: read from a file, and batch by batch where files keep coming.

_CHUNK = 2**14  # rows that are in memory at a time while a record is read
_SUFFIXES = (".csv", ".txt", ".parquet", ".npy")


class SettingsError(ValueError):
    """A settings file that cannot be used: says which key, what was found and what is expected."""


@dataclass(frozen=True)
class SiteRecord:
    """A unit's own record. However long it is, it stays on the disk and is read as needed."""

    outputs: np.ndarray
    inputs: np.ndarray | None
    lengths: tuple
    columns: tuple
    fingerprint: str
    moving: tuple = ()  # columns of the inputs
    clock: Clock | None = None  # times of the rows, None where they have none
    modes: Any = None  # SiteModes where a column tells them
    last_mode: float | None = None  # code in the last row, None where nothing tells it

    @property
    def shape(self):
        """Number of rows and of sensors."""
        return self.outputs.shape

    @property
    def n_moving(self):
        """Sensors that say something of their own."""
        return n_moving(self.outputs)

    @property
    def nbytes(self):
        """Size of the numbers of the record."""
        return self.outputs.nbytes + (0 if self.inputs is None else self.inputs.nbytes)

    @classmethod
    def read(cls, settings, moving=None, modes=None, before=None):
        """Record in the file that the settings of a site name, with the inputs `moving`; None for those that do.

        `modes` are those that are known, and `before` gives the code of the row before; None for those in the record.
        """
        path, learns = settings.data, modes is None
        if not path.exists():
            raise SettingsError(f"There is no file {path} with the record of {settings.name!r}.")
        if path.suffix not in _SUFFIXES:
            raise SettingsError(f"{path}: records are .csv, .txt, .parquet or .npy files.")
        is_array = path.suffix == ".npy"
        file = (_read_npy if is_array else _read_table)(settings, modes)
        columns, modes = file.columns, file.modes
        of_modes = () if settings.mode is None else (settings.mode,)
        refuse_unknown((*settings.inputs, *of_modes), columns, f"{path} has no column", "it has", SettingsError)
        codes = np.array(file.rows[:, columns.index(settings.mode)]) if of_modes else None
        if is_array and of_modes:
            modes, codes = _codes(settings.mode, codes, modes, path)
        own = [k for k, column in enumerate(columns) if column not in (*settings.inputs, *of_modes)]
        if not own:
            raise SettingsError(f"{path} has no sensor of {settings.name!r} besides its inputs.")
        rows = file.rows
        outputs, inputs = rows, None
        if settings.inputs or of_modes or not is_array or rows.dtype != float or not rows.flags.c_contiguous:
            which = [columns.index(column) for column in settings.inputs]
            outputs, inputs, moves = _split(_chunks(rows), own, which, path)
            if moving is None:
                moving = [name for name, moved in zip(settings.inputs, moves, strict=True) if moved]
            inputs = (
                np.ascontiguousarray(inputs[:, [settings.inputs.index(name) for name in moving]]) if moving else None
            )
        lengths, last_mode = check_lengths(file.lengths, len(outputs)), None
        if codes is not None:
            starts = episode_starts(lengths)
            if learns and np.isnan(codes[list(starts)]).any():
                raise SettingsError(
                    f"{path}: {settings.mode!r} has missing values at the start of an episode, where there is no mode "
                    "to hold. Fill them in, or leave those rows out."
                )
            outputs, inputs, last_mode = modes.taken(outputs, inputs, codes, starts, before)
        names = tuple(f"{settings.name}{SEPARATOR}{columns[k]}" for k in own)
        fingerprint = _fingerprint(outputs, inputs)
        return cls(outputs, inputs, lengths, names, fingerprint, tuple(moving or ()), file.clock, modes, last_mode)

    def worker(self, name, client, **settings):
        """The unit's worker on this record."""
        starts = episode_starts(self.lengths)
        return UnitWorker(name, self.outputs, self.inputs, starts, self.columns, client, clock=self.clock, **settings)

    def batch(self, name):
        """The record as a batch of a monitored one."""
        starts = episode_starts(self.lengths)
        return Batch(self.outputs, starts, f"{name} {self.fingerprint}", inputs=self.inputs)


class SiteBatches:
    """Batches of a monitored record in files.

    In a folder every ``.csv`` or ``.npy`` file is a batch, in the order of their names; move a file there
    whole, or write it under another ending and rename it. Inputs are the columns `moving`, which moved in the record
    that the plant was learned from, and `modes` those that it has.
    """

    def __init__(self, settings, columns, released=None, moving=(), modes=None):
        self._settings, self._columns, self._released, self._moving = settings, columns, released, moving
        self._modes = modes
        self._read = []  # names of the files so far
        self._rows = {}  # of each of them
        self._last_modes = {}  # of each of them, codes
        self._last = 0, None  # number and batch that were read last
        if not settings.watched.exists():
            raise SettingsError(f"There is no file or folder {settings.watched} for {settings.name!r} to monitor.")
        if settings.inputs and (settings.basis, settings.sampled, settings.instruments) != ("linear", "after", None):
            raise SettingsError(
                "[site] `watched`: a detector takes inputs as they are. Leave out `basis`, `sampled` and "
                "`instruments`, which are about effects, or `watched`."
            )

    @property
    def files(self):
        """Files that are there, in the order of their names."""
        path = self._settings.watched
        if not path.is_dir():
            return [path]
        inside = (file for file in path.iterdir() if file.suffix in _SUFFIXES and file.name[0] != ".")
        return sorted(inside, key=lambda file: file.name)

    def batch(self, number):
        """Batch of a number from 1, None where it is not there yet."""
        if number == self._last[0]:
            return self._last[1]
        files = self.files
        if len(files) < number:
            return None
        names, read = [file.name for file in files], self._read
        if names[: len(read)] != read:
            raise SettingsError(
                f"{self._settings.watched}: the first files were {listed(read)} and are "
                f"{listed(names[: len(read)])} now; batches stay, and come in the order of their names."
            )
        record = self._record(files, number - 1)
        self._rows[names[number - 1]] = len(record.outputs)
        if self._released is not None:
            record = self._released(record)
        self._read = names[: max(len(read), number)]
        self._last = number, record.batch(names[number - 1])
        return self._last[1]

    def rows_from(self, row):
        """Rows of the batches so far, from the batch on that has a row of the stream, and the first one's number."""
        first, passed, kept = 0, 0, []
        files = self.files
        for k, file in enumerate(files[: len(self._read)]):
            n_rows = self._rows.get(file.name)
            if n_rows is None or passed + n_rows > row:
                outputs = np.asarray(self._record(files, k).outputs)
                n_rows = self._rows[file.name] = len(outputs)
                kept += [outputs] if passed + n_rows > row else []
            passed += n_rows
            first = first if kept else passed
        return first, np.concatenate(kept) if kept else np.zeros((0, len(self._columns)))

    def _record(self, files, k):
        """Record in one of the files, with the columns of the unit's own record."""
        path = files[k]
        settings = replace(self._settings, data=path, lengths=None)
        record = SiteRecord.read(settings, self._moving, self._modes, lambda: self._mode_before(files, k))
        self._last_modes[path.name] = record.last_mode
        named = ".npy" not in (path.suffix, self._settings.data.suffix)  # arrays have no names
        if len(record.columns) != len(self._columns) or (named and record.columns != self._columns):
            raise SettingsError(f"{path} has the columns {listed(record.columns)}, the unit {listed(self._columns)}.")
        return record

    def _mode_before(self, files, k):
        """Code of the mode before one of the files; after a start anew the file before it is read again."""
        if k == 0:
            return None
        if files[k - 1].name not in self._last_modes:
            self._record(files, k - 1)
        return self._last_modes[files[k - 1].name]


class _File(NamedTuple):
    """What a file of a site holds."""

    columns: tuple[str, ...]
    rows: np.ndarray  # (n_samples, n_columns)
    lengths: Any  # rows of each episode, None for one
    clock: Clock | None
    modes: Any  # SiteModes, None where none are known


def _read_npy(settings, modes):
    """The `_File` of an array, which is mapped into memory."""
    path = settings.data
    table = np.load(path, mmap_mode="r")
    if table.ndim != 2 or table.dtype.kind not in "fiu":
        raise SettingsError(f"{path} holds {table.dtype} of shape {table.shape}; give a table of numbers.")
    return _File(tuple(f"x{k}" for k in range(table.shape[1])), table, settings.lengths, None, modes)


def _codes(column, values, modes, path):
    """Modes, learned unless they are known, and their codes in place of the values of a column."""
    try:
        modes = modes or SiteModes.learn(column, values)
    except ValueError as error:
        raise SettingsError(f"{path}: {error}") from None
    return modes, modes.codes(values)


def _coded_table(settings, modes):
    """The file of a site with codes in place of its modes, which may be words, and the modes."""
    table = beside("cells_of")(settings.data, settings.bad)
    refuse_unknown([settings.mode], table, f"{settings.data} has no column", "it has", SettingsError)
    modes, codes = _codes(settings.mode, table[settings.mode], modes, settings.data)
    return table.assign(**{settings.mode: codes}), modes


def _read_table(settings, modes):
    """The `_File` of an export, its modes as codes."""
    how = {name: getattr(settings, name) for name in ("time", "tz", "every", "fix", "drop", "dayfirst")}
    source = settings.data
    try:
        if settings.mode is not None:
            source, modes = _coded_table(settings, modes)
        plant = beside("PlantTable").read({settings.name: source}, bad_values=settings.bad, **how)
    except ValueError as error:
        raise SettingsError(f"{settings.data}: {error}") from None
    if plant.fix_first and not (settings.anyway or settings.fix):
        raise SettingsError(
            f"{settings.data}: fix first. {' '.join(plant.fix_first)} Give `fix = ['all']` in [site] (`init "
            "--fix all`), or `anyway = true`."
        )
    columns = tuple(name.partition(SEPARATOR)[2] for name in plant.frame)
    clock, lengths, times = None, plant.lengths, plant.frame.index
    if settings.lengths is not None:
        lengths = check_lengths(settings.lengths, len(plant.frame))
    if isinstance(times, pd.DatetimeIndex):
        clock = Clock.of_index(times, lengths)
    return _File(columns, plant.frame.to_numpy(), lengths, clock, modes)


def _chunks(rows):
    """Rows of an array some at a time."""
    starts = range(0, len(rows), _CHUNK)
    return (np.asarray(rows[start : start + _CHUNK], dtype=float) for start in starts)


def _split(chunks, own, which, path):
    """Sensors and inputs, each in a file without a name that is gone with this process, and which inputs move."""
    place = {"dir": path.parent}  # /tmp may lie in memory
    with tempfile.TemporaryFile(**place) as outputs, tempfile.TemporaryFile(**place) as inputs:
        moving, first, n_rows = np.zeros(len(which), dtype=bool), None, 0
        for chunk in chunks:
            chunk[:, own].tofile(outputs)
            U = chunk[:, which]
            if not np.isfinite(U).all():
                raise SettingsError(f"The inputs in {path} have missing values; fill them in.")
            U.tofile(inputs)
            first = U[:1] if first is None else first
            moving |= ~constant_columns(np.concatenate([first, U]))
            n_rows += len(chunk)
        if n_rows == 0:
            raise SettingsError(f"{path} has no rows.")
        return _mapped(outputs, n_rows, len(own)), _mapped(inputs, n_rows, len(which)) if which else None, moving


def _mapped(file, n_rows, n_columns):
    file.flush()
    return np.memmap(file, dtype=float, mode="r", shape=(n_rows, n_columns))


def _fingerprint(*arrays):
    digest = hashlib.sha256()
    for array in arrays:
        if array is not None:
            digest.update(repr(array.shape).encode())
            for start in range(0, len(array), _CHUNK):
                digest.update(np.ascontiguousarray(array[start : start + _CHUNK]).data)
    return digest.hexdigest()


@dataclass(frozen=True)
class SiteModes:
    """The column that tells modes, those that were in the record that the plant was learned from, and which file."""

    column: str
    labels: tuple

    @classmethod
    def learn(cls, column, values):
        """Modes of a nominal record."""
        return cls(column, modes_in(values, column))

    def codes(self, values):
        """Places of modes in a column, the number of modes for one that is not known, NaN where missing."""
        codes, unknown = mode_codes(values, self.labels)
        for value in unknown:
            warn_of_mode(value, self.column, self.labels, "rows in it are taken as missing measurements")
        return codes

    def taken(self, outputs, inputs, codes, starts=(0,), before=None):
        """Measurements, inputs with indicators beside them, and the last row's code, None where it is not known.

        `starts` are first rows of episodes, and `before` gives the code before the first row of all, None if there is
        none. Measurements of modes that are not known are missing. Their mode counts as the one before, or the first of
        all at the start of an episode. A mode that is missing is the one before; where an episode begins with such
        rows, nothing tells their mode, and they are missing measurements too.
        """
        unknown = codes == len(self.labels)
        known = np.where(~unknown & (codes == np.rint(codes)), codes, np.nan)
        if before is not None and np.isnan(known[0]) and (last := before()) is not None:
            known[0] = last
        begins = np.array(starts)
        known[begins[np.isnan(known[begins]) & ~np.isnan(codes[begins])]] = 0.0
        held = np.concatenate([pd.Series(known[i:j]).ffill().to_numpy() for i, j in episodes(starts, len(known))])
        lacking = np.isnan(held)
        if lacking.any():
            warn(
                f"{int(lacking.sum())} rows at the start of an episode lack {self.column!r}, and no row before tells "
                "their mode: they are taken as missing measurements. Monitoring continues.",
            )
        if (unknown | lacking).any():
            outputs = np.array(outputs)
            outputs[unknown | lacking] = np.nan
        parts = [] if inputs is None else [inputs]
        joined = np.hstack([*parts, mode_indicators(np.where(lacking, 0.0, held)[:, None], len(self.labels))])
        return outputs, joined if joined.shape[1] else None, None if lacking[-1] else float(held[-1])


# Differential privacy of a site: what it promises, its noise, and what it says about them.

_ACCOUNT, _LEDGER = "privacy/account.jsonl", "ledger.jsonl"
SUMS = "secure_sums.json"


@dataclass(frozen=True)
class SitePrivacy:
    """Section ``[privacy]`` of a site's settings."""

    mechanism: str
    epsilon: float
    delta: float
    clip_norm: float
    unit: str
    budget: float
    event_radius: float | None = None
    window: int | None = None
    relation: str = "replace"
    center: float | list = 0.0
    scale: float | list = 1.0
    sampler: str = "auto"
    period: int = 0

    def __post_init__(self):
        if self.mechanism != "gaussian":
            raise SettingsError(f"mechanism={self.mechanism!r}; 'gaussian' is what sites have.")
        self._gaussian().mu_of_release()

    def _gaussian(self, account=None):
        own = {name: getattr(self, name) for name in ("epsilon", "delta", "clip_norm", "event_radius")}
        noise = NoiseOptions(center=self.center, scale=self.scale, sampler=self.sampler)
        protects = Scope(self.unit, self.relation, self.window)
        return GaussianMechanism(**own, protects=protects, noise=noise, accountant=account)

    def charging(self, home):
        """The mechanism, which charges the account in the site's home."""
        account = SiteAccount(home / "privacy", self.budget, self.delta)
        if self.period < account.period:
            raise SettingsError(f"[privacy] period = {self.period}, but the account is at {account.period} already.")
        account.period = self.period
        account.ledger = lambda: ledger_lines(home)[-1]
        return self._gaussian(account)

    def release(self, name, record, home, noise=None):
        """The record with noise, charged once, the promise about it, and the noise.

        A worker may be given no other record. `noise`: of another release, to be used again whatever it costs.
        """
        mechanism = self.charging(home)
        account = mechanism.account
        noise = None if noise is None else {name: noise}
        release = mechanism.release({name: record.outputs}, record.lengths, noise=noise)[name]
        spent = account.spent()
        statement = mechanism.statement(spent, [name], len(record.outputs), drawn=False)
        write_whole(home / "privacy" / "statement.txt", statement.encode())
        promise = self._promise(record, release.variance, spent.mu, len(account))
        return replace(record, outputs=release.values), promise, release.noise

    def dry_run(self, name, record, home):
        """Promise and cost of a release; nothing is drawn or charged."""
        mechanism = self.charging(home)
        account = mechanism.account
        charges = mechanism.cost({name: record.outputs}, record.lengths)
        after = account.spent_with(charges, mechanism.scope)
        variance = mechanism.noise_of(name, record.outputs).variance
        return self._promise(record, variance, after.mu, len(account) + len(charges)), {
            "epsilon_spent": account.spent().epsilon,
            "epsilon_after": after.epsilon,
            "epsilon_budget": self.budget,
            "noise": self.in_words,
        }

    def _promise(self, record, variance, mu, releases):
        own = {name: getattr(self, name) for name in ("unit", "relation", "window")}
        for name in ("delta", "clip_norm", "event_radius"):
            value = getattr(self, name)
            own[name] = None if value is None else float(value)
        return PrivacyPromise(noise=variance, mu=mu, rows=len(record.outputs), releases=releases, **own)

    @property
    def in_words(self):
        """The noise, for the ledger."""
        return (
            "Gaussian on the measurements, drawn at the site before anything was computed from them; epsilon = "
            f"{self.epsilon:g} at delta = {self.delta:g} per {self._gaussian().scope}, clipped to {self.clip_norm:g}, "
            f"drawn by the sampler {self._gaussian().drawn_by!r}"
        )


def account_lines(home, account=_ACCOUNT):
    """Hashes of the lines of a site's account, the last one last."""
    return [START, *(entry["hash"] for entry in _lines(home, account))]


def ledger_lines(home):
    """The same of its ledger, those that a repair has said to be lost before the others."""
    entries = _lines(home, _LEDGER)
    lost = [head for entry in entries for head in entry.get("hashes", ())]
    return [*lost, START, *(entry["hash"] for entry in entries)]


def _lines(home, name):
    path = home / name
    return read_ledger(path) if path.exists() else []


def check_owner(home, name):
    """Refuse an account of privacy of another site: what was paid for there are other records."""
    others = sorted({entry["charge"]["client"] for entry in _lines(home, _ACCOUNT) if "charge" in entry} - {name})
    if others:
        raise LedgerError(
            f"{home / _ACCOUNT} holds charges of {', '.join(others)}, and this is the home of {name!r}: put its own "
            "account back, or give the site a home of its own."
        )


def check_account(home, account=_ACCOUNT):
    """Refuse an account that is older than what the site's ledger says of it, and a ledger older than the account."""
    heads = {entry["account"] for entry in _lines(home, _LEDGER) if "account" in entry}
    if heads - {head for name in (_ACCOUNT, SUMS) for head in account_lines(home, name)}:
        raise LedgerError(
            f"{home / account}: the ledger beside it names a line that is not there. Charges were "
            "cut off, or an older copy was put in its place; put the whole account back, for its charges count."
        )
    known = set(ledger_lines(home))
    if any(entry.get("ledger", START) not in known for entry in _lines(home, _ACCOUNT)):
        raise LedgerError(
            f"{home / _LEDGER}: the account of privacy names a line that is not there. Lines were cut off or written "
            "anew, or an older copy was put in its place; put the whole ledger back."
        )


class SitePromises:
    """The releases of a site in one run: all with the noise of the first, each charged once."""

    def __init__(self, privacy, name, home, record):
        self._privacy, self._name, self._home = privacy, name, home
        self.record, self.promise, self._noise = privacy.release(name, record, home)

    def released(self, record):
        """A further record with the noise of the first, that thresholds hold for; charged before drawn."""
        record, promise, _ = self._privacy.release(self._name, record, self._home, self._noise)
        self.promise = replace(self.promise, mu=promise.mu, releases=promise.releases)
        return record


class PromisingWorker:
    """A worker whose messages say what the site promises."""

    def __init__(self, worker, promises):
        self._worker, self._promises = worker, promises

    def handle(self, packet, state):
        """Answer one packet."""
        answer, state = self._worker.handle(packet, state)
        if packet.op in (FitRequest.OP, TrainRequest.OP, WatchRequest.OP) and answer.op != NOTHING:
            answer = self._promises.promise.put_on(answer)
        return answer, state
