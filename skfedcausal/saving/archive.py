"""The file itself: a zip of ``model.json`` and flat arrays, which nothing executes, and what may be wrong with it."""

import io
import json
import struct
import zipfile
import zlib
from pathlib import Path

from numpy.lib import format as npy

from ..federation.atomic import write_whole

# What is wrong with a file, or with what was to be saved.


class ModelFileError(ValueError):
    """A file that cannot be read, or a value that cannot stand in one; the message says which and what to do.

    Examples
    --------
    >>> from skfedcausal.saving import ModelFileError
    >>> issubclass(ModelFileError, ValueError)
    True
    """


# The file itself: a zip of ``model.json`` and one flat array for every type of numbers, which nothing executes.

TEXT = "model.json"
NUMBERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
           "float64", "complex64", "complex128")  # fmt: skip
_DATE = (1980, 1, 1, 0, 0, 0)  # of all members: the same model gives the same bytes


def write_archive(path, document, numbers, compress=True):
    """Write a document and flat arrays by the names of their types; the file is whole or not there."""
    packed = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    text = json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as file:
        file.writestr(zipfile.ZipInfo(TEXT, _DATE), text, packed)
        for name, values in numbers.items():
            member = io.BytesIO()
            npy.write_array(member, values.astype(values.dtype.newbyteorder("<")), allow_pickle=False)
            file.writestr(zipfile.ZipInfo(f"{name}.npy", _DATE), member.getvalue(), packed)
    write_whole(path, whole.getvalue())


def read_archive(path, max_bytes):
    """The document and the flat arrays of a file that is no larger, unpacked, than `max_bytes`."""
    try:
        with zipfile.ZipFile(path) as file:
            _check_members(path, file.infolist(), max_bytes)
            document = json.loads(file.read(TEXT))
            members = (name for name in file.namelist() if name != TEXT)
            return document, {name.removesuffix(".npy"): _flat(name, file.read(name)) for name in members}
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, RuntimeError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(
            f"{path} is no model file, or is damaged ({error}); give one that `save` wrote."
        ) from error


def _check_members(path, members, max_bytes):
    """Refuse what a model file does not have before anything of it is unpacked."""
    known = {TEXT, *(f"{name}.npy" for name in NUMBERS)}
    names = [member.filename for member in members]
    if TEXT not in names or len(set(names)) < len(names) or not set(names) <= known:
        raise ModelFileError(
            f"{Path(path)} is no model file: it holds {sorted(names)[:5]}, expected {TEXT} and one array of each type."
        )
    size = sum(member.file_size for member in members)
    if size > max_bytes:
        raise ModelFileError(
            f"{path} unpacks to {size} bytes, more than max_bytes={max_bytes}; where you trust it, give load(path, "
            f"max_bytes={size})."
        )


def _flat(name, data):
    """A flat array of the type that its member is named after."""
    values = npy.read_array(io.BytesIO(data), allow_pickle=False)
    if values.ndim != 1 or f"{values.dtype.name}.npy" != name:
        raise ValueError(f"{name} holds an array of {values.ndim} axes of {values.dtype}")
    return values
