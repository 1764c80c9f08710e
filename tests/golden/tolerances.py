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


# Measured with the kernels of OpenBLAS for SkylakeX, Haswell and Zen; each is about ten times the largest difference.
WIDER: tuple[Wider, ...] = (
    Wider("*bytes*", 2e-2, "packets are compressed, and how far depends on the last digits of what they hold"),
    Wider("level shifts: *", 3e-4, "a step of sensors is a state of hardly any noise, which many values fit alike"),
    Wider("states that are told: *statistic", 1e-4, "a check of a state that the record hardly tells from noise"),
    Wider("more states than sensors: *", 3e-4, "strengths of links of states that two sensors tell together"),
    Wider("extended filters: *", 2e-6, "p values of misfit where the maps are given and fit no unit"),
    Wider("inputs through a spline: *", 1e-6, "columns of a spline are nearly linear combinations of each other"),
    Wider("effects in a closed loop: *", 3e-7, "what a controller did and what the plant did are told apart by little"),
    Wider("independent flips: *", 1e-7, "expectation maximisation with one state more than the record tells"),
    Wider("private gradients: *", 1e-7, "Geweke's measure of links that are noise"),
    Wider("inputs of several units*", 1e-7, "two sensors of one state: its noise is told by their difference"),
    Wider("a unit with inputs that is lost: *", 3e-8, "the search stops at the same likelihood, not the same digits"),
    Wider("watching with gaps: *", 3e-8, "a fixed number of steps of expectation maximisation over filled gaps"),
    Wider("links: to_networkx: *.geweke", 1e-4, "Geweke's measures one by one, of links that are noise: 7e-11"),
    Wider("34 units with gaps: *", 2e-8, "300 rows: the search stops at the same likelihood, not the same digits"),
    Wider("extended filters with bends: *.same_row", 2e-8, "shares of news, of states from a filter without a model"),
    Wider("33 watched units: *", 5e-7, "700 rows: the search stops at the same likelihood, not the same digits"),
    Wider("33 units with inputs: *", 1e-7, "600 rows: the search stops at the same likelihood, not the same digits"),
    Wider("a stream with gaps: *.ranking*", 4e-5, "differences of likelihoods of many units, some thousand each"),
    Wider("units watched in blocks: *", 6e-7, "a fixed number of steps, which end before the likelihood is largest"),
    Wider("shifts in blocks with gaps: *", 1e-6, "steps of expectation maximisation over filled gaps"),
    Wider("reach through a function: *", 2e-8, "the search stops at the same likelihood, not the same digits"),
    Wider("effects, other ways: *", 1e-8, "400 rows: the search stops at the same likelihood, not the same digits"),
)
MAY_MOVE: tuple[MayMove, ...] = ()  # none so far


def tolerance_of(answer):
    """The tolerance of an answer's leaves, as a function of their paths."""

    def allowed(path):
        name = f"{answer}: {path}"
        return max([TOLERANCE, *(wider.tolerance for wider in WIDER if fnmatchcase(name, wider.pattern))])

    return allowed
