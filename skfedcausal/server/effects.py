"""Effects of a change of inputs on a plant of one lag, with the errors of its estimate; laws that close loops."""

import numpy as np

from ..message.states import EffectReply
from ..statespace.inputs import FeedbackGains, input_response, response_covariances


def effects(plant, unshrunk, coefficients, slices, change, gains=None):
    """An `EffectReply` for every unit, of a plant (A, B) and of that before its shrinkage.

    What links that were not selected add to the effect, by their small posterior means, is added as a standard
    error too.
    """
    A, B = plant
    effect = input_response(A, B, change, gains).effect
    A, B = (np.where(before == 0, 0.0, after) for after, before in zip(plant, unshrunk, strict=True))
    doubtful = effect - input_response(A, B, change, gains).effect
    c = coefficients
    A, B = np.hsplit(c.matrix, [len(A)])
    if gains is not None:
        gains = gains.scaled(c.state_scale, c.input_scale)
    response = input_response(A, B, change / c.input_scale, gains)
    covariances = response_covariances(response, c.rows, c.cols, c.covariance, slices.values())
    replies = {}
    for (name, rows), V in zip(slices.items(), covariances, strict=True):
        S, d = c.state_scale[rows, rows], doubtful[:, rows]
        V = S @ V @ S.T + d[:, :, None] * d[:, None, :]
        replies[name] = EffectReply(np.ascontiguousarray(effect[:, rows]), V)
    return replies


def gains_of(laws, state_slices, input_slices, held):
    """Laws of all controllers as matrices of the plant, without the inputs that are held."""
    n, k = (max((rows.stop for rows in slices.values()), default=0) for slices in (state_slices, input_slices))
    present, previous, persistence = np.zeros((k, n)), np.zeros((k, n)), np.zeros((k, k))
    for name, law in laws.items():
        states, inputs = state_slices[name], input_slices[name]
        present[inputs, states], previous[inputs, states] = law.present, law.previous
        persistence[inputs, inputs] = law.persistence
    for matrix in (present, previous, persistence):
        matrix[held] = 0.0
    return FeedbackGains(present, previous, persistence)
