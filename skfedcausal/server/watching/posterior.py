"""Posterior over the units that may be the root of a fault, from either statistic, and which one decides.

Bayes factors integrate the size of a fault out under a unit-information prior (Kass & Wasserman 1995, A
reference Bayesian test for nested hypotheses, Journal of the American Statistical Association 90). Where that finds no
fault, priors of smaller ones are averaged over as well (Liang et al. 2008, Mixtures of g priors for Bayesian variable
selection, Journal of the American Statistical Association 103).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ...arguments import as_floats
from ...statespace.detection.shift import (
    Signatures,
    bias_information,
    gain_changes,
    own_change_ratios,
    ramp_ratios,
    reversal_ratios,
    step_and_bias_scores,
    steps_in_turn,
    sums_to_end,
)
from .tuning import TUNING

SURE = 0.8  # probability from which a kind of fault is stated, and a change that lasts is a fault for long
_SHARES = 4.0 ** -np.arange(5)  # of the rows' information in one row's, in the priors of faults of any size
_SCALES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # by which variances may be larger
_TOGETHER = 16  # windows whose likelihood ratios stay in cache

# -- Bayes factors and probabilities ---------------------------------------------------------------------


def log_bayes_factor(ratio, n_params, n_steps):
    """Log Bayes factor of a fault whose prior carries as much information as one of the `n_steps` rows.

    ``ratio n / (2 (n + 1)) - n_params / 2 log(n + 1)``.
    """
    return ratio * n_steps / (2 * (n_steps + 1.0)) - n_params / 2 * np.log(n_steps + 1.0)


def log_scale_factor(excess, dof, n_rows):
    """Log Bayes factor of a variance that is `excess` times the nominal one, one or no free parameter.

    Likelihood ratio of a chi-square scale above one, with the Schwarz penalty of its parameter.
    """
    above = np.maximum(excess, 1.0)
    return (n_rows * dof / 2) * (above - 1 - np.log(above)) - 0.5 * np.log(n_rows + 1.0)


def log_scale_ratio(excess, dof, n_rows, scale):
    """Log likelihood ratio of a variance ``1 + scale`` times the nominal one; the rows have `excess` times that."""
    return (n_rows * dof / 2) * (excess * scale / (1 + scale) - np.log1p(scale))


def log_gain_factor(score, information):
    """Log Bayes factor of another gain of a link, from the score and information of its change in shares of it.

    The change is standard normal beforehand: a lost link is one standard deviation off.
    """
    return score**2 / (2 * (information + 1)) - 0.5 * np.log1p(information)


def root_sets(n_units, max_roots=2):
    """Candidate sets of roots: single units first, then pairs, ..."""
    return [roots for k in range(1, max_roots + 1) for roots in combinations(range(n_units), k)]


def prior_weights(prior, names):
    """Prior probability of each unit, summing to one, from weights by name or in the order of the units."""
    if prior is None:
        return np.full(len(names), 1 / len(names))
    if isinstance(prior, Mapping):
        if set(prior) != set(names):
            raise ValueError(f"`prior` names {sorted(prior)}, the units are {sorted(names)}. Name every unit.")
        prior = [prior[name] for name in names]
    weights = as_floats(prior, "`prior`", "one weight of at least 0 for each unit")
    if weights.shape != (len(names),) or not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise ValueError(
            f"`prior` has shape {weights.shape}; give one weight of at least 0 for each of the {len(names)} units "
            f"{', '.join(names)}."
        )
    return weights / weights.sum()


def log_prior_of_sets(sets, prior, extra):
    """Log prior of every set: product of the units' shares, times `extra` for every root after the first."""
    prior = np.asarray(prior)
    with np.errstate(divide="ignore"):
        logs = np.log(prior)
    n = len(prior)
    return np.array([logs[list(s)].sum() + (len(s) - 1) * np.log(extra / max(n - 1, 1) * n) for s in sets])


def inclusion(members, log_weights, alone):
    """Probability that each unit is among the roots, and the normalised weights of the sets.

    From the units, (n_sets, n_units), and log weights of the sets; what each unit explains alone breaks ties.
    """
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    probability = np.minimum(weights @ members, 1.0)  # sums of shares exceed one by rounding
    shares, alone = probability.tolist(), alone.tolist()
    order = sorted(range(len(shares)), key=lambda m: (-round(100 * shares[m]), -alone[m]))
    last = np.inf
    for m in order:  # each lower than the one before by more than rounding
        last = probability[m] = min(shares[m], last * (1 - TUNING.posterior_less))
    return probability, weights


