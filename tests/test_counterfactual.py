"""The counterfactual estimator: inputs in, questions answered, bad questions refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfedcausal import (
    Baseline,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    InputModel,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
    MomentServer,
    RegressorServer,
    inspection,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation.input_checks import InputsNotSeparableError
from skfedcausal.server.links.curves import UNTESTED

NAMES = ("unit0", "unit1", "unit2")


def make_plant(n_samples=1500, seed=0, **settings):
    defaults = {"links": [(0, 1), (1, 2)], "n_inputs": [2, 1, 0], "input_links": [(0, 1)], "n_sensors": 5}
    return make_granger_plant(3, n_samples=n_samples, random_state=seed, **(defaults | settings))


def inputs_of(truth):
    return dict(zip(truth.names, truth.inputs, strict=True))


def flat(X, truth):
    """One table with the inputs after the sensors of each unit."""
    parts = {}
    for name, U in zip(truth.names, truth.inputs, strict=True):
        parts |= {f"{name}__x{k}": column for k, column in enumerate(X[name].T)}
        parts |= {} if U is None else {f"{name}__u{k}": column for k, column in enumerate(U.T)}
    return pd.DataFrame(parts)


X, TRUTH = make_plant()
INPUTS = inputs_of(TRUTH)
U_COLUMNS = ["unit0__u0", "unit0__u1", "unit1__u0"]


@pytest.fixture(scope="module")
def fitted():
    return FederatedCounterfactualEstimator().fit(X, inputs=INPUTS)


def given_clients(truth):
    return {
        name: KalmanClient(m["A"], None, m["C"], m["Q"], np.diag(m["R"]), baseline=Baseline(center=False))
        for name, m in truth.clients().items()
    }


def true_response(truth, change):
    """Effect on all measurements, one row per step ahead."""
    h, rows = np.zeros(len(truth.transition)), []
    for du in change:
        h = truth.transition @ h + truth.input @ du
        rows.append(
            np.concatenate([m["C"] @ h[s] for m, s in zip(truth.clients().values(), slices(truth), strict=True)])
        )
    return np.array(rows)


def slices(truth):
    return truth.state_slices.values()


# --- what is learned ------------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore:Inputs of 'unit0' depend on measurements:UserWarning")
@pytest.mark.parametrize(("shift", "first_step"), [(-1, 2), (0, 1), (1, 0)])
def test_an_input_is_found_to_act_when_it_does(shift, first_step):
    """An input recorded a row early acts two rows later, one recorded a row late in the same row, before the first."""
    X, truth = make_granger_plant(1, n_inputs=1, n_samples=3000, random_state=1)
    B = (truth.clients()["unit0"]["C"] @ truth.input)[:, 0]
    est = FederatedCounterfactualEstimator().fit(X, inputs=[np.roll(truth.inputs[0], shift, axis=0)])
    effect = est.counterfactual(0, 0, 1, horizon=3)
    assert effect.index.tolist() == [1, 2, 3]
    if first_step == 0:
        B, first_step = B + (truth.clients()["unit0"]["C"] @ truth.transition @ truth.input)[:, 0], 1
    assert np.linalg.norm(effect.loc[first_step] - B) < 0.1 * np.linalg.norm(B)
    if first_step == 2:
        assert np.linalg.norm(effect.loc[1]) < 0.1 * np.linalg.norm(B)


@pytest.mark.medium
def test_links_have_a_row_for_each_pair_and_kind(fitted):
    table = fitted.links_
    state, driven = (table[table["kind"] == kind] for kind in ("state", "input"))
    assert len(state) == 6
    assert set(driven["cause"]) == {"unit0", "unit1"}  # unit2 has no inputs
    assert len(driven) == 4
    assert table["p_value"].notna().all()
    found = set(zip(driven["cause"], driven["effect"], strict=True)) if len(driven) else set()
    influence = driven[driven["verdict"] == "influence"]
    assert ("unit0", "unit1") in found
    assert list(zip(influence["cause"], influence["effect"], strict=True)) == [("unit0", "unit1")]


@pytest.mark.medium
def test_federated_and_pooled_estimates_agree(fitted):
    assert inspection.oracle_gap(fitted, X, inputs=INPUTS) < 1e-8


@pytest.mark.medium
def test_every_container_gives_the_same_plant(fitted):
    table = flat(X, TRUTH)
    inside = FederatedCounterfactualEstimator(input_columns=U_COLUMNS).fit(table)
    as_list = FederatedCounterfactualEstimator().fit(list(X.values()), inputs=TRUTH.inputs)
    by_rule = FederatedCounterfactualEstimator(input_columns=lambda name: "__u" in name).fit(table)
    for other in (inside, as_list, by_rule):
        np.testing.assert_allclose(other.transition_, fitted.transition_, atol=1e-8)
        np.testing.assert_allclose(other.input_, fitted.input_, atol=1e-8)
    assert inside.predict(table).shape == (1500, 15)  # the inputs are not predicted


@pytest.mark.medium
def test_it_works_in_pipelines_and_searches():
    table = flat(X, TRUTH)
    model = make_pipeline(
        StandardScaler().set_output(transform="pandas"),
        FederatedCounterfactualEstimator(input_columns=U_COLUMNS),
    )
    search = GridSearchCV(
        model,
        {"federatedcounterfactualestimator__client": [KalmanClient(n_states=1), KalmanClient(n_states=2)]},
        cv=TimeSeriesSplit(2),
    ).fit(table)
    assert search.best_params_["federatedcounterfactualestimator__client"].n_states == 2


@pytest.mark.medium
def test_permuting_the_units_permutes_the_answers(fitted):
    order = ("unit2", "unit0", "unit1")
    other = FederatedCounterfactualEstimator().fit(
        {name: X[name] for name in order}, inputs={name: INPUTS[name] for name in order}
    )
    expected = fitted.counterfactual("unit0", [0, 0], [1, -1], horizon=6)
    found = other.counterfactual("unit0", [0, 0], [1, -1], horizon=6)
    np.testing.assert_allclose(found[expected.columns], expected, atol=1e-6)


def test_a_plant_without_inputs_is_the_granger_plant():
    est = FederatedCounterfactualEstimator().fit(X)
    assert est.input_.shape == (6, 0)
    with pytest.raises(ValueError, match="has no inputs"):
        est.counterfactual(0, 0, 1)


@pytest.mark.medium
def test_missing_measurements_go_through_the_exact_likelihood():
    X, truth = make_plant(800, missing=0.1)
    est = FederatedCounterfactualEstimator().fit(X, inputs=inputs_of(truth))
    assert est.server_.likelihood_ == "time-domain"
    effect = est.counterfactual("unit0", [0, 0], [1, 0], horizon=3).to_numpy()
    expected = true_response(truth, np.tile([1.0, 0, 0], (3, 1)))
    assert np.linalg.norm(effect - expected) < 0.3 * np.linalg.norm(expected)


@pytest.mark.medium
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_unit_without_noise_of_its_own_is_learned(missing):
    """Its likelihood rises towards a singular process covariance."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal((400, 2))
    x = np.zeros((400, 2))
    for t in range(1, 400):
        x[t, 0] = 0.5 * x[t - 1, 0] + u[t - 1, 0] + 0.3 * rng.standard_normal()
        x[t, 1] = 0.6 * x[t - 1, 1] + 0.5 * u[t - 1, 1]
    X = {f"unit{m}": np.outer(x[:, m], [1, 0.5, -1]) + 0.3 * rng.standard_normal((400, 3)) for m in (0, 1)}
    X = {name: np.where(rng.random(Y.shape) < missing, np.nan, Y) for name, Y in X.items()}
    est = FederatedCounterfactualEstimator().fit(X, inputs={"unit0": u[:, :1], "unit1": u[:, 1:]})
    links = est.links_  # what a curve adds to a unit without news of its own would drown in its sensors' noise
    assert (links.verdict.eq("no influence") | links.because.eq(UNTESTED)).all()
    effect = est.counterfactual("unit1", 0.0, 1.0, horizon=2)
    np.testing.assert_allclose(effect["unit1__x0"], [0.5, 0.8], rtol=0.1)


