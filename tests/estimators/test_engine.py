"""Answers about inputs by either engine, beside a simulator whose truth is known."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skfedcausal import FederatedCounterfactualEstimator, GradientServer, LikelihoodServer, inspection
from skfedcausal.datasets import make_granger_plant
from skfedcausal.papers import StopRule
from skfedcausal.server.responses import choice

pytestmark = [
    pytest.mark.medium,
    pytest.mark.filterwarnings("ignore:.*(depend on measurements|move together within a row|earlier inputs)"),
    pytest.mark.filterwarnings("ignore:Input 'a__(LIC1.SP|valve)' is asked for"),
    pytest.mark.filterwarnings("ignore:.*(search for .* was ended|are said to be set before|hardly move)"),
]

N, FIRST, LAST = 2000, 1500, 1700
QUICK = LikelihoodServer(max_time=2)
SENSORS = ["a__level", "a__valve", "b__flow", "b__half", "c__x", "c__y"]


def simulated(set_point, noise):
    """A tank whose level a controller with integral action brings to its set point; b hears it, c nothing."""
    level, integral, down, other = 0.0, 0.0, 0.0, 0.0
    Y = np.zeros((len(set_point), 6))
    for t, wanted in enumerate(set_point):
        integral += 0.05 * (wanted - level)
        valve = 0.6 * (wanted - level) + integral
        level += 0.3 * (valve - 0.5 * level) + 0.05 * noise[t, 0]
        down = 0.85 * down + 0.15 * valve + 0.05 * noise[t, 1]
        other = 0.9 * other + 0.1 * noise[t, 2]
        Y[t] = [level, valve, down, 0.5 * down, other, -other]
    return Y + 0.03 * noise[:, 3:]


@pytest.fixture(scope="module")
def record():
    """A record, the set point with a move, and what the move does."""
    rng = np.random.default_rng(0)
    u, noise = np.repeat(rng.uniform(-1, 1, N // 40), 40), rng.standard_normal((N, 9))
    moved = u.copy()
    moved[FIRST:LAST] += 0.5
    Y = simulated(u, noise)
    X = pd.DataFrame(np.column_stack([Y, u]), columns=[*SENSORS, "a__LIC1.SP"])
    return X[["a__level", "a__valve", "a__LIC1.SP", *SENSORS[2:]]], moved, simulated(moved, noise) - Y


@pytest.fixture(scope="module", params=["plant", "responses"])
def fitted(request, record):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "responses":
            patch.setattr(choice, "CLEARLY", 0.0)
        estimator = FederatedCounterfactualEstimator(input_columns=["a__LIC1.SP"]).fit(record[0])
    assert estimator.engine_ == request.param
    return estimator


def in_columns(table, values):
    return table.pivot(index="time", columns="column", values=values)[SENSORS].to_numpy()


def test_a_replay_is_near_the_truth_and_its_band_holds_it(fitted, record):
    X, moved, truth = record
    table = fitted.whatif(X, {"a__LIC1.SP": moved})
    assert table.attrs["engine"] == fitted.engine_
    effect, factual = (in_columns(table, name) for name in ("effect", "factual"))
    low, high = in_columns(table, "low") - factual, in_columns(table, "high") - factual
    assert np.linalg.norm((effect - truth)[:, :4]) < 0.05 * np.linalg.norm(truth)
    assert effect[FIRST + 100 : LAST, 0].mean() == pytest.approx(0.5, rel=0.05)  # the level goes to its set point
    if fitted.engine_ == "responses":  # the plant takes lags that it left out for known
        assert ((low <= truth + 1e-9) & (truth - 1e-9 <= high))[FIRST:, :4].mean() > 0.8
    assert np.isfinite(table[["effect", "low", "high", "trust"]]).all(axis=None)
    verdict = table.groupby("column")["verdict"].first()
    assert (verdict[SENSORS[:4]] == "effect").all()
    assert not (verdict[SENSORS[4:]] == "effect").any()


def test_inputs_as_they_were_are_no_move(fitted, record):
    table = fitted.whatif(record[0], {"a__LIC1.SP": lambda u: u})
    assert not table["effect"].any()
    assert (table["verdict"] == "there was no move").all()
    found = fitted.impact(record[0], {"a__LIC1.SP": lambda u: u}, (100, 200))
    assert (found.total["verdict"] == "there was no move").all()
    assert "there was no move of 'a__LIC1.SP'" in found.summary


@pytest.mark.parametrize("window", [(1000, 1001), (990, 1001), (N - 1, N)])
def test_what_cannot_show_yet_is_not_told_to_be_nothing(fitted, record, window):
    X = record[0]
    moved = X["a__LIC1.SP"].to_numpy()[slice(*window)].copy()
    moved[-1] -= 1.0
    verdicts = fitted.impact(X, {"a__LIC1.SP": moved}, window).total["verdict"]
    assert not (verdicts == "no effect to be seen").any()


def test_counterfactuals_have_the_rows_of_the_horizon_and_follow_the_transfer_function(fitted):
    effect, std = fitted.counterfactual("a", 0.0, 1.0, horizon=60, return_std=True)
    assert effect.index.tolist() == list(range(1, 61))
    assert effect.attrs["engine"] == fitted.engine_
    assert np.isfinite(std).all(axis=None)
    G = fitted.transfer_function()
    states, steps = np.zeros(len(G.A)), []
    for _ in range(60):
        states = G.A @ states + G.B[:, 0]
        steps.append(G.C @ states + (0.0 if G.D is None else G.D[:, 0]))
    within = np.abs(effect - np.array(steps)).to_numpy() <= 3 * std.to_numpy() + 1e-9  # the effect is shrunk
    assert within.mean() > 0.95


def test_a_plan_is_what_a_replay_says(fitted, record):
    X, now = record[0], record[0]["a__LIC1.SP"].iloc[-1]
    bounds = {"a__LIC1.SP": (now - 1.0, now + 1.0)}
    target = {"a__level": X["a__level"].iloc[-1] + 0.3}
    plan = inspection.reach(fitted, target, inputs=list(bounds), bounds=bounds, by=60, X=X)
    assert plan.verdict == "reachable"
    assert plan.schedule["a__LIC1.SP"].iloc[-1] == pytest.approx(target["a__level"], abs=0.1)


@pytest.mark.parametrize("kind", [bool, np.bool_, list, np.array, pd.Series])
def test_truth_values_are_values_of_switches(kind):
    rng = np.random.default_rng(1)
    pump, x = np.repeat(rng.integers(0, 2, 60), 20).astype(float), np.zeros(1200)
    for t in range(1, 1200):
        x[t] = 0.8 * x[t - 1] + 0.5 * pump[t - 1] + 0.1 * rng.standard_normal()
    X = pd.DataFrame({"a__x": x, "a__y": x + 0.1 * rng.standard_normal(1200), "a__pump": pump > 0.5})
    estimator = FederatedCounterfactualEstimator(input_columns=["a__pump"]).fit(X)
    off = np.zeros(200, dtype=bool)
    values = {bool: False, np.bool_: np.bool_(False), list: list(off), np.array: off}
    asked = values.get(kind, pd.Series(off, index=X.index[600:800]))
    found = estimator.impact(X, {"a__pump": asked}, (600, 800)).total["total"]
    assert_allclose(found, estimator.impact(X, {"a__pump": 0.0}, (600, 800)).total["total"])
    whole = np.zeros(1200, dtype=bool)
    assert_allclose(found, estimator.impact(X, {"a__pump": whole}, (600, 800)).total["total"])
    replayed = estimator.whatif(X, {"a__pump": np.bool_(True)})
    assert_allclose(replayed["effect"], estimator.whatif(X, {"a__pump": 1.0})["effect"])


def test_values_that_no_input_can_have_are_refused(fitted, record):
    with pytest.raises(ValueError, match=r"was given 1e\+300, which no input can be set to"):
        fitted.whatif(record[0], {"a__LIC1.SP": 1e300})


@pytest.mark.filterwarnings("ignore:Units whose states drift")
@pytest.mark.filterwarnings("ignore:The plant of several lags that fits")
def test_a_loop_that_holds_the_plant_is_not_held_open_for_long():
    rng = np.random.default_rng(0)
    noise, dither, x = rng.standard_normal((N, 6)), np.repeat(rng.standard_normal(N // 10), 10), np.zeros(2)
    Y, U = np.zeros((N, 4)), np.zeros(N)
    for t in range(N):
        Y[t] = np.array([x[0], 2 * x[0], x[1], x[1]]) + 0.05 * noise[t, :4]
        U[t] = dither[t] - 0.4 * Y[t, 0]
        x = np.array([1.05 * x[0] + 0.5 * U[t], 0.8 * x[1] + 0.2 * x[0]]) + 0.1 * noise[t, 4:]
    X = pd.DataFrame(np.column_stack([Y, U]), columns=["a__y", "a__z", "b__y", "b__z", "a__valve"])
    X = X[["a__y", "a__z", "a__valve", "b__y", "b__z"]]
    estimator = FederatedCounterfactualEstimator(input_columns=["a__valve"]).fit(X)
    with pytest.raises(ValueError, match=r"Got 100 rows .* controllers of 'a' hold this plant: .* for (19|2\d) rows"):
        estimator.counterfactual("a", 0.0, 1.0, horizon=100)
    effect = estimator.counterfactual("a", 0.0, 1.0, horizon=15)["a__y"].to_numpy()
    truth = 0.5 * (1.05 ** np.arange(1, 16) - 1) / 0.05
    assert_allclose(effect, truth, rtol=0.1)
    assert estimator.counterfactual("a", 0.0, 1.0, horizon=100, loops="react").shape == (100, 4)


def test_plants_that_are_what_they_are_taken_for_stay():
    X, truth = make_granger_plant(3, links=[(0, 1)], n_inputs=1, input_links=[(0, 1)], random_state=0)
    estimator = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    assert estimator.engine_ == "plant"


@pytest.mark.filterwarnings("ignore:Training did not converge")
def test_where_there_are_no_scores_the_plant_answers():
    X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], n_samples=300, random_state=0)
    estimator = FederatedCounterfactualEstimator(server=GradientServer(stop=StopRule(max_iter=10))).fit(
        X, inputs=truth.inputs
    )
    assert estimator.engine_ == "plant"


def test_limits_hold_what_would_have_been(fitted, record):
    X, moved, _ = record
    highest = X["a__valve"].max() + 0.05
    limits = {"a__valve": (-9.0, highest), "a__level": (X["a__level"].min() + 0.1, 9.0)}
    with pytest.warns(UserWarning, match=r"'a__level' stands at a limit in \d+% of the rows"):
        found = fitted.whatif(X, {"a__LIC1.SP": moved + 0.5}, limits=limits).set_index("column")
    free = fitted.whatif(X, {"a__LIC1.SP": moved + 0.5}).set_index("column")
    assert free.loc["a__valve", "counterfactual"].max() > highest
    assert found.loc["a__valve", ["counterfactual", "low", "high"]].max().max() <= highest
    assert_allclose(found.loc["b__flow", "effect"], free.loc["b__flow", "effect"])
    assert (found["low"] <= found["high"]).all()
    with pytest.raises(ValueError, match="`limits` names 'a__nothing'"):
        fitted.whatif(X, {"a__LIC1.SP": moved}, limits={"a__nothing": (0.0, 1.0)})
    with pytest.raises(ValueError, match="the low one below the high one"):
        fitted.impact(X, {"a__LIC1.SP": 0.0}, (10, 20), limits={"a__level": (1.0, 0.0)})


@pytest.fixture(scope="module")
def stopped():
    """A record in which the valve is cut off at 0.9, again and again, and its set point with a move."""
    rng = np.random.default_rng(1)
    u = np.repeat(rng.uniform(-1, 1, N // 40), 40)
    Y = simulated(u, rng.standard_normal((N, 9)))
    X = pd.DataFrame(np.column_stack([Y, u]), columns=[*SENSORS, "a__LIC1.SP"])
    X["a__valve"] = X["a__valve"].clip(upper=0.4)
    return X[["a__level", "a__valve", "a__LIC1.SP", *SENSORS[2:]]], u


def test_stops_of_the_record_hold_what_would_have_been(stopped):
    X, u = stopped
    estimator = FederatedCounterfactualEstimator(input_columns=["a__LIC1.SP"], server=QUICK).fit(X)
    with pytest.warns(UserWarning, match=r"'a__valve' stands at a limit in \d+% .*as the record of `fit` shows"):
        found = estimator.whatif(X, {"a__LIC1.SP": u + 0.3}).set_index("column")
    assert found.loc["a__valve", ["counterfactual", "low", "high"]].max().max() <= 0.4
    assert found.loc["a__level", "counterfactual"].max() > X["a__level"].max()
    with pytest.warns(UserWarning, match=r"'a__valve' stands at a limit in \d+% of the rows of this record:"):
        named = estimator.whatif(X, {"a__LIC1.SP": u + 0.3}, limits={"a__valve": (-5.0, 0.3)}).set_index("column")
    assert named.loc["a__valve", "counterfactual"].max() == 0.4  # the record itself was there
    assert "'a__valve' stands at a limit" in estimator.impact(X, {"a__LIC1.SP": 0.0}, (500, 600)).summary


def test_plants_without_stops_are_not_held(fitted, record):
    X, moved, _ = record
    free = fitted.whatif(X, {"a__LIC1.SP": moved + 0.5}).set_index("column")
    assert free.loc["a__valve", "counterfactual"].max() > X["a__valve"].max()


def in_its_row(n_samples=2000):
    """A valve that a controller sets before the row, which the row shows at once, and a unit that hears of it."""
    rng = np.random.default_rng(1)
    x, Y, u, before = np.zeros(2), np.zeros((n_samples, 2)), np.zeros(n_samples), 0.0
    for t in range(n_samples):
        u[t] = 0.5 * rng.standard_normal() - 0.4 * before
        Y[t] = x + 0.3 * rng.standard_normal(2) + [0.5 * u[t], 0.0]
        x = np.array([0.8 * x[0] + 0.5 * u[t], 0.7 * x[1] + 0.3 * x[0]]) + 0.2 * rng.standard_normal(2)
        before = Y[t, 0]
    return pd.DataFrame({"a__y": Y[:, 0], "a__valve": u, "b__y": Y[:, 1]})


def test_where_the_timing_decides_the_answer_says_so():
    X = in_its_row()
    settings = {"window": (1000, 1020), "question": "would"}
    estimator = FederatedCounterfactualEstimator(input_columns=["a__valve"]).fit(X)
    found = estimator.impact(X, {"a__valve": lambda u: u + 1}, **settings)
    assert found.total["verdict"].tolist() == ["cannot tell: say when it acts"] * 2
    assert "fit with sampled={'a__valve': 'before'} if it was set before its row was measured" in found.summary
    with pytest.warns(UserWarning, match="'a__valve' may act in the row in which it stands or from the next row on"):
        replay = estimator.whatif(X.iloc[:300], {"a__valve": lambda u: u + (np.arange(300) >= 250)})
    assert set(replay["verdict"]) == {"cannot tell: say when it acts"}
    sampled = {"a__valve": "before"}
    told = FederatedCounterfactualEstimator(input_columns=["a__valve"], sampled=sampled).fit(X)
    total = told.impact(X, {"a__valve": lambda u: u + 1}, **settings).total.set_index("column")
    assert total["verdict"].tolist() == ["effect"] * 2
    t = np.arange(20)
    true = (0.5 + 2.5 * (1 - 0.8**t)).mean()
    assert total.loc["a__y", "mean_low"] <= true <= total.loc["a__y", "mean_high"]


def test_a_window_may_have_the_labels_of_the_record(fitted, record):
    X, moved, _ = record
    named = X.set_index(np.arange(N) * 0.5 + 7.0)
    one = fitted.impact(X, {"a__LIC1.SP": moved}, (FIRST, LAST))
    two = fitted.impact(named, {"a__LIC1.SP": moved}, (FIRST * 0.5 + 7.0, LAST * 0.5 + 7.0))
    pd.testing.assert_frame_equal(one.total.drop(columns="shows"), two.total.drop(columns="shows"))
    assert two.total["shows"].dropna().tolist() == (one.total["shows"].dropna() * 0.5 + 7.0).tolist()
    assert two.window == (757.0, 856.5)
