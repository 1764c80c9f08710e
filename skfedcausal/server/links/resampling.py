"""Resampled records and pieces of time: how links scatter, which are found again, which stay."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.special import chdtrc

from ...arguments import check_choice, check_confidence, check_number
from ...statespace.episodes import TransitionMoments, episodes, remove_episode_means
from ...statespace.geweke import geweke_measures
from ...statespace.inputs import input_term
from ...statespace.kalman import simulated_states
from ...statespace.matrices import spectral_radius
from ...statespace.whittle import WhittleLikelihood
from ..estimation.covariance import estimated_links, in_unit_states, unit_state_roots, unit_state_turns
from ..estimation.estimate import fitted_likelihood, search_structure
from ..estimation.evidence import BlockEstimates, corrected, link_estimates
from ..estimation.scoring import Point, Scoring, ascend
from ..estimation.standardised import StandardisedPlant
from .tables import named_pairs, root_intervals, verdicts
from .tuning import TUNING

# Resampled records: how estimates of links scatter, and which links half of a record finds again.

METHODS = ("blocks", "parametric")
_GAIN = 1e-4  # log-likelihood that a refit may leave, whose standard errors are of the order of one


class Resampling:
    """Likelihoods of records drawn anew: blocks are weights of transitions or, in one with gaps, episodes."""

    def __init__(self, plant, point, block_length=None):
        if not plant.determined.all():
            raise ValueError(
                "Resampling and pieces of a record need sensors that determine each unit's states. Give no unit more "
                "states (n_states) than it has sensors, or take covariance='sandwich'."
            )
        self._plant, self._point, self._noise = plant, point, plant.score_noise
        self._series, self._starts, self._n_lags = plant.standard_series()
        if block_length is None:
            block_length = length_of_blocks(spectral_radius(point.A[:, : len(point.Q)]), len(self._series))
        self.blocks_of_rows = cut_into_blocks(self._starts, len(self._series), block_length)
        self.n_blocks = len(self.blocks_of_rows)
        self._centred = None if plant.is_complete else plant.standard_record.centred()
        self.information = plant.standard_record.mean_information()

    def require_blocks(self):
        """Raise an error if there are too few blocks to draw from."""
        check_blocks(self.n_blocks)

    def blocks(self, rng):
        """Of as many blocks as there are, drawn with replacement."""
        counts = np.bincount(rng.integers(self.n_blocks, size=self.n_blocks), minlength=self.n_blocks)
        return self._weighted(counts)

    def halves(self, rng):
        """Of a random half of the blocks, and of the other one."""
        chosen = np.zeros(self.n_blocks)
        chosen[rng.permutation(self.n_blocks)[: self.n_blocks // 2]] = 1.0
        return self._weighted(chosen), self._weighted(1.0 - chosen)

    def of_block(self, number):
        """Of one block alone."""
        return self._weighted(np.arange(self.n_blocks) == number)

    def parametric(self, rng):
        """Of a record simulated from the plant, with the inputs as they were."""
        if self._centred is not None:
            return self._plant.time_domain(self._plant.simulated(self._point, rng))
        A, Q = self._point.A, self._point.Q
        n, series = len(Q), self._series.copy()
        known = input_term(A[:, n:], series[:, n:], self._starts)
        series[:, :n] = simulated_states(A[:, :n], Q, self._starts, len(series), rng, exogenous=known)
        series[:, :n] += rng.normal(size=(len(series), n)) @ np.linalg.cholesky(self._noise).T
        return self._likelihood(remove_episode_means(series, self._starts), np.ones(len(series)))

    def _weighted(self, counts):
        """Likelihood of the blocks, each as many times as `counts` says; the exact one if there are gaps."""
        if self._centred is None:
            return self._likelihood(self._series, np.repeat(counts, [b.stop - b.start for b in self.blocks_of_rows]))
        drawn = [block for block, n in zip(self.blocks_of_rows, counts, strict=True) for _ in range(int(n))]
        rows = np.concatenate([np.arange(block.start, block.stop) for block in drawn])
        starts = (0, *np.cumsum([block.stop - block.start for block in drawn])[:-1].tolist())
        parts = tuple(
            replace(part, z=part.z[rows], index=None if part.is_constant else part.index[rows], const=None)
            for part in self._centred.parts
        )
        record = replace(self._centred, parts=parts, starts=starts)
        return self._plant.time_domain(record, rows=rows, levels=False)

    def _likelihood(self, series, weights):
        moments = TransitionMoments.weighted(series, weights, self._n_lags, self._starts)
        return WhittleLikelihood(moments, self._noise)


def length_of_blocks(radius, n_samples):
    """Rows of a block that holds what a plant remembers, from its spectral radius."""
    forgotten = -1 / np.log(max(float(radius), 1e-6))
    return int(np.ceil(max(TUNING.resampling_memories * forgotten, np.cbrt(n_samples))))


def check_blocks(n_blocks):
    """Raise an error if there are too few blocks to draw from."""
    if n_blocks < TUNING.resampling_least_blocks:
        raise ValueError(
            f"The record has {n_blocks} blocks to draw from, at least {TUNING.resampling_least_blocks} are needed. "
            "Give a smaller block_length, a longer record or more episodes, or take method='parametric'."
        )


def cut_into_blocks(starts, n_samples, length):
    """Rows in blocks that lie within episodes; a rest shorter than half a block joins the one before."""
    if length != "episodes" and (isinstance(length, str) or length < 1):
        raise ValueError(f"Got block_length={length!r}; give a number of rows, at least 1, or 'episodes'.")
    blocks = []
    for start, stop in episodes(starts, n_samples):
        if length == "episodes":
            blocks.append(slice(start, stop))
            continue
        n_blocks = max(round((stop - start) / length), 1)
        edges = np.linspace(start, stop, n_blocks + 1).round().astype(int)
        blocks += [slice(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    return blocks


def repeated(task, n_resamples, random_state, n_jobs):
    """Results of a task for as many random generators, the same for any number of jobs."""
    seeds = np.random.SeedSequence(random_state).spawn(n_resamples)
    return Parallel(n_jobs=n_jobs)(delayed(task)(np.random.default_rng(seed)) for seed in seeds)


def climbed_to_maximum(objective, structure, point):
    """The maximum of another likelihood with the links of a fit, a `Scoring`, and how the climb to it ended."""
    start = Point.at(objective, point.A, point.Q)
    ascent = ascend(objective, Scoring(objective, structure, start), gain_tol=_GAIN)
    return Scoring(objective, structure, ascent.point), ascent


def _refitted(draw, structure, point, J, rng):
    """Estimates of all links of a resampled record, with the links of the fit, and Geweke's measures."""
    scoring, ascent = climbed_to_maximum(draw(rng), structure, point)
    partition, A = structure.partition, ascent.point.A
    kinds = ("state", "input") if partition.n_inputs else ("state",)
    estimates = {kind: link_estimates(scoring, kind).estimate for kind in kinds}
    states = partition.without_inputs
    geweke = geweke_measures(A[:, : partition.n_states], ascent.point.Q, J, states)
    return estimates, geweke, ascent.converged


