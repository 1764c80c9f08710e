"""The assumption report of a fitted plant: what was checked, and which verdicts that leaves standing."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.special import ndtr

from ...statespace.episodes import episodes
from ..joint import step_series, unit_scores
from ..lagged.misfit import one_lag_is_enough
from . import checks
from .drivers import _DRIVER, bands, driver_rows
from .tuning import TUNING

COLUMNS = ("check", "cause", "effect", "statistic", "p_value", "passed", "remedy")
SHIFTS = "shifts"  # of levels, rows (start, stop): where a table has them among its attributes
COLOURED = "coloured"  # units whose innovations may follow their own past, there as well
UNSETTLED = "the search ended before the maximum"  # why nothing is said of any link
LEVEL = 1e-3  # chance that a family of checks withholds anything on a record without violation
_SAME_ROW = 0.7  # correlation of innovations from which on two units may be seen as one
_LAGS, _FIRST_LATE, _LATE_LAGS = 10, 25, 128
WHITE = 0.05  # p value from which on innovations of a unit are taken to be white


@dataclass(frozen=True, eq=False)
class Evidence:
    """What checks look at: names, innovations and filtered states by unit, scores (None: not looked at), plant."""

    names: tuple
    units: list
    states: list
    news: list  # filtered less predicted states
    scores: list | None
    starts: tuple
    lags: np.ndarray
    noise: np.ndarray
    slices: tuple
    linked: set  # pairs (cause, effect) of positions that look like links
    p_adjusted: dict  # of these
    sure: set  # those that no driver next to them would make
    delays: dict  # of these
    correlated: set  # pairs of positions whose noise is
    robust: bool  # whether tests hold under any variance
    path: list | None  # states that shifts of levels alone lead to, by unit; None without shifts
    has_memory: bool  # whether one lag was not shown to be enough, as a driver with a memory asks for more
    has_prior: bool

    @property
    def backed_loops(self):
        """Unordered pairs linked both ways with a prior, which also what is left of a driver may be, however sure."""
        return _unordered(self._loops) if self.has_prior else set()

    @property
    def _loops(self):
        return {pair for pair in self.linked if pair[::-1] in self.linked}

    @property
    def suspected(self):
        """Unordered pairs that a driver may move: noise that goes together, and links that it may leave.

        Of plants with a memory any link; where one lag is enough the driver is faint, and leaves loops that are not
        sure both ways; where a prior hides what it does otherwise, any link that is not sure.
        """
        left = self.linked if self.has_memory else self.linked - self.sure
        if not (self.has_memory or self.has_prior):
            left &= self._loops
        return _unordered(self.correlated | left)


def evidence(server, run, record, links):
    """`Evidence` of the filter of a fitted server over its record."""
    slices, names = record.partition.slices, server.names_
    predicted, filtered, units, z = run.predicted, run.filtered, [], record.z
    for part, rows in zip(record.parts, slices, strict=True):
        if part.is_constant:
            expected = predicted[:, rows] @ part.patterns[0]
        else:
            expected = np.einsum("tij,tj->ti", part.patterns[part.pattern_of], predicted[:, rows])
        units.append(checks.unit_series(z[:, rows] - expected))
    scores = path = None
    if record.steps:
        steps = step_series(record.steps, record.starts, record.n_samples)
        new_levels = server.plant_.point.new_levels
        path = checks.settled_path(server.lag_transitions_, new_levels, steps, record.starts)
    if not record.partition.n_inputs and record.determined.all():
        whole = record.scores.series if record.is_constant else _filled(record, filtered)
        if path is not None:  # what shifts that the plant knows of lead to is no trend, and no driver
            whole = whole[:, : record.partition.n_states] - path
        scores = [whole[:, rows] for rows in slices]
    place = {name: k for k, name in enumerate(names)}
    links = _rows_of(links, "cause", "effect", "kind", "verdict", "p_adjusted", "delay")
    told = {(place[c], place[e]): (delay, p) for c, e, kind, verdict, p, delay in links
            if kind == "state" and verdict == "influence"}  # fmt: skip
    sure = {pair for pair, (_, p) in told.items() if p < TUNING.report_sure}
    together = _rows_of(server.correlated_pairs_, "first", "second", "p_value")
    correlated = {(place[a], place[b]) for a, b, p in together if p < LEVEL}
    # single bursts that units share, or far tails, make sizes of products, not their mean
    correlated = {pair for pair in correlated if checks.together(*(units[k] for k in pair))[1] < LEVEL}
    has_memory = len(server.lag_transitions_) > 1 or server.misfit_.empty
    # with a prior tests of later lags have to say nothing at all
    has_memory = bool(has_memory or (server.has_prior_ and not one_lag_is_enough(server.misfit_)))
    return Evidence(
        names, units, [filtered[:, rows] for rows in slices],
        [filtered[:, rows] - predicted[:, rows] for rows in slices], scores, record.starts, server.lag_transitions_,
        server.process_cov_, slices, set(told), {pair: p for pair, (_, p) in told.items()}, sure,
        {pair: delay for pair, (delay, _) in told.items()}, correlated,
        server.covariance != "information", None if path is None else [path[:, rows] for rows in slices],
        has_memory, server.has_prior_,
    )  # fmt: skip


def _rows_of(table, *columns):
    """Rows of some columns of a table, faster than pandas goes through few of them."""
    return zip(*(table[name].tolist() for name in columns), strict=True)


def _filled(record, filtered):
    """Scores of a record with gaps, as expected where they are not seen."""
    series = filtered.copy()
    for part, rows in zip(record.parts, record.partition.slices, strict=True):
        scores = np.empty_like(part.z)
        seen = unit_scores(part, record.starts, scores)[0]
        series[:, rows] = scores if seen is None else np.where(seen[:, None], scores, series[:, rows])
    return series


def report(server, run, record, links):
    """The table of checks, cause == effect for those of a unit."""
    seen = np.all([part.patterns.any(axis=(1, 2))[part.pattern_of] for part in record.parts], axis=0)
    if seen.sum() < max(TUNING.report_fewest_rows, TUNING.report_least_seen * record.n_samples):
        return pd.DataFrame(columns=list(COLUMNS))
    found = evidence(server, run, record, links)
    together = found if seen.all() else replace(found, units=[checks.unit_series(e[seen]) for e in found.units])
    variance = list(_of_squares(together))
    swings = not all(row[COLUMNS.index("passed")] for row in variance)
    most = min(_LATE_LAGS, len(found.units[0]) // 20)
    of_lags, dof = checks.squares_of_lags(found.units, most, any_variance=found.robust or swings)
    m = len(found.units)
    levels = {(e, c): LEVEL / (m if e == c else m * (m - 1)) for e, c in np.ndindex(m, m)}
    rows = [*_of_late_lags(found, of_lags, dof), *variance, *_of_halves(found, levels)]
    rows += [*_of_orders(server, found), *_of_noise(run, record, found)]
    if found.scores is not None:
        rows += _of_scores(found)
    if len(found.names) > 1:
        rows += [*_of_variance(together), *_of_rows(together), *_of_rows_held_out(found)]
        if found.scores is not None:
            rows += _of_spectra(found, record)
        rows += _of_echoes(found, record, _driven(rows))
    moves: list = []
    if found.scores is not None and (_driven(rows) or found.path is not None):  # or the plant knows of a shift
        moves, counts = _shifts(found)
        which = ", ".join(f"{start}-{stop - 1}" for start, stop in moves)
        remedy = f'levels="episode" in this unit, without rows {which}'
        units = zip(found.names, counts, strict=True)
        rows += [("steady levels", name, name, count, np.nan, False, remedy) for name, count in units if count]
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    kinds = {"statistic": float, "p_value": float, "passed": bool}
    table = pd.DataFrame({name: np.array(column, kinds.get(name, object)) for name, column in columns.items()})
    p_values = zip(found.names, checks.portmanteau(of_lags, dof, _LAGS).diagonal(), strict=True)
    table.attrs |= {SHIFTS: moves, COLOURED: [name for name, p in p_values if name in server.alone_ and not p > WHITE]}
    return table


def _of_spectra(found, record):
    """Linked pairs that a driver may move."""
    pairs = (found.suspected | found.backed_loops) & _unordered(found.linked)
    return driver_rows(found, record, bands(np.hstack(found.scores), found.starts), pairs) if pairs else []


def _driven(rows):
    """Names of pairs that a driver explains."""
    return {(first, second) for check, first, second, *_, passed, _ in rows if check == _DRIVER and not passed}


def _shifts(found):
    """Rows (start, stop) in which levels shift again and again, as those of a driver, and in how many a unit moves."""
    from .checks import movers, shifts  # for plants with drivers

    scores = found.scores if found.path is None else [*map(np.add, found.scores, found.path)]
    seen = shifts(np.hstack(scores), found.starts)
    return seen, movers(scores, seen, found.starts).sum(axis=0).tolist() if seen else [0] * len(scores)


def _row(found, check, cause, effect, result, level, remedy):
    statistic, p = result
    return judged(check, (found.names[cause], found.names[effect]), statistic, p, p > level, remedy)


def judged(check, names, statistic, p, passed, remedy):
    """A row of the table, with a remedy where the check did not pass."""
    return check, *names, statistic, p, bool(passed), "" if passed else remedy


def _of_late_lags(found, of_lags, dof):
    """Links of more rows than a plant learns, of pairs without one."""
    m = len(found.units)
    if len(of_lags) < _FIRST_LATE:
        return
    lags, p_values = checks.late_lags(of_lags, dof, _FIRST_LATE)
    for effect, cause in np.argwhere(~np.eye(m, dtype=bool)).tolist():
        if (cause, effect) in found.linked:  # which is told, whatever else it does
            continue
        lag, p = int(lags[effect, cause]), float(p_values[effect, cause])
        remedy = f"something seems to act after {lag} rows: take rows further apart"
        yield _row(found, "no later link", cause, effect, (lag, p), LEVEL / (2 * m * m), remedy)


def _of_squares(found):
    level = LEVEL / len(found.units)
    for k, result in enumerate(zip(*checks.squares(found.units), strict=True)):
        yield _row(found, "steady variance", k, k, result, level, 'covariance="sandwich"')


def _of_halves(found, levels):
    """Whether effects are the same in both halves of the record; `levels` by pair (effect, cause)."""
    results = zip(*checks.halves(found.units, found.states, found.starts, list(levels)), strict=True)
    for ((effect, cause), level), result in zip(levels.items(), results, strict=True):
        yield _row(found, _OF_EFFECT, cause, effect, result, level, "cut the record into episodes")


def _of_orders(server, found):
    """Whether lags beyond those of the plant were asked for, by unit; a plant of several lags was given them."""
    if server.misfit_.empty:
        return
    smallest: dict = {}
    for name, p in _rows_of(server.misfit_, "effect", "p_adjusted"):
        smallest[name] = min(p, smallest.get(name, np.inf))
    for name in found.names:
        n_lags, p = len(found.lags), smallest.get(name, np.nan)
        yield judged("enough lags", (name, name), n_lags, p, n_lags > 1 or not p <= LEVEL, "more lags")


def _of_noise(run, record, found):
    """Whether innovations are as large as the plant and the noise of its sensors say: mean square of a state."""
    if not record.is_constant or not record.determined.all():
        return
    slices = record.partition.slices
    units = zip(found.names, record.parts, slices, run.unit_covariances(slices), strict=True)
    for name, part, rows, P in units:
        J = part.patterns[0]
        residual = record.z[:, rows] - run.predicted[:, rows] @ J
        whiten = np.linalg.inv(np.linalg.cholesky(J + J @ P[-1] @ J))
        square = np.square(whiten @ residual.T).mean(axis=0)
        error, ratio = square.std() / np.sqrt(len(square)), float(square.mean())
        p = 2 * float(ndtr(-abs(ratio - 1) / error)) if error > 0 else float(ratio == 1)  # where all rows are alike
        passed = p > LEVEL / len(slices) or abs(ratio - 1) <= TUNING.report_near
        yield judged("noise as supposed", (name, name), ratio, p, passed, "n_rounds, or give C and R")


def _of_scores(found):
    m, rows = len(found.units), []
    first, stop = max(episodes(found.starts, len(found.scores[0])), key=lambda episode: episode[1] - episode[0])
    for k, whole in enumerate(found.scores):
        series = checks.unit_series(whole[first:stop])
        ratio, p, period = checks.line(series)
        slope = _trend(found, k, series, slice(first, stop))
        remedy = f"harmonics={period:.4g} in this unit"
        rows.append(_row(found, "no season", k, k, (ratio, p), TUNING.report_line_level / m, remedy))
        rows.append(_row(found, "no trend", k, k, slope, TUNING.report_trend_level / m, 'trend="smooth" in this unit'))
    return rows


def _trend(found, k, series, rows):
    """Test of a trend of a unit, beside what shifts that the plant knows of lead to."""
    if found.path is None:
        return checks.trend(series)
    path = found.path[k][rows]
    return checks.trend(checks.unit_series(found.scores[k][rows] + path), path)


def _of_variance(found):
    together = checks.roughness(found.units)
    level = 0.0 if found.robust else LEVEL / (2 * max(len(together), 1))
    for cause, effect in together:
        yield _row(found, "common variance", cause, effect, together[cause, effect], level, 'covariance="sandwich"')


def _of_rows(found):
    """Units that are seen as one, and links that may be another unit's within the row."""
    size = checks.correlation(found.units)
    for a, b in zip(*np.tril_indices(len(size), -1), strict=True):
        names = found.names[b], found.names[a]
        yield judged("apart in the same row", names, size[a, b], np.nan, size[a, b] < _SAME_ROW, "join the units")
        if size[a, b] > TUNING.report_one:
            yield _OF_BOTH, *names, size[a, b], np.nan, False, "leave one of them out"
    for cause, effect in found.linked:
        for other in range(len(size)):
            between = (min(other, effect), max(other, effect)) in _unordered(found.correlated)
            if other in (cause, effect) or not between or (cause, other) not in found.linked:
                continue
            statistic, p = _own_way(found, cause, effect, other)
            passed = p <= LEVEL and size[effect, other] < _SAME_ROW
            remedy = f"sample faster: {found.names[other]} may pass it on within the row"
            names = found.names[cause], found.names[effect]
            yield judged("not by way of another", names, statistic, p, passed, remedy)