def log_sum(logs):
    """Logarithm of a sum of exponentials."""
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).sum()))


def softmax(logs, prior):
    """Probabilities from logarithms of likelihoods and prior probabilities."""
    with np.errstate(divide="ignore"):
        logs = logs + np.log(prior)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


# -- answers ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Answer:
    """Answer of one statistic to an incident.

    evidence : log evidence of all candidates together against no fault
    probability : that the unit is among the roots, (n_units,)
    start : most likely first row
    sensor : probability that the best unit's sensors are at fault, not its states
    explains : whether the rest is nominal once the best candidate is taken off, the other units' off-subspace
        numbers included
    """

    statistic: str
    evidence: float
    probability: np.ndarray
    start: int
    sensor: float = 0.5
    explains: bool = False

    @property
    def kind(self):
        """Kind of fault, empty if the rest is not nominal or either kind may be."""
        if not self.explains or 1 - SURE < self.sensor < SURE:
            return ""
        return "sensor" if self.sensor >= SURE else "process"


def explained(answers):
    """Those that leave nothing unexplained of the incident."""
    return [answer for answer in answers if answer.explains and answer.evidence > 0]


def deciding(answers):
    """The answer that names the root: of those that explain everything, or else of all, the most evident.

    A steady fault that leaves nothing unexplained needs no other explanation, even where that of a fault of any
    form has more evidence.
    """
    return max(explained(answers) or answers, key=lambda answer: answer.evidence)


def together(answers):
    """Answers of the statistics as one, that of either kind of fault with the sum of their evidence.

    Statistic and onset are those of the most evident one.
    """
    logs = np.array([float(answer.evidence) for answer in answers])
    evidence = log_sum(logs)
    probability = np.exp(logs - evidence) @ np.array([answer.probability for answer in answers])
    most = max(answers, key=lambda answer: answer.evidence)
    return replace(most, evidence=evidence, probability=probability, explains=False)


def doubted(probability, first_rows, disturbed):
    """Probabilities given by an answer that leaves something unexplained, for incidents, and whether it is doubted.

    `first_rows` are those of the units' alarms, -1 for none, `disturbed` says which surprise beyond chance. The plant
    does what its model does not foresee: a second root at once is then more likely an error of the model, and so is a
    root whose alarm comes after that of another unit, or not at all.
    """
    root, earlier = int(probability.argmax()), before_root(probability, first_rows, disturbed)
    if not earlier.any() and np.count_nonzero(probability >= TUNING.posterior_both) < 2:
        return probability, False
    factor = min(1.0, TUNING.posterior_unforeseen / max(probability[root], 1e-300))
    least = (1 - TUNING.posterior_unforeseen) * probability[root] * earlier / max(np.count_nonzero(earlier), 1)
    return np.maximum(factor * probability, least), True


def in_turn_of_alarms(probability, first_rows, disturbed):
    """The same for a window that is named: most of the probability of a root is that of the unit in alarm before it."""
    root, earlier = int(probability.argmax()), before_root(probability, first_rows, disturbed)
    if not earlier.any():
        return probability
    first = int(np.where(earlier, first_rows, first_rows.max() + 1).argmin())
    revised = probability.copy()
    revised[first] = max(probability[first], TUNING.posterior_earlier * probability[root])
    revised[root] = (1 - TUNING.posterior_earlier) * probability[root]
    return revised


def upstream(probability, first_rows, curved, acting):
    """The probabilities of an incident where units act on the likeliest root in a way that the model does not know.

    `curved`, (n_units, n_units), says which act on which so, and `acting` which in any way, None where that is not
    asked. That of these which was in alarm no later than the root, or is out of its reach, and first, has most of its
    probability.
    """
    root = int(probability.argmax())
    own, beyond = first_rows[root], False if acting is None else ~acting[:, root]
    earlier = curved[root] & (first_rows >= 0) & ((first_rows <= own) | (own < 0) | beyond)
    sources = earlier & ~(curved & earlier).any(axis=1)
    if not sources.any():
        return probability
    first, revised = int(np.where(sources, first_rows, first_rows.max() + 1).argmin()), probability.copy()
    revised[first] = min(1.0, probability[first] + TUNING.posterior_upstream * probability[root])
    revised[root] = (1 - TUNING.posterior_upstream) * probability[root]
    return revised


