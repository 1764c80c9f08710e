"""Graded links: how much of the news of a unit the past of another tells on stretches that the fit did not see.

Two specifications, rows as recorded and rows less a level and slope of their own for every short piece, so that a
move that units make together counts only where it is not slower than a piece; a gate against a driver that both follow,
whose later gain cannot be much more than what the two have in common in the same row. Nothing is assumed of the noise.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from ...statespace.episodes import episodes
from ...statespace.held_out import (
    LOCAL,
    N_LAGS,
    BlockMoments,
    LaggedRows,
    huber_weights,
    same_row_shares,
    shares_of_products,
)
from ...statespace.lines import without_lines
from ...statespace.matrices import positions_of
from .tuning import TUNING

N_BLOCKS = 20  # stretches that are left out in turn
STRICT = 0.975  # the same of what is called an influence
NEGLIGIBLE = 0.01  # share of news: an influence is surely more, what is negligible surely less
_NEAR = 0.75, 0.38  # shares of news in the same row, all and by direction, from which on two units are nearly one
TRIMMED = 2  # stretches at either end of the gains by curves that do not count: products are large in single rows
TRIMMED_DOF = N_BLOCKS - 2 * TRIMMED - 1  # of Student's t of a trimmed mean over the stretches, and
SURE = stdtrit(TRIMMED_DOF, STRICT)  # standard errors of it within which it surely is

WORTH = (
    "How far to trust a grade: on simulated water, power and river networks with known links, four in five pairs "
    "graded influence were true links, half of those graded coupled, and one in fifty of those graded negligible."
)
VALUES = ("strength", "low", "high", "total", "same_row", "driver_needed", "evidence", "lag")
TOLD = ("influence", "coupled")  # verdicts that say that a pair is linked
MEASURED = ("held-out gain", "curves")  # what verdicts rest on that assume nothing of the noise
_DECIDED = ("influence", "no influence")  # verdicts of the likelihood, where its assumptions hold


class Gains(NamedTuple):
    """Of one specification, [effect, cause]: means over stretches of the gains, their errors, and what goes with them.

    `direct` is beyond the effect's own past and that of the others that matter, `total` beyond its own past alone;
    `noise` is what estimating the coefficients costs, which a gain on unseen rows lacks; `same_row` is the share of
    their news that the two have in common in the same row. Gains by curves or regressors are direct ones alone.
    """

    direct: np.ndarray
    direct_error: np.ndarray
    total: Any = None
    total_error: Any = None
    noise: Any = None
    same_row: Any = None
    carried: Any = None  # (N_LAGS, n, n) coefficients of the direct gains

    def low(self, sure):
        """Lower bound on the direct gain."""
        return self.direct - sure * self.direct_error

    def up(self, sure):
        """Upper bound on the direct gain, without the cost of coefficients."""
        return self.direct + sure * self.direct_error


@dataclass(frozen=True)
class Grades:
    """Grades of all ordered pairs, arrays [effect, cause]; the diagonal says nothing."""

    verdict: np.ndarray
    strength: np.ndarray  # direct gain, as recorded
    low: np.ndarray
    high: np.ndarray
    total: np.ndarray
    same_row: np.ndarray
    evidence: np.ndarray
    is_slow: np.ndarray  # whether a surely larger gain as recorded comes from moves slower than a local piece
    is_shared: np.ndarray  # whether what the two share in the same row may leave the gain, as a driver of both does
    carried: np.ndarray  # (N_LAGS, n, n) what a unit of each state adds to the others as many rows later
    lag: np.ndarray  # row after which the largest part of it acts

    @property
    def driver_needed(self):
        """Share of the news of both that a driver nobody measures must explain to make the lower bound zero [1]_.

        References
        ----------
        .. [1] Cinelli, Hazlett (2020), Making sense of sensitivity: extending omitted variable bias, Journal of the
               Royal Statistical Society B 82(1), robustness value.
        """
        return driver_needed(self.low)


def driver_needed(low):
    """Share of the news of both that a driver must explain to make lower bounds on a gain zero."""
    low = np.maximum(low, 0.0)
    return (np.sqrt(low**2 + 4 * low) - low) / 2


def fewest_rows(slices):
    """Rows that grades of units with such columns need: enough in every stretch for the widest past of one."""
    widest = max((own.stop - own.start for own in slices), default=1)
    return N_BLOCKS * (N_LAGS * widest + TUNING.grades_fewest)


def grades(series, slices, starts=(0,), known=None):
    """Grades of all pairs of units.

    Parameters
    ----------
    series : ndarray of shape (n_samples, n)
        What the server knows of the units' states row by row, gaps filled.
    slices : sequence of slice
        Columns of each unit.
    starts : sequence of int
        First rows of the episodes.
    known : ndarray of shape (n_samples, k), default=None
        Inputs, what is measured of a driver of several units among them: what they tell is no news.

    Returns
    -------
    Grades
    """
    series, scale = standardised(series, slices, starts)
    rows = LaggedRows.of(series, slices, starts, N_LAGS)
    if known is not None:
        rows = rows.less(known, N_LAGS)
    pieces = [_gains(rows.around_lines(LOCAL, first), TUNING.grades_far) for first in (0, LOCAL // 2)]
    recorded, local = _gains(rows), Gains(*(np.mean(pair, axis=0) for pair in zip(*pieces, strict=True)))
    return _grades(recorded, local, slices, len(rows.values), scale)


def standardised(series, slices, starts):
    """Series of unit variance without sharp lines of their spectra, and the standard deviations that they had."""
    scale = series.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return without_lines((series - series.mean(axis=0)) / scale, slices, starts), scale


def grades_of_sums(recorded, local, n_rows, slices, scale):
    """Grades from sums of lagged products in each of some stretches, where rows of several units never are together.

    As :func:`grades`, but that no row counts less for the size of its news and lines are taken out before lags.

    Parameters
    ----------
    recorded, local : ndarray of shape (n_stretches, N_LAGS + 1, n, n)
        ``sum_t y[t+l] y[t]'`` of series as recorded, and of those less lines of their own for short pieces; zero
        outside of the stretch.
    n_rows : ndarray of shape (n_stretches,)
        Rows that the sums stand for.
    slices : sequence of slice
        Columns of each unit.
    scale : ndarray of shape (n,)
        Standard deviations of the series.

    Returns
    -------
    Grades
    """
    whole, rest = (_gains_of_moments(BlockMoments.of_lags(sums, n_rows, slices)) for sums in (recorded, local))
    return _grades(whole, rest, slices, n_rows.sum(), scale, len(n_rows))


def _grades(recorded, local, slices, n_rows, scale, n_blocks=N_BLOCKS):
    """Grades of the gains of two specifications."""
    carried = recorded.carried
    sizes = np.array([[np.square(carried[:, e, c]).sum(axis=(1, 2)) for c in slices] for e in slices])
    widths = [own.stop - own.start for own in slices]
    by_chance = np.sqrt(2.0 * np.outer(widths, widths)) / n_rows  # of squares of so many correlations
    least = np.maximum(NEGLIGIBLE, TUNING.grades_chance * by_chance)
    found = _graded(recorded, local, least, scale[:, None] * carried / scale, 1.0 + sizes.argmax(axis=2), n_blocks)
    by_direction = local.same_row / np.minimum.outer(widths, widths)
    near = (local.same_row > _NEAR[0]) & (by_direction > _NEAR[1])
    found.verdict[_by_way_of_another(found.verdict, near)] = "coupled"
    return found


def _by_way_of_another(verdict, near):
    """Influences on a unit that is nearly one within the row with the cause, or with another that it acts on."""
    told = np.isin(verdict, TOLD).astype(int)
    return (verdict == "influence") & (near | (near.astype(int) @ told > 0))


def _gains(rows, far=None):
    """`Gains` of one specification; with `far` rows with news of that size count less."""
    plain = rows.moments(N_BLOCKS)
    ones = np.ones(len(rows.values))
    news, weights = [], []

    def regressions():
        for effect in range(len(rows.now)):
            moments, weight = plain, ones
            others = plain.chosen(effect)
            left = _news(rows, moments, effect, others)
            for _ in range(2 if far else 0):
                weight = huber_weights(left, far)
                moments = rows.reweighted(plain, weight, N_BLOCKS)
                others = moments.chosen(effect)
                left = _news(rows, moments, effect, others)
            news.append(left)
            weights.append(weight)
            yield moments, others, weight.sum()

    return _gains_of(plain, regressions(), lambda: same_row_shares(news, weights))


def _gains_of_moments(plain):
    """`Gains` of moments of stretches, every row of which counts alike."""
    first, whole = plain.now[0].start, plain.sums.sum(axis=0)
    own = [slice(now.start - first, now.stop - first) for now in plain.now]
    news = np.eye(len(whole))[:, first:]

    def regressions():
        for effect, columns in enumerate(own):
            others = plain.chosen(effect)
            base, now = positions_of([effect, *others], plain.past), positions_of([effect], plain.now)
            news[base, columns] = -plain.fit(base, now)[0]
            yield plain, others, plain.n_all

    return _gains_of(plain, regressions(), lambda: shares_of_products(news.T @ whole @ news, own, plain.n_all))


def _gains_of(plain, regressions, same_row):
    """`Gains` of all pairs from moments, others that matter and rows of one effect after the other."""
    m, first = len(plain.now), plain.now[0].start
    own = [slice(now.start - first, now.stop - first) for now in plain.now]
    direct, total = np.zeros((2, m, m, len(plain.sums)))
    noise, n = np.zeros((m, m)), plain.sums.shape[1] - first
    carried = np.zeros((N_LAGS, n, n))
    for effect, (moments, others, n_rows) in enumerate(regressions):
        causes = [unit for unit in range(m) if unit != effect]
        if causes:
            direct[effect, causes], blocks = moments.gains(effect, others, causes)
            total[effect, causes] = moments.gains(effect, [], causes)[0]
            for cause, block in zip(causes, blocks, strict=True):
                carried[:, own[effect], own[cause]] = block.reshape(N_LAGS, -1, block.shape[1]).transpose(0, 2, 1)
        width = own[effect].stop - own[effect].start
        noise[effect] = [width * (past.stop - past.start) / n_rows for past in plain.past]
    gain, of_gain = _mean_and_error(direct)
    whole, of_whole = _mean_and_error(total)
    return Gains(gain, of_gain, whole, of_whole, noise, same_row(), carried)


def _news(rows, moments, effect, others):
    """What the past of a unit and of others leaves of it, (n_rows, p)."""
    base, now = positions_of([effect, *others], rows.past), positions_of([effect], rows.now)
    coefficients = moments.fit(base, now)[0]
    return rows.values[:, now] - rows.values[:, base] @ coefficients


def trimmed(gains):
    """Trimmed means over stretches, the last axis, and their errors by Winsorised deviations (Tukey, McLaughlin)."""
    ordered = np.sort(gains, axis=-1)
    middle = ordered[..., TRIMMED:-TRIMMED]
    held = np.clip(ordered, middle[..., :1], middle[..., -1:])
    share = middle.shape[-1] / ordered.shape[-1]
    return middle.mean(axis=-1), held.std(axis=-1, ddof=1) / (share * np.sqrt(ordered.shape[-1])) + 1e-12


def _mean_and_error(gains):
    return gains.mean(axis=-1), gains.std(axis=-1, ddof=1) / np.sqrt(gains.shape[-1]) + 1e-12


def _graded(recorded, local, least, carried, lag, n_blocks=N_BLOCKS):
    """Verdicts of two specifications: each has to allow what is said; `least` is a share that is none of chance."""
    both = (recorded, local)
    sure, strict = (stdtrit(n_blocks - 1, level) for level in (TUNING.grades_level, STRICT))
    low = np.minimum(*(one.low(sure) for one in both))
    surely = np.minimum(*(one.low(strict) for one in both))
    high = np.maximum(*(one.up(sure) + one.noise for one in both))
    high_total = np.maximum(*(one.total + sure * one.total_error + one.noise for one in both))
    is_own = exceeds_what_is_shared(both, strict)
    is_shared = ~is_own & (np.maximum(recorded.same_row, local.same_row) > least)
    is_influence = (surely > NEGLIGIBLE) & is_own
    verdict = np.where(low > 0, np.where(is_influence, "influence", "coupled"), "cannot tell").astype(object)
    verdict[np.maximum(high, high_total) < NEGLIGIBLE] = "negligible"
    evidence = np.arcsinh(recorded.direct / recorded.direct_error) + np.arcsinh(recorded.total / recorded.total_error)
    is_slow = recorded.low(strict) > local.up(strict) + local.noise
    strength = np.clip(recorded.direct + recorded.noise, low, high)
    return Grades(
        verdict, strength, low, high, recorded.total, local.same_row, evidence, is_slow, is_shared, carried, lag
    )


def exceeds_what_is_shared(both, sure):
    """Whether gains of two specifications exceed what a driver of both leaves: what is shared, or the gain back."""
    later = np.all([one.low(sure) > TUNING.grades_shared * one.same_row for one in both], axis=0)
    way = np.all([one.low(sure) > TUNING.grades_way * np.maximum(one.up(sure), 0.0).T for one in both], axis=0)
    return later | way


# -- the table of links ------------------------------------------------------------------------------------------


def grades_of(record):
    """Grades of the units of a :class:`JointRecord`; None where it has no rows or too few, or too many units."""
    return grades(*rows_of(record)) if can_be_graded(record) else None


def can_be_graded(record):
    """Whether a record has rows, enough of them for every stretch, and not too many units."""
    return record.has_rows and are_gradable(record.partition.slices, record.n_samples)


def are_gradable(slices, n_rows):
    """Whether units of some columns are not too many, and their rows enough for every stretch."""
    return 2 <= len(slices) <= TUNING.grades_most_units and n_rows >= fewest_rows(slices)


def rows_of(record):
    """What grades are made of: series of the states, columns of units, first rows of episodes, and inputs or None."""
    known = None if record.u is None else record.standard_known.series
    return _state_series(record), record.partition.slices, record.starts, known


def _state_series(record):
    """What rows say of the states, on lines between the rows before and behind where they say nothing."""
    scores, n = record.scores, record.partition.n_states
    series = scores.series[:, :n]
    if scores.present is None:
        return series
    series = series.copy()
    for start, stop in episodes(record.starts, len(series)):
        rows = np.arange(stop - start)
        for column, seen in zip(series[start:stop].T, scores.present[start:stop, :n].T > 0, strict=True):
            if seen.any() and not seen.all():
                column[~seen] = np.interp(rows[~seen], rows[seen], column[seen])
    return series


def told_links(links):
    """Those of a table of links that are told."""
    return links[links["verdict"].isin(TOLD)]


def holds(links):
    """Whether what the likelihood assumes holds of nearly all pairs of a table."""
    return links["because"].eq("").mean() > TUNING.grades_nearly_all


def with_grades(links, found, names):
    """A table of links of the likelihood with the columns of the grades, which say what it leaves open.

    Verdicts of the likelihood stand where its assumptions hold, but not "no influence" against a surely larger gain,
    nor "influence" where only moves slower than a local piece tell of it, as common moves of load do, or where it may
    be what the two share in the same row. A pair that a driver explains as well is coupled at most.
    """
    values = {name: np.full(len(links), np.nan) for name in VALUES}
    basis = np.full(len(links), "likelihood", dtype=object)
    verdict, because = (links[name].to_numpy(dtype=object, copy=True) for name in ("verdict", "because"))
    place, kind = {name: k for k, name in enumerate(names)}, links["kind"].tolist()
    for k, ends in enumerate(zip(links["effect"], links["cause"], strict=True) if found is not None else ()):
        if kind[k] != "state":
            continue
        at = place[ends[0]], place[ends[1]]
        own = {name: float(getattr(found, name)[at]) for name in VALUES}
        for name in VALUES:
            values[name][k] = own[name]
        grade, is_slow, is_shared = found.verdict[at], found.is_slow[at], found.is_shared[at]
        if grade == "influence" and verdict[k] == "shared driver":
            grade = "coupled"
        if not _stands(verdict[k], grade, is_slow or is_shared):
            basis[k], verdict[k], because[k] = "held-out gain", grade, _reason(grade, own, is_slow, is_shared)
    return in_order(links.assign(verdict=verdict, because=because, basis=basis, **values))


def in_order(links):
    """A table of links with the columns that are read first in front."""
    first = ["cause", "effect", "kind", "verdict", "basis", *VALUES]
    return links[[*first, *(name for name in links if name not in first)]]


def _stands(verdict, grade, is_doubtful):
    """Whether a verdict of the likelihood stands beside a grade."""
    if verdict not in _DECIDED:
        return False
    return not is_doubtful if verdict == "influence" else grade != "influence"


def _reason(verdict, found, is_slow, is_shared):
    """What speaks most against a grade, or keeps it from being more."""
    low, high, same = (percent(max(found[name], 0)) for name in ("low", "high", "same_row"))
    if verdict == "influence":
        return unless_driven(found["driver_needed"])
    if verdict == "coupled" and found["low"] <= TUNING.grades_shared * found["same_row"]:
        return f"{same} of their unpredicted variation is common in the same row: a common driver or a link both ways"
    if verdict == "coupled":
        return f"a gain between {low} and {high} does not rule out a common driver or a link both ways"
    if verdict == "negligible":
        return "" if found["same_row"] < NEGLIGIBLE else f"nothing beyond the {same} common in the same row"
    if is_shared:
        return f"may be only the after-effect of the {same} common in the same row"
    if is_slow:
        return f"seen only in moves slower than {LOCAL} rows, which a common load would cause as well"
    return f"on held-out segments the gain is between {low} and {high}"


def unless_driven(share):
    """What would speak against an influence: a driver that explains a share of the unpredicted variation of both."""
    return f"an unmeasured common driver would have to explain {percent(share)} of both"


def percent(share):
    """A share in per cent with two digits, as a person writes it."""
    return f"{100 * share:.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"
