"""Plants of several lags: exact on a measured VAR, today's results with one lag, delays recovered."""

import numpy as np
import pandas as pd
import pytest
from statsmodels.tsa.api import VAR

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    KalmanClient,
    LikelihoodServer,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation.estimate import Settings
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.links.lags import fit_lags

GOAL = {"max_iter": 300, "tol": 1e-10}


def delayed(n_samples, delay, seed, strength=0.25):
    """Three units of two states; unit0 acts on unit1 after `delay` steps."""
    rng = np.random.default_rng(seed)
    own = np.array([[0.6, 0.1], [-0.1, 0.6]])
    h = np.zeros((n_samples + 100, 3, 2))
    w = rng.normal(size=h.shape)
    for t in range(delay, len(h)):
        h[t] = h[t - 1] @ own.T + w[t]
        h[t, 1] += strength * h[t - delay, 0]
    h = h[100:]
    loadings = [np.linalg.qr(rng.normal(size=(6, 2)))[0] for _ in range(3)]
    X = {f"unit{m}": h[:, m] @ C.T + 0.5 * rng.normal(size=(n_samples, 6)) for m, C in enumerate(loadings)}
    return X, [KalmanClient(C=C) for C in loadings], h


def messages_of(X, clients):
    return {name: c.fit(Y).message(Y) for (name, Y), c in zip(X.items(), clients, strict=True)}


@pytest.mark.parametrize("sparsity", ["fdr", None])
def test_one_lag_gives_the_plant_and_the_links_of_the_fit(sparsity):
    X, _ = make_granger_plant(3, n_states=[2, 1, 2], links=[(0, 1)], random_state=0)
    messages = messages_of(X, [KalmanClient() for _ in X])
    server = LikelihoodServer(sparsity=sparsity, level_shifts=None).fit(messages)
    fit = fit_lags(JointRecord.from_messages(messages), 1, Settings(sparsity=sparsity, **GOAL))
    # both end where a step promises less than tol: 1e-10 standard errors of one time step
    np.testing.assert_allclose(fit.transition, server.unshrunk_transition_, atol=1e-8)
    np.testing.assert_allclose(fit.process_cov, server.process_cov_, rtol=1e-7, atol=1e-8)
    table = server.lagged_links(messages, 1)
    columns = ["cause", "effect", "strength", "stderr", "statistic", "p_value", "p_adjusted", "verdict"]
    pd.testing.assert_frame_equal(table[columns], server.links_[columns], rtol=1e-6)


def measured_var(n_samples=1500):
    rng = np.random.default_rng(0)
    A = [
        [[0.5, 0.1, 0.0], [0.0, 0.3, 0.0], [0.05, 0.0, -0.4]],
        [[0.1, 0.0, 0.0], [0.2, 0.1, 0.0], [0.0, 0.0, 0.2]],
        [[0.0, 0.0, 0.3], [0.0, 0.0, 0.0], [0.0, -0.2, 0.0]],
    ]
    h = np.zeros((n_samples, 3))
    for t in range(3, n_samples):
        h[t] = sum(np.array(a) @ h[t - lag] for lag, a in enumerate(A, 1)) + rng.normal(size=3)
    return h - h.mean(axis=0)


@pytest.mark.parametrize("n_lags", [1, 2, 4])
def test_of_a_measured_var_it_is_that_of_a_central_machine(n_lags):
    """Coefficients, noise and log-likelihood of statsmodels' VAR, which has all measurements."""
    h, noise = measured_var(), 1e-10
    unit = {"A": np.zeros((1, 1)), "C": np.eye(1), "R": noise * np.eye(1), "Q": np.eye(1)}
    X = {f"unit{k}": h[:, [k]] for k in range(3)}
    record = JointRecord.from_messages(messages_of(X, [KalmanClient(**unit) for _ in X]))
    fits = [fit_lags(record, k, Settings(sparsity=None, **GOAL), n_dropped=3) for k in (1, n_lags)]
    central = [VAR(h[4 - k :]).fit(k, trend="n") for k in (1, n_lags)]
    np.testing.assert_allclose(fits[1].transition, np.hstack(central[1].coefs), atol=1e-7)
    residual = central[1].resid
    np.testing.assert_allclose(np.diag(fits[1].process_cov), (residual**2).mean(axis=0), rtol=1e-7)
    values = [-0.5 * len(c.resid) * np.log((c.resid**2).mean(axis=0)).sum() for c in central]
    gain = fits[1].log_likelihood - fits[0].log_likelihood
    assert gain == pytest.approx(values[1] - values[0], abs=1e-4)


