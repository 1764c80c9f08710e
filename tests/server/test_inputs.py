"""The likelihood server with inputs: estimates, tests, standard errors, feedback."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from skfedcausal import FederatedCounterfactualEstimator, KalmanClient, LikelihoodOptions, LikelihoodServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation.input_checks import feedback_table
from skfedcausal.server.joint import JointRecord
from skfedcausal.statespace.episodes import episodes, lag_covariances, lagged_rows

pytestmark = pytest.mark.medium


def messages_of(X, truth, inputs):
    """Messages of units with their true models."""
    messages = {}
    for (name, m), U in zip(truth.clients().items(), inputs, strict=True):
        client = KalmanClient(m["A"], None, m["C"], m["Q"], np.diag(m["R"])).fit(X[name])
        messages[name] = client.message(X[name]).with_inputs(U)
    return messages


def plant(n_samples=3000, seed=0, **settings):
    defaults = {"n_inputs": 2, "links": [(0, 1)], "input_links": [(0, 1)], "n_sensors": 5}
    return make_granger_plant(2, n_samples=n_samples, random_state=seed, **(defaults | settings))


def standardised_errors(server, truth):
    """Errors of the free elements of [A | B] over their standard errors."""
    c = server.coefficients_
    scale = np.linalg.inv(c.state_scale)
    true = np.hstack([scale @ truth.transition @ c.state_scale, scale @ truth.input * c.input_scale])
    error = (c.matrix - true)[c.rows, c.cols]
    return error / np.sqrt(np.diag(c.covariance))


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_the_plant_is_found_and_the_gradient_vanishes(missing):
    X, truth = plant(missing=missing, n_samples=1500)
    server = LikelihoodServer(options=LikelihoodOptions(sparsity=None)).fit(messages_of(X, truth, truth.inputs))
    assert server.converged_
    z = standardised_errors(server, truth)
    assert np.abs(z).max() < stats.norm.isf(0.0005 / len(z))


def test_whittle_and_exact_likelihood_agree_within_a_fraction_of_a_standard_error():
    X, truth = plant()
    messages = messages_of(X, truth, truth.inputs)
    fits = [LikelihoodServer(likelihood=kind).fit(messages) for kind in ("whittle", "time-domain")]
    c = fits[0].coefficients_
    assert (
        np.abs(fits[0].unshrunk_input_ - fits[1].unshrunk_input_).max()
        < 0.05 * np.sqrt(np.diag(c.covariance).max()) * np.abs(c.state_scale).max()
    )


def test_inputs_that_do_nothing_are_dropped_and_their_block_is_tested():
    X, truth = plant(6000)
    server = LikelihoodServer().fit(messages_of(X, truth, truth.inputs))
    driven = server.links_.query("kind == 'input'").set_index(["cause", "effect"])
    assert driven.loc[("unit0", "unit1"), "p_value"] < 1e-10
    assert driven.loc[("unit1", "unit0"), "p_adjusted"] > 0.05
    rows, columns = server.state_slices_["unit0"], server.input_slices_["unit1"]
    np.testing.assert_array_equal(server.unshrunk_input_[rows, columns], 0)


def test_units_may_have_different_numbers_of_states_and_inputs():
    X, truth = make_granger_plant(
        3,
        n_states=[1, 3, 2],
        n_inputs=[0, 1, 3],
        n_sensors=6,
        input_links=[(2, 0)],
        n_samples=3000,
        random_state=1,
    )
    server = LikelihoodServer().fit(messages_of(X, truth, truth.inputs))
    assert server.input_.shape == (6, 4)
    assert np.abs(server.input_ - truth.input).max() < 0.15
    assert len(server.links_.query("kind == 'input'")) == 4


class OneLag(LikelihoodServer):
    frees_lags = False


@pytest.mark.slow
def test_slow_inputs_have_honest_standard_errors():
    """A random walk in steps: nearly all its power lies below the first frequency of the information."""
    z = []
    for seed in range(12):
        X, truth = plant(2000, seed=seed, n_inputs=0, input_links=None)
        rng = np.random.default_rng(seed)
        u = np.repeat(rng.standard_normal((20, 1)), 100, axis=0)
        B = np.array([[0.5], [0.2], [0.3], [0.0]])
        h = np.zeros((2000, 4))
        for t in range(1, 2000):
            h[t] = truth.transition @ h[t - 1] + B @ u[t - 1]
        C = [m["C"] for m in truth.clients().values()]
        driven = {n: X[n] + h[:, s] @ c.T for n, s, c in zip(X, truth.state_slices.values(), C, strict=True)}
        server = OneLag(options=LikelihoodOptions(sparsity=None)).fit(messages_of(driven, truth, [u, None]))
        c = server.coefficients_
        scale = np.linalg.inv(c.state_scale)
        error = (c.matrix[:, 4] - (scale @ B * c.input_scale)[:, 0])[c.rows[c.cols == 4]]
        z.append(error / np.sqrt(np.diag(c.covariance)[c.cols == 4]))
    z = np.array(z).ravel()
    low, high = np.sqrt(stats.chi2.ppf([0.0005, 0.9995], len(z)) / len(z))
    assert low < np.sqrt((z**2).mean()) < high


@pytest.mark.slow
def test_covariances_are_those_of_repeated_records():
    z = [
        standardised_errors(
            OneLag(options=LikelihoodOptions(sparsity=None)).fit(messages_of(X, truth, truth.inputs)), truth
        )
        for X, truth in (plant(1500, seed=seed) for seed in range(60))
    ]
    share = (np.abs(z) < stats.norm.ppf(0.95)).mean()
    # elements of one record are dependent: count records, not elements
    assert abs(share - 0.9) < 3 * np.sqrt(0.9 * 0.1 / 60)


@pytest.mark.slow
def test_tests_of_no_input_have_their_size():
    p = []
    for seed in range(150):
        X, truth = plant(1000, seed=seed, input_links=[])
        table = LikelihoodServer().fit(messages_of(X, truth, truth.inputs)).links_
        p.extend(table.query("kind == 'input'")["p_value"])
    p = np.array(p)
    for level in (0.1, 0.05):
        assert abs((p < level).mean() - level) < 3.3 * np.sqrt(level * (1 - level) / len(p))


@pytest.mark.slow
def test_tests_of_no_feedback_have_their_size():
    p = []
    for seed in range(100):
        X, truth = plant(1000, seed=seed)
        p.extend(LikelihoodServer().fit(messages_of(X, truth, truth.inputs)).feedback_["p_value"])
    p = np.array(p)
    for level in (0.1, 0.05):
        assert abs((p < level).mean() - level) < 3.3 * np.sqrt(level * (1 - level) / len(p))


@pytest.mark.parametrize(("later", "column"), [(1, "p_value"), (0, "same_row_p_value"), (-2, "misfit_p_value")])
def test_what_inputs_have_to_do_with_updates_is_told_apart_by_the_row(later, column):
    """Inputs after a measurement follow it, those before it act otherwise than the plant says."""
    rng = np.random.default_rng(0)
    updates = rng.standard_normal((1000, 2))
    u = 0.3 * np.roll(updates[:, :1], later, axis=0) + rng.standard_normal((1000, 1))
    X, truth = plant(1000, n_states=1, n_inputs=1)
    messages = messages_of(X, truth, [u, rng.standard_normal((1000, 1))])
    record = JointRecord.from_messages(messages)
    table = feedback_table(record, lambda start, stop: updates[start:stop])
    table = table.set_index(["measured", "controlled"])
    assert table.loc[("unit0", "unit0"), column] < 1e-7
    others = table.drop(columns=column).filter(like="p_value").to_numpy().ravel()
    assert min(others.min(), table[column].drop(("unit0", "unit0")).min()) > 0.005


def test_feedback_statistics_are_those_of_whole_series_over_several_episodes():
    lengths = (700, 3, 1, 1200)
    X, truth = plant(sum(lengths), n_states=1, n_inputs=1)
    starts = (0, 700, 703, 704)
    messages = {
        name: replace(message, lengths=lengths) for name, message in messages_of(X, truth, truth.inputs).items()
    }
    record = JointRecord.from_messages(messages)
    updates = np.random.default_rng(0).standard_normal((record.n_samples, 2))
    u, n_lags = record.standard_known.series, 20
    past = lagged_rows(u, n_lags, starts)
    # normal equations as if every product of a lag were there, from sums that never cross an episode
    G = lag_covariances(u, range(n_lags + 1), starts)
    blocks = [[G[j - i] if j >= i else G[i - j].T for j in range(n_lags)] for i in range(n_lags)]
    rest = u - past @ np.linalg.solve(np.block(blocks), np.hstack(list(G[1:])).T)
    table = feedback_table(record, lambda start, stop: updates[start:stop])
    found = table.set_index(["measured", "controlled"]).loc[("unit1", "unit0")]
    for lags, column in ((range(1, 5), ""), (range(1), "same_row_"), (range(-5, 0), "misfit_")):
        expected = 0.0
        for lag in lags:
            C = sum(
                rest[t + lag, 0] * updates[t, 1]
                for a, b in episodes(starts, len(u))
                for t in range(a, b)
                if a <= t + lag < b
            )
            expected += C**2
        expected *= len(u) / (rest[:, 0] @ rest[:, 0]) / (updates[:, 1] @ updates[:, 1])
        assert found[f"{column}statistic"] == pytest.approx(expected, rel=1e-10)


def _second_order(seed, kind, n_samples=2000):
    """One sensor behind two states, or behind one and a dead time; the input is held for ten rows."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.uniform(-1, 1, n_samples // 10), 10)[:, None]
    Y, x, slow = np.zeros((n_samples, 1)), 0.0, 0.0
    for t in range(n_samples):
        Y[t] = x + 0.1 * rng.standard_normal()
        if kind == "controlled":
            u[t] = u[t] - 0.4 * Y[max(t - 1, 0)]
        drive = u[max(t - 5, 0), 0] if kind == "dead time" else slow
        x, slow = 0.8 * x + 0.2 * drive + 0.1 * rng.standard_normal(), 0.8 * slow + 0.2 * u[t, 0]
    return {"a": Y}, [u]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["second order", "dead time"])
