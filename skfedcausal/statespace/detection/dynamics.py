"""Changed dynamics: likelihood of other dynamics of a unit, on the innovations of a Kalman filter.

Where the transition matrix becomes ``A + D`` the filter, which goes on with A, errs by ``D x`` more in every row. The
error of its prediction is ``d_(t+1) = F d_t + D x_t``, with x the filtered states and ``F = A (I - Pf J)``, and moves
the mean of the scaled innovations by ``W d``, W their covariance: a linear regression on D, to first order. A change
of the dynamics of a unit's own states is any D in its diagonal block. A change of gain of a link is D in proportion to
the block of A that the link is, minus one where the link is lost. Where a unit tells its states with the other sign D
is ``S A S - A``, S the identity but for the states of the unit, where it is minus one.
"""

import numpy as np

from ..kalman import Recurrence

_TOGETHER = 1 << 20  # numbers of all errors of a piece of rows that are held at once


def own_change_ratios(model, u, filtered, blocks, seen=None):
    """Likelihood ratios of other dynamics of the states of each block among themselves, (n_blocks,).

    From the scaled innovations of a window and its filtered states, both (n_samples, n), under the
    :class:`~.shift.InnovationModel` of the plant. Chi-square with ``p^2`` degrees of freedom where nothing has changed.
    Rows in which a block is not `seen`, (n_samples, n_blocks), tell nothing of it; None if all are.
    """
    carry, before, ratios = Recurrence(model.carry), _row_before(filtered), []
    for m, b in enumerate(blocks):
        i, j = np.divmod(np.arange((b.stop - b.start) ** 2), b.stop - b.start)
        changes = np.zeros((len(i), *model.J.shape))
        changes[np.arange(len(i)), b.start + i, b.start + j] = 1.0
        score, information = _regression(model, carry, changes, _where_seen(before, seen, m), u)
        ratios.append(score @ np.linalg.lstsq(information, score, rcond=None)[0])
    return np.array(ratios)


def gain_changes(model, u, filtered, blocks, seen=None):
    """Scores and information of the gain of every link, (n_blocks, n_blocks), row: effect, column: cause.

    The gain that is most likely is one more than the score over the information; both are zero where there is no link.
    Rows in which the effect is not `seen` tell nothing of it.
    """
    carry, before, scores = Recurrence(model.carry), _row_before(filtered), np.zeros((len(blocks),) * 2)
    information = np.zeros_like(scores)
    for m, effect in enumerate(blocks):
        causes = [k for k, cause in enumerate(blocks) if k != m and model.top[effect, cause].any()]
        if not causes:
            continue
        changes = np.zeros((len(causes), *model.J.shape))
        for change, k in zip(changes, causes, strict=True):
            change[effect, blocks[k]] = model.top[effect, blocks[k]]
        score, products = _regression(model, carry, changes, _where_seen(before, seen, m), u)
        scores[m, causes], information[m, causes] = score, np.diag(products)
    return scores, information


def reversal_ratios(model, u, filtered, blocks, seen):
    """Log likelihood ratios that each block tells its states with the other sign, (n_samples, n_blocks).

    From each row on to the last one. Nothing is estimated, so that they fall with the number of nominal rows.
    """
    signs = 1 - 2 * np.array([np.isin(np.arange(u.shape[1]), np.arange(b.start, b.stop)) for b in blocks])
    A = model.top[:, : u.shape[1]]
    changes, there = (signs[:, :, None] * signs[:, None] - 1) * A, seen.repeat([b.stop - b.start for b in blocks], 1)
    gained = []
    for rows, errors in _errors(model, Recurrence(model.carry), changes, _row_before(filtered)):
        errors = errors * there[rows]
        gained.append((errors * (u[rows] - errors @ model.weight / 2)).sum(axis=2))
    return np.concatenate(gained, axis=1)[:, ::-1].cumsum(axis=1)[:, ::-1].T


def _row_before(series):
    """The series one row later, nothing in the first row."""
    return np.concatenate([np.zeros((1, series.shape[1])), series[:-1]])


def _where_seen(before, seen, effect):
    """States of the row before where a block is seen in the row, zero elsewhere."""
    return before if seen is None else np.where(seen[:, [effect]], before, 0.0)


def _regression(model, carry, changes, before, u):
    """Scores and information of innovations u on what changes of the dynamics do to them, (k, n, n).

    `before` are the filtered states of the row before each.
    """
    size = len(changes)
    score, information = np.zeros(size), np.zeros((size, size))
    for rows, errors in _errors(model, carry, changes, before):
        flat = errors.reshape(size, -1)
        score += flat @ u[rows].ravel()
        information += flat @ (errors @ model.weight).reshape(size, -1).T
    return score, information


def _errors(model, carry, changes, before):
    """By how much changes of the dynamics, (k, n, n), move predictions, (k, n_rows, n), of pieces of a window."""
    n, size = before.shape[1], len(changes)
    at_once, last = max(1, _TOGETHER // (size * len(model.carry))), None
    for first in range(0, len(before), at_once):
        rows = slice(first, first + at_once)
        pushes = np.zeros((size, len(before[rows]), len(model.carry)))
        np.matmul(before[rows], changes.swapaxes(1, 2), out=pushes[..., :n])
        errors = carry.run((pushes, None), x0=last)
        last = errors[:, -1].copy()
        yield rows, errors[..., :n]
