"""The paper's two clients and what the tables share."""

import warnings
from dataclasses import replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skfedcausal import Baseline, FederatedGrangerEstimator, GradientServer, KalmanClient
from skfedcausal.bases import configured
from skfedcausal.datasets import make_granger_plant

SETTING = (
    "Plant: A11 and A22 are {own} times the identity, A21 = {driving} everywhere, A12 = 0; P = 2, D = "
    "{n_sensors}, T = {n_samples}, process noise {process_noise}, sensor noise {sensor_noise}; from half "
    "time on the states of client 1 are pushed by {push} process-noise deviations. Clients know their own "
    "A_mm, C_m, Q_m, R_m, as in the paper. All choices are in `benchmarks/paper1/settings.toml`."
)


def two_clients(s, seed, *, back=0.0, episodes=1):
    """The paper's two clients, the first near a random walk and pushed from half time on.

    Parameters
    ----------
    s : dict
        Settings.
    seed : int
    back : float
        All elements of A12.
    episodes : int
        Records of the same plant, one after the other.

    Returns
    -------
    X : dict of str to ndarray
    truth : PlantTruth
    """
    A = np.kron(np.diag(s["own"]), np.eye(2))
    A[2:, :2], A[:2, 2:] = s["driving"], back
    return pushed(s, A, seed, episodes=episodes)


def pushed(s, A, seed, *, n_sensors=None, episodes=1):
    """Records of units with a given matrix, the first of which is pushed from half time on.

    ``s["forgotten"]`` rows of every record are dropped: the first state is drawn by a root of its covariance whose
    signs differ between processors.
    """
    rows, before = s["n_samples"], s["forgotten"]
    whole = before + rows
    halves = [(k * whole + before + rows // 2, (k + 1) * whole) for k in range(episodes)] if s["push"] else []
    X, truth = make_granger_plant(
        len(A) // 2,
        transition=A,
        n_samples=whole * episodes,
        n_sensors=s["n_sensors"] if n_sensors is None else n_sensors,
        process_noise=s["process_noise"],
        measurement_noise=s["sensor_noise"],
        level_shift=[{"unit": "unit0", "size": s["push"], "at": at, "until": to} for at, to in halves],
        random_state=seed,
        **({"episodes": episodes} if episodes > 1 else {}),
    )
    kept = np.arange(whole * episodes) % whole >= before
    return {name: Y[kept] for name, Y in X.items()}, replace(truth, states=truth.states[kept])


def train_and_test(s, seed, **options):
    """Two records of the same two clients, with other noise."""
    X, truth = two_clients(s, seed, episodes=2, **options)
    rows = s["n_samples"]
    return {n: Y[:rows] for n, Y in X.items()}, {n: Y[rows:] for n, Y in X.items()}, truth


def trained(X, truth, augmenter=None, **settings):
    """Estimator trained as in the paper, with another f_ML where an augmenter is given."""
    clients = [KalmanClient(baseline=Baseline(center=False), **model) for model in truth.clients().values()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the tables say how many rounds were run
        return FederatedGrangerEstimator(clients, augmenter=augmenter, server=configured(GradientServer, settings)).fit(
            X
        )


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
