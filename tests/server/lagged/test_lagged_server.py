"""The default server on plants that ask for several lags, and on those that do not."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import block_diag, solve_discrete_lyapunov
from sklearn.exceptions import ConvergenceWarning

from benchmarks._networks import FIVE, published
from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    KalmanClient,
    LikelihoodServer,
    inspection,
)
from skfedcausal.bases import configured
from skfedcausal.datasets import make_granger_plant
from skfedcausal.estimators._plant import state_covariance
from skfedcausal.server import fitting
from skfedcausal.server.dynamics import PaddedRecord, Plant, PlantFilter
from skfedcausal.server.estimation.scoring import Budget
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.lagged.misfit import level_of, one_lag_is_enough
from skfedcausal.server.lagged.stage import first_lags, words_by_input
from skfedcausal.statespace.episodes import PIECE

pytestmark = pytest.mark.medium

ROOT2 = 2**0.5


def five_nodes(n_samples, seed=0):
    """Baccalá and Sameshima's network: 0 acts on 1, 2 and 3 after 2, 3 and 2 rows, 3 and 4 on each other."""
    rng = np.random.default_rng(seed)
    x, w = np.zeros((n_samples + 200, 5)), rng.standard_normal((n_samples + 200, 5))
    for t in range(3, len(x)):
        a, b, c = x[t - 1], x[t - 2], x[t - 3]
        x[t] = w[t] + [
            0.95 * ROOT2 * a[0] - 0.9025 * b[0],
            0.5 * b[0],
            -0.4 * c[0],
            -0.5 * b[0] + 0.25 * ROOT2 * (a[3] + a[4]),
            0.25 * ROOT2 * (a[4] - a[3]),
        ]
    return {f"unit{m}": x[200:, [m]] for m in range(5)}


LINKS = {("unit0", "unit1"): 2, ("unit0", "unit2"): 3, ("unit0", "unit3"): 2}
LINKS |= {("unit4", "unit3"): 1, ("unit3", "unit4"): 1}


@pytest.fixture(scope="module")
def fitted():
    X = five_nodes(2000)
    return FederatedGrangerEstimator().fit(X), X


def test_links_of_a_published_network_are_found_and_dated(fitted):
    estimator, _ = fitted
    found = estimator.links_.query("verdict == 'influence'").set_index(["cause", "effect"])
    assert found["delay"].to_dict() == LINKS
    assert (found["delay_low"] <= found["delay"]).all()
    assert (found["delay"] <= found["delay_high"]).all()
    rest = estimator.links_.query("verdict != 'influence'")
    assert rest[["delay", "delay_low", "delay_high"]].isna().all(axis=None)
    server = estimator.server_
    assert server.misfit_["p_adjusted"].min() < 1e-6
    np.testing.assert_array_equal(server.lag_transitions_[0], estimator.transition_)


@pytest.mark.parametrize(("n_units", "delay"), [(3, 20), pytest.param(18, 14, marks=pytest.mark.slow)])
def test_one_link_after_a_long_dead_time_is_found_and_dated(n_units, delay):
    rng, n_samples = np.random.default_rng(0), 2000
    x = rng.standard_normal((n_samples, n_units))
    for t in range(1, n_samples):
        x[t] += 0.5 * x[t - 1]
        x[t, 1] += 0.4 * x[t - delay, 0] if t >= delay else 0.0
    X = {f"unit{m}": x[:, m : m + 1] + 0.5 * rng.standard_normal((n_samples, 4)) for m in range(n_units)}
    estimator = FederatedGrangerEstimator(KalmanClient(n_states=1)).fit(X)
    found = estimator.links_.query("verdict == 'influence'")
    assert found[["cause", "effect"]].to_numpy().tolist() == [["unit0", "unit1"]]
    assert found["delay"].tolist() == [delay]
    # all other tests of later lags agree with one lag: only the channel's own late lag asks for more
    asked = estimator.server_.misfit_.query("p_adjusted < 1e-3")
    assert asked[["cause", "effect"]].to_numpy().tolist() == [["unit0", "unit1"]]