def test_a_delay_is_found_and_nothing_else():
    X, clients, h = delayed(4000, 3, seed=0)
    est = FederatedGrangerEstimator(clients).fit(X)
    orders = est.lag_orders(X, 4)
    assert orders["aic"].idxmin() == orders["bic"].idxmin() == orders["held_out"].idxmax() == 3
    for criterion, price in (("aic", 2.0), ("bic", np.log(4000 - 4))):  # all orders explain rows 4, 5, ...
        expected = -2 * orders["log_likelihood"] + price * orders["n_parameters"]
        np.testing.assert_allclose(orders[criterion], expected, rtol=1e-12)
    table = est.lagged_links(X, max_lags=4)
    assert table.attrs["n_lags"] == 3
    found = table[table["verdict"] == "influence"]
    assert found[["cause", "effect", "delay"]].to_numpy().tolist() == [["unit0", "unit1", 3.0]]
    true = 0.25 * np.sqrt(2) * h[:, 0].std() / h[:, 1].std()
    row = found.iloc[0]
    assert row["delay_probability"] > 0.999
    assert row["delay_strength"] == pytest.approx(true, abs=3 * row["stderr"])
    each = est.lagged_links(X, 3, by="lag").query("cause == 'unit0' and effect == 'unit1'")
    assert each["lag"].tolist() == [1, 2, 3]
    assert (each["p_value"] < 1e-6).tolist() == [False, False, True]
    assert "seconds" not in table


def test_delays_come_in_seconds_where_rows_have_times_and_episodes_do_not_mix():
    X, clients, _ = delayed(1200, 2, seed=1, strength=0.4)
    times = pd.date_range("2026-01-01", periods=1200, freq="10s")
    X = {name: pd.DataFrame(Y, index=times) for name, Y in X.items()}
    est = FederatedGrangerEstimator(clients).fit(X, lengths=[700, 500])
    table = est.lagged_links(X, 3, lengths=[700, 500]).set_index(["cause", "effect"])
    row = table.loc[("unit0", "unit1")]
    assert (row["delay"], row["seconds"]) == (2.0, 20.0)


def test_bad_questions_say_what_is_wrong():
    X, clients, _ = delayed(400, 1, seed=0)
    messages = messages_of(X, clients)
    server = LikelihoodServer().fit(messages)
    for question, message in (
        (lambda: server.lagged_links(messages, 0), "n_lags=0"),
        (lambda: server.lag_orders(messages, 1.5), "max_lags=1.5"),
        (lambda: server.lagged_links(messages, "hqic"), "'aic', 'bic', 'held_out'"),
        (lambda: server.lagged_links(messages, 2, by="unit"), "'pair' or 'lag'"),
    ):
        with pytest.raises(ValueError, match=message):
            question()
    X["unit0"][::2] = np.nan
    est = FederatedGrangerEstimator(clients).fit(X)
    with pytest.raises(ValueError, match="neighbouring rows"):
        est.lagged_links(X, 2)


def test_plants_with_inputs_are_refused():
    X, truth = make_granger_plant(2, n_samples=400, n_inputs=1, random_state=0)
    est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    with pytest.raises(ValueError, match="without inputs"):
        est.lagged_links(X, 2, inputs=truth.inputs)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [1, 3])
def test_delays_over_many_records(delay):
    """Size of the tests of empty pairs, delay and strength of the link over 40 records of 2000 rows."""
    p_values, right, distance = [], 0, []
    for seed in range(40):
        X, clients, h = delayed(2000, delay, seed, strength=0.2)
        server = LikelihoodServer().fit(messages := messages_of(X, clients))
        table = server.lagged_links(messages, 4).set_index(["cause", "effect"])
        row = table.loc[("unit0", "unit1")]
        right += row["delay"] == delay
        true = 0.2 * np.sqrt(2) * h[:, 0].std() / h[:, 1].std()
        distance.append((row["delay_strength"] - true) / row["stderr"])
        p_values.extend(table["p_value"].drop(("unit0", "unit1")))
    assert right == 40
    share = np.mean(np.array(p_values) < 0.05)
    assert abs(share - 0.05) < 3 * np.sqrt(0.05 * 0.95 / len(p_values))
    assert abs(np.mean(distance)) < 4 / np.sqrt(40) + 0.3  # the norm of three more numbers' noise
