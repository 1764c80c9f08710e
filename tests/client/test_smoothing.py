"""Smoother and initial state of a unit's own model, against brute force and statsmodels."""

import numpy as np
import pytest

from skfedcausal import KalmanClient

sm = pytest.importorskip("statsmodels.api")
NILE = {"A": [[1.0]], "C": [[1.0]], "Q": [[1469.1]], "R": [15099.0]}  # Durbin, Koopman (2012), section 2


@pytest.fixture(scope="module")
def nile():
    return sm.datasets.nile.load_pandas().data["volume"].to_numpy()[:, None]


@pytest.fixture(scope="module")
def holed(nile):
    holes = nile.copy()
    holes[20:40] = holes[60:80] = np.nan
    return holes


@pytest.mark.parametrize("which", ["nile", "holed"])
def test_local_level_of_the_nile_from_a_diffuse_start(which, request):
    y = request.getfixturevalue(which)
    theirs = sm.tsa.UnobservedComponents(y[:, 0], "local level", use_exact_diffuse=True).smooth([15099.0, 1469.1])
    client = KalmanClient(**NILE, initial="diffuse")
    states, covariances = client.smooth(y, return_cov=True)
    np.testing.assert_allclose(states[:, 0], theirs.smoothed_state[0], rtol=1e-9)
    np.testing.assert_allclose(covariances[:, 0, 0], theirs.smoothed_state_cov[0, 0], rtol=1e-9)
    np.testing.assert_allclose(client.filter(y)[:, 0], theirs.filtered_state[0], rtol=1e-9)
    np.testing.assert_allclose(client.score_samples(y).sum(), theirs.llf, rtol=1e-12)


def test_figures_of_the_book(nile):
    # Durbin, Koopman (2012), figures 2.1 and 2.2: the first smoothed level and its variance
    states, covariances = KalmanClient(**NILE, initial="diffuse").smooth(nile, return_cov=True)
    assert states[0, 0] == pytest.approx(1111.2, abs=0.5)
    assert covariances[0, 0, 0] == pytest.approx(4032.2, abs=0.5)


def _joint(A, C, Q, R, mean, cov, n):
    """Mean and covariance of all states, and of all measurements, by brute force."""
    p, d = len(A), len(C)
    G = np.zeros((n * p, n * p))  # states as sums of what pushed them
    for t in range(n):
        for s in range(t + 1):
            G[t * p : (t + 1) * p, s * p : (s + 1) * p] = np.linalg.matrix_power(A, t - s)
    pushes = np.kron(np.eye(n), Q)
    pushes[:p, :p] = cov
    first = np.zeros(n * p)
    first[:p] = mean
    H = np.kron(np.eye(n), C)
    K = G @ pushes @ G.T
    return G @ first, K, H, H @ K @ H.T + np.kron(np.eye(n), R), d


@pytest.mark.parametrize("kind", ["stationary", "known", "diffuse"])
def test_states_given_the_record_by_brute_force(kind):
    rng = np.random.default_rng(0)
    A, C, n = np.array([[0.8, 0.2], [-0.1, 0.5]]), rng.standard_normal((3, 2)), 12
    Q, R = np.array([[1.0, 0.3], [0.3, 0.6]]), np.diag([0.5, 1.0, 0.2])
    mean, cov = np.array([3.0, -1.0]), np.array([[2.0, 0.1], [0.1, 1.0]])
    initial = {"stationary": "stationary", "known": (mean, cov), "diffuse": "diffuse"}[kind]
    if kind == "stationary":
        mean = np.zeros(2)
        cov = np.linalg.solve(np.eye(4) - np.kron(A, A), Q.ravel()).reshape(2, 2)
    elif kind == "diffuse":
        mean, cov = np.zeros(2), 1e7 * np.eye(2)
    Y = rng.standard_normal((n, 3))
    Y[2, 1] = Y[5] = np.nan
    m, K, H, S, _ = _joint(A, C, Q, R, mean, cov, n)
    there = np.flatnonzero(~np.isnan(Y.ravel()))
    gain = np.linalg.solve(S[np.ix_(there, there)], (K @ H.T)[:, there].T).T
    expected = m + gain @ (Y.ravel()[there] - (H @ m)[there])
    spread = K - gain @ (H @ K)[there]
    client = KalmanClient(A=A, C=C, Q=Q, R=np.diag(R), initial=initial)
    states, covariances = client.smooth(Y, return_cov=True)
    tolerance = 1e-5 if kind == "diffuse" else 1e-9  # what a prior of variance 1e7 tells, and rounding beside it
    np.testing.assert_allclose(states.ravel(), expected, atol=tolerance)
    blocks = np.array([spread[2 * t : 2 * t + 2, 2 * t : 2 * t + 2] for t in range(n)])
    np.testing.assert_allclose(covariances, blocks, atol=tolerance)
    np.testing.assert_allclose(client.filter(Y)[-1], states[-1], atol=1e-9)


def test_a_stationary_start_is_that_of_the_filter_without_one():
    rng = np.random.default_rng(1)
    client = KalmanClient(A=[[0.9]], B=[[0.5]], C=[[1.0], [2.0]], Q=[[1.0]], R=[0.5, 1.0])
    Y, U = rng.standard_normal((200, 2)), rng.standard_normal((200, 1))
    told = KalmanClient(A=[[0.9]], B=[[0.5]], C=[[1.0], [2.0]], Q=[[1.0]], R=[0.5, 1.0])
    told.initial = (np.zeros(1), np.array([[1 / (1 - 0.81)]]))
    for method in ("filter", "predict", "score_samples"):
        ours, theirs = (getattr(c, method)(Y, inputs=U, lengths=[120, 80]) for c in (client, told))
        np.testing.assert_allclose(ours, theirs, atol=1e-9)
    np.testing.assert_allclose(
        client.smooth(Y, inputs=U, lengths=[120, 80]), told.smooth(Y, inputs=U, lengths=[120, 80]), atol=1e-9
    )


@pytest.mark.parametrize(
    ("initial", "words"),
    [
        ("steady", "'initial' parameter"),
        (([1.0],), "give 'stationary', 'diffuse', or a mean and a covariance of the 1 states"),
        (([1.0, 2.0], np.eye(2)), r"mean of shape \(2,\)"),
        (([1.0], [[-1.0]]), "the covariance is none"),
    ],
)
def test_starts_that_cannot_be_meant_are_refused(nile, initial, words):
    with pytest.raises(ValueError, match=words):
        KalmanClient(**NILE, initial=initial).fit(nile)
