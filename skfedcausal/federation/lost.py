"""Units that are late, lost or send what cannot be used: what a fit does then."""

import logging
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal

_LOG = logging.getLogger(__name__)


class ClientError(RuntimeError):
    """A client did not answer, or not as it should have, and the fit cannot do without it."""


class LostUnitWarning(UserWarning):
    """A fit went on without some answers of some units."""


@dataclass(frozen=True)
class LostUnits:
    """How many units a fit can lose, how long it waits, and what it does instead of an answer.

    Attributes
    ----------
    quorum : int or float
        Units that have to answer in every round: a number, or a share above 0 and up to 1. A fit that gets
        fewer ends with a :class:`~skfedcausal.federation.ClientError`.
    timeout : float or None
        Seconds to wait for the answers of a round; None leaves it to the transport.
    stale : {"hold", "skip"}
        What gradient training does about a unit that does not answer in a round: "hold" goes on with what
        it said last, "skip" also lets the unit's own block row rest until it is back.

    Notes
    -----
    For :class:`~skfedcausal.LikelihoodServer` lost answers are missing data. A unit that never sent a message
    is not part of the plant: the estimate is the maximum of the likelihood of the others' measurements. One
    that is lost in a later round keeps its message, which stays true. One that does not take its reply has an
    estimate at the server and no augmenter at home.

    Examples
    --------
    >>> from skfedcausal.federation import LostUnits
    >>> LostUnits(quorum=0.75, timeout=60.0).needed(10)
    8
    """

    quorum: int | float = 0.5
    timeout: float | None = None
    stale: Literal["hold", "skip"] = "hold"

    def __post_init__(self):
        whole = isinstance(self.quorum, Integral) and not isinstance(self.quorum, bool)
        share = isinstance(self.quorum, Real) and not isinstance(self.quorum, Integral)
        if not ((whole and self.quorum >= 1) or (share and 0 < self.quorum <= 1)):
            raise ValueError(
                f"quorum={self.quorum!r}; give a number of units, or a share above 0 and up to 1."
            )
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"timeout={self.timeout!r}; give seconds above 0, or None.")
        if self.stale not in ("hold", "skip"):
            raise ValueError(f"stale={self.stale!r}; choose 'hold' or 'skip'.")

    def needed(self, n_units):
        """Units of `n_units` that have to answer.

        Parameters
        ----------
        n_units : int

        Returns
        -------
        int
        """
        if isinstance(self.quorum, Integral):
            return int(self.quorum)
        return int(-(-self.quorum * n_units // 1))


class Attendance:
    """Who answered in a fit, and whether those are enough."""

    def __init__(self, names, rule=None):
        self._names, self.rule = tuple(names), rule
        self.lost, self._dropped = [], set()

    @property
    def timeout(self):
        """Seconds to wait for a round, None where the transport knows."""
        return None if self.rule is None else self.rule.timeout

    def drop_all_but(self, names):
        """The fit goes on without all but these units."""
        self._dropped = set(self._names) - set(names)

    def note(self, packets, problems, needed=None):
        """Take note of a round."""
        if not problems:
            return
        text = "\n".join(f"Client {name!r} {problem}" for name, problem in problems.items())
        if self.rule is None:
            raise ClientError(text)
        there = len(self._names) - len(self._dropped | set(problems))
        needed = self.rule.needed(len(self._names)) if needed is None else needed
        if there < needed:
            raise ClientError(
                f"{text}\n{there} of {len(self._names)} units are there; the quorum is {needed}."
            )
        for name, problem in problems.items():
            packet = packets[name]
            _LOG.warning("Without unit %r in round %d (%s): it %s", name, packet.round, packet.op, problem)
            self.lost.append((name, packet.round, packet.op, problem))


class Answers(dict):
    """Messages of a round by unit; `skipped` names the units whose block rows rest in it."""

    skipped = frozenset()