@pytest.mark.parametrize("delay", [18, 45])
def test_an_input_that_acts_after_a_long_dead_time_has_its_effect(delay):
    rng, n_samples = np.random.default_rng(0), 2000
    x, u = rng.standard_normal((n_samples, 2)), rng.standard_normal((n_samples, 1))
    for t in range(delay, n_samples):
        x[t] += 0.6 * x[t - 1] + [0.5 * u[t - delay, 0], 0.0]
    X = {f"unit{m}": x[:, [m]] + 0.5 * rng.standard_normal((n_samples, 4)) for m in range(2)}
    estimator = FederatedCounterfactualEstimator(KalmanClient(n_states=1)).fit(X, inputs={"unit0": u})
    effect = estimator.counterfactual("unit0", [0.0], [1.0], horizon=delay + 30).iloc[:, 0].to_numpy()
    assert np.abs(effect[: delay - 3]).max() < 0.2
    assert effect[-1] == pytest.approx(0.5 / 0.4, abs=0.25)  # a score of lags has one per cent of its variance


def test_one_step_predictions_are_as_good_as_the_truth_allows(fitted):
    estimator, _ = fitted
    X = five_nodes(3000, seed=1)
    tail = slice(50, None)
    error = np.hstack(list(X.values()))[tail] - estimator.predict(X, model="server")[tail]
    # noise of unit variance; lags that are estimated from 2000 rows cost a few per cent
    assert np.abs(error.var(axis=0) - 1).max() < 0.05 + 4 * np.sqrt(2 / 2950)
    entropy = -2.5 * (np.log(2 * np.pi) + 1)
    assert estimator.score(X) > entropy - 0.05 - 4 * np.sqrt(2.5 / 3000)


def test_a_forecast_is_the_recursion_of_the_lags(fitted):
    estimator, X = fitted
    A, start = estimator.server_.lag_transitions_, 1900
    forecast = estimator.forecast(X, start)
    clients = [estimator.clients_[name] for name in estimator.client_names_]
    C = block_diag(*(np.asarray(client.observation_) for client in clients))
    level = np.concatenate([np.ravel(client.mean_) for client in clients])
    states = np.linalg.solve(C, (forecast - level).T).T
    later = np.arange(len(A), len(states))
    expected = sum(states[later - k] @ A[k - 1].T for k in range(1, len(A) + 1))
    np.testing.assert_allclose(states[later], expected, atol=1e-8 * np.abs(states).max())


def test_the_filter_of_several_lags_is_the_conditional_mean(fitted):
    """Against the whole joint Gaussian of a short record."""
    rng = np.random.default_rng(5)
    A = np.array([[[0.5, 0.2], [0.0, 0.4]], [[0.1, 0.0], [0.3, -0.2]], [[0.0, 0.1], [0.0, 0.1]]])
    Q = np.array([[1.0, 0.3], [0.3, 0.8]])
    dynamics = Plant(A, np.zeros((2, 2, 0)), Q, NoPoint)
    J, n_samples = np.diag([2.0, 1.0]), 12
    z = rng.normal(size=(n_samples, 2))
    run = dynamics.run(record_of(z, J))
    covariance = joint_covariance(dynamics, n_samples)
    for t in (0, 1, 5, 11):
        seen = slice(0, 2 * (t + 1))
        S = np.linalg.inv(np.linalg.inv(covariance[seen, seen]) + np.kron(np.eye(t + 1), J))
        expected = S @ z[: t + 1].ravel()
        np.testing.assert_allclose(run.filtered[t], expected[-2:], atol=1e-9)
        if t:
            before = expected_before(covariance, z, J, t)
            np.testing.assert_allclose(run.predicted[t], before, atol=1e-9)
    hindsight = run.hindsight()
    np.testing.assert_allclose(hindsight[-1], run.filtered[-1], atol=1e-9)
    S = np.linalg.inv(np.linalg.inv(covariance[:24, :24]) + np.kron(np.eye(12), J))
    np.testing.assert_allclose(hindsight[-2], (S @ z.ravel())[-4:-2], atol=1e-9)


class NoPoint:
    """An operating point without inputs or shifts."""

    steps = ()


def record_of(z, J, patterns=None, index=None):
    from skfedcausal.statespace.observation import Information

    parts = []
    for m in range(2):
        own = J[None, m : m + 1, m : m + 1] if patterns is None else patterns[:, m : m + 1, m : m + 1]
        parts.append(Information(z[:, [m]], own, index))
    return JointRecord(("a", "b"), tuple(parts), (0,))


