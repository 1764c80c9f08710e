"""What a change of inputs does to the states of units, by the responses that were learned."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg

from ...message.states import EffectReply
from ..planning import Impulses
from .runs import run
from .tuning import TUNING

_FEW = 1.11  # times the error by ten stretches, as quantiles of t are of those of a normal distribution
_TINY = 1e-12


@dataclass(frozen=True, eq=False, kw_only=True)
class Chosen:
    """Lags and ridge that runs over rows left out chose.

    Attributes
    ----------
    scale, input_scale : ndarray of shape (n,) and (q,)
    radius : float
        Spectral radius of the plant under given inputs, before models are made to settle.
    chosen : tuple of (int, float)
        Lags and ridge.
    losses : ndarray of shape (h, n) or None
        Mean squares of what these runs missed, in the rows ahead that choose.
    one_lag : float
        Times these that the best regression on one lag missed, in the mean.
    held_out : HeldOut or None
        The runs, as long as the record is at hand.
    """

    scale: np.ndarray
    input_scale: np.ndarray
    radius: float
    chosen: tuple
    losses: Any = None
    one_lag: float = 1.0
    held_out: Any = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Responses(Chosen):
    """Models of lags of the units' scores and inputs, with what rows left out say of them.

    Attributes
    ----------
    slices : dict of str to slice
        States of every unit.
    A : ndarray of shape (1 + n_folds, p * n, n)
        Of standardised states: from all rows, and without each stretch.
    C : ndarray of shape (1 + n_folds, (p + 1) * q, n)
        What inputs of lags 0 to p add.
    trust : ndarray of shape (q, n)
        Probability that the effect of an input on a state is real.
    missed, missed_mean : dict of str to ndarray of shape (h, p, p)
        Mean squares of what effects leave of rows left out, so many rows after the start, by unit, and of its mean over
        all rows until then.
    jumps : ndarray of shape (n,)
        Share of the news of a state that comes in jumps.
    low, high : ndarray of shape (q,)
        Range of the inputs.
    other : Responses or None
        The same with another timing of inputs, where both fit.
    wider : ndarray of shape (q, n) or float
        Times the errors by the models without a stretch that errors are at least.
    """

    slices: dict
    A: np.ndarray
    C: np.ndarray
    trust: np.ndarray
    missed: dict
    missed_mean: dict
    jumps: np.ndarray
    low: np.ndarray
    high: np.ndarray
    other: Any = None
    wider: Any = 1.0

    @property
    def lags(self):
        """Rows of states and inputs that a row follows from."""
        return self.chosen[0]

    @property
    def acts_at_once(self):
        """Whether some input acts in the row that it stands in."""
        return bool(self.C[:, : len(self.input_scale)].any() or (self.other is not None and self.other.acts_at_once))

    @property
    def rows_to_show(self):
        """Rows after which every input that moves and stays has done a fifth of the most that it does to any state."""
        q = len(self.input_scale)
        steps = np.broadcast_to(np.eye(q), (TUNING.answers_long, q, q))
        found = run(self.A[:1], self.C[:1], np.concatenate([np.zeros((self.lags, q, q)), steps]))[0]
        size = np.abs(found) * self.trust
        most = size.max(axis=0)
        late = (size < TUNING.answers_shown * most).cumprod(axis=0).sum(axis=0)
        return int(late[most > TUNING.answers_shown * most.max(axis=1, keepdims=True)].max(initial=0)) + 1

    def matrices(self):
        """What states and inputs add after 1, 2, ... and 0, 1, ... rows, (p, n, n) and (p + 1, n, q), as they are."""
        n, q = len(self.scale), len(self.input_scale)
        A = self.A[0].reshape(-1, n, n) / self.scale[:, None] * self.scale
        C = self.C[0].reshape(-1, q, n) / self.input_scale[:, None] * self.scale
        return A.transpose(0, 2, 1), C.transpose(0, 2, 1)

    def impulses(self, loadings, n_steps, early):
        """:class:`~..planning.Impulses` of sensors; inputs `early` (q,) were sent a row ahead."""
        n, q = len(self.scale), len(self.input_scale)
        pulses = np.zeros((self.lags + n_steps + 1, q, q))
        pulses[self.lags] = np.diag(1 / self.input_scale)
        found = run(self.A, self.C, pulses).reshape(-1, n_steps + 1, q, n) * (self.trust * self.scale)
        rows = np.where(early, np.arange(n_steps)[:, None] + 1, np.arange(n_steps)[:, None])
        shown = np.einsum("di,ftki->fdtk", loadings, np.take_along_axis(found, rows[None, :, :, None], axis=1))
        errors = np.sqrt(len(shown) - 2) * (shown[1:] - shown[1:].mean(axis=0))  # their mean square is the jackknife's
        return Impulses(shown[0], errors)

    def without_record(self):
        """The same without what is kept of the rows that it was learned from."""
        return replace(self, held_out=None)

    def effects(self, change, inputs=None, over=None):
        """An `EffectReply` for every unit.

        Parameters
        ----------
        change : ndarray of shape (n_steps, q)
            Of all inputs.
        inputs : ndarray of shape (n_steps, q), default=None
            To what they are changed; None where they stay within what was seen.
        over : slice, default=None
            Rows whose mean effect is asked for, too: errors of a model go up and down with its effect, so that its
            band is narrower than the mean of those of the rows.

        Returns
        -------
        dict of str to EffectReply
            Row j is the effect one step after row j of `change`, whose last row stays. With `over` the mean is one more
            row.
        """
        moves = np.vstack([change, change[-1:]]) / self.input_scale
        first = int(np.argmax(moves.any(axis=1)[1:]))  # among the rows that are answered
        e, errors = self._standard(moves)
        beyond = 0.0 if inputs is None else self._beyond(change, inputs)
        apart, count = self._apart(e, first), np.maximum(np.arange(len(e)) - first + 1, 1)[:, None, None]
        if self.other is not None:
            errors.append(self._between_timings(moves)[None])
        errors = [_with_mean(some, over, axis=1) for some in errors]
        if over is not None:
            errors[0][:, -1] *= _FEW
        replies = {}
        for name, own in self.slices.items():
            x, scale = e[:, own], self.scale[own]
            size = np.einsum("ti,tj->tij", x, x)
            V, x = 0.5 * size + np.cumsum(size, axis=0) / count, _with_mean(x, over)
            V = (TUNING.answers_curvature**2 + beyond**2) * np.vstack(
                [V, 1.5 * np.einsum("ti,tj->tij", x, x)[len(V) :]]
            )
            for some in errors:
                V += np.einsum("fti,ftj->tij", some[:, :, own], some[:, :, own])
            after = np.clip(np.arange(len(e)) - first, 0, len(self.missed[name]) - 1)
            jumps = apart[:, None, None] * self.missed[name][after]
            if over is not None:
                jumps = np.vstack([jumps, apart[over].mean() * self.missed_mean[name][after[over][-1:]]])
            root = np.sqrt(self.jumps[own])
            V += TUNING.answers_twice * jumps * root[:, None] * root
            replies[name] = EffectReply(x * scale, V * scale[:, None] * scale)
        return replies

    def between_timings(self, change):
        """Effect of a change (n_steps, q) less that with the other timing of inputs, an `EffectReply` by unit."""
        apart = self._between_timings(np.vstack([change, change[-1:]]) / self.input_scale) * self.scale
        return {name: EffectReply(apart[:, own]) for name, own in self.slices.items()}

    def _between_timings(self, moves):
        return self._standard(moves)[0] - self.other._standard(moves)[0]

    @property
    def in_doubt(self):
        """Inputs that may as well act in their own row, ndarray of bool of shape (q,)."""
        q = len(self.input_scale)
        return (self.other.C[0, :q] != self.C[0, :q]).any(axis=1) & ~self.C[0, :q].any(axis=1)

    def _standard(self, moves):
        """Effect on standardised states after every row of moves but the last one, and parts of its error.

        Every input's effect on a unit is shrunk by the share of its square over all rows that is no error of the
        models without a stretch (positive-part shrinkage), and that on a state by the trust that it is real.
        """
        acting = np.flatnonzero(moves.any(axis=0))
        alone = np.where(np.arange(moves.shape[1]) == acting[:, None, None], moves, 0.0).transpose(1, 0, 2)
        before = np.zeros((self.lags, *alone.shape[1:]))
        found = run(self.A, self.C, np.concatenate([before, alone]))[:, 1:]  # (1 + n_folds, n_steps, k, n)
        effect, parts = found[0], found[1:] - found[1:].mean(axis=0)
        parts *= np.sqrt((len(parts) - 1) / len(parts))
        parts *= np.broadcast_to(self.wider, self.trust.shape)[acting]
        trust = self.trust[acting]
        for k in range(len(acting)):
            for own in self.slices.values():
                effect[:, k, own] = _shrunk(effect[:, k, own], parts[:, :, k, own])
        doubts = (effect * np.sqrt(trust * (1 - trust))).transpose(1, 0, 2)
        return (effect * trust).sum(axis=1), [parts.sum(axis=2), doubts]

    def _beyond(self, change, inputs):
        """How far inputs are moved beyond the range that was seen, in such ranges."""
        width = np.maximum(self.high - self.low, _TINY)
        far = np.maximum(inputs - self.high, self.low - inputs) / width
        return float(np.where(change != 0, far, 0.0).max(initial=0.0))

    def _apart(self, effect, first):
        """How far the two worlds are apart after each row: 0 while they are one, near 1 when jumps fall elsewhere."""
        horizon = len(next(iter(self.missed.values())))
        total = np.cumsum(np.concatenate([np.zeros(horizon), np.square(effect).mean(axis=1)]))
        after = np.arange(len(effect)) - first
        mean = (total[horizon:] - total[:-horizon]) / np.clip(after + 1, 1, horizon)
        spread = np.hstack([np.diagonal(V, axis1=1, axis2=2) for V in self.missed.values()]).mean(axis=1)
        return mean / (mean + spread[np.clip(after, 0, horizon - 1)] + _TINY)


def _shrunk(effect, parts):
    """Effect (n_steps, p) of an input on a unit's states, less what may be error, along directions of these.

    Along those neither effect nor error have products with each other over all rows. States of a unit are its own
    choice: what is clear of a sensor may be a sum of what is unclear of each.
    """
    squares, errors = effect.T @ effect, np.einsum("fti,ftj->ij", parts, parts)
    squares += np.eye(len(squares)) * (_TINY + 1e-9 * np.trace(squares))
    share, directions = linalg.eigh(squares - TUNING.answers_found * errors, squares)
    return effect @ (directions * share.clip(0)) @ directions.T @ squares


def _with_mean(rows, over, axis=0):
    """Rows along an axis, and behind them the mean of some."""
    if over is None:
        return rows
    chosen = np.take(rows, np.arange(rows.shape[axis])[over], axis=axis)
    return np.concatenate([rows, chosen.mean(axis=axis, keepdims=True)], axis=axis)
