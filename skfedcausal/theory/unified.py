"""Convergence of training as one linear recurrence ``Delta <- H Delta + J``.

The matrices of :func:`~skfedcausal.papers.numerics.descent.recurrence` take the moments of a whole
record; those of a single pair of time steps have rank one, and most eigenvalues of their H are exactly one.
"""

import numpy as np

from ..papers.numerics.descent import Products

_RANK = 1e-12  # relative size of eigenvalues that count as zero


def to_delta(parameters, blocks):
    """``Delta = [vec W; vec [theta, phi]]``, columns below each other."""
    return np.concatenate([blocks.ravel(order="F"), parameters.ravel(order="F")])


def spectral_radius(H):
    """Largest absolute eigenvalue; training converges from every start if and only if it is below one."""
    return float(np.abs(np.linalg.eigvals(H)).max())


def after_rounds(recurrence, delta, n_rounds):
    """Delta after a number of rounds, by repeated squaring of H."""
    step = np.block([[recurrence.H, recurrence.J[:, None]], [np.zeros(len(delta)), 1.0]])
    return (np.linalg.matrix_power(step, int(n_rounds)) @ np.append(delta, 1.0))[:-1]


def rate_conditions(recurrence):
    """Conditions of Theorems 5.6 and 5.7 on ``I - H``.

    Norms are taken in the metric of the step sizes, in which descent on one objective has a symmetric
    ``I - H`` whose eigenvalues lie between mu and L times the step.

    Returns
    -------
    dict
        ``spectral_radius``; ``norm`` of ``I - H``; ``strong_convexity`` mu and ``smoothness`` L, smallest and
        largest eigenvalue; ``sublinear``, whether ``norm <= 1`` (Theorem 5.6); ``linear``, whether mu > 0 and
        ``norm <= 2 L / (mu + L)`` (Theorem 5.7); ``rounds``, number
        of rounds for one more decimal digit; ``largest_factor``, by which all step sizes may be multiplied
        before training stops converging.
    """
    B = np.eye(len(recurrence.H)) - recurrence.H
    root = np.sqrt(np.where(recurrence.steps > 0, recurrence.steps, 1.0))
    scaled = B / root[:, None] * root[None, :]
    norm = float(np.linalg.norm(scaled, 2))
    values = np.linalg.eigvals(scaled)
    mu, top = float(values.real.min()), float(values.real.max())
    radius = spectral_radius(recurrence.H)
    moving = values[np.abs(values) > _RANK * np.abs(values).max()]
    convex = mu > _RANK * top
    return {
        "spectral_radius": radius,
        "norm": norm,
        "strong_convexity": mu,
        "smoothness": top,
        "sublinear": norm <= 1.0,
        "linear": bool(convex and norm <= 2 * top / (mu + top)),
        "rounds": float(np.log(10) / -np.log(radius)) if 0 < radius < 1 else np.inf,
        # of all step sizes, with which |1 - factor * value| <= 1 for all eigenvalues
        "largest_factor": float((2 * moving.real / np.abs(moving) ** 2).min()),
    }


def codependence(recurrence, problem):
    """How much one round of each side depends on the other's last value (Theorem 5.1).

    Returns
    -------
    dict
        ``client_on_server`` and ``server_on_client``: norms of the off-diagonal blocks of H.
    """
    n_W = len(problem.transition) * problem.n_drivers
    return {
        "client_on_server": float(np.linalg.norm(recurrence.H[n_W:, :n_W], 2)),
        "server_on_client": float(np.linalg.norm(recurrence.H[:n_W, n_W:], 2)),
    }


def normal_equations(problem, parameters, blocks):
    """What is left of the stationarity conditions, largest absolute elements relative to their terms.

    Returns
    -------
    dict
        ``server``: ``mean (W v - e) v'``, which every fixed point makes zero; ``client``: ``mean C' r_a [y;
        1]'`` of the client's own residual, zero only where the server does not pull (the paper's eq. 25 and
        Lemma 8.2 of the second paper claim it of every fixed point).
    """
    at = Products.at(problem, parameters, blocks)
    q = problem.n_local
    server, client = at.server[:, q:], problem.target - at.client
    scale = np.abs(blocks @ problem.moments[q:, q:]).max() + np.finfo(float).tiny
    return {
        "server": float(np.abs(server).max() / scale),
        "client": float(np.abs(client).max() / np.abs(problem.target).max()),
    }
