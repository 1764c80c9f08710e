"""A unit's own record, read from the file that its settings name."""

import hashlib
import tempfile
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..containers import check_lengths, constant_columns, episode_starts
from ..containers.layout import SEPARATOR, listed

_CHUNK = 2**14  # rows that are in memory at a time while a record is read


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

    @property
    def starts(self):
        """First row of each episode."""
        return episode_starts(self.lengths)

    @property
    def nbytes(self):
        """Size of the numbers of the record."""
        return self.outputs.nbytes + (0 if self.inputs is None else self.inputs.nbytes)

    @classmethod
    def read(cls, settings):
        """Record in the file that the settings name."""
        path = settings.data
        if not path.exists():
            raise SettingsError(f"There is no file {path} with the record of {settings.name!r}.")
        if path.suffix not in _READERS:
            raise SettingsError(f"{path}: records are .csv or .npy files.")
        columns, chunks = _READERS[path.suffix](settings)
        which = [_position(column, columns, settings) for column in settings.inputs]
        own = [k for k in range(len(columns)) if k not in which]
        if not own:
            raise SettingsError(f"{settings.data} has no sensor of {settings.name!r} besides its inputs.")
        if isinstance(chunks, np.ndarray) and not which:
            outputs, U = chunks, None
        else:
            outputs, U = _split(_rows(chunks), own, which, settings)
        lengths = check_lengths(settings.lengths, len(outputs))
        names = tuple(f"{settings.name}{SEPARATOR}{columns[k]}" for k in own)
        return cls(outputs, U, tuple(lengths), names, _fingerprint(outputs, U))


def _read_npy(settings):
    """Names of the columns of an array, and the array mapped into memory."""
    table = np.load(settings.data, mmap_mode="r")
    if table.ndim != 2 or table.dtype.kind not in "fiu":
        raise SettingsError(
            f"{settings.data} holds {table.dtype} of shape {table.shape}; give a table of numbers."
        )
    columns = tuple(f"x{k}" for k in range(table.shape[1]))
    return columns, table if table.dtype == float and table.flags.c_contiguous else _rows(table)


def _read_csv(settings):
    """Names of the columns of a table, and its rows some at a time."""
    head = pd.read_csv(settings.data, nrows=0)
    left_out = [settings.time] if settings.time else []
    columns = tuple(str(name) for name in head if name not in left_out)

    def chunks():
        with pd.read_csv(settings.data, chunksize=_CHUNK) as parts:
            for part in parts:
                part = part.drop(columns=left_out)
                words = [name for name in part if part[name].dtype.kind not in "fiub"]
                if words:
                    raise SettingsError(
                        f"Columns {listed(words)} of {settings.data} are no numbers. Is one of them the "
                        "time? Name it with `time`."
                    )
                yield part.to_numpy(dtype=float)

    return columns, chunks()


_READERS = {".npy": _read_npy, ".csv": _read_csv}


def _rows(table):
    """Rows of an array, some at a time; anything else comes that way already."""
    if not isinstance(table, np.ndarray):
        yield from table
        return
    for start in range(0, len(table), _CHUNK):
        yield np.asarray(table[start : start + _CHUNK], dtype=float)


def _split(chunks, own, which, settings):
    """Sensors and moving inputs, each in a file without a name that is gone with this process."""
    place = {"dir": settings.data.parent}  # /tmp may lie in memory
    with tempfile.TemporaryFile(**place) as outputs, tempfile.TemporaryFile(**place) as inputs:
        moving, first, n_rows = np.zeros(len(which), dtype=bool), None, 0
        for chunk in chunks:
            chunk[:, own].tofile(outputs)
            U = chunk[:, which]
            if not np.isfinite(U).all():
                raise SettingsError(f"The inputs in {settings.data} have missing values; fill them in.")
            U.tofile(inputs)
            first = U[:1] if first is None else first
            moving |= ~constant_columns(np.concatenate([first, U]))
            n_rows += len(chunk)
        if n_rows == 0:
            raise SettingsError(f"{settings.data} has no rows.")
        Y, U = _mapped(outputs, n_rows, len(own)), None
        if moving.any():
            U = np.ascontiguousarray(_mapped(inputs, n_rows, len(which))[:, moving])
    return Y, U


def _mapped(file, n_rows, n_columns):
    file.flush()
    return np.memmap(file, dtype=float, mode="r", shape=(n_rows, n_columns))


def _position(column, columns, settings):
    if column not in columns:
        raise SettingsError(f"{settings.data} has no column {column!r}; it has {listed(columns)}.")
    return columns.index(column)


def _fingerprint(*arrays):
    digest = hashlib.sha256()
    for array in arrays:
        if array is not None:
            digest.update(repr(array.shape).encode())
            for start in range(0, len(array), _CHUNK):
                digest.update(np.ascontiguousarray(array[start : start + _CHUNK]).data)
    return digest.hexdigest()