def joint_covariance(dynamics, n_samples):
    from skfedcausal.statespace.kalman import stationary_covariance

    n, F = dynamics.n_states, dynamics.transition
    S = stationary_covariance(F, dynamics.process_cov)
    powers = [np.linalg.matrix_power(F, k) @ S for k in range(n_samples)]
    return np.block(
        [[(powers[i - j] if i >= j else powers[j - i].T)[:n, :n] for j in range(n_samples)] for i in range(n_samples)]
    )


def expected_before(covariance, z, J, t):
    seen, own = slice(0, 2 * t), slice(2 * t, 2 * t + 2)
    S = np.linalg.inv(np.linalg.inv(covariance[seen, seen]) + np.kron(np.eye(t), J))
    return covariance[own, seen] @ np.linalg.solve(covariance[seen, seen], S @ z[:t].ravel())


def test_gaps_are_filtered_as_by_the_filter_of_one_lag():
    rng = np.random.default_rng(6)
    A = np.array([[[0.5, 0.2], [0.0, 0.4]], [[0.1, 0.0], [0.3, -0.2]]])
    dynamics = Plant(A, np.zeros((2, 2, 0)), np.diag([1.0, 0.5]), NoPoint)
    patterns = np.array([np.diag([2.0, 1.0]), np.zeros((2, 2)), np.diag([0.5, 1.0])])
    index = rng.integers(3, size=PIECE)
    index[100:200] = 1
    z = rng.normal(size=(PIECE, 2)) * (index != 1)[:, None]
    record = record_of(z, None, patterns, index)
    run = dynamics.run(record)
    plain = PlantFilter(dynamics.transition, dynamics.process_cov, PaddedRecord(dynamics, record))
    np.testing.assert_allclose(run.filtered, plain.filtered[:, :2], atol=1e-9)
    np.testing.assert_allclose(run.predicted, plain.predicted[:, :2], atol=1e-9)
    np.testing.assert_allclose(run.plain._with_gaps[2], plain._with_gaps[2], atol=1e-9)
    np.testing.assert_allclose(run.unit_log_densities(), plain.unit_log_densities(), atol=1e-9)


def test_a_record_of_one_lag_gives_the_same_numbers_with_and_without_the_test(monkeypatch):
    X, _ = make_granger_plant(3, links=[("unit0", "unit2")], n_samples=1500, random_state=0)
    kept = FederatedGrangerEstimator().fit(X)
    assert len(kept.server_.lag_transitions_) == 1
    assert kept.server_.misfit_["p_adjusted"].min() > 0.05
    influence = kept.links_["verdict"] == "influence"
    assert (kept.links_.loc[influence, ["delay", "delay_low", "delay_high"]] == 1.0).all(axis=None)
    monkeypatch.setattr(fitting, "lag_tests", lambda plant, scoring: None)
    without = FederatedGrangerEstimator().fit(X)
    for name in ("transition_", "process_cov_"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(without, name))
    assert kept.links_.equals(without.links_)
    np.testing.assert_array_equal(kept.predict(X), without.predict(X))


@pytest.mark.parametrize("seed", [336, 412])
def test_where_a_prior_backs_one_lag_less_is_asked_before_several_are_compared(seed):
    units = published(FIVE, 2000, seed, n_sensors=4)
    server = FederatedGrangerEstimator().fit(units.X).server_
    assert server.has_prior_
    assert one_lag_is_enough(server.misfit_)
    assert not one_lag_is_enough(server.misfit_, level_of(has_gaps=False, is_backed=True))
    assert len(server.lag_transitions_) > 1


@pytest.mark.parametrize("share", [0.0, pytest.param(0.1, marks=pytest.mark.slow)])
def test_pooled_and_federated_plants_of_several_lags_are_the_same(share):
    rng = np.random.default_rng(7)
    X = {name: np.where(rng.random(Y.shape) < share, np.nan, Y) for name, Y in sensed(five_nodes(1000)).items()}
    estimator = FederatedGrangerEstimator().fit(X)
    assert len(estimator.server_.lag_transitions_) > 1
    assert inspection.oracle_gap(estimator, X) < 1e-8
    pooled = inspection.oracle(estimator, X)
    np.testing.assert_allclose(estimator.server_.lag_transitions_, pooled.server_.lag_transitions_, atol=1e-8)
    assert estimator.links_["delay"].equals(pooled.links_["delay"])