def _of_rows_held_out(found):
    """Links that help to predict rows that their strength was not learned from; p is that of no gain."""
    for cause, effect in sorted(found.linked):
        e, c = found.slices[effect], found.slices[cause]
        direct = checks.response(found.lags[:, e, c], found.starts, found.states[cause])
        gain, error = checks.held_out_gain(found.news[effect] + direct, direct)
        names, p = (found.names[cause], found.names[effect]), float(ndtr(-gain / error)) if error > 0 else np.nan
        yield judged("gains held-out", names, gain, p, gain > 0, "another record")


def with_wandering(table, messages):
    """The table with a row for each unit that says of its sensors that they wander."""
    drifting = [(name, message.wanders) for name, message in messages.items() if message.wanders is not None]
    remedy = 'levels="wander" in this unit'
    return _with_rows(table, [(_WANDERING, name, name, period, np.nan, False, remedy) for name, period in drifting])


def with_joining(table, benefit):
    """The table with a row per unit on what joining gained on rows held out; zero for units without connections."""
    rows = []
    for name, gain, error in benefit[["gain", "stderr"]].itertuples():
        p = float(ndtr(-gain / error)) if error > 0 else np.nan
        rows.append(judged("joining gains held-out", (name, name), gain, p, gain >= 0, "leave it alone"))
    return _with_rows(table, rows)


