"""The tools that recorded plants are judged beside, on plants that they can learn."""

import numpy as np
import pandas as pd
import pytest

from benchmarks._rivals import Boosting, Charts, cva, varx


def _plant(n_samples=3000, seed=0):
    """Two outputs, one input that acts on its own row and one that acts a row later."""
    rng = np.random.default_rng(seed)
    Y, U = np.zeros((n_samples, 2)), rng.standard_normal((n_samples, 2))
    for t in range(1, n_samples):
        Y[t] = [[0.7, 0], [0.3, 0.5]] @ Y[t - 1] + [U[t, 0], 0.8 * U[t - 1, 1]]
        Y[t] += 0.1 * rng.standard_normal(2)
    return Y, U, np.array([True, False])


@pytest.mark.parametrize("fit", [varx, lambda Y, U, before: cva(Y, U, before, order=3)])
def test_linear_tools_learn_a_linear_plant(fit):
    Y, U, before = _plant()
    model = fit(Y[:2000], U[:2000], before)
    np.testing.assert_allclose(model.D, [[1, 0], [0, 0]], atol=0.02)
    errors = model.filtered(Y[2000:], U[2000:])[0][50:]
    np.testing.assert_allclose(errors.std(axis=0), 0.1, rtol=0.15)
    found = model.free_runs(Y[2000:], U[2000:], np.array([100, 300]), 40)
    expected = np.stack([Y[2100:2140], Y[2300:2340]])
    assert (found - expected).std() < 0.3  # of the noise that adds up: 0.14 and 0.15
    density = model.log_density(Y[2000:], U[2000:])[50:].mean()
    assert density == pytest.approx(-np.log(2 * np.pi) - 1 - 2 * np.log(0.1), abs=0.2)


def test_autoregressions_with_inputs_are_least_squares():
    Y, U, before = _plant(500)
    for outputs in (Y, Y[:, :1]):
        model = varx(outputs, U, before, lags=(2,))
        past = [outputs[1:-1], outputs[:-2], U[1:-1], U[:-2]]
        Z = np.hstack([np.ones((498, 1)), U[2:, :1], *past])
        expected = np.linalg.lstsq(Z, outputs[2:], rcond=None)[0]
        d = outputs.shape[1]
        np.testing.assert_allclose(model.D[:, 0], expected[1], atol=1e-8)
        np.testing.assert_allclose(model.C, expected[2:].T, atol=1e-8)
        assert model.A.shape == (2 * (d + 2),) * 2


@pytest.mark.medium
def test_boosting_runs_freely_on_its_own_forecasts():
    Y, U, before = _plant(800)
    model = Boosting(n_lags=2).fit(Y, U, before)
    whole = model.free_runs(Y, U, np.array([100]), 5)
    changed = Y.copy()
    changed[100:] = 1e3  # what it is to forecast
    np.testing.assert_array_equal(model.free_runs(changed, U, np.array([100]), 5), whole)


def test_an_effect_is_the_difference_of_two_free_runs():
    Y, U, before = _plant()
    model, other = varx(Y, U, before, lags=(2,)), U.copy()
    other[1000:1010] += 1.0
    runs = [model.free_runs(Y, inputs, np.array([1000]), 30)[0] for inputs in (other, U)]
    np.testing.assert_allclose(model.response((other - U)[1000:1030]), runs[0] - runs[1], atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_charts_keep_their_rate_and_name_the_unit_whose_sensor_moves(seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((20_000, 4)), columns=["a__0", "a__1", "b__0", "b__1"])
    charts = Charts(false_alarm_rate=1e-3).fit(frame[:10_000])
    assert 2 <= len(charts.incidents(frame[10_000:])) <= 25  # 10 expected, by a limit that is the 11th of a record
    moved = frame[10_000:10_400].reset_index(drop=True)
    moved.loc[200:, "b__1"] += 3.0
    found = charts.incidents(moved)
    assert found[found["detected"] >= 200]["root"].iloc[0] == "b"


def test_charts_take_off_what_inputs_do():
    rng = np.random.default_rng(0)
    U = np.repeat(rng.standard_normal((100, 1)), 50, axis=0)
    X = {"a": 3 * U + rng.standard_normal((5000, 1)), "b": rng.standard_normal((5000, 1))}
    charts = Charts().fit({name: Y[:3000] for name, Y in X.items()}, inputs={"a": U[:3000]})
    later = {name: Y[3000:] for name, Y in X.items()}
    assert len(charts.incidents(later, inputs={"a": U[3000:]})) <= 6  # 2 expected
    untold = charts.incidents(later, inputs={"a": 0 * U[3000:]})
    assert (untold["end"] - untold["detected"]).sum() > 1000
