"""Further rounds of a fit: expectation maximisation of the whole model, the units' sensors included.

In every round the server smooths the states with the plant it has, the units re-estimate loadings, noise and
level from theirs and send their messages again, and the server climbs to the best plant of the same structure.
Which units act on each other is looked for before the rounds and, with the last messages, after them.

What the units maximise takes all that states leave of the measurements for sensor noise. They may know better,
so rounds end when the density that they report no longer rises.
"""

import numpy as np

from ..message.requests import Ask
from ..message.states import StateMessage
from ..statespace.matrices import cap_radius
from .estimation.estimate import estimate_plant
from .estimation.prior import Prior, WithPrior
from .estimation.scoring import MAX_RADIUS, Point, Scoring, ascend
from .estimation.standardised import StandardisedPlant
from .joint import JointRecord
from .plant import smoothed_replies
from .prediction import OperatingPoint, smooth_record

_ROUNDS = 0.5  # share of a budget that is left after a first estimate
_MOST_ROUNDS = 30  # with the first one
_LEAST_GAIN = 0.3  # log-likelihood of the record that a round brings; a few times as much is then left
_CLOSE = 0.1  # log-likelihood that a climb may leave before the last one
_LAST_BIT = 2.0**-16  # of standardised plants between rounds, which would make more of rounding errors each time


def can_go_on(messages):
    """Whether the plant has no inputs and every unit the same sensors in all rows."""
    record = JointRecord.from_messages(messages)
    return record.u is None and record.is_constant and bool(record.determined.all())


def further_rounds(messages, settings, budget):
    """A generator that asks for messages while the record gets likelier.

    It returns the last messages, how many rounds there were and the estimate before them. A plant whose climb
    did not end takes more work than there is for all: it gets no further rounds. Others get a part of what is
    left of the `budget`, for the last estimate has to come from it too.
    """
    record = JointRecord.from_messages(messages)
    estimate = estimate_plant(record, settings)
    found = _Plant.of(estimate)
    value, number, budget = -np.inf, 1, budget.part(_ROUNDS)
    while number < _MOST_ROUNDS and estimate.climb.converged and not budget.is_spent:
        states, covariances, log_likelihood = found.smoothed(record)
        if number > 1:  # from when on all units say what they keep
            before, value = value, log_likelihood + _rest(messages) * record.n_samples
            if value - before < _LEAST_GAIN:
                break
        replies = smoothed_replies(dict(zip(record.names, record.partition.slices, strict=True)), states, covariances)
        messages, number = messages | (yield Ask(replies, StateMessage)), number + 1
        record = JointRecord.from_messages(messages).at_steps(estimate.steps)
        found = found.climbed(record, budget)
    return messages, number, estimate


def _rest(messages):
    """What the units' measurements say beyond their states, per row, as far as it may change."""
    return sum(message.rest or 0.0 for message in messages.values())


class _Plant:
    """A plant of a fixed structure: coefficients of states and steps, and process noise, in raw states."""

    def __init__(self, A, Q, structure, has_prior, scale):
        self._A, self._Q, self._structure, self._has_prior, self._scale = A, Q, structure, has_prior, scale

    @classmethod
    def of(cls, estimate):
        """The plant of an estimate."""
        A = np.hstack([estimate.A, estimate.levels])
        return cls(A, estimate.Q, estimate.structure, estimate.climb.has_prior, estimate.plant.state_scale)

    def climbed(self, record, budget):
        """The best plant of the same structure for another record."""
        plant = StandardisedPlant(record)
        plant.budget = budget
        own_A, own_Q = plant.uncoupled  # sets the lags of the likelihood
        objective = plant.first_likelihood()
        if self._has_prior:
            objective = WithPrior(objective, Prior.for_units(own_A, own_Q, plant.partition, plant.n_samples))
        back = np.linalg.inv(plant.state_scale)
        start = Point.at(objective, plant.scaled(self._A), back @ self._Q @ back.T)
        point = ascend(objective, Scoring(objective, self._structure, start), gain_tol=_CLOSE).point
        A, Q = _without_last_bits(point.A, point.Q)
        return _Plant(
            plant.unscaled(A), plant.unscaled_covariance(Q), self._structure, self._has_prior, plant.state_scale
        )

    def smoothed(self, record):
        """States given a record, their covariances by unit, and its log-likelihood apart from constants."""
        n = len(self._Q)
        A, levels = np.hsplit(self._A, [n])
        operating = OperatingPoint.of(record, A, record.steps, levels, self._scale)
        drive = operating.drive(A, np.zeros((n, 0)))
        return smooth_record(A, self._Q, operating.placed(record), drive)


def _without_last_bits(A, Q):
    """A plant rounded so that machines which add in another order go on from the same one."""
    root = np.linalg.cholesky(Q)
    root[np.diag_indices_from(root)] = np.maximum(np.diag(root), _LAST_BIT)
    A, root = (np.rint(x / _LAST_BIT) * _LAST_BIT for x in (A, root))
    n = len(Q)
    return np.hstack([cap_radius(A[:, :n], MAX_RADIUS), A[:, n:]]), root @ root.T