def sensed(X, noise=0.3):
    rng = np.random.default_rng(8)
    return {name: x @ np.ones((1, 3)) + noise * x.std() * rng.normal(size=(len(x), 3)) for name, x in X.items()}


def test_a_level_that_shifts_does_not_stop_the_lags():
    X = sensed(five_nodes(2000))
    X["unit1"] = X["unit1"] + 8.0 * (np.arange(2000) > 1200)[:, None]
    estimator = FederatedGrangerEstimator().fit(X)
    assert len(estimator.server_.lag_transitions_) > 1
    error = X["unit1"] - estimator.predict(X)[:, 3:6]
    assert np.abs(error[1300:].mean()) < 1.0  # of a level of eight


def test_every_answer_uses_the_lags(fitted):
    estimator, X = fitted
    server = estimator.server_
    table = inspection.link_intervals(estimator, geweke=True)
    linked = [(row.cause, row.effect) in LINKS for row in table.itertuples()]
    assert (table["low"] <= table["norm"]).all()
    assert (table["norm"] <= table["high"])[linked].all()  # noise alone may be less than its mean
    assert (table.loc[linked, "low"] > 0).all()
    spectrum = inspection.spectrum(estimator, "unit0", "unit1")
    row = estimator.links_.set_index(["cause", "effect"]).loc[("unit0", "unit1")]
    np.testing.assert_allclose(spectrum.attrs["total"], row["geweke"], rtol=1e-6)
    banded = inspection.spectrum(estimator, "unit0", "unit1", confidence=0.9)
    assert (banded["low"] <= banded["measure"]).all()
    assert (banded["measure"] <= banded["high"]).all()
    assert (banded["low"] > 0).all()  # as the link's own interval
    messages = {name: estimator.clients_[name].message(Y) for name, Y in X.items()}
    reply = server.replies(messages)["unit1"]
    states = server.filter(messages).filtered
    np.testing.assert_array_equal(reply.transition[0], server.lag_transitions_[:, 1, 1])
    run, t = server.filter(messages), 1000
    last = run.plain.filtered[t - 1].reshape(-1, 5)  # given rows up to t - 1
    own = server.lag_transitions_[:, 1, 1] @ last[:, 1]
    assert abs(reply.cross_term[t, 0] + own - run.predicted[t, 1]) < 1e-12
    smoothed = np.hstack([part.states for part in server.smoothed(messages).values()])
    assert smoothed.shape == states.shape


def test_links_are_tested_over_all_lags_or_not_at_all(fitted):
    estimator, X = fitted
    table = estimator.test_links(X, "score")
    links = estimator.links_
    np.testing.assert_array_equal(table["p_value"], links["p_value"])
    np.testing.assert_array_equal(table["p_holm"], links["p_adjusted"])
    assert (table["p_fdr"] <= table["p_holm"] + 1e-15).all()
    found = table.loc[table["in_model"], ["cause", "effect"]]
    assert set(zip(found["cause"], found["effect"], strict=True)) >= set(LINKS)
    for method in ("lr", "wald"):
        with pytest.raises(ValueError, match=f"method='{method}'; the plant has several lags"):
            estimator.test_links(X, method)


@pytest.mark.medium
@pytest.mark.parametrize("method", ["blocks", pytest.param("parametric", marks=pytest.mark.slow)])
def test_resampled_records_scatter_as_standard_errors_say(fitted, method):
    estimator, X = fitted
    table = inspection.bootstrap_links(estimator, X, n_resamples=40, method=method, random_state=0)
    linked = np.array([(row.cause, row.effect) in LINKS for row in table.itertuples()])
    ratio = (table["bootstrap_stderr"] / table["stderr"])[linked]
    assert np.all((ratio > 0.5) & (ratio < 2.5))  # of 40 resamples: within a ninth of what it is
    assert (table["bootstrap_p_value"][linked] < 0.05).all()
    expected = estimator.links_.set_index(["cause", "effect"])["norm"]
    found = table.set_index(["cause", "effect"])["norm"]
    clear = expected[expected > 0.3].index
    np.testing.assert_allclose(found[clear], expected[clear], rtol=0.05)
    few = {"n_resamples": 3, "method": method, "random_state": 0}
    one, two = (inspection.bootstrap_links(estimator, X, **few, n_jobs=n_jobs) for n_jobs in (1, 2))
    pd.testing.assert_frame_equal(one, two)


