"""Known inputs: columns that stand for them, the part of the states that they drive, and effects of changing them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import block_diag, csr_array

from .episodes import episodes, fourier_sums
from .kalman import adjoint_lyapunov, driven_recurrence
from .matrices import eigen_root, floor_eigenvalues, sparse_diagonal, symmetric_root
from .tuning import TUNING

# Known inputs: the part of the states that they drive, its spectrum, and the effect of changing them.

_MANY = 400  # states, from which on powers of a matrix cost more than all rows of an effect, one by one


def input_term(B, u, starts=(0,)):
    """Known term ``B u[t-1]`` of the state equation at each row, zero in the first row of an episode."""
    term = np.empty((len(u), len(B)))
    np.dot(u[:-1], B.T, out=term[1:])
    term[list(starts)] = 0.0
    return term


class DrivenSpectrum:
    """Spectrum of the regressors ``[h; u]`` as far as the inputs determine it.

    The lag covariances of the inputs, and those of the states with the inputs, are taken from the record;
    those of the driven states with themselves follow from the state equation, whatever the inputs did
    before the lags that are kept:

        ``X(0) = A X(0) A' + A G_hu(0) B' + B G_uh(0) A' + B G_uu(0) B'``,  ``X(l) = A X(l-1) + B G_uh(l-1)``.

    Inputs that depend on the noise (feedback) correlate with the states beyond what they drive; X(0) is kept
    at least at what the inputs of the same time step explain.
    """

    def __init__(self, moments, n, frequencies):
        self._moments, self._n = moments, n
        self._phase = np.exp(-1j * np.outer(frequencies, np.arange(1, len(moments))))

    def covariance(self, A, B):
        """Covariance of the driven states, ``X(0)``."""
        n, first = self._n, self._moments[0]
        same, inputs = first[..., :n, n:], first[..., n:, n:]
        cross = A @ same @ np.swapaxes(B, -1, -2)
        own = B @ inputs @ np.swapaxes(B, -1, -2)
        X = adjoint_lyapunov(np.swapaxes(A, -1, -2), own + cross + np.swapaxes(cross, -1, -2))
        explained = same @ np.linalg.solve(inputs, np.swapaxes(same, -1, -2))
        return explained + floor_eigenvalues(X - explained, 0.0)

    def at(self, A, B):
        """Spectrum for one plant or a stack of plants, shape (..., n_frequencies, c, c)."""
        n = self._n
        G = self._moments.copy()
        G[0, ..., :n, :n] = self.covariance(A, B)
        for lag in range(1, len(G)):
            G[lag, ..., :n, :n] = A @ G[lag - 1, ..., :n, :n] + B @ G[lag - 1, ..., n:, :n]
        return fourier_sums(G, G, self._phase)


class FeedbackGains(NamedTuple):
    """Linear laws ``u[t] = K0 h[t] + K1 h[t-1] + F u[t-1] + ...`` of the controllers of a plant.

    Rows of inputs that no controller moves are zero.
    """

    present: np.ndarray  # (k, n)
    previous: np.ndarray  # (k, n)
    persistence: np.ndarray  # (k, k)

    def step(self, A, B):
        """Transition matrix of ``[h[t]; h[t-1]; u[t-1]]`` with the loops closed."""
        n, law = len(A), np.hstack([self.present, self.previous, self.persistence])
        moved = B @ law
        moved[:, :n] += A
        return np.vstack([moved, np.eye(n, law.shape[1]), law])

    def scaled(self, S, D):
        """The laws for states ``S^-1 h`` and inputs ``D^-1 u``, D a vector."""
        inverse = 1 / D[:, None]
        return FeedbackGains(inverse * self.present @ S, inverse * self.previous @ S, inverse * self.persistence * D)


class BlockCovariance(NamedTuple):
    """Covariance of elements in groups that are independent of each other, one matrix for each."""

    blocks: list

    def diagonal(self):
        """Variances."""
        return np.concatenate([block.diagonal() for block in self.blocks])

    def of(self, chosen):
        """That of chosen elements, a boolean for each."""
        parts = np.split(chosen, np.cumsum([len(block) for block in self.blocks])[:-1])
        few = [block[np.ix_(part, part)] for block, part in zip(self.blocks, parts, strict=True) if part.any()]
        return BlockCovariance(few)

    def root(self):
        """A sparse square root."""
        return block_diag([symmetric_root(block) for block in self.blocks], format="csr")


class Response(NamedTuple):
    """Effect of a change of inputs."""

    effect: np.ndarray  # (n_steps, n)
    regressors: np.ndarray  # (n_steps, n + k)
    step: np.ndarray  # (N, N)


def input_response(A, B, change, gains=None):
    """Effect of a change of inputs on the states one step later and on."""
    n, k = B.shape
    if gains is None:
        step, drive = A, B
    else:
        step, drive = gains.step(A, B), np.vstack([B, np.zeros((n, k)), np.eye(k)])
    states = _driven(step, drive, change)
    before = np.vstack([np.zeros(n), states[:-1, :n]])
    inputs = change if gains is None else states[:, 2 * n :]
    return Response(states[:, :n], np.hstack([before, inputs]), step)


def _driven(step, drive, change):
    """States ``x[t] = step x[t-1] + drive change[t]``, along the links of a plant of many states."""
    if len(step) <= _MANY:
        return driven_recurrence(step, (np.ascontiguousarray(change), drive))
    states, step = change @ drive.T, csr_array(step)
    for t in range(1, len(states)):
        states[t] += step @ states[t - 1]
    return states


def response_covariances(response, rows, cols, covariance, blocks):
    """Covariance of an estimated effect by the delta method.

    The derivatives of the effect follow its own equation, ``dh[j+1] = A dh[j] + d[A | B] x[j]`` with the
    regressors ``x[j] = [h[j]; u[j]]``; they are run for the columns of a square root of the covariance.
    Controllers count as known. Of a `BlockCovariance` the root is sparse, and so is the step of a large plant.
    """
    n_steps = len(response.effect)
    found = [np.zeros((n_steps, b.stop - b.start, b.stop - b.start)) for b in blocks]
    if not len(rows):
        return found
    if isinstance(covariance, BlockCovariance):
        return _of_large_plant(response, rows, cols, covariance, (found, blocks))
    order = np.argsort(rows, kind="stable")
    root = eigen_root(covariance)[order]
    cols = cols[order]
    present, first = np.unique(rows[order], return_index=True)
    derivative = np.zeros((len(response.step), root.shape[1]))
    for j, x in enumerate(response.regressors):
        derivative = response.step @ derivative
        derivative[present] += np.add.reduceat(root * x[cols, None], first, axis=0)
        for out, block in zip(found, blocks, strict=True):
            out[j] = derivative[block] @ derivative[block].T
    return found


def _of_large_plant(response, rows, cols, covariance, wanted):
    """The same of a `BlockCovariance`, covariances of blocks added to what is `wanted`: (found, blocks).

    What inputs hardly move does not count: of a thousand units one input reaches a few dozen.
    """
    reached = np.abs(response.regressors).max(axis=0)[cols] * np.sqrt(covariance.diagonal())
    kept = reached > TUNING.inputs_negligible * reached.max()
    if not kept.any():  # a change of nothing
        return wanted[0]
    root, rows, cols = covariance.of(kept).root(), rows[kept], cols[kept]
    step, size = csr_array(response.step), (len(response.step), len(rows))
    place = csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=size)
    derivative = np.zeros((len(response.step), root.shape[1]))
    found, blocks = wanted
    for j, x in enumerate(response.regressors):
        derivative = step @ derivative
        moved = (place @ sparse_diagonal(x[cols]) @ root).tocoo()
        derivative[moved.row, moved.col] += moved.data
        for out, block in zip(found, blocks, strict=True):
            out[j] = derivative[block] @ derivative[block].T
    return found


# Columns that stand for an input: bases of its values, the row in which it is sent, and what its set point tells.
#
# The part of an input that follows a set point, its instrument, has no hidden cause.

BASES = ("linear", "spline")
_KNOTS = (0.25, 0.5, 0.75)  # quantiles at which a spline may bend
WEAK = 10.0  # F statistic below which an instrument says next to nothing (Staiger and Stock, 1997)
_MOST_LAGS, _ROWS_PER_LAG = 20, 20  # of an instrument that its input follows, and rows of the record for each


@dataclass(frozen=True)
class Spline:
    """A piecewise linear curve that may bend at some values: columns u, (u - k_1)+, (u - k_2)+, ..."""

    knots: tuple[float, ...]

    def __call__(self, u):
        return np.column_stack([u, *(np.maximum(u - knot, 0.0) for knot in self.knots)])


def quartile_spline(u):
    """The spline that bends at the quartiles of a series."""
    return Spline(tuple(float(k) for k in np.unique(np.quantile(u, _KNOTS))))


def basis_columns(function, u, name):
    """Columns of a basis, checked."""
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused
            columns = np.asarray(function(u), dtype=float)
    except Exception as error:
        error.add_note(f"This came from the basis of input {name!r}, which is called with an array of its values.")
        raise
    columns = columns[:, None] if columns.ndim == 1 else columns
    if columns.ndim != 2 or len(columns) != len(u) or not np.isfinite(columns).all():
        raise ValueError(
            f"The basis of input {name!r} gave an array of shape {columns.shape} for {len(u)} values, or "
            "numbers that are not finite; give one row per value."
        )
    return columns


def independent_columns(columns, name):
    """Positions of columns that those before them do not determine."""
    centred = columns - columns.mean(axis=0)
    kept: list[int] = []
    for k, column in enumerate(centred.T):
        known = centred[:, kept]
        rest = column - known @ np.linalg.lstsq(known, column, rcond=None)[0] if kept else column
        if rest @ rest > TUNING.input_basis_independent * (column @ column):
            kept.append(k)
    if not kept:
        raise ValueError(
            f"The basis of input {name!r} gave columns that never move, though the input does. Give functions that "
            "change over its values."
        )
    return kept


def a_row_ahead(columns, early, starts):
    """Columns of a record, those that are `early` a row ahead; the last value of an episode has no row to act on."""
    columns = columns.copy()
    for start, stop in episodes(starts, len(columns)):
        rows = columns[start:stop]
        rows[:-1, early] = rows[1:, early]
    return columns


def followed_law(u, instrument, starts):
    """How an input follows its instrument: coefficients of it now and in the rows before, and a level."""
    n_lags = int(np.clip(len(u) // _ROWS_PER_LAG, 0, _MOST_LAGS))
    return np.linalg.lstsq(_lagged(instrument, starts, n_lags), u, rcond=1e-10)[0]


def explained(law, instrument, starts):
    """What an instrument explains of its input, by the law that this follows."""
    return _lagged(instrument, starts, len(law) - 2) @ law


def explained_change(law, change, starts):
    """How an input changes when its instrument changes."""
    return _lagged(change, starts, len(law) - 2)[:, :-1] @ law[:-1]


def strength(u, part, n_coefficients):
    """Share of the variance of an input that is explained, and the F statistic of that."""
    total, rest = np.square(u - u.mean()).sum(), np.square(u - part).sum()
    share = 1 - rest / total if total else 0.0
    freedom = max(len(u) - n_coefficients, 1)
    if rest <= 0:
        return 1.0, np.inf
    statistic = (total - rest) / max(n_coefficients - 1, 1) / (rest / freedom)
    return float(np.clip(share, 0.0, 1.0)), float(statistic)


def _lagged(z, starts, n_lags):
    """An instrument now and in the rows before, its first value before an episode, and a level, (n_samples, .)."""
    found = np.ones((len(z), n_lags + 2))
    for start, stop in episodes(starts, len(z)):
        rows = np.arange(start, stop)
        for lag in range(n_lags + 1):
            found[rows, lag] = z[np.maximum(rows - lag, start)]
    return found
