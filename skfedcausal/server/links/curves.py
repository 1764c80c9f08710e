"""Curved links: what curves of a cause's states tell beyond the line, and their shape."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.linalg import block_diag, orth
from scipy.special import chdtrc, chdtri, chndtr, ndtri

from ...arguments import as_numbers, check_confidence
from ...statespace.held_out import LOCAL, N_LAGS, FullRegression, LaggedRows
from ...statespace.matrices import positions_of, slices_of
from ..estimation.evidence import holm
from ..joint import step_series
from .grades import (
    N_BLOCKS,
    NEGLIGIBLE,
    SURE,
    Gains,
    can_be_graded,
    driver_needed,
    exceeds_what_is_shared,
    rows_of,
    standardised,
    told_links,
    trimmed,
)
from .tables import pair_of
from .tuning import TUNING

# The shape of a curved link: what a state of the cause adds to the next state of the effect, beside its line.

_POINTS = np.linspace(0.01, 0.99, 99)  # quantiles of the cause's state at which a shape is told
COLUMNS = ("cause", "effect", "state", "other", "level", "adds", "error", "slope", "slope_error", "line")


class Shape(NamedTuple):
    """What a state adds, all in standard deviations of the states and less the mean over the record."""

    state: np.ndarray  # (q,)
    adds: np.ndarray  # (n_levels, q)
    error: np.ndarray  # (n_levels, q), standard errors
    slope: np.ndarray  # (n_levels, q), over some reach either way
    slope_error: np.ndarray
    line: float  # slope without curves
    levels: np.ndarray  # (n_levels,) of the state that it multiplies
    other: int | None = None  # column of that


def shape_of(x, now, beside, noise=0.0, factor=None, other=None):
    """The :class:`Shape` of what a state does to the next value of another.

    Kinks stand closer than those that a curve is found by: their prior has a variance that comes from the evidence, so
    that errors know what kinks miss [1]_.

    Parameters
    ----------
    x, now : ndarray of shape (n_samples,)
    beside : ndarray of shape (n_samples, c)
        All else that tells of the next value, with a level.
    noise : float
        Variance of the noise in the state, which flattens: by as much as the same once more flattens further.
    factor : ndarray of shape (n_samples,), default=None
        What the state multiplies, held within several of its quantiles.
    other : int, default=None
        Column of that.

    References
    ----------
    .. [1] Nychka (1988), Bayesian confidence intervals for smoothing splines, Journal of the American Statistical
           Association 83.
    """
    from ..curved import likeliest_priors  # of those that are curved alone

    pieces, free = _Pieces.of(x, factor), np.linalg.qr(beside)[0]
    columns = pieces(x, factor)
    scale = np.where(pieces.groups == 2, np.maximum(columns.std(axis=0), TUNING.shapes_least), 1.0)

    def less(part):
        return part - free @ (free.T @ part)

    X, y = less(columns / scale), less(now)
    square, prior = X.T @ X, np.diag(likeliest_priors(X, pieces.groups, y[:, None])[0])
    inverse = np.linalg.inv(square + prior)
    b, flattened, rng = inverse @ (X.T @ y), np.zeros(len(prior)), np.random.default_rng(_SEED)
    for _ in range(TUNING.shapes_noisier if noise else 0):  # as in the plant by curves
        more = less(pieces(x + np.sqrt(noise) * rng.standard_normal(len(x)), factor) / scale)
        flattened += (b - np.linalg.solve(more.T @ more + prior, more.T @ y)) / TUNING.shapes_noisier
    dof = len(y) - free.shape[1] - np.vdot(inverse, square)
    inverse *= np.square(y - X @ b).sum() / max(dof, 1.0) * TUNING.shapes_wider**2
    inverse, b = inverse + np.outer(flattened, flattened) / 4, b + flattened
    own, levels = np.quantile(x, _POINTS), np.zeros(1) if factor is None else pieces.bounds[-1]
    moves = -TUNING.shapes_reach, 0.0, TUNING.shapes_reach
    lower, at, upper = (np.array([pieces(own + move, level) for level in levels]) / scale for move in moves)
    designs = at - at.mean(axis=1, keepdims=True), (upper - lower) / (moves[2] - moves[0])
    told = [(D @ b, np.sqrt(np.einsum("lqi,ij,lqj->lq", D, inverse, D))) for D in designs]
    return Shape(own, *told[0], *told[1], X[:, 0] @ y / (X[:, 0] @ X[:, 0]), levels, other)


class _Pieces(NamedTuple):
    """A line and kinks of a state, on their own and times a factor within some bounds."""

    knots: np.ndarray
    bounds: Any  # (n_bounds, 2); none without a factor

    @classmethod
    def of(cls, x, factor):
        """Those of a state and of what it multiplies, None for nothing."""
        tails = () if factor is None else (0.0, TUNING.shapes_far, TUNING.shapes_low)
        bounds = [np.quantile(factor, (tail, 1 - tail)) for tail in tails]
        return cls(np.linspace(x.min(), x.max(), TUNING.shapes_knots + 2)[1:-1], bounds)

    def __call__(self, state, factor):
        own = np.column_stack([state, np.maximum(state[:, None] - self.knots, 0.0)])
        return np.hstack([own, *(np.reshape(np.clip(factor, *ends), (-1, 1)) * own for ends in self.bounds)])

    @property
    def groups(self):
        """Of coefficients with one prior: none for the line, and another one for kinks around the middle."""
        middle = np.where(np.abs(self.knots) < 1, 1, 3)
        return np.r_[0, middle, np.full(len(self.bounds) * (1 + len(self.knots)), 2)]


def shapes_table(shapes, names, unit_of):
    """Shapes by (effect, cause) as a table with the columns `COLUMNS`; `unit_of` are the units of the states."""
    tables = [
        pd.DataFrame(
            {
                "cause": names[cause],
                "effect": names[effect],
                "state": shape.state,
                "other": "" if shape.other is None else names[unit_of[shape.other]],
                "level": level,
                "adds": adds,
                "error": error,
                "slope": slope,
                "slope_error": slope_error,
                "line": shape.line,
            }
        )
        for (effect, cause), shape in sorted(shapes.items())
        for level, adds, error, slope, slope_error in zip(
            shape.levels, shape.adds, shape.error, shape.slope, shape.slope_error, strict=True
        )
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(COLUMNS))


def with_slopes(shapes):
    """Shapes as files before slopes have them, or None, with slopes and with errors of these that are no smaller."""
    if shapes is None or "slope" in shapes:
        return shapes
    told = shapes.assign(slope=0.0, slope_error=0.0)
    for _, rows in shapes.groupby(["cause", "effect", "level"]):
        state, line = rows["state"].to_numpy(), rows["line"].to_numpy()
        ends = np.clip(np.add.outer([-TUNING.shapes_reach, TUNING.shapes_reach], state), state[0], state[-1])
        adds, error = (np.interp(ends, state, rows[name]) for name in ("adds", "error"))
        told.loc[rows.index, "slope"] = (adds[1] - adds[0]) / (ends[1] - ends[0])
        told.loc[rows.index, "slope_error"] = error.sum(axis=0) / (ends[1] - ends[0])
        told.loc[rows.index, "line"] = (line[-1] - line[0]) / (state[-1] - state[0])  # of values on it
    return told[list(COLUMNS)]


@dataclass(frozen=True, eq=False)
class LinkShapes:
    """Shapes of the links of a plant; `table` is that of :func:`shapes_table`, None where no curves were looked at."""

    table: pd.DataFrame | None
    names: tuple

    def of_pair(self, cause, effect, confidence):
        """The rows of a pair, with the ends of pointwise bands instead of standard errors."""
        check_confidence(confidence)
        pair_of(self.names, cause, effect)
        if self.table is None:
            raise ValueError(
                "Shapes of links need rows of the states without noise: fit at once, without privacy and secure sums."
            )
        shape = self.table[(self.table["cause"] == cause) & (self.table["effect"] == effect)]
        if shape.empty:
            known = [f"{a} to {b}" for a, b in self.table[["cause", "effect"]].drop_duplicates().to_numpy()]
            raise ValueError(
                f"Got cause={cause!r}, effect={effect!r}, from which to which no curve was found; curves were found "
                f"{'from ' + ', '.join(known) if known else 'of no pair'}."
            )
        half = ndtri((1 + confidence) / 2) * shape["error"]
        line = (shape["state"] - shape["state"].mean()) * shape["line"]
        told = shape.assign(low=shape["adds"] - half, high=shape["adds"] + half, line=line)
        return told[["state", "other", "level", "adds", "low", "high", "line"]].reset_index(drop=True)


SLOPES = ["cause", "effect", "state", "other", "level", "slope", "slope_error", "line"]


def slopes_table(links, lags, slices, shapes):
    """Slopes of all pairs with the columns `SLOPES`: of curves by `shapes`, of lines by a table of links.

    The size of a line is that of the link; its sign, between units of one state, that of the largest coefficient in
    `lags` (n_lags, n, n). States that a line was seen at are those of a normal distribution.
    """
    straight = []
    for link in links[links["kind"] == "state"].itertuples():
        block = lags[:, slices[link.effect], slices[link.cause]]
        sign = np.sign(block.flat[np.abs(block).argmax()]) if block[0].size == 1 else 1.0
        slope = link.norm * (sign or 1.0)
        straight += [
            (link.cause, link.effect, end, "", 0.0, slope, link.stderr, slope) for end in ndtri(_POINTS[[0, -1]])
        ]
    found = pd.DataFrame(straight, columns=SLOPES)
    if shapes is None or shapes.empty:
        return found
    is_curved = pd.MultiIndex.from_frame(found[SLOPES[:2]]).isin(pd.MultiIndex.from_frame(shapes[SLOPES[:2]]))
    return pd.concat([shapes[SLOPES], found[~is_curved]], ignore_index=True)


def slopes_at(slopes, cause, effect, at, confidence):
    """Slopes of a pair at some states, by default at quantiles, with the ends of intervals and a verdict."""
    check_confidence(confidence)
    pair_of(tuple(dict.fromkeys(slopes["cause"])), cause, effect)
    own = slopes[(slopes["cause"] == cause) & (slopes["effect"] == effect)]
    parts = []
    for (level, other), rows in own.groupby(["level", "other"]):
        known = rows["state"].to_numpy()
        states = np.quantile(known, (0.1, 0.25, 0.5, 0.75, 0.9)) if at is None else as_numbers(at, "at")
        slope, error, line = (np.interp(states, known, rows[name]) for name in SLOPES[5:])
        slope[(states < known.min()) | (states > known.max())] = np.nan
        half = ndtri((1 + confidence) / 2) * error
        low, high = slope - half, slope + half
        verdict = np.select([low > 0, high < 0], ["rises", "falls"], "cannot tell")
        told = {"state": states, "other": other, "level": level, "slope": slope, "low": low, "high": high}
        parts.append(pd.DataFrame(told | {"line": line, "verdict": verdict}))
    return pd.concat(parts, ignore_index=True)


# Curved links: what curves of the states of a cause tell of the news of another unit beyond the line.
#
# Curves are kinks and steps of each state at its quantiles, and products of two states or their sizes; none is chosen
# for a coupling. A unit enters a regression where all of its columns pay for themselves together, a product on its own:
# of the many of a plant only those that act are conditioned on, which is what keeps indirect causes out. What is told
# has to show in the whole record and on stretches left out, as recorded and less what moves slower than a local piece.
# Nothing is said to be none where a curve that tells much would hardly have shown.

_SEED = 20, 17  # that no simulated record is likely to have: noise must not repeat it
_KINKS = np.array([0.07, 0.23, 0.5, 0.77, 0.93])  # quantiles of a state: -1.5, -0.75 ... deviations of a normal one
_STEPS = np.array([0.16, 0.84])
_ENDS = np.array([0.002, 0.998])  # quantiles at which states are held: nothing is told by a few extreme rows
_RIDGE, _LEAST = 1e-6, 1e-10  # share of a column's sum of squares, and of one that does not move


UNSURE = "curved: bends and products show it in the whole record, but not clearly on held-out segments"
UNTESTED = "no straight line, but the record is too short or too noisy for bends and products to show"
EXPLAINED = "curves of other units explain as well what its straight line does"


@dataclass(frozen=True)
class Curves:
    """What curves tell, arrays [effect, cause]; `verdict` is empty where nothing is sure."""

    verdict: np.ndarray
    p_value: np.ndarray  # of the hypothesis that the cause acts along a line only
    p_adjusted: np.ndarray  # by Holm
    strength: np.ndarray  # share of the news of the effect that line and curves of the cause tell
    low: np.ndarray  # bounds on the share by curves beyond the line
    high: np.ndarray
    same_row: np.ndarray  # share of the news that the cause tells in the same row, by line and curves
    evidence: np.ndarray
    is_explained: np.ndarray  # whether curves of other units tell what a line of the cause was told for
    shapes: dict  # `Shape` by (effect, cause) where the p-value says that it is no line
    power: np.ndarray  # chance with which a curve that tells much would have shown


class _Found(NamedTuple):
    """Of one pair; gains are those of curves beyond the line, one for every stretch."""

    p_value: float = 1.0
    recorded: np.ndarray = np.zeros(N_BLOCKS)
    local: np.ndarray = np.zeros(N_BLOCKS)
    noise: float = 0.0  # what estimating the coefficients costs
    strength: float = 0.0
    same_row: float = 0.0
    whole: np.ndarray | None = None  # gains by all that the cause tells, where asked for
    shape: Shape | None = None

    @property
    def is_large(self):
        """Whether the gains of both specifications are surely no negligible ones, as those of an influence are."""
        return all(gain - SURE * error > NEGLIGIBLE for gain, error in map(trimmed, (self.recorded, self.local)))


class Bent(NamedTuple):
    """Curves of columns at quantiles of a record."""

    kinks: np.ndarray  # (5, n)
    steps: np.ndarray  # (2, n)
    ends: np.ndarray  # (2, n)

    @classmethod
    def of(cls, series):
        """Those of series (n_samples, n)."""
        return cls(*(np.quantile(series, at, axis=0) for at in (_KINKS, _STEPS, _ENDS)))

    def held(self, series):
        """The series within their ends, less their means."""
        inside = np.clip(series, *self.ends)
        return inside - inside.mean(axis=0)

    def single(self, series):
        """Kinks and steps of every column, (n_samples, 7, n)."""
        inside = np.clip(series, *self.ends)[:, None]
        return np.concatenate([np.maximum(inside - self.kinks, 0.0), inside > self.steps], axis=1)

    def of_column(self, values, k):
        """Kinks and steps at some values (q,) of the k-th column, (q, 7)."""
        return Bent(*(part[:, [k]] for part in self)).single(values[:, None])[:, :, 0]

    def __call__(self, series, slices):
        """Kinks and steps of each unit's columns, and products of its own ones, less their means: one array a unit."""
        held, single = self.held(series), self.single(series)
        found = []
        for own in slices:
            first, second = np.triu_indices(own.stop - own.start, 1)
            products = held[:, own][:, first] * held[:, own][:, second]
            columns = np.hstack([single[:, :, own].reshape(len(series), -1), products])
            found.append(columns - columns.mean(axis=0))
        return found


