"""How an export is to be read, where it does not tell itself."""

from fnmatch import fnmatchcase
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
    columns: tuple | None = None  # patterns of the columns that are read; None for all

    def wants(self, name):
        """Whether a column or tag is read: one of `columns`, where they are given, and none of `drop`; None is."""
        return name is None or ((self.columns is None or _fits(name, self.columns)) and not _fits(name, self.drop))

    def unknown(self, names):
        """Those of `columns` that fit none of the names that there are."""
        return [pattern for pattern in self.columns or () if not any(_fits(name, [pattern]) for name in names)]


def _fits(name, patterns):
    return any(fnmatchcase(str(name).lower(), str(pattern).lower()) for pattern in patterns)
