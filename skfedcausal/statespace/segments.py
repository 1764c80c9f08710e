"""Where the level of series moves: suddenly or along a ramp, in which rows, and how much speaks for it.

Changes of level are terms of an autoregression of the series,

    x[t] = c + sum_l A_l x[t-l] + sum_j b_j path_j(t) + e[t],

whose coefficients are learned together with them: poles near one and levels that shift look alike, and coefficients
that were learned without shifts leave nothing of them. The rest is a choice of terms. Changes at the borders of short
blocks are left out one after the other, the one that explains least first, until each explains more than any would by
chance. Those that stay are moved, one beside the others, to the rows and the duration that
explain most, and left out again. Two guards stand at the end. Standard errors that allow for errors of any variance
(White 1980) must leave every change clear, and all together must explain more for their coefficients [1]_ than slow
waves do, as what drifts consists of.

References
----------
.. [1] Schwarz (1978), Estimating the dimension of a model, Annals of Statistics 6(2).
"""

from typing import NamedTuple

import numpy as np
from scipy.signal import lfilter
from scipy.special import chdtri

from .episodes import column_mean, episodes
from .tuning import TUNING

_LAGS, _UNDER_INPUTS = 2, 4  # of the autoregression, without inputs and with these: what they excite shows more of it
SHORTEST = 20  # rows between two changes, and between one and the end of an episode
CHANCE = 1e-9  # of a change anywhere in a record without one
_FIRST = 0.4  # share of the bar at the first look: a ramp is not yet one change
_DURATIONS = (1, 3, 6, 12, 18, 26, 36, 48, 60, 75, 96, 128)  # rows that a change takes
_WINDOW = 200  # rows by which a change is moved at most, or two blocks
_SMALL = 1e-9  # share of the largest variance below which there is none


class Change(NamedTuple):
    """Rows from `start` to before `stop` in which a level moves, one row if it does at once.

    `ratio` is twice the gain in log-likelihood by it.
    """

    start: int
    stop: int
    ratio: float = np.inf

    def path(self, rows):
        """Share of the change that is done in each of some rows."""
        return ((np.asarray(rows) - self.start + 1) / (self.stop - self.start)).clip(0.0, 1.0)


def find_changes(x, starts, *, chance=CHANCE, known=None, present=None):
    """Changes of the level of series, in their order.

    Parameters
    ----------
    x : ndarray of shape (n_samples, n)
    starts : tuple of int
        First rows of episodes.
    chance : float
        Probability of a change anywhere in a record without one, about.
    known : ndarray of shape (n_samples, k) or None
        Series that act on these beside their past.
    present : ndarray of shape (n_samples,) or None
        Rows in which the series were measured, None for all.

    Returns
    -------
    list of Change
        Empty without any, and of records too short to tell.
    """
    record = LevelRegression.of(x, starts, known=known, present=present)
    return [] if record is None else record.changes(chance)


class _Sums(NamedTuple):
    """Sums over the rows of changes beside the past."""

    squares: np.ndarray  # (m, m)
    products: np.ndarray  # with the residuals, (m, k)
    with_past: np.ndarray  # products of the changes themselves with the past, (m, q)


