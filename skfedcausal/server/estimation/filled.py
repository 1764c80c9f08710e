"""Plants of long records with gaps, learned from what the plant itself expects in the gaps.

The exact likelihood of a record with gaps goes through it row by row, at every step of a search. Where there is no
time for that, every row is taken as if it were seen as the best one, with what the states expected of the plant so
far would have shown. States that were rarely missing are hardly changed by it.
"""

from dataclasses import replace

import numpy as np

from ...statespace.smoother import smooth
from ..lagged.misfit import filled_record
from .estimate import estimate_plant
from .scoring import Budget
from .standardised import StandardisedPlant

_PASSES = 3, 6  # over the record, of each filling
_SETTLED = 1e-3  # change of the states in a pass, of their standard deviation


def estimate_filled(record, settings):
    """Estimate from a record filled twice, and this record.

    First as the units on their own expect, then as the plant does that this gives.
    """
    plant = StandardisedPlant(record, settings.local, settings.fix_local)
    A, Q = plant.uncoupled
    A, Q, centred = plant.unscaled(A), plant.unscaled_covariance(Q), record.centred()
    states = np.zeros((record.n_samples, len(Q)))
    estimate, filled, settings = None, centred, replace(settings, edges=False)
    seconds = settings.budget.max_time
    for n_passes in _PASSES:
        states = _expected(A, Q, centred, states, n_passes)
        filled = filled_record(centred, states)
        estimate = estimate_plant(filled, replace(settings, budget=Budget(seconds)))  # of the clock, too
        A, Q = estimate.A, estimate.Q
    return estimate, filled


def _expected(A, Q, record, states, n_passes):
    """States expected given a record with gaps, by some passes over the record with the gaps filled.

    They solve ``(P^-1 + J_t) h = z_t`` row by row, P the states' covariance: with the best rows' information J the
    right side gains ``(J - J_t) h``, which is the step that is repeated.
    """
    for _ in range(n_passes):
        before, filled = states, filled_record(record, states)
        about = {"J": filled.mean_information(), "starts": filled.starts, "keep": (), "intercept": False}
        states = smooth(A, Q, filled.z, filled.matrices, **about)[1].states
        if np.sqrt(np.mean((states - before) ** 2)) < _SETTLED * np.sqrt(np.mean(states**2)):
            break
    return states
