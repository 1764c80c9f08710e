"""The assumption report of a large plant: checks of its units, and of the pairs that are linked."""

import numpy as np
import pandas as pd
from scipy.special import chdtrc

from ...statespace.matrices import few_threads
from ..validity import checks
from ..validity.report import (
    _BURSTS,
    _LAGS,
    _MORE_LAGS,
    _SAME_ROW,
    COLUMNS,
    LEVEL,
    _of_rows_held_out,
    _of_scores,
    _of_squares,
    _row,
    evidence,
)
from .alone import UNITS
from .parallel import chunks, workers
from .parallel import run as in_processes

_FEWEST_ROWS = 200


def large_report(server, run, record):
    """The table of checks, cause == effect for those of a unit."""
    if record.n_samples < _FEWEST_ROWS:
        return pd.DataFrame(columns=list(COLUMNS))
    found = evidence(server, run, record)
    m, pairs = len(found.units), sorted(found.linked)
    unordered = sorted({(min(pair), max(pair)) for pair in [*pairs, *found.correlated]})
    tasks = []
    for units in chunks(m, UNITS):
        own = [pair for pair in pairs if pair[1] in units]
        sides = [pair for pair in unordered if pair[1] in units]
        numbers = m, len(pairs), len(unordered)
        tasks.append((*_part(found, units, own, sides), numbers))
    with workers(m, server.n_jobs) as parallel:
        rows = [row for part in in_processes(_checked, tasks, parallel) for row in part]
    table = pd.DataFrame([*rows, *_of_rows_held_out(found)], columns=list(COLUMNS))
    return table.astype({"statistic": float, "p_value": float, "passed": bool})


def _part(found, units, pairs, sides):
    """The evidence on some units and on what is paired with them, their number, and the pairs among these."""
    others = {unit for pair in [*pairs, *sides] for unit in pair}.difference(units)
    members = [*units, *sorted(others)]
    place = {unit: k for k, unit in enumerate(members)}
    part = found._replace(
        names=tuple(found.names[unit] for unit in members),
        units=[found.units[unit] for unit in members],
        states=[np.ascontiguousarray(found.states[unit]) for unit in members],
        scores=None if found.scores is None else [np.ascontiguousarray(found.scores[unit]) for unit in units],
        path=None if found.path is None else [np.ascontiguousarray(found.path[unit]) for unit in units],
        news=[], lags=None, noise=None, slices=(), linked=set(), sure=set(), delays={}, correlated=set(),
    )  # fmt: skip
    places = ([(place[a], place[b]) for a, b in these] for these in (pairs, sides))
    return part, len(units), *places


def _checked(found, n_own, pairs, sides, numbers):
    """Rows of the report on the first units, on pairs (cause, effect), and on unordered ones."""
    m, n_pairs, n_sides = numbers
    own = found._replace(units=found.units[:n_own])
    with few_threads(0):
        ways = [*((unit, unit, m) for unit in range(n_own)), *((*pair, n_pairs) for pair in pairs)]
        rows = [*_of_innovations(found, ways), *_of_squares(own, m), *_of_halves(found, ways)]
        if found.scores is not None:
            rows += _of_scores(own, m)
        return [*rows, *_of_linked(found, sides, n_sides)]


def _of_innovations(found, ways):
    n_rows = len(found.units[0])
    n_lags = min(_MORE_LAGS, n_rows // 20)
    few = min(_LAGS, n_lags)
    for cause, effect, number in ways:
        late, early = found.units[effect], found.units[cause]
        total, size = 0.0, late.shape[1] * early.shape[1]
        for lag in range(1, n_lags + 1):
            product = late[lag:].T @ early[:-lag]
            total += float((product * product).sum()) / (n_rows - lag)
            for check, last in (("white", few), ("white over more lags", n_lags)):
                if lag == last:
                    result = total, float(chdtrc(lag * size, total))
                    yield _row(found, check, cause, effect, result, LEVEL / (4 * number), "more lags")


def _of_halves(found, ways):
    for cause, effect, number in ways:
        statistic, p = checks.halves([found.units[effect]], [found.states[cause]], found.starts)
        result, level = (statistic[0, 0], p[0, 0]), LEVEL / (2 * number)
        yield _row(found, "same in both halves", cause, effect, result, level, "cut the record into episodes")


def _of_linked(found, sides, number):
    """Whether linked units are rough in the same rows, or the same within a row."""
    level = 0.0 if found.robust else LEVEL / (2 * max(number, 1))
    for a, b in sides:
        both = [found.units[a], found.units[b]]
        together, bursts = checks.common_squares(both)[0, 1], checks.common_bursts(both)[0, 1]
        yield _row(found, "common variance", a, b, together, level, 'covariance="sandwich"')
        yield _row(found, "no common bursts", a, b, bursts, level, _BURSTS)
        size = checks.correlation(both)[0, 1]
        passed = bool(size < _SAME_ROW)
        names = found.names[a], found.names[b]
        yield "apart in the same row", *names, size, float("nan"), passed, "" if passed else "join the units"