@pytest.mark.medium
def test_local_blocks_stay_as_given():
    clients = {
        name: KalmanClient(m["A"], m["B"], m["C"], m["Q"], np.diag(m["R"])) for name, m in TRUTH.clients().items()
    }
    clients["unit2"] = clients["unit2"].set_params(B=None)
    est = FederatedCounterfactualEstimator(
        clients, server=LikelihoodServer(shrink=False, options=LikelihoodOptions(fix_local=True))
    )
    est.fit(X, inputs=INPUTS)
    for name in ("unit0", "unit1"):
        rows, columns = est.state_slices_[name], est.input_slices_[name]
        np.testing.assert_allclose(est.transition_[rows, rows], clients[name].A, atol=1e-10)
        np.testing.assert_allclose(est.input_[rows, columns], clients[name].B, atol=1e-10)


@pytest.mark.medium
def test_what_units_do_not_know_of_their_own_inputs_is_learned_with_local_blocks_fixed():
    """A without B: as its standard errors say, within 4.5 of them; given it has none."""
    clients = given_clients(TRUTH)
    server = LikelihoodServer(options=LikelihoodOptions(fix_local=True))
    est = FederatedCounterfactualEstimator(clients, server=server).fit(X, inputs=INPUTS)
    effect, std = est.counterfactual("unit1", 0, 1, return_std=True)
    own = [column for column in effect if column.startswith("unit1")]
    expected = true_response(TRUTH, np.array([[0.0, 0.0, 1.0]]))[0][5:10]
    error = effect[own].to_numpy()[0] - expected
    np.testing.assert_array_less(np.abs(error), 4.5 * std[own].to_numpy()[0])
    np.testing.assert_array_less(0.01 * np.abs(expected), std[own].to_numpy()[0])


