"""The plant without links: what the units make of it alone, and score tests of all pairs there."""

from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from ...parallel import chunks, run
from ...statespace.matrices import few_threads
from ...statespace.partition import Partition
from ..estimation.scoring import Point
from .blocks import BlockTask, core_spectra, pushes
from .plant import UNITS
from .screening import Products, Spectra, p_values_of, products

_TOGETHER = 16_000  # pairs that one task tests


class Screened(NamedTuple):
    """The plant without links and what score tests there say of all pairs."""

    spectra: Spectra
    products: Products
    p_value: np.ndarray  # (n_units, n_units), effect by cause
    noise_p_value: np.ndarray | None


def screened(plant, with_noise=True, parallel=None):
    """Score tests of every pair at the plant without links, a `Screened`."""
    spectra, whole = units_on_their_own(plant, parallel)
    own = plant.sparse(plant.A), plant.sparse(plant.noise), plant.starts, plant.n_transitions
    found = products(whole, plant.series, *own, parallel=parallel, with_noise=with_noise)
    return Screened(spectra, found, *_all_pairs(spectra, found, plant, parallel))


def units_on_their_own(plant, parallel=None):
    """:class:`Spectra` of all units without links, and residuals over their spectra (n_samples, n)."""
    tasks = (([_unit_task(plant, m) for m in units],) for units in chunks(plant.partition.n_units, UNITS))
    whole, spectra = np.empty_like(plant.series), []
    alone = chain.from_iterable(run(units_alone, tasks, parallel, (plant.regressors,)))
    for one, own in zip(alone, plant.partition.slices, strict=True):
        whole[:, own] = one[0]
        spectra.append(one[1])
    return padded_spectra(spectra, plant.partition), whole


def units_alone(regressors, tasks):
    """Residuals over their spectra, and spectra, of units without links, from the regressors of the plant."""
    found = []
    with few_threads(0):
        for own, without in tasks:
            task = replace(without, series=regressors.take(own, axis=1))
            point, n = Point(task.A, task.Q, None), len(task.A)
            found.append((pushes(task, point, n), core_spectra(point, task, Partition((n,)), 1)))
    return found


def _unit_task(plant, m):
    own, how = (plant.own_coefficients(m), plant.Q[m]), (plant.n_lags, plant.n_frequencies)
    size, none = (len(plant.A[m]),), np.zeros((1, 1), dtype=bool)
    task = BlockTask(None, plant.starts, plant.noise[m], size, 1, *own, own, none, none, *how, False, 0.0, 0)
    return plant.columns_of(m), task


def padded_spectra(spectra, partition):
    """Spectra of units one below the other, with zeros where a unit has fewer states than others."""
    p = partition.padded.shape[1]
    found = []
    for part in zip(*spectra, strict=True):
        whole = np.zeros((len(part), part[0].shape[1], p, p), dtype=complex)
        for k, (each, size) in enumerate(zip(part, partition.sizes, strict=True)):
            whole[k, :, :size, :size] = each[0][..., :size, :size]
        found.append(whole)
    return Spectra(*found)


def _all_pairs(spectra, found, plant, parallel):
    """p-values of links and, if it has products, of noise of all ordered pairs, one on the diagonal."""
    m, partition = plant.partition.n_units, plant.partition
    kinds, parts = (False,) if found.noise is None else (False, True), []
    for effects in chunks(m, max(_TOGETHER // m, 1)):
        effect, cause = (each.ravel() for each in np.meshgrid(effects, np.arange(m), indexing="ij"))
        for of_noise in kinds:
            chosen = cause < effect if of_noise else cause != effect
            parts.append((np.column_stack([effect[chosen], cause[chosen]]), partition.sizes, plant.n_samples, of_noise))
    shared = *spectra, found.links, found.links[:0] if found.noise is None else found.noise
    p_values: list = [np.ones((m, m)), None if found.noise is None else np.ones((m, m))]
    for (pairs, *_, of_noise), found_there in zip(parts, run(p_values_of, parts, parallel, shared), strict=True):
        p_values[of_noise][tuple(pairs.T)] = found_there
    link, noise = p_values
    return link, None if noise is None else np.minimum(noise, noise.T)
