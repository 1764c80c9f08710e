"""Resampled records with gaps, episodes and inputs."""

import numpy as np
import pandas as pd
import pytest

from skfedcausal import FederatedCounterfactualEstimator, FederatedGrangerEstimator, KalmanClient, inspection
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation.standardised import StandardisedPlant
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.links.resampling import Resampling

pytestmark = pytest.mark.medium

N_RESAMPLES = 40
SCATTER = 4 / np.sqrt(2 * N_RESAMPLES)  # of a standard error from so many records, four times its own


@pytest.fixture(scope="module")
def record():
    X, truth = make_granger_plant(
        2,
        n_samples=800,
        n_sensors=6,
        n_states=[2, 1],
        links=[(0, 1)],
        link_strength=0.5,
        missing=0.1,
        random_state=0,
    )
    X["unit1"][200:230] = np.nan
    return X, [KalmanClient(C=C) for C in truth.observation]


@pytest.mark.parametrize("method", ["blocks", pytest.param("parametric", marks=pytest.mark.slow)])
def test_standard_errors_are_those_of_the_fit(record, method):
    X, clients = record
    lengths = [450, 350]
    est = FederatedGrangerEstimator(clients).fit(X, lengths=lengths)
    table = inspection.bootstrap_links(
        est, X, lengths=lengths, method=method, n_resamples=N_RESAMPLES, block_length=60, random_state=0
    )
    assert table.attrs["not_converged"] == 0
    columns = ["norm", "stderr", "p_value"]
    pd.testing.assert_frame_equal(table[columns], est.links_[columns], rtol=1e-3)
    np.testing.assert_allclose(table["bootstrap_stderr"], table["stderr"], rtol=SCATTER)
    found = est.links_["p_adjusted"] < 0.05
    assert (table.loc[found, "bootstrap_p_value"] == 1 / (N_RESAMPLES + 1)).all()


def test_blocks_as_they_come_have_the_likelihood_of_episodes(record):
    """Each block once is the record cut into them, its levels taken off before."""
    X, clients = record
    messages = {name: c.fit(Y).message(Y) for (name, Y), c in zip(X.items(), clients, strict=True)}
    plant = StandardisedPlant(JointRecord.from_messages(messages))
    A, Q = plant.uncoupled
    point = type("Point", (), {"A": A, "Q": Q})
    resampling = Resampling(plant, point, 100)
    drawn = resampling._weighted(np.ones(resampling.n_blocks)).evaluate(A, Q)
    whole = plant.standard_record.centred()
    total = 0.0
    for start in range(0, 800, 100):
        rows = np.arange(start, start + 100)
        z, J = whole.z[rows], whole.matrices(rows)
        total += _log_density(A, Q, z, J)
    assert 800 * drawn.value == pytest.approx(total, rel=1e-10)


def _log_density(A, Q, z, J):
    """Information filter, row by row, from the stationary distribution; less the terms free of the states."""
    n = len(Q)
    P = np.linalg.solve(np.eye(n * n) - np.kron(A, A), Q.ravel()).reshape(n, n)
    h, total = np.zeros(n), 0.0
    for now, info in zip(z, J, strict=True):
        Pf = np.linalg.inv(np.linalg.inv(P) + info)
        r = now - info @ h
        total -= 0.5 * (np.linalg.slogdet(np.eye(n) + P @ info)[1] + h @ info @ h - 2 * h @ now - r @ Pf @ r)
        h = A @ (h + Pf @ r)
        P = A @ Pf @ A.T + Q
    return total


def test_stable_links_of_a_record_with_gaps(record):
    X, clients = record
    est = FederatedGrangerEstimator(clients).fit(X)
    table = inspection.stable_links(est, X, n_resamples=4, block_length=60, random_state=0)
    assert table.loc[table["stable"], ["cause", "effect"]].to_numpy().tolist() == [["unit0", "unit1"]]


@pytest.mark.slow
def test_inputs_go_with_their_rows():
    X, truth = make_granger_plant(
        2,
        n_samples=1000,
        n_inputs=1,
        n_states=1,
        links=[],
        input_links=[(0, 1)],
        missing=0.1,
        input_strength=1.0,
        random_state=0,
    )
    clients = [KalmanClient(C=C) for C in truth.observation]
    est = FederatedCounterfactualEstimator(clients).fit(X, inputs=truth.inputs)
    table = inspection.bootstrap_links(
        est, X, inputs=truth.inputs, n_resamples=N_RESAMPLES, block_length=50, random_state=0
    )
    driven = table[table["kind"] == "input"]
    np.testing.assert_allclose(driven["bootstrap_stderr"], driven["stderr"], rtol=SCATTER)
    assert driven.loc[driven["p_value"] < 1e-3, "cause"].tolist() == ["unit0"]


def test_links_of_inputs_are_resampled_in_states_of_unit_variance():
    """Of units of two states, with one input each: blocks of two elements."""
    X, truth = make_granger_plant(
        2, n_samples=300, n_states=2, n_sensors=5, n_inputs=1, links=[(0, 1)], input_links=[(0, 1)], random_state=0
    )
    X["unit1"][200:230] = np.nan
    clients = [KalmanClient(C=C) for C in truth.observation]
    est = FederatedCounterfactualEstimator(clients).fit(X, inputs=truth.inputs)
    table = inspection.bootstrap_links(est, X, inputs=truth.inputs, n_resamples=20, block_length=25, random_state=0)
    assert table["kind"].tolist() == est.links_["kind"].tolist()
    columns = ["norm", "stderr", "p_value"]
    pd.testing.assert_frame_equal(table[columns], est.links_[columns], rtol=1e-3)
    np.testing.assert_allclose(table["bootstrap_stderr"], table["stderr"], rtol=4 / np.sqrt(2 * 20))
