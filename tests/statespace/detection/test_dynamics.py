"""Changed dynamics: scores by finite differences of the filter, ratios by simulation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.statespace.detection.shift import InnovationModel, gain_changes, own_change_ratios, reversal_ratios

BLOCKS = (slice(0, 1), slice(1, 3), slice(3, 5))


def plant():
    """Unit 1 acts on unit 0, unit 2 on unit 1; nothing else does."""
    A = np.zeros((5, 5))
    A[0, 0] = 0.7
    A[1:3, 1:3] = [[0.6, 0.3], [-0.3, 0.6]]
    A[3:, 3:] = [[0.8, 0.1], [0.0, 0.5]]
    A[0, 1:3], A[1:3, 3:] = [0.5, 0.2], [[0.4, 0.0], [0.1, 0.3]]
    return InnovationModel(A, 0.3 * np.eye(5), np.diag([2.0, 3.0, 4.0, 2.0, 5.0]))


def record(model, n_rows, rng, A=None):
    """Information vectors of a plant, with another transition matrix."""
    A, x, z = model.A if A is None else A, np.zeros(5), np.empty((n_rows, 5))
    for t in range(n_rows):
        x = A @ x + np.sqrt(0.3) * rng.standard_normal(5)
        z[t] = model.J @ x + np.sqrt(np.diag(model.J)) * rng.standard_normal(5)
    return z


def innovations(model, z, A):
    """Scaled innovations and filtered states where A predicts, with the gain of the model."""
    predicted, filtered, found = np.zeros(5), np.empty_like(z), np.empty_like(z)
    for t, row in enumerate(z):
        found[t] = model.scaling @ (row - model.J @ predicted)
        filtered[t] = predicted + model.settled @ found[t]
        predicted = A @ filtered[t]
    return found, filtered


def slopes(model, z, D, step=1e-6):
    """What innovations lose where the filter knows of a change D, per unit of it."""
    ahead, behind = (innovations(model, z, model.A + sign * step * D)[0] for sign in (1, -1))
    return (behind - ahead) / (2 * step)


def regression(model, z, changes):
    """Scores and information of some changes by brute force."""
    u, inverse = innovations(model, z, model.A)[0], np.linalg.inv(model.weight)
    J = np.array([slopes(model, z, D) for D in changes])
    return np.einsum("kti,ij,tj->k", J, inverse, u), np.einsum("kti,ij,mtj->km", J, inverse, J)


def test_a_block_of_the_other_sign_is_the_plant_with_its_links_turned():
    """The log likelihood ratio of a known mean of the innovations, from each row on."""
    model, n_rows = plant(), 40
    z = record(model, n_rows, np.random.default_rng(1))
    u, filtered = innovations(model, z, model.A)
    ratios = reversal_ratios(model, u, filtered, BLOCKS, np.ones((n_rows, 3), dtype=bool))
    for m, b in enumerate(BLOCKS):
        S = np.eye(5)
        S[b, b] *= -1
        score, information = regression(model, z, [S @ model.A @ S - model.A])
        assert_allclose(ratios[0, m], score[0] - information[0, 0] / 2, rtol=1e-6)
    z[20:, BLOCKS[1]] *= -1
    ratios = reversal_ratios(model, *innovations(model, z, model.A), BLOCKS, np.ones((n_rows, 3), dtype=bool))
    assert ratios.max(axis=0).argmax() == 1
    unseen = reversal_ratios(model, u, filtered, BLOCKS, np.zeros((n_rows, 3), dtype=bool))
    assert_allclose(unseen, 0.0)


def test_scores_are_those_of_a_filter_that_knows_the_change():
    model = plant()
    z = record(model, 60, np.random.default_rng(0))
    u, filtered = innovations(model, z, model.A)
    scores, information = gain_changes(model, u, filtered, BLOCKS)
    for m, k in np.ndindex(3, 3):
        D = np.zeros((5, 5))
        D[BLOCKS[m], BLOCKS[k]] = model.A[BLOCKS[m], BLOCKS[k]]
        b, M = regression(model, z, [D]) if m != k else (np.zeros(1), np.zeros((1, 1)))
        assert_allclose((scores[m, k], information[m, k]), (b[0], M[0, 0]), rtol=1e-6, atol=1e-9)
    assert np.count_nonzero(information) == 2
    ratios = own_change_ratios(model, u, filtered, BLOCKS)
    for ratio, block in zip(ratios, BLOCKS, strict=True):
        changes = []
        for i, j in np.ndindex(block.stop - block.start, block.stop - block.start):
            changes.append(np.zeros((5, 5)))
            changes[-1][block.start + i, block.start + j] = 1.0
        b, M = regression(model, z, changes)
        assert ratio == pytest.approx(b @ np.linalg.solve(M, b), rel=1e-5)


def test_long_windows_are_taken_in_pieces(monkeypatch):
    model = plant()
    u, filtered = innovations(model, record(model, 57, np.random.default_rng(4)), model.A)
    whole = own_change_ratios(model, u, filtered, BLOCKS), *gain_changes(model, u, filtered, BLOCKS)
    monkeypatch.setattr("skfedcausal.statespace.detection.shift._TOGETHER", 200)  # ten rows of four changes
    pieces = own_change_ratios(model, u, filtered, BLOCKS), *gain_changes(model, u, filtered, BLOCKS)
    for one, other in zip(whole, pieces, strict=True):
        assert_allclose(one, other, rtol=1e-9)


@pytest.mark.medium
def test_a_nominal_window_has_ratios_that_are_chi_square():
    """Means over 300 windows of 200 rows, within four standard errors."""
    model, rng, own, gains = plant(), np.random.default_rng(1), [], []
    for _ in range(300):
        u, filtered = innovations(model, record(model, 200, rng), model.A)
        own.append(own_change_ratios(model, u, filtered, BLOCKS))
        scores, information = gain_changes(model, u, filtered, BLOCKS)
        gains.append(scores[information > 0] ** 2 / information[information > 0])
    freedom = np.array([1, 4, 4])
    assert (np.abs(np.mean(own, axis=0) - freedom) < 4 * np.sqrt(2 * freedom / 300)).all()
    assert (np.abs(np.mean(gains, axis=0) - 1) < 4 * np.sqrt(2 / 300)).all()


def test_a_lost_link_has_a_gain_of_minus_one():
    model, rng = plant(), np.random.default_rng(2)
    without = model.A.copy()
    without[0, 1:3] = 0.0
    u, filtered = innovations(model, record(model, 4000, rng, without), model.A)
    scores, information = gain_changes(model, u, filtered, BLOCKS)
    assert abs(scores[0, 1] / information[0, 1] + 1) < 0.15  # the filter is that of the plant with the link
    assert scores[0, 1] ** 2 / information[0, 1] > 100
    assert scores[1, 2] ** 2 / information[1, 2] < 16


def test_a_change_of_own_dynamics_shows_at_its_unit():
    model, rng = plant(), np.random.default_rng(3)
    changed = model.A.copy()
    changed[1:3, 1:3] *= 0.6
    u, filtered = innovations(model, record(model, 400, rng, changed), model.A)
    ratios = own_change_ratios(model, u, filtered, BLOCKS)
    assert ratios.argmax() == 1
    assert ratios[1] > 40


def test_rows_in_which_a_unit_is_not_seen_tell_nothing_of_its_changes():
    model, rng = plant(), np.random.default_rng(6)
    u, states = innovations(model, record(model, 300, rng), model.A)
    seen = np.ones((300, 3), dtype=bool)
    whole = own_change_ratios(model, u, states, BLOCKS), *gain_changes(model, u, states, BLOCKS)
    seen[:, 1] = False
    for found, of_all in zip(
        (own_change_ratios(model, u, states, BLOCKS, seen), *gain_changes(model, u, states, BLOCKS, seen)),
        whole,
        strict=True,
    ):
        assert not found[1].any()
        assert of_all[1].any()
        assert_allclose(found[[0, 2]], of_all[[0, 2]])