def before_root(probability, first_rows, disturbed):
    """Units that are disturbed and whose alarm comes before that of the likeliest root, (n_units,)."""
    own = first_rows[int(probability.argmax())]
    return disturbed & (first_rows >= 0) & ((first_rows < own) | (own < 0))


class Look(NamedTuple):
    """Rows by which an incident is judged.

    begin, detected : first row, and the last one in which the fault may have started
    ends : rows after the last of the windows in which the fault may have gone on
    """

    begin: int
    detected: int
    ends: tuple[int, ...]


def shift_answers(posterior, rows, looks):
    """Answers of the shift statistic to every look, in the order of its ends, from the rows of evidence.

    Windows with as many onsets are answered together.
    """
    answers: list[list[Answer]] = [[] for _ in looks]
    alike: dict[int, list] = {}
    for look, found in zip(looks, answers, strict=True):
        windows = alike.setdefault(look.detected - look.begin + 1, [])
        windows += [(found, rows.between(look.begin, end)) for end in look.ends]
    for n_onsets, windows in alike.items():
        for k in range(0, len(windows), _TOGETHER):
            some = windows[k : k + _TOGETHER]
            shifts = posterior.from_shift([window for _, window in some], n_onsets)
            for (found, _), shift in zip(some, shifts, strict=True):
                found.append(shift)
    return answers


# -- posterior -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Nominal:
    """Nominal values that the two statistics are compared with.

    dims, outside_dims : degrees of freedom of the units' surprises, and of the off-subspace numbers in them
    leverage : root of the inverse covariance of the predicted states, (n, n); None of a plant that is judged by parts
    n_rows : rows that the plant was learned from
    rest : mean square of the whitened innovations that nominal windows hardly pass
    shift, energy, off_subspace : by how much the likelihood ratios of nominal windows exceed those of
        independent normal innovations, at least one
    """

    dims: np.ndarray
    outside_dims: np.ndarray
    leverage: np.ndarray | None
    n_rows: int
    rest: float
    shift: float = 1.0
    energy: float = 1.0
    off_subspace: float = 1.0

    @property
    def is_moved_from_outside(self):
        """Whether nominal windows vary so much more than innovations let them that what nobody measures acts.

        Shifts vary more than that, too, under a plant that was learned from few rows.
        """
        unsure = 1 + TUNING.posterior_few_rows * (self.dims - self.outside_dims).sum() / self.n_rows
        return bool(self.energy > TUNING.posterior_unmeasured or self.shift > TUNING.posterior_unmeasured * unsure)


