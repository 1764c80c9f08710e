"""Inputs of large plants: on whose states they act beside those of their own unit, tested for all pairs at once.

An input is a regressor like a state, only that nobody has to estimate it: the gradient of a block of B is one product
of the residuals over their spectrum with the inputs, and its information that of the residuals times the spectrum of
the inputs, less what the other regressors of the row know of them.
"""

import numpy as np
from scipy.special import chdtrc

from ...parallel import chunks
from ...statespace.episodes import fourier_sums, lag_covariances, remove_episode_means
from ...statespace.whittle import midpoints
from ..estimation.evidence import benjamini_hochberg
from .alone import units_on_their_own
from .screening import NOWHERE, given_others_of, products, statistics
from .tuning import TUNING

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
        yield part, *_some(part, U, S, columns, found, known, plant)


def _some(pairs, U, S, columns, found, known, plant):
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
