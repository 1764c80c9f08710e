"""The paper's two-client setting and what the tables share."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skfedcausal import FederatedGrangerEstimator, GradientServer, KalmanClient
from skfedcausal.datasets import make_granger_plant

SETTING = (
    "Plant: A11 = 0.99 I, A22 = 0.5 I, A21 = 0.25 everywhere, A12 = 0; P = 2, D = 8, T = 5000, unit process "
    "and sensor noise; from half time on the states of client 1 are pushed by a constant. Clients know their "
    "own A_mm, C_m, Q_m, R_m, as in the paper."
)


def two_clients(seed=0, *, A21=0.25, A12=0.0, size=1.0, n_samples=5000, **options):
    """The paper's two clients, the first near a random walk and pushed from half time on.

    Parameters
    ----------
    seed : int
    A21, A12 : float
        All elements of the blocks between the clients.
    size : float
        Size of the push in standard deviations of the process noise; 0 for none.
    n_samples : int
        Rows of each episode.
    **options
        For :func:`make_granger_plant`.

    Returns
    -------
    X : dict of str to ndarray
    truth : PlantTruth
    """
    A = np.kron(np.diag([0.99, 0.5]), np.eye(2))
    A[2:, :2], A[:2, 2:] = A21, A12
    episodes = options.get("episodes", 1)
    rows = n_samples * episodes
    halves = [(k * n_samples + n_samples // 2, (k + 1) * n_samples) for k in range(episodes)]
    shifts = [{"unit": "unit0", "size": size, "at": at, "until": until} for at, until in halves if size]
    return make_granger_plant(2, transition=A, n_samples=rows, level_shift=shifts, random_state=seed, **options)


def train_and_test(seed=0, **options):
    """Two records of the same two clients, with other noise."""
    X, truth = two_clients(seed, episodes=2, **options)
    rows = truth.lengths[0]
    return {n: Y[:rows] for n, Y in X.items()}, {n: Y[rows:] for n, Y in X.items()}, truth


def stationary_clients(seed=0, n_samples=5000):
    """The same blocks between two clients that return to their mean within a few steps."""
    A = np.kron(np.diag([0.7, 0.5]), np.eye(2))
    A[2:, :2] = 0.25
    return make_granger_plant(2, transition=A, n_samples=n_samples, random_state=seed)


def clients_of(truth):
    """The units' own true models; raw measurements, as in the paper."""
    return [KalmanClient(**model, center=False) for model in truth.clients().values()]


def trained(X, truth, **settings):
    """Estimator trained as in the paper."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the tables say how many rounds were run
        return FederatedGrangerEstimator(clients_of(truth), server=GradientServer(**settings)).fit(X)


def by_default(X, truth):
    """Estimator with the library's default server."""
    clients = [KalmanClient(**model) for model in truth.clients().values()]
    return FederatedGrangerEstimator(clients).fit(X)


def cross_blocks(A, slices):
    """The matrix without the units' own blocks."""
    off = np.array(A, dtype=float)
    for rows in slices:
        off[rows, rows] = 0.0
    return off


def relative_error(learned, truth):
    """Distance of the blocks between units to the true ones, relative to their norm."""
    slices = list(truth.state_slices.values())
    true = cross_blocks(truth.transition, slices)
    return np.linalg.norm(cross_blocks(learned, slices) - true) / np.linalg.norm(true)
