"""The counterfactual estimator with the papers' GradientServer: every question, or why not."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import solve_discrete_lyapunov
from sklearn.base import clone

from skfedcausal import (
    Communication,
    FederatedCounterfactualEstimator,
    GradientServer,
    KalmanClient,
    inspection,
    papers,
)
from skfedcausal.bases import configured
from skfedcausal.datasets import make_granger_plant
from skfedcausal.papers import StopRule
from skfedcausal.server.estimation.input_checks import InputsNotSeparableError

pytestmark = pytest.mark.filterwarnings("ignore:Training did not converge:sklearn.exceptions.ConvergenceWarning")
NAMES = ("unit0", "unit1", "unit2")
MODES = {
    "series": {"xi": 2.0},
    "moments": {"xi": 2.0, "exchange": "moments"},
    "stationary": {"xi": 2.0, "solve": "stationary"},
    "steps": {"update": "online", "max_iter": 1},
    "augmented Lagrangian": {"xi": 5.0, "constraint": "augmented_lagrangian", "exchange": "moments"},
    "hybrid": {"xi": 5.0, "constraint": "hybrid", "n_warm_up": 10, "exchange": "moments"},
}


def make_plant(n_samples=400, seed=0, level=0.6):
    X, truth = make_granger_plant(
        3,
        n_states=[2, 1, 2],
        n_sensors=[4, 3, 5],
        n_inputs=[2, 0, 1],
        links=[(0, 1), (1, 2)],
        input_links=[(0, 1)],
        n_samples=n_samples,
        random_state=seed,
    )
    inputs = [U + level if U is not None and U.shape[1] else None for U in truth.inputs]
    clients = {
        name: KalmanClient(m["A"], m["B"] if np.size(m["B"]) else None, m["C"], m["Q"], m["R"])
        for name, m in truth.clients().items()
    }
    return X, inputs, clients, truth


X, INPUTS, CLIENTS, TRUTH = make_plant()


def fitted(X=X, inputs=INPUTS, clients=CLIENTS, transport=None, **settings):
    settings = {"max_iter": 30, **settings}
    return FederatedCounterfactualEstimator(
        clients,
        server=configured(GradientServer, settings),
        random_state=0,
        communication=Communication(transport=transport),
    ).fit(X, inputs=inputs)


@pytest.fixture(scope="module")
def trained():
    return fitted(**MODES["moments"])


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
def test_questions_are_answered_from_what_was_learned(mode):
    est = fitted(**mode)
    assert est.input_.shape == (5, 3)
    for name in ("unit0", "unit2"):  # own blocks are the units', as in assumptions 5.1 and 5.4
        rows, own = est.state_slices_[name], est.input_slices_[name]
        assert_allclose(est.input_[rows, own], CLIENTS[name].B)
        assert_allclose(est.transition_[rows, rows], CLIENTS[name].A)
    u0, u1 = [0.0, 0.5], [1.0, 0.0]
    effect = est.counterfactual("unit0", u0, u1, horizon=4)
    h = np.zeros(5)
    for step in range(1, 5):
        h = est.transition_ @ h + est.input_[:, :2] @ np.array([1.0, -0.5])
        expected = np.concatenate(
            [est.clients_[name].observation_ @ h[rows] for name, rows in est.state_slices_.items()]
        )
        assert_allclose(effect.loc[step], expected, rtol=1e-9, atol=1e-13)
    split = est.counterfactual("unit0", u0, u1, horizon=4, split=True)
    assert_allclose(split.T.groupby(level="column", sort=False).sum().T[effect.columns], effect, atol=1e-12)
    assert est.counterfactual("unit0", u0, u1, of="state").shape == (1, 5)
    assert_allclose(np.abs(est.transfer_function().poles()).max(), np.abs(np.linalg.eigvals(est.transition_)).max())


def test_equation_19_at_the_server_and_equation_20_at_the_client(trained):
    """Q2: B_mn (u1 - u0) on states. Q3: C_m phi, the aggregate of all other units' inputs."""
    states = trained.counterfactual("unit0", [0, 0], [1, 1], of="state").to_numpy()[0]
    assert_allclose(states, trained.input_[:, :2].sum(axis=1), rtol=1e-12)
    answer = inspection.aggregate_counterfactual(trained, "unit1", 2.0)
    levels = np.concatenate([U.mean(axis=0) for U in INPUTS if U is not None])
    phi = trained.augmenters_["unit1"].phi_ + trained.input_[2:3] @ levels
    assert_allclose(answer, trained.clients_["unit1"].observation_ @ phi, rtol=1e-10)