class LevelRegression:
    """White residuals (n_rows, k) of an autoregression without changes, their rows, and what it is regressed on.

    `past` (n_rows, q) is an orthonormal basis of that, and changes count by what of them is beside it.
    """

    def __init__(self, rows, errors, past, starts, n_samples):
        self.rows, self.errors, self.past, self.n_samples = rows, errors, past, n_samples
        self._starts, self._borders = starts, [*starts, n_samples]
        self._k = errors.shape[1]
        self._walk = np.zeros((len(rows) + 1, self._k + past.shape[1]))  # sums over the rows before each
        np.cumsum(errors, axis=0, out=self._walk[1:, : self._k])
        np.cumsum(past, axis=0, out=self._walk[1:, self._k :])

    @classmethod
    def of(cls, x, starts, *, known=None, present=None):
        """From series (n_samples, n), None where these are too many for their rows; see :func:`find_changes`."""
        n_known = 0 if known is None else (TUNING.segments_memory + 1) * known.shape[1]
        n_lags, lead = (_UNDER_INPUTS, TUNING.segments_memory) if n_known else (_LAGS, _LAGS)
        rows = np.concatenate([np.arange(min(a + lead, b), b) for a, b in episodes(starts, len(x))])
        if present is not None:
            rows = rows[np.all([present[rows - lag] for lag in range(n_lags + 1)], axis=0)]
        n_blocks = min(TUNING.segments_most_blocks, len(rows) // TUNING.segments_block)
        n_coefficients = len(starts) + (n_lags + 1) * x.shape[1] + n_known + n_blocks
        if n_blocks < 2 or len(rows) < TUNING.segments_per_coefficient * n_coefficients:
            return None
        level = column_mean(x)
        x = _whitened(x - level, np.abs(level))
        now, *before = (x[rows - lag] for lag in range(n_lags + 1))
        before.append(_smoothed(x, starts)[rows - 1])
        before += [known[rows - lag] for lag in range(TUNING.segments_memory + 1)] if n_known else []
        lagged, inside = np.column_stack(before), np.zeros((len(rows), len(starts)))
        borders = np.searchsorted(rows, [*starts, len(x)])
        for k, (a, b) in enumerate(zip(borders[:-1], borders[1:], strict=True)):
            if a < b:
                lagged[a:b] -= column_mean(lagged[a:b])
                inside[a:b, k] = 1 / np.sqrt(b - a)
        past = np.hstack([inside, _whitened(lagged) / np.sqrt(len(rows))])
        errors = _whitened(now - past @ (past.T @ now), 1.0)
        return cls(rows, errors, past, starts, len(x)) if errors.size else None

    def changes(self, chance=CHANCE, *, sudden=False):
        """Changes that are clear, in their order.

        Of those that are `sudden` each is one at the first look already, and they are ahead of as many slow waves.
        """
        bar = float(chdtri(self._k, chance / len(self.rows) / len(_DURATIONS)))  # of so many changes that are tried
        found = self._candidates()
        first = bar if sudden else _FIRST * bar
        if not self._may_change(found, first):
            return []
        found = self._kept(found, first)
        for _ in range(TUNING.segments_passes if found else 0):
            before, found = found, self._kept(self._moved(found), bar)
            if found == before:
                break
        while found:
            robust = self._robust(found)
            worst = int(robust.argmin())
            if robust[worst] > bar:
                break
            found = self._kept(found[:worst] + found[worst + 1 :], bar)
        return found if found and self._is_ahead(found, 0.0 if sudden else np.log(len(self.rows))) else []

    def levels(self, changes):
        """Numbers of the levels before, between and behind changes as they come: those that may be the same are one."""
        sums, n = self._sums(changes), len(self.rows)
        of = np.arange(len(changes) + 1)
        while of.any():
            between = np.diff((of[:, None] == np.arange(1, of.max() + 1)).astype(float), axis=0)
            products = between.T @ sums.products
            known = np.linalg.pinv(between.T @ sums.squares @ between, hermitian=True)
            left = (1 + _SMALL) * np.eye(self._k) - products.T @ known @ products / n
            levels, known = np.pad(known @ products, ((1, 0), (0, 0))), np.pad(known, ((1, 0), (1, 0)))
            apart = levels[:, None] - levels
            variance = known.diagonal()[:, None] + known.diagonal() - 2 * known
            squares = np.einsum("abi,ij,abj->ab", apart, np.linalg.inv(left), apart) / np.maximum(variance, _SMALL / n)
            np.fill_diagonal(squares, np.inf)
            a, b = sorted(np.unravel_index(squares.argmin(), squares.shape))
            if n * np.log1p(squares[a, b] / n) > chdtri(self._k, CHANCE / n / len(_DURATIONS)):
                break
            of[of == b] = a
            of = np.unique(of, return_inverse=True)[1]
        return of.tolist()

    # -- sums over rows ------------------------------------------------------------------------------

    def _episode(self, change):
        """First row of the episode that a change is in, and the one after its last."""
        k = int(np.searchsorted(self._borders, change.start, side="right"))
        return self._borders[k - 1], self._borders[k]

    def _paths(self, changes, rows):
        """Changes in some of the rows, (n_rows, n_changes)."""
        columns = np.zeros((len(rows), len(changes)))
        for column, change in zip(columns.T, changes, strict=True):
            first, last = np.searchsorted(rows, [change.start, self._episode(change)[1]])
            column[first:last] = change.path(rows[first:last])
        return columns

    def _sums(self, changes):
        """`_Sums` of changes in their order."""
        m, after = len(changes), np.searchsorted(self._borders, [change.start for change in changes], side="right")
        ends = np.searchsorted(self.rows, np.array(self._borders)[after])
        # a ramp is the mean of steps at each of its rows
        steps = np.array([row for change in changes for row in range(change.start, change.stop)], dtype=int)
        durations = np.array([change.stop - change.start for change in changes], dtype=int)
        firsts, places = np.cumsum(durations) - durations, np.searchsorted(self.rows, steps)
        products = self._walk[ends] - np.add.reduceat(self._walk[places], firsts, axis=0) / durations[:, None]
        n_rows = ends - np.add.reduceat(places, firsts) / durations
        squares = np.triu(np.where(ends[:, None] == ends, n_rows, 0.0))  # where the earlier one is done, the later is
        for i, change in enumerate(changes):
            for j in range(i, m):
                if changes[j].start >= change.stop - 1 and (i < j or durations[i] == 1):
                    break
                first, last = np.searchsorted(self.rows, [change.start, max(change.stop, changes[j].stop)])
                last = min(last, ends[i])
                both = self._paths([change, changes[j]], self.rows[first:last])
                squares[i, j] = (both[:, 0] @ both[:, 1] + ends[i] - last) * (ends[i] == ends[j])
        squares += np.triu(squares, 1).T
        with_past = products[:, self._k :]
        return _Sums(squares - with_past @ with_past.T, products[:, : self._k], with_past)

    def _beside(self, columns):
        """What of columns (n_rows, m) is beside the past."""
        return columns - self.past @ (self.past.T @ columns)

    # -- which changes -------------------------------------------------------------------------------

    def _candidates(self):
        """Sudden changes at the rows that blocks, of about one length in every episode, begin with."""
        found, length = [], max(TUNING.segments_block, self.n_samples // TUNING.segments_most_blocks)
        for a, b in episodes(self._starts, self.n_samples):
            found += np.linspace(a, b, max((b - a) // length, 1), endpoint=False).astype(int).tolist()
        apart = np.abs(np.subtract.outer(found, self._borders)).min(axis=1) >= SHORTEST
        return [Change(row, row + 1) for row, is_apart in zip(found, apart, strict=True) if is_apart]

    def _may_change(self, candidates, bar):
        """Whether one of the candidates alone or all together explain what they hardly do by chance."""
        if not candidates:
            return False
        sums, n = self._sums(candidates), len(self.rows)
        alone = np.square(sums.products).sum(axis=1) / np.maximum(sums.squares.diagonal(), _SMALL * n)
        by_chance = chdtri(len(candidates) * self._k, TUNING.segments_seldom)
        return n * np.log1p(alone.max() / n) > bar or self._ratio(sums.squares, sums.products) > by_chance

    def _kept(self, changes, bar):
        """Changes of which each is clear beside the others: the least one is left out as long as it is not."""
        changes, n = sorted(changes), len(self.rows)
        if not changes:
            return []
        sums = self._sums(changes)
        inverse = np.linalg.pinv(sums.squares, hermitian=True)
        effects = inverse @ sums.products
        left = (1 + _SMALL) * np.eye(self._k) - sums.products.T @ effects / n
        while changes:
            known = np.maximum(inverse.diagonal(), np.finfo(float).tiny)
            ratios = n * np.log1p((effects * np.linalg.solve(left, effects.T).T).sum(axis=1) / known / n)
            worst = int(ratios.argmin())
            if ratios[worst] > bar:
                return [Change(start, stop, float(r)) for (start, stop, _), r in zip(changes, ratios, strict=True)]
            others = np.delete(np.arange(len(changes)), worst)  # the regression without it, by one elimination
            share = inverse[others, worst] / known[worst]
            left += np.outer(effects[worst], effects[worst]) / known[worst] / n
            effects = effects[others] - np.outer(share, effects[worst])
            inverse = inverse[np.ix_(others, others)] - np.outer(share, inverse[worst, others])
            changes.pop(worst)
        return []

    # -- where they are ------------------------------------------------------------------------------

    def _moved(self, changes):
        """Changes, one after the other, in the rows in which they explain most beside the others."""
        changes = list(changes)
        window = max(_WINDOW, 2 * self.n_samples // TUNING.segments_most_blocks)
        for k, change in enumerate(changes):
            first, end = self._episode(change)
            before = [other.stop + SHORTEST for other in changes[:k] if first <= other.start]
            low = max([first + SHORTEST, change.start - window, *before])
            high = min(end - SHORTEST, change.stop + window)
            if low < high:
                changes[k] = self._best(changes[:k] + changes[k + 1 :], low, high, end)
        return changes

    def _best(self, others, low, high, end):
        """The change between two rows, of the episode that ends before `end`, that explains most beside others."""
        n, k = len(self.rows), self._k
        places, last = np.searchsorted(self.rows, np.arange(low, high)), np.searchsorted(self.rows, end)
        steps, left = self._walk[last] - self._walk[places], np.eye(k)
        if others:
            others = sorted(others)
            sums, inside = self._sums(others), slice(places[0], last)
            inverse = np.linalg.pinv(sums.squares, hermitian=True)
            left = left - sums.products.T @ inverse @ sums.products / n
            along = np.zeros((last - places[0] + 1, len(others)))
            along[:-1] = np.cumsum(self._paths(others, self.rows[inside])[::-1], axis=0)[::-1]
            beside = along[places - places[0]] - steps[:, k:] @ sums.with_past.T
            steps[:, :k] -= beside @ (inverse @ sums.products)
            values, axes = np.linalg.eigh(inverse)
            steps = np.hstack([steps, beside @ (axes * np.sqrt(values.clip(0)))])
        steps[:, :k] = steps[:, :k] @ np.linalg.cholesky(np.linalg.inv(left))
        walk = np.concatenate([np.zeros((1, steps.shape[1])), np.cumsum(steps, axis=0)])
        best = (-np.inf, 0, 0)
        for rows in _DURATIONS:
            if high - low < rows:
                break
            starts = np.arange(high - low - rows + 1)
            sums_ = (walk[starts + rows] - walk[starts]) / rows  # a ramp is the mean of steps
            # rows behind it count as one each, those inside as the squares of their shares
            squares = last - places[starts + rows - 1] - 1 + (rows + 1) * (2 * rows + 1) / (6 * rows)
            squares = squares - np.square(sums_[:, k:]).sum(axis=1)
            explained = np.square(sums_[:, :k]).sum(axis=1) / np.maximum(squares, _SMALL * n)
            place = int(explained.argmax())
            ratio = n * np.log1p(explained[place] / n) - (np.log(n) if rows > 1 else 0.0)  # a duration is a coefficient
            best = max(best, (float(ratio), low + place, low + place + rows))
        return Change(best[1], best[2])

    # -- whether they are what they seem -------------------------------------------------------------

    def _robust(self, changes):
        """Squares of the effects of changes over variances that hold whatever those of single errors are."""
        columns = self._beside(self._paths(changes, self.rows))
        weights = columns @ np.linalg.pinv(columns.T @ columns, hermitian=True)
        effects = weights.T @ self.errors
        left, found = self.errors - columns @ effects, np.empty(len(changes))
        calm = np.ones(len(self.rows), dtype=bool)  # rows in which sensors jump, and the past has them, are no noise
        for change in changes:
            calm &= (self.rows < change.start) | (self.rows >= change.stop + TUNING.segments_memory)
        for k in range(len(changes)):
            scores = weights[calm, k, None] * left[calm]
            variance = scores.T @ scores + _SMALL * np.eye(self._k) * np.square(scores).sum()
            found[k] = effects[k] @ np.linalg.solve(variance, effects[k])
        return len(self.rows) * np.log1p(found / len(self.rows))

    def _ratio(self, squares, products):
        """Log likelihood ratio, twice, of columns with these sums."""
        ridge = _SMALL * len(self.rows) * np.eye(len(squares))  # for columns that others determine
        explained = products.T @ np.linalg.solve(squares + ridge, products) / len(self.rows)
        return -len(self.rows) * float(np.linalg.slogdet((1 + _SMALL) * np.eye(self._k) - explained)[1])

    def _is_ahead(self, changes, price):
        """Whether changes explain more for the price of coefficients than slow waves, as what drifts has them, do."""
        numbers, n = np.arange(1, 2 * len(changes) + 2), len(self.rows)
        waves = self._beside(np.cos(np.pi * np.outer((self.rows + 0.5) / self.n_samples, numbers)))
        products = np.linalg.qr(waves)[0].T @ self.errors
        explained = np.cumsum(products[:, :, None] * products[:, None, :], axis=0) / n
        of_waves = -n * np.linalg.slogdet((1 + _SMALL) * np.eye(self._k) - explained)[1] - numbers * self._k * price
        sums = self._sums(changes)
        gain = self._ratio(sums.squares, sums.products) - len(changes) * (self._k + 1) * price  # one for the place
        return gain > of_waves.max()


def _smoothed(x, starts):
    """Exponential average of series over the rows before and at each, (n_samples, n)."""
    found, rate = np.empty_like(x), 1 - 1 / TUNING.segments_memory
    for a, b in episodes(starts, len(x)):
        if a < b:
            found[a:b] = lfilter([1 - rate], [1, -rate], x[a:b], axis=0, zi=rate * x[a : a + 1])[0]
    return found


def _whitened(columns, of=0.0):
    """Series of unit covariance that span columns of mean zero, without what is rounding of values as large as `of`."""
    covariance = columns.T @ columns / max(len(columns), 1)
    spread = np.sqrt(covariance.diagonal())
    moves = spread > TUNING.segments_rounding * of
    spread = spread[moves]
    values, axes = np.linalg.eigh(covariance[np.ix_(moves, moves)] / np.outer(spread, spread))
    large = values > _SMALL * values.max(initial=0)
    return columns[:, moves] @ (axes[:, large] / np.sqrt(values[large]) / spread[:, None])
