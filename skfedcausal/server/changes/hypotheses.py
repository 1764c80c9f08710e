"""The learned plant as tests of changes see it: innovations, and what may have changed in the rows of a unit."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...statespace.episodes import episodes
from ...statespace.matrices import Partition, companion, spectral_radius
from .tuning import TUNING

# The learned plant as the tests of changes see it, and its filter over a record in which it changes.

FURTHER_LAGS = 5  # beyond those of the plant that a link may move to


@dataclass(frozen=True)
class LearnedPlant:
    """Coefficients that a record is compared with; blocks of units have the strength they have in ``links_``."""

    A: np.ndarray  # (q, n, n), in the units' own states
    partition: Partition
    scale: np.ndarray  # (n, n), S with ``h = S h_standardised``
    n_samples: int  # rows it was learned from
    estimates: Any = None  # `BlockEstimates`, standardised; None of a plant of several lags
    known: Any = None  # a :class:`~..knowledge.LinkKnowledge`, or None
    pairs: Any = None  # (n_pairs, 2), of which there are estimates, and links may be new; None for all

    @property
    def n_lags(self):
        """Lags of the plant."""
        return len(self.A)

    def causes(self, unit):
        """The other units that may act on one."""
        kept_out = self.known_not_to_act(unit)
        return [n for n in np.flatnonzero(self._number[unit] >= 0).tolist() if n not in kept_out]

    def known_not_to_act(self, unit):
        """The other units that may not."""
        if self.known is None:
            return []
        return [n for n in np.flatnonzero(self.known.forbidden[unit]).tolist() if n != unit]

    def lags(self, effect, cause, n_lags):
        """Lags up to `n_lags` that a link may act at."""
        every = np.arange(1, n_lags + 1)
        return [int(lag) for lag in (every if self.known is None else self.known.lags(effect, cause, every))]

    def is_linked(self, effect, cause):
        """Whether the plant has the link."""
        return bool(self.kernel(effect, cause).any())

    def kernel(self, effect, cause):
        """Coefficients of a link, (q, p, p_cause)."""
        rows, cols = self.partition.slices[effect], self.partition.slices[cause]
        return self.A[:, rows, cols]

    def first_lag(self, effect, cause):
        """The lag at which a link is strongest."""
        sizes = [self.strength(effect, cause, block) for block in self.kernel(effect, cause)]
        return 1 + int(np.argmax(sizes))

    def shifts(self, effect, cause):
        """Rows by which a link may move."""
        active = 1 + np.flatnonzero(self.kernel(effect, cause).any(axis=(1, 2)))
        allowed = self.lags(effect, cause, self.n_lags + FURTHER_LAGS)
        moves = [*range(1 - int(active[0]), 0), *range(1, FURTHER_LAGS + 1)]
        return [move for move in moves if set(active + move) <= set(allowed)]

    def strength(self, effect, cause, blocks):
        """Norm of blocks (..., p, p_cause) in standardised states."""
        rows, cols = self.partition.slices[effect], self.partition.slices[cause]
        standard = np.linalg.solve(self.scale[rows, rows], blocks) @ self.scale[cols, cols]
        return float(np.linalg.norm(standard))

    def usual_strength(self, default):
        """The median strength of the plant's links."""
        linked = [(m, n) for m, n in self.partition.pairs if self.is_linked(m, n)]
        found = [self.strength(m, n, self.kernel(m, n)) for m, n in linked]
        return float(np.median(found)) if found else default

    def of_strength(self, effect, cause, strength):
        """Size of each element, (p, p_cause), of a block whose elements share a strength evenly."""
        rows, cols = self.partition.slices[effect], self.partition.slices[cause]
        sizes = np.outer(np.diag(self.scale)[rows], 1 / np.diag(self.scale)[cols])
        return strength * sizes / np.sqrt(sizes.size)

    def left_out(self, effect, cause):
        """What the record of the plant says of a block outside of it, flat, in the units' own states: and how surely.

        Estimate and covariance; None where there is no estimate.
        """
        if self.estimates is None:
            return None
        sizes = [self.partition.slices[m].stop - self.partition.slices[m].start for m in (effect, cause)]
        width, number = self.partition.padded.shape[1], self._number[effect, cause]
        kept = (np.arange(sizes[0])[:, None] * width + np.arange(sizes[1])).ravel()
        rows, cols = self.partition.slices[effect], self.partition.slices[cause]
        own = np.kron(self.scale[rows, rows], np.linalg.inv(self.scale[cols, cols]).T)
        covariance = self.estimates.covariance[number][np.ix_(kept, kept)]
        return own @ self.estimates.estimate[number, kept], own @ covariance @ own.T

    @cached_property
    def _number(self):
        pairs = self.partition.pairs if self.pairs is None else self.pairs
        number = np.full((self.partition.n_units, self.partition.n_units), -1)
        number[tuple(pairs.T)] = np.arange(len(pairs))
        return number


