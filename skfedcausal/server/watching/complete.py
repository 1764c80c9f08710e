"""A nominal record without its gaps: what is missing, drawn from what the plant makes of the rest.

What stands in for missing measurements has to vary as they would have. Their expectations do not: a record
filled with these looks calmer than the plant is, and thresholds set on it are too low.
"""

from dataclasses import replace

import numpy as np

from ...statespace.matrices import floor_eigenvalues
from ...statespace.simulation import simulated_information, simulated_states
from .nominal import usual_pattern


def complete_states(plant, messages, record, rng):
    """States as measured, had every unit's usual sensors been there.

    Where the information matrix is ``J_t`` instead of the usual J, ``J^-1 (z + (J - J_t) h + e)`` with a draw
    h of the states given the whole record and one of the noise, of covariance ``J - J_t``.

    Parameters
    ----------
    plant : LikelihoodServer
    messages : dict of str to StateMessage
    record : JointRecord
        Of the same messages.
    rng : numpy.random.RandomState

    Returns
    -------
    ndarray of shape (n_samples, n)
    """
    states = None if record.is_constant else draw_states(plant, messages, record, rng)
    x = np.empty_like(record.z)
    for part, b in zip(record.parts, record.partition.slices, strict=True):
        usual, z = usual_pattern(part), part.z
        if not part.is_constant:
            lacking = floor_eigenvalues(usual - part.patterns, 0.0)
            z = z + simulated_information(lacking, part.index, states[:, b], rng)
        x[:, b] = np.linalg.solve(usual, z.T).T
    return x


def complete_distance(distance, record, rng):
    """Off-subspace numbers, those of rows without a unit drawn from its others.

    Parameters
    ----------
    distance : ndarray of shape (n_samples, n_units)
    record : JointRecord
    rng : numpy.random.RandomState

    Returns
    -------
    ndarray of shape (n_samples, n_units)
    """
    distance = distance.copy()
    for m, part in enumerate(record.parts):
        if not part.is_constant:
            there = part.determined_rows
            distance[~there, m] = rng.choice(distance[there, m], np.count_nonzero(~there))
    return distance


def draw_states(plant, messages, record, rng):
    """States of the plant drawn from their distribution given the whole record.

    A simulated plant shows by how much smoothed states miss the true ones (Durbin & Koopman 2002, A simple
    and efficient simulation smoother for state space time series analysis).

    Parameters
    ----------
    plant : LikelihoodServer
    messages : dict of str to StateMessage
    record : JointRecord
        Of the same messages.
    rng : numpy.random.RandomState

    Returns
    -------
    ndarray of shape (n_samples, n)
    """
    simulated = simulated_states(plant.transition_, plant.process_cov_, record.starts, record.n_samples, rng)
    rest = {}
    for name, part, b in zip(record.names, record.parts, record.partition.slices, strict=True):
        seen = simulated_information(part.patterns, part.pattern_of, simulated[:, b], rng)
        rest[name] = replace(messages[name], z=part.z - seen)
    smoothed = plant.abducted(rest)
    return simulated + np.hstack([smoothed[name].states for name in record.names])
