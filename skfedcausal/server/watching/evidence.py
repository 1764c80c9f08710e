"""Rows of evidence, and what revises the answer to an incident from them.

Beside the statistics these are a jump that it begins with, what units notice of their own columns, and single rows that
only a sensor can have made.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .tuning import TUNING

_MARGIN = math.log(2)  # beyond the largest nominal surprise, and beyond all other units

CHANGED, HELD, ALL_HELD = 1, 2, 4  # bits of an event
HOLDING = ("sensor held", "unit held")  # kinds of faults that are there while their unit notices them
LOUD = 2.0  # alarm level over threshold while something is noticed


# -- rows ------------------------------------------------------------------------------------------------


class Evidence(NamedTuple):
    """Consecutive rows of an episode as incidents are judged by them.

    first : position of the first row
    scaled, predicted, states : scaled Kalman innovations, predicted states and states as measured, (n_rows, n)
    surprise : log surprise of each unit on its own over its nominal mean, (n_rows, n_units), like the rest
    given_others : log surprise given the other units' innovations of the same step
    surplus : surprise of the states given the other units, over its nominal mean
    outside : off-subspace numbers over their expectation from the states
    absent : whether the unit is absent
    levels : alarm levels by statistic, (n_rows, n_statistics, n_units)
    events : what the units notice of their own columns, see :mod:`.noticed`
    errors : of the prediction from the last row, beyond those of the operating point, (n_rows, n)
    distance : off-subspace numbers
    unknown : whether inputs are where the plant is not known, (n_rows,), 2 where it has to be learned
    mode : place of the mode that inputs tell, (n_rows,), -1 for none
    beyond : how far inputs are beyond their ranges in the nominal record, (n_rows,)
    unsure : variance of what curves of the states are wrong by, over that of the news of each unit, (n_rows, n_units)
    rare : return periods of what lasts, (n_rows, n_kinds, n_units), see :mod:`.slow`; of no kind where none is learned
    """

    first: int
    scaled: np.ndarray
    predicted: np.ndarray
    states: np.ndarray
    surprise: np.ndarray
    given_others: np.ndarray
    surplus: np.ndarray
    outside: np.ndarray
    absent: np.ndarray
    levels: np.ndarray
    events: np.ndarray
    errors: np.ndarray
    distance: np.ndarray
    unknown: np.ndarray
    mode: np.ndarray
    beyond: np.ndarray
    unsure: np.ndarray
    rare: np.ndarray

    @property
    def stop(self):
        """Position after the last row."""
        return self.first + len(self.scaled)

    def between(self, start, stop):
        """The rows of these positions."""
        rows = slice(start - self.first, stop - self.first)
        return Evidence(start, *(series[rows] for series in self[1:]))

    def followed_by(self, *later):
        """These rows and later ones together."""
        parts = [part[1:] for part in (self, *later)]
        return Evidence(self.first, *map(np.concatenate, zip(*parts, strict=True)))

    def known(self, unit):
        """Share of the variance of a unit's news in these rows that is no error of curves beyond what was seen."""
        return float((1 / (1 + self.unsure[:, unit])).mean())

    def of_units(self, units, states, weight):
        """The rows of some units and their states alone, scaled by what errors of these weigh, (n, n)."""
        by_state, by_unit = ("errors", "predicted", "states", "scaled"), dict.fromkeys(_BY_UNIT, units)
        series = zip(self._fields[1:], self[1:], strict=True)
        places = by_unit | dict.fromkeys(by_state, states)
        part = {name: rows[..., places[name]] if name in places else rows for name, rows in series}
        return Evidence(self.first, **part | {"scaled": part["errors"] @ weight})


_BY_UNIT = (
    "surprise",
    "given_others",
    "surplus",
    "outside",
    "absent",
    "levels",
    "events",
    "distance",
    "unsure",
    "rare",
)


