"""Records drawn from a plant and seen through the information matrices of another record."""

from dataclasses import replace

import numpy as np

from ...statespace.inputs import input_term
from ...statespace.simulation import simulated_information, simulated_states


def simulated_record(record, A, Q, rng, *, known=None, spread=None):
    """A record drawn from a plant, with the information matrices of another."""
    n, starts = len(Q), record.starts
    exogenous = None if known is None else input_term(A[:, n:], known, starts)
    own = np.ascontiguousarray(A[:, :n])
    h = simulated_states(own, Q, starts, record.n_samples, rng, exogenous=exogenous, spread=spread)
    parts = []
    for part, rows in zip(record.parts, record.partition.slices, strict=True):
        z = simulated_information(part.patterns, part.pattern_of, h[:, rows], rng)
        parts.append(replace(part, z=z, const=None))
    return replace(record, parts=tuple(parts))
