"""A hidden cause of an input and a unit: said, mended by an instrument, bounded by a sensitivity band."""

import warnings

import numpy as np
import pandas as pd
import pytest

from skfedcausal import FederatedCounterfactualEstimator, GradientServer, InputModel, inspection
from skfedcausal.datasets import make_granger_plant

pytestmark = pytest.mark.medium

N, INPUTS = 2000, ["a__valve", "b__valve"]
TRUE = 0.15 * 0.3 / 0.2 / 0.2  # what a step of a's valve comes to in b


def drawn(seed, strength=0.8):
    """A load moves the valve of a, beside its set point, and acts on b."""
    rng = np.random.default_rng(seed)
    load, x = np.zeros(N), np.zeros(2)
    for t in range(1, N):
        load[t] = 0.8 * load[t - 1] + 0.6 * rng.standard_normal()
    set_point, other = np.repeat(rng.uniform(-1.3, 1.3, (2, N // 5)), 5, axis=1)
    U, Y = np.column_stack([set_point + strength * load, other]), np.zeros((N, 4))
    for t in range(N):
        Y[t] = np.kron(x, [1.0, 0.6]) + 0.05 * rng.standard_normal(4)
        noise = 0.05 * rng.standard_normal(2) + [0.0, 0.2 * load[t]]
        x = np.array([[0.8, 0.0], [0.15, 0.8]]) @ x + 0.3 * U[t] + noise
    columns = ["a__s0", "a__s1", "b__s0", "b__s1", *INPUTS, "a__setpoint"]
    X = pd.DataFrame(np.column_stack([Y, U, set_point]), columns=columns)
    return X[["a__s0", "a__s1", "a__valve", "a__setpoint", "b__s0", "b__s1", "b__valve"]]


@pytest.fixture(scope="module")
def plain():
    X = drawn(0).drop(columns="a__setpoint")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        estimator = FederatedCounterfactualEstimator(input_columns=INPUTS).fit(X)
    return X, estimator, [str(one.message) for one in said]


@pytest.fixture(scope="module")
def mended():
    X = drawn(0)
    told = {"input_columns": [*INPUTS, "a__setpoint"], "input_model": InputModel(instruments={"a__valve": "setpoint"})}
    return X, FederatedCounterfactualEstimator(**told).fit(X)


def step(estimator):
    """Effect on the first sensor of b of a step of a's valve, when it has come to its end, and its error."""
    effect, std = estimator.counterfactual("a", 0.0, 1.0, horizon=30, return_std=True)
    return effect["b__s0"].iloc[-1], std["b__s0"].iloc[-1]


def test_a_hidden_cause_is_named_in_a_warning_and_a_table(plain):
    _, estimator, said = plain
    assert any("'a with b'" in text and "hidden cause" in text for text in said)
    table = estimator.hidden_causes_.set_index(["input_of", "measured"])
    assert table["suspect"].to_dict() == {("a", "b"): True, ("b", "a"): False}


def test_an_instrument_takes_the_bias_away(plain, mended):
    effect, std = step(mended[1])
    assert abs(effect - TRUE) < 2 * std
    assert std < 0.3 * TRUE
    assert abs(step(plain[1])[0] - TRUE) > 0.3 * TRUE
    assert not mended[1].hidden_causes_["suspect"].any()
    share = mended[1].instruments_.set_index("input").loc["a__valve"]
    valve = mended[0][["a__valve", "a__setpoint"]]
    # the set point says what it says in the row; the rows before add next to nothing
    assert share["share"] == pytest.approx(valve.corr().iloc[0, 1] ** 2, abs=0.03)
    assert share["instrument"] == "a__setpoint"


@pytest.mark.filterwarnings("ignore:Input .* is asked for")
def test_an_instrument_is_no_input_that_moves(mended):
    X, estimator = mended
    with pytest.raises(ValueError, match=r"is an instrument, which acts through 'a__valve' alone"):
        inspection.reach(estimator, {"a__s0": 0.1}, inputs="a__setpoint", bounds={"a__setpoint": (-1, 1)}, by=5, X=X)
    by_set_point = estimator.whatif(X, {"a__setpoint": lambda z: z + 0.1}).query("column == 'b__s0'")["effect"]
    law = estimator._spec.instruments.laws["a__valve"][:-1]
    assert by_set_point.iloc[-1] == pytest.approx(0.1 * law.sum() * step(estimator)[0], rel=0.03)
    factual = estimator.whatif(X, {"a__valve": lambda u: u})
    np.testing.assert_allclose(factual["effect"], 0, atol=1e-12)
    moved = estimator.whatif(X, {"a__valve": lambda u: u + 1.0 * (np.arange(N) >= 1000)})
    effect = moved.query("time == 1040 and column == 'b__s0'")["effect"].item()
    assert effect == pytest.approx(step(estimator)[0], rel=0.03)  # ten rows later
    assert not estimator.input_[:, 1].any()


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"a__valve": "b__valve"}, "belongs to another unit"),
        ({"valve": "setpoint"}, "several inputs"),
        ({"a__valve": "level"}, "no input"),
        ({"a__setpoint": "a__valve", "a__valve": "a__setpoint"}, "give each instrument once"),
    ],
)
def test_what_instruments_cannot_be(told, words):
    estimator = FederatedCounterfactualEstimator(
        input_columns=[*INPUTS, "a__setpoint"], input_model=InputModel(instruments=told)
    )
    with pytest.raises(ValueError, match=words):
        estimator.fit(drawn(0)[:300])


