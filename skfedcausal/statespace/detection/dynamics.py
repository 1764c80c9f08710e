"""Changed dynamics: likelihood of other dynamics of a unit, on the innovations of a Kalman filter.

Where the transition matrix becomes ``A + D`` the filter, which goes on with A, errs by ``D x`` more in every row. The
error of its prediction is ``d_(t+1) = F d_t + D x_t``, with x the filtered states and ``F = A (I - Pf J)``, and moves
the mean of the scaled innovations by ``W d``, W their covariance: a linear regression on D, to first order. A change
of the dynamics of a unit's own states is any D in its diagonal block. A change of gain of a link is D in proportion to
the block of A that the link is, minus one where the link is lost.
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


def _row_before(series):
    """The series one row later, nothing in the first row."""
    return np.concatenate([np.zeros((1, series.shape[1])), series[:-1]])


def _where_seen(before, seen, effect):
    """States of the row before where a block is seen in the row, zero elsewhere."""
    return before if seen is None else np.where(seen[:, [effect]], before, 0.0)


def _regression(model, carry, changes, before, u):
    """Scores and information of innovations u on what changes of the dynamics do to them, (k, n, n).

    `before` are the filtered states of the row before each. Long windows are taken in pieces.
    """
    n, size = u.shape[1], len(changes)
    at_once = max(1, _TOGETHER // (size * len(model.carry)))
    score, information, last = np.zeros(size), np.zeros((size, size)), None
    for first in range(0, len(u), at_once):
        rows = slice(first, first + at_once)
        pushes = np.zeros((size, len(u[rows]), len(model.carry)))
        np.matmul(before[rows], changes.swapaxes(1, 2), out=pushes[..., :n])
        errors = carry.run((pushes, None), x0=last)
        last, errors = errors[:, -1].copy(), errors[..., :n]
        flat = errors.reshape(size, -1)
        score += flat @ u[rows].ravel()
        information += flat @ (errors @ model.weight).reshape(size, -1).T
    return score, information
