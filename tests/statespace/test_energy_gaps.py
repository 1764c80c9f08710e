"""Surprises of rows with absent or noisy units, against conditioning a dense Gaussian of all rows."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from skfedcausal.statespace.detection.energy import ConditionalEnergy, LinearMap, ScaledMap
from skfedcausal.statespace.detection.energy_gaps import RowBelief, RowPattern, surprises_with_gaps

BLOCKS = (slice(0, 2), slice(2, 3), slice(3, 5))
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
    return regression, ConditionalEnergy(innovation, BLOCKS), usual


@pytest.fixture
def patterns():
    extra = np.zeros((3, N, N))
    extra[1, BLOCKS[0], BLOCKS[0]] = [[4.0, 1.0], [1.0, 2.0]]
    extra[1, 3:, 3:] = 0.5 * np.eye(2)
    seen = np.array([[True, True, True], [True, True, True], [True, False, True], [False, False, False]])
    return [RowPattern(s, e) for s, e in zip(seen, [*extra, np.zeros((N, N))], strict=True)]


PATTERN_OF = np.array([1, 0, 2, 1, 3, 3, 2, 0, 0])


def seen_columns(pattern):
    return np.concatenate(
        [np.arange(b.start, b.stop) for b, s in zip(BLOCKS, pattern.seen, strict=True) if s]
    )


def dense(plant, patterns):
    """Mean and covariance of all rows with their noise, one below the other."""
    regression, _, usual = plant
    B = regression.matrix.T
    covariance = np.zeros((T * N, T * N))
    for s in range(T):
        for t in range(s, T):
            block = np.linalg.matrix_power(B, t - s) @ usual.covariance
            covariance[t * N : t * N + N, s * N : s * N + N] = block
            covariance[s * N : s * N + N, t * N : t * N + N] = block.T
    for t, k in enumerate(PATTERN_OF):
        covariance[t * N : t * N + N, t * N : t * N + N] += patterns[k].extra
    return np.tile(usual.mean, T), covariance


def test_surprises_are_those_of_a_dense_gaussian(plant, patterns):
    regression, energy, usual = plant
    x = np.random.default_rng(4).standard_normal((T, N))
    own, given, _ = surprises_with_gaps(regression, energy, usual, x, patterns, PATTERN_OF, None)
    mean, covariance = dense(plant, patterns)
    past = np.arange(0)
    for t, k in enumerate(PATTERN_OF):
        if not patterns[k].seen.any():
            np.testing.assert_array_equal(own[t], 0.0)
            continue
        now = t * N + seen_columns(patterns[k])
        gain = np.linalg.solve(covariance[np.ix_(past, past)], covariance[np.ix_(past, now)]).T
        e = x.ravel()[now] - mean[now] - gain @ (x.ravel()[past] - mean[past])
        S = covariance[np.ix_(now, now)] - gain @ covariance[np.ix_(past, now)]
        L = np.linalg.inv(S)
        if t:  # the first row of an episode is not judged
            offset = 0
            for m, b in enumerate(BLOCKS):
                if not patterns[k].seen[m]:
                    assert own[t, m] == given[t, m] == 0.0
                    continue
                part = slice(offset, offset := offset + b.stop - b.start)
                assert own[t, m] == pytest.approx(e[part] @ np.linalg.solve(S[part, part], e[part]), rel=1e-9)
                rest = (L @ e)[part]
                assert given[t, m] == pytest.approx(rest @ np.linalg.solve(L[part, part], rest), rel=1e-9)
        past = np.concatenate([past, now])


def test_nothing_depends_on_what_stands_in_for_absent_units(plant, patterns):
    regression, energy, usual = plant
    x = np.random.default_rng(4).standard_normal((T, N))
    other = x.copy()
    for t, k in enumerate(PATTERN_OF):
        gone = (
            np.setdiff1d(np.arange(N), seen_columns(patterns[k])) if patterns[k].seen.any() else slice(None)
        )
        other[t, gone] = 1e6
    run = [surprises_with_gaps(regression, energy, usual, z, patterns, PATTERN_OF, None) for z in (x, other)]
    np.testing.assert_array_equal(run[0][0], run[1][0])
    np.testing.assert_array_equal(run[0][2].mean, run[1][2].mean)


def test_pieces_of_a_record_give_what_the_whole_gives(plant, patterns):
    regression, energy, usual = plant
    x = np.random.default_rng(4).standard_normal((T, N))
    own, given, last = surprises_with_gaps(regression, energy, usual, x, patterns, PATTERN_OF, None)
    belief, pieces = None, []
    for rows in (slice(0, 1), slice(1, 5), slice(5, T)):
        *piece, belief = surprises_with_gaps(
            regression, energy, usual, x[rows], patterns, PATTERN_OF[rows], belief
        )
        pieces.append(piece)
    np.testing.assert_allclose(np.concatenate([p[0] for p in pieces]), own, rtol=1e-12)
    np.testing.assert_allclose(np.concatenate([p[1] for p in pieces]), given, rtol=1e-12)
    np.testing.assert_array_equal(belief.mean, last.mean)


def test_complete_rows_are_judged_by_the_nominal_energy(plant, patterns):
    regression, energy, usual = plant
    x = np.random.default_rng(4).standard_normal((T, N))
    own, given, belief = surprises_with_gaps(
        regression, energy, usual, x, patterns, np.zeros(T, dtype=int), None
    )
    e = x[1:] - regression.predict(x[:-1])
    np.testing.assert_allclose(own[1:], energy.own(e), rtol=1e-12)
    np.testing.assert_allclose(given[1:], energy.given_others(e), rtol=1e-12)
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
        np.testing.assert_allclose(scaled.slopes(past)[:, j], slope, rtol=1e-6)
