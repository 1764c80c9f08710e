"""What a large plant says of its links and inputs: how they act, how well that is known, what comes near to a link."""

import numpy as np
import pandas as pd
from scipy.sparse.linalg import spsolve
from scipy.special import chdtrc

from ...statespace.inputs import BlockCovariance
from ...statespace.matrices import positions_of
from ..estimation.estimate import Coefficients
from ..estimation.evidence import BlockEstimates, corrected, shrink
from ..links.tables import COLUMNS, UNDIRECTED, named_pairs, verdicts
from .blocks import stretches
from .learning import ALL_PAIRS
from .screening import NOWHERE, dof_of, pairs_of, places

# Tables of the links of a large plant: the links, and the pairs that come near to one.

NEAR = 1e-3  # p-value up to which a pair without a link has a row in the table of a plant of many units
INCLUDED = 1e-3  # posterior probability from which on a pair without a link has a block in the shrunk plant


def adjusted_p_values(p_value, correction):
    """p-values (n_units, n_units) adjusted over all ordered pairs, one on the diagonal."""
    others, whole = ~np.eye(len(p_value), dtype=bool), np.ones_like(p_value)
    whole[others] = corrected(p_value[others], correction)
    return whole


def reported_pairs(linked, p_value):
    """Pairs (effect, cause) that a table has rows for, by effect: all, of many units those near a link."""
    shown = linked | (p_value <= NEAR) if len(linked) > ALL_PAIRS else np.ones_like(linked)
    return np.argwhere(shown & ~np.eye(len(linked), dtype=bool))


def chosen_blocks(pairs, known, partition):
    """Estimates of chosen pairs of those that are known, `BlockEstimates`."""
    real = (partition.padded < partition.n_states)[pairs]  # of effects and causes, (n_pairs, 2, p)
    padded = ~(real[:, 0, :, None] & real[:, 1, None, :]).reshape(len(pairs), real.shape[2] ** 2)
    dof = np.asarray(partition.sizes)[pairs].prod(axis=1)
    estimate, covariance = known
    return BlockEstimates.masked(estimate.copy(), covariance.copy(), padded, dof)


def in_order(pairs, tests, n_units):
    """Estimates and covariances of chosen pairs among the tests."""
    place = np.full((n_units, n_units), -1)
    place[tests.pairs[:, 0], tests.pairs[:, 1]] = np.arange(len(tests.pairs))
    at = place[pairs[:, 0], pairs[:, 1]]
    return tests.estimate[at], tests.covariance[at]


def large_links_table(names, pairs, blocks, adjusted, geweke, alpha, margin):
    """The table of links of some pairs, `adjusted` their p-values over all pairs and `geweke` their measures."""
    delay = np.where(adjusted <= alpha, 1.0, np.nan)
    columns = {
        "kind": "state",
        "norm": blocks.strength,
        "stderr": blocks.stderr,
        "statistic": blocks.statistic,
        "p_value": blocks.p_value,
        "p_adjusted": adjusted,
        "geweke": geweke,
        "verdict": verdicts(blocks, adjusted, alpha, margin),
        "because": "",
        "delay": delay,
        "delay_low": delay,
        "delay_high": delay,
    }
    return pd.DataFrame(named_pairs(names, pairs) | columns)[list(COLUMNS)]


def measures(estimate):
    """Geweke's measures of the pairs within blocks, (n_units, n_units), NaN for others."""
    found = np.full(estimate.linked.shape, np.nan)
    for members, fit, measured in zip(estimate.members, estimate.fits, estimate.measured(), strict=True):
        at = np.asarray(members)[fit.pairs]
        found[at[:, 0], at[:, 1]] = measured.geweke
    return found


