"""Sums over segments of the record of what a row follows from, and the regressions that these sums give."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import linalg, stats

from ...statespace.episodes import episodes
from .tuning import TUNING

N_FOLDS = 10  # enough for error bars by the jackknife, and rows enough in each


@dataclass(frozen=True, eq=False)
class Rows:
    """Standardised scores and inputs of a record, and the segments of the record that are left out in turn.

    Attributes
    ----------
    states : ndarray of shape (n_samples, n)
    inputs : ndarray of shape (n_samples, q)
    n_lags : int
        Most lags that are looked at.
    stretches : tuple of ndarray of int
        Rows of each stretch: those before which `n_lags` rows of the same episode tell all scores.
    """

    states: np.ndarray
    inputs: np.ndarray
    n_lags: int
    stretches: tuple

    @classmethod
    def cut(cls, states, inputs, starts, n_lags, n_folds=N_FOLDS):
        """Rows of a record with NaN where scores are not known, in stretches of equally many."""
        there = np.isfinite(states).all(axis=1)
        whole = []
        for start, stop in episodes(starts, len(states)):
            known = np.concatenate([[0], np.cumsum(there[start:stop])])
            rows = np.arange(start + n_lags, stop)
            whole.append(rows[known[rows - start + 1] - known[rows - start - n_lags] == n_lags + 1])
        return cls(states, inputs, n_lags, tuple(np.array_split(np.concatenate(whole), n_folds)))

    def regressors(self, rows):
        """A constant, scores of lags 1 to `n_lags` and inputs of lags 0 to `n_lags`, side by side."""
        parts = [np.ones((len(rows), 1))]
        parts += [self.states[rows - k] for k in range(1, self.n_lags + 1)]
        parts += [self.inputs[rows - k] for k in range(self.n_lags + 1)]
        return np.hstack(parts)

    @cached_property
    def moments(self):
        """Sums of products of the regressors, and of these with the scores, by stretch."""
        squares, products = [], []
        for rows in self.stretches:
            F = self.regressors(rows)
            squares.append(F.T @ F)
            products.append(F.T @ self.states[rows])
        return Moments(np.array(squares), np.array(products), self.n_lags, self.states.shape[1])

    def followed(self):
        """P-values that inputs do not follow earlier scores, given their own past, ndarray of shape (q,).

        Notes
        -----
        Granger's test from scores to inputs: k times an F statistic, chi-squared of k coefficients with a mean of k and
        a variance of 2 k. Of an input whose news has the excess kurtosis c, as where it moves in a few of T rows only,
        the variance is about 2 k + c k^2 / T, and the law is that of the chi-squared with this mean and variance.
        """
        S, k, q = self.moments.total[0], self.states.shape[1] * self.n_lags, self.inputs.shape[1]
        own, read, now = np.r_[0, 1 + k + q : len(S)], np.r_[1 : 1 + k], np.r_[1 + k : 1 + k + q]
        less, left = (_left(S, now, used) for used in (own, np.r_[own, read]))
        statistic = (less / left - 1) * max(S[0, 0] - 1 - k - q * self.n_lags, 1)
        wider = 1 + 0.5 * stats.kurtosis(np.diff(self.inputs, axis=0), axis=0).clip(0) * k / S[0, 0]
        return stats.chi2.sf(statistic / wider, k / wider)


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums by stretch, of which regressions of fewer lags and without a stretch follow.

    Attributes
    ----------
    squares : ndarray of shape (n_folds, c, c)
    products : ndarray of shape (n_folds, c, n)
    n_lags, n_states : int
    """

    squares: np.ndarray
    products: np.ndarray
    n_lags: int
    n_states: int

    @cached_property
    def total(self):
        """Sums over all stretches, (c, c) and (c, n)."""
        return self.squares.sum(axis=0), self.products.sum(axis=0)

    def solved(self, p, ridge, now, left_out=None):
        """Coefficients of `p` lags, with a ridge for each row and without a stretch.

        Parameters
        ----------
        p : int
        ridge : float
        now : ndarray of bool of shape (q,) or (q, n)
            Inputs that may act in their own row, on all scores or on some.
        left_out : int, default=None

        Returns
        -------
        level : ndarray of shape (n,)
        A : ndarray of shape (p * n, n)
        C : ndarray of shape ((p + 1) * q, n)
            What scores of lags 1 to p and inputs of lags 0 to p add.
        """
        n, q = self.n_states, len(now)
        squares, products = self.total
        if left_out is not None:
            squares, products = squares - self.squares[left_out], products - self.products[left_out]
        level, A, C = np.zeros(n), np.zeros((n * p, n)), np.zeros(((p + 1) * q, n))
        now = np.broadcast_to(now.reshape(q, -1), (q, n))
        for acting in np.unique(now, axis=1).T:  # one, unless inputs act at once on some scores only
            own = (now == acting[:, None]).all(axis=0)
            at_once = np.flatnonzero(acting)
            first = 1 + n * self.n_lags
            used = np.concatenate([np.arange(1 + n * p), first + at_once, first + q + np.arange(p * q)])
            S = squares[np.ix_(used, used)]
            penalty = np.full(len(used), ridge * S[0, 0])
            penalty[0] = TUNING.moments_level_ridge * S[0, 0]
            found = linalg.solve(S + np.diag(penalty), products[np.ix_(used, own)], assume_a="pos")
            level[own], A[:, own] = found[0], found[1 : 1 + n * p]
            C[np.ix_(np.concatenate([at_once, q + np.arange(p * q)]), own)] = found[1 + n * p :]
        return level, A, C


def _left(S, at, used):
    """Sums of squares that a regression on some columns leaves of others; S has those of products."""
    least = TUNING.moments_level_ridge * S[0, 0]
    explained = linalg.solve(S[np.ix_(used, used)] + least * np.eye(len(used)), S[np.ix_(used, at)], assume_a="pos")
    return np.maximum(np.diag(S)[at] - (S[np.ix_(used, at)] * explained).sum(axis=0), least)