def _with_rows(table, rows):
    """The table with further rows, and what is known of it; an empty one stays."""
    if table.empty or not rows:
        return table
    joined = pd.concat([table, pd.DataFrame(rows, columns=list(COLUMNS))], ignore_index=True)
    joined.attrs = dict(table.attrs)
    return joined


def _of_echoes(found, record, driven):
    """Links back to a cause whose rows do not show all that reaches its effect, which then tells of it as well.

    In plants of several lags a unit with as many states as sensors is an autoregression of these alone: what they leave
    out goes on in the unit. Where units act within a row, as where rows are means, it is what happened in the row, and
    their noise goes together. Later rows of the cause follow from either, and the effect predicts them though nothing
    acts back. Not of pairs that a driver explains.
    """
    if found.scores is None:
        return
    # p values of one effect fall with the rows as powers do
    clear = max(TUNING.report_sure, TUNING.report_echo ** max(len(found.scores[0]) / TUNING.report_echo_rows, 1.0))
    for cause, effect in sorted(found.linked):
        p, pair = found.p_adjusted[cause, effect], (min(cause, effect), max(cause, effect))
        surer = found.p_adjusted.get((effect, cause), 1.0)
        if p < clear or surer >= p or (found.names[pair[0]], found.names[pair[1]]) in driven:
            continue
        noise = np.linalg.inv(record.parts[effect].mean_information)
        spread = np.cov(found.scores[effect].T).reshape(noise.shape)
        share = float(np.linalg.eigvals(np.linalg.solve(spread, noise)).real.max())
        is_hidden = len(found.lags) > 1 and share <= TUNING.report_no_noise
        passed = not is_hidden and pair not in _unordered(found.correlated)
        names = found.names[cause], found.names[effect]
        remedy = f"more sensors of {names[1]}" if is_hidden else "sample faster, and values rather than means"
        yield judged("more than an echo", names, share, p, passed, remedy)