def check_bootstrap(n_resamples, method, confidence):
    """Refuse what cannot be resampled, or not be told from it."""
    check_choice("method", method, METHODS)
    check_confidence(confidence)
    check_number(n_resamples, "n_resamples", 2)


def bootstrap_table(record, settings, *, n_resamples, method, block_length, confidence, random_state, n_jobs):
    """Links with the scatter of their estimates over resampled records, one row per pair of both kinds."""
    plant, maximum = fitted_likelihood(record, settings)
    scoring = maximum.scoring
    resampling = Resampling(plant, scoring.point, block_length)
    if method == "blocks":
        resampling.require_blocks()
    J, roots, partition = resampling.information, unit_state_roots(plant, scoring.point), plant.partition
    assessed, known = {"state": estimated_links(plant, scoring, settings.covariance)}, settings.known_links
    if known is not None:
        assessed["state"] = known.without_forbidden(assessed["state"], partition)
    if partition.n_inputs:
        of_inputs = link_estimates(scoring, "input")
        assessed["input"] = in_unit_states(of_inputs, partition.input_pairs, roots, causes=False)
    point, n = scoring.point, partition.n_states
    draw = getattr(resampling, method)
    refit = partial(_refitted, draw, scoring.structure, point, J)
    drawn = repeated(refit, n_resamples, random_state, n_jobs)
    measure = geweke_measures(point.A[:, :n], point.Q, J, partition.without_inputs)
    low, high = root_intervals(measure, np.sqrt([result[1] for result in drawn]).std(axis=0), confidence)
    tables = []
    for kind, blocks in assessed.items():
        family, _ = scoring.structure.family(kind)
        if method == "blocks":
            drawn_from = link_estimates(scoring, kind).estimate
        else:
            drawn_from = np.append(point.A.ravel(), 0.0)[family.pair_elements]
        apart = np.array([result[0][kind] for result in drawn]) - drawn_from
        if roots is not None and len(family.pairs):
            turns = unit_state_turns(family, roots, kind == "state")
            apart = np.einsum("xij,rxj->rxi", turns, apart)
        if known is not None and kind == "state":
            apart[:, ~known.masks(partition)["allowed"]] = 0.0
        distance = np.einsum("rxi,xij,rxj->rx", apart, np.linalg.inv(blocks.covariance), apart)
        columns = named_pairs(record.names, family.pairs) | {
            "kind": kind,
            "norm": blocks.strength,
            "stderr": blocks.stderr,
            "bootstrap_stderr": np.einsum("rxi,xi->rx", apart, blocks.direction).std(axis=0),
            "p_value": blocks.p_value,
            "bootstrap_p_value": (1 + (distance >= blocks.statistic).sum(axis=0)) / (1 + n_resamples),
        }
        effect, cause = family.pairs.T
        for name, values in {"geweke": measure, "geweke_low": low, "geweke_high": high}.items():
            columns[name] = values[effect, cause] if kind == "state" else np.nan
        tables.append(pd.DataFrame(columns))
    table = pd.concat(tables, ignore_index=True)
    table.attrs["not_converged"] = sum(not result[2] for result in drawn)
    return table


