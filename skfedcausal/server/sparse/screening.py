"""The plant without links: score tests of all pairs of units and of all inputs from a few matrix products."""

from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import chdtrc

from ...parallel import chunks, in_threads, run
from ...statespace.episodes import episodes, fourier_sums, lag_covariances, remove_episode_means
from ...statespace.matrices import Partition, few_threads, uncoupled_pair_information
from ...statespace.whittle import midpoints
from ..estimation.evidence import _profiled, benjamini_hochberg
from ..estimation.scoring import Point
from .blocks import UNITS, BlockTask, core_spectra, pushes
from .tuning import TUNING

# Score tests of all pairs of units from three matrix products, whatever their number.
#
# At a plant (A, Q) with ``x = Phi^-1 r`` of the residuals and the smoothed states h the gradient of the log-likelihood
# is ``x' h`` for links and ``x' x`` for correlated noise: one product each for all pairs. What a pair's information
# takes are the spectra of its two units.

NOWHERE = np.iinfo(np.int64).max  # place of what a unit has not
_PIECE, _PIECES = 128, 8  # rows, and how many of these a thread takes together
_COLUMNS = 128  # of a product that a thread takes together


class Products(NamedTuple):
    """Gradients per time step and the covariance of the smoothed states, (n, n) each."""

    links: np.ndarray
    noise: np.ndarray | None  # None where it is not asked for, as the next
    states: np.ndarray | None


class Spectra(NamedTuple):
    """Spectra of all units, (n_units, n_frequencies, p, p): of inverse residuals, smoothed states, and across."""

    U: np.ndarray
    V: np.ndarray
    W: np.ndarray


def products(
    pushes, series, A, noise, starts, n_transitions, *, parallel=None, known=None, with_noise=False, with_states=False
):
    """:class:`Products` at a plant; A and the noise of the scores are sparse, `known` inputs count as states."""
    states = smoothed(pushes, series, A, noise, starts, parallel)
    if known is not None and known.shape[1]:
        states = np.hstack([states, known])
    few = [pushes[:, part.start : part.stop] for part in chunks(pushes.shape[1], _COLUMNS)]
    pairs = [(each, states) for each in few]
    if with_noise:
        pairs.append((pushes, pushes))
    if with_states:
        pairs.append((states, states))
    found = in_threads(_product, pairs, parallel)
    links, more = np.concatenate(found[: len(few)]), iter(found[len(few) :])
    noise, own = (next(more) / n_transitions if asked else None for asked in (with_noise, with_states))
    return Products(links / n_transitions, noise, own)


def _product(left, right):
    return left.T @ right


def smoothed(pushes, series, A, noise, starts, parallel=None):
    """States smoothed over the record, ``h[t] = s[t] - N (x[t - 1] - A' x[t])``; zero in the last rows of episodes."""
    states, turned = np.empty_like(series), csr_array(A.T)

    def smooth(some):
        for first in some[::_PIECE]:  # that stay in cache, a state in a row
            rows = slice(first, first + _PIECE)
            here = np.ascontiguousarray(pushes[rows].T)
            back = -(turned @ here)
            back[:, 1:] += here[:, :-1]
            if first > 0:
                back[:, 0] += pushes[first - 1]
            np.subtract(series[rows], (noise @ back).T, out=states[rows])

    in_threads(smooth, [(some,) for some in chunks(len(series), _PIECES * _PIECE)], parallel)
    states[[stop - 1 for _, stop in episodes(starts, len(series))]] = 0.0
    return states


class PairRows(NamedTuple):
    """Gradients of pairs (effect, cause): of the link, of the opposite one, of their noise (None: not looked at)."""

    there: np.ndarray  # (n_pairs, e)
    back: np.ndarray
    noise: np.ndarray | None

    @classmethod
    def of(cls, pairs, found, partition, with_noise=False):
        """Those of pairs among products."""
        effect, cause = pairs.T
        own = block_rows(found.noise, effect, cause, partition) if with_noise else None
        there, back = (block_rows(found.links, *ends, partition) for ends in ((effect, cause), (cause, effect)))
        return cls(there, back, own)