def _unordered(pairs):
    return {(min(pair), max(pair)) for pair in pairs}


def _own_way(found, cause, effect, other):
    """Test of a link given that another unit may act on its effect in the same row."""
    e, k, c = (found.slices[unit] for unit in (effect, other, cause))
    pull = found.noise[e, k] @ np.linalg.pinv(found.noise[k, k], hermitian=True)
    direct, by_other = (checks.response(found.lags[:, rows, c], found.starts, found.states[cause]) for rows in (e, k))
    row = found.news[effect] - found.news[other] @ pull.T + direct - by_other @ pull.T
    return checks.own_way(row, direct)


# -- verdicts --------------------------------------------------------------------------------------

_WORDS = {
    "no later link": "innovations of {e} follow those of {c} after many rows",
    "same in both halves": "what {c} does to {e} is not the same in both halves of the record",
    "steady sensors": "sensors of {u} wander",
    "no season": "{u} has a season",
    "no trend": "{u} has a trend",
    "common variance": "{c} and {e} are rough in the same rows",
    "link rather than driver": "links and a driver that nobody measures explain {c} and {e} about as well",
    "apart from a shared driver": "{c} and {e} each share a driver that nobody measures with other units",
    "apart in the same row": "{c} and {e} are nearly the same within a row",
    "no copies": "{c} and {e} are one unit or read one quantity, and links of either are shared out between them",
    "not by way of another": "{c} may act on {e} by way of another unit within the row",
    "more than an echo": "{c} follows {e}, and may tell of it what rows of {e} do not show",
    "gains held-out": "{c} does not help to predict {e} on rows held out",
}
_FIRST = ("no copies", "steady sensors", "no season", "no trend", "common variance")  # these are behind what else fails
_OF_EFFECT = "same in both halves"
_OF_BOTH = "no copies"
_WANDERING = "steady sensors"
_BOTH_WAYS = ("common variance", "link rather than driver", "apart in the same row")


