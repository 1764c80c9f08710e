"""Resampled records: how estimates of links scatter, and which links half of a record finds again."""

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy import stats

from ...statespace.episodes import TransitionMoments, episodes, remove_episode_means
from ...statespace.geweke import geweke_measures
from ...statespace.inputs import input_term
from ...statespace.matrices import spectral_radius
from ...statespace.simulation import simulated_states
from ...statespace.whittle import WhittleLikelihood
from ..estimation.blocktests import input_estimates, link_estimates
from ..estimation.scoring import Point, Scoring, ascend
from ..estimation.search import search_structure
from ..estimation.unit_states import unit_state_turns
from .resampled_gaps import GappyRecord

METHODS = ("blocks", "parametric")
_MEMORIES = 4  # times in which slow states forget by a factor of e, in a block
_LEAST_BLOCKS = 10
NO_MEASURE = 1e-12  # up to which Geweke's measure is the rounding of a zero
_GAIN = 1e-4  # log-likelihood that a refit may leave, whose standard errors are of the order of one


class Resampling:
    """Likelihoods of records drawn anew.

    Blocks of a complete record are transitions with weights; those of a record with gaps are episodes, see
    :class:`GappyRecord`.
    """

    def __init__(self, plant, point, block_length=None):
        if not plant.has_scores:
            raise ValueError(
                "Records can be resampled if the sensors of every unit determine its states; here those of "
                "some unit do not. Take covariance='sandwich' to check standard errors."
            )
        self._point, self._noise = point, plant.score_noise
        self._series, self._starts, self._n_lags = plant.standard_series()
        if block_length is None:
            radius = float(spectral_radius(point.A[:, : len(point.Q)]))
            forgotten = -1 / np.log(max(radius, 1e-6))
            block_length = int(np.ceil(max(_MEMORIES * forgotten, np.cbrt(len(self._series)))))
        self._blocks = _blocks(self._starts, len(self._series), block_length)
        self.n_blocks = len(self._blocks)
        self._gappy = None if plant.is_complete else GappyRecord(plant, point, self._blocks)
        self.information = plant.average_information

    def require_blocks(self):
        """Raise an error if there are too few blocks to draw from."""
        if self.n_blocks < _LEAST_BLOCKS:
            raise ValueError(
                f"The record has {self.n_blocks} blocks to draw from, at least {_LEAST_BLOCKS} are needed. "
                "Give a smaller block_length, a longer record or more episodes, or take method='parametric'."
            )

    def blocks(self, rng):
        """Of as many blocks as there are, drawn with replacement."""
        counts = np.bincount(rng.integers(self.n_blocks, size=self.n_blocks), minlength=self.n_blocks)
        return self._weighted(counts)

    def halves(self, rng):
        """Of a random half of the blocks, and of the other one."""
        chosen = np.zeros(self.n_blocks)
        chosen[rng.permutation(self.n_blocks)[: self.n_blocks // 2]] = 1.0
        return self._weighted(chosen), self._weighted(1.0 - chosen)

    def parametric(self, rng):
        """Of a record simulated from the plant, with the inputs as they were."""
        if self._gappy is not None:
            return self._gappy.simulated(rng)
        A, Q = self._point.A, self._point.Q
        n = len(Q)
        simulated = self._series.copy()
        T, known = len(simulated), input_term(A[:, n:], simulated[:, n:], self._starts)
        simulated[:, :n] = simulated_states(A[:, :n], Q, self._starts, T, rng, exogenous=known)
        simulated[:, :n] += rng.normal(size=(T, n)) @ np.linalg.cholesky(self._noise).T
        simulated = remove_episode_means(simulated, self._starts)
        return self._likelihood(simulated, np.ones(len(simulated)))

    def _weighted(self, counts):
        if self._gappy is not None:
            return self._gappy.weighted(counts)
        weights = np.zeros(len(self._series))
        for count, rows in zip(counts, self._blocks, strict=True):
            weights[rows] = count
        return self._likelihood(self._series, weights)

    def _likelihood(self, series, weights):
        moments = TransitionMoments.weighted(series, weights, self._n_lags, self._starts)
        return WhittleLikelihood(moments, self._noise)


def _blocks(starts, n_samples, length):
    """Rows in blocks that lie within episodes; a rest shorter than half a block joins the one before."""
    blocks = []
    for start, stop in episodes(starts, n_samples):
        if length == "episodes":
            blocks.append(slice(start, stop))
            continue
        n_blocks = max(round((stop - start) / length), 1)
        edges = np.linspace(start, stop, n_blocks + 1).round().astype(int)
        blocks += [slice(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    return blocks


def _run(task, n_resamples, random_state, n_jobs):
    """Results of a task for as many random generators, the same for any number of jobs."""
    seeds = np.random.SeedSequence(random_state).spawn(n_resamples)
    return Parallel(n_jobs=n_jobs)(delayed(task)(np.random.default_rng(seed)) for seed in seeds)


class _Refit:
    """Estimates of all links of a resampled record, with the links of the fit."""

    def __init__(self, resampling, scoring, method, J):
        self._resampling, self._method, self._J = resampling, method, J
        self._structure, self._point = scoring.structure, scoring.point

    def __call__(self, rng):
        objective = getattr(self._resampling, self._method)(rng)
        start = Point.at(objective, self._point.A, self._point.Q)
        ascent = ascend(objective, Scoring(objective, self._structure, start), gain_tol=_GAIN)
        scoring = Scoring(objective, self._structure, ascent.point)
        partition, A = self._structure.partition, ascent.point.A
        estimates = [link_estimates(scoring).estimate]
        if partition.n_inputs:
            estimates.append(input_estimates(scoring).estimate)
        states = partition.without_inputs
        geweke = geweke_measures(A[:, : partition.n_states], ascent.point.Q, self._J, states)
        return estimates, geweke, ascent.converged


def bootstrap_table(
    names, resampling, scoring, families, roots=None, *, method, n_resamples, random_state, n_jobs, level
):
    """Links with the scatter of their estimates over resampled records."""
    J = resampling.information
    refit = _Refit(resampling, scoring, method, J)
    drawn = _run(refit, n_resamples, random_state, n_jobs)
    partition, n = scoring.structure.partition, len(scoring.point.Q)
    measure = geweke_measures(scoring.point.A[:, :n], scoring.point.Q, J, partition.without_inputs)
    low, high = root_intervals(measure, np.sqrt([result[1] for result in drawn]).std(axis=0), level)
    tables = []
    for number, (kind, family, blocks) in enumerate(families):
        effect, cause = family.pairs.T
        apart = np.array([result[0][number] for result in drawn]) - _drawn_from(scoring, family, kind, method)
        if roots is not None and len(family.pairs):
            turns = unit_state_turns(family, roots, kind == "state")
            apart = np.einsum("xij,rxj->rxi", turns, apart)
        precision = np.linalg.inv(blocks.covariance)
        distance = np.einsum("rxi,xij,rxj->rx", apart, precision, apart)
        exceeding = (distance >= blocks.statistic).sum(axis=0)
        columns = {
            "cause": np.asarray(names, dtype=object)[cause],
            "effect": np.asarray(names, dtype=object)[effect],
            "kind": kind,
            "strength": blocks.strength,
            "stderr": blocks.stderr,
            "bootstrap_stderr": np.einsum("rxi,xi->rx", apart, blocks.direction).std(axis=0),
            "p_value": blocks.p_value,
            "bootstrap_p_value": (1 + exceeding) / (1 + n_resamples),
        }
        found = {"geweke": measure, "geweke_low": low, "geweke_high": high}
        unknown = np.full(len(cause), np.nan)
        columns |= {k: v[effect, cause] if kind == "state" else unknown for k, v in found.items()}
        tables.append(pd.DataFrame(columns))
    table = pd.concat(tables, ignore_index=True)
    table.attrs["not_converged"] = sum(not result[2] for result in drawn)
    return table


def _drawn_from(scoring, family, kind, method):
    """Blocks of the plant that resampled records come from."""
    if method == "blocks":
        return (link_estimates if kind == "state" else input_estimates)(scoring).estimate
    return np.append(scoring.point.A.ravel(), 0.0)[family.pair_elements]


def root_intervals(measure, stderr_of_root, level):
    """Intervals of non-negative measures that are normal on the scale of their square roots.

    A measure of influence grows with the square of what causes it; its root is what the delta method is good
    for. NaN where the measure is zero because the plant has no way from cause to effect.
    """
    reach = stats.norm.ppf((1 + level) / 2) * stderr_of_root
    root = np.sqrt(measure)
    low, high = np.maximum(root - reach, 0.0) ** 2, (root + reach) ** 2
    return np.where(measure > NO_MEASURE, low, np.nan), np.where(measure > NO_MEASURE, high, np.nan)


class _Halves:
    """Links that the search finds in a random half of the blocks and in the other one."""

    def __init__(self, resampling, plant, alpha):
        self._resampling, self._alpha = resampling, alpha
        self._structure, self._start = plant.structure(), plant.uncoupled

    def __call__(self, rng):
        found = []
        for objective in self._resampling.halves(rng):
            point = Point.at(objective, *self._start)
            point = ascend(objective, Scoring(objective, self._structure, point), gain_tol=0.1).point
            search = search_structure(objective, self._structure, point, alpha=self._alpha)
            structure = search.scoring.structure
            found.append(np.concatenate([structure.linked, structure.driven]))
        return found


def stability_table(names, resampling, plant, *, n_resamples, alpha, threshold, random_state, n_jobs):
    """Share of half-records in which each link is found."""
    found = _run(_Halves(resampling, plant, alpha), n_resamples, random_state, n_jobs)
    linked = np.array([half for halves in found for half in halves])
    families = [("state", plant.partition.pairs), ("input", plant.partition.input_pairs.pairs)]
    effect, cause = np.concatenate([pairs for _, pairs in families]).T
    kind = np.repeat([kind for kind, _ in families], [len(pairs) for _, pairs in families])
    share, selected = linked.mean(axis=0), float(linked.sum(axis=1).mean())
    names = np.asarray(names, dtype=object)
    columns = {"cause": names[cause], "effect": names[effect], "kind": kind}
    columns |= {"share": share, "stable": share >= threshold}
    table = pd.DataFrame(columns)
    bound = selected**2 / ((2 * threshold - 1) * max(len(share), 1))
    table.attrs = {"mean_selected": selected, "expected_false": bound}
    return table