def tested(pairs, spectra, rows, sizes, n_samples):
    """Estimates, covariances and p-values of pairs (effect, cause) of units that are no near neighbours.

    Of their noise where the rows have it, with both links profiled out, otherwise of the link, with the opposite one.
    """
    p = spectra.U.shape[-1]
    estimate, covariance = np.zeros((len(pairs), p * p)), np.zeros((len(pairs), p * p, p * p))
    for first in range(0, len(pairs), TUNING.screening_pairs):
        part = slice(first, first + TUNING.screening_pairs)
        few = PairRows(rows.there[part], rows.back[part], None if rows.noise is None else rows.noise[part])
        estimate[part], covariance[part] = _some(pairs[part], spectra, few, sizes)
    covariance /= n_samples
    dof = np.asarray(sizes)[pairs].prod(axis=1)
    return estimate, covariance, chdtrc(dof, statistics(estimate, covariance))


def p_values_of(U, V, W, links, noise, pairs, sizes, n_samples, of_noise):
    """The p-values alone, with one thread, from spectra and gradients of the plant."""
    with few_threads(0):
        rows = PairRows.of(pairs, Products(links, noise, None), Partition(sizes), of_noise)
        return tested(pairs, Spectra(U, V, W), rows, sizes, n_samples)[2]


def statistics(estimate, covariance):
    """Wald statistics of blocks."""
    solved = np.linalg.solve(covariance, estimate[..., None])[..., 0]
    return np.einsum("xi,xi->x", estimate, solved)


def _some(pairs, spectra, rows, sizes):
    e = rows.there.shape[1]
    has_noise = rows.noise is not None
    joint = uncoupled_pair_information(pairs, spectra, sizes, with_noise=has_noise, products=_pair_products)
    if not has_noise:
        return _profiled(joint, rows.there, rows.back, slice(0, e), slice(e, 2 * e))
    both = np.concatenate([rows.there, rows.back], axis=1)
    return _profiled(joint, rows.noise, both, slice(2 * e, 3 * e), slice(0, 2 * e))


def _pair_products(left, right, pairs):
    """Products of the columns of pairs of units (m, f, e), shape (n_pairs, e, e)."""
    effect, cause = pairs.T
    (_, n_rows, e), (units, first) = left.shape, np.unique(effect, return_index=True)
    if len(pairs) < 4 * len(units) or (np.diff(effect) < 0).any():
        return np.swapaxes(left[effect], 1, 2) @ right[cause]
    out = np.empty((len(pairs), e, e))  # a row of pairs is one product
    for unit, start, stop in zip(units, first, [*first[1:], len(pairs)], strict=True):
        others = right[cause[start:stop]].transpose(1, 0, 2).reshape(n_rows, -1)
        out[start:stop] = (left[unit].T @ others).reshape(e, stop - start, e).transpose(1, 0, 2)
    return out


def block_rows(matrix, effect, cause, partition):
    """Blocks of a matrix as rows, zero where padded."""
    states = partition.padded
    rows, cols = states[effect][:, :, None], states[cause][:, None, :]
    real = (rows < len(matrix)) & (cols < len(matrix))
    taken = matrix[np.minimum(rows, len(matrix) - 1), np.minimum(cols, len(matrix) - 1)]
    return np.where(real, taken, 0.0).reshape(len(effect), -1)


def given_others(estimate, covariance, states, pairs, known, partition):
    """Estimates and covariances of pairs (effect, cause), given the regressors that the effects' rows have already.

    `states` is the covariance of the smoothed states, `known` by unit those that are regressors of its row: the
    information of a block shrinks with the share of its cause's states that they leave.
    """
    columns = np.where(partition.padded < partition.n_states, partition.padded, NOWHERE)
    return given_others_of(estimate, covariance, states, pairs, known, (columns, columns.shape[1]))


