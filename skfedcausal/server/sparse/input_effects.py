"""What a large plant says of its inputs: their links, how they act, and how well that is known."""

import numpy as np
from scipy.sparse.linalg import spsolve

from ...statespace.inputs import BlockCovariance
from ...statespace.partition import positions_of
from ..estimation.estimate import Coefficients
from ..estimation.evidence import BlockEstimates, corrected, shrink
from . import tables
from .inputs import dof_of, pairs_of, places
from .learning import ALL_PAIRS
from .plant import stretches
from .screening import NOWHERE


def coefficients(estimate, A):
    """`Coefficients` of a plant with the standardised transition matrix A, covariances core by core.

    Rows of different cores are taken to be independent: what joins them is what units do not know of each other's
    states, through the noise of their sensors.
    """
    plant, partition = estimate.plant, estimate.plant.partition
    n, rows, cols, blocks = partition.n_states, [], [], []
    for core, members, fit in zip(estimate.cores, estimate.members, estimate.fits, strict=True):
        found = fit.elements
        states, inputs = (positions_of(members, slices) for slices in (partition.slices, partition.input_slices))
        columns = np.concatenate([states, n + inputs])
        rows.append(positions_of(core, partition.slices)[found.rows])
        cols.append(columns[found.cols])
        blocks.append(found.covariance)
    series = np.hstack([plant.series, plant.known])
    regressors = series.T @ series / len(series)  # less the noise of so many scores it need not be positive
    return Coefficients(
        np.hstack([A.toarray(), estimate.B]), np.concatenate(rows), np.concatenate(cols), BlockCovariance(blocks),
        plant.dense(plant.scale), plant.known_scale, regressors,
    )  # fmt: skip


def without_inputs(changes, estimate, record, steps):
    """Changes of levels at steps less what the inputs' own changes of level lead to."""
    if not steps:
        return changes
    plant, u, A = estimate.plant, record.u / estimate.plant.known_scale, estimate.A.tocsc()
    still, found = plant.sparse([np.eye(len(own)) for own in plant.A]).tocsc() - A, []
    still.indices, still.indptr = still.indices.astype(np.intc), still.indptr.astype(np.intc)  # as SuperLU has them
    for (before, after), units in zip(stretches(record, steps), changes, strict=True):
        level = spsolve(still, estimate.B @ (u[after].mean(axis=0) - u[before].mean(axis=0)))
        found.append([change - level[own] for change, own in zip(units, plant.partition.slices, strict=True)])
    return found


def input_links_table(names, estimate, correction, alpha, margin):
    """The table of inputs that act on units of others; of many units those that come near to it."""
    pairs, p_value = estimate.input_tests.pairs, estimate.input_tests.p_value
    every, adjusted = tuple(pairs_of(estimate.plant.partition).T), np.ones_like(estimate.input_p_value)
    adjusted[every] = corrected(estimate.input_p_value[every], correction)
    adjusted = adjusted[tuple(pairs.T)]
    shown = np.ones(len(pairs), dtype=bool)
    if len(names) > ALL_PAIRS:
        shown = estimate.driven[tuple(pairs.T)] | (p_value <= tables.NEAR)
    chosen = np.flatnonzero(shown)
    chosen = chosen[np.lexsort((pairs[chosen, 1], pairs[chosen, 0]))]
    blocks = _blocks(estimate, chosen)
    nothing = np.full(len(chosen), np.nan)
    table = tables.large_links_table(names, pairs[chosen], blocks, adjusted[chosen], nothing, alpha, margin)
    return table.assign(kind="input")


def _blocks(estimate, chosen):
    """`BlockEstimates` of chosen pairs of the tests of inputs."""
    tests, partition = estimate.input_tests, estimate.plant.partition
    pairs, columns = tests.pairs[chosen], places(partition)
    real = (partition.padded[pairs[:, 0]] < partition.n_states)[:, :, None] & (columns[pairs[:, 1]] < NOWHERE)[:, None]
    known = tests.estimate[chosen], tests.covariance[chosen]  # copies
    return BlockEstimates.masked(*known, ~real.reshape(len(pairs), -1), dof_of(pairs, partition))


def shrunk_inputs(estimate):
    """B with the posterior means of the blocks by which inputs act on units of others, standardised."""
    tests, partition, B = estimate.input_tests, estimate.plant.partition, estimate.B.copy()
    others = estimate.driven & ~np.eye(len(estimate.driven), dtype=bool)
    if tests is None or not others.any():
        return B
    n_tested = len(tests.pairs)
    found = shrink(_blocks(estimate, np.arange(n_tested)), n_empty=len(pairs_of(partition)) - n_tested)
    n, columns = partition.n_states, places(partition)
    kept = others[tuple(tests.pairs.T)] | (found.inclusion >= tables.INCLUDED)
    for (effect, cause), mean in zip(tests.pairs[kept], found.posterior_mean[kept], strict=True):
        rows, cols = partition.padded[effect], columns[cause]
        block = mean.reshape(len(rows), len(cols))[np.ix_(rows < n, cols < NOWHERE)]
        B[np.ix_(rows[rows < n], cols[cols < NOWHERE] - n)] = block
    return B