def test_a_plant_that_does_not_fit_is_no_feedback(kind):
    """Of 20 open-loop records at a level of 5 %, more than 4 rejections have a probability of 0.3 %."""
    p_values = []
    for seed in range(20):
        X, inputs = _second_order(seed, kind)
        one_lag = LikelihoodServer(covariance="sandwich")
        with pytest.warns(UserWarning, match="all that earlier inputs have done: .a on a"):
            plant = FederatedCounterfactualEstimator(KalmanClient(n_states=1), server=one_lag).fit(X, inputs=inputs)
        assert not plant.server_.has_feedback_
        p_values.append(plant.feedback_["p_value"].min())
    assert np.sum(np.array(p_values) < 0.05) <= 4


@pytest.mark.parametrize("kind", ["second order", "dead time"])
def test_a_plant_of_several_lags_explains_what_inputs_have_done(kind):
    X, inputs = _second_order(0, kind)
    plant = FederatedCounterfactualEstimator(KalmanClient(n_states=1)).fit(X, inputs=inputs)  # and warns of nothing
    assert len(plant.server_.lag_transitions_) > 1
    assert plant.feedback_["misfit_p_value"].min() > 0.001


def test_a_controller_is_still_found_where_the_plant_does_not_fit():
    X, inputs = _second_order(0, "controlled")
    with pytest.warns(UserWarning, match="Inputs of 'a' depend on measurements"):
        plant = FederatedCounterfactualEstimator(KalmanClient(n_states=1)).fit(X, inputs=inputs)
    assert plant.server_.controlled_units_ == ("a",)


def test_records_with_other_inputs_than_in_fit_are_refused():
    X, truth = plant(500)
    server = LikelihoodServer().fit(messages_of(X, truth, truth.inputs))
    with pytest.raises(ValueError, match=r"inputs, in `fit` they had \(2, 2\)"):
        server.filter(messages_of(X, truth, [truth.inputs[0], None]))


def test_a_fitted_server_takes_no_series_along():
    import pickle

    X, truth = plant(20_000)
    server = LikelihoodServer().fit(messages_of(X, truth, truth.inputs))
    assert len(pickle.dumps(server)) < 160_000  # one series of one number a row
