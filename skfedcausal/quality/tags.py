"""Kind of a single tag and its defects, and what a unit finds of them before it learns."""

from functools import cached_property
from hashlib import blake2b

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from ..containers.arrays import listed
from .report import KINDS, texts_of
from .tuning import TUNING

# Kind of a single tag and its defects: gaps, frozen or filled values, limits, lines, slow updates.


class Tag:
    """Present `values` of a series in `rows`, as segments of equal ones, which also end at `breaks`."""

    def __init__(self, series, breaks):
        there = ~np.isnan(series)
        self.picked = None if there.all() else np.flatnonzero(there)  # their rows, where there are others
        self.values, self.breaks = series if self.picked is None else series[self.picked], breaks

    @property
    def rows(self):
        """Row of each value."""
        return np.arange(len(self.values)) if self.picked is None else self.picked

    @cached_property
    def _bounds(self):
        return _bounds(self.values[1:] != self.values[:-1], self.picked, self.breaks)

    @property
    def starts(self):
        """Positions among the present values at which segments of equal values begin."""
        return self._bounds[:-1]

    @property
    def lengths(self):
        """Number of values in each segment."""
        return np.diff(self._bounds)

    @cached_property
    def ordered(self):
        """All values, ascending."""
        return np.sort(self.values)

    @cached_property
    def levels(self):
        """Distinct values, ascending, and how often each occurs."""
        first = np.flatnonzero(np.append(True, self.ordered[1:] != self.ordered[:-1])[: len(self.ordered)])
        return self.ordered[first], np.diff(first, append=len(self.ordered))

    @cached_property
    def resolution(self):
        """Distance of the lattice that all values lie on, 0 where there is none."""
        levels = self.levels[0]
        gaps = np.diff(levels)
        if not len(gaps) or gaps.min() < 1e-9 * max(np.abs(levels[[0, -1]]).max(), gaps.max()):
            return 0.0
        places = (levels - levels[0]) / gaps.min()
        is_lattice = (np.abs(places - np.round(places)) < 1e-3 * np.maximum(1, 1e-4 * places)).all()
        return float(gaps.min()) if is_lattice else 0.0

    @cached_property
    def spread(self):
        """Robust standard deviation, from quartiles, or the ordinary one where those agree."""
        low, high = np.percentile(self.ordered, [25, 75])
        return float((high - low) / 1.349) or float(self.values.std())

    @cached_property
    def rounding(self):
        """Differences below this are errors of arithmetic: far less than a usual step."""
        step = np.abs(np.diff(self.values))
        usual = np.median(step[step > 0]) if step.any() else 0.0
        return float(max(1e-6 * usual, 64 * np.finfo(float).eps * np.abs(self.levels[0][[0, -1]]).max()))

    @property
    def _is_programme(self):
        """Whether the tag stands still or moves along straight lines: a setpoint with ramps."""
        moves = self.values[1:] != self.values[:-1]
        moving = moves[1:] & moves[:-1]
        if len(moves) < 10 or 1 - moves.mean() < TUNING.tags_still or not moving.any():
            return False
        step = np.diff(self.values)
        return (np.abs(np.diff(step))[moving] <= self.rounding).mean() > TUNING.tags_on_lines

    @property
    def _is_counter(self):
        """Whether values only rise, but where they are set back to about where they began: hours, totals."""
        rises, drops = self.values[1:] > self.values[:-1], self.values[1:] < self.values[:-1]
        if rises.sum() < TUNING.tags_fewest_rises or drops.sum() > TUNING.tags_most_resets * rises.sum():
            return False
        if not (self.resolution or drops.any()) and _is_smooth(np.diff(self.values)[rises]):
            return False  # a slow curve of a measurement that has no noise
        drops = np.flatnonzero(drops)
        low, high = self.levels[0][[0, -1]]
        before, after = self.values[drops], self.values[drops + 1]
        return bool((before - after > 0.5 * (high - low)).all() and (after - low < 0.2 * (high - low)).all())

    @cached_property
    def kind(self):
        """Kind of the tag: "empty", "constant", "binary", "counter", "steps" (setpoints, modes) or "measured"."""
        if not len(self.values):
            return "empty"
        n_levels = len(self.levels[0])
        if n_levels <= 2:
            return ("constant", "binary")[n_levels - 1]
        if self._is_counter:
            return "counter"
        n_runs, usual = len(self.starts), np.median(self.lengths)
        if n_levels <= TUNING.tags_modes or self._is_programme:
            return "steps"
        if usual == 1 and n_runs >= 5:
            return "measured"
        few_levels = n_levels <= max(TUNING.tags_few_levels, n_runs / 10)
        return "steps" if n_runs < TUNING.tags_few_runs or (usual >= 5 and few_levels) else "measured"


