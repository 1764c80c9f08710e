"""The assumption report of a large plant: checks of its units, and of the pairs that are linked."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ...statespace.episodes import lag_covariances
from ...statespace.matrices import few_threads
from ..links.engines import Engine
from ..links.resampling import cut_into_blocks
from ..links.tables import METHODS, classical_tests
from ..validity import checks
from ..validity import report as usual
from . import tables
from .blocks import LargePlant
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
        """The table of checks of the units and of linked pairs."""
        if self.gapless is not None:  # the record whose gaps were filled says more than one with gaps
            record = self.gapless
            run = LargeFilter(server.plant_.matrices, record)  # stretches between shifts are episodes, without levels
        return large_report(server, run, record, links)

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


def large_report(server, run, record, links):
    """The table of checks of units and of linked pairs, cause == effect for those of a unit."""
    if record.n_samples < TUNING.report_fewest_rows:
        return pd.DataFrame(columns=list(usual.COLUMNS))
    found = usual.evidence(server, run, record, links)
    m = len(found.units)
    levels = {(unit, unit): usual.LEVEL / (2 * m) for unit in range(m)}
    levels |= {(effect, cause): usual.LEVEL / (2 * len(found.linked)) for cause, effect in sorted(found.linked)}
    with few_threads(0):
        rows = [*usual._of_squares(found), *usual._of_halves(found, levels)]
        if found.scores is not None:
            rows += usual._of_scores(found)
        rows += [*_of_linked(found), *usual._of_rows_held_out(found)]
    table = pd.DataFrame(rows, columns=list(usual.COLUMNS))
    table = table.astype({"statistic": float, "p_value": float, "passed": bool})
    place = dict(zip(found.names, found.units, strict=True))
    table.attrs[usual.COLOURED] = [name for name in server.alone_ if _is_coloured(place[name])]
    return table


def _is_coloured(series):
    """Whether innovations of a unit may follow their own past."""
    lags = np.arange(1, usual._LAGS + 1)
    squares = np.square(lag_covariances(series, lags)).sum(axis=(1, 2)) / (len(series) - lags)
    return not checks.portmanteau(squares, series.shape[1] ** 2, usual._LAGS) > usual.WHITE


def _of_linked(found):
    """Whether linked units, and units of correlated noise, are rough in the same rows, or the same within a row."""
    pairs = sorted({(min(pair), max(pair)) for pair in [*found.linked, *found.correlated]})
    level = 0.0 if found.robust else usual.LEVEL / (2 * max(len(pairs), 1))
    for a, b in pairs:
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
