"""Further rounds of a fit: expectation maximisation of the whole model, the units' sensors included.

In every round the server smooths the states with the plant it has, the units re-estimate loadings, noise and
level from theirs and send their messages again, and the server climbs to the best plant of the same structure.
Which units act on each other is looked for before the rounds and, with the last messages, after them.

What the units maximise takes all that states leave of the measurements for sensor noise. They may know better,
so rounds end when the density that they report no longer rises.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from ..message.requests import Ask
from ..message.states import StateMessage
from ..statespace.matrices import are_covariances, cap_radius
from .dynamics import OperatingPoint, Plant, smooth_record
from .estimation.estimate import LARGE, estimate_plant
from .estimation.scoring import MAX_RADIUS, Budget, Point, Prior, Scoring, WithPrior, ascend
from .estimation.standardised import StandardisedPlant
from .fitting import ONE_LAG, settings_of, warn_of_rounds
from .joint import JointRecord
from .plant import learned_from, smoothed_replies
from .tuning import TUNING


def rounds_of(server, came, learn):
    """All rounds of a `LikelihoodServer` from its first answers on, a generator; it returns the messages used.

    `learn` takes messages, answers that came and earlier messages, and says which of them were used.
    """
    n_more = 0
    if any(message.sketch is not None for message in came.values()):
        from .orders import with_shared_sensors  # for units whose states leave more than noise

        grown = yield from with_shared_sensors(came)
        n_more, came = int(grown is not came), grown
    server.shares_sensors, whole = bool(n_more), Budget(server.max_time)
    messages, n_rounds, first = dict(came), 1, None
    if server.n_rounds != "auto":
        earlier, server.n_rounds_ = None, server.n_rounds + n_more
        for n_left in range(server.n_rounds, 0, -1):
            budget = whole.part(1 / n_left) if n_left > 1 else whole
            messages = learn(messages, came, earlier, budget=budget)
            if n_left > 1:
                came = yield Ask(server.smoothed(messages), StateMessage)
                messages, earlier = {**messages, **came}, messages
        return messages
    if len(messages) <= LARGE and any(message.rest is not None for message in messages.values()):
        settings = replace(settings_of(server, tuple(messages), messages), budget=whole.part(ONE_LAG))
        messages, came, n_rounds, estimate = yield from further_rounds(came, settings, whole)
        first = messages, estimate if n_rounds == 1 else None
    messages = learn(messages, came, budget=whole, first=first)
    server.n_rounds_ = n_rounds + n_more
    return messages


def further_rounds(came, settings, budget):
    """A generator that asks for messages while the record gets likelier, of units that said they may be better.

    It returns the last messages, the answers that came last, how many rounds there were and the estimate before
    them, None where there are no further rounds: with inputs, with rows that some sensors miss. Nor are there any
    for a plant whose climb did not end, which takes more work than there is for all. Others get a part of what is
    left of the `budget`, for the last estimate has to come from it too.
    """
    estimate: Any = None
    found: Any = None
    record: Any = None

    def begin(messages):
        nonlocal estimate
        record = JointRecord.from_messages(messages, known_links=settings.known_links)
        is_plain = record.u is None and record.is_constant and record.determined.all()
        estimate = estimate_plant(record, settings) if is_plain else None

    def go_on(messages):
        nonlocal found, record
        record = JointRecord.from_messages(messages).at_steps(estimate.steps)
        found = start.climbed(record, budget)

    messages, number, value = learned_from(begin, dict(came), came), 1, -np.inf
    if estimate is None:
        return messages, came, number, None
    found, record, budget = _Plant.of(estimate), JointRecord.from_messages(messages), budget.part(TUNING.rounds_rounds)
    slices = dict(zip(record.names, record.partition.slices, strict=True))
    asked = [name for name, message in messages.items() if message.rest is not None]
    while number < TUNING.rounds_most_rounds and estimate.climb.converged and not budget.is_spent:
        states, covariances, log_likelihood = found.smoothed(record)
        before, value = value, log_likelihood + _rest(messages) * record.n_samples
        if value - before < TUNING.rounds_least_gain:
            break
        if not all(map(are_covariances, covariances)):
            warn_of_rounds(number)
            break
        replies = smoothed_replies(slices, states, covariances)
        came, number = (yield Ask({name: replies[name] for name in asked}, StateMessage)), number + 1
        start = found
        messages = learned_from(go_on, {**messages, **came}, came, messages)
    return messages, came, number, estimate


def _rest(messages):
    """What the units' measurements say beyond their states, per row, as far as it may change."""
    return sum(message.rest or 0.0 for message in messages.values())


class _Plant:
    """A plant of a fixed structure: coefficients of states and steps, and process noise, in raw states."""

    def __init__(self, A, Q, structure, prior_weight, scale):
        self._A, self._Q, self._structure, self._prior_weight, self._scale = A, Q, structure, prior_weight, scale

    @classmethod
    def of(cls, estimate):
        """The plant of an estimate."""
        A = np.hstack([estimate.A, estimate.levels])
        return cls(A, estimate.Q, estimate.structure, estimate.climb.prior_weight, estimate.plant.state_scale)

    def climbed(self, record, budget):
        """The best plant of the same structure for another record."""
        plant = StandardisedPlant(record)
        plant.budget = budget
        own_A, own_Q = plant.uncoupled  # sets the lags of the likelihood
        objective = plant.first_likelihood()
        if self._prior_weight:
            prior = Prior.for_units(own_A, own_Q, plant.partition, plant.n_samples, self._prior_weight)
            objective = WithPrior(objective, prior)
        back = np.linalg.inv(plant.state_scale)
        start = Point.at(objective, plant.scaled(self._A), back @ self._Q @ back.T)
        point = ascend(objective, Scoring(objective, self._structure, start), gain_tol=TUNING.rounds_close).point
        A, Q = _without_last_bits(point.A, point.Q)
        own = plant.unscaled(A), plant.unscaled_covariance(Q)
        return _Plant(*own, self._structure, self._prior_weight, plant.state_scale)

    def smoothed(self, record):
        """States given a record, their covariances by unit, and its log-likelihood apart from constants."""
        n = len(self._Q)
        A, levels = np.hsplit(self._A, [n])
        operating = OperatingPoint.of(record, A, record.steps, levels, self._scale)
        plant = Plant.of_one_lag(A, np.zeros((n, 0)), self._Q, point=operating)
        return smooth_record(A, self._Q, operating.placed(record), plant.drive())


def _without_last_bits(A, Q):
    """A plant rounded so that machines which add in another order go on from the same one."""
    root = np.linalg.cholesky(Q)
    root[np.diag_indices_from(root)] = np.maximum(np.diag(root), TUNING.rounds_last_bit)
    A, root = (np.rint(x / TUNING.rounds_last_bit) * TUNING.rounds_last_bit for x in (A, root))
    n = len(Q)
    return np.hstack([cap_radius(A[:, :n], MAX_RADIUS), A[:, n:]]), root @ root.T
