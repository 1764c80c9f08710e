"""How well a unit knows its own loadings C, and what that adds to the variance of effects on its sensors."""

from dataclasses import dataclass

import numpy as np

from ..statespace.episodes import column_mean
from ..statespace.matrices import floor_eigenvalues
from ..statespace.riccati import predicted_covariance

_FLOOR = 0.05  # share of the variance of the states that their past explains at least


@dataclass(frozen=True)
class LoadingError:
    """Covariance of the error of C as far as it is not a change of basis.

    An error of C inside its column space only changes the basis of the states and leaves every effect as it
    is. The rest D, orthogonal to the columns in the metric of R, adds ``D h`` to an effect h on the states.
    C was found from what the past tells about the present, so row i of D has the covariance ``rest_i G^-1 /
    T`` of a regression of the remaining noise on the predicted states.

    Attributes
    ----------
    rest : ndarray of shape (n_sensors,)
        Variance of the sensors' noise that the states' estimate leaves over.
    spread : ndarray of shape (n_states, n_states)
        ``G^-1 / T``, G the covariance of the predicted states.
    """

    rest: np.ndarray
    spread: np.ndarray

    def variance(self, states):
        """Variance that it adds to the effect on each sensor, shape (n_steps, n_sensors)."""
        return np.einsum("ti,ij,tj->t", states, self.spread, states)[:, None] * self.rest


def loading_error(client, message):
    """Error of loadings identified at home; None where C was given.

    Parameters
    ----------
    client : KalmanClient
    message : StateMessage
        Of the record that C was identified from.

    Returns
    -------
    LoadingError or None
    """
    model, info = client.model, message.information
    if client.C is not None or not info.determines_states or model.R.ndim == 2:
        return None
    J = info.mean_information
    N = np.linalg.inv(J)
    mean = column_mean(message.z)
    states = N @ (message.z.T @ message.z / len(message.z) - np.outer(mean, mean)) @ N - N
    states = floor_eigenvalues(states, _FLOOR * np.trace(states) / len(states))
    past = states - predicted_covariance(model.A, J, model.Q)
    G = floor_eigenvalues(past, _FLOOR * np.trace(states) / len(states))
    active = client.observation_
    rest = client.measurement_cov_ - np.einsum("di,ij,dj->d", active, N, active)
    rest = np.where(np.isfinite(rest), np.maximum(rest, 0.0), 0.0)
    return LoadingError(rest, np.linalg.inv(G) / len(message.z))
