"""The assumption report of a large plant: checks of its units, and of the pairs that are linked."""

import pandas as pd
from scipy.special import chdtrc

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

_FEWEST_ROWS = 200


def large_report(server, run, record):
    """The table of checks, cause == effect for those of a unit."""
    if record.n_samples < _FEWEST_ROWS:
        return pd.DataFrame(columns=list(COLUMNS))
    found = evidence(server, run, record)
    pairs = sorted(found.linked)
    rows = [*_of_innovations(found, pairs), *_of_squares(found), *_of_halves(found, pairs)]
    if found.scores is not None:
        rows += _of_scores(found)
    rows += [*_of_linked(found, pairs), *_of_rows_held_out(found)]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.astype({"statistic": float, "p_value": float, "passed": bool})


def _own_and(pairs, m):
    """Units with themselves and linked pairs (cause, effect), with how many there are of the kind."""
    yield from ((unit, unit, m) for unit in range(m))
    yield from ((cause, effect, len(pairs)) for cause, effect in pairs)


def _of_innovations(found, pairs):
    n_rows = len(found.units[0])
    n_lags = min(_MORE_LAGS, n_rows // 20)
    few = min(_LAGS, n_lags)
    for cause, effect, number in _own_and(pairs, len(found.units)):
        late, early = found.units[effect], found.units[cause]
        total, size = 0.0, late.shape[1] * early.shape[1]
        for lag in range(1, n_lags + 1):
            product = late[lag:].T @ early[:-lag]
            total += float((product * product).sum()) / (n_rows - lag)
            for check, last in (("white", few), ("white over more lags", n_lags)):
                if lag == last:
                    result = total, float(chdtrc(lag * size, total))
                    yield _row(found, check, cause, effect, result, LEVEL / (4 * number), "more lags")


def _of_halves(found, pairs):
    for cause, effect, number in _own_and(pairs, len(found.units)):
        statistic, p = checks.halves([found.units[effect]], [found.states[cause]], found.starts)
        result, level = (statistic[0, 0], p[0, 0]), LEVEL / (2 * number)
        yield _row(found, "same in both halves", cause, effect, result, level, "cut the record into episodes")


def _of_linked(found, pairs):
    """Whether linked units are rough in the same rows, or the same within a row."""
    unordered = sorted({(min(pair), max(pair)) for pair in pairs} | {tuple(sorted(pair)) for pair in found.correlated})
    level = 0.0 if found.robust else LEVEL / (2 * max(len(unordered), 1))
    for a, b in unordered:
        both = [found.units[a], found.units[b]]
        together, bursts = checks.common_squares(both)[0, 1], checks.common_bursts(both)[0, 1]
        yield _row(found, "common variance", a, b, together, level, 'covariance="sandwich"')
        yield _row(found, "no common bursts", a, b, bursts, level, _BURSTS)
        size = checks.correlation(both)[0, 1]
        passed = bool(size < _SAME_ROW)
        names = found.names[a], found.names[b]
        yield "apart in the same row", *names, size, float("nan"), passed, "" if passed else "join the units"