def curves(series, slices, starts=(0,), known=None, alpha=0.05, told=None, process=None, noise=None, levels=None):
    """What curves of all units tell of each other.

    Parameters
    ----------
    series : ndarray of shape (n_samples, n)
        What the server knows of the units' states row by row, gaps filled.
    slices : sequence of slice
        Columns of each unit.
    starts : sequence of int
        First rows of the episodes.
    known : ndarray of shape (n_samples, k), default=None
        Inputs: what lines and, of a few, curves of them tell is no news.
    alpha : float, default=0.05
        Chance of any link that is none, over all pairs.
    told : dict of (int, int) to float
        Pairs (effect, cause) that lines tell of, with the share of their news in the same row.
    process, noise : ndarray of shape (n, n), default=None
        Covariances of what is new in the states and of the noise with which they are known; all and none without.
    levels : ndarray of shape (n_samples, k), default=None
        Paths of changes of level, which explain news: states on both sides of one tell it from the other by a kink.

    Returns
    -------
    Curves
    """
    standard, scale = standardised(series, slices, starts)
    rows = LaggedRows.of(standard, slices, starts, N_LAGS)
    if known is not None:
        few = known.shape[1] <= TUNING.curves_most_inputs
        rows = rows.less(
            np.hstack([known, *Bent.of(known)(known, [slice(0, known.shape[1])])]) if few else known, N_LAGS
        )
    noise = np.zeros_like(np.outer(scale, scale)) if noise is None else noise / np.outer(scale, scale)
    regressions = _Regressions(rows, slices, np.diag(noise), levels)
    told, unexplained = told or {}, []
    found: dict[tuple[int, int], _Found] = {}
    for unit in range(len(slices)):
        asked = [cause for effect, cause in told if effect == unit]
        of_effect, news = regressions.of_effect(unit, asked)
        found |= {(unit, cause): of for cause, of in of_effect.items()}
        unexplained.append(news)
    seen = np.ones((2, len(slices)))
    if process is not None:
        seen = _seen(slices, unexplained, process / np.outer(scale, scale), noise)
    return _told(found, regressions.power(*seen), alpha, told)