# -- filters of a plant that changes ---------------------------------------------------------------------


class ChangingRun:
    """Filters of the same record, each from some row on to where the next one begins."""

    def __init__(self, rows, runs, n_samples):
        self._slices = [slice(a, b) for a, b in zip(rows, [*rows[1:], n_samples], strict=True)]
        self._runs = runs

    def _joined(self, series):
        return np.concatenate([x[rows] for x, rows in zip(series, self._slices, strict=True)])

    @property
    def filtered(self):
        """``E[h_t | messages up to t]``, (n_samples, n)."""
        return self._joined([run.filtered for run in self._runs])

    @property
    def predicted(self):
        """``E[h_t | messages up to t - 1]``, (n_samples, n)."""
        return self._joined([run.predicted for run in self._runs])

    def unit_covariances(self, slices):
        """Covariance of each unit's predicted states at every row."""
        by_run = [run.unit_covariances(slices) for run in self._runs]
        return [self._joined([found[k] for found in by_run]) for k in range(len(slices))]


def changed_run(plant, changes, filter_of):
    """The filter that knows of changes of links by (effect, cause), from their dates on.

    A change that leaves no stable plant is left out: a filter begins with the states' stationary spread.
    """
    lags_from, lags = {0: plant.A}, plant.A  # by row
    for (effect, cause), change in sorted(changes.items(), key=lambda item: item[1].since):
        changed = with_kernel(lags, plant.partition, effect, cause, change.kernel)
        if spectral_radius(companion(np.hstack(list(changed)), len(changed))) < 1 - 1e-6:
            lags = lags_from[int(change.since)] = changed
    runs = [filter_of(lags) for lags in lags_from.values()]
    return runs[0] if len(runs) == 1 else ChangingRun([*lags_from], runs, len(runs[0].filtered))


def with_kernel(lags, partition, effect, cause, kernel):
    """Coefficients (q, n, n) with others for one link."""
    n_lags = max(len(lags), 1 + max(np.flatnonzero(kernel.any(axis=(1, 2))), default=0))
    changed = np.zeros((n_lags, *lags.shape[1:]))
    changed[: len(lags)] = lags
    rows, cols = partition.slices[effect], partition.slices[cause]
    changed[:, rows, cols] = 0.0
    changed[: len(kernel), rows, cols] = kernel[:n_lags]
    return changed


# What may have changed in the rows of one unit: directions of its coefficients, and how they would show.

SCALED, MOVED, BLOCK, NEW, OWN, LEVEL, INPUT = "scaled", "moved", "block", "new", "own", "level", "input"
LESS, _MORE, _MOVES, _FREE = 0.6, 0.2, 0.1, 0.1  # shares of a link's chance of a false report
USUAL_LAGS = 0.7  # share of a new link's chance that lags of the plant have


class Hypothesis(NamedTuple):
    """What may have changed, by how many rows, and its regressors (n_rows, c), None of a variance."""

    kind: str
    shift: int
    regressors: np.ndarray | None


