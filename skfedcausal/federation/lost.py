"""Units that are late, lost or send what cannot be used: what a fit does then."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal


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
            raise ValueError(f"quorum={self.quorum!r}; give a number of units, or a share above 0 and up to 1.")
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


class Answers(dict):
    """Messages of a round by unit; `skipped` names the units whose block rows rest in it."""

    skipped: frozenset[str] = frozenset()
