"""Any value as a table of nodes, and back: objects that are shared or in circles stay so.

A value is a literal of JSON (None, a truth value, a whole or a finite number, a text) or ``[k]``, the k-th node. A node
is a dict that names its ``kind``; :mod:`.kinds` lists them. Numbers of arrays stand in flat arrays, one for each type,
of which a node names its part.
"""

from collections.abc import Callable
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from .archive import ModelFileError

_LITERALS = {type(None), bool, int, str}


class Kind(NamedTuple):
    """How values of one type stand in a file.

    `write(value, writer)` gives the fields of a node, `make(node, reader)` the value of one, and where that may hold
    itself, `fill(value, node, reader)` puts in what it holds.
    """

    name: str
    write: Callable
    make: Callable
    fill: Callable | None = None


class Writer:
    """Nodes and numbers of what is to be saved.

    `kind_of(value)` tells its :class:`Kind`, or None, and `why_not(value)` then why it cannot stand in a file.
    """

    def __init__(self, kind_of, why_not):
        self._kind_of, self._why_not = kind_of, why_not
        self.nodes: list[dict | None] = []
        self._known: dict[int, tuple] = {}  # number of the node of each value, which is held as long
        self._chunks: dict[str, list] = {}
        self._sizes: dict[str, int] = {}
        self._path: list[str] = []

    def value(self, value, name=""):
        """A value as it stands in a node; `name` is what it is called in the one that holds it."""
        if type(value) in _LITERALS or (type(value) is float and isfinite(value)):
            return value
        if id(value) in self._known:
            return [self._known[id(value)][0]]
        self._path.append(name)
        kind = self._kind_of(value)
        if kind is None:
            self.refuse(self._why_not(value))
        number = len(self.nodes)
        self._known[id(value)] = number, value
        self.nodes.append(None)
        node = {"kind": kind.name, **kind.write(value, self)}
        self.nodes[number] = node
        self._path.pop()
        return [number]

    def refuse(self, why):
        """Refuse the value that is being written."""
        raise ModelFileError(f"{''.join(self._path)} is {why}")

    def take_in(self, flat):
        """Take in a flat array; where its numbers begin among those of its type."""
        name = flat.dtype.name
        start = self._sizes.get(name, 0)
        self._chunks.setdefault(name, []).append(flat)
        self._sizes[name] = start + len(flat)
        return start

    @property
    def numbers(self):
        """All numbers by the names of their types."""
        return {name: np.concatenate(chunks) for name, chunks in self._chunks.items()}


class Reader:
    """Values of nodes; `kinds` by their names."""

    def __init__(self, nodes, numbers, kinds):
        self._nodes, self._numbers, self._kinds = nodes, numbers, kinds
        self._made: dict[int, Any] = {}
        self._begun: set[int] = set()

    def value(self, written):
        """The value of a literal or a node."""
        if type(written) in _LITERALS or type(written) is float:
            return written
        if type(written) is not list or len(written) != 1 or type(written[0]) is not int:
            raise ValueError(f"{str(written)[:40]} stands where a value or the number of a node was expected")
        return self._node(written[0])

    def values(self, written):
        """A list of values."""
        if type(written) is not list:
            raise ValueError(f"{str(written)[:40]} stands where a list was expected")
        return [self.value(one) for one in written]

    def _node(self, number):
        if number in self._made:
            return self._made[number]
        if number in self._begun or not 0 <= number < len(self._nodes):
            raise ValueError(f"node {number} is not there, or holds itself")
        self._begun.add(number)
        node = self._nodes[number]
        kind = self._kinds[node["kind"]]
        made = self._made[number] = kind.make(node, self)
        if kind.fill is not None:
            kind.fill(made, node, self)
        return made

    def take_out(self, dtype, start, size):
        """Numbers of one type from one place on."""
        flat = self._numbers[dtype]
        if not (type(start) is type(size) is int and 0 <= start <= start + size <= len(flat)):
            raise ValueError(f"numbers {start} to {start + size} of {len(flat)} are not there")
        return flat[start : start + size]
