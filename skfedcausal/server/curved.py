"""A curved plant: each state's next row by lines and curves of all states and inputs, and effects by runs of it.

For plants with inputs whose states act along curves: a coupling that saturates makes the effect of a large dose smaller
than any linear plant says, and its bands too. Curves are kinks of each state and input and products of two, with a
prior whose variance comes from the evidence; the whole stands back where stretches that are left out do not confirm it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from ..message.states import EffectReply
from ..statespace.episodes import inner_rows
from ..statespace.matrices import symmetric_root
from .lagged.curvature import Bends
from .links.grades import N_BLOCKS, STRICT, trimmed

_MOST_SIGNALS = 16  # states and inputs
_FEWEST_ROWS = 20  # for every curve
_CLEAR = 0.03  # share of a state's variance that is noise of its sensors, up to which curves are not flattened by it
_SHARES = 10.0 ** np.arange(-6, 1, 0.5)  # of the news that one curve may have
_RUNS, _DRAWS = 300, 40  # from states of the record, and of plants
_BEFORE = 100  # rows before a change that are run through
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class CurvedPlant:
    """What was learned; states and inputs are less their levels."""

    bends: Bends
    lines: np.ndarray  # (1 + n + k, c): what is linear in the curves, which they are less
    scale: np.ndarray  # (c,) of the curves
    low: np.ndarray  # range of states and inputs in the record
    high: np.ndarray
    plants: np.ndarray  # (1 + n_draws, 1 + n + k + c, n): coefficients, then draws of them
    noise: np.ndarray  # (n, n) root of the covariance of the news
    states: np.ndarray  # (n_runs, n) of the record, in no order

    def curves(self, x):
        """Curves of states and inputs (..., n + k), held within what was seen."""
        flat = x.reshape(-1, x.shape[-1])
        return (_bent(flat, self) - _with_level(flat) @ self.lines).reshape(*x.shape[:-1], -1) / self.scale

    def next_states(self, h, u, plants):
        """The next states (d, n_runs, n) of plants from states and inputs, less their news."""
        x = np.concatenate([h, np.broadcast_to(u, (*h.shape[:2], len(u)))], axis=2)
        return np.concatenate([np.ones((*h.shape[:2], 1)), x, self.curves(x)], axis=2) @ plants

    def effects(self, change, slices, before=None):
        """An `EffectReply` for every unit: means over runs from states of the record, of the plant and of draws.

        The covariance is that of the draws, of the runs and, where runs leave what the record has shown, the
        difference between going on along the line and staying at the border.
        """
        n_steps = len(change)
        u = np.zeros((n_steps, change.shape[1])) if before is None else before
        history, u = u[:-n_steps][-_BEFORE:], u[-n_steps:]
        rng = np.random.default_rng(0)
        start = np.broadcast_to(self.states, (len(self.plants), *self.states.shape))
        for row in history:
            start = self.next_states(start, row, self.plants) + self._news(rng)
        news = [self._news(rng) for _ in range(n_steps)]
        moved = self._run(start, u + change, news, self.plants) - self._run(start, u, news, self.plants)
        effect, drawn = moved[:, 0].mean(axis=1), moved[:, 1:].mean(axis=2)  # (n_steps, n), (n_steps, d, n)
        spread = drawn - effect[:, None]
        V = np.einsum("tdi,tdj->tij", spread, spread) / spread.shape[1]
        V[:, *np.diag_indices(V.shape[1])] += moved[:, 0].var(axis=1) / len(self.states)
        one = self.plants[:1]
        held = self._run(start[:1], u + change, news, one, True) - self._run(start[:1], u, news, one, True)
        beyond = held[:, 0].mean(axis=1) - effect
        V += beyond[:, :, None] * beyond[:, None, :]
        return {
            name: EffectReply(np.ascontiguousarray(effect[:, at]), np.ascontiguousarray(V[:, at, at]))
            for name, at in slices.items()
        }

    def _news(self, rng):
        return rng.standard_normal(self.states.shape) @ self.noise

    def _run(self, h, inputs, news, plants, stays=False):
        """States after every row of inputs, (n_steps, d, n_runs, n); one that `stays` is held where it was seen."""
        n, found = h.shape[2], []
        for u, w in zip(inputs, news, strict=True):
            if stays:
                h, u = np.clip(h, self.low[:n], self.high[:n]), np.clip(u, self.low[n:], self.high[n:])
            h = self.next_states(h, u, plants) + w
            found.append(h)
        return np.array(found)


@dataclass(frozen=True, eq=False)
class _Frame:
    """As much of a `CurvedPlant` as its curves need."""

    bends: Bends
    low: np.ndarray
    high: np.ndarray


def _bent(x, frame: Any):
    """Kinks of columns and products of two of them, held within what was seen."""
    held = np.clip(x, frame.low, frame.high)
    first, second = np.triu_indices(x.shape[1], 1)
    return np.hstack([frame.bends(x), held[:, first] * held[:, second]])


def _with_level(x):
    return np.hstack([np.ones((len(x), 1)), x])


def curved_plant(h, u, starts, noise, n_lags=1):
    """The :class:`CurvedPlant` of a record, or None where lines are enough.

    Parameters
    ----------
    h : ndarray of shape (n_samples, n)
        Scores of the states, less their levels.
    u : ndarray of shape (n_samples, k)
        Inputs, less theirs.
    starts : sequence of int
        First rows of episodes.
    noise : ndarray of shape (n,)
        Variance of the sensors' noise in the scores.
    n_lags : int
        Lags of the linear plant that curves have to be better than.

    Returns
    -------
    CurvedPlant or None
    """
    n, x = h.shape[1], np.hstack([h, u])
    if x.shape[1] > _MOST_SIGNALS or (noise > _CLEAR * h.var(axis=0)).any():
        return None
    rows = inner_rows(len(h), starts)
    past, now = x[rows - 1], h[rows]
    frame = _Frame(Bends.learned(past), past.min(axis=0), past.max(axis=0))
    columns, line = _bent(past, frame), _with_level(past)
    if len(rows) < _FEWEST_ROWS * columns.shape[1]:
        return None
    lines = np.linalg.lstsq(line, columns, rcond=None)[0]
    columns = columns - line @ lines
    scale = np.where(columns.std(axis=0) > _TINY, columns.std(axis=0), np.inf)
    regressors = np.hstack([line, columns / scale])
    prior = [_precision(regressors, now[:, i], line.shape[1]) for i in range(n)]
    late = _later_lags(x, rows, starts, n_lags)
    of_inputs = _of_inputs(columns / scale, frame.bends, n)
    straight = np.hstack([line, late, of_inputs])
    loss = _losses(straight, now, [np.full(straight.shape[1], _TINY)] * n)
    gain, error = trimmed(((loss - _losses(regressors, now, prior)) / loss.mean(axis=0)).T)
    if not (gain > stdtrit(N_BLOCKS - 1, STRICT) * error).any():
        return None
    plants, news = _drawn(regressors, now, prior)
    chosen = np.random.default_rng(0).choice(len(past), min(_RUNS, len(past)), replace=False)
    root = symmetric_root(news.T @ news / len(news))
    return CurvedPlant(frame.bends, lines, scale, frame.low, frame.high, plants, root, past[chosen, :n])


def _precision(X, y, n_lines):
    """Prior precision of each coefficient in units of the news: none of lines, the likeliest one of curves."""
    free, curves = X[:, :n_lines], X[:, n_lines:]
    rest = y - free @ np.linalg.lstsq(free, y, rcond=None)[0]
    values, axes = np.linalg.eigh(curves.T @ curves)
    on_axes = axes.T @ (curves.T @ rest)
    evidence = []
    for share in _SHARES:
        grown = 1 + share * np.maximum(values, 0)
        left = rest @ rest - (share / grown * on_axes**2).sum()
        evidence.append(-0.5 * (np.log(grown).sum() + len(y) * np.log(left)))
    return np.concatenate([np.full(n_lines, _TINY), np.full(curves.shape[1], 1 / _SHARES[np.argmax(evidence)])])


def _later_lags(x, rows, starts, n_lags):
    """States and inputs of rows before the last one, zero before an episode."""
    first = np.zeros(len(x), dtype=int)
    first[list(starts)] = list(starts)
    first = np.maximum.accumulate(first)[rows]
    late = [np.where((rows - lag >= first)[:, None], x[rows - lag], 0.0) for lag in range(2, n_lags + 1)]
    return np.hstack([np.zeros((len(rows), 0)), *late])


def _of_inputs(curves, bends, n):
    """Those kinks that are of inputs alone."""
    sizes = [len(knots) for knots in bends.knots]
    return curves[:, sum(sizes[:n]) : sum(sizes)]


def _losses(X, now, precisions):
    """Mean squares (n_blocks, n) of what is missed on stretches left out."""
    edges = np.linspace(0, len(X), N_BLOCKS + 1).astype(int)
    G, g, found = X.T @ X, X.T @ now, np.empty((N_BLOCKS, now.shape[1]))
    for k, (a, b) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        left, seen = X[a:b], now[a:b]
        square, cross = G - left.T @ left, g - left.T @ seen
        for i, precision in enumerate(precisions):
            missed = seen[:, i] - left @ np.linalg.solve(square + np.diag(precision), cross[:, i])
            found[k, i] = missed @ missed / (b - a)
    return found


def _drawn(X, now, precisions):
    """Posterior means of the coefficients and draws of them, (1 + n_draws, q, n), and the news of the means."""
    rng, found, news = np.random.default_rng(0), [], []
    G = X.T @ X
    for y, precision in zip(now.T, precisions, strict=True):
        root = np.linalg.cholesky(G + np.diag(precision))
        mean = np.linalg.solve(root.T, np.linalg.solve(root, X.T @ y))
        left = y - X @ mean
        draws = np.linalg.solve(root.T, rng.standard_normal((X.shape[1], _DRAWS))) * left.std()
        found.append(np.vstack([mean, mean + draws.T]))
        news.append(left)
    return np.stack(found, axis=2), np.array(news).T