# --- questions -------------------------------------------------------------------------------------


def test_the_first_step_is_the_equation_of_the_paper(fitted):
    """ATE = C_m B_mn (u1 - u0), equation 3."""
    u0, u1 = np.array([0.3, -0.2]), np.array([1.0, 0.5])
    effect = fitted.counterfactual("unit0", u0, u1, horizon=4)
    for name in NAMES:
        columns = [c for c in effect if c.startswith(f"{name}__")]
        block = fitted.input_[fitted.state_slices_[name], fitted.input_slices_["unit0"]]
        expected = fitted.clients_[name].observation_ @ block @ (u1 - u0)
        np.testing.assert_allclose(effect.loc[1, columns], expected, atol=1e-12)
    assert list(effect.index) == [1, 2, 3, 4]


def test_a_held_change_sums_the_joint_responses(fitted):
    effect = fitted.counterfactual("unit1", 0, 2.0, horizon=5, of="state")
    A, B = fitted.transition_, fitted.input_[:, 2]
    expected = sum(np.linalg.matrix_power(A, j) for j in range(5)) @ B * 2.0
    np.testing.assert_allclose(effect.loc[5], expected, atol=1e-12)


def test_effects_add_over_time_and_inputs(fitted):
    rng = np.random.default_rng(0)
    first, second = rng.uniform(-1, 1, (2, 7, 2))
    zero = np.zeros((7, 2))
    parts = [fitted.counterfactual("unit0", zero, u, horizon=7) for u in (first, second, first + second)]
    np.testing.assert_allclose(parts[0] + parts[1], parts[2], atol=1e-12)
    split = fitted.counterfactual("unit0", zero, first, horizon=7, split=True)
    np.testing.assert_allclose(split["unit0__u0"] + split["unit0__u1"], parts[0], atol=1e-12)
    pulse = np.zeros((7, 2))
    pulse[2] = [1, 0]
    late = fitted.counterfactual("unit0", zero, pulse, horizon=7).to_numpy()
    early = fitted.counterfactual("unit0", zero, np.roll(pulse, -2, axis=0), horizon=7).to_numpy()
    np.testing.assert_array_equal(late[:2], 0)
    np.testing.assert_allclose(late[2:], early[:5], atol=1e-12)


def test_doing_what_was_done_changes_nothing(fitted):
    do = {"unit0__u0": INPUTS["unit0"][:, 0], "unit1__u0": lambda u: u}
    table = fitted.whatif(X, do, inputs=INPUTS)
    assert np.abs(table["effect"]).max() <= 1e-10
    np.testing.assert_allclose(table["counterfactual"], table["factual"], atol=1e-10)
    np.testing.assert_allclose(table["factual"], np.hstack(list(X.values())).ravel(), atol=1e-10)


