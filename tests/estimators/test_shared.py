"""An input that acts on several units: one column, declared once, moved once."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import FederatedCounterfactualEstimator
from skfedcausal.server.estimation.input_checks import InputsNotSeparableError

pytestmark = pytest.mark.medium

A, B = np.diag([0.7, 0.6, 0.5]), np.array([[1.0, 0.0], [-0.5, 0.0], [0.0, 0.8]])
SENSORS = ["a__s0", "a__s1", "b__s0", "b__s1", "c__s0", "c__s1"]


def _record(n=1500):
    """Steam acts on a and b at once, a valve on c."""
    rng = np.random.default_rng(0)
    u, h, rows = rng.standard_normal((n, 2)), np.zeros(3), []
    for t in range(n):
        h = A @ h + (B @ u[t - 1] if t else 0) + 0.1 * rng.standard_normal(3)
        rows.append(np.repeat(h, 2) * np.tile([1, 0.6], 3) + 0.1 * rng.standard_normal(6))
    return pd.DataFrame(np.array(rows), columns=SENSORS), u


X, U = _record()
TABLE = X.assign(plant__steam=U[:, 0], c__valve=U[:, 1])
DECLARED = {"plant__steam": ["a", "b"], "c__valve": None}


@pytest.fixture(scope="module")
def plant():
    return FederatedCounterfactualEstimator(input_columns=DECLARED).fit(TABLE)


def test_a_column_of_no_unit_is_sent_by_the_first_that_it_acts_on(plant):
    assert plant.client_names_ == ("a", "b", "c")
    assert plant.input_names_ == ("plant__steam", "c__valve")
    assert plant.shared_inputs_ == {"plant__steam": ("b",)}
    assert_allclose(plant.input_slices_["b"].stop - plant.input_slices_["b"].start, 0)


def test_it_moves_once_for_all_units_whoever_is_asked_about(plant):
    first, second = (plant.counterfactual(unit, 0.0, 1.0, horizon=3) for unit in ("a", "b"))
    pd.testing.assert_frame_equal(first, second)
    loads = np.tile([1, 0.6], 3)
    expected = np.repeat(B[:, 0], 2) * loads
    assert_allclose(first.iloc[0], expected, atol=0.03)
    replay = plant.whatif(TABLE, {"plant__steam": 0.0})
    assert replay.query("column in ['a__s0', 'b__s0']").groupby("column")["effect"].std().min() > 0.3


def test_it_may_come_beside_the_record_by_the_units_together(plant):
    frame = pd.DataFrame({"steam": U[:, 0]})
    for shared, valve, name in ((frame, pd.DataFrame({"valve": U[:, 1]}), "a__steam"), (U[:, 0], U[:, 1:], "a__u0")):
        beside = {("a", "b"): shared, "c": valve}
        other = FederatedCounterfactualEstimator().fit(X, inputs=beside)
        assert other.shared_inputs_ == {name: ("b",)}
        assert_array_equal(other.input_, plant.input_)
        assert_array_equal(
            other.predict(X[:40], inputs={k: u[:40] for k, u in beside.items()}), plant.predict(TABLE[:40])
        )


def test_inputs_of_a_unit_come_before_those_that_it_shares():
    beside = {("c", "a", "b"): U[:, [0]], "c": U[:, [1]]}
    other = FederatedCounterfactualEstimator().fit(X, inputs=beside)
    assert other.shared_inputs_ == {"c__u1": ("a", "b")}
    steam = other.counterfactual("a", 0.0, 1.0)
    both = other.counterfactual("c", [0.0, 0.0], [0.0, 1.0])
    pd.testing.assert_frame_equal(steam, both)


def test_the_same_column_twice_is_refused_with_the_way_to_say_it_once():
    with pytest.raises(InputsNotSeparableError, match="input that acts on several units is given once"):
        FederatedCounterfactualEstimator().fit(X, inputs={"a": U[:, [0]], "b": U[:, [0]]})


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({("a", "d"): U}, "act on 'd'; units are 'a', 'b', 'c'"),
        ({("a", 1): U}, "names of units"),
        ({("a", "b"): U[:, 0], "a": pd.DataFrame({"v": U[:, 1]})}, "a frame and an array"),
        ({("a", "b"): pd.DataFrame({"v": U[:, 0]}), "a": pd.DataFrame({"v": U[:, 1]})}, "'a__v' came twice"),
    ],
)
def test_what_cannot_be_meant_is_refused(inputs, said):
    with pytest.raises(ValueError, match=said):
        FederatedCounterfactualEstimator().fit(X, inputs=inputs)


def test_unknown_units_of_a_column_are_refused():
    with pytest.raises(ValueError, match="'plant__steam' is said to act on 'd'"):
        FederatedCounterfactualEstimator(input_columns={**DECLARED, "plant__steam": ["a", "d"]}).fit(TABLE)


def test_an_input_of_no_unit_that_acts_on_none_is_named():
    with pytest.raises(ValueError, match=r"does not say on which units 'plant__steam' acts; .* 'a', 'b', 'c'"):
        FederatedCounterfactualEstimator(input_columns={"plant__steam": [], "c__valve": None}).fit(TABLE)