def given_others_of(estimate, covariance, states, pairs, known, blocks):
    """The same for blocks of the `columns` (n_units, q) of every cause and p rows each, ``blocks = columns, p``."""
    (columns, p), (effect, cause) = blocks, pairs.T
    real, rows = columns[cause] < NOWHERE, np.where(columns[cause] < NOWHERE, columns[cause], 0)
    whole = states[rows[:, :, None], rows[:, None, :]] * (real[:, :, None] & real[:, None, :])
    q = columns.shape[1]
    left, sizes = whole + np.eye(q) * ~real[:, :, None], np.array([len(own) for own in known])
    root = np.linalg.cholesky(left)
    for size in np.unique(sizes[effect]):
        of_size = np.flatnonzero(sizes[effect] == size)
        for first in range(0, len(of_size), TUNING.screening_pairs):
            chosen = of_size[first : first + TUNING.screening_pairs]
            units, place = np.unique(effect[chosen], return_inverse=True)
            own = np.array([known[unit] for unit in units])
            inverse = np.linalg.inv(states[own[:, :, None], own[:, None]])[place]
            cross = np.where(real[chosen, :, None], states[rows[chosen][:, :, None], own[place][:, None]], 0.0)
            left[chosen] -= cross @ inverse @ np.swapaxes(cross, 1, 2)
    back = root @ np.linalg.inv(np.linalg.cholesky((left + np.swapaxes(left, 1, 2)) / 2))
    back = np.einsum("ab,xij->xaibj", np.eye(p), back).reshape(len(pairs), p * q, p * q)
    score = np.linalg.solve(covariance, estimate[..., None])
    covariance = np.swapaxes(back, 1, 2) @ covariance @ back
    return (covariance @ score)[..., 0], covariance


# The plant without links: what the units make of it alone, and score tests of all pairs there.

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
            found.append((pushes(task, point, n), core_spectra(point, task, 1)))
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


# Inputs of large plants: on whose states they act beside those of their own unit, tested for all pairs at once.
#
# An input is a regressor like a state, only that nobody has to estimate it: the gradient of a block of B is one product
# of the residuals over their spectrum with the inputs, and its information that of the residuals times the spectrum of
# the inputs, less what the other regressors of the row know of them.

MAX_ADDITIONS = 3  # links per effect and round
_PAIRS = 20_000  # that are looked at together


def acting(driven, partition):
    """Which inputs act on which units, (n_units, n_inputs), of units (effect, cause)."""
    return driven[:, partition.unit_of_input]


def places(partition):
    """Columns of the inputs of every unit among regressors, (n_units, most inputs), `NOWHERE` for fewer."""
    sizes = np.asarray(partition.input_sizes)
    place, starts = np.arange(sizes.max()), np.array([own.start for own in partition.input_slices])
    return np.where(place < sizes[:, None], partition.n_states + starts[:, None] + place, NOWHERE)


def pairs_of(partition):
    """All pairs (effect, cause) of different units of which the second one has inputs."""
    return np.argwhere(~np.eye(partition.n_units, dtype=bool) & (np.asarray(partition.input_sizes) > 0))


def dof_of(pairs, partition):
    """Elements of the blocks of B of pairs."""
    return np.asarray(partition.sizes)[pairs[:, 0]] * np.asarray(partition.input_sizes)[pairs[:, 1]]


def p_values(pairs, estimate, covariance, partition):
    """Chi-squared tail probabilities of blocks of B."""
    return chdtrc(dof_of(pairs, partition), statistics(estimate, covariance))


def tested_inputs(pairs, U, found, known, plant):
    """Estimates and covariances of blocks of B of pairs (effect, cause), by effect, that are not in the plant.

    `U` are inverse spectra of the residuals, `found` the `Products` with inputs, `known` by unit the regressors that
    its row has.
    """
    parts = [tested for _, *tested in _in_parts(pairs, U, found, known, plant)]
    return [np.concatenate(each) for each in zip(*parts, strict=True)]


def _in_parts(pairs, U, found, known, plant):
    """Pairs with their estimates and covariances, some at a time: all of a thousand units are a million."""
    columns = places(plant.partition)
    S = _input_spectra(plant, columns)
    for chosen in chunks(len(pairs), _PAIRS):
        part = pairs[chosen.start : chosen.stop]
        yield part, *_some_inputs(part, U, S, columns, found, known, plant)


