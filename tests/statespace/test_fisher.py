"""Information of chosen elements against Whittle's formula for the whole matrix."""

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from skfedcausal.statespace import whittle
from skfedcausal.statespace.whittle import FreeElements, InformationColumns, WhittleLikelihood

from ._reference import (
    EndlessRecord,
    assert_gradient,
    assert_within,
    random_covariance,
    random_transition,
    rounding,
    unit_directions,
    whittle_information,
)

N_FREQUENCIES = 9


def matrices(n, seed=0):
    rng = np.random.default_rng(seed)
    return random_transition(rng, n), random_covariance(rng, n), random_covariance(rng, n)


def spectral_information(A, Q, N):
    return WhittleLikelihood(EndlessRecord(A, Q, N, N_FREQUENCIES), N).information(A, Q)


def masked(n, share_of_A, share_of_Q, seed=1):
    rng = np.random.default_rng(seed)
    covariance = rng.random((n, n)) < share_of_Q
    return FreeElements.from_masks(rng.random((n, n)) < share_of_A, covariance | covariance.T)


def elements(free):
    """(row, column) of the free elements of A and of Q."""
    return list(zip(free.rows, free.cols, strict=True)), list(zip(free.first, free.second, strict=True))


MASKS = pytest.mark.parametrize("shares", [(1.0, 1.0), (0.4, 0.4), (0.5, 0.0), (0.0, 0.5)], ids=str)


@MASKS
@pytest.mark.parametrize("n", [1, 2, 4])
def test_square_is_the_information_of_the_free_elements(n, shares):
    free = masked(n, *shares, seed=5)
    of_A, of_Q = elements(free)
    A, Q, N = matrices(n)
    directions = unit_directions(n, of_A), unit_directions(n, of_Q, symmetric=True)
    result = InformationColumns(spectral_information(A, Q, N), free).square()
    assert result.shape == (len(of_A) + len(of_Q),) * 2
    if result.size:
        expected, error = whittle_information(A, Q, N, N_FREQUENCIES, *directions)
        assert_within(result, expected, error)


@MASKS
def test_columns_hold_the_information_against_every_element(shares):
    n = 3
    free, every = masked(n, *shares), masked(n, 1.0, 1.0)
    A, Q, N = matrices(n)
    of_A, of_Q = elements(every)
    directions = unit_directions(n, of_A), unit_directions(n, of_Q, symmetric=True)
    expected, error = whittle_information(A, Q, N, N_FREQUENCIES, *directions)
    free_of_A, free_of_Q = elements(free)
    places = [of_A.index(e) for e in free_of_A] + [n * n + of_Q.index(e) for e in free_of_Q]
    columns = InformationColumns(spectral_information(A, Q, N), free)
    against_A = columns.transition().reshape(len(places), n * n)
    assert_within(against_A, expected[places, : n * n], error)
    against_Q = columns.covariance()[:, every.first, every.second]
    assert_within(against_Q, expected[places, n * n :], error)
    np.testing.assert_array_equal(columns.covariance(), np.swapaxes(columns.covariance(), 1, 2))


@pytest.mark.parametrize("width", [1, 3, 7, 1000])
def test_columns_do_not_depend_on_how_many_are_formed_at_a_time(width, monkeypatch):
    info, free = spectral_information(*matrices(3)), masked(3, 0.7, 1.0)
    expected = InformationColumns(info, free)
    expected_parts = expected.transition(), expected.covariance(), expected.square()
    monkeypatch.setattr(whittle, "_COLUMNS", width)
    result = InformationColumns(info, free)
    for a, b in zip((result.transition(), result.covariance(), result.square()), expected_parts, strict=True):
        # the same sums of 4 * 9 * 3 products, in other batches
        assert_within(a, b, rounding(4 * N_FREQUENCIES * 3) * np.abs(b).max())


