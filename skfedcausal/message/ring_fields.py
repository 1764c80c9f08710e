"""Kinds of fields of secure sums: elements of a ring, bytes and counts."""

import numpy as np

from .fields import Numbers, Whole


class Ring(Numbers):
    """Whole numbers modulo 2^64."""

    def write(self, message, value, dtype, into):
        into[self.array] = np.ascontiguousarray(value).view(np.int64)

    def read(self, left, sizes, values):
        value = np.ascontiguousarray(self.taken(left, sizes, kinds="i"))
        if value.dtype != np.int64:
            raise self.error(f"has dtype {value.dtype}, expected int64")
        values[self.name] = value.view(np.uint64)


class Octets(Numbers):
    """Bytes, as many in each row."""

    def write(self, message, value, dtype, into):
        into[self.array] = np.asarray(value, dtype=np.uint8)

    def read(self, left, sizes, values):
        value = self.taken(left, sizes, kinds="u")
        if value.dtype != np.uint8:
            raise self.error(f"has dtype {value.dtype}, expected uint8")
        values[self.name] = value


class Counts(Whole):
    """Whole numbers, each at least one."""

    def write(self, message, value, dtype, into):
        into[self.array] = np.asarray(value, dtype=np.int64)

    def read(self, left, sizes, values):
        value = self.taken(left, sizes, kinds="iu").astype(np.int64)
        if not (value >= 1).all():
            raise self.error("has numbers below one")
        values[self.name] = value