def _is_smooth(rise):
    """Whether a rise hardly changes from row to row, and not because it is rounded to few numbers that take turns."""
    usual = np.median(rise)
    changes = np.abs(np.diff(rise)) >= TUNING.tags_smooth * usual
    is_rounded = len(np.unique(np.round(rise / usual, 6))) <= TUNING.tags_few_levels
    return not ((is_rounded and changes.mean() > TUNING.tags_turns) or changes.mean() > 0.5)


def frozen(tag):
    """Segments ``(first, after the last)`` that repeat a value far longer than the tag's other segments do.

    Where lengths have an exponential tail, the largest and the next are about the scale of that tail apart.
    """
    if tag.kind != "measured":
        return []
    limits = [value for value, _ in at_limit(tag)]
    lengths, starts = tag.lengths, tag.starts
    if limits:
        usual = np.flatnonzero(~np.isin(tag.values[starts], limits))
        lengths, starts = lengths[usual], starts[usual]
    if len(lengths) < 6:
        return []
    ranked = np.sort(lengths)[::-1]
    for k in range(min(TUNING.tags_most_frozen, len(ranked) - 5), 0, -1):
        rest = ranked[k:]
        if ranked[k - 1] < max(TUNING.tags_shortest, TUNING.tags_longer * rest[0]):
            continue
        n_tail = max(min(len(rest) - 1, 5), len(rest) // 10)
        scale = max((rest[:n_tail] - rest[min(n_tail, len(rest) - 1)]).mean(), 0.5 * np.median(lengths))
        if np.exp(-(ranked[k - 1] - rest[0]) / scale) < TUNING.tags_level:
            return [(int(starts[i]), int(starts[i] + lengths[i])) for i in np.flatnonzero(lengths > rest[0])]
    return []


def _ends(tag):
    """Lowest and highest value of a measured tag: the value, its count, its distance to others, their mean count."""
    levels, counts = tag.levels
    if tag.kind == "measured" and len(levels) >= TUNING.tags_fewest_levels:
        for end, beside in ((0, slice(1, 4)), (-1, slice(-4, -1))):
            yield float(levels[end]), counts[end], np.abs(levels[beside] - levels[end]).min(), counts[beside].mean()


def at_limit(tag):
    """Highest and lowest values on which values pile up, each with the share of values that are there."""
    n, found = len(tag.values), []
    for limit, count, apart, usual in _ends(tag):
        often = count >= max(5, 0.002 * n, 3 * usual) and apart < 2 * tag.spread
        if often and (tag.values[tag.starts] == limit).sum() >= 3:
            found.append((limit, count / n))
    return found


def filled(tag, known=()):
    """Values far outside the others that occur again and again (0 or -999 in gaps), each with its share.

    Of those that are `known` as fill values of other tags it is enough that they lie outside the others.
    """
    found = [(value, count / len(tag.values)) for value, count, others in _far_ends(tag) if _is_fill(value, others)]
    for value in set(known) - {value for value, _ in found}:
        levels, counts = tag.levels if len(tag.values) else (np.zeros(0), np.zeros(0))
        k = int(np.searchsorted(levels, value))
        is_end = len(levels) > 2 and k in (0, len(levels) - 1) and levels[k] == value
        if is_end and counts[k] >= TUNING.tags_fewest_fills:
            others = tag.values[tag.values != value]
            if np.abs(others - value).min() > np.ptp(np.percentile(others, [1, 99])):
                found.append((float(value), counts[k] / len(tag.values)))
    return found


def _far_ends(tag):
    """Ends of a measured tag that occur several times: the value, its count and the other values in order."""
    for value, count, _, _ in _ends(tag):
        if count >= TUNING.tags_fewest_fills and len(tag.values) - count >= TUNING.tags_fewest_levels:
            yield value, count, tag.ordered[count:] if value == tag.ordered[0] else tag.ordered[:-count]


def _is_fill(value, others):
    """Whether a value is far from all others beside their own spread."""
    first, low, middle, high, last = np.percentile(others, [1, 25, 50, 75, 99])
    spread = float((high - low) / 1.349) or float(others.std())
    apart = np.abs(others[[0, -1]] - value).min()
    return spread > 0 and abs(value - middle) > 5 * spread and apart > max(3 * spread, 0.5 * (last - first))


def straight(tag):
    """Share of the moving rows that lie exactly on a line between their neighbours; the lines' mean length.

    On a lattice some do by chance: the share of Gaussian second differences is taken off.
    """
    if tag.kind != "measured" or len(tag.levels[0]) < TUNING.tags_fewest_levels:
        return 0.0, 1.0
    step, joined = np.diff(tag.values), ~_broken(len(tag.values), tag.picked, tag.breaks)
    joined &= True if tag.picked is None else np.diff(tag.picked) == 1
    tolerance = max(2.1 * tag.resolution, tag.rounding)
    moves, inner = np.abs(step) > tolerance / 3, joined[1:] & joined[:-1]
    moving = moves[1:] & moves[:-1] & inner
    bends = np.abs(np.diff(step))[moving]
    bends = bends[~(bends <= tolerance)]
    n_moving, n_bent = moving.sum(), len(bends)
    if n_moving < max(10, 0.5 * inner.sum()):  # what mostly stands still is no archived curve
        return 0.0, 1.0
    straight_ones = (n_moving - n_bent) / n_moving
    chance = 0.0
    if tag.resolution and n_bent < 10:
        chance = float(tolerance > 0.02 * tag.spread)
    elif tag.resolution:
        border = tolerance + 0.4 * tag.resolution  # half way to the next point of the lattice
        chance = _share_below(border, np.median(bends) - border)
    share = float((straight_ones - chance) / (1 - chance)) if chance < TUNING.tags_too_coarse else 0.0
    if share < (TUNING.tags_rounded_lines if chance > 0.01 else TUNING.tags_lines):
        return 0.0, 1.0
    return share, 1 / max(1 - straight_ones, 1e-3)


def _share_below(border, excess):
    """Share of Gaussian values within a border, from the median by which those outside exceed it."""
    excess /= np.log(2)  # their mean, where they fall off exponentially
    if excess <= 0:
        return 1.0

    def surplus(a):  # a: border over standard deviation
        return (np.exp(norm.logpdf(a) - norm.logsf(a)) - a) / a - excess / border

    widest, narrowest = 1e-3, 30.0
    if surplus(widest) < 0:
        return 0.0
    if surplus(narrowest) > 0:
        return 1.0
    return 1 - 2 * norm.sf(brentq(surplus, widest, narrowest))


def update_period(tag):
    """Rows from one update of the tag to the next, 1 for one that is new in every row; whether regular."""
    lengths, starts = tag.lengths, tag.starts
    if tag.kind != "measured" or len(lengths) < 20 or len(tag.levels[0]) < TUNING.tags_fewest_levels:
        return 1.0, True
    if tag.picked is not None and (sparse := _even_distance(tag.picked)):
        return sparse, True
    changes = starts[1:] if tag.picked is None else tag.picked[starts[1:]]
    usual = int(np.median(lengths))
    for period in {usual, *np.percentile(lengths, [10, 25]).astype(int).tolist()} - {0, 1}:
        if np.bincount(changes % period).max() / len(changes) > 0.95:
            return float(period), True
    inner = lengths[1:-1]
    new_values = len(tag.levels[0]) > 0.5 * len(lengths)
    if new_values and inner.mean() >= 2 and (inner >= 2).mean() > 0.3 and tag.resolution < 0.02 * tag.spread:
        return float(inner.mean()), False
    return 1.0, True


def _even_distance(rows):
    """Rows from one to the next where nearly all are two or more apart, and evenly; else 0."""
    every = np.diff(rows)
    usual = np.median(every)
    return float(usual) if usual >= 2 and (every % usual == 0).mean() > 0.95 else 0.0


def gaps(present, breaks):
    """Segments without a value that cells missing at random do not explain: first and after the last row."""
    bounds = _bounds(present[1:] != present[:-1], None, breaks)
    empty = ~present[bounds[:-1]]
    starts, lengths = bounds[:-1][empty], np.diff(bounds)[empty]
    found = []
    missing, n = (~present).sum(), len(present)
    for i in np.argsort(-lengths):
        missing -= lengths[i]
        rest = max(missing, 0) / max(n - lengths[i], 1)
        if lengths[i] < 5 or n * rest ** lengths[i] > TUNING.tags_level:
            break
        found.append((int(starts[i]), int(starts[i] + lengths[i])))
    return sorted(found)


def _bounds(changes, rows, breaks):
    """Where segments begin, and the end of the last, from changes between successive `rows`, None of all."""
    n = len(changes) + 1 if rows is None else len(rows)
    begins = np.ones(n + 1, dtype=bool)
    begins[1:-1] = changes | _broken(n, rows, breaks)
    return np.flatnonzero(begins)


def _broken(n, rows, breaks):
    """Whether a break lies between successive ones of `n` rows, or on the second of them."""
    broken = np.zeros(max(n - 1, 0), dtype=bool)
    first = breaks if rows is None else np.searchsorted(rows, breaks)  # the first row from it on
    broken[first[(first > 0) & (first < n)] - 1] = True
    return broken


# What a unit finds in its own record before it learns from it, of what `check_plant` looks for, in sentences.


def damage(Y, suspects, starts, labels):
    """Sentences about fill values, frozen segments and sensors that are there twice among some columns."""
    filled_by: dict[str, list] = {}  # columns by what is said of them: an outage fills, or holds, a whole unit
    held_by: dict[str, list] = {}
    for k in suspects:
        tag, label = Tag(Y[:, k], np.array(starts)), str(labels[k])
        fills = filled(tag)
        for value, share in fills:
            filled_by.setdefault(". ".join(texts_of("fill value", value=value, share=share)), []).append(label)
        held = [] if fills else frozen(tag)
        if held:
            rows = [(int(tag.rows[a]), int(tag.rows[b - 1])) for a, b in held]
            where = listed([f"{a} to {b}" for a, b in rows], 3, quoted=False)
            held_by.setdefault(where, []).append(label)
    found = [f"{listed(columns)}: {text}" for text, columns in filled_by.items()]
    for where, columns in held_by.items():
        stands = "stands" if len(columns) == 1 else "stand"
        found.append(f"{listed(columns)} {stands} still in rows {where}. {KINDS['stuck']['advice']}")
    for first, second in same_columns(Y, suspects):
        found.append(
            f"{str(labels[second])!r} has the same values as {str(labels[first])!r}. {KINDS['same sensor']['advice']}"
        )
    return found


def same_columns(Y, columns):
    """Pairs of measured columns with the same values, each copy with the first of its kind."""
    first_of: dict[bytes, int] = {}
    found = []
    for k in columns:
        values = np.ascontiguousarray(Y[:, k])
        if len(np.unique(values[~np.isnan(values)][:1000])) < 10:
            continue  # switches are equal by chance
        first = first_of.setdefault(fingerprint(values), int(k))
        if first != k:
            found.append((first, int(k)))
    return found


def fingerprint(series):
    """Bytes that are the same for the same values."""
    return blake2b(np.ascontiguousarray(series).data, digest_size=16).digest()