@pytest.mark.medium
def test_the_same_noise_under_other_inputs_gives_the_answer_within_its_band():
    """The simulator replayed: every unit-level effect of the true plant, three quarters of them in 90 %
    bands (they are all functions of the same two dozen estimates)."""
    X, truth = make_plant(4000, seed=3)
    other = truth.inputs[0].copy()
    other[:, 0] = np.clip(other[:, 0] + 0.5, -3, 3)
    est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    table = est.whatif(X, {"unit0__u0": other[:, 0]}, inputs=truth.inputs)
    change = np.zeros((4000, 3))
    change[:, 0] = other[:, 0] - truth.inputs[0][:, 0]
    expected = np.vstack([np.zeros((1, 15)), true_response(truth, change)[:-1]])
    replay = np.hstack(list(X.values())) + expected  # states and noise as they were
    inside = (table["low"] <= replay.ravel()) & (replay.ravel() <= table["high"])
    moved = table["effect"].abs().to_numpy() > 1e-6
    assert inside[moved].mean() > 0.75
    scale = np.linalg.norm(expected)
    assert np.linalg.norm(table["effect"] - expected.ravel()) < 0.1 * scale


@pytest.mark.medium
def test_bands_of_links_that_were_not_selected_hold_zero():
    """Their small posterior means move the effect; where there is no way for it, that is not a finding."""
    X, truth = make_granger_plant(2, n_samples=3000, n_inputs=1, links=[(0, 1)], input_links=[(0, 1)], random_state=1)
    est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    effect, std = est.counterfactual("unit1", 0, 1, horizon=5, return_std=True)
    elsewhere = [column for column in effect if column.startswith("unit0")]
    effect, std = effect[elsewhere].to_numpy(), std[elsewhere].to_numpy()
    assert 0 < np.abs(effect).max() < 1e-3
    np.testing.assert_array_less(np.abs(effect), 1.001 * std)


def test_a_forecast_is_the_filter_without_measurements(fitted):
    found = fitted.forecast(X, 1400, inputs=INPUTS)
    hidden = {name: np.where(np.arange(1500)[:, None] < 1400, Y, np.nan) for name, Y in X.items()}
    np.testing.assert_array_equal(found, fitted.forecast(hidden, 1400, inputs=INPUTS))
    one_step = fitted.predict(X, inputs=INPUTS, model="server")
    np.testing.assert_allclose(found[0], one_step[1400], rtol=1e-6)
    states = fitted.transform(hidden, inputs=INPUTS)
    plant = fitted.transfer_function()
    levels = np.concatenate([fitted.clients_[name].mean_ for name in NAMES])
    np.testing.assert_allclose(found, states[1400:] @ plant.C.T + levels, atol=1e-8)


@pytest.mark.parametrize("start", [0, 1500, 3.5, True])
def test_a_forecast_needs_rows_before_and_after(fitted, start):
    with pytest.raises(ValueError, match=f"start={start} for 1500 rows; .* 1 to 1499"):
        fitted.forecast(X, start, inputs=INPUTS)


@pytest.mark.medium
def test_whatif_keeps_index_and_splits_by_source():
    index = pd.date_range("2024-01-01", periods=1500, freq="min")
    table = flat(X, TRUTH).set_index(index)
    est = FederatedCounterfactualEstimator(input_columns=U_COLUMNS).fit(table)
    do = {"unit0__u0": 0.0, "unit1__u0": lambda u: u.rolling(5, min_periods=1).mean()}
    whole = est.whatif(table, do)
    names = ["time", "column", "factual", "counterfactual", "effect", "low", "high", "trust", "verdict"]
    assert list(whole.columns) == names
    assert list(whole["time"].unique()) == list(index)
    parts = est.whatif(table, do, split=True)
    added = parts.groupby(["time", "column"])["effect"].sum()
    np.testing.assert_allclose(added, whole.set_index(["time", "column"]).sort_index()["effect"], atol=1e-12)


def test_episodes_do_not_act_on_each_other(fitted):
    lengths = [600, 900]
    changed = INPUTS["unit0"][:, 0].copy()
    changed[:600] += 0.1
    table = fitted.whatif(X, {"unit0__u0": np.clip(changed, -3, 3)}, inputs=INPUTS, lengths=lengths)
    assert (table.loc[table["time"] >= 600, "effect"] == 0).all() or changed[600:].max() > 3


def test_a_missing_measurement_is_abducted(fitted):
    gappy = {name: Y.copy() for name, Y in X.items()}
    gappy["unit1"][100:110, 0] = np.nan
    table = fitted.whatif(gappy, {"unit0__u0": 0.0}, inputs=INPUTS)
    cell = table[table["column"] == "unit1__x0"].set_index("time").loc[100:109]
    assert cell["factual"].notna().all()
    truth = X["unit1"][100:110, 0]
    R, C = TRUTH.clients()["unit1"]["R"], TRUTH.clients()["unit1"]["C"]
    assert np.abs(cell["factual"] - truth).max() < 5 * np.sqrt(np.diag(R)[0] + (C[0] ** 2).sum())
    rest = table[table["column"] == "unit1__x1"].set_index("time").loc[100:109]
    assert ((cell["high"] - cell["low"]) > (rest["high"] - rest["low"])).all()


