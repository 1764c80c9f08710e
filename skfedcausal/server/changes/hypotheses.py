"""What may have changed in the rows of one unit: directions of its coefficients, and how they would show."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .plant import FURTHER_LAGS
from .tuning import TUNING

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