def _some_inputs(pairs, U, S, columns, found, known, plant):
    partition, (effect, cause) = plant.partition, pairs.T
    p, q = U.shape[-1], columns.shape[1]
    effects, place = np.unique(effect, return_inverse=True)
    left, right = (np.concatenate([x.real, sign * x.imag], axis=1) for x, sign in ((U[effects], -1), (S, 1)))
    left, right = (np.moveaxis(x, 1, 0).reshape(x.shape[1], -1) for x in (left, right))
    whole = (left.T @ right / U.shape[1]).reshape(len(effects), p, p, len(S), q, q)
    information = np.transpose(whole[place, :, :, cause], (0, 2, 3, 1, 4)).reshape(len(pairs), p * q, p * q)
    rows, cols = partition.padded[effect][:, :, None], columns[cause][:, None, :]
    real = (rows < partition.n_states) & (cols < NOWHERE)
    gradient = found.links[np.minimum(rows, partition.n_states - 1), np.where(cols < NOWHERE, cols, 0)]
    gradient = np.where(real, gradient, 0.0).reshape(len(pairs), p * q)
    at = np.arange(p * q)
    information[:, at, at] += ~real.reshape(len(pairs), p * q)
    covariance = np.linalg.inv(information)
    estimate = np.einsum("xij,xj->xi", covariance, gradient)
    covariance /= plant.n_samples
    return given_others_of(estimate, covariance, found.states, pairs, known, (columns, p))


def work_of_tests(n_pairs, partition, n_frequencies):
    """Operations of so many of these tests, about."""
    e = partition.padded.shape[1] * max(partition.input_sizes)
    return 2 * n_pairs * n_frequencies * e**2


def _input_spectra(plant, columns):
    """Spectra of the inputs of every unit, (n_units, n_frequencies, q, q), zero for those that it has not."""
    lags, partition = range(plant.n_lags + 1), plant.partition
    phase = np.exp(-1j * np.outer(midpoints(plant.n_frequencies), lags[1:]))
    found = np.zeros((len(columns), plant.n_frequencies, *2 * columns.shape[1:]), dtype=complex)
    for m in np.flatnonzero(partition.input_sizes):  # by themselves: those of all pairs of a thousand are gigabytes
        own = np.ascontiguousarray(plant.known[:, partition.input_slices[m]])
        sums = lag_covariances(own, lags, plant.starts) / plant.n_transitions
        q = own.shape[1]
        found[m, :, :q, :q] = fourier_sums(sums, sums, phase)
    return found


def capped(p_value, additions):
    """At most a few additions per effect, the most significant ones."""
    kept = np.zeros_like(additions)
    for m in np.flatnonzero(additions.any(axis=1)):
        found = np.flatnonzero(additions[m])
        kept[m, found[np.argsort(p_value[m, found], kind="stable")[:MAX_ADDITIONS]]] = True
    return kept


def significant_of(p_value, pairs, alpha):
    """Pairs that false discovery control rejects, a matrix."""
    found = np.zeros(p_value.shape, dtype=bool)
    found[tuple(pairs.T)] = benjamini_hochberg(p_value[tuple(pairs.T)], alpha)
    return found


def find_drivers(plant, alpha, parallel=None):
    """Let inputs of units act on others where tests of the units on their own say that they do; their p-values."""
    pairs, partition = pairs_of(plant.partition), plant.partition
    p_value = np.ones(plant.driven.shape)
    for _ in range(TUNING.inputs_rounds if len(pairs) else 0):
        spectra, pushes = units_on_their_own(plant, parallel)
        where = plant.sparse(plant.A), plant.sparse(plant.noise), plant.starts, plant.n_transitions
        found = products(pushes, plant.series, *where, parallel=parallel, known=plant.known, with_states=True)
        known = regressors(np.eye(partition.n_units, dtype=bool), plant.driven, partition)
        outside = pairs[~plant.driven[tuple(pairs.T)]]
        p_value = np.where(plant.driven, 0.0, 1.0)
        for part, estimate, covariance in _in_parts(outside, spectra.U, found, known, plant):
            p_value[tuple(part.T)] = p_values(part, estimate, covariance, partition)
        added = capped(p_value, significant_of(p_value, pairs, alpha) & ~plant.driven)
        if not added.any():
            break
        plant.drive(plant.driven | added, parallel)
    return p_value


def regressors(linked, driven, partition):
    """What the row of every unit has: positions of states of units (effect, cause) and of inputs that act."""
    inputs, n = acting(driven, partition), partition.n_states
    return [
        np.concatenate([np.flatnonzero(causes[partition.unit_of_state]), n + np.flatnonzero(own)])
        for causes, own in zip(linked, inputs, strict=True)
    ]


def are_told_apart(record, cut):
    """Whether the inputs of a record still vary where it is cut."""
    left, whole = (np.square(remove_episode_means(record.u, each.starts)).sum(axis=0) for each in (cut, record))
    return bool((left >= TUNING.inputs_least_variance * whole).all())