def test_answers_pass_the_ledger(fitted):
    before = len(fitted.ledger_.entries)
    fitted.counterfactual("unit0", [0, 0], [1, 1], horizon=3)
    new = fitted.ledger_.entries[before:]
    assert [entry.client for entry in new] == 2 * list(NAMES)
    assert {(entry.direction, entry.op) for entry in new} == {("down", "effect"), ("up", "measurements")}


@pytest.mark.medium
def test_the_aggregate_a_unit_can_tell_alone():
    X, truth = make_plant()
    shifted = [None if U is None else U + 1.0 for U in truth.inputs]
    est = FederatedCounterfactualEstimator().fit(X, inputs=shifted)
    answer = inspection.aggregate_counterfactual(est, "unit1", 2.0)
    assert answer.name == "aggregate of all other units' inputs"
    means = np.concatenate([U.mean(axis=0) for U in shifted if U is not None])
    rows = est.state_slices_["unit1"]
    phi = est.input_[rows, :2] @ means[:2]
    np.testing.assert_allclose(answer, est.clients_["unit1"].observation_ @ phi, atol=0.01)


@pytest.mark.medium
@pytest.mark.parametrize("center", [True, False])
def test_the_aggregate_is_that_of_inputs_alone(center):
    """Question Q3 holds no influence of states, which a level of uncentred measurements carries."""
    X, truth = make_plant()
    shifted = [None if U is None else U + 1.0 for U in truth.inputs]
    raised = {name: Y + 3.0 for name, Y in X.items()}
    clients = [KalmanClient(baseline=Baseline(center=center), **model) for model in truth.clients().values()]
    est = FederatedCounterfactualEstimator(clients).fit(raised, inputs=shifted)
    means = np.concatenate([U.mean(axis=0) for U in shifted if U is not None])
    rows = est.state_slices_["unit1"]
    phi = est.input_[rows, :2] @ means[:2]
    expected = est.clients_["unit1"].observation_ @ phi
    tolerance = 0.01 if center else 1e-12  # centred, the first and last rows count
    np.testing.assert_allclose(inspection.aggregate_counterfactual(est, "unit1", 2.0), expected, atol=tolerance)


@pytest.mark.medium
def test_disentanglement_by_construction():
    """Theorem 6.1 and Corollary 6.2: E[A_mm theta y] = E[sum A_mn h_n], phi = E[sum B_mn u_n]."""
    X, truth = make_plant(2000, seed=2)
    shifted = [None if U is None else U + 0.7 for U in truth.inputs]
    est = FederatedCounterfactualEstimator().fit(X, inputs=shifted)
    means = np.concatenate([U.mean(axis=0) for U in shifted if U is not None])
    filtered = est.transform(X, inputs=shifted)
    for name in NAMES:
        rows, site = est.state_slices_[name], est._units[name]
        own = est.input_slices_[name]
        foreign = est.server_.lag_inputs_[:, rows].sum(axis=0)
        foreign[:, own] = 0.0
        off = est.server_.lag_transitions_[:, rows].sum(axis=0)
        off[:, rows] = 0.0
        centred = X[name] - est.clients_[name].mean_
        state_side = est.augmenters_[name].coef_ @ centred.mean(axis=0)
        spread = np.abs(off).sum(axis=1) * np.abs(filtered).max() / len(filtered)  # of the rows at the ends
        level = np.abs(off @ filtered.mean(axis=0))
        assert (np.abs(state_side - off @ filtered.mean(axis=0)) <= level + 3 * spread + 1e-12).all()
        np.testing.assert_allclose(site["phi"], foreign @ means, atol=level.max() + 3 * spread.max() + 5e-3)


# --- feedback --------------------------------------------------------------------------------------