@dataclass(frozen=True)
class Group:
    """Hypotheses with as many coefficients each: whose, what sort, by how many rows."""

    sources: np.ndarray  # (n_hypotheses,), a unit; the effect itself for its own changes
    kinds: tuple[str, ...]
    shifts: np.ndarray  # (n_hypotheses,): lags moved by, or the lag of a new link
    regressors: np.ndarray  # (n_rows, n_hypotheses, c): of the white innovations, rows of the record by directions
    # (n_rows, n_hypotheses): what coefficients that the plant left out added to the record it is from
    known: np.ndarray
    sides: np.ndarray  # (n_hypotheses,): sign of the only coefficient, zero where either is looked for
    shares: np.ndarray  # (n_hypotheses,), of the chance of a false report of its cause

    def numbers(self, kind):
        """Which of them are of a sort."""
        return [k for k, other in enumerate(self.kinds) if other == kind]

    def beyond(self, basis, kind):
        """Those of a sort, of what a basis (n_rows, k) of orthonormal series leaves of their regressors."""
        own = self.numbers(kind)
        Z = self.regressors[:, own]
        Z = Z - np.tensordot(basis, np.tensordot(basis.T, Z, 1), 1)
        at = {name: getattr(self, name)[own] for name in ("sources", "shifts", "sides", "shares")}
        return replace(self, kinds=(kind,) * len(own), regressors=Z, known=self.known[:, own], **at)

    def one(self, number):
        """One :class:`Hypothesis`."""
        return Hypothesis(self.kinds[number], int(self.shifts[number]), self.regressors[:, number])


class _Candidate(NamedTuple):
    """One hypothesis of a unit, as the columns of a `Group` have it."""

    source: int
    kind: str
    shift: int
    regressors: np.ndarray
    known: np.ndarray | None = None
    side: int = 0
    share: float = 1.0


def unit_hypotheses(unit, responses, plant, inputs):
    """Groups of all hypotheses about the rows of one unit; `plant` is a :class:`~.plant.LearnedPlant`."""
    found, own = [], plant.partition.slices[unit]
    fixed = [responses.block(lag, own) for lag in range(1, plant.n_lags + 1)]
    for cause in plant.causes(unit):
        if plant.is_linked(unit, cause):
            cols = plant.partition.slices[cause]
            fixed += [responses.block(lag, cols) for lag in range(1, plant.n_lags + 1)]
            found += _of_link(unit, cause, responses, plant)
    known = np.hstack([x.reshape(len(x), -1) for x in fixed])
    known = known[:, known.any(axis=0)]
    for cause in plant.causes(unit):
        if not plant.is_linked(unit, cause):
            found += _of_gap(unit, cause, responses, plant, known)
    block = responses.block(1, own)
    found.append(_Candidate(unit, OWN, 0, block.reshape(len(block), -1)))
    found.append(_Candidate(unit, LEVEL, 0, responses.level))
    if inputs.shape[1]:
        found.append(_Candidate(unit, INPUT, 0, responses.pushed(inputs)))
    return _grouped(found)


def _of_link(unit, cause, responses, plant):
    """A link with less or more gain, moved, or its block free."""
    cols, kernel = plant.partition.slices[cause], plant.kernel(unit, cause)
    scaled = responses.kernel(kernel, cols)[:, None]
    yield _Candidate(cause, SCALED, 0, scaled, side=-1, share=LESS)
    yield _Candidate(cause, SCALED, 0, scaled, side=1, share=_MORE)
    shifts = plant.shifts(unit, cause)
    for shift in shifts:
        change = shifted(kernel, shift, responses.n_lags) - shifted(kernel, 0, responses.n_lags)
        moved = responses.kernel(change, cols)[:, None]
        yield _Candidate(cause, MOVED, shift, moved, side=1, share=_MOVES / len(shifts))
    if kernel[0].size > 1:
        block = responses.block(plant.first_lag(unit, cause), cols)
        yield _Candidate(cause, BLOCK, 0, block.reshape(len(block), -1), share=_FREE)


