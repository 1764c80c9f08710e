"""The plant without links: what the units make of it alone, and score tests of all pairs there."""

from itertools import chain
from typing import NamedTuple

import numpy as np

from ...statespace.matrices import few_threads
from ..estimation.scoring import Point
from .blocks import BlockTask, core_spectra, pushes
from .parallel import chunks, run
from .plant import UNITS
from .screening import PairRows, Products, Spectra, p_values_of, products

_TOGETHER = 50_000  # pairs that one task tests


class Screened(NamedTuple):
    """The plant without links and what score tests there say of all pairs."""

    spectra: Spectra
    pushes: np.ndarray
    products: Products
    p_value: np.ndarray  # (n_units, n_units), effect by cause
    noise_p_value: np.ndarray | None


def screened(plant, with_noise=True, parallel=None):
    """Score tests of every pair at the plant without links, a `Screened`."""
    spectra, whole = units_on_their_own(plant, parallel)
    own = plant.sparse(plant.A), plant.sparse(plant.noise), plant.starts, plant.n_transitions
    found = products(whole, plant.series, *own, with_noise=with_noise)
    p_value = _all_pairs(spectra, found, plant, parallel)
    noise = _all_pairs(spectra, found, plant, parallel, of_noise=True) if with_noise else None
    return Screened(spectra, whole, found, p_value, noise)


def units_on_their_own(plant, parallel=None):
    """:class:`Spectra` of all units without links, and residuals over their spectra (n_samples, n)."""
    tasks = (([_unit_task(plant, m) for m in units],) for units in chunks(plant.partition.n_units, UNITS))
    whole, spectra = np.empty_like(plant.series), []
    for one, own in zip(chain.from_iterable(run(units_alone, tasks, parallel)), plant.partition.slices, strict=True):
        whole[:, own] = one[0]
        spectra.append(one[1])
    return padded_spectra(spectra, plant.partition), whole


def units_alone(tasks):
    """Residuals over their spectra, and spectra, of units without links."""
    found = []
    with few_threads(0):
        for task in tasks:
            point, n = Point(task.A, task.Q, None), len(task.A)
            found.append((pushes(task, point, n), core_spectra(point, task, _OneUnit(n), 1)))
    return found


class _OneUnit:
    """A partition of a single unit, as far as :func:`core_spectra` needs one."""

    def __init__(self, size):
        self.padded, self.groups, self.n_units = np.arange(size)[None], {size: np.zeros(1, dtype=int)}, 1


def _unit_task(plant, m):
    (series, A), how = plant.regression(m), (plant.n_lags, plant.n_frequencies)
    own = A, plant.Q[m]
    size, none = (len(plant.A[m]),), np.zeros((1, 1), dtype=bool)
    return BlockTask(series, plant.starts, plant.noise[m], size, 1, *own, own, none, none, *how, False, 0.0, 0, False)


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


def _all_pairs(spectra, found, plant, parallel, of_noise=False):
    """p-values of all ordered pairs, one on the diagonal."""
    m, partition = plant.partition.n_units, plant.partition
    parts = []
    for effects in chunks(m, max(_TOGETHER // m, 1)):
        effect, cause = (each.ravel() for each in np.meshgrid(effects, np.arange(m), indexing="ij"))
        chosen = cause < effect if of_noise else cause != effect
        parts.append(np.column_stack([effect[chosen], cause[chosen]]))
    tasks = (
        (pairs, spectra, PairRows.of(pairs, found, partition, of_noise), partition.sizes, plant.n_samples)
        for pairs in parts
    )
    p_value, pairs = np.ones((m, m)), np.concatenate(parts)
    p_value[tuple(pairs.T)] = np.concatenate(run(p_values_of, tasks, parallel))
    return np.minimum(p_value, p_value.T) if of_noise else p_value
