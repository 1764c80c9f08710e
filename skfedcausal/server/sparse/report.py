"""The assumption report of a large plant: checks of its units, and of the pairs that are linked."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ...parallel import chunks, started, workers
from ...statespace.episodes import lag_covariances, side_by_side
from ...statespace.matrices import few_threads, positions_of, slices_of
from ..links.engines import Engine
from ..links.resampling import cut_into_blocks
from ..links.tables import METHODS, classical_tests
from ..validity import checks
from ..validity import report as usual
from . import tables
from .blocks import UNITS, LargePlant, columns
from .filter import LargeFilter, drawn_record, share_there
from .learning import ALL_PAIRS, tests_given
from .tuning import TUNING


@dataclass(frozen=True)
class InBlocks(Engine):
    """Of a plant of many units; `gapless` is its record with the gaps filled, None for one without."""

    gapless: Any
    links: pd.DataFrame

    methods = METHODS

    def table(self, server):
        """The table of links, which waited for workers."""
        return self.links.copy()

    def without_rows(self):
        """The same without anything that is as long as the record."""
        return replace(self, gapless=None)

    def report(self, server, run, record, links):
        """The table of checks of the units and of linked pairs; tails are looked at meanwhile, for the replies."""
        reported = run.told(positions_of(server.alone_, server.state_slices_), None)
        if self.gapless is not None:  # the record whose gaps were filled says more than one with gaps
            record = self.gapless
            run = LargeFilter(server.plant_.matrices, record)  # stretches between shifts are episodes, without levels
        return large_report(server, run, record, links, lambda: reported.heavy_tails)

    def with_directions(self, correlations, run, record, Q):
        """Of many units nothing is said."""
        return correlations

    def tests(self, server, record, settings, method):
        """The table of classical tests of all pairs, by the plant as a whole; what is missing is drawn.

        Drawn by the plant, its links look as sure as if nothing had been missing: they count the share that was there.
        """
        there = share_there(record)

        def counted(statistic, linked):
            return np.where(linked, there[record.partition.pairs].prod(axis=1), 1.0) * statistic

        return classical_tests(without_gaps(server, record), settings, method, counted)

    def pieces(self, server, record, settings, piece):
        """Estimates of blocks, one `BlockEstimates` a piece of so many rows, of which pairs, and the pieces' rows.

        In states of unit variance over the whole record, given the links that it has.
        """
        record = without_gaps(server, record)
        starts = tuple(sorted({*record.starts, *(change.start for change in record.steps if change.start)}))
        whole = LargePlant(replace(record.at_steps(()), starts=starts))
        partition, A = record.partition, server.unshrunk_transition_
        m = partition.n_units
        linked = np.array([[A[a, b].any() for b in partition.slices] for a in partition.slices])
        np.fill_diagonal(linked, False)
        place = {name: k for k, name in enumerate(record.names)}
        correlated = np.zeros((m, m), dtype=bool)
        first, second = (server.correlated_pairs_[each].map(place).to_numpy(int) for each in ("first", "second"))
        correlated[first, second] = correlated[second, first] = True
        pairs = self.pairs if m <= ALL_PAIRS else np.argwhere(linked)
        rows, found = cut_into_blocks(starts, record.n_samples, piece), []
        for part in rows:
            plant = LargePlant(whole.record.part(part), scale=whole.scale)
            tests = tests_given(plant, settings, linked, correlated)
            found.append(tables.chosen_blocks(pairs, tables.in_order(pairs, tests, m), partition))
        return found, pairs, rows


def large_report(server, run, record, links, meanwhile):
    """The table of checks, cause == effect for those of a unit; something else is done while workers check."""
    if record.n_samples < TUNING.report_fewest_rows:
        return pd.DataFrame(columns=list(usual.COLUMNS))
    found = usual.evidence(server, run, record, links)
    series = (np.zeros((0, 0)) if each is None else side_by_side(each) for each in (found.scores, found.path))
    shared = side_by_side(found.units), run.filtered, run.predicted, *series
    m, pairs = len(found.units), sorted(found.linked)
    unordered = sorted({(min(pair), max(pair)) for pair in [*pairs, *found.correlated]})
    tasks = []
    for units in chunks(m, UNITS):
        own = [pair for pair in pairs if pair[1] in units]
        sides = [pair for pair in unordered if pair[1] in units]
        tasks.append((*_part(found, units, own, sides), (m, len(pairs), len(unordered))))
    with workers(m, server.n_jobs) as parallel:
        checked = started(_checked, tasks, parallel, shared)
        if parallel is not None:
            meanwhile()
        found_by = checked()
    place = {name: k for k, name in enumerate(found.names)}
    rows, held_out = ([row for each in found_by for row in each[kind]] for kind in ("all rows", "held out"))
    last = sorted(held_out, key=lambda row: (place[row[1]], place[row[2]]))
    table = pd.DataFrame(rows + last, columns=list(usual.COLUMNS))
    table = table.astype({"statistic": float, "p_value": float, "passed": bool})
    table.attrs[usual.COLOURED] = [name for name in server.alone_ if _is_coloured(found.units[place[name]])]
    return table


def _is_coloured(series):
    """Whether innovations of a unit may follow their own past."""
    lags = np.arange(1, usual._LAGS + 1)
    squares = np.square(lag_covariances(series, lags)).sum(axis=(1, 2)) / (len(series) - lags)
    return not checks.portmanteau(squares, series.shape[1] ** 2, usual._LAGS) > usual.WHITE


def _part(found, units, pairs, sides):
    """The evidence on some units and on what is paired with them, their number, and the pairs among these.

    Instead of series it has the columns at which the plant's have them.
    """
    others = {unit for pair in [*pairs, *sides] for unit in pair}.difference(units)
    members = [*units, *sorted(others)]
    place = {unit: k for k, unit in enumerate(members)}
    places = [[(place[a], place[b]) for a, b in these] for these in (pairs, sides)]
    states = positions_of(members, found.slices)
    slices = slices_of(found.slices[unit].stop - found.slices[unit].start for unit in members)
    columns_of, own = slices_of(e.shape[1] for e in found.units), [found.slices[unit] for unit in units]
    part = replace(found,
        names=tuple(found.names[unit] for unit in members),
        units=[columns_of[unit] for unit in members],
        states=[found.slices[unit] for unit in members],
        scores=None if found.scores is None else own,
        path=None if found.path is None else own,
        news=own,
        lags=found.lags[:, states[:, None], states], noise=None, slices=slices, linked=set(places[0]),
        sure=set(), delays={}, correlated=set(),
    )  # fmt: skip
    return part, len(units), *places


def _with_series(part, units, filtered, predicted, scores, path):
    """The evidence with the series that it has the columns of."""
    news = zip(columns(filtered, part.news), columns(predicted, part.news), strict=True)
    return replace(
        part,
        units=columns(units, part.units),
        states=columns(filtered, part.states),
        news=[after - before for after, before in news],
        scores=None if part.scores is None else columns(scores, part.scores),
        path=None if part.path is None else columns(path, part.path),
    )


def _checked(units, filtered, predicted, scores, path, part, n_own, pairs, sides, numbers):
    """Rows of the report on the first units, on pairs (cause, effect) and on unordered ones; those on rows held out."""
    found, (m, n_pairs, n_sides) = _with_series(part, units, filtered, predicted, scores, path), numbers
    own = replace(found, units=found.units[:n_own])
    with few_threads(0):
        levels = {(unit, unit): usual.LEVEL / (2 * m) for unit in range(n_own)}
        levels |= {(effect, cause): usual.LEVEL / (2 * n_pairs) for cause, effect in pairs}
        rows = [*usual._of_squares(own, m), *usual._of_halves(found, levels)]
        if found.scores is not None:
            rows += usual._of_scores(own, m)
        rows += _of_linked(found, sides, n_sides)
        return {"all rows": rows, "held out": list(usual._of_rows_held_out(found))}


def _of_linked(found, sides, number):
    """Whether linked units are rough in the same rows, or the same within a row."""
    level = 0.0 if found.robust else usual.LEVEL / (2 * max(number, 1))
    for a, b in sides:
        both = [found.units[a], found.units[b]]
        yield usual._row(found, "common variance", a, b, checks.roughness(both)[0, 1], level, 'covariance="sandwich"')
        size, names = checks.correlation(both)[0, 1], (found.names[a], found.names[b])
        yield usual.judged("apart in the same row", names, size, np.nan, size < usual._SAME_ROW, "join the units")


# -- links in pieces of time, and tests where something is missing ----------------------------------------


def without_gaps(server, record):
    """The record with what is missing drawn as the plant of a fitted server expects it; one without gaps as it is."""
    if record.is_constant:
        return record
    plant = server.plant_
    drive = plant.drive()
    added = None if drive is None else drive.exogenous(drive.inputs(record), record.starts)
    return drawn_record(record.centred() if drive is None else record, plant.matrices, added)
