"""Energy statistic against conditioning of Gaussians written out, rows with absent or noisy units too."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import solve_discrete_lyapunov

from skfedcausal.statespace.detection import shift as energies
from skfedcausal.statespace.detection.shift import (
    PENALTIES,
    ConditionalEnergy,
    LinearMap,
    RowBelief,
    RowPattern,
    ScaledMap,
    block_sums,
    held_out_errors,
    held_out_innovations,
    ridge_transition,
    surprises_with_gaps,
)

from ._reference import dense_rows, dense_surprises

BLOCKS = (slice(0, 2), slice(2, 3), slice(3, 6))


@pytest.fixture
def energy():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 6))
    return ConditionalEnergy(root @ root.T + np.eye(6), BLOCKS), rng.standard_normal((7, 6))


def test_conditional_surprise_is_the_distance_from_the_conditional_mean(energy):
    model, e = energy
    C = model.covariance
    for m, b in enumerate(BLOCKS):
        own, rest = np.arange(6)[b], np.delete(np.arange(6), b)
        gain = np.linalg.solve(C[np.ix_(rest, rest)], C[np.ix_(rest, own)])
        left = e[:, own] - e[:, rest] @ gain
        S = C[np.ix_(own, own)] - C[np.ix_(own, rest)] @ gain
        expected = np.einsum("ti,ij,tj->t", left, np.linalg.inv(S), left)
        assert_allclose(model.given_others(e)[:, m], expected, rtol=1e-10)
        marginal = np.einsum("ti,ij,tj->t", e[:, own], np.linalg.inv(C[np.ix_(own, own)]), e[:, own])
        assert_allclose(model.own(e)[:, m], marginal, rtol=1e-10)


def test_absent_unit_is_marginalised(energy):
    model, e = energy
    less, columns = model.without(np.array([False, True, False]))
    assert_allclose(columns, [0, 1, 3, 4, 5])
    assert_allclose(less.covariance, model.covariance[np.ix_(columns, columns)])
    assert less.given_others(e[:, columns]).shape == (7, 2)


def test_ridge_solves_its_normal_equations():
    rng = np.random.default_rng(1)
    past, present = rng.standard_normal((2, 50, 3))
    B = ridge_transition(past, present, 0.1)
    assert_allclose(past.T @ (present - past @ B), 0.1 * 50 * B, atol=1e-10)


def test_held_out_innovations_never_saw_their_fold():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((90, 2))
    folds = [(0, 30), (30, 60), (60, 90)]
    innovations, penalty = held_out_innovations(x, folds)
    past = np.concatenate([x[30:59], x[60:89]])
    present = np.concatenate([x[31:60], x[61:90]])
    B = ridge_transition(past, present, penalty)
    assert_allclose(innovations[0], x[1:30] - x[:29] @ B, rtol=1e-10)


def test_penalty_is_that_of_the_smallest_held_out_errors():
    """Sum over the states of the logarithm of their squares, over penalties from 1e-5 to 0.3."""
    rng = np.random.default_rng(6)
    x = np.cumsum(rng.standard_normal((60, 3)), axis=0) * [1.0, 10.0, 0.1]
    x -= x.mean(axis=0)
    folds = [(0, 20), (20, 40), (40, 60)]
    errors = []
    for penalty in PENALTIES:
        squares = np.zeros(3)
        for start, stop in folds:
            others = [np.arange(i, j - 1) for i, j in folds if i != start]
            rows = np.concatenate(others)
            B = ridge_transition(x[rows], x[rows + 1], penalty)
            squares += ((x[start + 1 : stop] - x[start : stop - 1] @ B) ** 2).sum(axis=0)
        errors.append(np.log(squares).sum())
    assert 0 < np.argmin(errors) < len(PENALTIES) - 1
    assert held_out_innovations(x, folds)[1] == PENALTIES[np.argmin(errors)]
    assert PENALTIES == (1e-5, 1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3)


def test_any_predictor_is_held_out_from_its_fold():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((30, 2))

    def fit(past, present):
        return LinearMap(np.zeros((2, 2)), np.concatenate([past, present]).mean(axis=0))

    errors = held_out_errors(x, [(0, 10), (10, 20), (20, 30)], fit)
    rest = np.concatenate([x[0:9], x[20:29], x[1:10], x[21:30]])
    assert_allclose(errors[1], x[11:20] - rest.mean(axis=0), rtol=1e-12)


def test_sums_of_blocks(energy):
    _, e = energy
    assert_array_equal(e @ block_sums(BLOCKS), np.column_stack([e[:, b].sum(axis=1) for b in BLOCKS]))


# --- rows with gaps ---------------------------------------------------------------------------------


GAP_BLOCKS = (slice(0, 2), slice(2, 3), slice(3, 5))
N, T = 5, 9


@pytest.fixture
def plant():
    rng = np.random.default_rng(3)
    B = 0.8 * np.linalg.qr(rng.standard_normal((N, N)))[0]
    root = rng.standard_normal((N, N))
    innovation = root @ root.T + np.eye(N)
    level = rng.standard_normal(N)
    regression = LinearMap(B.T, level)
    usual = RowBelief(np.linalg.solve(np.eye(N) - B, level), solve_discrete_lyapunov(B, innovation))
    return regression, ConditionalEnergy(innovation, GAP_BLOCKS), usual


@pytest.fixture
def patterns():
    extra = np.zeros((3, N, N))
    extra[1, GAP_BLOCKS[0], GAP_BLOCKS[0]] = [[4.0, 1.0], [1.0, 2.0]]
    extra[1, 3:, 3:] = 0.5 * np.eye(2)
    seen = np.array([[True, True, True], [True, True, True], [True, False, True], [False, False, False]])
    return [RowPattern(s, e) for s, e in zip(seen, [*extra, np.zeros((N, N))], strict=True)]


PATTERN_OF = np.array([1, 0, 2, 1, 3, 3, 2, 0, 0])


def seen_columns(pattern):
    return np.concatenate([np.arange(b.start, b.stop) for b, s in zip(GAP_BLOCKS, pattern.seen, strict=True) if s])


def test_surprises_are_those_of_a_dense_gaussian(plant, patterns):
    regression, energy, usual = plant
    x = np.random.default_rng(4).standard_normal((T, N))
    _, own, given, _ = surprises_with_gaps(regression, energy, usual, x, patterns, PATTERN_OF, None)
    mean, covariance = dense_rows(regression.matrix.T, *usual, energy.covariance, regression.level, T)
    for t, k in enumerate(PATTERN_OF):
        covariance[t * N : t * N + N, t * N : t * N + N] += patterns[k].extra
    seen = np.array([patterns[k].seen for k in PATTERN_OF])
    expected = dense_surprises(mean, covariance, GAP_BLOCKS, x, seen)
    assert_allclose(own, expected[0], rtol=1e-9)
    assert_allclose(given, expected[1], rtol=1e-9)


def test_rows_are_judged_the_same_however_many_together(plant, patterns, monkeypatch):
    x = np.random.default_rng(4).standard_normal((T, N))
    whole = surprises_with_gaps(*plant, x, patterns, PATTERN_OF, None)
    monkeypatch.setattr("skfedcausal.statespace.detection.shift._TOGETHER", 1)
    parts = surprises_with_gaps(*plant, x, patterns, PATTERN_OF, None)
    for one, other in zip(whole[:3], parts[:3], strict=True):
        assert_array_equal(one, other)


def test_errors_are_those_expected_of_a_row_in_full_and_less_by_what_it_tells_of_a_level(plant, patterns):
    """After a row in full the error has covariance C and a noise beside it: ``C (C + extra)^-1`` of it is told."""
    regression, energy, usual = plant
    x, level, C = np.random.default_rng(4).standard_normal((T, N)), np.arange(1.0, N + 1), energy.covariance
    measured = np.array([0, 0, 0, 1, 1, 1, 0, 0, 1])
    bare = surprises_with_gaps(regression, energy, usual, x, patterns, measured, None)[0]
    found = surprises_with_gaps(regression, energy, usual, x, patterns, measured, None, level)[0]
    full = [1, 2, 7]
    for t in (*full, 3, 8):
        told = np.eye(N) if t in full else C @ np.linalg.inv(C + patterns[1].extra)
        assert_allclose(bare[t], told @ (x[t] - regression.predict(x[t - 1][None])[0]), atol=1e-12)
        assert_allclose(found[t], bare[t] - told @ level, atol=1e-12)


def test_absent_units_are_believed_to_be_at_the_level(plant, patterns):
    """So that nothing is surprising about a plant that follows it, which is not seen for a while."""
    regression, energy, usual = plant
    level, x = np.arange(1.0, N + 1), np.empty((T, N))
    for t in range(T):
        x[t] = usual.mean if t == 0 else regression.predict(x[t - 1][None])[0] + level
    absent = np.array([0, 2, 2, 2, 0, 3, 3, 0, 0])
    found = surprises_with_gaps(regression, energy, usual, x, patterns, absent, None, level)[0]
    assert_allclose(found, 0.0, atol=1e-9)


def test_units_that_share_nothing_are_followed_on_their_own():
    """While one is absent only its own uncertainty grows; patterns that come again find it changed."""
    innovation, B = np.diag([1.0, 2.0, 0.5, 1.5, 1.0]), np.diag([0.9, 0.8, 0.95, 0.7, 0.6])
    energy, regression = ConditionalEnergy(innovation, GAP_BLOCKS), LinearMap(B, np.zeros(N))
    usual = RowBelief(np.zeros(N), solve_discrete_lyapunov(B, innovation))
    absent = np.array([1, 1, 0, 0, 0, 1, 0, 1, 1], dtype=bool)
    seen = np.column_stack([np.ones(T, dtype=bool), absent, np.ones(T, dtype=bool)])
    patterns = [RowPattern(row, np.zeros((N, N))) for row in (seen[2], seen[0])]
    x = np.random.default_rng(5).standard_normal((T, N))
    found = surprises_with_gaps(regression, energy, usual, x, patterns, absent.astype(int), None)
    mean, covariance = dense_rows(B, *usual, innovation, np.zeros(N), T)
    for one, other in zip(found[1:], dense_surprises(mean, covariance, GAP_BLOCKS, x, seen), strict=False):
        assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-7, 1e7])
def test_units_of_the_states_do_not_matter(plant, patterns, scale):
    regression, energy, usual = plant
    x = np.random.default_rng(4).standard_normal((T, N))
    expected = surprises_with_gaps(regression, energy, usual, x, patterns, PATTERN_OF, None)
    found = surprises_with_gaps(
        LinearMap(regression.matrix, scale * regression.level),
        ConditionalEnergy(scale**2 * energy.covariance, GAP_BLOCKS),
        RowBelief(scale * usual.mean, scale**2 * usual.covariance),
        scale * x,
        [RowPattern(pattern.seen, scale**2 * pattern.extra) for pattern in patterns],
        PATTERN_OF,
        None,
    )
    assert_allclose(found[1], expected[1], rtol=1e-9)
    assert_allclose(found[2], expected[2], rtol=1e-9)


def test_nothing_depends_on_what_stands_in_for_absent_units(plant, patterns):
    regression, energy, usual = plant
    x = np.random.default_rng(4).standard_normal((T, N))
    other = x.copy()
    for t, k in enumerate(PATTERN_OF):
        gone = np.setdiff1d(np.arange(N), seen_columns(patterns[k])) if patterns[k].seen.any() else slice(None)
        other[t, gone] = 1e6
    run = [surprises_with_gaps(regression, energy, usual, z, patterns, PATTERN_OF, None) for z in (x, other)]
    assert_array_equal(run[0][0], run[1][0])
    assert_array_equal(run[0][1], run[1][1])
    assert_array_equal(run[0][3].mean, run[1][3].mean)


def test_pieces_of_a_record_give_what_the_whole_gives(plant, patterns):
    regression, energy, usual = plant
    x = np.random.default_rng(4).standard_normal((T, N))
    _, own, given, last = surprises_with_gaps(regression, energy, usual, x, patterns, PATTERN_OF, None)
    belief, pieces = None, []
    for rows in (slice(0, 1), slice(1, 5), slice(5, T)):
        _, *piece, belief = surprises_with_gaps(regression, energy, usual, x[rows], patterns, PATTERN_OF[rows], belief)
        pieces.append(piece)
    assert_allclose(np.concatenate([p[0] for p in pieces]), own, rtol=1e-12)
    assert_allclose(np.concatenate([p[1] for p in pieces]), given, rtol=1e-12)
    assert_array_equal(belief.mean, last.mean)


def test_complete_rows_are_judged_by_the_nominal_energy(plant, patterns):
    regression, energy, usual = plant
    x = np.random.default_rng(4).standard_normal((T, N))
    _, own, given, belief = surprises_with_gaps(regression, energy, usual, x, patterns, np.zeros(T, dtype=int), None)
    e = x[1:] - regression.predict(x[:-1])
    assert_allclose(own[1:], energy.own(e), rtol=1e-12)
    assert_allclose(given[1:], energy.given_others(e), rtol=1e-12)
    assert belief.covariance is None


def test_slopes_of_a_learned_predictor_are_its_derivatives():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((3, 3))

    class Model:
        def predict(self, past):
            return past @ A

    scaled = ScaledMap(Model(), rng.standard_normal(3), np.array([0.1, 1.0, 20.0]))
    past = rng.standard_normal(3)
    step = 1e-3
    for j in range(3):
        moved = past + step * np.eye(3)[j]
        slope = (scaled.predict(moved[None]) - scaled.predict(past[None]))[0] / step
        assert_allclose(scaled.slopes(past)[:, j], slope, rtol=1e-6)


def test_matrices_of_many_blocks_are_sparse_and_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    e, roots = rng.standard_normal((7, 4)), [rng.standard_normal((k, k)) for k in (1, 2, 1)]
    covariances = [root @ root.T + np.eye(len(root)) for root in roots]
    few = energies.OwnEnergy(covariances)
    monkeypatch.setattr(energies, "_MANY", 3)
    many = energies.OwnEnergy(covariances)
    assert isinstance(many.precision, sparse.csr_array)
    assert_allclose(many.precision.toarray(), few.precision)
    assert_allclose(many.own(e), few.own(e), rtol=1e-12)
    whole = ConditionalEnergy(np.linalg.inv(few.precision), (slice(0, 1), slice(1, 3), slice(3, 4)))
    assert_allclose(many.own(e), whole.own(e), rtol=1e-12)