def test_standard_errors_and_reacting_controllers_are_refused_with_the_reason(trained):
    with pytest.raises(ValueError, match="point without a sampling covariance"):
        trained.counterfactual("unit0", [0, 0], [1, 1], return_std=True)
    with pytest.raises(ValueError, match="identifies no controllers"):
        trained.counterfactual("unit0", [0, 0], [1, 1], loops="react")


def test_a_replay_of_the_observed_inputs_is_the_record_and_others_have_no_band(trained):
    name = trained.input_names_[0]
    same = trained.whatif(X, {name: INPUTS[0][:, 0]}, inputs=INPUTS)
    assert_allclose(same["counterfactual"], same["factual"], atol=1e-10)
    other = trained.whatif(X, {name: 0.0}, inputs=INPUTS)
    moved = other["effect"] != 0
    assert other.loc[moved, ["low", "high"]].isna().all(axis=None)
    assert (other.loc[~moved, "low"] == other.loc[~moved, "factual"]).all()


def test_missing_measurements_of_a_replay_are_expected_from_the_learned_plant(trained):
    gaps = {name: Y.copy() for name, Y in X.items()}
    gaps["unit1"][50:60, 0] = np.nan
    told = trained.whatif(gaps, {trained.input_names_[0]: 0.5}, inputs=INPUTS)
    assert np.isfinite(told["factual"]).all()


def test_links_of_states_and_inputs_are_tested(trained):
    links = trained.links_
    assert len(links[links.kind == "state"]) == 6
    causes = links.loc[links.kind == "input", "cause"].value_counts()
    assert causes.to_dict() == {"unit0": 2, "unit2": 2}
    assert links.p_value.between(0, 1, inclusive="neither").all()
    assert not links.verdict.isin(["influence", "no influence"]).any()
    assert (links.norm > 0).all()


def test_strengths_are_in_states_of_the_learned_plant_and_inputs_of_unit_variance(trained):
    """States as white inputs of the recorded scale would drive them."""
    scaled = trained.input_ * np.concatenate([U.std(axis=0) for U in INPUTS if U is not None])
    noise = trained.process_cov_ + scaled @ scaled.T
    S = solve_discrete_lyapunov(trained.transition_, noise)
    table = trained.links_.set_index(["cause", "effect", "kind"])["norm"]
    assert table["unit0", "unit1", "input"] == pytest.approx(np.linalg.norm(scaled[2, :2]) / np.sqrt(S[2, 2]))
    block = trained.transition_[2:3, :2] @ np.linalg.cholesky(S[:2, :2]) / np.sqrt(S[2, 2])
    assert table["unit0", "unit1", "state"] == pytest.approx(np.linalg.norm(block))


def test_predictions_are_those_of_the_papers_equations(trained):
    """Equation 4 at the client and equation 11 at the server, with inputs less their level."""
    states = trained.transform(X, inputs=INPUTS)
    levels = np.concatenate([U.mean(axis=0) for U in INPUTS if U is not None])
    U = np.hstack([U for U in INPUTS if U is not None]) - levels
    server = states[:-1] @ trained.transition_.T + U[:-1] @ trained.input_.T
    first = 0
    predicted = trained.predict(X, inputs=INPUTS, model="server")
    augmented = trained.predict(X, inputs=INPUTS)
    for name, rows in trained.state_slices_.items():
        client, augmenter = trained.clients_[name], trained.augmenters_[name]
        columns = slice(first, first + X[name].shape[1])
        first = columns.stop
        assert_allclose(predicted[1:, columns], client.measurements(server[:, rows]), rtol=1e-9)
        own = trained.input_slices_[name]
        past = X[name][:-1] - client.mean_
        h_a = (states[:-1, rows] + past @ augmenter.theta_.T) @ client.transition_.T + augmenter.phi_
        h_a += U[:-1, own] @ trained.input_[rows, own].T
        assert_allclose(augmented[1:, columns], client.measurements(h_a), rtol=1e-9)