def _of_gap(unit, cause, responses, plant, fixed):
    """A link where the plant has none, at every lag; the training record says what it is at the first."""
    cols, left_out = plant.partition.slices[cause], plant.left_out(unit, cause)
    for lag in plant.lags(unit, cause, responses.n_lags):
        block = responses.block(lag, cols)
        block, known = block.reshape(len(block), -1), None
        if lag == 1 and left_out is not None:
            estimate, covariance = left_out
            rest = block - fixed @ np.linalg.lstsq(fixed, block, rcond=None)[0]
            # gaps may have kept the record it is from from telling as much of every direction as this one
            expected = rest.T @ rest * plant.n_samples / len(responses)
            if np.linalg.eigvals(covariance @ expected).real.max() < TUNING.hypotheses_less_sure:
                known = rest @ estimate
        share = USUAL_LAGS / plant.n_lags if lag <= plant.n_lags else (1 - USUAL_LAGS) / FURTHER_LAGS
        yield _Candidate(cause, NEW, lag, block, known, share=share)


def shifted(kernel, shift, n_lags):
    """Coefficients (q, p, c) that act `shift` rows later, for `n_lags` lags."""
    moved = np.zeros((n_lags, *kernel.shape[1:]))
    kept = kernel[max(-shift, 0) : max(n_lags - shift, 0)]
    moved[max(shift, 0) :][: len(kept)] = kept
    return moved


def _grouped(found):
    """Hypotheses by their number of coefficients."""
    groups = []
    for c in sorted({x.regressors.shape[1] for x in found}):
        own = [x for x in found if x.regressors.shape[1] == c]
        nothing = np.zeros(len(own[0].regressors))
        groups.append(
            Group(
                sources=np.array([x.source for x in own]),
                kinds=tuple(x.kind for x in own),
                shifts=np.array([x.shift for x in own]),
                regressors=np.stack([x.regressors for x in own], axis=1),
                known=np.column_stack([nothing if x.known is None else x.known for x in own]),
                sides=np.array([x.side for x in own]),
                shares=np.array([x.share for x in own]),
            )
        )
    return groups


# What a unit's messages say beyond the learned plant, and how changes of its coefficients would show there.


@dataclass(frozen=True)
class UnitInnovations:
    """Innovations of one unit given the past of all, white with unit covariance under the plant.

    A push ``d_t`` into the unit's states that the plant does not know of moves their prediction by
    ``e_t = F_1 G e_(t-1) + F_2 G e_(t-2) + ... + d_t``, where `G` is what the unit's own measurements leave of
    an error, and the mean of the innovations by ``maps_t @ e_t``.
    """

    white: np.ndarray  # (n_samples, p)
    maps: np.ndarray  # (n_samples, p, p), zero where nothing was measured
    left: np.ndarray  # (n_samples, p, p)
    ranks: np.ndarray  # (n_samples,), directions that have any variance
    own: np.ndarray  # (n_lags, p, p), F
    starts: tuple[int, ...]

    def responses(self, series):
        """Errors of the prediction for a push of each series into each state, (n_samples, p, p, k).

        The axes are rows of the record, states with an error, the state pushed, and columns of `series`
        (n_samples, k): the push of a row.
        """
        n_samples, p = self.white.shape
        k = series.shape[1]
        out = np.zeros((n_samples, p, p * k))
        out.reshape(n_samples, p, p, k)[:, np.arange(p), np.arange(p)] = series[:, None]
        for start, stop in episodes(self.starts, n_samples):
            after: list[np.ndarray] = []
            for t in range(start, stop):
                for F, error in zip(self.own, after, strict=False):
                    out[t] += F @ error
                after = [self.left[t] @ out[t], *after[: len(self.own) - 1]]
        return out.reshape(n_samples, p, p, k)


