"""The plant of several lags of a record: learned, tested, dated, in its own units, inputs in their row."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from ...statespace.episodes import episodes, lagged_rows
from ...statespace.lagged.kernels import FIRST, FIRST_SCALE, kernel_root
from ...statespace.lagged.likelihood import LaggedLikelihood, LagSums, averaged_periodogram
from ...statespace.matrices import companion, spectral_radius
from ..dynamics import Plant
from ..estimation.estimate import estimate_plant
from ..estimation.evidence import corrected
from .curvature import learned_curvature
from .misfit import (
    ROWS_PER_INPUT_LAG,
    ROWS_PER_LAG,
    channel_posterior,
    filled_record,
    first_lag_probabilities,
    likely_lags,
)
from .problem import Fitted, LaggedProblem, Sources, search, unchanged, whitened, with_shared_noise
from .tuning import TUNING

# Whether an input acts in the row it is recorded in: it was set before the row was measured, or after.

SAMPLED = ("auto", "after", "before")


def words_by_input(sampled, names, sizes):
    """A word for every input, from one for all or a dict of unit -> word or words."""
    if isinstance(sampled, str):
        sampled = dict.fromkeys(names, sampled)
    unknown = set(sampled) - set(names)
    if unknown:
        raise ValueError(f"`sampled` names units {sorted(unknown)}; the units are {', '.join(names)}.")
    words = []
    for name, size in zip(names, sizes, strict=True):
        own = sampled.get(name, "auto")
        own = [own] * size if isinstance(own, str) else list(own)
        if len(own) != size or not set(own) <= set(SAMPLED):
            raise ValueError(
                f"Got sampled={own!r} for the {size} inputs of unit {name!r}; give one of 'auto', 'after', "
                "'before', or one for each input."
            )
        words += own
    return words


def refuse_delays(where):
    """Refuse links that do not act after one row, where plants of several lags cannot be learned."""
    raise ValueError(
        f"`delays` leave out a link's first row, and a plant of several lags cannot be learned {where}. Leave `delays` "
        "out, or allow a delay of one row."
    )


def refuse_at_once(names, sampled, where):
    """Say that an input cannot act in its own row as the plant has one lag."""
    units = names if isinstance(sampled, str) else sorted(sampled)
    raise ValueError(
        f"`sampled` says that inputs of {', '.join(units)} were set before their row was measured and act in "
        f"it, but {where} a plant keeps one lag and none acts at once. Move these columns up by one row: "
        "FederatedCounterfactualEstimator(sampled=...) does so with records in this process."
    )


def first_lags(words, series, starts, n_states):
    """First lag at which every input acts.

    "before" is 0, "after" 1. "auto" is 0 only where feedback cannot deceive it: where earlier measurements
    say nothing of the input, and what its own past leaves of it says something of the row's measurements.
    """
    same_row, feedback = _p_values(series, starts, n_states)
    at_once = (same_row < TUNING.timing_level) & (feedback >= TUNING.timing_level)
    words = np.array(words)
    return np.where((words == "before") | ((words == "auto") & at_once), 0, 1)


def _p_values(series, starts, n_states):
    """P values of no same-row response and of no feedback, by input, (2, k)."""
    s, u = series[:, :n_states], series[:, n_states:]
    kept = np.concatenate([np.arange(a + TUNING.timing_own_lags, b) for a, b in episodes(starts, len(s))])
    lags = TUNING.timing_own_lags, TUNING.timing_state_lags
    own, seen = (lagged_rows(x, n_lags, starts)[kept] for x, n_lags in zip((u, s), lags, strict=True))
    s, u = s[kept], u[kept]
    without, given = _residual(u, own), _residual(u, np.hstack([own, seen]))
    rest = _residual(s, np.hstack([own, seen]))
    n_rows, k = u.shape
    p_values, dof = np.ones((2, k)), n_rows - own.shape[1] - seen.shape[1]
    if dof < 1:
        return p_values
    given_squares = np.maximum(np.square(given).sum(axis=0), TUNING.timing_rounded * n_rows)
    squares = np.maximum(np.square(without).sum(axis=0), given_squares), given_squares
    F = (squares[0] - squares[1]) / seen.shape[1] / (squares[1] / dof)
    p_values[1] = stats.f.sf(F, seen.shape[1], dof)
    after = np.maximum(np.square(_residual(rest, given)).sum(axis=0), TUNING.timing_rounded * n_rows)
    for j in range(k):
        before = np.square(_residual(rest, np.delete(given, j, axis=1))).sum(axis=0)
        ratio = (np.maximum(before, after) / after).max()
        p_values[0, j] = min(1.0, n_states * stats.chi2.sf(n_rows * np.log(ratio), 1))
    return p_values


def _residual(y, x):
    return y - x @ np.linalg.lstsq(x, y, rcond=None)[0] if x.shape[1] else y


# The plant of several lags of a record: learned from its scores, tested, dated, in its own units.

_STATE_LAGS, _INPUT_LAGS = (20, 10), (30, 12)  # of plants of few states and inputs, of others
MEMORY = 24  # lags of the filter at least
_NO_LOSS = 0.05  # log-likelihood that lags which are left out may be worth
_NO_LINK = 0.0, 0.0, 1e-12, 2e-24, 1e-12, 1e-12  # moments of a channel that is surely zero
LIKELIER = np.log(100.0)  # by which several lags have to be likelier than one
SHARES = (-0.9999, -0.9, -0.5, 0.0, 0.2, 0.6)  # of sensor noise where it is open, see `with_noise_share`


@dataclass(eq=False)
class LaggedEstimate:
    """A plant of several lags with all that is to be said of it."""

    dynamics: Plant
    steps: tuple[int, ...]  # rows at which levels shift
    new_levels: np.ndarray  # of the states behind these shifts, (n, n_steps)
    links: dict  # by kind "state" and "input", and column of the table of links
    blocks: dict  # by kind, :class:`ChannelBlocks`
    active: np.ndarray  # (n_units, n_sources)
    draws: list  # of (A, B) from the posterior
    converged: bool
    shrunk_by: float  # factor of the poles that keeps the plant stable, 1 if it was
    curvature: object = None  # a :class:`~.curvature.Curvature`, for plants with inputs

    criterion: float = -np.inf  # log-likelihood less effective coefficients
    n_effective: float = 0.0

    @property
    def rank(self):
        """What decides between estimates of the same record: a climb that did not end may have run away."""
        return self.converged, self.criterion


def settled_scores(plant):
    """Standardised scores and inputs of a record, the scores less their level before and after each shift."""
    series, starts, _ = plant.standard_series()
    n, k = plant.partition.n_states, plant.partition.n_inputs
    series = series[:, : n + k].copy()
    levels = np.zeros((n, len(plant.steps)))
    for start, stop in episodes(starts, len(series)):
        inside = [k for k, change in enumerate(plant.steps) if start < change.start < stop]
        rows = np.arange(start, stop)
        paths = np.column_stack([np.ones(len(rows)), *(plant.steps[k].path(rows) for k in inside)])
        means = np.linalg.lstsq(paths, series[rows, :n], rcond=None)[0]
        series[rows, :n] -= paths @ means
        levels[:, inside] = means[1:].T
    return series, starts, levels


def curvature_of(plant, dynamics):
    """What inputs do beyond what is linear, a :class:`~.curvature.Curvature` or None."""
    if not plant.partition.n_inputs:
        return None
    return learned_curvature(dynamics, plant.partition.slices, *natural_scores(plant))


def natural_scores(plant):
    """Settled scores (n_samples, n) and inputs (n_samples, k) in the states and inputs of messages, and the starts."""
    series, starts, _ = settled_scores(plant)
    n, k = plant.partition.n_states, plant.partition.n_inputs
    return series[:, :n] @ plant.state_scale.T, series[:, n:] * plant.known_scale[:k], starts


def timing_of(plant, words):
    """First lag of every input."""
    series, starts, _ = settled_scores(plant)
    return first_lags(words, series, starts, plant.partition.n_states)


def most_lags(plant, first_lags, latest=(0, 0)):
    """Lags that a record of so many rows, states and inputs can tell: of states, of each input.

    There are more where a state or an input surely acts as late as `latest`, of plants of some states: of many they
    take too long.
    """
    longest = int(max(np.diff([*plant.record.starts, plant.n_samples])))
    few = plant.partition.n_states <= TUNING.stage_few_states and plant.partition.n_inputs <= TUNING.stage_few_inputs
    most = [lags[0 if few else 1] for lags in (_STATE_LAGS, _INPUT_LAGS)]
    if plant.partition.n_states <= TUNING.stage_some_states:
        after = [late + TUNING.stage_after_latest if late else 0 for late in latest]
        most = [max(lags) for lags in zip(most, after, strict=True)]
    cap = max(longest // (ROWS_PER_INPUT_LAG if len(first_lags) else ROWS_PER_LAG), 1)
    p, q = (min(lags, cap) for lags in most)
    known = plant.record.known_links
    p = p if known is None else max(p, known.longest)
    return p, [np.arange(first, first + q) for first in first_lags]


def learn_lags(estimate, settings, budget, words=(), latest=(0, 0)):
    """The :class:`LaggedEstimate` of a record for whose estimate one lag was not enough.

    None if it explains the record no better than its coefficients are many: the test of misfit erred. What is
    said to act at once is not given up for that.
    """
    plant, scoring = estimate.plant, estimate.scoring
    series, starts, levels = settled_scores(plant)
    first = first_lags(words, series, starts, plant.partition.n_states) if words else np.ones(0, dtype=int)
    n_lags, input_lags = most_lags(plant, first, latest)
    longest = max([n_lags, *(int(lags[-1]) for lags in input_lags)])
    memory = max(plant.standard_series()[2], MEMORY) + longest
    sums, spectrum = _of_lags(plant, series, starts, longest, memory)
    if sums is None:
        return None
    likelihood = LaggedLikelihood(sums, plant.score_noise)
    known = plant.record.known_links
    about = plant.partition, np.arange(1, n_lags + 1), input_lags, budget, known, scoring.point.Q
    problem = LaggedProblem(likelihood, spectrum, *about)
    if plant.is_whole and not budget.affords(_dense_work(problem)):
        return None
    sources = Sources(problem)
    fitted = started(problem, scoring.point.A, scoring.point.Q)
    if plant.is_whole:
        active = np.ones((sources.n_units, len(sources.columns)), dtype=bool)
        fitted, active, tests = search(problem, fitted, sources, 1.0, active)
    else:
        fitted, active, tests = search(problem, fitted, sources, settings.alpha)
        is_lost = not (fitted.converged or budget.is_spent)
        if is_lost and fitted.criterion <= _of_one_lag(problem, scoring):
            found = _from_one_lag(problem, scoring, sources, settings.alpha)
            if (found[0].converged, found[0].criterion) > (False, fitted.criterion):
                fitted, active, tests = found
    fitted = with_shared_noise(problem, fitted, None if plant.is_whole else settings.alpha)
    must_be = "before" in words or (known is not None and known.requires_lags)
    best = unchanged(problem, fitted)
    if words and known is None:  # in other coordinates no link can be left out
        other = whitened(problem, sums, fitted)
        best = best if other is None or other.criterion < best.criterion else other
    if not must_be and max(fitted.criterion, best.criterion) <= _of_one_lag(problem, scoring) + LIKELIER:
        return None
    links = _links(problem, fitted, sources, active, tests, settings)
    found = _assessed(plant, best, active, levels, links)

    found.curvature = curvature_of(plant, found.dynamics)
    # of the scores in the units' own states, so that records of other noise can be compared
    size = likelihood.n_rows * float(np.linalg.slogdet(plant.state_scale)[1])
    found.criterion, found.n_effective = best.criterion - size - levels.size, best.value - best.criterion
    return found


def _of_lags(plant, series, starts, longest, memory):
    """`LagSums` and averaged periodogram of settled scores, of all batches where these are the last one."""
    if plant.record.has_rows:
        return LagSums.of(series, starts, longest, memory), averaged_periodogram(series, starts)
    return plant.products_of_lags(longest, memory), plant.standardise @ plant.scores.periodogram() @ plant.standardise.T


def _dense_work(problem):
    """Operations of a climb with every channel free, about."""
    partition = problem.partition
    columns = partition.n_states * len(problem.state_lags) + sum(len(lags) for lags in problem.input_lags)
    return sum(TUNING.stage_climb * (p * columns) ** 3 for p in partition.sizes)


def _of_one_lag(problem, scoring):
    """Log-likelihood of the plant of one lag, on the same rows, less the number of its coefficients."""
    point, likelihood = scoring.point, problem.likelihood
    coefficients = np.zeros((likelihood.n_lags + 1, likelihood.n, likelihood.c))
    coefficients[1] = point.A[:, : likelihood.c]
    value = likelihood.n_rows * likelihood.evaluate(coefficients, point.Q).value
    n_free = np.count_nonzero(scoring.structure.transition_mask[:, : likelihood.c])
    return value - n_free


def _from_one_lag(problem, scoring, sources, alpha):
    """The search from the links of the plant of one lag: units alone may lack what these stand for."""
    point = scoring.point
    fitted, active = started(problem, point.A, point.Q), sources.own | sources.required
    fitted.coefficients[1] = point.A[:, : problem.likelihood.c]
    for kind, first in (("state", 0), ("input", sources.n_units)):
        family, inside = scoring.structure.family(kind)
        for unit, cause in family.pairs[inside]:
            active[unit, cause if kind == "state" else first + sources.with_inputs.index(cause)] = True
    return search(problem, fitted, sources, alpha, active)


def started(problem, A, Q):
    """The plant of one lag (n, c) without links as a plant of several, to start from."""
    n, own = len(Q), problem.partition.block_diagonal
    coefficients = np.zeros((problem.likelihood.n_lags + 1, n, problem.likelihood.c))
    coefficients[1, :, :n] = np.where(own, A[:, :n], 0.0)
    return Fitted(coefficients, np.where(own, Q, 0.0))


def _assessed(plant, best, active, levels, links):
    """The :class:`LaggedEstimate` in the units' own states; `links` are their table's columns and blocks."""
    problem, fitted = best.problem, best.fitted
    n, S, Sinv = plant.partition.n_states, plant.state_scale, plant.unscale
    n_lags, q = _without_idle_lags(problem, fitted)
    radius = float(spectral_radius(companion(np.hstack(list(fitted.coefficients[1 : n_lags + 1, :, :n])), n_lags)))
    share = TUNING.stage_radius / max(radius, TUNING.stage_radius)  # by which the poles have to come in
    back, there = S @ np.linalg.inv(best.W), best.W @ Sinv
    input_scale = plant.known_scale[: plant.partition.n_inputs]

    def in_own_units(coefficients):
        A = back @ coefficients[1 : n_lags + 1, :, :n] @ there
        A = A * (share ** np.arange(1, n_lags + 1))[:, None, None]
        return A, back @ coefficients[: q + 1, :, n:] / input_scale

    A, B = in_own_units(fitted.coefficients)
    return LaggedEstimate(
        Plant(A, B, back @ fitted.Q @ back.T),
        plant.steps,
        S @ levels,
        links[0],
        links[1],
        active,
        [in_own_units(x) for x in _draws(problem, fitted)] if problem.input_lags else [],
        fitted.converged,
        share,
    )


def _without_idle_lags(problem, fitted):
    """How many lags of the states and inputs the plant needs; later ones are worth nothing together."""
    likelihood, n = problem.likelihood, problem.likelihood.n
    value = likelihood.n_rows * likelihood.evaluate(fitted.coefficients, fitted.Q).value

    def is_enough(p, q):
        x = fitted.coefficients.copy()
        x[p + 1 :, :, :n] = 0.0
        x[q + 1 :, :, n:] = 0.0
        return likelihood.n_rows * likelihood.evaluate(x, fitted.Q).value >= value - _NO_LOSS

    p, q = int(problem.state_lags[-1]), max((int(lags[-1]) for lags in problem.input_lags), default=1)
    while p > 1 and is_enough(p - 1, q):
        p -= 1
    while q > 1 and is_enough(p, q - 1):
        q -= 1
    fitted.coefficients[p + 1 :, :, :n] = 0.0
    fitted.coefficients[q + 1 :, :, n:] = 0.0
    return p, q


def _draws(problem, fitted):
    """Coefficients drawn from the posterior, unit by unit: the same ones at every call."""
    rng = np.random.default_rng(0)
    draws = [fitted.coefficients.copy() for _ in range(TUNING.stage_n_draws)]
    p = max(np.flatnonzero(fitted.coefficients[..., : problem.likelihood.n].any(axis=(1, 2))), default=1)
    q = max(np.flatnonzero(fitted.coefficients[..., problem.likelihood.n :].any(axis=(1, 2))), default=1)
    for rows, found in fitted.posteriors:
        noise = found.root @ rng.standard_normal((found.root.shape[1], TUNING.stage_n_draws))
        for draw, values in zip(draws, noise.T, strict=True):
            draw[rows.elements] += values
    for draw in draws:
        draw[p + 1 :, :, : problem.likelihood.n] = 0.0
        draw[q + 1 :, :, problem.likelihood.n :] = 0.0
    return draws


@dataclass
class ChannelBlocks:
    """Posterior of channels, one a pair: norm of its coefficients, and moments of their spread."""

    strength: np.ndarray
    stderr: np.ndarray
    squares: np.ndarray  # of the means
    mean: np.ndarray  # trace of the covariance
    spread: np.ndarray  # twice the sum of squares of the covariance
    along: np.ndarray  # variance along the mean
    worst: np.ndarray  # largest variance

    @property
    def moments(self):
        """Squared norms, traces of the covariances, twice those of their squares, variances along."""
        return self.squares, self.mean, self.spread, self.along

    @property
    def dof(self):
        """Of the test that decides: that of the worst direction alone."""
        return np.ones(len(self.worst), dtype=int)


def _links(problem, fitted, sources, active, tests, settings):
    """Columns of the table of links and blocks, by kind."""
    partition, links, blocks = problem.partition, {}, {}
    families = {"state": partition.pairs}
    if sources.with_inputs:
        families["input"] = partition.input_pairs.pairs
    for kind, pairs in families.items():
        at = pairs[:, 1]
        if kind == "input":
            at = np.array([sources.n_units + sources.with_inputs.index(cause) for cause in at], dtype=int)
        p = tests.p_values[pairs[:, 0], at]
        adjusted = corrected(p, settings.correction)
        rows = [
            _link(fitted, sources, active, tests.scores.get((unit, source)), unit, source, q <= settings.alpha)
            for unit, source, q in zip(pairs[:, 0], at, adjusted, strict=True)
        ]
        moments = np.array([row[0] for row in rows]).reshape(len(rows), 6).T
        blocks[kind] = ChannelBlocks(np.sqrt(moments[0]), moments[1], moments[0], *moments[2:])
        timing = np.array([row[2] for row in rows]).reshape(len(rows), 3)
        links[kind] = {"p_value": p, "p_adjusted": adjusted, "statistic": np.array([row[1] for row in rows])}
        links[kind] |= dict(zip(("delay", "delay_low", "delay_high"), timing.T, strict=True))
    return links, blocks


def posterior_of(fitted, active, unit, source, score):
    """Mean and covariance of a channel's coefficients and twice its log evidence, from its score (S, q, n_lags).

    Under the prior that it was fitted with where it is a unit that acts.
    """
    (S, q, n_lags), prior = score, None
    if active[unit, source] and source < len(active):
        scale, decay = fitted.priors.get((unit, ("unit", int(source))), (FIRST_SCALE, FIRST))
        prior = np.sqrt(scale) * kernel_root(n_lags, decay)
    return channel_posterior(S, q, n_lags, prior)


def _link(fitted, sources, active, score, unit, source, is_there):
    """Moments of a channel's posterior, twice its log evidence, and when it acts first."""
    if score is None:  # of a link that there cannot be
        return _NO_LINK, 0.0, (np.nan,) * 3
    S, q, n_lags = score
    mean, V, evidence = posterior_of(fitted, active, unit, source, score)
    squared, along = mean @ mean, mean @ V @ mean
    along = along / max(squared, 1e-300)
    moments = squared, np.sqrt(along), np.trace(V), 2 * np.square(V).sum(), along, np.linalg.eigvalsh(V)[-1]
    timing = (np.nan,) * 3
    if is_there:
        timing = likely_lags(first_lag_probabilities(S, q, n_lags), sources.lags(unit, source)[0])
    return moments, max(evidence, 0.0), timing


