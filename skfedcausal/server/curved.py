"""A curved plant: each state's next row by lines and curves of all states and inputs, and effects by runs of it.

For plants with inputs whose states act along curves: a coupling that saturates makes the effect of a large dose smaller
than any linear plant says, and its bands too. Curves are kinks of each state and input and products of two, with a
prior whose variance comes from the evidence; the whole stands back where stretches that are left out do not confirm it.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..message.states import EffectReply
from ..statespace.episodes import inner_rows
from ..statespace.matrices import symmetric_root
from .links.grades import N_BLOCKS, NEGLIGIBLE, SURE, trimmed
from .tuning import TUNING

_SEED = 20, 13  # that no simulated record is likely to have: noise must not repeat it
_TINY = 1e-9


@dataclass(frozen=True, eq=False)
class Curves:
    """Kinks of columns, beyond what was seen too, and products of two columns, all less what is linear in them."""

    knots: np.ndarray  # (n_knots, m), even
    bounds: np.ndarray  # (n_bounds, 2, m) in which the columns are held in products
    lines: np.ndarray  # (1 + m, c)
    scale: np.ndarray  # (c,)

    @classmethod
    def of(cls, x, n_knots, tails=(0.0,)):
        """Those of columns (n_samples, m), whose knots go on for half their range at both ends.

        In products they are held between quantiles, with each of some `tails` beyond them.
        """
        low, high = x.min(axis=0), x.max(axis=0)
        wide = (high - low) / 2
        knots = np.linspace(low - wide, high + wide, 2 * n_knots)
        bounds = np.array([np.quantile(x, (tail, 1 - tail), axis=0) for tail in tails])
        held = [np.clip(x, *ends).std(axis=0)[None] for ends in bounds]
        scale = np.concatenate([np.tile(x.std(axis=0), 2 * n_knots), *(one[0] for one in _products(held))])
        plain = cls(knots, bounds, np.zeros((1 + x.shape[1], len(scale))), np.where(scale > 0, scale, np.inf))
        lines = np.linalg.lstsq(_with_level(x), plain(x), rcond=None)[0]
        return replace(plain, lines=lines)

    def __call__(self, x):
        kinks = np.maximum(x[:, None] - self.knots, 0.0).reshape(len(x), -1)
        products = _products([np.clip(x, *ends) for ends in self.bounds])
        return np.hstack([kinks, *products]) / self.scale - _with_level(x) @ self.lines

    @property
    def groups(self):
        """Number of the column whose kinks curves are, from m on that of the pair whose products they are, (c,)."""
        m = self.knots.shape[1]
        n_pairs, n_single = m * (m - 1) // 2, m * len(self.knots)
        pairs = m + np.arange(len(self.scale) - n_single) % n_pairs
        return np.concatenate([np.tile(np.arange(m), len(self.knots)), pairs])


@dataclass(frozen=True, eq=False)
class CurvedPlant:
    """What was learned; states and inputs are less their levels."""

    curves: Curves
    plants: np.ndarray  # (1 + n_draws, 1 + n + k + c, n): coefficients, then draws of them
    noise: np.ndarray  # (n, n) root of the covariance of the news
    states: np.ndarray  # (n_runs, n) of the record, in no order

    def effects(self, change, slices, before=None):
        """An `EffectReply` for every unit: means over runs from states of the record, of the plant and of draws.

        The covariance is that of the draws and of the runs. Kinks beyond what was seen are drawn from their prior, so
        that bands grow where runs go there, and by as much as it matters whether curves go on there at all.
        """
        u = np.zeros(change.shape) if before is None else before
        found = self._moved(self.plants[:1], self.states, u, change)[:, 0]  # (n_steps, n_runs, n)
        drawn = self._moved(self.plants[1:], self.states[: TUNING.curved_fewer_runs], u, change)
        held = self._moved(self.plants[:1], self.states[: TUNING.curved_fewer_runs], u, change, is_held=True)
        effect, few = found.mean(axis=1), found[:, None, : TUNING.curved_fewer_runs]
        spread, stops = (drawn - few).mean(axis=2), (held - few).mean(axis=2)
        V = np.einsum("tdi,tdj->tij", spread, spread) / spread.shape[1] + np.einsum("tdi,tdj->tij", stops, stops)
        V[:, *np.diag_indices(V.shape[1])] += found.var(axis=1) / found.shape[1]
        return {
            name: EffectReply(np.ascontiguousarray(effect[:, at]), np.ascontiguousarray(V[:, at, at]))
            for name, at in slices.items()
        }

    def _moved(self, plants, states, inputs, change, is_held=False):
        """What a change to the last rows of inputs does to runs of plants from states, (n_steps, d, n_runs, n)."""
        rng, n_before = np.random.default_rng(_SEED), len(inputs) - len(change)
        h, found = np.broadcast_to(states, (len(plants), *states.shape)), []
        moved = h
        for t in range(max(n_before - TUNING.curved_before, 0), len(inputs)):
            by, news = change[t - n_before] if t >= n_before else 0.0, rng.standard_normal(self.states.shape)
            news = (news @ self.noise)[: len(states)]
            h = self._next(plants, h, inputs[t], is_held) + news
            moved = self._next(plants, moved, inputs[t] + by, is_held) + news
            found.append(moved - h)
        return np.array(found[-len(change) :])

    def matrices_at(self, inputs):
        """Mean slopes, A (n, n) and B (n, k), over runs that stand under constant inputs (k,) such as were seen."""
        low, high = self.curves.bounds[0][:, self.states.shape[1] :]
        if ((inputs < low) | (inputs > high)).any():
            raise ValueError(
                "Got inputs in `at` that never stood there in `fit`, where nothing is known of the curves."
            )
        rng, h = np.random.default_rng(_SEED), self.states[None]
        for _ in range(TUNING.curved_before):
            h = self._next(self.plants[:1], h, inputs) + rng.standard_normal(self.states.shape) @ self.noise
        if (np.abs(h[0].mean(axis=0) - self._seen.mean(axis=0)) > np.diff(self._seen, axis=0)[0] / 2).any():
            raise ValueError("Got inputs in `at` under which states stand where hardly any row of `fit` was.")
        n, slopes = h.shape[2], []
        for move in np.diag(TUNING.curved_move * np.diff(self.curves.bounds[0], axis=0)[0]):
            ends = [self._next(self.plants[:1], h + sign * move[:n], inputs + sign * move[n:]) for sign in (1, -1)]
            slopes.append((ends[0] - ends[1])[0].mean(axis=0) / (2 * move.sum()))
        return np.hsplit(np.transpose(slopes), [n])

    def ahead(self, states, inputs, origins, n_steps, stop):
        """Means (n_origins, n) over the plant and some draws 1, ..., n_steps rows after some of a record, in turn.

        Without news: a draw that runs away takes the mean along.
        """
        plants = self.plants[::8]
        h = np.broadcast_to(states[origins], (len(plants), len(origins), states.shape[1]))
        for k in range(n_steps):
            h = self._next(plants, h, inputs[np.minimum(origins + k, stop - 1)])
            yield h.mean(axis=0)

    def _next(self, plants, h, u, is_held=False):
        """States (d, n_runs, n) one row after these, under inputs (k,) or (n_runs, k).

        With `is_held` states beyond what was seen act as at its ends, but on themselves, along their line.
        """
        u = np.broadcast_to(u, (*h.shape[:2], self.curves.knots.shape[1] - h.shape[2]))
        inside = np.clip(h, *self._seen) if is_held else h
        x = np.concatenate([inside, u], axis=2).reshape(-1, self.curves.knots.shape[1])
        found = np.hstack([_with_level(x), self.curves(x)]).reshape(*h.shape[:2], -1) @ plants
        return found + (h - inside) * np.einsum("dii->di", plants[:, 1 : 1 + h.shape[2]])[:, None] if is_held else found

    @cached_property
    def _seen(self):
        """Ends of what was seen of the states but for a few rows, (2, n)."""
        return np.quantile(self.states, (0.01, 0.99), axis=0)


def _products(held):
    """Products of two columns, (n_samples, n_pairs) for each: held in the same bounds, or in the first and the last."""
    first, second = np.triu_indices(held[0].shape[1], 1)
    ends = {0, len(held) - 1}
    places = [(i, j) for i in range(len(held)) for j in range(len(held)) if i == j or {i, j} == ends]
    return [held[i][:, first] * held[j][:, second] for i, j in places]


def _with_level(x):
    return np.hstack([np.ones((len(x), 1)), x])


def curved_plant(h, u, starts, noise, n_lags=1, at_once=False):
    """The :class:`CurvedPlant` of a record, or None where lines are enough.

    Parameters
    ----------
    h : ndarray of shape (n_samples, n)
        Scores of the states, less their levels.
    u : ndarray of shape (n_samples, k)
        Inputs, less theirs.
    starts : sequence of int
        First rows of episodes.
    noise : ndarray of shape (n, n)
        Covariance of the sensors' noise in the scores.
    n_lags : int
        Lags of the linear plant that curves have to be better than.
    at_once : bool, default=False
        Whether inputs act in the row they stand in too in that one, as they do not along curves: then these may miss
        no more of any state.

    Returns
    -------
    CurvedPlant or None
    """
    n, x = h.shape[1], np.hstack([h, u])
    n_knots = min(len(h) // (TUNING.curved_fewest_rows * x.shape[1]) - x.shape[1] // 2, TUNING.curved_most_knots)
    if (
        n_knots < TUNING.curved_fewest_knots
        or x.shape[1] > TUNING.curved_most_signals
        or (np.diag(noise) > TUNING.curved_clear * h.var(axis=0)).any()
    ):
        return None
    rows = inner_rows(len(h), starts)
    past, now = x[rows - 1], h[rows]
    curves = Curves.of(past, n_knots)
    line, bent = _with_level(past), curves(past)
    X, m = np.hstack([line, bent]), x.shape[1]
    groups = np.minimum(curves.groups, m)  # products have one prior
    priors = likeliest_priors(X, np.concatenate([np.arange(m + 1), m + 1 + groups]), now)
    is_given = np.concatenate([np.ones(m + 1, dtype=bool), (groups >= n) & (groups < m)])
    late = np.hstack([_later_lags(x, rows, starts, n_lags), u[rows] if at_once else u[rows, :0]])
    given = np.hstack([priors[:, is_given], np.full((n, late.shape[1]), _TINY)])  # curves of inputs are known without
    loss = held_out_losses(np.hstack([X[:, is_given], late]), now, given)
    gain, error = trimmed(((loss - held_out_losses(X, now, priors)) / loss.mean(axis=0)).T)
    if (gain - SURE * error).max() < NEGLIGIBLE or (at_once and gain.min() < -NEGLIGIBLE):
        return None
    plants, news = _drawn(curves, past, now, priors, noise)
    chosen = np.random.default_rng(_SEED).choice(len(past), min(TUNING.curved_runs, len(past)), replace=False)
    V = past[:, :n].T @ past[:, :n] / len(past)
    without = symmetric_root(_cleared(V, noise)) @ np.linalg.inv(symmetric_root(V))  # noise, which widens states
    return CurvedPlant(curves, plants, symmetric_root(news), past[chosen, :n] @ without.T)


def _cleared(V, noise):
    """A covariance less that of noise, which leaves some of it."""
    root = np.linalg.cholesky(V)
    w, E = np.linalg.eigh(np.eye(len(V)) - np.linalg.solve(root, np.linalg.solve(root, noise).T))
    return (root @ E * np.maximum(w, TUNING.curved_least_new)) @ (root @ E).T


def likeliest_priors(X, groups, now):
    """Prior precisions (n, q) of the coefficients of every state in units of its news: the likeliest ones by group.

    By MacKay's updates; the first column, a level, is free.
    """
    square, found = X.T @ X, []
    for y in now.T:
        cross, shares = X.T @ y, np.where(np.arange(groups.max() + 1) == 0, 1 / _TINY, TUNING.curved_first_share)
        for _ in range(TUNING.curved_updates):
            spread = np.linalg.inv(square + np.diag(1 / shares[groups]))
            mean = spread @ cross
            news = (y @ y - mean @ cross) / len(y)
            known = np.bincount(groups, 1 - np.diag(spread) / shares[groups])
            shares[1:] = (np.bincount(groups, mean**2) / news / np.maximum(known, _TINY))[1:]
            shares = np.clip(shares, TUNING.curved_least_share, 1 / TUNING.curved_least_share)
        found.append(1 / shares[groups])
    return np.array(found)


def _later_lags(x, rows, starts, n_lags):
    """States and inputs of rows before the last one, zero before an episode."""
    first = np.zeros(len(x), dtype=int)
    first[list(starts)] = list(starts)
    first = np.maximum.accumulate(first)[rows]
    late = [np.where((rows - lag >= first)[:, None], x[rows - lag], 0.0) for lag in range(2, n_lags + 1)]
    return np.hstack([np.zeros((len(rows), 0)), *late])


def held_out_losses(X, now, priors):
    """Mean squares (n_blocks, n) of what is missed on stretches left out."""
    edges = np.linspace(0, len(X), N_BLOCKS + 1).astype(int)
    G, g, found = X.T @ X, X.T @ now, np.empty((N_BLOCKS, now.shape[1]))
    for k, (a, b) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        left, seen = X[a:b], now[a:b]
        square, cross = G - left.T @ left, g - left.T @ seen
        for i, prior in enumerate(priors):
            missed = seen[:, i] - left @ np.linalg.solve(square + np.diag(prior), cross[:, i])
            found[k, i] = missed @ missed / (b - a)
    return found


def _means(X, now, priors):
    """Posterior means of the coefficients, (q, n)."""
    G, g = X.T @ X, X.T @ now
    return np.stack([np.linalg.solve(G + np.diag(prior), c) for c, prior in zip(g.T, priors, strict=True)], axis=1)


def _drawn(curves, past, now, priors, noise):
    """Coefficients and draws of them, (1 + n_draws, q, n), and the news.

    Noise of the sensors flattens: by as much as the same noise, added once more, flattens further [1]_. Draws have half
    of that as an error too.

    References
    ----------
    .. [1] Cook, Stefanski (1994), Simulation-extrapolation estimation in parametric measurement error models, Journal
           of the American Statistical Association 89.
    """
    rng, n = np.random.default_rng(_SEED), now.shape[1]
    X = np.hstack([_with_level(past), curves(past)])
    mean, noisier, missed = _means(X, now, priors), np.zeros((X.shape[1], n)), np.zeros((n, n))
    for _ in range(TUNING.curved_noisier):
        x = past.copy()
        x[:, :n] += rng.standard_normal((len(x), n)) @ symmetric_root(noise)
        of_noisy = np.hstack([_with_level(x), curves(x)])
        means = _means(of_noisy, now, priors)
        noisier += means / TUNING.curved_noisier
        missed += np.cov(now - of_noisy @ means, rowvar=False, bias=True).reshape(n, n) / TUNING.curved_noisier
    flattened, left, draws = mean - noisier, now - X @ mean, []
    news = left.T @ left / len(left)
    for i, prior in enumerate(priors):
        root = np.linalg.cholesky(X.T @ X + np.diag(prior))
        draws.append(
            np.linalg.solve(root.T, rng.standard_normal((X.shape[1], TUNING.curved_draws))).T
            * left[:, i].std()
            * TUNING.curved_wider
        )
    draws = mean + np.stack(draws, axis=2) + flattened * (1 + rng.standard_normal((TUNING.curved_draws, 1, 1)) / 2)
    return np.concatenate([(mean + flattened)[None], draws]), _cleared(news, noise + missed - news)
