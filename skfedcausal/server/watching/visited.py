"""Levels that a nominal record visits and nobody told of: modes, recipes, set-points that are no inputs.

A plant that is switched between modes is driven by a step. Steps are terms of an autoregression of all states together,
so that slow loops are not taken for levels. Among steps at the borders of short blocks those that explain least are
left out, one after the other, until each explains more than any would by chance and than its penalty (Schwarz 1978,
Estimating the dimension of a model, Annals of Statistics 6). What slow waves explain about as well is a drift and no
switch, and nothing is said.
"""

from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from ...statespace.episodes import episodes
from .tuning import TUNING

_LAGS = 2  # of the autoregression
_SMALL = 1e-9  # share of the largest variance below which there is none


class Stretch(NamedTuple):
    """Rows from `start` to before `stop` at one of the levels, numbered as they come."""

    start: int
    stop: int
    level: int


def visited(x, starts):
    """Stretches at the levels of states (n_samples, n), without the rows in which they settle; none if it is one."""
    record = _Record.of(x, starts)
    if record is None:
        return []
    steps = record.kept(record.candidates())
    for _ in range(TUNING.visited_moves if steps else 0):
        before, steps = steps, record.kept(record.moved(steps))
        if steps == before:
            break
    if not 0 < len(steps) <= TUNING.visited_most_switches or not record.is_ahead(steps):
        return []
    edges = [0, *steps, len(x)]
    levels = record.levels(steps)
    found = []
    for a, b, level in zip(edges[:-1], edges[1:], levels, strict=True):
        for start, stop in episodes(sorted({a, *(s for s in starts if a < s < b)}), b):
            first = start + (min(TUNING.visited_settling, (stop - start) // 4) if start == a and a > 0 else 0)
            if stop - first >= TUNING.visited_least:
                found.append(Stretch(first, stop, level))
    sizes = np.bincount(levels, np.diff(edges))
    is_switched = 1 < len(sizes) <= TUNING.visited_most_levels and sizes.min() >= TUNING.visited_visited
    return found if is_switched and not _is_at_an_end(levels, sizes / len(x)) else []


def _is_at_an_end(levels, shares):
    """Whether all levels but one are a start-up, or something that only begins: short, once, where a record ends."""
    ends = {end for end in (levels[0], levels[-1]) if levels.count(end) == 1 and shares[end] < TUNING.visited_at_an_end}
    return len(shares) - len(ends) <= 1


class _Record:
    """White residuals (n_rows, k) of an autoregression without steps, their rows, and what it is regressed on.

    `past` is an orthonormal basis of that, and steps count by what of them is beside it.
    """

    def __init__(self, rows, starts, errors, past, n_samples):
        self.rows, self.starts, self.errors, self.past, self.n_samples = rows, starts, errors, past, n_samples
        n_rows, k = errors.shape
        self._covariance = np.eye(k)
        self._clear = max(chi2.isf(TUNING.visited_chance / n_rows, k), (k + TUNING.visited_place) * np.log(n_rows))

    @classmethod
    def of(cls, x, starts):
        """From states, None where these are too many for their rows."""
        rows = np.concatenate([np.arange(a + _LAGS, b) for a, b in episodes(starts, len(x))])
        n_blocks = min(TUNING.visited_most_blocks, len(rows) // TUNING.visited_block)
        n_coefficients = 1 + _LAGS * x.shape[1] + n_blocks
        if n_blocks < 2 or len(rows) < TUNING.visited_per_coefficient * n_coefficients:
            return None
        x = _whitened(x - x.mean(axis=0), x)
        before = np.column_stack([x[rows - k] for k in range(1, _LAGS + 1)])
        past = np.linalg.qr(np.column_stack([np.ones(len(rows)), _whitened(before - before.mean(axis=0), before)]))[0]
        errors = _whitened(x[rows] - past @ (past.T @ x[rows]), x)
        return cls(rows, starts, errors, past, len(x)) if errors.size else None

    def candidates(self):
        """Rows that blocks, of about one length in every episode, begin with."""
        length, first = max(TUNING.visited_block, self.n_samples // TUNING.visited_most_blocks), []
        for a, b in episodes(self.starts, self.n_samples):
            first += np.linspace(a, b, max((b - a) // length, 1), endpoint=False).astype(int).tolist()
        return [row for row in first[1:] if TUNING.visited_shortest <= row <= self.n_samples - TUNING.visited_shortest]

    def _beside(self, columns):
        return columns - self.past @ (self.past.T @ columns)

    def _steps(self, steps):
        """Steps beside what was before, (n_rows, n_steps)."""
        return self._beside((self.rows[:, None] >= np.array(steps)).astype(float))

    def _sums(self, columns):
        """Squares of columns, and their products with the residuals."""
        return columns.T @ columns, columns.T @ self.errors

    def _explained(self, squares, products):
        """Coefficients of further columns, from their sums, the inverse of their squares, and the covariance left."""
        known = np.linalg.pinv(squares, hermitian=True)
        B = known @ products
        return B, known, (1 + _SMALL) * self._covariance - products.T @ B / len(self.rows)

    def _ratio(self, columns):
        """Log likelihood ratio, twice, of further columns."""
        left = self._explained(*self._sums(columns))[-1]
        return -len(self.rows) * float(np.linalg.slogdet(left)[1])

    def _loss(self, squares):
        """Log likelihood ratios of contrasts with these squares in units of their variances."""
        return len(self.rows) * np.log1p(squares / len(self.rows))

    def kept(self, steps):
        """Steps of which each is clear beside the others."""
        steps = np.sort(np.array(steps, dtype=int))
        squares, products = self._sums(self._steps(steps))
        kept = np.arange(len(steps))
        while len(kept):
            B, known, left = self._explained(squares[np.ix_(kept, kept)], products[kept])
            loss = (B * np.linalg.solve(left, B.T).T).sum(axis=1) / np.maximum(known.diagonal(), 1e-300)
            worst = int(loss.argmin())
            if self._loss(loss[worst]) > self._clear:
                break
            kept = np.delete(kept, worst)
        return steps[kept].tolist()

    def moved(self, steps):
        """Steps, one after the other, at the rows between their neighbours at which they explain most."""
        steps = list(steps)
        for k, row in enumerate(steps):
            low, high = (
                [0, *steps][k] + TUNING.visited_shortest,
                [*steps[1:], self.n_samples][k] - TUNING.visited_shortest,
            )
            low, high = max(low, row - 4 * TUNING.visited_block), min(high, row + 4 * TUNING.visited_block)
            places = np.flatnonzero((self.rows >= low) & (self.rows <= high))
            if len(places):
                steps[k] = int(self.rows[places[self._best(steps[:k] + steps[k + 1 :], places)]])
        return steps

    def _best(self, others, places):
        """Which of some places a step beside others explains most at."""
        basis, errors = self.past, self.errors
        if others:
            more = np.linalg.qr(self._steps(others))[0]
            basis, errors = np.column_stack([basis, more]), errors - more @ (more.T @ errors)
        white = errors @ np.linalg.cholesky(np.linalg.inv(errors.T @ errors / len(errors)))
        after = np.cumsum(white[::-1], axis=0)[::-1][places]
        known = np.cumsum(basis[::-1], axis=0)[::-1][places]
        beside = len(self.rows) - places - np.square(known).sum(axis=1)
        return int((np.square(after).sum(axis=1) / np.maximum(beside, 1e-9)).argmax())

    def is_ahead(self, steps):
        """Whether steps explain clearly more than as many rows and sizes of slow waves, as what drifts has them."""
        k = 2 * len(steps) + 1
        waves = np.cos(np.pi * np.outer((self.rows + 0.5) / self.n_samples, np.arange(1, k + 1)))
        return self._ratio(self._steps(steps)) > TUNING.visited_ahead * self._ratio(self._beside(waves))

    def levels(self, steps):
        """Numbers of the levels before, between and behind steps: those that may be the same are one."""
        n = len(steps) + 1
        groups = [[k] for k in range(n)]
        while len(groups) > 1:
            columns = self._beside(np.column_stack([self._inside([0, *steps, self.n_samples], g) for g in groups[1:]]))
            B, known, left = self._explained(*self._sums(columns))
            B, known = np.vstack([np.zeros(B.shape[1]), B]), np.pad(known, ((1, 0), (1, 0)))  # beyond the first
            apart = B[:, None] - B[None]
            variance = known.diagonal()[:, None] + known.diagonal() - 2 * known
            squares = np.einsum("abi,ij,abj->ab", apart, np.linalg.inv(left), apart) / np.maximum(variance, 1e-300)
            np.fill_diagonal(squares, np.inf)
            a, b = sorted(np.unravel_index(squares.argmin(), squares.shape))
            if self._loss(squares[a, b]) > self._clear:
                break
            groups[a] += groups.pop(b)
        groups.sort(key=min)
        return [next(j for j, group in enumerate(groups) if k in group) for k in range(n)]

    def _inside(self, edges, pieces):
        return sum(((self.rows >= edges[k]) & (self.rows < edges[k + 1])).astype(float) for k in pieces)


def _whitened(columns, of):
    """Series of unit covariance that span columns, without what is no more than rounding of those they are made of."""
    spread = columns.std(axis=0)
    moves = spread > TUNING.visited_rounding * np.abs(of).max(axis=0, initial=0)
    scaled = columns[:, moves] / spread[moves]
    values, axes = np.linalg.eigh(scaled.T @ scaled / max(len(scaled), 1))
    large = values > _SMALL * values.max(initial=0)
    return scaled @ (axes[:, large] / np.sqrt(values[large]))
