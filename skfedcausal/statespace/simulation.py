"""Records simulated from a plant: its states, and what measurements of given information say of them."""

import numpy as np

from .episodes import episodes
from .kalman import driven_recurrence
from .matrices import covariance_root, eigen_root
from .riccati import stationary_covariance


def simulated_states(A, Q, starts, n_samples, rng, *, exogenous=None, spread=None):
    """States of a plant, every episode from the stationary distribution, shape (n_samples, n)."""
    n = len(Q)
    first = stationary_covariance(A, Q)
    first = covariance_root(first if spread is None else first + spread)
    states = rng.normal(size=(n_samples, n)) @ covariance_root(Q).T
    if exogenous is not None:
        states += exogenous
    for start, stop in episodes(starts, n_samples):
        own = states[start:stop]
        own[0] = first @ rng.normal(size=n)
        driven_recurrence(A, (own, None), out=own)
    return states


def simulated_information(patterns, index, states, rng):
    """What measurements with information matrices J say of known states: ``J h + e``, e of covariance J.

    `patterns` is (n_patterns, n, n), `index` (n_samples,), `states` (n_samples, n).
    """
    z = np.einsum("tij,tj->ti", patterns[index], states)
    z += np.einsum("tij,tj->ti", eigen_root(patterns)[index], rng.normal(size=z.shape))
    return z
