"""The tools that recorded plants are judged beside, on plants that they can learn."""

import numpy as np
import pytest

from benchmarks._rivals import Boosting, cva, varx


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