class _Regressions:
    """Lags and curves of all units beside what is present."""

    def __init__(self, lagged, slices, noise, levels=None):
        sizes = [own.stop - own.start for own in slices]
        self.lagged, self.slices, self.noise, self.n_units = lagged, slices, noise, len(sizes)
        firsts = [past.start for past in lagged.past]
        states = lagged.values[
            :, np.concatenate([first + np.arange(p) for first, p in zip(firsts, sizes, strict=True)])
        ]
        known = [] if levels is None else [levels[lagged.at - lag] for lag in range(N_LAGS + 1)]
        self.known = orth(np.hstack([np.ones((len(states), 1)), *known]))
        self.states, self.bent = states, Bent.of(states)
        held, now = self.bent.held(states), lagged.values[:, lagged.now[0].start :]
        self.held = np.hstack([held, np.abs(held) - np.abs(held).mean(axis=0)])  # factors of products: states, sizes
        self.now, self.lags = self._less(now), [self._less(lagged.values[:, past]) for past in lagged.past]
        bends = map(self._less, self.bent(states, slices))
        self.past = [np.hstack(both) for both in zip(self.lags, bends, strict=True)]
        lines, bends = [self.now[:, own] for own in slices], map(self._less, self.bent(now, slices))
        self.present = [np.hstack(both) for both in zip(lines, bends, strict=True)]
        self.unit_of = np.tile(np.repeat(np.arange(self.n_units), sizes), 2)
        self.pairs = np.argwhere(np.triu(self.unit_of[:, None] != self.unit_of, 1))
        self.moments = self._rows(self.past, lines).moments(1)

    def _less(self, columns):
        """Columns less their means and what changes of level explain of them."""
        return columns - self.known @ (self.known.T @ columns)

    def _rows(self, past, now):
        columns = slices_of(part.shape[1] for part in (*past, *now))
        ends = columns[: len(past)], columns[len(past) :]
        return LaggedRows(np.hstack([*past, *now]), *ends, self.lagged.starts, self.lagged.at)

    def of_effect(self, effect, asked):
        """`_Found` of the causes whose curves may matter for a unit, and of the ones `asked` for if curves tell.

        And the covariance of the unit's news.
        """
        now, n_pairs = self.now[:, self.slices[effect]], self.n_units * (self.n_units - 1)
        units = self.moments.chosen(effect, lambda width: chdtri(width, TUNING.curves_chance / n_pairs))
        products = self._products(effect, np.hstack([self.past[unit] for unit in (effect, *units)]), now)
        ends = self.unit_of[self.pairs[products]]
        units = sorted({*units, *ends.ravel().tolist()} - {effect})
        driven = [self._product(pair)[:, None] for pair in products]
        past = [self.past[unit] for unit in (effect, *units)] + driven
        beside = [unit for unit in asked if unit not in units]
        rows = self._rows(
            [*past, *(self.present[unit] for unit in units), *(self.lags[unit] for unit in beside)], [now]
        )
        model = _Model(rows, len(past), now.shape[1])
        driving = [np.flatnonzero((ends == unit).any(axis=1)) for unit in units]  # products of each
        own = [[1 + k, *(1 + len(units) + places)] for k, places in enumerate(driving)]
        limit = TUNING.curves_chance / (self.n_units - 1)
        found = {
            unit: model.found(of, self.lags[unit].shape[1], len(past) + k, limit)
            for k, (unit, of) in enumerate(zip(units, own, strict=True))
        }
        pairs = self.pairs[products]
        for unit, of, places in zip(units, own, driving, strict=True):
            if found[unit].p_value <= limit:
                found[unit] = found[unit]._replace(shape=self._shape(model, unit, of, pairs[places], now))
        if any(of.p_value < TUNING.curves_chance / n_pairs and of.is_large for of in found.values()):
            for unit, of in zip(units, own, strict=True):
                if unit in asked:
                    found[unit] = found[unit]._replace(whole=model.told_by(of))
            for k, unit in enumerate(beside):
                found[unit] = _Found(whole=model.told_by([len(past) + len(units) + k]))
        return found, model.terms_of([0])[1]

    def power(self, new, clear):
        """Chance with which curves that make a share of what is new in an effect would show, [effect, cause].

        By the test of kinks and steps together or by that of a product, whichever has less.

        Parameters
        ----------
        new, clear : ndarray of shape (n_units,)
            Share of each unit's news that is none of its noise, and of its states' variance.
        """
        widths = np.array([now.stop - now.start for now in self.slices])
        bends = np.array([past.shape[1] for past in self.past]) - N_LAGS * widths
        share = TUNING.curves_share * np.outer(new, np.square(clear))  # noise flattens kinks and products alike
        n_pairs = self.n_units * (self.n_units - 1)
        tests = (
            (np.outer(widths, bends), TUNING.curves_chance / n_pairs),
            (widths[:, None], TUNING.curves_chance_of_products / max(len(self.pairs), 1)),
        )
        strength = -np.log1p(-share) * len(self.now)
        return np.min([1 - chndtr(chdtri(dof, chance), dof, strength) for dof, chance in tests], axis=0)

    def _shape(self, model, unit, slices, pairs, now):
        """What the state of a unit that moves one of the next states most does to it, by itself and with another one.

        Slices behind the first are products of `pairs` of factors.
        """
        first, n_states = self.slices[unit].start, self.states.shape[1]
        width = self.slices[unit].stop - first
        places, coefficients = positions_of(slices, model.rows.past), model.terms_of(slices)[0]
        of_state = np.zeros((width, len(places)), dtype=bool)  # its line, kinks and steps, and products
        for state, own in enumerate(of_state):
            own[state] = own[N_LAGS * width + state : (N_LAGS + len(_KINKS) + len(_STEPS)) * width : width] = True
            own[len(own) - len(pairs) :] = (pairs % n_states == first + state).any(axis=1)
        values = model.rows.values[:, places]
        moved = np.array([np.var(values[:, own] @ coefficients[own], axis=0) for own in of_state])
        k, effect = map(int, np.unravel_index(moved.argmax(), moved.shape))
        other: int | None = None
        own, sizes = of_state[k], np.abs(coefficients[len(places) - len(pairs) :, effect])
        multiplied = own[len(places) - len(pairs) :]
        if multiplied.any():
            chosen = pairs[np.where(multiplied, sizes, -1.0).argmax()]
            other = int(chosen[chosen % n_states != first + k][0])
            own[len(places) - len(pairs) :] &= (pairs % n_states == other % n_states).any(axis=1)
        past = model.rows.values[:, : model.rows.past[model.n_past - 1].stop]
        beside = np.hstack([self.known, np.delete(past, places[own], axis=1)])
        inside = np.clip(self.states, *self.bent.ends)
        factor = None if other is None else np.hstack([inside, np.abs(inside)])[:, other]
        known = self.states[:, first + k], now[:, effect], beside, self.noise[first + k], factor
        return shape_of(*known, None if other is None else other % n_states)

    def _products(self, effect, base, now):
        """Products of factors of two units that matter beside a base, one after the other, as places in `pairs`.

        Of those with sizes the ones with a factor of the effect alone: others tell part of what noise hides of states.
        """
        found: list[int] = []
        first, second = self.pairs.T
        has_size = second >= self.states.shape[1]
        is_own = has_size & (self.unit_of[self.pairs] == effect).any(axis=1)
        n_alike = np.where(has_size, is_own.sum(), (~has_size).sum())
        limits = chdtri(now.shape[1], TUNING.curves_chance_of_products / n_alike)
        limits[has_size & ~is_own] = np.inf
        while len(found) < TUNING.curves_most_products and len(self.pairs):
            square = base.T @ base
            square[np.diag_indices_from(square)] *= 1 + _RIDGE
            square[np.diag_indices_from(square)] += _LEAST
            left = now - base @ np.linalg.solve(square, base.T @ now)
            scores = sum(self._scores(news) for news in left.T)[first, second]  # robust to news of unequal variance
            scores[found] = 0.0
            scores[scores < limits] = 0.0
            if not scores.any():
                break
            of_states = np.where(has_size, 0.0, scores)  # first: a size tells part of what its state does
            best = int((of_states if of_states.any() else scores).argmax())
            found.append(best)
            base = np.column_stack([base, self._product(best)])
        return found

    def _scores(self, news):
        """Score statistics of all products of two factors for some news, (2 n, 2 n)."""
        moved = self.held * news[:, None]
        return np.square(moved.T @ self.held) / (np.square(moved).T @ np.square(self.held) + _LEAST)

    def _product(self, pair):
        first, second = self.pairs[pair]
        return self._less(self.held[:, first] * self.held[:, second])


