"""Blocks in states of unit variance, where the scores alone say too little of that variance.

The variance of a unit's states over a record is that of its scores less their noise. In a complete record
that is as good as anything. Where measurements are missing scores differ in noise from row to row, rows
without enough sensors have none, and their plain mean is a poor estimate: it would add a tenth and more to
the scatter of a strength, which its standard error does not know of. There the variance is what the fitted
plant makes of all measurements: the mean square of the smoothed states plus their covariance, the
expectation of EM [1]_.

References
----------
.. [1] Shumway, Stoffer (1982), An approach to time series smoothing and forecasting using the EM algorithm,
       Journal of Time Series Analysis 3(4).
"""

import numpy as np

from ...statespace.matrices import symmetric_root
from .evidence import PADDED_VARIANCE, BlockEstimates


def unit_state_roots(plant, point, likelihood=None):
    """Roots of the covariance that the states of every unit have over the record.

    In the standardised states of the plant; the blocks ``R_effect^-1 A R_cause`` are then those of states
    of unit variance.
    """
    if plant.has_constant_information:
        return None
    roots = []
    for covariance, determined in zip(
        plant.state_covariances(point, likelihood), plant.determined, strict=True
    ):
        # a model that was given says itself what unit variance is
        roots.append(symmetric_root(covariance) if determined else np.eye(len(covariance)))
    return roots


def in_unit_states(blocks, family, roots, causes=True):
    """The same estimates in states of unit variance."""
    if roots is None or not len(family.pairs):
        return blocks
    turn = unit_state_turns(family, roots, causes)
    estimate = np.einsum("xij,xj->xi", turn, blocks.estimate)
    covariance = turn @ blocks.covariance @ np.swapaxes(turn, 1, 2)
    empty = family.pair_elements == family.n_elements
    estimate[empty] = 0.0
    covariance[empty[:, :, None] | empty[:, None, :]] = 0.0
    pair, element = np.nonzero(empty)
    covariance[pair, element, element] = PADDED_VARIANCE
    return BlockEstimates(estimate, covariance, blocks.dof)


def unit_state_turns(family, roots, causes=True):
    """Matrices that turn the elements of each block into those in states of unit variance."""
    e, p = family.pair_elements.shape[1], max(len(root) for root in roots)
    padded = np.tile(np.eye(p), (len(roots), 1, 1))
    for whole, root in zip(padded, roots, strict=True):
        whole[: len(root), : len(root)] = root
    effect, cause = family.pairs.T
    left = np.linalg.inv(padded)[effect]
    width = p if causes else e // p
    right = padded[cause] if causes else np.broadcast_to(np.eye(width), (len(cause), width, width))
    one = np.einsum("xij,xlk->xikjl", left, right).reshape(len(cause), p * width, p * width)
    n_lags = e // (p * width)
    return np.einsum("ab,xij->xaibj", np.eye(n_lags), one).reshape(len(cause), e, e)