class RootPosterior:
    """Posterior over roots under a fitted plant.

    Candidates of the shift statistic are a fault in the states of one unit or of two, or in the sensors of
    one. `model` is the InnovationModel, `slices` are the states of each unit, `prior` has shape (n_units,),
    `n_rows` is the longest usual window (longer ones are prepared when they come), `horizon` the length of a
    full energy window.
    """

    def __init__(self, model, slices, prior, n_rows, horizon, nominal):
        self.model, self.slices, self.prior = model, slices, prior
        self.horizon, self.nominal = horizon, nominal
        n_units = len(slices)
        self._sets = root_sets(n_units, 2 if n_units <= TUNING.posterior_max_paired else 1)
        log_priors = log_prior_of_sets(self._sets, prior, TUNING.posterior_second_root)
        self._log_priors = np.concatenate([log_priors, log_priors[:n_units] + np.log(TUNING.posterior_sensor)])
        self._log_priors -= log_sum(self._log_priors)
        candidates = [*self._sets, *self._sets[:n_units]]
        self._members = np.array([np.isin(range(n_units), roots) for roots in candidates], dtype=float)
        self._prepare(n_rows)

    def from_energy(self, rows):
        """Answer of the energy statistic to a window of evidence.

        Evidence is that some disturbance of any form moved one of the units, against no fault.
        """
        nominal, n_rows = self.nominal, rows.stop - rows.first
        states, whole = self._excess(rows)
        inside = log_scale_factor(states, nominal.dims - nominal.outside_dims, n_rows)
        both = log_scale_factor(whole, nominal.dims, n_rows)
        factor = np.maximum(inside, both) / nominal.energy
        often = rows.given_others.sum(axis=0) / max(n_rows, self.horizon)
        logs = (
            factor / self._misfit(rows.predicted, np.maximum(states, whole)) ** 2 + TUNING.posterior_sharpness * often
        )
        return replace(
            self._of_units(factor, TUNING.posterior_whatever, rows.first), probability=softmax(logs, self.prior)
        )

    def from_any_energy(self, rows):
        """The same with any variance larger than nominal integrated out, for what is too small to be seen."""
        nominal, n_rows = self.nominal, rows.stop - rows.first
        states, whole = self._excess(rows)
        tempering = nominal.energy * self._misfit(rows.predicted, np.maximum(states, whole)) ** 2
        moved = [(states, nominal.dims - nominal.outside_dims), (whole, nominal.dims)]
        logs = [log_scale_ratio(*of, n_rows, scale) / tempering for of in moved for scale in _SCALES]
        return self._of_units(np.logaddexp.reduce(logs) - np.log(len(logs)), TUNING.posterior_whatever, rows.first)

    def from_changes(self, rows):
        """Answer that the dynamics of a unit are others in a window: its own, or the gain of a link into it.

        Sizes are integrated out. States count from their mean in the window, so that what a steady fault moves is not
        taken for a change of what follows them. Rows in which a unit is absent tell nothing of changes of it.
        """
        u, seen = rows.scaled, ~rows.absent
        states, tempering = self._centred(rows)
        ratios = own_change_ratios(self.model, u, states, self.slices, seen) / tempering
        dims = np.array([b.stop - b.start for b in self.slices])
        own = _over(_SHARES, ratios, dims**2, len(u))
        scores, information = gain_changes(self.model, u, states, self.slices, seen)
        gains = log_gain_factor(scores / tempering, information / tempering)
        factor = _own_or_link(own, np.where(information > 0, gains, -np.inf))
        return self._of_units(factor, TUNING.posterior_changed, rows.first)

    def from_reversal(self, rows, n_onsets):
        """Answer that a unit tells its states with the other sign from one of the first `n_onsets` rows on."""
        states, tempering = self._centred(rows)
        ratios = reversal_ratios(self.model, rows.scaled, states, self.slices, ~rows.absent)[:n_onsets]
        factors = ratios.max(axis=0) / tempering - np.log(n_onsets)
        answer = self._of_units(factors, TUNING.posterior_reversed, rows.first)
        best = int(answer.probability.argmax())
        start = int(ratios[:, best].argmax())
        explains = self._explains(rows, start, 2 * ratios[start, best], [best])
        return replace(answer, start=rows.first + start, sensor=1.0, explains=explains)

    def _centred(self, rows):
        """Filtered states of a window beside their mean, and what ratios of likelihoods of other dynamics count for."""
        states = self.model.corrected(rows.predicted, rows.scaled)
        # variance over that of a plant known
        learned = 1 + 2 * self._far(rows.predicted) * len(states) / self.nominal.n_rows
        return states - states.mean(axis=0), self.nominal.energy * learned

    def _of_units(self, factors, weight, first):
        """Answer by log Bayes factors of single units, (n_units,), which together have a prior weight beside others."""
        with np.errstate(divide="ignore"):
            evidence = log_sum(factors + np.log(self.prior)) + float(np.log(weight))
        return Answer("energy", evidence, softmax(factors, self.prior), first)

    def _excess(self, rows):
        """Mean surprises of the units' states over nominal ones, and those with the off-subspace numbers."""
        states, rest = rows.surplus.mean(axis=0), rows.outside.mean(axis=0)
        beside = self.nominal.outside_dims / self.nominal.dims
        return states, (1 - beside) * states + beside * rest

    def _misfit(self, predicted, excess):
        """By how much errors of the model may exceed its noise in a window, at least one.

        Far from nominal states predictions go wrong, by a share of how far; and what the disturbance of one unit
        cannot explain, surprises of the next most surprising, is such an error too.
        """
        second = np.sort(excess)[-2] if len(excess) > 1 else 0.0
        return max(1.0, self._far(predicted), second)

    def _far(self, predicted):
        """Mean square of the predicted states over that from which on errors of the model count."""
        return float(((predicted @ self.nominal.leverage) ** 2).mean()) / TUNING.posterior_far

    def is_far(self, rows):
        """Whether states in a window are so far from nominal that errors of the model count."""
        return self._far(rows.predicted) > 1

    def from_shift(self, windows, n_onsets, at_once=0.0, shares=None, may_grow=False, level_rows=np.inf):
        """Answers of the coherent shift statistic to windows of evidence, the onset of the fault free.

        It may have started in the first `n_onsets` rows, with prior probability `at_once` in the very first;
        the rest is spread evenly. The prior of its size has the information of one row, or that of ``1 / share``
        rows with the same probability for each of some shares. Where it `may_grow`, which takes onsets in all rows, the
        fault of one unit may also be a ramp from the first row on. The level of the operating point was learned from
        `level_rows` besides the nominal ones.
        """
        longest = max(len(window.scaled) for window in windows)
        if longest > self._process.n_rows:
            self._prepare(longest)
        scores = step_and_bias_scores(self.model, _stacked([window.scaled for window in windows]))
        onsets = np.full(n_onsets, (1 - at_once) / n_onsets)
        onsets[0] += at_once
        return [
            self._in_turn(
                self._answer(window, step[:n_onsets], bias[:n_onsets], onsets, shares, may_grow, level_rows), window
            )
            for window, step, bias in zip(windows, *scores, strict=True)
        ]

    def of_any_size(self, rows, statistics, at_once, level_rows=np.inf):
        """Answer to a window in which no fault is to be seen, its size integrated out as well."""
        answers = []
        if "shift" in statistics:
            answers += self.from_shift([rows], len(rows.scaled), at_once, _SHARES, may_grow=True, level_rows=level_rows)
        if "energy" in statistics:
            answers.append(self.from_any_energy(rows))
        return together(answers)

    def _answer(self, window, step, bias, onsets, shares, may_grow, level_rows):
        """Answer to one window from the scores of both kinds of fault and the prior of their onsets."""
        n_rows, n_units = window.outside.shape
        first, after = len(self._steps) - n_rows, n_rows - len(onsets)
        at = slice(first, first + len(onsets))
        steps = self._steps[at]
        ratios = np.concatenate([self._process.ratios(step, after), self._sensor.ratios(bias, after)])
        tempering = self.nominal.shift * (self._uncertainty(window.predicted, steps) + steps / level_rows)
        if shares is None:
            logs = ratios * (self._gain[at] / tempering)
            logs += self._penalty[:, at]
        else:
            logs = _over(shares, ratios / tempering, self._n_params[:, None], steps)
            logs[np.isneginf(self._log_priors)] = -np.inf
        outside = self._outside_evidence(window.outside, steps)
        logs[-n_units:] += outside
        top = logs.max()
        logs -= top
        weights = np.exp(logs, out=logs)
        with np.errstate(divide="ignore"):
            total = np.log(weights @ onsets) + self._log_priors
        onset = int((weights.sum(axis=0) * onsets).argmax())
        explained = ratios[:, onset]
        if may_grow:
            single = np.r_[:n_units, -n_units:0]
            growing, ramps = self._growing(step, bias, single, shares, tempering[0])
            growing[n_units:] += outside[:, 0]
            growing += np.log(TUNING.posterior_grows) - top
            total += np.log1p(-TUNING.posterior_grows)
            if growing.max() > total.max():
                onset, explained[single] = 0, ramps
            total[single] = np.logaddexp(total[single], growing)
        alone = np.maximum(total[:n_units], total[-n_units:])
        probability, posterior = inclusion(self._members, total, alone)
        best = int(probability.argmax())
        sensor = float(posterior[best - n_units] / (posterior @ self._members[:, best]))
        explains = self._explains(window, onset, explained[total.argmax()], [best])
        return Answer("shift", float(top) + log_sum(total), probability, window.first + onset, sensor, explains)

    def _growing(self, step, bias, single, shares, tempering):
        """Log weights of ramps of single units, of their states and then of their sensors, and likelihood ratios."""
        ramps = ramp_ratios(self.model, step, bias, self.slices)
        shares = (1.0,) if shares is None else shares
        logs = _over(shares, ramps / tempering, self._n_params[single], len(step))
        return logs + self._log_priors[single], ramps

    def _in_turn(self, answer, rows):
        """An answer of the shift statistic, where two roots are likely with an onset of each.

        The earlier one becomes the likelier; and steps that came one after the other may explain everything.
        """
        first, second = np.argsort(-answer.probability, kind="stable")[:2].tolist() if len(self.slices) > 1 else (0, 0)
        if answer.probability[second] < TUNING.posterior_both or first == second:
            return answer
        ratio, onsets, gain = steps_in_turn(self.model, self.slices, rows.scaled, (first, second))
        if gain < 2 * np.log(len(rows.scaled)):  # of the onset more
            return answer
        probability = answer.probability.copy()
        if onsets[1] < onsets[0]:
            probability[[first, second]] = probability[[second, first]]
        begin = min(onsets)
        explains = self._explains(rows, begin, ratio, [first, second])
        return replace(answer, probability=probability, explains=answer.explains or explains)

    def _explains(self, window, onset, ratio, roots):
        """Whether the rest of a window is nominal once a fault of this likelihood ratio is taken off.

        Its signature is known to a share of itself only, so that a large fault leaves more than a small one.
        """
        white = (window.scaled[onset:] @ self.model.whitening).ravel()
        rest = float(white @ white - ratio) - TUNING.posterior_unknown * float(ratio)
        nominal = rest <= self.nominal.rest * white.size
        return nominal and self._nothing_else_outside(window.outside[onset:], roots)

    def _nothing_else_outside(self, outside, roots):
        """Whether the off-subspace numbers of all units but the roots are nominal."""
        dims = self.nominal.outside_dims / self.nominal.off_subspace
        moved = log_scale_factor(outside.sum(axis=0) / len(outside), dims, len(outside))
        moved[roots] = 0.0
        return bool(moved.max() <= 0)

    def _uncertainty(self, predicted, steps):
        """Variance of the mean innovation of a window over its variance with the plant known.

        That of a regression on n rows, leverage included: victims that are pushed far have the largest errors of A.
        """
        level = sums_to_end(predicted @ self.nominal.leverage)[: len(steps)]
        leverage = np.einsum("ti,ti->t", level, level) / steps
        return 1.0 + (steps + leverage) / self.nominal.n_rows

    def _outside_evidence(self, outside, steps):
        """Log evidence for a sensor fault against a process fault in the off-subspace numbers."""
        excess = sums_to_end(outside)[: len(steps)].T / steps
        dims = self.nominal.outside_dims / self.nominal.off_subspace
        moved = log_scale_factor(excess, dims[:, None], steps)
        still = np.exp(-moved)  # relative likelihood that nothing moved, at most the root of n_rows + 1
        sensor, process = (
            p + (1 - p) * still for p in (TUNING.posterior_sensor_outside, TUNING.posterior_process_outside)
        )
        return np.log(sensor / process)

    def _prepare(self, n_rows):
        """Signatures of all candidates for windows of up to `n_rows` rows."""
        states = [np.r_[tuple(self.slices[m] for m in roots)] for roots in self._sets]
        information = self.model.step_information(n_rows)
        self._process = Signatures.prepare(information, states)
        bias = bias_information(self.model, n_rows)
        self._sensor = Signatures.prepare(bias, states[: len(self.slices)])
        self._n_params = n_params = np.concatenate([self._process.n_params, self._sensor.n_params])
        self._steps = np.arange(n_rows, 0, -1.0)  # rows from each onset to the end
        self._gain = log_bayes_factor(1.0, 0, self._steps)  # log Bayes factors are linear in the ratio
        self._penalty = log_bayes_factor(0.0, n_params[:, None], self._steps)
        self._penalty[np.isneginf(self._log_priors)] = -np.inf  # not to set the scale of those that may be


def _over(shares, ratios, n_params, steps):
    """Log Bayes factors averaged over priors of faults of different sizes, from the rows from each onset."""
    logs = [log_bayes_factor(ratios, n_params, share * steps) for share in shares]
    return np.logaddexp.reduce(logs) - np.log(len(shares))


def _own_or_link(own, gains):
    """Log Bayes factors of a change of each unit, half of it of its own, (n_units,), half of a link, (n_units,) * 2.

    Links that are none have minus infinity.
    """
    n_links = np.isfinite(gains).sum(axis=1)
    some = n_links > 0
    of_links = np.logaddexp.reduce(gains[some], axis=1) - np.log(n_links[some])
    factor = own.copy()
    factor[some] = np.logaddexp(own[some], of_links) - np.log(2)
    return factor


def _stacked(series):
    """Series of several windows side by side, zero after the end of the shorter ones."""
    stack = np.zeros((len(series), max(map(len, series)), series[0].shape[1]))
    for rows, window in zip(stack, series, strict=True):
        rows[: len(window)] = window
    return stack
