"""Inputs that are words: indicators for the plant, questions by the names of levels."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import FederatedCounterfactualEstimator, InputModel, inspection
from skfedcausal.estimators._declared import Levels, coded_values, has_words

INPUTS = ["a__mode", "b__pump"]
GAINS = {"idle": 0.0, "low": 0.4, "high": 1.0}
A = np.array([[0.7, 0.0], [0.2, 0.6]])
LOADS = np.array([1.0, 0.6, 1.0, 0.6])


def _record(n=1500):
    rng = np.random.default_rng(0)
    mode = np.repeat(rng.choice(list(GAINS), n // 10), 10)
    pump = np.repeat(rng.random(n // 15) < 0.5, 15)
    h, rows = np.zeros(2), []
    for t in range(n):
        h = A @ h + ([GAINS[mode[t - 1]], 0.7 * pump[t - 1]] if t else 0) + 0.1 * rng.standard_normal(2)
        rows.append(np.repeat(h, 2) * LOADS + 0.1 * rng.standard_normal(4))
    X = pd.DataFrame(np.array(rows), columns=["a__s0", "a__s1", "b__s0", "b__s1"])
    return X.assign(a__mode=mode, b__pump=np.where(pump, "on", "off"))


X = _record()


@pytest.fixture(scope="module")
def plant():
    return FederatedCounterfactualEstimator(input_columns=INPUTS).fit(X)


def _truth(unit, change, horizon):
    h, rows = np.zeros(2), []
    for _ in range(horizon):
        h = A @ h + np.eye(2)[unit] * change
        rows.append(np.repeat(h, 2) * LOADS)
    return np.array(rows)


def test_levels_have_columns_and_the_reference_is_said(plant):
    assert plant.input_levels_ == {"a__mode": ("high", "idle", "low"), "b__pump": ("off", "on")}
    assert plant.input_names_ == ("a__mode[idle]", "a__mode[low]", "b__pump[on]")
    assert plant.input_.shape == (2, 3)
    assert plant.excitation_["input"].tolist() == list(plant.input_names_)
    assert plant.excitation_[["low", "high"]].to_numpy().tolist() == [[0.0, 1.0]] * 3


@pytest.mark.parametrize(
    ("unit", "before", "after", "change"),
    [("a", "idle", "high", 1.0), ("a", "low", "idle", -0.4), ("b", "off", "on", 0.7)],
)
def test_questions_name_levels(plant, unit, before, after, change):
    effect, std = plant.counterfactual(unit, before, after, horizon=5, return_std=True)
    expected = _truth("ab".index(unit), change, 5)
    assert np.abs(effect - expected).max(axis=None) < 0.05  # of about one; some per cent of it are the errors
    assert np.abs((effect - expected) / std.clip(1e-3)).max(axis=None) < 4


def test_trajectories_of_levels(plant):
    found = plant.counterfactual("a", "low", ["low", "high", "idle"], horizon=3)
    up, down = (plant.counterfactual("a", "low", level, horizon=3).to_numpy() for level in ("high", "idle"))
    assert_allclose(found.iloc[0], 0.0, atol=1e-12)
    assert_allclose(found.iloc[1], up[0])
    assert_allclose(found.iloc[2], up[1] - up[0] + down[0])


def test_a_record_replayed_at_another_level(plant):
    same = plant.whatif(X, {"a__mode": lambda series: series})
    assert_array_equal(same["effect"], 0.0)
    held = plant.whatif(X, {"a__mode": "low"})
    calm = plant.whatif(X, {"a__mode": lambda series: series.mask(series != "low", "low")})
    assert_array_equal(held["effect"], calm["effect"])
    assert held["effect"].abs().max() > 0.5


@pytest.mark.parametrize("value", ["fast", 1.0, "HIGH"])
def test_an_unknown_level_is_refused_with_those_that_there_are(plant, value):
    with pytest.raises(ValueError, match="'a__mode', whose levels are 'high', 'idle', 'low'"):
        plant.counterfactual("a", "idle", value)
    with pytest.raises(ValueError, match="'a__mode', whose levels are"):
        plant.whatif(X, {"a__mode": value})


def test_a_level_that_was_not_there_is_refused(plant):
    with pytest.raises(ValueError, match="Got 'eco' for input 'a__mode'"):
        plant.predict(X.replace({"a__mode": {"idle": "eco"}}))


def test_categories_say_which_level_is_the_reference(plant):
    ordered = X.assign(a__mode=pd.Categorical(X["a__mode"], ["idle", "unused", "low", "high"]))
    other = FederatedCounterfactualEstimator(input_columns=INPUTS).fit(ordered)
    assert other.input_levels_["a__mode"] == ("idle", "low", "high")
    found = other.counterfactual("a", "idle", "high", horizon=3)
    assert_allclose(found, plant.counterfactual("a", "idle", "high", horizon=3), atol=0.01)


@pytest.mark.medium
def test_any_container_gives_the_same_plant(plant):
    sensors = {"a": X[["a__s0", "a__s1"]], "b": X[["b__s0", "b__s1"]]}
    beside = {"a": X[["a__mode"]], "b": X["b__pump"]}
    arrays = [table.to_numpy() for table in beside.values()]
    inside = {"a": X[["a__s0", "a__s1", "a__mode"]], "b": X[["b__s0", "b__s1", "b__pump"]]}
    by_name = FederatedCounterfactualEstimator().fit(sensors, inputs=beside)
    unnamed = FederatedCounterfactualEstimator().fit(sensors, inputs=arrays)
    units = FederatedCounterfactualEstimator(input_columns=INPUTS).fit(inside)
    for other in (by_name, unnamed, units):
        assert_array_equal(other.input_, plant.input_)
    assert unnamed.input_levels_ == {"a__u0": ("high", "idle", "low"), "b__u0": ("off", "on")}
    expected = plant.predict(X[:50])
    assert_array_equal(
        by_name.predict({k: Y[:50] for k, Y in sensors.items()}, inputs={k: U[:50] for k, U in beside.items()}),
        expected,
    )
    assert_array_equal(units.predict({k: Y[:50] for k, Y in inside.items()}), expected)


@pytest.mark.medium
def test_episodes_share_their_levels(plant):
    cut = np.flatnonzero(X["a__mode"] != X["a__mode"].iloc[0])[0]
    parts = FederatedCounterfactualEstimator(input_columns=INPUTS).fit([X[:cut], X[cut:]])
    assert parts.input_levels_ == plant.input_levels_


def test_missing_levels_are_held_where_that_is_asked_for(plant):
    gaps = X.copy()
    gaps.loc[700:702, "a__mode"] = None
    with pytest.raises(ValueError, match="'a__mode' have missing values"):
        FederatedCounterfactualEstimator(input_columns=INPUTS).fit(gaps)
    held = FederatedCounterfactualEstimator(input_columns=INPUTS, input_model=InputModel(missing="hold")).fit(gaps)
    assert_array_equal(held.input_, plant.input_)  # the level lasted that long


def test_the_oracle_and_other_questions_know_the_levels(plant):
    assert inspection.oracle_gap(plant, X) < 1e-8
    assert plant.forecast(X, 1490).shape == (10, 4)
    with pytest.raises(ValueError, match="`basis` is given for input 'a__mode', which has levels"):
        FederatedCounterfactualEstimator(input_columns=INPUTS, input_model=InputModel(basis={"a__mode": "spline"})).fit(
            X
        )
    before = FederatedCounterfactualEstimator(
        input_columns=INPUTS, sampled="after", input_model=InputModel(basis="spline")
    ).fit(X)
    assert before.input_names_ == plant.input_names_


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore:Inputs and measurements move together:UserWarning")
@pytest.mark.parametrize(
    "words", [["0,5", "1,5"], [f"note {k}" for k in range(30)], ["1.5", "2.5"]], ids=["commas", "notes", "numbers"]
)
def test_words_that_are_no_levels_are_read_as_before(words):
    changed = X.assign(a__mode=np.resize(np.array(words, dtype=object), len(X)))
    plant = FederatedCounterfactualEstimator(input_columns=INPUTS)
    if words[0] == "1.5":
        assert "a__mode" not in plant.fit(changed).input_levels_
        return
    with pytest.raises(ValueError, match="convert it to numbers"):
        plant.fit(changed)


def test_tables_of_numbers_have_no_words():
    frame = pd.DataFrame({"a": [1.0], "b": [True], "c": [1]})
    assert not has_words(frame)
    assert not has_words({"a": frame, "b": frame.to_numpy(dtype=float), "c": None})
    assert not has_words([[1.0, 2.0], [3.0, 4.0]])
    assert has_words(frame.assign(b="x"))
    assert has_words([frame, frame["a"].astype("category")])
    assert has_words({"a": np.array([["on"]])})


def test_constants_and_trajectories_of_several_inputs():
    levels = [Levels(("off", "on")), None]
    assert_array_equal(coded_values(["on", 2.5], levels, ["v", "w"]), [1.0, 2.5])
    assert_array_equal(coded_values([["on", 2.5], ["off", 3]], levels, ["v", "w"]), [[1.0, 2.5], [0.0, 3.0]])
    assert coded_values("on", levels[:1], ["v"]) == 1.0
    assert coded_values("on", levels, ["v", "w"]) == "on"  # one value for two inputs: refused as such