@MASKS
@pytest.mark.parametrize("columns_at_once", [1, 2, 5, 64])
def test_columns_too_large_to_keep_are_formed_for_some_rows_or_some_elements(shares, columns_at_once, monkeypatch):
    n = 5
    info, free = spectral_information(*matrices(n)), masked(n, *shares)
    row_bytes = free.n_elements * n * 8
    monkeypatch.setattr(whittle, "_COLUMNS", columns_at_once)
    monkeypatch.setattr(whittle, "_KEPT", n * row_bytes)
    kept = InformationColumns(info, free)
    of_A, of_Q = kept.transition(), kept.covariance()
    monkeypatch.setattr(whittle, "_KEPT", 4 * row_bytes)  # of two rows and what is made of them
    large = InformationColumns(info, free)
    assert (kept.is_large, large.is_large) == (False, True)
    assert (kept.rows_at_once, large.rows_at_once) == (n, 2)
    error = rounding(4 * N_FREQUENCIES * n) * max(np.abs(of_A).max(), np.abs(of_Q).max())
    for rows in (slice(0, 2), slice(2, 5), slice(None)):
        assert_within(large.transition(rows), of_A[:, rows], error)
        assert_within(large.covariance(rows), of_Q[:, rows], error)
        assert_within(kept.transition(rows), of_A[:, rows], error)
        assert_within(kept.covariance(rows), of_Q[:, rows], error)
    first, second = np.array([0, 1, 2, 2]), np.array([0, 0, 2, 1])
    assert_within(large.transition_at(first, second), of_A[:, first, second], error)
    assert_within(large.covariance_at(first, second), of_Q[:, first, second], error)
    assert_within(large.square(), kept.square(), error)
    numbers = []
    for chosen, piece in large.pieces():
        numbers.extend(range(free.n_elements)[chosen])
        assert len(range(free.n_elements)[chosen]) <= columns_at_once
        assert_within(piece.transition(), of_A[chosen], error)
        assert_within(piece.covariance(), of_Q[chosen], error)
    assert numbers == list(range(free.n_elements))


@MASKS
def test_free_elements_are_gathered_where_they_were_scattered(shares):
    free = masked(4, *shares)
    vector = np.random.default_rng(0).normal(size=free.n_transition + len(free.first))
    A, Q = free.scatter(vector, (4, 4))
    np.testing.assert_array_equal(free.gather(A, Q), vector)
    np.testing.assert_array_equal(Q, Q.T)
    assert np.count_nonzero(A) == free.n_transition
    assert np.count_nonzero(np.tril(Q)) == len(free.first)


def test_gradient_is_that_of_a_function_of_the_free_elements():
    free = masked(3, 0.6, 0.8)
    rng = np.random.default_rng(2)
    A, Q, weight = rng.normal(size=(3, 3)), random_covariance(rng, 3) + np.eye(3), rng.normal(size=(3, 3))

    def function(vector):
        dA, dQ = free.scatter(vector[0], (3, 3))
        return np.sum(weight * (A + dA) ** 3) + np.linalg.slogdet(Q + dQ)[1]

    start = np.zeros((1, free.n_transition + len(free.first)))
    assert_gradient(free.gradient(3 * weight * A**2, np.linalg.inv(Q))[None], function, start)


@pytest.mark.parametrize("radius", [0.5, 0.9, 0.95, 0.99])
def test_slow_states_get_the_frequencies_that_their_information_needs(radius):
    """The states' spectrum has the poles of A; the grid of the likelihood, which has not, misses its peak."""
    A, Q, N = matrices(4)
    A *= radius / np.abs(np.linalg.eigvals(A)).max()
    root = np.linalg.cholesky(solve_discrete_lyapunov(A, Q))  # states of unit covariance, as plants have them
    A, Q = np.linalg.solve(root, A @ root), np.linalg.inv(root) @ Q @ np.linalg.inv(root).T
    free = masked(4, 1.0, 0.0)
    result = InformationColumns(spectral_information(A, Q, N), free).square()
    fine = WhittleLikelihood(EndlessRecord(A, Q, N, 3000), N).information(A, Q)
    expected = InformationColumns(fine, free).square()
    root = np.linalg.cholesky(np.linalg.inv(expected))
    shares = np.linalg.eigvalsh(root.T @ result @ root)
    # 0.025 of each column of the covariance may come back, from either side; of what is known of the states
    # that is the more the less is known
    known = np.linalg.eigvalsh(fine.V.mean(axis=0).real)[0]
    assert np.abs(shares - 1).max() < 2 * 0.025 * np.sqrt(4) / known
