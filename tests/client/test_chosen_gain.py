"""A filter with a chosen constant gain, and its training."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skfedcausal import (
    Baseline,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    GradientServer,
    KalmanClient,
    papers,
)
from skfedcausal.bases import configured
from skfedcausal.datasets import make_granger_plant

A, C = np.diag([0.9, 0.5]), np.array([[1.0, 0.0], [0.3, 1.0], [0.2, -0.5]])
GIVEN = {"A": A, "C": C, "Q": np.eye(2), "R": np.ones(3)}
K = np.array([[0.4, 0.1, 0.0], [0.0, 0.3, -0.1]])


def literal(Y, lengths):
    """Algorithm 1 of the first paper, line by line, every record from zero."""
    out, h = [], None
    starts = {int(s) for s in np.cumsum([0, *lengths[:-1]])}
    for t, y in enumerate(Y):
        predicted = np.zeros(2) if t in starts else A @ h
        h = predicted + K @ (y - C @ predicted)
        out.append(h)
    return np.array(out)


def test_the_filter_is_algorithm_one():
    Y = np.random.default_rng(0).standard_normal((60, 3))
    client = KalmanClient(gain=K, baseline=Baseline(center=False), **GIVEN).fit(Y, lengths=[40, 20])
    np.testing.assert_allclose(client.filter(Y, lengths=[40, 20]), literal(Y, [40, 20]), atol=1e-14)
    predicted = literal(Y, [60]) @ A.T @ C.T
    np.testing.assert_allclose(client.predict(Y)[1:], predicted[:-1], atol=1e-14)


def test_the_stationary_kalman_gain_gives_the_kalman_filter_in_the_end():
    Y = np.random.default_rng(0).standard_normal((200, 3))
    kalman = KalmanClient(baseline=Baseline(center=False), **GIVEN).fit(Y)
    J = C.T @ C
    P = np.eye(2)
    for _ in range(500):
        P = A @ np.linalg.inv(np.linalg.inv(P) + J) @ A.T + np.eye(2)
    gain = np.linalg.inv(np.linalg.inv(P) + J) @ C.T
    chosen = KalmanClient(gain=gain, baseline=Baseline(center=False), **GIVEN).fit(Y)
    np.testing.assert_allclose(chosen.filter(Y)[100:], kalman.filter(Y)[100:], atol=1e-12)


def test_a_missing_measurement_is_left_out_of_the_correction():
    Y = np.random.default_rng(0).standard_normal((20, 3))
    Y[7, 1] = np.nan
    client = KalmanClient(gain=K, baseline=Baseline(center=False), **GIVEN).fit(Y)
    h = client.filter(Y)
    predicted = A @ h[6]
    kept = [0, 2]
    np.testing.assert_allclose(h[7], predicted + K[:, kept] @ (Y[7] - C @ predicted)[kept], atol=1e-14)


@pytest.mark.parametrize(
    ("gain", "message"),
    [(np.zeros((3, 2)), r"gain has shape \(3, 2\)"), (-20 * K, "spectral radius")],
)
def test_a_gain_that_cannot_be_is_refused(gain, message):
    with pytest.raises(ValueError, match=message):
        KalmanClient(**GIVEN, gain=gain).fit(np.random.default_rng(0).standard_normal((20, 3)))


def test_training_goes_by_the_chosen_filter():
    X, truth = make_granger_plant(2, n_samples=400, random_state=0)
    models = list(truth.clients().values())
    gains = [0.5 * np.linalg.pinv(model["C"]) for model in models]
    clients = [KalmanClient(gain=g, baseline=Baseline(center=False), **m) for m, g in zip(models, gains, strict=True)]
    server = GradientServer(solve="stationary", variant="no_augmentation")
    losses = papers.losses(FederatedGrangerEstimator(clients, server=server).fit(X), X)
    for (name, Y), client in zip(X.items(), clients, strict=True):
        own = ((client.fit(Y).predict(Y) - Y)[1:] ** 2).sum(axis=1).mean()
        np.testing.assert_allclose(losses.client[name], own)


def test_training_stops_when_the_loss_is_small():
    X, truth = make_granger_plant(2, n_samples=400, n_inputs=1, random_state=0)
    inputs = list(truth.inputs)
    clients = [KalmanClient(baseline=Baseline(center=False), **model) for model in truth.clients().values()]

    def history(**settings):
        start = {"exchange": "moments", "xi": 2.0, "start_scale": 1.0, "max_iter": 200, "tol": 0.0}
        server = configured(GradientServer, start | settings)
        est = FederatedCounterfactualEstimator(clients, server=server, random_state=0).fit(X, inputs=inputs)
        return est.server_.loss_history_

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        whole = history()
    total = whole["server"] + 2.0 * whole["penalty"]
    np.testing.assert_allclose(whole["L_s"], total)
    tol = 1.0001 * total.sum(axis=1).iloc[50]
    stopped = history(loss_tol=tol)
    assert stopped["L_s"].sum(axis=1).iloc[-1] <= tol
    assert (stopped["L_s"].sum(axis=1).iloc[:-1] > tol).all()
    assert len(stopped) <= 51
