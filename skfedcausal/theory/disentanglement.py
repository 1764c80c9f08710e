"""What the second paper says about the parameters that training ends with, computed beside what is so.

Its Theorem 6.1 takes ``E x[t] = 0`` where the derivative in a block makes ``E x[t] h_n[t]' = 0``, so that
both statements hold only as far as phi stands for a constant; its Lemma 8.2 sets the derivative of the client
loss to zero at a point where only its sum with the server's pull is; and the proof of Theorem 8.3 ends in an
identity that holds for any parameters in two of three blocks. So both sides of each statement are reported.
"""

import numpy as np

from ..papers.numerics.descent import Products, gradients


def disentanglement(problem, parameters, blocks):
    """Both sides of Theorem 6.1 and Corollary 6.2 for one unit.

    Parameters
    ----------
    problem : AugmentedProblem
        With a constant.
    parameters : ndarray of shape (p, d + 1)
        ``[theta, phi]``.
    blocks : ndarray of shape (p, k)
        ``[A_mn, B_mn]``, n other than m.

    Returns
    -------
    dict
        ``own_states``, ``E A_mm theta y``, and ``other_states``, ``E sum_n A_mn h_n`` (Theorem 6.1: equal as
        xi grows); ``constant``, phi, and ``other_inputs``, ``E sum_n B_mn u_n`` (Corollary 6.2: equal),
        ndarrays of shape (p,); ``delta_d``, norm of the difference of the last two; ``penalty``, the mean
        square D of the first two before their means are taken.

    Raises
    ------
    ValueError
        If the problem has no constant.
    """
    d, q, k = problem.n_outputs, problem.n_local, problem.n_states
    if q == d:
        raise ValueError("The problem has no constant phi: it is one of a plant without inputs.")
    mean = problem.moments[d]
    inside = Products.at(problem, parameters, blocks).E * problem.in_penalty
    phi, other_inputs = parameters[:, d], blocks[:, k:] @ mean[q + k :]
    return {
        "own_states": problem.transition @ parameters[:, :d] @ mean[:d],
        "other_states": blocks[:, :k] @ mean[q : q + k],
        "constant": phi,
        "other_inputs": other_inputs,
        "delta_d": float(np.linalg.norm(phi - other_inputs)),
        "penalty": float(((inside @ problem.moments) * inside).sum()),
    }


def normal_equations_of_client(problem, rates, parameters, blocks):
    """Lemma 8.2: ``E (C A)' r_a y' = 0`` and ``E C' r_a = 0`` at stationary points.

    At a fixed point of training it is the weighted sum with the server's derivative that vanishes.

    Parameters
    ----------
    problem : AugmentedProblem
    rates : Rates
    parameters, blocks : ndarray

    Returns
    -------
    dict
        ``printed``, largest absolute element of the lemma's expectations; ``repaired``, that of ``rate_client
        (E ...) - rate_server dL_s / 2``; ``scale``, largest absolute element of the expectations with the
        unit's own prediction in place of the augmented one.
    """
    slope = gradients(problem, Products.at(problem, parameters, blocks))
    start = gradients(problem, Products.at(problem, np.zeros_like(parameters), np.zeros_like(blocks)))
    joint = rates.client * slope.client + rates.server * slope.server
    return {
        "printed": float(np.abs(slope.client).max() / 2),
        "repaired": float(np.abs(joint).max() / 2),
        "scale": float(np.abs(start.client).max() / 2),
    }


def oracle_bias(A, B, C, parameters, *, own, now, measurements, inputs, filtered):
    """Theorem 8.3: distance of a unit's augmented prediction to the best linear one from the same data.

    The regressors are ``z = [y_m; u; h_c,m]`` at t - 1. The unit predicts ``M z + e`` with ``M = C [A theta,
    B, A]`` and ``e = C (phi - sum_n B_mn u_n)``, the oracle ``Gamma Sigma^-1 z``. The paper says ``E [y_o -
    y_a] = J E z`` with ``J = E[e z'] Sigma^-1``, taking the unit's residual r to be uncorrelated with all of
    z and ``E e`` to be zero. Without both, ``E [y_o - y_a] = (J + E[r z'] Sigma^-1) E z - E e``.

    Parameters
    ----------
    A : ndarray of shape (p, p)
        A_mm.
    B : ndarray of shape (p, k)
        The unit's row of the server's input matrix, its own block included.
    C : ndarray of shape (d, p)
    parameters : ndarray of shape (p, d + 1)
        ``[theta, phi]``.
    own : ndarray of bool, shape (k,)
        Which inputs are the unit's own.
    now : ndarray of shape (n_pairs, d)
        y[t].
    measurements, inputs, filtered : ndarray of shape (n_pairs, d), (n_pairs, k), (n_pairs, p)
        y, the inputs of all units and the unit's own filtered states at t - 1.

    Returns
    -------
    dict of str to ndarray
        ``bias``, the mean distance, shape (d,); ``printed`` and ``repaired``, what the theorem and its
        repaired form make of it; ``J`` of shape (d, d + k + p).
    """
    d = measurements.shape[1]
    theta, phi = parameters[:, :d], parameters[:, d]
    z = np.hstack([measurements, inputs, filtered])
    e = (phi - inputs[:, ~own] @ B[:, ~own].T) @ C.T
    predicted = (filtered @ A.T + measurements @ (A @ theta).T + inputs[:, own] @ B[:, own].T + phi) @ C.T
    sigma = z.T @ z
    oracle, J, left = (np.linalg.lstsq(sigma, z.T @ x, rcond=None)[0].T for x in (now, e, now - predicted))
    mean = z.mean(axis=0)
    return {
        "bias": (z @ oracle.T - predicted).mean(axis=0),
        "printed": J @ mean,
        "repaired": (J + left) @ mean - e.mean(axis=0),
        "J": J,
    }
