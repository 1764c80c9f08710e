"""How far an answer may be from the stored one.

Three classes. *Bits*: answers by another way (at sites, in threads, over files) have every bit of those of the fit in
the same run; these are not stored, since bits depend on the processor. *1e-9* of the scale of their array are all
others, p values by their logarithms, unless `WIDER` says more and why. *May move*: answers in `MAY_MOVE` may differ,
and are judged by the truth of their simulated record instead.
"""

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import NamedTuple

TOLERANCE = 1e-9


class Wider(NamedTuple):
    """A tolerance of its own for the leaves that a pattern names, as ``answer: path``."""

    pattern: str
    tolerance: float
    why: str


class MayMove(NamedTuple):
    """An answer that may differ, as long as what it says is true of the record."""

    pattern: str
    is_true: Callable
    why: str


WIDER: tuple[Wider, ...] = ()
MAY_MOVE: tuple[MayMove, ...] = ()


def tolerance_of(answer):
    """The tolerance of an answer's leaves, as a function of their paths."""

    def allowed(path):
        name = f"{answer}: {path}"
        return max([TOLERANCE, *(wider.tolerance for wider in WIDER if fnmatchcase(name, wider.pattern))])

    return allowed