class _Model:
    """Regression of an effect on units, products, and the same row of the units: `rows` with one slice for each."""

    def __init__(self, rows, n_past, width):
        self.rows, self.width, self.n_past = rows, width, n_past
        self.recorded = self._regression(rows)

    def _regression(self, rows):
        return FullRegression(rows.moments(N_BLOCKS), rows.past[self.n_past - 1].stop)

    @cached_property
    def local(self):
        """Regression of rows less what moves slower than a local piece."""
        return self._regression(self.rows.around_lines(LOCAL))

    def found(self, unit, n_lagged, present, limit):
        """What was found of the unit in some slices, `n_lagged` columns of the first of which are lines.

        Its gains are made where the p-value is below a limit.
        """
        bends, n_rows = positions_of(unit, self.rows.past)[n_lagged:], len(self.rows.values)
        likelier = self.recorded.log_gain(bends) * (n_rows - self.rows.past[self.n_past - 1].stop - 1)
        p_value, noise = chdtrc(len(bends) * self.width, likelier), len(bends) * self.width / n_rows
        if p_value > limit:
            return _Found(p_value)
        strength = self.told_by(unit).mean() + noise + n_lagged * self.width / n_rows
        same = max(self.told_by([present]).mean(), 0.0)
        return _Found(p_value, self.recorded.gains_of(bends), self.local.gains_of(bends), noise, strength, same)

    def terms_of(self, slices):
        """Coefficients of the past in some slices, and the covariance of the news."""
        return self.recorded.terms_of(positions_of(slices, self.rows.past))

    def told_by(self, slices):
        """Gains in every stretch by some slices beyond the past without them."""
        columns = positions_of(slices, self.rows.past)
        regression = self.recorded
        return regression.gains_of(columns) if slices[0] < self.n_past else regression.gains_beyond(columns)


