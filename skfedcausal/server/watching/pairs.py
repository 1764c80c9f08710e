"""Two roots in turn: steps at two units, each with an onset of its own."""

import numpy as np

from ...statespace.detection.shift import responses

_GRID = 24  # onsets of each unit that are tried
_RIDGE = 1e-9


def steps_in_turn(model, slices, scaled, units):
    """Likelihood ratio of steps at two units in a window of scaled innovations, their likeliest onsets, and the gain.

    The gain is that in the ratio over the likeliest onset of both at once.
    """
    n_rows = len(scaled)
    onsets = np.unique(np.linspace(0, n_rows - 1, _GRID, endpoint=False).astype(int))
    white = scaled @ model.whitening
    steps = np.swapaxes(model.whitening.T @ model.weight @ responses(model.carry, n_rows, len(model.weight)), 0, 1)
    first, second = (_signatures(steps[:, :, slices[m]], onsets, n_rows) for m in units)
    b1, b2 = (np.einsum("ktnp,tn->kp", part, white) for part in (first, second))
    flat1, flat2 = (part.transpose(0, 3, 1, 2).reshape(len(onsets), part.shape[3], -1) for part in (first, second))
    J1, J2 = flat1 @ flat1.swapaxes(1, 2), flat2 @ flat2.swapaxes(1, 2)
    cross = np.einsum("ipx,jqx->ijpq", flat1, flat2)
    k, p, q = len(onsets), J1.shape[1], J2.shape[1]
    J = np.empty((k, k, p + q, p + q))
    J[..., :p, :p], J[..., p:, p:] = J1[:, None], J2[None]
    J[..., :p, p:], J[..., p:, :p] = cross, cross.swapaxes(2, 3)
    J += _RIDGE * np.trace(J[0, 0]) * np.eye(p + q)
    b = np.concatenate([np.broadcast_to(b1[:, None], (k, k, p)), np.broadcast_to(b2[None], (k, k, q))], axis=2)
    ratios = (b * np.linalg.solve(J, b[..., None])[..., 0]).sum(axis=2)
    i, j = np.unravel_index(ratios.argmax(), ratios.shape)
    gain = ratios[i, j] - np.diag(ratios).max()
    return float(ratios[i, j]), (int(onsets[i]), int(onsets[j])), float(gain)


def _signatures(steps, onsets, n_rows):
    """Mean of the whitened innovations per unit of a step from each onset on, (n_onsets, n_rows, n, p)."""
    n, _, p = steps.shape
    found = np.zeros((len(onsets), n_rows, n, p))
    for row, onset in zip(found, onsets.tolist(), strict=True):
        row[onset:] = steps.transpose(1, 0, 2)[: n_rows - onset]
    return found
