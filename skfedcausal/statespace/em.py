"""Expectation maximisation: a plant on complete data, a unit's own sensors, and a covariance of rows with gaps.

With the same sensors in every row the covariances of filter and smoother are steady, so that a step costs two
linear recurrences over the record and one regression [1]_. The first steps gain the most: a few of them from
the closed-form moments are nearly as good as the maximum, at a cost that is known beforehand.

Products of the cells that happen to be there give a matrix that need not be a covariance: with sensors that are nearly
linear combinations of each other it has negative variances. Expectation maximisation of a Gaussian covariance always
gives one, and uses what the cells that are there tell about the others.

References
----------
.. [1] Shumway, Stoffer (1982), An approach to time series smoothing and forecasting using the EM algorithm,
       Journal of Time Series Analysis 3(4).
"""

import numpy as np

from .detection.shift import block_sums
from .episodes import episodes
from .kalman import Recurrence, driven_recurrence, filtered_covariance, predicted_covariance, stationary_covariance
from .matrices import cap_radius, floor_eigenvalues
from .observation import patterns_of, rows_of_patterns
from .tuning import TUNING

_RIDGE = 1e-12  # of the moments' trace, where rows are too few to tell states apart


def expectation_maximisation(s, N, A, Q, starts=(0,), n_steps=20, support=None):
    """Climb from a plant towards the likeliest one.

    `s` (n_samples, n) are scores around the states with covariance N (n, n); `support` (n, n) is True where A may be.
    """
    J = np.linalg.inv(N)
    for _ in range(n_steps):
        now, before, cross = _expected_moments(s @ J, J, A, Q, starts)
        A = cap_radius(_regression(before, cross, support), TUNING.em_radius)
        Q = now - A @ cross.T - cross @ A.T + A @ before @ A.T
        Q = (Q + Q.T) / 2
    return A, Q


def block_statistics(s, N, A, Q, blocks, starts=(0,)):
    """Wald statistics of the blocks of A, those of a regression of the states on the filtered ones.

    What later innovations say of an element through the filter is left out, so that they are a little too
    small.
    """
    J = np.linalg.inv(N)
    P = predicted_covariance(A, J, Q)
    Pf = filtered_covariance(P, J)
    F = A - Pf @ J @ A
    z = s @ J
    filtered = np.concatenate([driven_recurrence(F, (z[i:j], Pf)) for i, j in episodes(starts, len(z))])
    moments = filtered.T @ filtered
    precision = np.linalg.inv(moments + _RIDGE * np.trace(moments) * np.eye(len(A)))
    innovations = P + N
    left, right = np.zeros_like(A), np.zeros_like(A)
    for b in blocks:
        left[b, b] = np.linalg.cholesky(np.linalg.inv(innovations[b, b]))
        right[b, b] = np.linalg.cholesky(np.linalg.inv(precision[b, b]))
    sums = block_sums(blocks)
    return sums.T @ (left.T @ A @ right) ** 2 @ sums


def _regression(before, cross, support):
    """A from the expected moments; rows of the same support are solved together.

    `before` and `cross` are (n, n), expected moments of the states before and of those after with them.
    """
    if support is None:
        return np.linalg.solve(before, cross.T).T
    A = np.zeros_like(before)
    patterns, group = np.unique(support, axis=0, return_inverse=True)
    for k, pattern in enumerate(patterns):
        rows, columns = np.flatnonzero(group.reshape(-1) == k), np.flatnonzero(pattern)
        solved = np.linalg.solve(before[np.ix_(columns, columns)], cross[np.ix_(rows, columns)].T)
        A[np.ix_(rows, columns)] = solved.T
    return A


def _expected_moments(z, J, A, Q, starts):
    """Moments of the states given the record, rows taken as if the filter had always run.

    `z` is (n_samples, n); J, A and Q are (n, n).
    """
    P = predicted_covariance(A, J, Q)
    Pf = filtered_covariance(P, J)
    G = np.linalg.solve(P, A @ Pf).T  # smoother gain
    spread = stationary_covariance(G, Pf - G @ P @ G.T)
    n, n_pairs = len(A), 0
    now, before, cross = np.zeros((3, n, n))
    bounds = episodes(starts, len(z))
    longest = max(stop - start for start, stop in bounds)
    forth, back = Recurrence(A - Pf @ J @ A, longest), Recurrence(G, longest)  # powers once for all episodes
    own = np.eye(n) - G @ A
    for start, stop in bounds:
        filtered = forth.run((z[start:stop], Pf))
        h = np.empty_like(filtered)
        h[-1] = filtered[-1]
        h[:-1] = back.run((filtered[-2::-1], own), x0=h[-1])[::-1]
        now += h[1:].T @ h[1:]
        before += h[:-1].T @ h[:-1]
        cross += h[1:].T @ h[:-1]
        n_pairs += stop - start - 1
    return now / n_pairs + spread, before / n_pairs + spread, cross / n_pairs + spread @ G.T


