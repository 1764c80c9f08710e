"""Faults that begin with a jump: one unit is surprised beyond all that is nominal, and before any other is.

Nothing spreads to another unit's state faster than in one step, while what a large fault drives the plant
to, where no model was learned, surprises everywhere. So the row in which a jump begins says more of its root
than all that follow. A fault that grows is not told by the unit that happens to pass its limit first, and is
left to the windows. Where rows are so far apart that units share much of their innovations in nominal
operation, a fault may show in several within one row, and nothing is said of those that do.
"""

from dataclasses import dataclass, replace

import numpy as np

_BEFORE, _AFTER = 2, 10  # rows around the alarm in which a jump may begin
_MARGIN = float(
    np.log(2)
)  # by how much it is beyond the largest nominal surprise, and beyond all other units
_ROOT = 0.98  # share of jumps that begin in the root
_SHARED = 0.15  # of the innovations, from which on a fault may reach other units within a row


@dataclass(frozen=True)
class Jumps:
    """What a jump is, and what it says.

    Attributes
    ----------
    largest : ndarray of shape (n_units,)
        Largest nominal log evidence of each unit in one row.
    prior : ndarray of shape (n_units,)
    alone : bool
        Whether a jump is one only if no other unit passes its limit in the same row.
    """

    largest: np.ndarray
    prior: np.ndarray
    alone: bool

    @classmethod
    def learn(cls, given, usual, prior, shared):
        """From nominal surprises given the other units, in stretches, and their mean.

        Parameters
        ----------
        given : sequence of ndarray of shape (n_rows, n_units)
        usual, prior : ndarray of shape (n_units,)
        shared : ndarray of shape (n_units,)
            Share of a unit's innovations that those of the others in the same step explain.
        """
        largest = np.max([part.max(axis=0) for part in given], axis=0)
        return cls(np.log1p(largest / usual), prior, bool(np.mean(shared) > _SHARED))

    def revised(self, answer, rows, first, detected, stop):
        """The answer to an incident once the jump it may begin with is heard.

        Parameters
        ----------
        answer : Answer
        rows : dict of str to ndarray
            Series from row `first` on, of which "evidence" is looked at.
        first, detected, stop : int
            First row there is, row of the alarm, row after the last to look at.

        Returns
        -------
        Answer
        """
        begin = max(detected - _BEFORE, first)
        found = self._first(rows["evidence"][begin - first : min(detected + _AFTER, stop) - first])
        if found is None:
            return answer
        row, unit = found
        here, others = _ROOT * self.prior[unit], (1 - _ROOT) * (1 - self.prior[unit])
        if here == 0.0:
            return answer
        share = here / (here + others / max(len(self.prior) - 1, 1))
        probability = (1 - share) * answer.probability
        probability[unit] += share
        return replace(answer, probability=probability, start=min(begin + row, detected))

    def _first(self, evidence):
        """Row and unit of the jump in a stretch, None if the first to pass its limits did not jump."""
        beyond = evidence - self.largest
        rows = np.flatnonzero((beyond > 0).any(axis=1))
        if not len(rows):
            return None
        there = beyond[rows[0]]
        unit = int(there.argmax())
        others = np.delete(there, unit).max(initial=0.0)
        if self.alone and others > 0:
            return None
        return (int(rows[0]), unit) if there[unit] >= others + _MARGIN else None