def test_instruments_explain_linear_inputs_and_stay_in_the_process():
    told = InputModel(instruments={"a__valve": "a__setpoint"})
    estimator = FederatedCounterfactualEstimator(input_columns=[*INPUTS, "a__setpoint"], input_model=told)
    with pytest.raises(ValueError, match="which sites keep"):
        estimator.fit_sites(object())
    with pytest.raises(ValueError, match="leave out `basis`"):
        estimator.set_params(input_model__basis="spline").fit(drawn(0)[:300])


def test_an_instrument_that_moves_nothing_is_said():
    X = drawn(0)[:600].assign(a__setpoint=np.random.default_rng(99).standard_normal(600))
    told = {
        "input_columns": [*INPUTS, "a__setpoint"],
        "input_model": InputModel(instruments={"a__valve": "a__setpoint"}),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.warns(UserWarning, match="hardly move them"):
            FederatedCounterfactualEstimator(**told).fit(X)


# --- sensitivity ------------------------------------------------------------------------------------


def test_bands_against_a_hidden_cause_hold_the_truth(plain):
    table = inspection.sensitivity(plain[1], "a", 0.0, 1.0, horizon=30, strength=0.5)
    last = table[table["column"] == "b__s0"].iloc[-1]
    assert last["low"] < TRUE < last["high"]
    bare = inspection.sensitivity(plain[1], "a", 0.0, 1.0, horizon=30, strength=0.0)
    assert bare[bare["column"] == "b__s0"].iloc[-1]["low"] > TRUE


def test_a_cause_of_the_strength_that_voids_an_effect_does(plain):
    table = inspection.sensitivity(plain[1], "a", 0.0, 1.0, horizon=10, strength=0.3)
    row = table.query("column == 'b__s0'").iloc[-1]
    again = inspection.sensitivity(plain[1], "a", 0.0, 1.0, horizon=10, strength=row["voided_at"])
    assert again.query("column == 'b__s0'").iloc[-1]["low"] == pytest.approx(0.0, abs=1e-9)
    without = inspection.sensitivity(plain[1], "a", 0.0, 1.0, horizon=10, strength=0.0)
    effect, std = plain[1].counterfactual("a", 0.0, 1.0, horizon=10, return_std=True)
    half = (without["high"] - without["low"]).to_numpy().reshape(effect.shape) / 2
    np.testing.assert_allclose(half, 1.6448536 * std, rtol=1e-6)


@pytest.mark.parametrize("wrong", [-0.1, 1.0, "strong", True])
def test_a_strength_is_a_share(plain, wrong):
    with pytest.raises(ValueError, match="strength="):
        inspection.sensitivity(plain[1], "a", 0.0, 1.0, strength=wrong)


def test_a_server_without_errors_refuses_what_weighs_them():
    X, truth = make_granger_plant(2, n_samples=400, n_inputs=1, input_links=[(0, 1)], random_state=0)
    server = GradientServer(solve="stationary")
    estimator = FederatedCounterfactualEstimator(server=server).fit(X, inputs=truth.inputs)
    limits = {"inputs": ["unit0__u0"], "bounds": {"unit0__u0": (-3, 3)}}
    with pytest.raises(ValueError, match="GradientServer learns a point without a sampling covariance, and a plan"):
        inspection.reach(estimator, {"unit0__x0": 1.0}, by=5, X=X, record_inputs=truth.inputs, **limits)
    with pytest.raises(ValueError, match="and an experiment weighs"):
        inspection.experiment(estimator, "unit0", "unit1", rows=50, **limits)
    with pytest.raises(ValueError, match="and a band against hidden causes"):
        inspection.sensitivity(estimator, "unit0", 0.0, 1.0)


# --- several units ----------------------------------------------------------------------------------


def test_several_units_operated_at_once_have_the_effects_of_each(plain):
    estimator = plain[1]
    both = estimator.counterfactual(["a", "b"], {"a": 0.0, "b": 0.2}, {"a": 1.0, "b": 0.4}, horizon=5)
    one = estimator.counterfactual("a", 0.0, 1.0, horizon=5)
    other = estimator.counterfactual("b", 0.2, 0.4, horizon=5)
    np.testing.assert_allclose(both, one + other, atol=1e-9)
    with pytest.raises(ValueError, match="no u1 for unit 'b'"):
        estimator.counterfactual(["a", "b"], {"a": 0.0, "b": 0.2}, {"a": 1.0})