def unit_innovations(run, record, A):
    """:class:`UnitInnovations` of every unit, from a filter over a record and the plant's lags (q, n, n)."""
    slices, predicted = record.partition.slices, run.predicted
    found = []
    for part, own, P in zip(record.parts, slices, run.unit_covariances(slices), strict=True):
        J = part.matrices(slice(None))
        residual = part.z - np.einsum("tij,tj->ti", J, predicted[:, own])
        # residuals in information form have the covariance J + J P J; rows without measurements have none
        kinds, index = _kinds(J, P)
        root, rank = _inverse_roots(kinds[0] + kinds[0] @ kinds[1] @ kinds[0])
        left = np.linalg.inv(np.eye(J.shape[1]) + kinds[1] @ kinds[0])
        white = np.einsum("tij,tj->ti", root[index], residual)
        maps = (root @ kinds[0])[index]
        found.append(UnitInnovations(white, maps, left[index], rank[index], A[:, own, own], record.starts))
    return found


def _kinds(J, P):
    """Distinct pairs of matrices of rows, and which one every row has."""
    flat = np.hstack([np.broadcast_to(J, P.shape).reshape(len(P), -1), P.reshape(len(P), -1)])
    unlike = np.flatnonzero(np.append(True, (flat[1:] != flat[:-1]).any(axis=1)))
    lengths = np.diff(np.append(unlike, len(flat)))
    kinds = flat[unlike].reshape(len(unlike), 2, *P.shape[1:])
    return (kinds[:, 0], kinds[:, 1]), np.repeat(np.arange(len(unlike)), lengths)


def _inverse_roots(matrices):
    """``V^-1/2`` of every matrix on the directions that have any variance, and their number."""
    values, vectors = np.linalg.eigh(matrices)
    kept = values > TUNING.innovations_rank * np.maximum(values[:, -1:], 1e-300)
    scale = np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return (vectors * scale[:, None, :]) @ np.swapaxes(vectors, 1, 2), kept.sum(axis=1)


# -- responses -------------------------------------------------------------------------------------------


class UnitResponses:
    """How changes of one unit's coefficients would show in its white innovations."""

    def __init__(self, innovations, states, n_lags):
        self._innovations, self.n_lags = innovations, n_lags
        self._errors = innovations.responses(_before(states, innovations.starts, 1))

    def __len__(self):
        return len(self._innovations.white)

    @property
    def n_rows(self):
        """Rows of the record times states of the unit."""
        return self._innovations.white.size

    def block(self, lag, cols):
        """Regressors of the elements of a block at a lag, (n_rows, p, n_cols)."""
        return self._seen(_before(self._errors[..., cols], self._innovations.starts, lag - 1))

    def kernel(self, lags, cols):
        """Regressor of coefficients ``lags[k]`` (n_lags, p, n_cols) at the lags from one on, (n_rows,)."""
        found = np.zeros(self.n_rows)
        for lag, values in enumerate(lags, 1):
            if values.any():
                found += np.einsum("rij,ij->r", self.block(lag, cols), values)
        return found

    @cached_property
    def level(self):
        """Regressors of another level of each state, (n_rows, p)."""
        return self.pushed(np.ones((len(self._innovations.white), 1)))

    def pushed(self, series):
        """Regressors of pushes of each series into each state, (n_rows, p * k)."""
        return self._seen(self._innovations.responses(series)).reshape(self.n_rows, -1)

    def _seen(self, errors):
        seen = np.einsum("tab,tbij->taij", self._innovations.maps, errors)
        return seen.reshape(self.n_rows, *errors.shape[2:])


def _before(series, starts, n_rows):
    """The series of so many rows before, zero where an episode begins."""
    if not n_rows:
        return series
    late = np.zeros_like(series)
    for start, stop in episodes(starts, len(series)):
        late[start + n_rows : stop] = series[start : max(stop - n_rows, start)]
    return late