# -- jumps -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnsetRule:
    """Faults that begin with a jump: one unit is surprised beyond the nominal range before any other is.

    Nothing spreads faster than in one step, while the states a large fault drives the plant to surprise
    everywhere: the row in which a jump begins says more of its root than all that follow. Faults that grow are
    left to the windows, and so are jumps in several units at once where units share much of their innovations.

    largest : largest nominal log surprise of each unit given the others in one row, (n_units,)
    prior : prior probability of each unit being the root, (n_units,)
    alone : whether a jump is one only if no other unit passes its limit in the same row
    """

    largest: np.ndarray
    prior: np.ndarray
    alone: bool

    @classmethod
    def learn(cls, given, usual, prior, shared):
        """From nominal surprises given the other units, by segment, their mean, and shared innovations."""
        largest = np.max([part.max(axis=0) for part in given], axis=0)
        return cls(np.log1p(largest / usual), prior, bool(np.mean(shared) > TUNING.evidence_shared))

    def revised(self, answer, rows, detected):
        """The answer to an incident given the jump that it may begin with, from the rows around its alarm."""
        rows = rows.between(
            max(detected - TUNING.evidence_before, rows.first), min(detected + TUNING.evidence_after, rows.stop)
        )
        found = self._jump(rows.given_others)
        if found is None or self.prior[found[1]] == 0.0:
            return answer
        row, unit = found
        root = TUNING.evidence_root if unit == answer.probability.argmax() else TUNING.evidence_against
        here, others = root * self.prior[unit], (1 - root) * (1 - self.prior[unit])
        share = here / (here + others / max(len(self.prior) - 1, 1))
        probability = (1 - share) * answer.probability
        probability[unit] += share
        return replace(answer, probability=probability, start=min(rows.first + row, detected))

    def _jump(self, surprise):
        """Row and unit of the jump in some rows, None if the first to pass its limits did not jump."""
        beyond = surprise - self.largest
        rows = np.flatnonzero((beyond > 0).any(axis=1))
        if not len(rows):
            return None
        there = beyond[rows[0]]
        unit = int(there.argmax())
        others = np.delete(there, unit).max(initial=0.0)
        jumped = there[unit] >= others + _MARGIN and not (self.alone and others > 0)
        return (int(rows[0]), unit) if jumped else None


# -- what units notice -----------------------------------------------------------------------------------


def event_codes(messages, names, n_samples):
    """What every unit notices in every row as a sum of bits, shape (n_samples, n_units)."""
    codes = np.zeros((n_samples, len(names)), dtype=np.uint8)
    for m, name in enumerate(names):
        events = messages[name].events
        if events is not None:
            codes[:, m] = events @ np.array([CHANGED, HELD, ALL_HELD], dtype=np.uint8)
    return codes


def event_ages(codes, before):
    """For how many rows each unit has been noticing something, shape of `codes`; `before`: (n_units,)."""
    if not codes.any():
        return np.zeros(codes.shape, dtype=int)
    rows = np.arange(1, len(codes) + 1)[:, None]
    quiet = np.maximum.accumulate(np.where(codes > 0, 0, rows), axis=0)
    return np.where(codes > 0, rows - quiet + np.where(quiet == 0, before, 0), 0)


def revised(answer, rows, detected, prior):
    """The answer to an incident given what units notice, and the kind that follows.

    Those that notice something first are likely roots, the earlier the more.
    """
    there = rows.events > 0
    if not there.any():
        return answer, ""
    first = np.where(there.any(axis=0), there.argmax(axis=0), len(there))
    begins = int(first.min())
    weights = prior * np.exp(-TUNING.evidence_fades * np.minimum(first - begins, 50)) * (first < len(there))
    if not weights.any():
        return answer, ""
    codes = np.bitwise_or.reduce(rows.events[:, first == begins].ravel())
    late = rows.first + begins > detected + TUNING.evidence_soon and not codes & (HELD | ALL_HELD)
    sure = TUNING.evidence_late if late else TUNING.evidence_sure
    probability = (1 - sure) * answer.probability + sure * weights / weights.sum()
    start = min(answer.start, rows.first + begins) if late else min(rows.first + begins, detected)
    return replace(answer, probability=probability, start=start), "" if late else kind_of(int(codes))


def kind_of(code):
    """Kind of fault that an event tells of."""
    if code & ALL_HELD:
        return "unit held"
    return "sensor held" if code & HELD else "status"


# -- single rows that only a sensor can have made --------------------------------------------------------


def is_glitch(surprise, outside):
    """Whether what is unusual about a unit is one row of a wrong measurement.

    `surprise`, over the usual one of nominal rows, and `outside`, the same of what sensors show beside the states, are
    those of the rows from the onset on, (n_rows,). A disturbance of the process stays in the unit's states; a wrong
    value is gone in the next row, which is a second surprise, and the other sensors of its row contradict it.
    """
    above = np.maximum(surprise - 1.0, 0.0)
    top = int(above.argmax())
    event = above[top : top + 2].sum()
    rest = surprise.sum() - len(surprise) - event
    if surprise[top] < TUNING.evidence_loud or rest > max(
        TUNING.evidence_rest * event, TUNING.evidence_scatter * np.sqrt(len(surprise))
    ):
        return False
    back = above[top + 1] if top + 1 < len(above) else 0.0
    return bool(outside[top] > TUNING.evidence_apart or back > TUNING.evidence_loud)
