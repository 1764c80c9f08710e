"""What a change of inputs does to the states of a linear plant, and how well that is known."""

from dataclasses import dataclass

import numpy as np

from .positive import eigen_root
from .recurrence import driven_recurrence


@dataclass(frozen=True)
class FeedbackGains:
    """Linear laws ``u[t] = K0 h[t] + K1 h[t-1] + F u[t-1] + ...`` of the controllers of a plant.

    Rows of inputs that no controller moves are zero.

    Attributes
    ----------
    present, previous : ndarray of shape (k, n)
        K0 and K1.
    persistence : ndarray of shape (k, k)
        F.
    """

    present: np.ndarray
    previous: np.ndarray
    persistence: np.ndarray

    def step(self, A, B):
        """Transition matrix of ``[h[t]; h[t-1]; u[t-1]]`` with the loops closed."""
        n, k = B.shape
        law = np.hstack([self.present, self.previous, self.persistence])
        step = np.zeros((2 * n + k, 2 * n + k))
        step[:n] = B @ law
        step[:n, :n] += A
        step[n : 2 * n, :n] = np.eye(n)
        step[2 * n :] = law
        return step

    def scaled(self, S, D):
        """The laws for states ``S^-1 h`` and inputs ``D^-1 u``, D a vector."""
        inverse = 1 / D[:, None]
        return FeedbackGains(
            inverse * self.present @ S, inverse * self.previous @ S, inverse * self.persistence * D
        )


@dataclass(frozen=True)
class Response:
    """Effect of a change of inputs.

    Attributes
    ----------
    effect : ndarray of shape (n_steps, n)
        Row j is the effect on the states at time t + j + 1.
    regressors : ndarray of shape (n_steps, n + k)
        Change of states and inputs at time t + j.
    step : ndarray of shape (N, N)
        Matrix that carries deviations of the states, and of what controllers remember, to the next step.
    """

    effect: np.ndarray
    regressors: np.ndarray
    step: np.ndarray


def input_response(A, B, change, gains=None):
    """Effect of a change of inputs on the states one step later and on.

    Parameters
    ----------
    A : ndarray of shape (n, n)
    B : ndarray of shape (n, k)
    change : ndarray of shape (n_steps, k)
        Row j is the change of the inputs at time t + j, beside what controllers add.
    gains : FeedbackGains, default=None
        Controllers that respond; None holds all other inputs as they were.

    Returns
    -------
    Response
        With ``effect[j] = sum_(i <= j) A^(j-i) B change[i]`` without controllers.
    """
    n, k = B.shape
    if gains is None:
        step, drive = A, B
    else:
        step, drive = gains.step(A, B), np.vstack([B, np.zeros((n, k)), np.eye(k)])
    states = driven_recurrence(step, (np.ascontiguousarray(change), drive))
    before = np.vstack([np.zeros(n), states[:-1, :n]])
    inputs = change if gains is None else states[:, 2 * n :]
    return Response(states[:, :n], np.hstack([before, inputs]), step)


def response_covariances(response, rows, cols, covariance, blocks):
    """Covariance of an estimated effect by the delta method.

    The derivatives of the effect follow its own equation, ``dh[j+1] = A dh[j] + d[A | B] x[j]`` with the
    regressors ``x[j] = [h[j]; u[j]]``; they are run for the columns of a square root of the covariance.
    Controllers count as known.

    Parameters
    ----------
    response : Response
    rows, cols : ndarray of int, shape (n_free,)
        Elements of ``[A | B]`` that are estimated.
    covariance : ndarray of shape (n_free, n_free)
        Their covariance.
    blocks : sequence of slice
        Groups of states whose covariances are wanted.

    Returns
    -------
    list of ndarray of shape (n_steps, p, p)
    """
    n_steps = len(response.effect)
    found = [np.zeros((n_steps, b.stop - b.start, b.stop - b.start)) for b in blocks]
    if not len(rows):
        return found
    order = np.argsort(rows, kind="stable")
    root = eigen_root(covariance)[order]
    cols = cols[order]
    present, first = np.unique(rows[order], return_index=True)
    derivative = np.zeros((len(response.step), root.shape[1]))
    for j, x in enumerate(response.regressors):
        derivative = response.step @ derivative
        derivative[present] += np.add.reduceat(root * x[cols, None], first, axis=0)
        for out, block in zip(found, blocks, strict=True):
            out[j] = derivative[block] @ derivative[block].T
    return found
