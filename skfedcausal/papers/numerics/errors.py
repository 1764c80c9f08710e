"""How far the outcome of training is moved by what a record happens to hold: the recurrence, differentiated.

After k rounds ``Delta^k = H Delta^(k-1) + J`` is a function of the second moments of the record. Those of a stretch of
it, beside those of the whole, change H and J by ``dH`` and ``dJ``, and the outcome to first order by

    d^k = H d^(k-1) + dH Delta^(k-1) + dJ,       at the limit  (I - H) d = dH Delta + dJ,

in which ``dH Delta + dJ`` is the step that the stretch alone would take less that of the whole. Stretches that are
longer than the memory of the plant are nearly independent, so that the sum of products ``d d'`` over them estimates
the covariance of Delta whatever the noise is like: a delta method through the exact map, by batch means [1]_.

References
----------
.. [1] Carlstein (1986), The use of subseries values for estimating the variance of a general statistic from a
       stationary sequence, Annals of Statistics 14.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .augmented import AugmentedProblem, Products, gradients
from .descent import parameter_update
from .fixed_point import fixed_point, from_delta, group_solution, recurrence

_FEWEST, _MOST = 20, 100  # stretches
ENOUGH_ROWS = 10 * _FEWEST  # for stretches longer than the memory of a plant


class Stretches(NamedTuple):
    """Problems of successive stretches of a record, stacked, and the share of its rows that each has, (B,)."""

    problems: AugmentedProblem
    shares: np.ndarray


def stretches(problem_of, n_rows):
    """:class:`Stretches` of a record, given its problem as a function of rows; None if it is too short for any.

    Parameters
    ----------
    problem_of : callable
        ``problem_of(rows)`` is the :class:`AugmentedProblem` of a slice of rows.
    n_rows : int

    Returns
    -------
    Stretches or None
    """
    if n_rows < ENOUGH_ROWS:
        return None
    number = int(np.clip(np.sqrt(n_rows), _FEWEST, _MOST))
    ends = np.linspace(0, n_rows, number + 1).astype(int)
    problems = [problem_of(slice(a, b)) for a, b in zip(ends[:-1], ends[1:], strict=True)]
    stacked = {name: np.stack([getattr(one, name) for one in problems]) for name in ("moments", "target", "energy")}
    return Stretches(replace(problems[0], **stacked), np.diff(ends) / n_rows)


def step(problem, rates, delta):
    """What a round adds to a vector Delta (s,), of each problem of a stack: (B, s)."""
    parameters, blocks = from_delta(problem, delta)
    slope = gradients(problem, Products.at(problem, parameters, blocks))
    turn = rates.blocks * (slope.blocks + 2 * rates.ridge * blocks)
    parts = turn, parameter_update(rates, slope.client, slope.server, parameters)
    return -np.concatenate([np.swapaxes(part, -1, -2).reshape(len(part), -1) for part in parts], axis=1)


def influences(parts, problem, rates, n_rounds=None):
    """What every stretch of a record adds to the outcome of training that starts from zero.

    Parameters
    ----------
    parts : Stretches
    problem : AugmentedProblem
        Of the whole record.
    rates : Rates
    n_rounds : int, default=None
        None stands for the limit.

    Returns
    -------
    ndarray of shape (B, s)
        To first order; sums to zero. NaN where training has directions that no whole record moves.
    """
    rounds = recurrence(problem, rates)

    def pushed(delta):
        own = step(parts.problems, rates, delta)
        return parts.shares[:, None] * (own - parts.shares @ own)

    if n_rounds is None:
        moved, has_limit = group_solution(np.eye(len(rounds.H)) - rounds.H, pushed(fixed_point(rounds)).T)
        return moved.T if has_limit else np.full_like(moved.T, np.nan)
    delta = np.zeros_like(rounds.J)
    moved = np.zeros((len(parts.shares), len(delta)))
    for _ in range(n_rounds):
        moved = moved @ rounds.H.T + pushed(delta)
        delta = rounds.H @ delta + rounds.J
    return moved


def covariance(moved):
    """Covariance (..., s, s) of what has influences (B, ..., s)."""
    return np.einsum("b...i,b...j->...ij", moved, moved) * len(moved) / (len(moved) - 1)
