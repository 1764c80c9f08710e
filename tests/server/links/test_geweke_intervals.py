"""Intervals of Geweke's measure and its spectrum: derivatives, agreement with simulation, coverage."""

import numpy as np
import pytest

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    KalmanClient,
    LikelihoodServer,
    inspection,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.statespace.geweke import geweke_gradients, geweke_measures
from skfedcausal.statespace.matrices import Partition


def test_gradients_are_those_of_differences():
    rng = np.random.default_rng(0)
    partition = Partition((2, 1, 2))
    A, L, C = rng.normal(size=(5, 5)), rng.normal(size=(5, 5)), rng.normal(size=(7, 5))
    A *= 0.8 / np.abs(np.linalg.eigvals(A)).max()
    Q, J = np.eye(5) + L @ L.T / 5, np.where(partition.block_diagonal, C.T @ C, 0.0)
    wanted = geweke_measures(A, Q, J, partition) > 0
    wanted[0, 1] = False
    found = {(m, n): grads for m, n, *grads in geweke_gradients(A, Q, J, partition, wanted)}
    assert set(found) == set(zip(*np.nonzero(wanted), strict=True))
    step = 1e-6
    for index in np.ndindex(5, 5):
        E = np.zeros((5, 5))
        E[index] = step
        in_A = [geweke_measures(A + s * E, Q, J, partition) for s in (1, -1)]
        in_Q = [geweke_measures(A, Q + s * (E + E.T) / 2, J, partition) for s in (1, -1)]
        for pair, (grad_A, grad_Q) in found.items():
            for (ahead, behind), gradient in ((in_A, grad_A), (in_Q, grad_Q)):
                difference = (ahead[pair] - behind[pair]) / (2 * step)
                assert gradient[index] == pytest.approx(difference, abs=1e-7)


@pytest.fixture(scope="module")
def record():
    return make_granger_plant(3, n_samples=3000, links=[(0, 1), (1, 2)], link_strength=0.3, random_state=0)


@pytest.fixture(scope="module")
def fitted(record):
    return FederatedGrangerEstimator(random_state=0).fit(record[0])


@pytest.mark.medium
def test_intervals_agree_with_simulated_records(fitted, record):
    table = inspection.link_intervals(fitted, geweke=True)
    np.testing.assert_allclose(table["geweke"], fitted.links_["geweke"], rtol=1e-9, atol=1e-12)
    simulated = inspection.bootstrap_links(fitted, record[0], n_resamples=60, method="parametric")
    large = table["geweke"] > 0.01
    assert large.sum() == 2
    width = np.sqrt(table["geweke_high"]) - np.sqrt(table["geweke_low"])
    other = np.sqrt(simulated["geweke_high"]) - np.sqrt(simulated["geweke_low"])
    np.testing.assert_allclose(width[large], other[large], rtol=4 / np.sqrt(2 * 60))
    assert "geweke" not in inspection.link_intervals(fitted)


def test_spectrum_lies_within_its_intervals(fitted):
    spectrum = inspection.spectrum(fitted, "unit0", "unit1", confidence=0.9)
    assert (spectrum["low"] <= spectrum["measure"]).all()
    assert (spectrum["measure"] <= spectrum["high"]).all()
    plain = inspection.spectrum(fitted, "unit0", "unit1")
    assert plain.columns.tolist() == ["frequency", "measure"]
    np.testing.assert_array_equal(plain["measure"], spectrum["measure"])
    narrow = inspection.spectrum(fitted, "unit0", "unit1", confidence=0.5)
    assert (narrow["high"] < spectrum["high"]).all()
    with pytest.raises(ValueError, match="confidence=90"):
        inspection.spectrum(fitted, "unit0", "unit1", confidence=90)


@pytest.mark.medium
def test_robust_covariances_reach_the_measure_and_inputs_do_not_disturb():
    X, truth = make_granger_plant(2, n_samples=1500, n_inputs=1, links=[(0, 1)], random_state=0)
    fits = [
        FederatedCounterfactualEstimator(server=LikelihoodServer(covariance=c)).fit(X, inputs=truth.inputs)
        for c in ("information", "sandwich")
    ]
    usual, robust = (inspection.link_intervals(fit, geweke=True).set_index(["cause", "effect"]) for fit in fits)
    assert not np.allclose(usual["geweke_high"].iloc[0], robust["geweke_high"].iloc[0], rtol=1e-6, equal_nan=False)
    np.testing.assert_allclose(usual["geweke_high"], robust["geweke_high"], rtol=0.3)


@pytest.mark.medium
def test_a_unit_alone_has_no_measures_and_a_level_shift_does_not_disturb():
    rng = np.random.default_rng(0)
    h = np.zeros((2000, 2))
    for t in range(1, 2000):
        h[t] = [[0.6, 0.0], [0.2, 0.5]] @ h[t - 1] + rng.normal(size=2) + [2.0 * (t > 1000), 0.0]
    X = {f"unit{m}": h[:, [m]] @ np.ones((1, 4)) + 0.5 * rng.normal(size=(2000, 4)) for m in range(2)}
    est = FederatedGrangerEstimator(server=LikelihoodServer(covariance="sandwich")).fit(X)
    assert len(est.server_.level_shifts_) == 1
    row = inspection.link_intervals(est, geweke=True).set_index(["cause", "effect"]).loc[("unit0", "unit1")]
    assert 0 < row["geweke_low"] < row["geweke"] < row["geweke_high"]
    links = est.links_.set_index(["cause", "effect"])["delay"]
    assert links.loc[("unit0", "unit1")] == 1.0
    assert np.isnan(links.loc[("unit1", "unit0")])
    with pytest.warns(UserWarning, match="X has one unit"):
        alone = est.fit({"unit0": X["unit0"]})
    assert len(inspection.link_intervals(alone, geweke=True)) == len(alone.links_) == 0


@pytest.mark.slow
def test_coverage_of_measure_and_spectrum():
    """Truth by the analytic measure of the simulated plant; 100 records, so 95 % is known to 2.2 %."""
    inside = []
    for seed in range(100):
        X, truth = make_granger_plant(
            2, n_samples=2000, links=[(0, 1)], link_strength=0.3, n_states=1, n_sensors=3, random_state=seed
        )
        J = np.zeros((2, 2))
        for m, (C, R) in enumerate(zip(truth.observation, truth.measurement_cov, strict=True)):
            J[m, m] = (C.T @ np.linalg.solve(R, C)).item()
        parts = zip(truth.observation, truth.measurement_cov, strict=True)
        clients = [KalmanClient(A=np.zeros((1, 1)), C=C, Q=np.eye(1), R=R) for C, R in parts]
        est = FederatedGrangerEstimator(clients).fit(X)
        true = geweke_measures(truth.transition, truth.process_cov, J, Partition((1, 1)))[1, 0]
        table = inspection.link_intervals(est, geweke=True).set_index(["cause", "effect"]).loc[("unit0", "unit1")]
        inside.append(table["geweke_low"] <= true <= table["geweke_high"])
    assert np.mean(inside) == pytest.approx(0.95, abs=3 * np.sqrt(0.95 * 0.05 / 100))
