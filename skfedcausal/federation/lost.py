"""Units that are late, lost or send what cannot be used: what a fit does then."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Literal

from ..arguments import check_choice, check_number


class ClientError(RuntimeError):
    """A client did not answer, or not as it should have, and the fit cannot do without it."""


class LostUnitWarning(UserWarning):
    """A fit went on without some answers of some units."""


@dataclass(frozen=True)
class LostUnits:
    """Rule for lost units: how many a fit can lose, how long it waits, and what it does instead.

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
    max_states : int
        States that a unit may send; one that sends more is left out.
    max_seconds : float
        Seconds that a fit may take because of one unit, which has more than twice as many states as the unit in the
        middle. If the fit ends in time without that unit and not with it, the unit is left out.

    Notes
    -----
    With a rule every message is also judged by its content, alone and before anything joint is computed: its rows
    (those of most units), its sizes, whether somebody asked for its parts, and its series against the precision
    that it names: no state of a record to learn from stands still or is a combination of others. Series that are
    nearly all zero, or move in one row of a hundred, are named in a warning and taken. If a fit then fails all the
    same, or finds a plant that more than doubles with every row, it is tried without each of the units, the oddest
    first. A unit that is found to be the reason counts as lost, and ``lost_units_`` says why. In a question about a
    record such a message is an error that names the unit. One that does not come in time is one, too, but where the
    answer is a likelihood or the states of the plant (`score`, `score_samples`, `transform`): there the late unit
    is left out, as if it had measured nothing, and a warning names it.

    For :class:`~skfedcausal.LikelihoodServer` lost answers are missing data. A unit that never sent a message
    is not part of the plant: the estimate is the maximum of the likelihood of the others' measurements. One
    that is lost in a later round keeps its message, which stays true. One that does not take its reply has an
    estimate at the server and no augmenter in the unit.

    Examples
    --------
    >>> from skfedcausal.federation import LostUnits
    >>> LostUnits(quorum=0.75, timeout=60.0).needed(10)
    8
    """

    quorum: int | float = 0.5
    timeout: float | None = None
    stale: Literal["hold", "skip"] = "hold"
    max_states: int = 16
    max_seconds: float = 8.0

    def __post_init__(self):
        whole = isinstance(self.quorum, Integral) and not isinstance(self.quorum, bool)
        share = isinstance(self.quorum, Real) and not isinstance(self.quorum, Integral)
        if not ((whole and self.quorum >= 1) or (share and 0 < self.quorum <= 1)):
            raise ValueError(f"quorum={self.quorum!r}; give a number of units, or a share above 0 and up to 1.")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"timeout={self.timeout!r}; give seconds above 0, or None.")
        check_choice("stale", self.stale, ("hold", "skip"))
        check_number(self.max_states, "max_states")
        if not isinstance(self.max_seconds, Real) or not self.max_seconds > 0:
            raise ValueError(f"max_seconds={self.max_seconds!r}; give seconds above 0.")

    def needed(self, n_units: int) -> int:
        """Units of `n_units` that have to answer.

        Parameters
        ----------
        n_units : int

        Returns
        -------
        int
        """
        return int(self.quorum if isinstance(self.quorum, Integral) else -(-self.quorum * n_units // 1))


class Answers(dict):
    """Messages of a round by unit; `skipped` names the units whose block rows rest in it.

    With a `rule` for lost units, ``leave_out(name, reason, error)`` says that a message cannot be used after all, and
    ``then(server, messages)`` learns what else rests on them.
    """

    skipped: frozenset[str] = frozenset()
    rule: LostUnits | None = None
    leave_out: Callable[..., Any] | None = None
    then: Callable[..., Any] | None = None
    earlier: Mapping[str, Any] = MappingProxyType({})
    packets: Mapping[str, Any] = MappingProxyType({})  # what the units were asked with

    def followed_by(self, newer):
        """These answers with newer ones in the place of theirs, which stay for units whose newer one is of no use."""
        found = Answers({**self, **newer})
        found.skipped, found.rule, found.then = self.skipped, self.rule, self.then
        found.earlier = {name: self[name] for name in newer}

        def leave_out(name, reason, error):
            tell: Any = (newer if name in newer else self).leave_out
            tell(name, reason, error)

        found.leave_out = leave_out
        return found