def _links_of_halves(draw, structure, start, alpha, rng):
    """Links that the search finds in a random half of the blocks and in the other one."""
    found = []
    for objective in draw(rng):
        point = Point.at(objective, *start)
        point = ascend(objective, Scoring(objective, structure, point), gain_tol=0.1).point
        searched = search_structure(objective, structure, point, alpha=alpha).scoring.structure
        found.append(np.concatenate([searched.linked, searched.driven]))
    return found


def stability_table(record, task, *, n_resamples, threshold, random_state, n_jobs):
    """Share of half-records in which each link is found: `task` finds those of two halves with a random generator."""
    found = repeated(task, n_resamples, random_state, n_jobs)
    linked, partition = np.array([half for two in found for half in two]), record.partition
    families = {"state": partition.pairs, "input": partition.input_pairs.pairs}
    kind = np.repeat(list(families), [len(pairs) for pairs in families.values()])
    share, selected = linked.mean(axis=0), float(linked.sum(axis=1).mean())
    columns = named_pairs(record.names, np.concatenate(list(families.values())))
    table = pd.DataFrame(columns | {"kind": kind, "share": share, "stable": share >= threshold})
    bound = selected**2 / ((2 * threshold - 1) * max(len(share), 1))
    table.attrs = {"mean_selected": selected, "expected_false": bound}
    return table


def check_stability(n_resamples, threshold):
    """Refuse shares of halves that bound nothing."""
    if not 0.5 < threshold <= 1:
        raise ValueError(f"Got threshold={threshold}; give a share above 0.5, at most 1.")
    check_number(n_resamples, "n_resamples", 1)


def halves_of(record, alpha, block_length):
    """The task that finds links of two random halves of a record by the search of plants of one lag."""
    plant = StandardisedPlant(record)
    A, Q = plant.uncoupled
    resampling = Resampling(plant, Point(A, Q, None), block_length)
    resampling.require_blocks()
    return partial(_links_of_halves, resampling.halves, plant.structure(), (A, Q), alpha)


# Links in pieces of time: which stay as they are along a record, and between which rows the others hold.

COLUMNS = ("cause", "effect", "start", "stop", "norm", "stderr", "p_value", "verdict", "changes", "p_adjusted")


def estimates_of_pieces(record, settings, piece):
    """Estimates of blocks, one `BlockEstimates` a piece of so many rows, of which pairs, and the pieces' rows.

    In states of unit variance over the whole record, given the links that it has.
    """
    plant, maximum = fitted_likelihood(record, settings)
    point, structure = maximum.scoring.point, maximum.scoring.structure
    resampling, family = Resampling(plant, point, piece), structure.family("state")[0]
    roots, pieces, known = unit_state_roots(plant, point), [], settings.known_links
    for k in range(resampling.n_blocks if resampling.n_blocks > 1 else 0):
        scoring, _ = climbed_to_maximum(resampling.of_block(k), structure, point)
        blocks = in_unit_states(link_estimates(scoring, "state"), family, roots)
        pieces.append(blocks if known is None else known.without_forbidden(blocks, plant.partition))
    return pieces, family.pairs, resampling.blocks_of_rows


