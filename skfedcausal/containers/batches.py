"""Records larger than memory, batch by batch: files of NumPy and Parquet, tables that are mapped from disk."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..arguments import check_number
from ..optional import import_optional
from .arrays import refuse_unknown

_PARQUET = (".parquet", ".pq")


def read_batches(
    source: Any, rows: int = 50_000, *, columns: Sequence[str] | None = None, time: str | None = None, start: int = 0
) -> Iterator[pd.DataFrame]:
    """Rows of a record that is larger than memory, one batch after the other, for `partial_fit`.

    Only the rows of one batch are in memory, and of a Parquet file the row group that they come from. The index goes on
    from batch to batch, so that all of them are one episode.

    Parameters
    ----------
    source : path, ndarray, or list of paths
        A ``.npy`` file, a Parquet file (extra ``parquet``), a folder or list of them in the order of time (that of the
        names, in a folder), or an array, such as one of :class:`numpy.memmap`.
    rows : int, default=50_000
        Rows of a batch; the last one of a file may have fewer.
    columns : list of str, default=None
        Names ``client__sensor`` of the columns of arrays, which have none of their own; of Parquet files, those that
        are read.
    time : str, default=None
        Column of Parquet files with the times of the rows. Without it, and where a file has no index of times, rows are
        numbered.
    start : int, default=0
        Number of the first row.

    Yields
    ------
    batch : DataFrame
        Of an array, its numbers where they are, without a copy.

    Raises
    ------
    ValueError
        If a file cannot be read in parts, or names of columns are not those of its columns.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.containers import read_batches
    >>> record = np.arange(10.0).reshape(5, 2)
    >>> [batch.index.tolist() for batch in read_batches(record, 2, columns=["a__x", "b__x"])]
    [[0, 1], [2, 3], [4]]
    """
    check_number(rows, "rows")
    number = start
    for part in _parts(source):
        for batch in _batches(part, int(rows), columns, time):
            if not isinstance(batch.index, pd.DatetimeIndex):
                batch.index = pd.RangeIndex(number, number + len(batch))
            number += len(batch)
            yield batch


def _parts(source):
    """Files or arrays of a record, in order."""
    if isinstance(source, np.ndarray):
        return [source]
    if isinstance(source, list | tuple):
        return [part for one in source for part in _parts(one)]
    path = Path(source)
    if not path.is_dir():
        return [path]
    found = sorted(one for one in path.iterdir() if one.suffix.lower() in (".npy", *_PARQUET))
    if not found:
        raise ValueError(f"There are no .npy or Parquet files in {path}.")
    return found


def _batches(part, rows, columns, time):
    """Frames of one file or array."""
    if isinstance(part, np.ndarray):
        yield from _of_array(part.shape, part.__getitem__, rows, columns, "the array")
    elif part.suffix.lower() == ".npy":
        shape, read = _opened(part)
        yield from _of_array(shape, read, rows, columns, str(part))
    elif part.suffix.lower() in _PARQUET:
        yield from _of_parquet(part, rows, columns, time)
    else:
        raise ValueError(f"{part} is neither a .npy nor a Parquet file; read others with PlantTable.read.")


def _of_array(shape, read, rows, columns, what):
    """Frames of slices of rows."""
    if len(shape) != 2:
        raise ValueError(f"Got {len(shape)} dimension(s) in {what}; a record has rows and columns.")
    if columns is not None and len(columns) != shape[1]:
        raise ValueError(f"Got {len(columns)} names in `columns` for {shape[1]} columns of {what}; give one for each.")
    for first in range(0, shape[0], rows):
        yield pd.DataFrame(np.asarray(read(slice(first, first + rows))), columns=columns, copy=False)


def _opened(path):
    """Shape of a .npy file, and what reads some of its rows: the rest of it takes no address space."""
    with open(path, "rb") as file:
        version = np.lib.format.read_magic(file)
        reader = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}.get(version[0])
        if reader is None:
            raise ValueError(f"{path} is of version {version} of the format, and 1 or 2 can be read in parts.")
        shape, is_by_column, dtype = reader(file)
        offset = file.tell()
    if is_by_column and len(shape) > 1 and min(shape) > 1:
        raise ValueError(
            f"{path} holds one column after the other; save it with rows together: np.ascontiguousarray(X)."
        )
    if dtype.kind not in "iuf":
        raise ValueError(f"{path} holds {dtype}; a record has numbers.")

    def read(wanted):
        first, stop = wanted.start, min(wanted.stop, shape[0])
        width = int(np.prod(shape[1:]))
        values = np.fromfile(path, dtype, (stop - first) * width, offset=offset + first * width * dtype.itemsize)
        if len(values) < (stop - first) * width:
            raise ValueError(f"{path} ends before row {stop} of {shape[0]}: it was cut off.")
        return values.reshape(stop - first, width)

    return shape, read


def _of_parquet(path, rows, columns, time):
    """Frames of a Parquet file, read by row groups."""
    pyarrow = import_optional("pyarrow", "parquet", f"Reading {path}")
    parquet = import_optional("pyarrow.parquet", "parquet", f"Reading {path}")
    wanted = None if columns is None else [*columns, *([] if time is None else [time])]
    before = pyarrow.default_memory_pool()
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # others set aside more than a batch takes
    try:
        with parquet.ParquetFile(path, memory_map=False, pre_buffer=False) as file:
            there = file.schema_arrow.names
            refuse_unknown(wanted or ([] if time is None else [time]), there, f"{path} has no column", "it has")
            for batch in file.iter_batches(rows, columns=wanted, use_threads=False):
                frame = batch.to_pandas(split_blocks=True, use_threads=False)  # columns stay where they are
                if time is not None:
                    frame = frame.set_index(pd.DatetimeIndex(frame[time])).drop(columns=time)
                yield frame
    finally:
        pyarrow.set_memory_pool(before)
