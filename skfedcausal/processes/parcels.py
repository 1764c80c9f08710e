"""What goes from one process of this machine to another: large arrays as files in memory, the rest as bytes."""

import os
import pickle
import shutil
import tempfile
import weakref
from typing import NamedTuple
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


class Parcel(NamedTuple):
    """An object on its way."""

    content: bytes
    sizes: tuple[int, ...]  # of the arrays in the file
    path: str | None  # None where there are none

    def opened(self):
        """The object, once."""
        if self.path is None:
            return pickle.loads(self.content)
        with open(self.path, "rb") as file:
            os.unlink(self.path)
            buffers = [np.empty(size, np.uint8) for size in self.sizes]
            for buffer in buffers:
                file.readinto(buffer)
        return pickle.loads(self.content, buffers=buffers)


def packed(x, folder):
    """A parcel with an object."""
    large: list[pickle.PickleBuffer] = []

    def goes_along(buffer):
        is_small = buffer.raw().nbytes < _LARGE
        if not is_small:
            large.append(buffer)
        return is_small

    content = pickle.dumps(x, protocol=5, buffer_callback=goes_along)
    if not large:
        return Parcel(content, (), None)
    path, parts = _new_file(folder), [buffer.raw() for buffer in large]
    with open(path, "wb") as file:
        for part in parts:
            file.write(part)
    return Parcel(content, tuple(part.nbytes for part in parts), path)


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
