"""Questions about records of plants of many units: links in pieces of time, and tests where something is missing."""

from dataclasses import replace

import numpy as np

from ..links.resampling import cut_into_blocks
from ..links.tests import classical_tests
from . import tables
from .gaps import drawn_record, share_there
from .learning import ALL_PAIRS, tests_given
from .plant import LargePlant


def without_gaps(server, record):
    """The record with what is missing drawn as the plant of a fitted server expects it; one without gaps as it is."""
    if record.is_constant:
        return record
    plant = server.plant_
    drive = plant.drive()
    added = None if drive is None else drive.exogenous(drive.inputs(record), record.starts)
    return drawn_record(record.centred() if drive is None else record, plant.matrices, added)


def tests_of_gaps(server, record, settings, method):
    """Classical tests of all pairs where measurements are missing: of the record with these drawn.

    Drawn by the plant, its links look as sure as if nothing had been missing: they count the share that was there.
    """
    there = share_there(record)

    def counted(statistic, linked):
        return np.where(linked, there[record.partition.pairs].prod(axis=1), 1.0) * statistic

    return classical_tests(without_gaps(server, record), settings, method, counted)


def estimates_of_pieces(server, record, settings, piece):
    """Estimates of blocks, one `BlockEstimates` a piece of so many rows, of which pairs, and the pieces' rows.

    In states of unit variance over the whole record, given the links that it has.
    """
    record = without_gaps(server, record)
    starts = tuple(sorted({*record.starts, *(step for step in record.steps if step)}))
    whole = LargePlant(replace(record.at_steps(()), starts=starts))
    partition, A = record.partition, server.unshrunk_transition_
    m = partition.n_units
    linked = np.array([[A[a, b].any() for b in partition.slices] for a in partition.slices])
    np.fill_diagonal(linked, False)
    place = {name: k for k, name in enumerate(record.names)}
    correlated = np.zeros((m, m), dtype=bool)
    for first, second in zip(server.correlated_pairs_["first"], server.correlated_pairs_["second"], strict=True):
        correlated[place[first], place[second]] = correlated[place[second], place[first]] = True
    pairs = server.engine_.pairs if m <= ALL_PAIRS else np.argwhere(linked)
    rows, found = cut_into_blocks(starts, record.n_samples, piece), []
    for part in rows:
        plant = LargePlant(whole.record.part(part), scale=whole.scale)
        tests = tests_given(plant, settings, linked, correlated)
        found.append(tables.chosen_blocks(pairs, tables.in_order(pairs, tests, m), partition))
    return found, pairs, rows