def controlled_plant(n_samples, seed, change=0.0):
    """Two units; the input of the second follows its noisy first sensor."""
    rng = np.random.default_rng(seed)
    A = np.array([[0.8, 0.0], [0.3, 0.7]])
    B = np.array([[1.0, 0.0], [0.4, 0.8]])
    C = np.array([[1.0, 0.5, -1.0], [0.8, 0.5, 1.0]])
    h, last = np.zeros(2), 0.0
    Y, U = np.zeros((n_samples, 6)), np.zeros((n_samples, 2))
    w, v, e = (
        rng.standard_normal((n_samples, 2)),
        rng.standard_normal((n_samples, 6)),
        rng.standard_normal((n_samples, 2)),
    )
    for t in range(n_samples):
        Y[t] = np.concatenate([C[0] * h[0], C[1] * h[1]]) + v[t]
        last = 0.3 * last - 0.4 * Y[t, 3] + 0.5 * e[t, 1]
        U[t] = e[t, 0] + change * (t >= n_samples // 2), last
        h = A @ h + B @ U[t] + w[t]
    return {"a": Y[:, :3], "b": Y[:, 3:]}, {"a": U[:, :1], "b": U[:, 1:]}, (A, B, C)


@pytest.fixture(scope="module")
def controlled():
    X, inputs, truth = controlled_plant(4000, 0)
    with pytest.warns(UserWarning, match="Inputs of 'b' depend on measurements"):
        est = FederatedCounterfactualEstimator(KalmanClient(n_states=1)).fit(X, inputs=inputs)
    return est, truth


@pytest.mark.medium
def test_feedback_is_found_and_does_not_bias_the_effects(controlled):
    est, (_, B, C) = controlled
    rejected = est.feedback_.query("p_adjusted < 0.001")
    assert ("b", "b") in set(zip(rejected["measured"], rejected["controlled"], strict=True))
    assert est.server_.controlled_units_ == ("b",)
    for n, cause in enumerate("ab"):
        effect, std = est.counterfactual(cause, 0, 1, return_std=True)
        expected = np.concatenate([C[0] * B[0, n], C[1] * B[1, n]])
        np.testing.assert_array_less(np.abs(effect.to_numpy()[0] - expected), 4.5 * std.to_numpy()[0] + 1e-3)


def test_controllers_respond_when_asked_to(controlled):
    est, _ = controlled
    before, after = (controlled_plant(60, 5, change)[0] for change in (0.0, 1.0))
    truth = np.hstack([after[name] - before[name] for name in "ab"])[31:41]
    held = est.counterfactual("a", 0, 1, horizon=10)
    reacting = est.counterfactual("a", 0, 1, horizon=10, loops="react")
    assert np.abs(reacting - truth).to_numpy().max() < 0.2 * np.abs(truth).max()
    assert np.abs(held - truth).to_numpy().max() > 0.3 * np.abs(truth).max()
    own = est.counterfactual("b", 0, 1, horizon=10, loops="react")  # do() cuts the law of what it sets
    np.testing.assert_allclose(own, est.counterfactual("b", 0, 1, horizon=10), atol=1e-12)


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore:Inputs of 'unit1' depend on measurements:UserWarning")
def test_a_controller_that_nothing_else_moves_is_named():
    """u = K y: every record of that kind follows the same regression, whatever B is."""
    rng = np.random.default_rng(0)
    X, truth = make_granger_plant(2, n_samples=2000, n_inputs=1, random_state=0)
    inputs = inputs_of(truth)
    inputs["unit1"] = X["unit1"] @ rng.standard_normal((8, 1))
    with pytest.warns(UserWarning, match=r"'unit1' determine its inputs number 0 \(from 0\)"):
        FederatedCounterfactualEstimator().fit(X, inputs=inputs)


# --- inputs as plants have them ---------------------------------------------------------------------


@pytest.mark.medium
def test_missing_inputs_are_refused_by_name_or_held():
    gappy = {name: None if U is None else U.copy() for name, U in INPUTS.items()}
    gappy["unit0"][10:12, 1] = np.nan
    with pytest.raises(ValueError, match=r"'unit0__u1'.*missing=.hold."):
        FederatedCounterfactualEstimator().fit(X, inputs=gappy)
    est = FederatedCounterfactualEstimator(input_model=InputModel(missing="hold")).fit(X, inputs=gappy)
    held = {name: None if U is None else U.copy() for name, U in INPUTS.items()}
    held["unit0"][10:12, 1] = held["unit0"][9, 1]
    np.testing.assert_array_equal(est.input_, FederatedCounterfactualEstimator().fit(X, inputs=held).input_)
    gappy["unit0"][0, 1] = np.nan
    with pytest.raises(ValueError, match="no value to hold"):
        FederatedCounterfactualEstimator(input_model=InputModel(missing="hold")).fit(X, inputs=gappy)


@pytest.mark.medium
def test_a_constant_input_is_named_and_its_effect_not_claimed():
    inputs = {**INPUTS, "unit1": np.hstack([INPUTS["unit1"], np.full((1500, 1), 3.0)])}
    with pytest.warns(UserWarning, match="'unit1__u1' never move"):
        est = FederatedCounterfactualEstimator().fit(X, inputs=inputs)
    assert est.input_names_ == (*U_COLUMNS, "unit1__u1")
    assert list(est.excitation_["active"]) == [True, True, True, False]
    with (
        pytest.raises(ValueError, match=r"'unit1__u1' never moved in `fit`.*Known are 'unit0__u0'"),
        pytest.warns(UserWarning, match="extrapolates"),
    ):
        est.counterfactual("unit1", [0, 3], [0, 4])
    assert est.counterfactual("unit1", [0, 3], [1, 3]).shape == (1, 15)


def test_inputs_that_determine_each_other_are_refused_by_name():
    twin = INPUTS["unit0"][:, :1] - 2 * INPUTS["unit1"]
    inputs = {**INPUTS, "unit2": twin}
    with pytest.raises(InputsNotSeparableError, match="'unit0__u0', 'unit1__u0', 'unit2__u0'"):
        FederatedCounterfactualEstimator().fit(X, inputs=inputs)


@pytest.mark.medium
def test_inputs_that_hardly_differ_are_named():
    noisy = INPUTS["unit1"] + 1e-3 * np.random.default_rng(0).standard_normal((1500, 1))
    with pytest.warns(UserWarning, match="'unit1__u0', 'unit2__u0' hardly move on their own"):
        est = FederatedCounterfactualEstimator().fit(X, inputs={**INPUTS, "unit2": noisy})
    assert (est.excitation_.set_index("input")["share"][["unit1__u0", "unit2__u0"]] < 1e-3).all()


@pytest.mark.medium
def test_binary_inputs_are_inputs():
    X, truth = make_granger_plant(2, n_inputs=1, n_samples=3000, random_state=0)
    rng = np.random.default_rng(0)
    pump = (rng.random((3000, 1)) < 0.5).astype(float)
    shifted = X["unit0"].copy()
    m = truth.clients()["unit0"]
    h = np.zeros((3000, 2))
    for t in range(1, 3000):  # a plant that the pump drives besides
        h[t] = m["A"] @ h[t - 1] + [1.0, 0.5] * pump[t - 1]
    shifted += h @ m["C"].T
    est = FederatedCounterfactualEstimator().fit(
        {**X, "unit0": shifted}, inputs=[np.hstack([truth.inputs[0], pump]), truth.inputs[1]]
    )
    effect, std = est.counterfactual("unit0", [0, 0], [0, 1], return_std=True)
    expected = m["C"] @ [1.0, 0.5]
    error = np.abs(effect.iloc[0, : len(expected)] - expected)
    assert (error < 4.5 * std.iloc[0, : len(expected)]).all()


@pytest.mark.medium
def test_order_of_persistent_excitation():
    t = np.arange(1500)
    waves = {"unit0": np.sin(0.3 * t)[:, None], "unit1": INPUTS["unit1"]}
    est = FederatedCounterfactualEstimator().fit(X, inputs=waves)
    order = est.excitation_.set_index("input")["order"]
    assert order["unit0__u0"] <= 3  # two for a sine, and what the ends of the record add
    assert order["unit1__u0"] == 20


# --- bad questions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (("mill", 0, 1), {}, r"unknown unit 'mill'.*'unit0', 'unit1', 'unit2'"),
        ((7, 0, 1), {}, "unknown unit 7; give a name or a position from 0 to 2"),
        (("unit2", 0, 1), {}, "'unit2' has no inputs; units with inputs are unit0, unit1"),
        (("unit0", [0, 0, 0], [1, 1]), {}, r"u0 has shape \(3,\).*'unit0__u0', 'unit0__u1'"),
        (("unit0", [0, 0], np.ones((4, 2))), {"horizon": 3}, r"trajectory of shape \(3, 2\)"),
        (("unit0", [0, 0], [np.nan, 0]), {}, "u1 of input .* has values that are missing or infinite"),
        (("unit1", 0, 1), {"horizon": 0}, "horizon=0"),
        (("unit1", 0, 1), {"horizon": 1.5}, r"horizon=1\.5"),
        (("unit1", 0, 1), {"of": "sensor"}, "of='sensor'; choose 'measurement' or 'state'"),
        (("unit1", 0, 1), {"loops": "open"}, "loops='open'; choose 'hold' or 'react'"),
    ],
)
def test_bad_questions_are_refused(fitted, arguments, settings, message):
    with pytest.raises(ValueError, match=message):
        fitted.counterfactual(*arguments, **settings)


