"""What goes from one process of this machine to another: large arrays as files in memory, the rest as bytes."""

import errno
import io
import mmap
import os
import pickle
import shutil
import tempfile
import weakref
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from joblib.externals.loky.backend import resource_tracker

_LARGE = 2**12  # bytes of an array, from which on a file is quicker
_SHARED_MEMORY, _ENOUGH = "/dev/shm", 2**31  # where files cost no disk, and bytes that have to be free there
_TRIES = 10  # at deleting a folder


class Folder:
    """A folder for what is on its way; who opens a parcel deletes its file, joblib's tracker what a crash leaves."""

    def __init__(self, place=None):
        self.path = tempfile.mkdtemp(prefix="skfedcausal-", dir=_place() if place is None else place)
        resource_tracker.register(self.path, "folder")
        self._remove = weakref.finalize(self, _delete, self.path)

    def place(self, x):
        """An array as a file that every process may map."""
        return Placed(_written([np.ascontiguousarray(x).data], self.path), x.dtype, x.shape)

    def remove(self):
        """Delete it."""
        self._remove()


def _delete(folder):
    for _ in range(_TRIES):  # a process may be writing still
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            break
    resource_tracker.unregister(folder, "folder")


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

    def opened(self):
        """The object, once."""
        if self.path is None:
            return pickle.loads(self.content)
        with open(self.path, "rb") as file:
            (n_parts,) = np.frombuffer(file.read(8), np.int64)
            content, *arrays = [np.empty(size, np.uint8) for size in np.frombuffer(file.read(8 * n_parts), np.int64)]
            for part in (content, *arrays):
                file.readinto(part.data)
        os.unlink(self.path)
        return pickle.loads(content.data, buffers=arrays)


def packed(x, folder):
    """A parcel with an object: bytes that say where arrays belong, and the large ones behind them."""
    large: list[pickle.PickleBuffer] = []

    def goes_along(buffer):
        is_small = buffer.raw().nbytes < _LARGE
        if not is_small:
            large.append(buffer)
        return is_small

    whole = io.BytesIO()
    _Pickler(whole, folder, goes_along).dump(x)
    content = whole.getbuffer()
    if not large and len(content) < _LARGE:
        return Parcel(bytes(content))
    parts = [content, *(buffer.raw() for buffer in large)]
    head = np.array([len(parts), *(part.nbytes for part in parts)])
    return Parcel(b"", _written([head.data, *parts], folder))


class _Pickler(pickle.Pickler):
    """A pickler that names files which are mapped already: records larger than memory are some."""

    def __init__(self, file, folder, goes_along):
        super().__init__(file, protocol=5, buffer_callback=goes_along)
        self._folder = folder

    def reducer_override(self, x):
        """How an array is made anew from its file; as usual where it has none that others see, too, and keep."""
        if type(x) not in (np.ndarray, np.memmap) or (file := _file_behind(x)) is None:
            return NotImplemented
        if os.path.dirname(file.filename) == self._folder:
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
    return whole if whole is not None and _is_there_still(whole) else None


def _is_there_still(whole):
    """Whether a file is the one that was mapped: somebody may have deleted it, or put another in its place."""
    pages, begins = whole.base, whole.offset - whole.offset % mmap.ALLOCATIONGRANULARITY
    if not isinstance(pages, mmap.mmap):
        return False
    try:
        with open(whole.filename, "rb") as file:
            file.seek(begins)
            first = file.read(min(_LARGE, len(pages)))
            file.seek(begins + len(pages) - len(first))
            return first == pages[: len(first)] and file.read(len(first)) == pages[-len(first) :]
    except OSError:
        return False


def _mapped_part(path, offset, dtype, shape, strides):
    span = dtype.itemsize + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    return np.ndarray(shape, dtype, np.memmap(path, np.uint8, "r", offset, (span,)), 0, strides)


def _written(parts, folder):
    """A new file with some bytes; none where there is no room for them."""
    path = os.path.join(folder, uuid4().hex)
    try:
        with open(path, "wb") as file:
            for part in parts:
                file.write(part)
    except OSError as error:
        with suppress(FileNotFoundError):
            os.unlink(path)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise OSError(
            error.errno,
            f"There is no room in {folder} for arrays that go to other processes. Name a folder with more by "
            "JOBLIB_TEMP_FOLDER, or fit with n_jobs=1",
        ) from error
    return path


def _place():
    """Where files are best, None for the usual place of temporary ones; joblib's own rule."""
    if (told := os.environ.get("JOBLIB_TEMP_FOLDER")) is not None:
        told = os.path.abspath(os.path.expanduser(told))
        os.makedirs(told, exist_ok=True)
        return told
    if not os.access(_SHARED_MEMORY, os.W_OK):
        return None
    there = os.statvfs(_SHARED_MEMORY)
    return _SHARED_MEMORY if there.f_bsize * there.f_bavail > _ENOUGH else None


def done_there(parcel, folder):
    """A parcel with the result of the call that another one holds."""
    function, arguments = parcel.opened()
    arguments = [each.mapped() if isinstance(each, Placed) else each for each in arguments]
    return packed(function(*arguments), folder)