def observation_step(Y, states, covariances, noise_floor):
    """Maximise the expected log-density of measurements over loadings, noise variances and level.

    Each sensor is a regression of its own on the states, with moments ``E[h h'] = h h' + V`` instead of
    products of the states alone [1]_. Time steps at which a sensor is missing do not enter.
    """
    present = (~np.isnan(Y)).astype(float)
    counts = present.sum(axis=0)
    level = np.where(present > 0, Y, 0.0).sum(axis=0) / counts  # centred, or large levels cancel digits
    state_levels = present.T @ states / counts[:, None]
    centred = np.where(present > 0, Y - level, 0.0)
    products = np.einsum("td,ti,tj->dij", present, states, states, optimize=True)
    products -= counts[:, None, None] * state_levels[:, :, None] * state_levels[:, None, :]
    if covariances.ndim == 2:
        spread = counts[:, None, None] * covariances
    else:
        spread = np.einsum("td,tij->dij", present, covariances, optimize=True)
    C = np.linalg.solve(products + spread, (centred.T @ states)[..., None])[..., 0]
    residuals = (centred - (states @ C.T - np.einsum("di,di->d", C, state_levels))) * present
    squares = (residuals**2).sum(axis=0) + np.einsum("di,dij,dj->d", C, spread, C)
    mean = level - np.einsum("di,di->d", C, state_levels)
    return C, np.maximum(squares / counts, noise_floor), mean


def partial_covariance(Y, start, *, max_iter=50, tol=1e-3):
    """Covariance of centred rows, NaN standing for a missing cell, shape (n, n).

    Equations of section 11.3 of Little, Rubin, Statistical Analysis with Missing Data, for a known mean.
    """
    patterns = []  # of cells that are there: where, in how many rows, and the sum of their products
    for seen, rows in _rows_by_pattern(~np.isnan(Y)):
        if seen.any():
            y = Y[np.ix_(rows, seen)]
            patterns.append((seen, len(rows), y.T @ y))
    n_rows = sum(count for _, count, _ in patterns)
    covariance = floor_eigenvalues(start, TUNING.em_floor * np.linalg.eigvalsh(start)[-1])
    for _ in range(max_iter):
        root = np.linalg.cholesky(covariance)
        updated = sum(_expected_products(covariance, *pattern) for pattern in patterns) / n_rows
        inside = np.linalg.solve(root, np.linalg.solve(root, updated).T)
        covariance = (updated + updated.T) / 2
        if np.abs(inside - np.eye(len(inside))).max() <= tol:
            break
    return covariance


def expected_cells(Y, covariance):
    """Centred rows with missing cells at their expectation given the cells that are there.

    `Y` is (n_samples, n), NaN where missing, `covariance` (n, n).
    """
    filled = Y.copy()
    for seen, rows in _rows_by_pattern(~np.isnan(Y)):
        if not seen.all():
            weights = _expectation_weights(covariance, seen)[~seen]
            filled[np.ix_(rows, ~seen)] = Y[np.ix_(rows, seen)] @ weights.T
    return filled


def _rows_by_pattern(present):
    """Pairs of a pattern and its rows."""
    first, index = patterns_of(present)
    return zip(present[first], rows_of_patterns(index, len(first)), strict=True)


def _expectation_weights(covariance, seen):
    """Weights of the cells that are there in the expectation of all, shape (n, n_seen)."""
    weights = np.zeros((len(seen), seen.sum()))
    weights[seen] = np.eye(seen.sum())
    weights[~seen] = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, ~seen)]).T
    return weights


def _expected_products(covariance, seen, n_rows, products):
    """Expected sum of products of all cells in the rows of one pattern, given the cells that are there.

    `covariance` and the result are (n, n), `products` (n_seen, n_seen).
    """
    weights, gone = _expectation_weights(covariance, seen), ~seen
    expected = weights @ products @ weights.T
    left = covariance[np.ix_(gone, gone)] - weights[gone] @ covariance[np.ix_(seen, gone)]
    expected[np.ix_(gone, gone)] += n_rows * left
    return expected
