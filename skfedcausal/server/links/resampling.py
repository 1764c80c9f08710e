"""Resampled records: how estimates of links scatter, and which links half of a record finds again."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from ...arguments import check_choice, check_confidence, check_number
from ...statespace.episodes import TransitionMoments, episodes, remove_episode_means
from ...statespace.geweke import geweke_measures
from ...statespace.inputs import input_term
from ...statespace.matrices import spectral_radius
from ...statespace.simulation import simulated_states
from ...statespace.whittle import WhittleLikelihood
from ..estimation.block_tests import link_estimates
from ..estimation.covariance import estimated_links, in_unit_states, unit_state_roots, unit_state_turns
from ..estimation.estimate import fitted_likelihood
from ..estimation.scoring import Point, Scoring, ascend
from ..estimation.search import search_structure
from ..estimation.standardised import StandardisedPlant
from .intervals import root_intervals
from .tables import named_pairs
from .tuning import TUNING

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