def test_a_trajectory_of_the_only_input_may_be_a_series(fitted):
    ramp = np.linspace(0.0, 1.0, 6)
    expected = fitted.counterfactual("unit1", 0, ramp[:, None], horizon=6)
    pd.testing.assert_frame_equal(fitted.counterfactual("unit1", 0, pd.Series(ramp), horizon=6), expected)
    with pytest.raises(ValueError, match=r"u1 has shape \(5,\).*trajectory of shape \(6, 1\)"):
        fitted.counterfactual("unit1", 0, ramp[:5], horizon=6)


def test_leaving_the_range_seen_is_a_warning(fitted):
    with pytest.warns(UserWarning, match=r"'unit1__u0' is asked for 9, but.*extrapolates"):
        fitted.counterfactual("unit1", 0, 9)
    with pytest.warns(UserWarning, match="'unit0__u1'.*extrapolates"):
        fitted.whatif(X, {"unit0__u1": 99.0}, inputs=INPUTS)


@pytest.mark.parametrize(
    ("do", "message"),
    [
        ({"unit0__valve": 0.0}, r"unknown input 'unit0__valve'; known inputs are 'unit0__u0'"),
        ({"unit0__u0": np.zeros(7)}, r"\(7,\) values for input 'unit0__u0'.*1500 rows"),
        ({"unit0__u0": np.full(1500, np.inf)}, "missing or infinite"),
        (["unit0__u0"], "give a dict from the name of an input"),
    ],
)
def test_bad_interventions_are_refused(fitted, do, message):
    with pytest.raises(ValueError, match=message):
        fitted.whatif(X, do, inputs=INPUTS)


