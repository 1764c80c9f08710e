"""Links of a plant of several lags: tables with their delays, and how they scatter over resampled records."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from ...statespace.episodes import remove_episode_means
from ...statespace.inputs import input_term
from ...statespace.kalman import simulated_states
from ...statespace.lagged.likelihood import LaggedLikelihood, LagSums, averaged_periodogram
from ...statespace.matrices import spectral_radius
from ..dynamics import Plant
from ..estimation.scoring import Budget
from ..estimation.standardised import StandardisedPlant
from ..links.engines import Engine
from ..links.resampling import check_blocks, cut_into_blocks, length_of_blocks, repeated
from ..links.tables import COLUMNS, named_pairs, root_intervals, tests_table
from .misfit import filled_record
from .problem import Fitted, LaggedProblem, Sources, climb, search, tested
from .stage import MEMORY, posterior_of, settled_scores, started
from .tuning import TUNING

# Resampled records of a plant of several lags: how estimates of its links scatter, and which halves find again.
#
# Rows are drawn in blocks, each of which is an episode: the likelihood leaves out its first rows, as many as there are
# lags. Inputs are drawn with the states of their rows.


@dataclass
class Redrawn:
    """Records drawn anew from one whose plant of several lags is known, in states and inputs of unit variance."""

    plant: StandardisedPlant
    learned: Plant  # (p, n, n) and (q + 1, n, k), the same plant in these
    active: np.ndarray  # (n_units, n_sources), what acts on each unit
    known: Any  # a `LinkKnowledge`, or None
    block_length: Any = None

    def __post_init__(self):
        series, self.starts, _ = settled_scores(self.plant)
        partition = self.plant.partition
        self.series = series[:, : partition.n_states + partition.n_inputs]
        if self.block_length is None:
            self.block_length = length_of_blocks(spectral_radius(self.learned.transition), len(self.series))
        self.blocks_of_rows = cut_into_blocks(self.starts, len(self.series), self.block_length)

    @classmethod
    def of(cls, server, record, active, block_length=None):
        """From a fitted server, the record of its fit, and what acts by `SeveralLags`."""
        if not record.is_constant:
            record = filled_record(record, server.plant_.hindsight(record))
        plant, learned = StandardisedPlant(record), server.plant_
        _ = plant.uncoupled  # which says how many lags its series need
        scale, back = plant.state_scale, np.linalg.inv(plant.state_scale)
        known_scale = plant.known_scale[: record.partition.n_inputs]
        standard = Plant(back @ learned.A @ scale, back @ learned.B * known_scale, back @ learned.Q @ back.T)
        return cls(plant, standard, active, record.known_links, block_length)

    # -- records -----------------------------------------------------------------------------------------

    def whole(self):
        """The record as it is."""
        return self.series, self.starts

    def blocks(self, rng):
        """As many blocks as there are, drawn with replacement."""
        return self._of_blocks(rng.integers(len(self.blocks_of_rows), size=len(self.blocks_of_rows)))

    def halves(self, rng):
        """A random half of the blocks, and the other one."""
        order, half = rng.permutation(len(self.blocks_of_rows)), len(self.blocks_of_rows) // 2
        return self._of_blocks(np.sort(order[:half])), self._of_blocks(np.sort(order[half:]))

    def parametric(self, rng):
        """A record simulated from the plant, with the inputs as they were."""
        plant, series, n = self.learned, self.series.copy(), self.learned.n_states
        drive = plant.padded_rows(np.hstack(list(plant.driven_by)))
        known = input_term(drive, plant.stacked(series[:, n:], self.starts), self.starts)
        about = plant.transition, plant.process_cov, self.starts, len(series), rng
        states = simulated_states(*about, exogenous=known)[:, :n]
        noise = rng.normal(size=(len(series), n)) @ np.linalg.cholesky(self.plant.score_noise).T
        series[:, :n] = remove_episode_means(states + noise, self.starts)
        return series, self.starts

    def _of_blocks(self, numbers):
        drawn = [self.blocks_of_rows[number] for number in numbers]
        starts = (0, *np.cumsum([block.stop - block.start for block in drawn])[:-1].tolist())
        return np.concatenate([self.series[block] for block in drawn]), starts

    # -- plants of them ----------------------------------------------------------------------------------

    def problem(self, series, starts):
        """What a plant of the same lags is learned from."""
        plant, partition = self.learned, self.plant.partition
        first = 0 if plant.acts_at_once else 1
        state_lags, input_lags = np.arange(1, plant.n_lags + 1), np.arange(first, len(plant.B))
        longest = max(plant.n_lags, len(plant.B) - 1)
        sums = LagSums.of(series, starts, longest, MEMORY + longest)
        likelihood = LaggedLikelihood(sums, self.plant.score_noise)
        about = partition, state_lags, [input_lags] * partition.n_inputs, Budget(np.inf), self.known, plant.Q
        return LaggedProblem(likelihood, averaged_periodogram(series, starts), *about)

    def start(self, problem):
        """The plant of the whole record, to climb from."""
        plant, n = self.learned, self.learned.n_states
        coefficients = np.zeros((problem.likelihood.n_lags + 1, n, problem.likelihood.c))
        coefficients[1 : plant.n_lags + 1, :, :n] = plant.A
        coefficients[: len(plant.B), :, n:] = plant.B
        return Fitted(coefficients, plant.Q.copy())

    def refitted(self, series, starts):
        """Posterior means and covariances of all channels by (unit, source), measures, whether it converged."""
        problem = self.problem(series, starts)
        sources = Sources(problem)
        fitted = climb(problem, self.start(problem), sources.masks(self.active), n_steps=TUNING.resampling_steps)
        found = tested(problem, fitted, sources, self.active)
        means = {
            (unit, source): posterior_of(fitted, self.active, unit, source, score)[:2]
            for (unit, source), score in found.scores.items()
        }
        n, A = self.learned.n_states, fitted.coefficients[1 : self.learned.n_lags + 1]
        plant = Plant(A[:, :, :n], np.zeros((2, n, 0)), fitted.Q)
        J = self.plant.standard_record.mean_information()
        geweke = plant.geweke(J, self.plant.partition) if plant.is_small else np.full((sources.n_units,) * 2, np.nan)
        return means, geweke, fitted.converged


def bootstrap_table(server, redrawn, columns, *, n_resamples, method, confidence, random_state, n_jobs):
    """Links with the scatter of their estimates over resampled records, one row per pair of both kinds.

    `columns` are those of the table of links by kind, with their p-values.
    """
    if method == "blocks":
        check_blocks(len(redrawn.blocks_of_rows))
    means, measure, _ = redrawn.refitted(*redrawn.whole())
    draw = getattr(redrawn, method)
    drawn = repeated(partial(_refitted, redrawn, draw), n_resamples, random_state, n_jobs)
    low, high = root_intervals(measure, np.sqrt([result[1] for result in drawn]).std(axis=0), confidence)
    partition, tables = redrawn.plant.partition, []
    for kind, found in columns.items():
        pairs = (partition if kind == "state" else partition.input_pairs).pairs
        rows = [_scatter(means, drawn, key) for key in _channels(partition, pairs, kind)]
        norm, stderr, scatter, p_value = np.array(rows).reshape(len(pairs), 4).T
        table = named_pairs(server.names_, pairs) | {
            "kind": kind,
            "norm": norm,
            "stderr": stderr,
            "bootstrap_stderr": scatter,
            "p_value": found["p_value"],
            "bootstrap_p_value": p_value,
        }
        for name, values in {"geweke": measure, "geweke_low": low, "geweke_high": high}.items():
            table[name] = values[tuple(pairs.T)] if kind == "state" else np.nan
        tables.append(pd.DataFrame(table))
    table = pd.concat(tables, ignore_index=True)
    table.attrs["not_converged"] = sum(not result[2] for result in drawn)
    return table


def _refitted(redrawn, draw, rng):
    return redrawn.refitted(*draw(rng))


def _channels(partition, pairs, kind):
    """Units and sources (unit, source) of pairs (effect, cause); units with inputs are sources behind the units."""
    if kind == "state":
        return [tuple(pair) for pair in pairs.tolist()]
    with_inputs = [k for k, size in enumerate(partition.input_sizes) if size]
    return [(effect, partition.n_units + with_inputs.index(cause)) for effect, cause in pairs.tolist()]


def _scatter(means, drawn, key):
    """Norm and standard error of a channel, its scatter over resamples, and how often these are as far from it."""
    if key not in means:  # a link that there cannot be
        return 0.0, 0.0, 0.0, 1.0
    mean, V = means[key]
    size, precision = float(np.linalg.norm(mean)), np.linalg.pinv(V, hermitian=True)
    direction = mean / max(size, np.finfo(float).tiny)
    apart = np.array([found[key][0] - mean for found, *_ in drawn])
    farther = np.einsum("ri,ij,rj->r", apart, precision, apart) >= mean @ precision @ mean
    stderr = float(np.sqrt(max(direction @ V @ direction, 0.0)))
    return size, stderr, float((apart @ direction).std()), (1 + np.count_nonzero(farther)) / (1 + len(drawn))


def links_of_halves(redrawn, alpha, rng):
    """What the search finds in a random half of the blocks and in the other one: pairs of states, then of inputs."""
    partition, found = redrawn.plant.partition, []
    for series, starts in redrawn.halves(rng):
        problem = redrawn.problem(series, starts)
        start = redrawn.start(problem)
        sources = Sources(problem)
        _, active, _ = search(problem, started(problem, start.coefficients[1], start.Q), sources, alpha)
        keys = _channels(partition, partition.pairs, "state")
        keys += _channels(partition, partition.input_pairs.pairs, "input") if partition.n_inputs else []
        found.append(np.array([active[key] for key in keys], dtype=bool))
    return found


# Tables of plants of several lags: links with their delays, and tests of them.


def _verdicts(blocks, p_adjusted, alpha, margin):
    """ "influence", "no influence" where the strength is hardly above the margin, or "cannot tell"."""
    mean = blocks.squares + blocks.mean
    spread = np.sqrt(blocks.spread + 4 * blocks.squares * blocks.along)
    below = mean + norm.isf(alpha) * spread < margin**2
    verdict = np.where(below, "no influence", "cannot tell").astype(object)
    verdict[np.asarray(p_adjusted) <= alpha] = "influence"
    return verdict


@dataclass(frozen=True)
class SeveralLags(Engine):
    """Of a plant of several lags: `pairs` and `blocks` of states, and tests over all lags at once."""

    columns: dict  # of the table of links, by kind of cause: "statistic" is twice the log evidence
    by_kind: dict  # blocks of each kind
    active: np.ndarray  # (n_units, n_sources), what acts on each unit

    methods = ("score",)  # kernels of several decays have no degrees of freedom
    why_methods = (
        "the plant has several lags (see `misfit_`), over all of which links are tested by their score at once"
    )

    @classmethod
    def of(cls, partition, lagged):
        """From a `LaggedEstimate`."""
        return cls(partition.pairs, lagged.blocks["state"], lagged.links, lagged.blocks, lagged.active)

    def table(self, server):
        """The table of links by the posterior: all pairs of units, then inputs; measures of small plants alone."""
        partition, tables = server.partition_, []
        geweke = server.plant_.geweke(server.information_, partition) if server.plant_.is_small else None
        for kind, found in self.columns.items():
            pairs, blocks = (partition if kind == "state" else partition.input_pairs).pairs, self.by_kind[kind]
            columns = named_pairs(server.names_, pairs) | found
            columns |= {"kind": kind, "norm": blocks.strength, "stderr": blocks.stderr, "because": ""}
            columns["geweke"] = geweke[tuple(pairs.T)] if geweke is not None and kind == "state" else np.nan
            columns["verdict"] = _verdicts(blocks, found["p_adjusted"], server.alpha, server.margin)
            tables.append(pd.DataFrame(columns, columns=list(COLUMNS)))
        return pd.concat([table for table in tables if len(table)] or tables, ignore_index=True)

    def tests(self, server, record, settings, method):
        """The table of tests of all pairs by their scores."""
        found = self.columns["state"]
        tested = found["statistic"], np.nan, found["p_value"]
        return tests_table(server.names_, self.pairs, self.active[tuple(self.pairs.T)], *tested)

    def bootstrap(self, server, record, settings, **how):
        """The table of links with the scatter of their estimates over resampled records."""
        # for those who ask

        redrawn = Redrawn.of(server, record, self.active, how.pop("block_length"))
        return bootstrap_table(server, redrawn, self.columns, **how)

    def halves(self, server, record, block_length):
        """A task that finds the links of two random halves of a record."""
        # for those who ask

        redrawn = Redrawn.of(server, record, self.active, block_length)
        check_blocks(len(redrawn.blocks_of_rows))
        return partial(links_of_halves, redrawn, server.alpha)
