"""How an export is to be read, where it does not tell itself."""

from typing import Any, NamedTuple


class Dialect(NamedTuple):
    """How an export is to be read; see :func:`read_historian` and :meth:`PlantTable.read`."""

    tz: str | None = None
    dayfirst: bool | None = None
    bad_values: frozenset = frozenset()  # texts in lower case, and numbers
    good: Any = None
    keep_uncertain: bool = False
    drop: tuple = ()  # patterns of columns that are left out of tables
    time: str | None = None  # column of the times of tables, where its name is none of the usual ones
    names: tuple[str, ...] | None = None  # of the columns of a file without a header
    query: str | None = None  # of a database
    hold: Any = None  # how long stored values of an archive hold
    every: Any = None  # step of the table