def test_other_inputs_than_in_fit_are_refused(fitted):
    with pytest.raises(ValueError, match="unit"):
        fitted.predict(X, inputs={**INPUTS, "unit2": np.ones((1500, 1))})


def test_clones_know_nothing(fitted):
    assert not hasattr(clone(fitted), "input_")


@pytest.mark.parametrize(
    ("estimator", "server"),
    [
        (FederatedCounterfactualEstimator, MomentServer()),
        (FederatedCounterfactualEstimator, RegressorServer()),
        (FederatedGrangerEstimator, MomentServer()),
        (FederatedGrangerEstimator, RegressorServer(labels="augmented")),
    ],
)
def test_servers_of_the_detector_are_refused(estimator, server):
    name = type(server).__name__
    with pytest.raises(ValueError, match=rf"{name} learns a plant without .* effects of inputs"):
        estimator(server=server).fit(X)


def test_a_server_that_cannot_answer_is_refused():
    class Silent:
        def dialogue(self, models):
            raise NotImplementedError

    with pytest.raises(ValueError, match="Silent learns a plant without"):
        FederatedCounterfactualEstimator(server=Silent()).fit(X, inputs=INPUTS)


@pytest.mark.medium
def test_values_that_are_no_numbers_are_refused_by_name():
    X, truth = make_granger_plant(2, n_samples=300, n_inputs=1, random_state=0)
    est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    with pytest.raises(ValueError, match="'unit0__u0' was given 'open', which is no number"):
        est.counterfactual("unit0", 0.0, "open")
    with pytest.raises(ValueError, match="'unit0__u0' was given 'open', which is no number"):
        est.whatif(X, {"unit0__u0": lambda recorded: "open"}, inputs=truth.inputs)
    with pytest.raises(ValueError, match="was given a Series of length 300, which is no number") as caught:
        est.whatif(X, {"unit0__u0": lambda recorded: recorded.map("{:.6f} V".format)}, inputs=truth.inputs)
    assert f"{truth.inputs[0][0, 0]:.6f}" not in str(caught.value)  # no data in an error
    with pytest.raises(ValueError, match="was given a list of length 2, which is no number"):
        est.counterfactual("unit0", 0.0, [[1.0], [1.0, 2.0]])