def later_lags(estimate):
    """P-values of later lags of units and of inputs, (n_units, 2 n_units), NaN for the untested; None without any."""
    n_units = len(estimate.linked)
    found = np.full((n_units, 2 * n_units), np.nan)
    for members, measured in zip(estimate.members, estimate.measured(), strict=True):
        if measured.misfit is None:
            continue
        units, k = np.asarray(members), measured.misfit.shape[1]
        columns = np.concatenate([units, n_units + units])[:k]
        found[np.ix_(units[: len(measured.misfit)], columns)] = measured.misfit
    return None if np.isnan(found).all() else found


def shrunk_blocks(estimate):
    """Pairs (effect, cause) and their posterior means under the prior of all pairs; none if there is no link."""
    tests, partition = estimate.tests, estimate.plant.partition
    if not estimate.linked.any():
        return np.zeros((0, 2), dtype=int), np.zeros((0, tests.estimate.shape[1]))
    blocks = chosen_blocks(tests.pairs, (tests.estimate, tests.covariance), partition)
    n_units = partition.n_units
    found = shrink(blocks, n_empty=n_units * (n_units - 1) - len(tests.pairs))
    kept = estimate.linked[tuple(tests.pairs.T)] | (found.inclusion >= INCLUDED)
    return tests.pairs[kept], found.posterior_mean[kept]


def correlations(names, estimate):
    """Pairs of units whose process noise is correlated, the most correlated ones first."""
    slices, rows = estimate.plant.partition.slices, []
    for a, b in np.argwhere(np.tril(estimate.correlated)):
        own, other = slices[a], slices[b]
        left, right = (np.linalg.cholesky(estimate.Q[x][:, x].toarray()) for x in (own, other))
        cross = np.linalg.solve(left, np.linalg.solve(right, estimate.Q[other][:, own].toarray()).T)
        tests = estimate.noise_tests
        found = tests.get((int(a), int(b)), tests.get((int(b), int(a)), (np.nan, np.nan)))
        rows.append((names[b], names[a], float(np.linalg.svd(cross, compute_uv=False)[0]), *found))
    table = pd.DataFrame(rows, columns=["first", "second", "correlation", "statistic", "p_value"])
    table = table.assign(**UNDIRECTED)
    return table.sort_values("correlation", ascending=False, ignore_index=True)


def level_shift_table(record, plant, steps, changes):
    """Shifts of units' levels at the steps, tested against the spectrum of their states at frequency zero."""
    rows = []
    for step, moved, around in zip(steps, changes, stretches(record, steps), strict=True):
        for m, (name, change) in enumerate(zip(record.names, moved, strict=True)):
            still = np.linalg.inv(np.eye(len(change)) - plant.A[m])
            few = sum(1 / (part.stop - part.start) for part in around)
            spread = (still @ plant.Q[m] @ still.T + plant.noise[m]) * few
            statistic = float(change @ np.linalg.solve(spread, change))
            p = float(chdtrc(len(change), statistic))
            push = (np.eye(len(change)) - plant.A[m]) @ change
            size = float(np.sqrt(push @ np.linalg.solve(plant.Q[m], push)))
            rows.append((name, step, size, statistic, p))
    return pd.DataFrame(rows, columns=["unit", "start", "size", "statistic", "p_value"])


# What a large plant says of its inputs: their links, how they act, and how well that is known.


def coefficients(estimate, A):
    """`Coefficients` of a plant with the standardised transition matrix A, covariances core by core.

    Rows of different cores are taken to be independent: what joins them is what units do not know of each other's
    states, through the noise of their sensors.
    """
    plant, partition = estimate.plant, estimate.plant.partition
    n, rows, cols, blocks = partition.n_states, [], [], []
    for core, members, fit in zip(estimate.cores, estimate.members, estimate.fits, strict=True):
        found = fit.elements
        states, inputs = (positions_of(members, slices) for slices in (partition.slices, partition.input_slices))
        columns = np.concatenate([states, n + inputs])
        rows.append(positions_of(core, partition.slices)[found.rows])
        cols.append(columns[found.cols])
        blocks.append(found.covariance)
    series = np.hstack([plant.series, plant.known])
    regressors = series.T @ series / len(series)  # less the noise of so many scores it need not be positive
    return Coefficients(
        np.hstack([A.toarray(), estimate.B]), np.concatenate(rows), np.concatenate(cols), BlockCovariance(blocks),
        plant.dense(plant.scale), plant.known_scale, regressors,
    )  # fmt: skip