def gated(links, table):
    """Links whose verdicts the checks leave standing, the others withheld with the reason in ``because``."""
    rows = _rows_of(table, "check", "cause", "effect", "remedy", "passed")
    failed = [row[:-1] for row in rows if not row[-1] and (row[0] in _WORDS or row[0] == _DRIVER)]
    if not failed:
        return links
    pairs = list(zip(links["cause"].tolist(), links["effect"].tolist(), strict=True))
    reasons: dict = {}
    for check, cause, effect, remedy in failed:
        for pair, why in _concerned(pairs, check, cause, effect):
            reasons.setdefault(pair, []).append((check, why + (f" ({remedy})" if remedy else "")))
    verdicts, becauses = links["verdict"].to_numpy(copy=True), links["because"].to_numpy(copy=True)
    for k, pair in enumerate(pairs):
        own = reasons.get(pair, [])
        if not own:
            continue
        own.sort(key=lambda reason: (reason[0] not in _FIRST, reason))  # whatever the order of units
        others = [why for check, why in own if check != _DRIVER]
        is_driver = not others and any(check == _DRIVER for check, _ in own)
        verdicts[k] = "shared driver" if is_driver else "cannot tell"
        becauses[k] = "; ".join(list(dict.fromkeys(others or [why for _, why in own]))[: TUNING.report_most_reasons])
    return links.assign(verdict=verdicts, because=becauses)


def _concerned(pairs, check, cause, effect):
    """Pairs of units, of those with links in a table, that a failed check is about, and the reason in words."""
    if check == _DRIVER:
        why = f"something that nobody measures moves {cause} and {effect}"
        return [((cause, effect), why), ((effect, cause), why)]
    why = _WORDS[check].format(c=cause, e=effect, u=effect)
    if cause == effect:
        if check == _OF_EFFECT:
            return [(pair, f"{effect} is not the same in both halves") for pair in pairs if pair[1] == effect]
        return [(pair, why) for pair in pairs if effect in pair]
    if check == _OF_BOTH:
        return [(pair, why) for pair in pairs if {cause, effect}.intersection(pair)]
    return [((cause, effect), why)] + [((effect, cause), why)] * (check in _BOTH_WAYS)
