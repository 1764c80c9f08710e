"""What goes from one process of this machine to another: large arrays as files in memory, the rest as bytes."""

import io
import os
import pickle
import shutil
import tempfile
import weakref
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

_LARGE = 2**12  # bytes of an array, from which on a file is quicker
_SHARED_MEMORY, _ENOUGH = "/dev/shm", 2**31  # where files cost no disk, and bytes that have to be free there


class Folder:
    """A folder for what is on its way; whoever opens a parcel deletes its file."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="skfedcausal-", dir=_place())
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def place(self, x):
        """An array as a file that every process may map."""
        placed = Placed(_new_file(self.path), x.dtype, x.shape)
        with open(placed.path, "wb") as file:
            file.write(np.ascontiguousarray(x).data)
        return placed

    def remove(self):
        """Delete it."""
        self._remove()


class Placed(NamedTuple):
    """An array that lies in a file."""

    path: str
    dtype: np.dtype
    shape: tuple

    def mapped(self):
        """The array, which cannot be written to."""
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)  # a file of nothing cannot be mapped
        return np.asarray(np.memmap(self.path, self.dtype, "r", shape=self.shape))

    def remove(self):
        """Delete the file; whoever has mapped it keeps it."""
        with suppress(FileNotFoundError):  # of a folder that has gone
            os.unlink(self.path)


class Parcel(NamedTuple):
    """An object on its way, which is always small itself: two that send each other one at a time never block."""

    content: bytes  # of an object that needs no file
    path: str | None = None
    sizes: tuple[int, ...] = ()  # of what its file holds: bytes that say where arrays belong, and the arrays

    def opened(self):
        """The object, once."""
        if self.path is None:
            return pickle.loads(self.content)
        parts = [np.empty(size, np.uint8) for size in self.sizes]
        with open(self.path, "rb") as file:
            for part in parts:
                file.readinto(part.data)
        os.unlink(self.path)
        content, *arrays = parts
        return pickle.loads(content.data, buffers=arrays)


def packed(x, folder):
    """A parcel with an object."""
    large: list[pickle.PickleBuffer] = []

    def goes_along(buffer):
        is_small = buffer.raw().nbytes < _LARGE
        if not is_small:
            large.append(buffer)
        return is_small

    content = _bytes_of(x, goes_along)
    if not large and len(content) < _LARGE:
        return Parcel(content)
    path, parts = _new_file(folder), [memoryview(content), *(buffer.raw() for buffer in large)]
    with open(path, "wb") as file:
        for part in parts:
            file.write(part)
    return Parcel(b"", path, tuple(part.nbytes for part in parts))


class _Pickler(pickle.Pickler):
    """A pickler that names files which are mapped already: records larger than memory are some."""

    def reducer_override(self, x):
        """How an array is made anew from its file; as usual where it has none that others see, too."""
        if not isinstance(x, np.ndarray) or (file := _file_behind(x)) is None:
            return NotImplemented
        first = file.offset + x.ctypes.data - file.ctypes.data
        return _mapped_part, (os.fspath(file.filename), first, x.dtype, x.shape, x.strides)


def _file_behind(x):
    """The map of a whole file that an array is a part of, None where there is none, or others do not see the same."""
    if x.dtype.hasobject or not x.size or min(x.strides, default=0) < 0:
        return None
    whole: Any = None
    while x is not None:
        whole = x if isinstance(x, np.memmap) and x.filename is not None and x.mode != "c" else whole
        x = x.base if isinstance(x.base, np.ndarray) else None
    return whole if whole is not None and os.path.exists(whole.filename) else None


def _mapped_part(path, offset, dtype, shape, strides):
    span = dtype.itemsize + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    return np.ndarray(shape, dtype, np.memmap(path, np.uint8, "r", offset, (span,)), 0, strides)


def _bytes_of(x, goes_along):
    content = io.BytesIO()
    _Pickler(content, protocol=5, buffer_callback=goes_along).dump(x)
    return content.getvalue()


def _new_file(folder):
    return os.path.join(folder, uuid4().hex)


def _place():
    """Where files are best, None for the usual place of temporary ones; joblib's own rule."""
    told = os.environ.get("JOBLIB_TEMP_FOLDER")
    if told is not None or not os.access(_SHARED_MEMORY, os.W_OK):
        return told
    there = os.statvfs(_SHARED_MEMORY)
    return _SHARED_MEMORY if there.f_bsize * there.f_bavail > _ENOUGH else None


def done_there(parcel, folder):
    """A parcel with the result of the call that another one holds."""
    function, arguments = parcel.opened()
    arguments = [each.mapped() if isinstance(each, Placed) else each for each in arguments]
    return packed(function(*arguments), folder)