def _seen(slices, unexplained, process, noise):
    """Shares (2, n_units) of news and of states of unit variance that are no noise, see `_Regressions.power`."""
    shares = [
        np.linalg.pinv(news, rcond=1e-10, hermitian=True) @ process[own, own]
        for own, news in zip(slices, unexplained, strict=True)
    ]
    clear = [1 - np.diag(noise)[own].mean() for own in slices]
    return np.clip([[np.trace(share) / len(share) for share in shares], clear], 0.0, 1.0)


def _told(found, power, alpha, by_lines):
    """The `Curves` of what was found of pairs (effect, cause), some of them told by lines: nothing of the others."""
    n_units = len(power)
    of_pairs = [[found.get((effect, cause), _Found()) for cause in range(n_units)] for effect in range(n_units)]
    p_value, noise, strength, same = (
        np.array([[getattr(of, name) for of in row] for row in of_pairs])
        for name in ("p_value", "noise", "strength", "same_row")
    )
    stretches = (np.array([[getattr(of, name) for of in row] for row in of_pairs]) for name in ("recorded", "local"))
    means = [trimmed(gains) for gains in stretches]
    both = [Gains(gain, error, same_row=same) for gain, error in means]
    p_adjusted, off = np.ones_like(p_value), ~np.eye(n_units, dtype=bool)
    p_adjusted[off] = holm(p_value[off])
    low = np.minimum(*(one.low(SURE) for one in both))
    high = np.maximum(*(one.up(SURE) + noise for one in both))
    is_influence = (low > NEGLIGIBLE) & exceeds_what_is_shared(both, SURE)
    told = np.where(is_influence, "influence", "coupled").astype(object)
    is_shared = high < same  # what they share in the same row may leave all of it in a later one
    told[(p_adjusted > alpha) | (low <= 0) | is_shared] = ""
    for pair, shared in by_lines.items():
        if told[pair] and low[pair] <= shared:
            told[pair] = "coupled"
    evidence = np.where(is_shared, -np.inf, 2 * np.arcsinh(both[0].direct / both[0].direct_error))
    is_explained = np.zeros_like(off)
    for effect, cause in by_lines:
        whole = of_pairs[effect][cause].whole
        if whole is not None and (told[effect] == "influence").any() and not told[effect, cause]:
            gain, error = trimmed(whole)
            if gain <= SURE * error:
                is_explained[effect, cause], evidence[effect, cause] = True, 2 * np.arcsinh(gain / error)
    shapes = {at: of.shape for at, of in found.items() if of.shape is not None and p_adjusted[at] <= alpha}
    strength = np.maximum(strength, low)
    return Curves(told, p_value, p_adjusted, strength, low, high, same, evidence, is_explained, shapes, power)