# The plant of several lags of a record: with which share of sensor noise, level shifts or none, gaps filled anew.


@dataclass
class Search:
    """For a plant of several lags, from the plant of one lag that was kept."""

    raw: Any  # JointRecord with the noise that units suppose
    record: Any  # with the noise that the filter supposes
    estimate: Any  # of one lag
    point: Any  # where the plant of one lag operates
    settings: Any
    budget: Any
    words: tuple  # on the timing of every input
    noise_share: float | None  # of sensor noise, chosen for one lag; None where it is not open
    share: float | None = None  # that is chosen for several
    latest: tuple = (0, 0)  # lag of states and of inputs that surely acts by itself

    def learned(self):
        """The :class:`~.stage.LaggedEstimate`, None if it is no better than the plant of one lag."""
        lagged = self._of(self.estimate) if self.noise_share is None else self._with_share()
        if lagged is not None and lagged.steps and self.words:  # one lag may take what inputs do for shifts
            lagged = self._without_shifts(lagged)
        has_gaps = not (self.record.is_constant or self.estimate.plant.stands_in)
        if lagged is not None and has_gaps:  # what is missing as these lags expect it
            filtered = self._at_its_point(lagged).run(self.record.at_steps(lagged.steps))
            return self._of(estimate_plant(filled_record(self.record, filtered.hindsight()), self.settings))
        return lagged

    def is_likelier(self, lagged, filter_of_one_lag):
        """Whether the exact likelihood, too, prefers several lags: that of their stage may run away."""
        n_free = np.count_nonzero(self.estimate.scoring.structure.transition_mask)
        record = self.record.at_hand
        nothing = np.zeros(record.n_samples)
        bare = replace(record, parts=tuple(replace(part, const=nothing) for part in record.parts))
        several = self._at_its_point(lagged).run(bare.at_steps(lagged.steps))
        one = filter_of_one_lag(self.point.placed(bare))
        value = several.log_likelihood().sum() - lagged.n_effective
        return value > one.log_likelihood().sum() - n_free + LIKELIER

    def _of(self, estimate):
        return learn_lags(estimate, self.settings, self.budget, self.words, self.latest)

    def _at_its_point(self, lagged):
        """The plant around its own operating point."""
        return replace(lagged.dynamics, point=self.point.moved(self.record, lagged.steps, lagged.new_levels))

    def _with_share(self):
        """Where the share of sensor noise is open: the plant with the share of the largest evidence."""
        best = None
        for share in SHARES:
            lagged = self._of(estimate_plant(self.raw.with_noise_share(share), self.settings))
            # what does not converge may be no plant: a likelihood that runs away
            if lagged is not None and (best is None or lagged.rank > best.rank):
                best, self.share = lagged, share
            elif best is not None:
                break
            if self.budget.is_spent:
                break
        return best

    def _without_shifts(self, lagged):
        """The plant of the record without level shifts, if it is likelier."""
        if not self.record.is_constant:
            return lagged
        noisy = self.raw.with_noise_share((self.noise_share if self.share is None else self.share) or 0.0)
        other = self._of(estimate_plant(noisy, replace(self.settings, level_shifts=None)))
        return lagged if other is None or other.rank <= lagged.rank else other
