"""Steps at two units in turn against a regression on simulated signatures."""

import numpy as np
import pytest

from skfedcausal.statespace.detection.shift import InnovationModel, steps_in_turn

SLICES = (slice(0, 2), slice(2, 3), slice(3, 5))


def model_of(seed=0):
    rng = np.random.default_rng(seed)
    A = 0.3 * rng.standard_normal((5, 5))
    A *= 0.8 / max(0.8, np.abs(np.linalg.eigvals(A)).max())
    return InnovationModel(A, 0.5 * np.eye(5), 2.0 * np.eye(5))


def answer_to(model, onset, state, n_rows):
    """Mean of the scaled innovations after a step of one state, by running plant and filter."""
    x, predicted, found = np.zeros(5), np.zeros(5), np.zeros((n_rows, 5))
    gain = model.A @ model.schedule.filtered[-1]
    for t in range(n_rows):
        # the fault of a row is in the state of that row
        x = x + (np.eye(5)[state] if t >= onset else 0.0)
        z = model.J @ x
        found[t] = model.scaling @ (z - model.J @ predicted)
        predicted = model.carry @ predicted + gain @ z
        x = model.A @ x
    return found


@pytest.mark.parametrize("onsets", [(0, 24), (36, 12)])
def test_ratio_and_onsets_of_a_regression(onsets):
    model, n_rows = model_of(), 49  # onsets on the grid of every second row
    rng = np.random.default_rng(1)
    signatures = [answer_to(model, onsets[0], 0, n_rows), answer_to(model, onsets[0], 1, n_rows)]
    signatures.append(answer_to(model, onsets[1], 2, n_rows))
    noise = rng.standard_normal((n_rows, 5)) @ np.linalg.cholesky(model.weight).T
    scaled = 6.0 * signatures[0] - 5.0 * signatures[1] + 6.0 * signatures[2] + noise
    ratio, found, gain = steps_in_turn(model, SLICES, scaled, (0, 1))
    assert found == onsets
    design = np.column_stack([(s @ model.whitening).ravel() for s in signatures])
    white = (scaled @ model.whitening).ravel()
    fitted = design @ np.linalg.lstsq(design, white, rcond=None)[0]
    assert ratio == pytest.approx(fitted @ fitted, rel=1e-6)
    assert gain > 2 * np.log(n_rows)