# -- the table of links ------------------------------------------------------------------------------------------


def with_curves(links, record, alpha, process, steps=()):
    """A table of links with what curves tell where lines tell less, and one of their shapes.

    P-values of what curves tell are those beyond the line. Shapes are those of all pairs whose p-value says that the
    link is no line, told or not.

    "influence" stands, with what curves add to its evidence; a pair that a driver explains as well is coupled at most,
    and so is one that lines call coupled if curves tell no more than what the two share in the same row. What a line
    was told for is open where curves of other units tell it as well and one of these is an influence. Nothing is asked
    of records that cannot be graded, or of too many columns.
    """
    few = record.partition.n_states * (N_LAGS + len(_KINKS) + len(_STEPS)) <= TUNING.curves_most_columns
    if not few or not can_be_graded(record):
        return links, shapes_table({}, record.names, ())
    table, place = links.copy(), {name: k for k, name in enumerate(record.names)}
    straight = told_links(links[links["kind"] == "state"]).itertuples()
    pairs = {(place[link.effect], place[link.cause]): link.same_row for link in straight}
    series, slices, starts, known = rows_of(record)
    noise = block_diag(*record.scores.noise)
    levels = step_series(steps, starts, len(series)) if steps else None
    found = curves(series, slices, starts, known, alpha, pairs, process, noise, levels)
    for row, link in zip(links.index, links.itertuples(), strict=True):
        at = place[link.effect], place[link.cause]
        told = found.verdict[at]
        if link.kind == "state" and found.is_explained[at]:
            table.loc[row, ["verdict", "because", "basis"]] = "cannot tell", EXPLAINED, "curves"
            table.loc[row, "evidence"] = np.fmin(link.evidence, found.evidence[at])
        if link.kind == "state" and found.p_adjusted[at] <= alpha:
            table.loc[row, "evidence"] = np.fmax(link.evidence, found.evidence[at])
            if not told and link.verdict in ("no influence", "negligible"):
                table.loc[row, ["verdict", "because", "basis"]] = "cannot tell", UNSURE, "curves"
        elif link.kind == "state" and link.verdict == "no influence" and found.power[at] < TUNING.curves_power:
            table.loc[row, ["verdict", "because", "basis"]] = "cannot tell", UNTESTED, "curves"
        if link.kind != "state" or not told or link.verdict in (told, "influence"):
            continue
        low, high = found.low[at], found.high[at]
        said = {
            "verdict": "coupled" if link.verdict == "shared driver" else told,
            "because": f"curved: bends and products add {100 * low:.2g} to {100 * high:.2g}% to the straight line",
            "basis": "curves",
            "p_value": found.p_value[at],
            "p_adjusted": found.p_adjusted[at],
            "strength": found.strength[at],
            "low": low,
            "high": high,
            "same_row": found.same_row[at],
            "driver_needed": driver_needed(low),
        }
        table.loc[row, list(said)] = list(said.values())
    unit_of = np.repeat(np.arange(len(slices)), [own.stop - own.start for own in slices])
    return table, shapes_table(found.shapes, record.names, unit_of)