def test_losses_on_the_record_of_fit_are_those_that_training_ended_with():
    est = fitted(xi=2.0, solve="stationary")
    told = papers.losses(est, X, inputs=INPUTS)
    for kind in ("client", "server"):
        assert_allclose(told[kind], est.server_.loss_history_[kind].iloc[-1], rtol=1e-8)


@pytest.mark.parametrize("mode", ["series", "moments", "augmented Lagrangian"])
def test_the_oracle_is_the_same_training_on_pooled_data(mode):
    est = fitted(**MODES[mode], start_scale=0.2)
    assert inspection.oracle_gap(est, X, inputs=INPUTS) < 1e-10


def test_the_order_of_the_units_permutes_the_answer():
    order = ["unit2", "unit0", "unit1"]
    settings = {"xi": 2.0, "exchange": "moments", "start_scale": 0.0}
    one = fitted(**settings)
    other = fitted(
        {name: X[name] for name in order}, [INPUTS[NAMES.index(name)] for name in order], CLIENTS, **settings
    )
    first = one.counterfactual("unit0", [0, 0], [1, 1], horizon=3)
    second = other.counterfactual("unit0", [0, 0], [1, 1], horizon=3)
    assert_allclose(second[first.columns], first, rtol=1e-8, atol=1e-12)


def test_random_starts_follow_the_estimators_random_state():
    settings = {"start_scale": 1.0, "max_iter": 3, "exchange": "moments"}
    one, same = fitted(**settings), fitted(**settings)
    assert np.array_equal(one.input_, same.input_)
    other = clone(one).set_params(random_state=1).fit(X, inputs=INPUTS)
    assert not np.allclose(one.input_, other.input_)


def test_episodes_tables_and_an_input_that_never_moves():
    frames = [pd.DataFrame(Y).add_prefix(f"{name}__y") for name, Y in X.items()]
    frames += [pd.DataFrame(INPUTS[0]).add_prefix("unit0__u"), pd.DataFrame(INPUTS[2]).add_prefix("unit2__u")]
    table = pd.concat(frames, axis=1).assign(unit1__u0=1.0)
    inputs = ["unit0__u0", "unit0__u1", "unit2__u0", "unit1__u0"]
    server = GradientServer(xi=2.0, exchange="moments", stop=StopRule(max_iter=30))
    with pytest.warns(UserWarning, match="unit1__u0"):
        est = FederatedCounterfactualEstimator(CLIENTS, server=server, input_columns=inputs).fit(
            table, lengths=[150, 250]
        )
    assert est.input_.shape == (5, 4)
    with pytest.raises(ValueError, match="never moved"), pytest.warns(UserWarning, match="extrapolates"):
        est.counterfactual("unit1", 0.0, 1.0)


def test_units_identified_at_home_bring_their_own_input_blocks():
    est = fitted(clients=KalmanClient(n_states=2), **MODES["moments"])
    rows, own = est.state_slices_["unit0"], est.input_slices_["unit0"]
    assert_allclose(est.input_[rows, own], est.clients_["unit0"].input_)


def test_a_unit_that_does_not_know_what_its_inputs_do_is_refused():
    clients = {**CLIENTS, "unit0": clone(CLIENTS["unit0"]).set_params(B=None)}
    with pytest.raises(ValueError, match="without B"):
        fitted(clients=clients)


def test_a_plant_that_training_left_unstable_still_predicts_and_warns_of_its_effects():
    est = fitted(start_scale=2.0, max_iter=1, exchange="moments")
    assert np.abs(np.linalg.eigvals(est.transition_)).max() > 1
    for model in ("server", "augmented"):
        assert np.isfinite(est.predict(X, inputs=INPUTS, model=model)).all()
    assert np.isfinite(est.score(X, inputs=INPUTS))
    assert np.isnan(est.links_["geweke"]).all()
    with pytest.warns(UserWarning, match="not stable"):
        est.counterfactual("unit0", [0, 0], [1, 1], horizon=3)


@pytest.mark.parametrize("mode", ["series", "moments", "stationary"])
def test_inputs_that_no_record_can_tell_apart_are_refused_by_name(mode):
    inputs = [INPUTS[0], None, INPUTS[0][:, :1] - 2 * INPUTS[0][:, 1:]]
    with pytest.raises(InputsNotSeparableError, match=r"unit0__u0.*unit0__u1.*unit2__u0"):
        fitted(inputs=inputs, **MODES[mode])
