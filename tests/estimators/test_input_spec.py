"""Inputs as users write them and as units send them: the way there and back."""

import numpy as np
import pytest

from skfedcausal.containers import read_plant
from skfedcausal.estimators._input_spec import InputSpec

N, N_LAGS = 40, 3


def _spec(sampled, basis="linear"):
    rng = np.random.default_rng(0)
    X = {"a": rng.normal(size=(N, 2)), "b": rng.normal(size=(N, 1))}
    inputs = {"a": np.column_stack([rng.normal(size=N), np.ones(N)]), "b": rng.normal(size=(N, 1))}
    plant = read_plant(X, inputs=inputs)
    with pytest.warns(UserWarning, match="'a__u1' never move"):
        return plant, InputSpec.learn(plant, {}, {}, basis=basis, sampled=sampled, instruments=None)


@pytest.mark.parametrize("sampled", ["auto", {"a__u0": "before"}, {"a__u0": "before", "b__u0": "before"}])
def test_what_sent_columns_do_is_what_inputs_do_in_the_rows_they_were_written_in(sampled):
    plant, spec = _spec(sampled)
    sent = np.hstack(spec.encode(plant).inputs)
    written = np.hstack(plant.inputs)
    assert sent.shape[1] == spec.active.sum() == 2
    B = np.random.default_rng(1).normal(size=(N_LAGS, 2, 2))
    by_lag, at_once = spec.decode(B, np.zeros((2, 2)))
    assert by_lag.shape == (N_LAGS, 2, 3)
    assert not by_lag[:, :, 1].any()  # of the input that never moved
    for row in range(N_LAGS, N - 1):
        by_sent = sum(B[lag] @ sent[row - 1 - lag] for lag in range(N_LAGS))
        by_written = at_once @ written[row] + sum(by_lag[lag] @ written[row - 1 - lag] for lag in range(N_LAGS))
        np.testing.assert_allclose(by_written, by_sent, atol=1e-12)


def test_inputs_that_act_as_they_are_are_sent_as_they_are():
    plant, spec = _spec("auto")
    a, b = spec.encode(plant).inputs
    np.testing.assert_array_equal(a, plant.inputs[0][:, :1])
    np.testing.assert_array_equal(b, plant.inputs[1])


def test_a_plant_without_inputs_is_sent_as_it_is():
    plant = read_plant({"a": np.zeros((5, 1)), "b": np.ones((5, 1))})
    spec = InputSpec.learn(plant, {}, {}, basis="linear", sampled="auto", instruments=None)
    assert spec.encode(plant).inputs == (None, None)


def test_columns_of_a_curve_change_with_their_input_only():
    plant, spec = _spec("auto", basis={"b": "spline"})
    written = np.hstack(plant.inputs)
    other = written.copy()
    other[:, 2] += 1.0
    change = spec.change(written, other)
    assert change[:, spec.owners == 2].any(axis=0).all()
    assert not change[:, spec.owners != 2].any()


def test_what_is_known_of_some_units_is_that_of_their_inputs():
    _, spec = _spec({"b__u0": "before"})
    only = spec.only(("b",))
    assert only.written.names == only.sent.names == ("b__u0",)
    assert only.early.tolist() == [True]