@pytest.mark.medium
def test_links_over_several_lags_are_found_in_most_halves(fitted):
    estimator, X = fitted
    table = inspection.stable_links(estimator, X, n_resamples=6, random_state=0)
    stable = {(row.cause, row.effect) for row in table.itertuples() if row.stable}
    assert stable == set(LINKS)
    with pytest.raises(ValueError, match="has 4 blocks to draw from"):
        inspection.stable_links(estimator, X, block_length=len(next(iter(X.values()))) // 4)


def test_a_report_says_how_far_back_units_act(fitted, tmp_path):
    pytest.importorskip("matplotlib")
    page = tmp_path / "plant.html"
    fitted[0].report(page)
    assert f"over up to {len(fitted[0].lag_transitions_)} time steps" in page.read_text()


def test_a_detector_watches_with_all_lags():
    detector = FederatedRCADetector(server=LikelihoodServer(), false_alarm_rate=0.01).fit(five_nodes(2000))
    assert len(detector.lag_transitions_) > 1
    np.testing.assert_array_equal(detector._root_cause.model.A, detector.lag_transitions_)
    np.testing.assert_array_equal(detector._root_cause.model.Q, detector.process_cov_)


def test_the_variance_of_states_counts_all_lags(fitted):
    server = fitted[0].server_
    dynamics = server.plant_
    expected = solve_discrete_lyapunov(dynamics.transition, dynamics.process_cov)[:5, :5]
    np.testing.assert_allclose(
        state_covariance(server.lag_transitions_, server.process_cov_), expected, rtol=1e-8, atol=1e-10
    )


def test_a_unit_predicts_at_home_with_all_its_lags(fitted):
    """unit0 follows itself alone, noise of variance 1: its augmented prediction is as good as the plant's."""
    estimator, _ = fitted
    later = five_nodes(2000, seed=1)
    error = np.asarray(estimator.predict(later))[5:, 0] - later["unit0"][5:, 0]
    # 4 standard errors of a standard deviation, and what three estimated coefficients add to a variance
    assert error.std() < 1 + 4 / np.sqrt(2 * 2000) + 3 / 2000
    assert estimator.augmenters_["unit0"].theta_.shape == (1, 1)


def test_a_budget_that_is_spent_says_so_and_leaves_a_plant():
    server = LikelihoodServer(max_time=0.01)
    with pytest.warns(ConvergenceWarning, match="max_time"):
        estimator = FederatedGrangerEstimator(server=server).fit(five_nodes(2000))
    assert np.isfinite(estimator.transition_).all()
    assert np.isfinite(estimator.links_["p_value"]).all()


def test_a_budget_counts_work_and_not_seconds():
    budget = Budget(1.0)
    budget.spend(1e9)
    assert not budget.is_spent
    budget.spend(1.1e9)
    assert budget.is_spent
    assert not budget.stopped_by_clock


def same_row(n_samples=2000, seed=9):
    """Two units; an input that is new in every row acts on the first in that row, the first on the second."""
    rng = np.random.default_rng(seed)
    u, h = rng.normal(size=n_samples), np.zeros((n_samples, 2))
    for t in range(1, n_samples):
        h[t] = [0.6 * h[t - 1, 0] + u[t], 0.5 * h[t - 1, 1] + 0.5 * h[t - 1, 0]]
        h[t] += 0.3 * rng.normal(size=2)
    X = {f"unit{m}": h[:, [m]] + 0.1 * rng.normal(size=(n_samples, 3)) for m in range(2)}
    return X, {"unit0": u[:, None]}


@pytest.mark.parametrize("sampled", ["auto", "before", {"unit0": "before"}])
def test_an_input_that_acts_in_its_row_is_known_to_do_so(sampled):
    X, inputs = same_row()
    server = LikelihoodServer(sampled=sampled)
    estimator = FederatedCounterfactualEstimator(server=server).fit(X, inputs=inputs)
    B = np.stack([estimator.server_.input_at_once_, estimator.server_.lag_inputs_[0]])
    assert estimator.server_.acts_at_once
    np.testing.assert_array_equal(estimator.input_at_once_, B[0])
    C = np.asarray(estimator.clients_["unit0"].observation_)
    # of the mean of the unit's sensors, which is the state: 1, with a standard error of 0.3 / sqrt(2000)
    assert abs((C @ B[0, :1]).mean() - 1) < 0.05
    assert np.abs(B[1]).max() < 0.2 * np.abs(B[0]).max()


def test_a_unit_uses_its_inputs_of_all_lags_at_home():
    X, inputs = same_row()
    estimator = FederatedCounterfactualEstimator().fit(X, inputs=inputs)
    found = {m: np.asarray(estimator.predict(X, inputs=inputs, model=m))[5:, :3] for m in ("augmented", "server")}
    errors = {m: (predicted - X["unit0"][5:]).std() for m, predicted in found.items()}
    assert errors["augmented"] < 1.02 * errors["server"]  # nobody acts on unit0
    level = {"unit0": inputs["unit0"] + 5.0}
    again = FederatedCounterfactualEstimator().fit(X, inputs=level).predict(X, inputs=level)
    np.testing.assert_allclose(np.asarray(again)[5:, :3], found["augmented"], atol=1e-8)


@pytest.mark.parametrize("where", ["server", "units", "dead time"])
def test_the_transfer_function_gives_the_effects(where):
    """Impulse responses summed up are the effect of a held change, whoever knows when the input acts."""
    said = {"sampled": "before"} if where == "units" else {}
    X, inputs = dead_time() if where == "dead time" else same_row()
    estimator = FederatedCounterfactualEstimator(**said).fit(X, inputs=inputs)
    G = estimator.transfer_function()
    assert (G.D is None) == (where == "dead time")
    impulses = np.array([G.C @ np.linalg.matrix_power(G.A, k) @ G.B[:, 0] for k in range(12)])
    effect = estimator.counterfactual("unit0", 0.0, 1.0, horizon=12).to_numpy()
    steps = np.cumsum(impulses, axis=0)
    if where != "dead time":  # the effect is told from the row after the move on
        steps = steps + G.D[:, 0]
    np.testing.assert_allclose(effect, steps, atol=1e-8)
    assert inspection.oracle_gap(estimator, X, inputs=inputs) < 1e-6


def test_attributes_of_all_lags_are_those_of_the_server(fitted):
    estimator, X = fitted
    assert estimator.lag_transitions_ is estimator.server_.lag_transitions_
    np.testing.assert_array_equal(estimator.lag_transitions_[0], estimator.transition_)
    assert inspection.oracle_gap(estimator, X) < 1e-6
    X, inputs = dead_time()
    found = FederatedCounterfactualEstimator().fit(X, inputs=inputs)
    np.testing.assert_array_equal(found.lag_inputs_[0], found.input_)
    np.testing.assert_array_equal(found.lag_inputs_, found.server_.lag_inputs_)
    assert np.abs(found.lag_inputs_[:, 0, 0]).argmax() == 6  # seven rows later
    assert not found.input_at_once_.any()


def test_after_keeps_an_input_out_of_its_row():
    X, inputs = same_row()
    server = LikelihoodServer(sampled="after")
    with pytest.warns(UserWarning, match="move together within a row"):
        estimator = FederatedCounterfactualEstimator(server=server).fit(X, inputs=inputs)
    assert not estimator.server_.acts_at_once
    assert not np.any(estimator.server_.input_at_once_)


@pytest.mark.parametrize(
    "settings",
    [{"covariance": "sandwich"}, {"likelihood": "time-domain"}, {"fix_local": True}],
    ids=lambda given: next(iter(given)),
)
def test_a_server_of_one_lag_refuses_inputs_that_act_at_once(settings):
    X, inputs = same_row(400)
    server = configured(LikelihoodServer, {"sampled": {"unit0": "before"}} | settings)
    with pytest.raises(ValueError, match=r"inputs of unit0 were set before .* act in it, but with this"):
        FederatedCounterfactualEstimator(server=server).fit(X, inputs=inputs)


def test_a_server_refuses_inputs_that_act_at_once_where_states_are_hardly_seen():
    X, inputs = same_row(400)
    X["unit1"][1::2] = np.nan
    server = LikelihoodServer(sampled="before")
    with pytest.raises(ValueError, match="do not determine its states in most rows"):
        FederatedCounterfactualEstimator(server=server).fit(X, inputs=inputs)


def test_what_is_said_of_timing_holds_in_short_records():
    X, inputs = same_row(150)
    estimator = FederatedCounterfactualEstimator(server=LikelihoodServer(sampled="before")).fit(X, inputs=inputs)
    assert estimator.server_.acts_at_once


def test_timing_is_given_for_inputs_that_there_are():
    assert words_by_input({"b": ["after", "before"]}, ("a", "b"), (1, 2)) == ["auto", "after", "before"]
    with pytest.raises(ValueError, match="names units"):
        words_by_input({"c": "after"}, ("a", "b"), (1, 2))
    with pytest.raises(ValueError, match="one for each input"):
        words_by_input({"b": ["after"]}, ("a", "b"), (1, 2))


def dead_time(n_samples=2000, seed=10):
    """An input that acts on a unit seven rows later."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.normal(size=n_samples // 10 + 1), 10)[:n_samples]
    h = np.zeros(n_samples)
    for t in range(1, n_samples):
        h[t] = 0.8 * h[t - 1] + (0.5 * u[t - 7] if t >= 7 else 0.0) + 0.1 * rng.normal()
    return {"unit0": h[:, None] + 0.1 * rng.normal(size=(n_samples, 3))}, {"unit0": u[:, None]}


def test_the_effect_of_an_input_with_dead_time_is_the_true_one():
    X, inputs = dead_time()
    estimator = FederatedCounterfactualEstimator().fit(X, inputs=inputs)
    change = np.zeros((60, 1))
    change[:30] = 1.0
    reply = estimator.server_.effects(change)["unit0"]
    C = np.asarray(estimator.clients_["unit0"].observation_)
    effect = (reply.states @ C.T).mean(axis=1)
    true = np.zeros(61)
    for t in range(1, 61):
        true[t] = 0.8 * true[t - 1] + (0.5 * change[t - 7, 0] if t >= 7 else 0.0)
    assert np.linalg.norm(effect - true[1:]) < 0.05 * np.linalg.norm(true)
    sd = np.sqrt(np.einsum("i,tij,j->t", C.mean(axis=0), reply.covariances, C.mean(axis=0)))
    large = true[1:] > 0.02 * true.max()
    assert np.mean(np.abs(effect - true[1:])[large] < 3 * sd[large]) > 0.9


def test_a_plant_at_the_border_of_stability_stays_inside():
    rng = np.random.default_rng(11)
    h = np.cumsum(np.cumsum(rng.normal(size=(1500, 2)), axis=0) * 0.02, axis=0)
    X = {f"unit{m}": h[:, [m]] + rng.normal(size=(1500, 3)) for m in range(2)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = FederatedGrangerEstimator().fit(X)
    A = estimator.server_.lag_transitions_
    dynamics = Plant(A, np.zeros((2, A.shape[1], 0)), np.eye(A.shape[1]))
    assert np.abs(np.linalg.eigvals(dynamics.transition)).max() < 1
    assert np.isfinite(estimator.forecast(X, 1000)).all()


@pytest.mark.parametrize("settings", [{"covariance": "hac"}, {"likelihood": "time-domain"}])
def test_some_settings_keep_one_lag(settings):
    estimator = FederatedGrangerEstimator(server=configured(LikelihoodServer, settings)).fit(five_nodes(600))
    assert len(estimator.server_.lag_transitions_) == 1
    assert len(estimator.server_.misfit_) == 0


@pytest.mark.slow
@pytest.mark.parametrize("n_samples", [500, 5000])
def test_plants_of_one_lag_keep_it(n_samples):
    """At most two per cent of plants of one lag: among 200 at most nine, with probability 0.99."""
    n_lagged = 0
    for seed in range(200):
        X, truth = make_granger_plant(3, n_links=0, n_samples=n_samples, random_state=seed)
        clients = [KalmanClient(C=C) for C in truth.observation]
        n_lagged += len(FederatedGrangerEstimator(clients).fit(X).server_.lag_transitions_) > 1
    assert n_lagged <= 9


@pytest.mark.parametrize("size", [0.0, 1e-14])
def test_states_and_inputs_that_rows_before_say_exactly_do_not_act_within_a_row(size):
    """What is left of them is rounding, which goes together with anything."""
    rng, t = np.random.default_rng(0), np.arange(400)
    wave = np.cos(2 * np.pi * np.outer(t, [1 / 40, 1 / 16])) + size * rng.standard_normal((400, 2))
    noise = rng.standard_normal((400, 2))
    for series in (np.hstack([wave, noise]), np.hstack([noise, wave]), np.hstack([wave, wave])):
        assert first_lags(["auto", "auto"], series, (0,), 2).tolist() == [1, 1]