def without_inputs(changes, estimate, record, steps):
    """Changes of levels at steps less what the inputs' own changes of level lead to."""
    if not steps:
        return changes
    plant, u, A = estimate.plant, record.u / estimate.plant.known_scale, estimate.A.tocsc()
    still, found = plant.sparse([np.eye(len(own)) for own in plant.A]).tocsc() - A, []
    still.indices, still.indptr = still.indices.astype(np.intc), still.indptr.astype(np.intc)  # as SuperLU has them
    for (before, after), units in zip(stretches(record, steps), changes, strict=True):
        level = spsolve(still, estimate.B @ (u[after].mean(axis=0) - u[before].mean(axis=0)))
        found.append([change - level[own] for change, own in zip(units, plant.partition.slices, strict=True)])
    return found


def input_links_table(names, estimate, correction, alpha, margin):
    """The table of inputs that act on units of others; of many units those that come near to it."""
    pairs, p_value = estimate.input_tests.pairs, estimate.input_tests.p_value
    every, adjusted = tuple(pairs_of(estimate.plant.partition).T), np.ones_like(estimate.input_p_value)
    adjusted[every] = corrected(estimate.input_p_value[every], correction)
    adjusted = adjusted[tuple(pairs.T)]
    shown = np.ones(len(pairs), dtype=bool)
    if len(names) > ALL_PAIRS:
        shown = estimate.driven[tuple(pairs.T)] | (p_value <= NEAR)
    chosen = np.flatnonzero(shown)
    chosen = chosen[np.lexsort((pairs[chosen, 1], pairs[chosen, 0]))]
    blocks = _blocks(estimate, chosen)
    nothing = np.full(len(chosen), np.nan)
    table = large_links_table(names, pairs[chosen], blocks, adjusted[chosen], nothing, alpha, margin)
    return table.assign(kind="input")


def _blocks(estimate, chosen):
    """`BlockEstimates` of chosen pairs of the tests of inputs."""
    tests, partition = estimate.input_tests, estimate.plant.partition
    pairs, columns = tests.pairs[chosen], places(partition)
    real = (partition.padded[pairs[:, 0]] < partition.n_states)[:, :, None] & (columns[pairs[:, 1]] < NOWHERE)[:, None]
    known = tests.estimate[chosen], tests.covariance[chosen]  # copies
    return BlockEstimates.masked(*known, ~real.reshape(len(pairs), -1), dof_of(pairs, partition))


def shrunk_inputs(estimate):
    """B with the posterior means of the blocks by which inputs act on units of others, standardised."""
    tests, partition, B = estimate.input_tests, estimate.plant.partition, estimate.B.copy()
    others = estimate.driven & ~np.eye(len(estimate.driven), dtype=bool)
    if tests is None or not others.any():
        return B
    n_tested = len(tests.pairs)
    found = shrink(_blocks(estimate, np.arange(n_tested)), n_empty=len(pairs_of(partition)) - n_tested)
    n, columns = partition.n_states, places(partition)
    kept = others[tuple(tests.pairs.T)] | (found.inclusion >= INCLUDED)
    for (effect, cause), mean in zip(tests.pairs[kept], found.posterior_mean[kept], strict=True):
        rows, cols = partition.padded[effect], columns[cause]
        block = mean.reshape(len(rows), len(cols))[np.ix_(rows < n, cols < NOWHERE)]
        B[np.ix_(rows[rows < n], cols[cols < NOWHERE] - n)] = block
    return B
