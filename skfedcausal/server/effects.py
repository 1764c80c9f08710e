"""Effects of a change of inputs, with the errors of the estimate: by its covariance, or by plants that are drawn."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..message.states import EffectReply
from ..statespace.inputs import BlockCovariance, FeedbackGains, input_response, response_covariances
from ..statespace.matrices import symmetric_root
from .responses.runs import run_plants

_MANY = 1500  # free coefficients above which errors of a plant of one lag are taken to be independent


@dataclass(frozen=True)
class ErrorsOfOneLag:
    """Errors of a plant of one lag by the covariance of its coefficients, `Coefficients`; None without inputs."""

    coefficients: Any

    def effects(self, server, change, gains=None):
        """An `EffectReply` for every unit.

        What links that were not selected add to the effect, by their small posterior means, is added as a standard
        error too.
        """
        c, plant = self.coefficients, (server.transition_, server.input_)
        unshrunk = server.unshrunk_transition_, server.unshrunk_input_
        effect = input_response(*plant, change, gains).effect
        A, B = (np.where(before == 0, 0.0, after) for after, before in zip(plant, unshrunk, strict=True))
        doubtful = effect - input_response(A, B, change, gains).effect
        A, B = np.hsplit(c.matrix, [len(c.matrix)])
        if gains is not None:
            gains = gains.scaled(c.state_scale, c.input_scale)
        response = input_response(A, B, change / c.input_scale, gains)
        slices, replies = server.state_slices_, {}
        covariances = response_covariances(response, c.rows, c.cols, c.covariance, slices.values())
        for (name, rows), V in zip(slices.items(), covariances, strict=True):
            S, d = c.state_scale[rows, rows], doubtful[:, rows]
            V = S @ V @ S.T + d[:, :, None] * d[:, None, :]
            replies[name] = EffectReply(np.ascontiguousarray(effect[:, rows]), V)
        return replies

    def drawn(self, server, n_draws):
        """Pairs of matrices (1, n, n), (2, n, k) from the sampling distribution: the same ones at every call."""
        c = self.coefficients
        if c is None or not len(c.rows):
            return []
        rng = np.random.default_rng(0)
        if isinstance(c.covariance, BlockCovariance):
            noise = c.covariance.root() @ rng.standard_normal((len(c.rows), n_draws))
        elif len(c.rows) > _MANY:
            noise = np.sqrt(c.covariance.diagonal())[:, None] * rng.standard_normal((len(c.rows), n_draws))
        else:
            noise = symmetric_root(c.covariance) @ rng.standard_normal((len(c.rows), n_draws))
        n, back = len(c.matrix), np.linalg.inv(c.state_scale)
        A, B, found = server.transition_, server.input_, []
        # small posterior means of links that were not selected may as well be nothing, or twice what they are
        unshrunk = server.unshrunk_transition_, server.unshrunk_input_
        faint = [np.where(before == 0, now, 0.0) for before, now in zip(unshrunk, (A, B), strict=True)]
        for values, share in zip(noise.T, rng.standard_normal(n_draws), strict=True):
            change = np.zeros_like(c.matrix)
            change[c.rows, c.cols] = values
            driven = B + c.state_scale @ change[:, n:] / c.input_scale + share * faint[1]
            moved = A + c.state_scale @ change[:, :n] @ back + share * faint[0]
            found.append((moved[None], np.stack([np.zeros_like(B), driven])))
        return found


@dataclass(frozen=True)
class DrawnErrors:
    """Errors of a plant by others that were drawn from its posterior, pairs (p, n, n), (q + 1, n, k)."""

    draws: list

    def effects(self, server, change, gains=None):
        """An `EffectReply` for every unit, with covariances from the draws."""
        plant = server.plant_
        plants = [(plant.A, plant.B), *self.draws]
        if gains is None:
            effect, *drawn = run_plants(plants, change)
        else:
            effect, *drawn = (replace(plant, A=A, B=B).response(change, gains) for A, B in plants)
        drawn = [found for found in drawn if np.isfinite(found).all()]
        spread = np.array(drawn) - effect
        replies = {}
        for name, rows in server.state_slices_.items():
            own = spread[:, :, rows]
            V = np.einsum("dti,dtj->tij", own, own) / max(len(own), 1)
            replies[name] = EffectReply(np.ascontiguousarray(effect[:, rows]), V)
        return replies

    def drawn(self, server, n_draws):
        """Pairs of matrices from the posterior: the same ones at every call."""
        return self.draws[:n_draws]


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


def with_curvature(replies, curvature, slices, change, before=None):
    """Replies with what curvature adds to effects of a change of inputs, and to their covariances."""
    effect = np.hstack([replies[name].states for name in slices])
    shift, variance = curvature.moments(change, effect, before)
    found = {}
    for name, rows in slices.items():
        V = replies[name].covariances.copy()
        V[:, *np.diag_indices(V.shape[1])] += variance[:, rows]
        found[name] = EffectReply(np.ascontiguousarray((effect + shift)[:, rows]), V)
    return found