def links_over_time(record, estimates, piece, *, alpha, margin):
    """Every link by the pieces of time in which it is one and the same.

    Parameters
    ----------
    record : JointRecord
    estimates : callable
        What :func:`estimates_of_pieces` returns, for pieces of so many rows.
    piece : int or None
        Rows of the pieces that are compared, within which a link does not change.
    alpha, margin : float
        As of the server.

    Returns
    -------
    DataFrame
        With columns `COLUMNS`; ``start`` and ``stop`` are rows.
    """
    n_states = record.partition.n_states
    least = max(TUNING.over_time_least_rows, TUNING.over_time_rows_per_state * n_states)
    if piece is None:
        piece = max(record.n_samples // TUNING.over_time_pieces, TUNING.over_time_fewest_rows)
    else:
        check_number(piece, "piece", 2)
        if piece < least:
            raise ValueError(
                f"Got piece={piece}; links of {n_states} states vary by chance in so few rows. Give at least {least}."
            )
    pieces, pairs, rows_of = estimates(piece)
    if len(pieces) < 2:
        raise ValueError(
            f"A record of {record.n_samples} rows in pieces of {piece} is one piece; give a piece of less than half of "
            "it, or a longer record."
        )
    known = record.known_links
    estimate = np.stack([blocks.estimate for blocks in pieces], axis=1)  # (n_pairs, n_pieces, e)
    precision = np.linalg.inv(np.stack([blocks.covariance for blocks in pieces], axis=1))
    dof = pieces[0].dof
    p_value = chdtrc(dof * (len(pieces) - 1), _misfit(estimate, precision))
    p_adjusted = corrected(p_value, "family-wise")
    edges = [*(rows.start for rows in rows_of), record.n_samples]
    rows = []
    for k, (effect, cause) in enumerate(pairs):
        cuts = [0, len(pieces)]
        if p_adjusted[k] <= alpha:
            cuts = _cuts(estimate[k], precision[k], dof[k] * np.log(record.n_samples))
        for a, b in zip(cuts[:-1], cuts[1:], strict=True):
            block = _pooled(estimate[k, a:b], precision[k, a:b], dof[k])
            told = block.strength[0], block.stderr[0], block.p_value[0]
            of_all = np.minimum(block.p_value * len(pairs) * (len(cuts) - 1), 1.0)  # pairs and its pieces (Bonferroni)
            verdict = verdicts(block, of_all, alpha, margin)[0]
            if known is not None and known.required[effect, cause]:
                verdict = "influence"
            names = record.names[cause], record.names[effect]
            rows.append((*names, edges[a], edges[b], *told, verdict, len(cuts) > 2, p_adjusted[k]))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _pooled(estimate, precision, dof):
    """Estimate of one block from pieces in which it is the same."""
    covariance = np.linalg.inv(precision.sum(axis=0))
    mean = covariance @ np.einsum("kij,kj->i", precision, estimate)
    return BlockEstimates(mean[None], covariance[None], np.array([dof]))


def _misfit(estimate, precision):
    """Squared distances of estimates of pieces (..., n_pieces, e) to their weighted mean, summed."""
    weighted = np.einsum("...kij,...kj->...i", precision, estimate)
    mean = np.linalg.solve(precision.sum(axis=-3), weighted[..., None])[..., 0]
    apart = estimate - mean[..., None, :]
    return np.einsum("...ki,...kij,...kj->...", apart, precision, apart)


def _cuts(estimate, precision, price):
    """Pieces at which a link changes, ends included: least misfit of pieces in a row, with a price for each change."""
    n = len(estimate)
    best, before = np.zeros(n + 1), np.zeros(n + 1, dtype=int)
    for stop in range(1, n + 1):
        costs = [best[a] + price + _misfit(estimate[a:stop], precision[a:stop]) for a in range(stop)]
        before[stop] = int(np.argmin(costs))
        best[stop] = costs[before[stop]]
    cuts = [n]
    while cuts[-1]:
        cuts.append(int(before[cuts[-1]]))
    return cuts[::-1]
