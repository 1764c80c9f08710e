"""Series as arrays of packets, and reading of packets.

What is read are arrays of the expected name, kind and shape, and scalars, with content that can be meant.
"""

import numpy as np

from ..statespace.rounding import are_covariances, packed_products, scaled_columns, unpacked_triangles
from .codes import unstepped
from .packet import PacketError


def series_arrays(name, values, dtype):
    """Arrays of a series: as it is, or rounded and with the scale of each column; see :meth:`Fields.series`.

    Parameters
    ----------
    name : str
    values : ndarray of shape (n_samples, k)
    dtype : str
        "float64", "float32" or "float16".

    Returns
    -------
    dict of str to ndarray
    """
    if dtype == "float64":
        return {name: values}
    rounded, scale = scaled_columns(values, dtype)
    return {name: rounded, f"{name}_scale": scale}


class Fields:
    """Arrays and scalars of a packet of a known kind, taken one after the other and checked."""

    def __init__(self, packet, op):
        if packet.op != op:
            raise PacketError(f"Packet {packet.op!r} came in place of {op!r}.")
        self._packet = packet
        self._left = set(packet.arrays)

    def check_all_read(self):
        """Refuse what is not part of this kind of message."""
        if self._left:
            raise PacketError(f"Packet {self._packet.op!r} does not carry arrays {sorted(self._left)}.")

    def whitened(self, name, unscale):
        """Series sent as it is, or whitened and with the matrix that undoes it."""
        value = self._states(name, (None, None))
        scale = self.numbers(unscale, (value.shape[1],) * 2, optional=True)
        return value if scale is None else self._product(name, np.matmul, value, scale)

    def series(self, name, shape=(None, None), *, optional=False, least=1):
        """Series of at least so many columns, sent as it is, or rounded and with the scale of each column."""
        value = self._states(name, shape, optional, least)
        if value is None:
            return None
        scale = self.numbers(f"{name}_scale", value.shape[1:], optional=True)
        return value if scale is None else self._product(name, np.multiply, value, scale)

    def stepped(self, name, n_rows):
        """Series sent in few bits, see :mod:`skfedcausal.message.codes`."""
        level = self.numbers(f"{name}_level", (None,))
        step = self.numbers(f"{name}_step", level.shape)
        codes = self._array(name, (None,), "u", "bits", False)
        beyond = self._array(f"{name}_beyond", (None,), "i", "whole numbers", False)
        if n_rows < 1 or len(level) == 0:
            raise self._error(name, f"has {n_rows} rows of {len(level)} states")
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                return self._finite(name, unstepped(codes.astype(np.uint8), beyond, level, step, n_rows))
        except ValueError as error:
            if isinstance(error, PacketError):
                raise
            raise self._error(name, str(error)) from None

    def _states(self, name, shape, optional=False, least=1):
        value = self.numbers(name, shape, optional=optional)
        if value is not None and value.shape[1] < least:
            raise self._error(name, "has no states")
        return value

    def symmetric(self, name, p, units=None):
        """Positive semidefinite matrices from their packed triangles."""
        size = p * (p + 1) // 2
        packed = self.numbers(name, (None, None))
        if packed.shape[1] != size:
            raise self._error(name, f"has matrices of {packed.shape[1]} elements, expected {size}")
        if units is not None:
            packed = self._product(name, lambda x, u: x * packed_products(u), packed, units)
        return self._covariances(name, unpacked_triangles(packed, p))

    def covariance(self, name, p, *, optional=False):
        """One positive semidefinite matrix, sent whole."""
        value = self.numbers(name, (p, p), optional=optional)
        return None if value is None else self._covariances(name, value[None])[0]

    def numbers(self, name, shape, *, optional=False):
        """Finite real numbers in double precision, laid out the same whatever carried them."""
        value = self._array(name, shape, "f", "real numbers", optional)
        return None if value is None else self._finite(name, np.ascontiguousarray(value, dtype=float))

    def whole(self, name, shape, *, optional=False):
        """Whole numbers."""
        value = self._array(name, shape, "iu", "whole numbers", optional)
        return None if value is None else value.astype(np.intp)

    def count(self, name, least=0):
        """A scalar that is a whole number."""
        value = self._packet.scalars.get(name)
        if type(value) is not int or value < least:
            raise self._scalar_error(name, f"a whole number, at least {least}")
        return value

    def weight(self, name):
        """A scalar that is a real number, not negative."""
        value = self._packet.scalars.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
            raise self._scalar_error(name, "a number, not below zero")
        return float(value)

    def check_scalars(self, *names):
        """Refuse scalars that are not part of this kind of message, and their absence."""
        told = self._packet.scalars
        if set(told) != set(names):
            raise PacketError(
                f"Packet {self._packet.op!r} has the scalars {sorted(told)}, expected {sorted(names)}."
            )

    def _scalar_error(self, name, expected):
        value = self._packet.scalars.get(name)
        return PacketError(
            f"Scalar {name!r} of packet {self._packet.op!r} is {value!r}, expected {expected}."
        )

    def _array(self, name, shape, kinds, meaning, optional):
        if name not in self._packet.arrays:
            if optional:
                return None
            raise PacketError(f"Packet {self._packet.op!r} lacks the array {name!r}.")
        self._left.discard(name)
        value = self._packet.arrays[name]
        if not isinstance(value, np.ndarray):
            raise self._error(name, f"is a {type(value).__name__}, expected an array")
        fits = value.ndim == len(shape) and all(
            k in (None, n) for k, n in zip(shape, value.shape, strict=True)
        )
        if not fits:
            expected = f"{len(shape)} dimensions" if None in shape else shape
            raise self._error(name, f"has shape {value.shape}, expected {expected}")
        if value.dtype.kind not in kinds:
            raise self._error(name, f"has dtype {value.dtype}, expected {meaning}")
        return value

    def _product(self, name, multiply, value, scale):
        """Value with its scaling undone."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._finite(name, multiply(value, scale))

    def _finite(self, name, value):
        if not np.isfinite(value).all():
            raise self._error(name, "has values that are not finite")
        return value

    def _covariances(self, name, matrices):
        if not are_covariances(matrices):
            raise self._error(name, "has a matrix that is not symmetric and positive semidefinite")
        return matrices

    def _error(self, name, problem):
        return PacketError(f"Array {name!r} of packet {self._packet.op!r} {problem}.")
