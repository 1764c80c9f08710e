"""Bounded least squares for schedules: least expected squared miss, by small moves, within bounds and rates."""

import numpy as np
from scipy.optimize import Bounds, lsq_linear, minimize

_RIDGE = 1e-3  # weight of moves in shares of the bounds beside a miss in standard deviations
_EXACT = 300  # moves up to which the active set is found
_NOTHING = 1e-8  # share of the largest weight of a combination of rows, squared
_PENALTIES = (1e2, 1e3, 1e4)  # of rates that are broken, in shares of the bounds


def least_moves(G, gap, errors, sd, now, wish):
    """Moves from where the inputs stand now, shape (n_steps, m).

    ``G`` (n_targets, n_rows, n_steps, m) says what moves do, `gap` (n_targets, n_rows) what they should do,
    `errors` how G may be wrong: the expected squared miss is that of G and the mean of those of its errors.
    """
    n_steps, m = G.shape[2:]
    width = wish.high - wish.low
    rows = len(gap[0])

    def scaled(matrix, share):
        return (matrix / sd[:, None, None, None] * width).reshape(-1, n_steps * m) * np.sqrt(share / rows)

    blocks = [scaled(G, 1.0), *(scaled(error, 1.0 / len(errors)) for error in errors)]
    M = np.vstack(blocks)
    b = np.concatenate([(gap / sd[:, None]).ravel() / np.sqrt(rows), np.zeros(len(M) - len(blocks[0]))])
    M, b = _reduced(M, b)
    low, high = (np.tile((edge - now) / width, n_steps) for edge in (wish.low, wish.high))
    limits = wish.rates / width
    if np.isinf(limits).all() and n_steps * m <= _EXACT:
        whole = np.vstack([M, *(np.sqrt(_RIDGE / n_steps) * part for part in _smooth(n_steps, m))])
        aim = np.concatenate([b, np.zeros(len(whole) - len(b))])
        x = lsq_linear(whole, aim, bounds=(low, high + 1e-12), method="trf", tol=1e-10).x.reshape(n_steps, m)
    else:
        x = _by_gradients(M, b, low, high, limits, n_steps, m)
    return within(x, np.zeros(m), low[:m], high[:m], limits) * width


def _reduced(M, b):
    """As few rows as say the same but for what weighs nothing."""
    if len(M) > M.shape[1]:
        Q, R = np.linalg.qr(M)
        return R, Q.T @ b
    values, axes = np.linalg.eigh(M @ M.T)
    kept = axes[:, values > _NOTHING * values[-1]].T
    return kept @ M, kept @ b


def _smooth(n_steps, m):
    """Differences of moves from row to row, from where the inputs stand on."""
    D = np.eye(n_steps) - np.eye(n_steps, k=-1)
    return [np.kron(D, np.eye(m))]


def _by_gradients(M, b, low, high, limits, n_steps, m):
    """The same of many moves, or with rates, which a growing penalty keeps to."""
    x = np.zeros(n_steps * m)
    ridge, finite = _RIDGE / n_steps, np.isfinite(limits)

    def value(x, penalty):
        rest = M @ x - b
        steps = np.diff(x.reshape(n_steps, m), axis=0, prepend=0.0)
        pull = ridge * steps
        loss = rest @ rest + ridge * np.square(steps).sum()
        if finite.any():
            over = np.where(finite, steps - np.clip(steps, -limits, limits), 0.0)
            loss += penalty * np.square(over).sum()
            pull = pull + penalty * over
        back = pull.copy()
        back[:-1] -= pull[1:]
        return loss, 2 * (M.T @ rest + back.ravel())

    for penalty in _PENALTIES if finite.any() else (0.0,):
        settings = {"maxiter": 120, "maxfun": 150, "ftol": 1e-9, "gtol": 1e-7}
        edges = Bounds(low, high)
        x = minimize(value, x, (penalty,), jac=True, bounds=edges, method="L-BFGS-B", options=settings).x
    return x.reshape(n_steps, m)


def within(x, before, low, high, limits):
    """Values (n_steps, m) that keep to bounds and rates exactly, from those of the row before; NaN for any."""
    x = np.clip(x, low, high)
    before = np.where(np.isnan(before), x[0], before)
    for row in x:
        row[:] = np.clip(row, before - limits, before + limits)
        before = row
    return x
