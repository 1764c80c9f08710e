"""What units' states show of themselves in their off-subspace numbers."""

import numpy as np

from ...statespace.detection.energy import block_sums
from ...statespace.matrices import eigen_root
from .nominal import inverse_root

_REWEIGHTINGS = 3


class ShownOutside:
    """Expected off-subspace numbers given the states, ``a_m + x_m' B_m x_m`` with B_m positive semidefinite.

    The directions whose distance a unit sends are those its states do not weight, not those its states
    cannot move: a victim whose states are pushed far shows it there as well. Dividing by what is expected
    from the states leaves what the states do not explain, with mean one in nominal operation.

    Parameters
    ----------
    x : ndarray of shape (n_samples, n)
        Nominal states as measured.
    distance : ndarray of shape (n_samples, n_units)
        Nominal off-subspace numbers, zero throughout for units that send none.
    slices : sequence of slice
        States of each unit.

    Notes
    -----
    Fitted as a scale that is linear in the squares and products of the states: least squares weighted by the
    inverse squared expectation, which is maximum likelihood for gamma-distributed numbers.
    """

    def __init__(self, x, distance, slices):
        self._sums = block_sums(slices)
        self._roots = np.zeros((x.shape[1],) * 2)
        self._least = np.ones(len(slices))
        for m, b in enumerate(slices):
            if distance[:, m].any():
                self._least[m], self._roots[b, b] = _quadratic_scale(x[:, b], distance[:, m])

    def relative(self, x, distance):
        """Off-subspace numbers over what the states of the same rows let expect."""
        return distance / (self._least + (x @ self._roots) ** 2 @ self._sums)


def _quadratic_scale(x, g):
    """a and R of the expectation ``a + |x R|^2`` of g."""
    white = inverse_root(x.T @ x / len(x))
    x = x @ white
    i, j = np.triu_indices(x.shape[1])
    terms = np.column_stack([np.ones(len(x)), x[:, i] * x[:, j]])
    expected = np.full(len(x), g.mean())
    for _ in range(_REWEIGHTINGS):
        coefficients = np.linalg.lstsq(terms / expected[:, None], g / expected, rcond=None)[0]
        B = np.zeros((x.shape[1],) * 2)
        B[i, j] = coefficients[1:] / 2
        root = eigen_root(B + B.T)
        expected = max(coefficients[0], 0.01 * g.mean()) + ((x @ root) ** 2).sum(axis=1)
        scale = (g / expected).mean()
        expected *= scale
    least = max(coefficients[0], 0.01 * g.mean())
    return scale * least, np.sqrt(scale) * white @ root
