"""Noise of sensors with a memory, as a unit's measurement model: quasi-differences, and states of two rows.

Of ``y[t] = mean + C h[t] + n[t]`` with ``n[t] = phi n[t-1] + e[t]`` and white e the quasi-difference ``y[t] - phi
(y[t-1] - mean)`` has white noise and sees two rows of states, ``[C, -phi C] (h[t], h[t-1])`` [1]_. These follow one
lag, so filter, likelihood and message are those of any unit. Nothing is known of n before an episode: its first row
counts as missing, which is exact.

.. [1] Bryson, Henrikson (1968), Estimation using sampled data containing sequentially correlated noise, Journal of
       Spacecraft and Rockets 5(6).
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..statespace.episodes import inner_rows
from ..statespace.matrices import cap_radius, floor_eigenvalues
from .given import COMPLETE
from .identification import identify
from .moments import Moments
from .records import check_identifiable

_MAX_RADIUS = 0.995
_STATE_FLOOR = 1e-2  # share of a state's variance that is signal at least
_GRID = (0.0, 0.2, 0.35, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.96, 0.98)  # memories looked at first
_STEPS, _TOLERANCE = 10, 1e-3  # of the search from there on
_LARGEST = 0.99  # that is found: beyond it noise is a trend
_FEWEST = 4.0  # standard errors from zero of a memory
_START = 1e-3  # of the noise of the states, as that of the row before, from which a server learns


@dataclass(frozen=True, eq=False)
class Remembered:
    """What is taken off a record beside a baseline: the part of the noise that the row before tells, and the rest."""

    memory: float
    mean: np.ndarray  # of the sensors, less the baseline
    active: np.ndarray  # columns that the model uses
    inner: Any = None  # baseline of seasons and the like

    @property
    def known(self):
        """Positions of columns that are modes and no measurements."""
        return () if self.inner is None else self.inner.known

    def of(self, Y, index=None, starts=(0,), after=None):
        """What is to be taken off measurements, NaN in the first row of an episode, and the number of the last row."""
        off, last = (np.zeros(Y.shape), after) if self.inner is None else self.inner.of(Y, index, starts, after)
        remembered = self.memory * _before(Y - off - self.mean, starts)
        return off + np.where(self.active, remembered, 0.0), last

    def put_back(self, values, Y, index=None, starts=(0,)):
        """Predicted measurements of predicted quasi-differences: what the row before lacks is as it was predicted."""
        off = np.zeros(Y.shape) if self.inner is None else self.inner.of(Y, index, starts)[0]
        before = np.where(self.active, _before(Y - off - self.mean, starts), 0.0)
        expected = values - self.mean + self.memory * np.nan_to_num(before)
        lacking = np.isnan(before)
        lacking[list(starts)] = False  # nothing is known of the noise there
        for row in np.flatnonzero(lacking.any(axis=1)):
            which = lacking[row]
            expected[row, which] += self.memory * expected[row - 1, which]
        return expected + self.mean + off


def _before(rest, starts):
    """The row before each row, NaN in the first of an episode."""
    before = np.full(rest.shape, np.nan)
    if len(rest):
        inside = inner_rows(len(rest), starts)
        before[inside] = rest[inside - 1]
    return before


def check_memory(memory, given, settings, added):
    """Refuse what noise with a memory is not worked out for."""
    if not isinstance(memory, str) and not 0 <= memory < 1:
        raise ValueError(
            f"noise_memory={memory!r}: noise of sensors that remembers all of the row before, or more, never settles. "
            "Give a number from 0 to below 1, 'auto', or levels='wander' for sensors that wander."
        )
    asked = [name for name, value in settings.items() if value is not None]
    if asked:
        raise ValueError(f"noise_memory={memory!r} does not go with {', '.join(asked)}: leave one of them out.")
    if given and (memory == "auto" or given.keys() != COMPLETE):
        raise ValueError(
            f"noise_memory={memory!r} with {', '.join(sorted(given))} given: give A, C, Q and R and a number, or none "
            "of the matrices."
        )
    if added.any():
        raise ValueError(
            "noise_memory: noise for privacy has no memory, and lies on top of noise that has one. Leave one of them "
            "out."
        )


def found(rest, memory, starts, settings, name):
    """Memory of the noise of measurements less their level, and the model of the states of one row.

    `settings` are the method of identification and the number of states; no model comes with a memory of zero.
    """
    _check_pairs(rest, memory, starts, settings[1], name)
    try:
        return _found(rest, memory, starts, settings, name)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            f"noise_memory={memory!r}: what rows of {name} differ from the rows before does not let its states be told "
            f"apart ({error}). Give fewer states (n_states) or a longer record, or leave noise_memory out."
        ) from error


def _found(rest, memory, starts, settings, name):
    """The same of a record that was checked."""
    is_sought = memory == "auto"
    if is_sought:
        memory = _found_memory(rest, starts, settings, name)
    if memory == 0:
        return 0.0, None
    model = identify(_moments(rest, memory, starts), *settings)
    A, Q = _dynamics(rest, model, memory, starts)
    model = replace(model, A=A, Q=Q)
    if is_sought and not _is_better(model, memory, rest, starts, settings):
        return 0.0, None
    return memory, model


def _check_pairs(rest, memory, starts, n_states, name):
    """Refuse a record in which a sensor is hardly ever there in two rows, one after the other."""
    differences, firsts = _differences(rest, 0.0 if memory == "auto" else memory, starts)
    n_pairs = int(np.isfinite(differences).sum(axis=0).min())
    wanted = (min(rest.shape[1], 2) if n_states == "auto" else n_states) + 3
    try:
        if n_pairs < wanted:
            raise ValueError(
                f"A sensor of {name} is there, and was in the row before, in {n_pairs} rows; at least {wanted} are "
                "needed. Leave the sensor out, or give rows without gaps."
            )
        check_identifiable(differences, n_states, firsts, f"{name} (less the first of each episode)")
    except ValueError as error:
        raise ValueError(f"noise_memory={memory!r}: {error} Or leave noise_memory out.") from error


def _is_better(model, memory, rest, starts, settings):
    """Whether a model with a memory has the smaller Bayesian information criterion than one without."""
    inside = inner_rows(len(rest), starts)
    white = identify(Moments(rest, np.zeros(rest.shape[1]), starts), *settings)
    gain = doubled(model, memory).log_likelihood(rest - memory * _before(rest, starts), starts=starts)[inside].sum()
    gain -= white.log_likelihood(rest, starts=starts)[inside].sum()
    more = _n_parameters(model) + 1 - _n_parameters(white)
    return bool(gain > 0.5 * more * np.log(len(inside)))


def _n_parameters(model):
    d, p = model.C.shape
    return p * (p + 1) // 2 + d * (p + 1)


def doubled(model, memory):
    """The model of the quasi-differences of what `model` measures, in states of two rows."""
    A, C, Q = model.A, model.C, model.Q
    p = len(A)
    zero, one = np.zeros((p, p)), np.eye(p)
    return replace(
        model,
        A=np.block([[A, zero], [one, zero]]),
        C=np.hstack([C, -memory * C]),
        Q=np.block([[Q, zero], [zero, zero]]),
        unpredicted=None,
        products=None,
        initial=_doubled_start(model.initial),
    )


def _doubled_start(initial):
    """Mean and covariance of states of two rows; the first row tells nothing, so the row before it is of no matter."""
    if initial is None or isinstance(initial, str):
        return initial
    mean, cov = (np.asarray(part, dtype=float) for part in initial)
    return np.append(mean, np.zeros(len(mean))), np.pad(cov, (0, len(mean)))


def to_learn_from(model):
    """The model of :func:`doubled` with a little noise of every state, as learning keeps none that is zero."""
    p = model.n_states // 2
    size = _START * np.trace(model.Q) / p
    return replace(model, Q=model.Q + np.diag(np.repeat([0.0, size], p)))


def _differences(rest, memory, starts):
    """Quasi-differences, of all rows that have one before them, and the first rows of their episodes."""
    inside = inner_rows(len(rest), starts)
    firsts = sorted({int(np.searchsorted(inside, start)) for start in starts})
    return (rest - memory * _before(rest, starts))[inside], [first for first in firsts if first < len(inside)]


def _moments(rest, memory, starts):
    """Moments of quasi-differences."""
    differences, firsts = _differences(rest, memory, starts)
    return Moments(differences, np.zeros(rest.shape[1]), firsts)


def _found_memory(rest, starts, settings, name):
    """Where quasi-differences are white beside the states, which are at first taken to be half the sensors at most."""
    d = rest.shape[1]
    left = [_left_by_half(_moments(rest, memory, starts)) for memory in _GRID]
    memory = _GRID[int(np.argmin(left))]
    inside = inner_rows(len(rest), starts)
    for _ in range(_STEPS):
        model = identify(_moments(rest, memory, starts), *settings)
        if model.n_states >= d:
            warnings.warn(
                f"noise_memory='auto': the {model.n_states} states of {name} take up all of its {d} columns that "
                "vary, and noise shows beside states only, so it is taken to have no memory. Give a number, or fewer "
                "states (n_states).",
                stacklevel=2,
            )
            return 0.0
        root = np.sqrt(model.R)
        basis = np.linalg.qr(model.C / root[:, None])[0]
        beside = rest / root - rest / root @ basis @ basis.T
        before, memory = memory, min(max(_correlation(beside[inside], beside[inside - 1]), 0.0), _LARGEST)
        if abs(memory - before) < _TOLERANCE:
            break
    return memory if memory > _FEWEST / np.sqrt(len(inside) * (d - model.n_states)) else 0.0


def _left_by_half(moments):
    """Information between present and past beyond the largest half of the canonical correlations."""
    squared, _ = moments.canonical
    return float(-np.log1p(-squared[len(squared) // 2 :]).sum())


def _correlation(now, then):
    """Of all columns together, over the cells that both have."""
    both = np.isfinite(now) & np.isfinite(then)
    now, then = now[both], then[both]
    return float(now @ then / max(np.linalg.norm(now) * np.linalg.norm(then), np.finfo(float).tiny))


def _dynamics(rest, model, memory, starts):
    """A and Q of the states of one row: products of scores of the record less those of noise with its memory."""
    W = model.weights
    N = np.linalg.inv(model.C.T @ W)
    scores = rest @ W @ N
    inside = inner_rows(len(scores), starts)
    now, then = scores[inside], scores[inside - 1]
    seen = np.isfinite(now).all(axis=1) & np.isfinite(then).all(axis=1)
    now, then = now[seen], then[seen]
    if len(now) < len(N) + 3:
        raise np.linalg.LinAlgError(f"all sensors are there, and were in the row before, in {len(now)} rows only")
    noise, same = N / (1 - memory**2), (now.T @ now + then.T @ then) / (2 * len(now))
    floor = _STATE_FLOOR * np.trace(same) / len(same)
    G = floor_eigenvalues(same - noise, floor)
    A = cap_radius(np.linalg.solve(G, (now.T @ then / len(now) - memory * noise).T).T, _MAX_RADIUS)
    return A, floor_eigenvalues(G - A @ G @ A.T, floor)
