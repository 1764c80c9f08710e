"""Changed dynamics: likelihood of other dynamics of a unit, on the innovations of a Kalman filter.

Where the transition matrix becomes ``A + D`` the filter, which goes on with A, errs by ``D x`` more in every row. The
error of its prediction is ``d_(t+1) = F d_t + D x_t``, with x the filtered states and ``F = A (I - Pf J)``, and moves
the mean of the scaled innovations by ``W d``, W their covariance: a linear regression on D, to first order. A change
of the dynamics of a unit's own states is any D in its diagonal block. A change of gain of a link is D in proportion to
the block of A that the link is, minus one where the link is lost.
"""

import numpy as np

from ..kalman import Recurrence


def own_change_ratios(model, u, filtered, blocks):
    """Likelihood ratios of other dynamics of the states of each block among themselves, (n_blocks,).

    From the scaled innovations of a window and its filtered states, both (n_samples, n), under the
    :class:`~.shift.InnovationModel` of the plant. Chi-square with ``p^2`` degrees of freedom where nothing has changed.
    """
    carry, ratios = Recurrence(model.carry), []
    for b in blocks:
        i, j = np.divmod(np.arange((b.stop - b.start) ** 2), b.stop - b.start)
        pushes = np.zeros((len(i), *u.shape))
        pushes[np.arange(len(i)), :, b.start + i] = filtered[:, b.start + j].T
        score, information = _regression(model, carry, pushes, u)
        ratios.append(score @ np.linalg.lstsq(information, score, rcond=None)[0])
    return np.array(ratios)


def gain_changes(model, u, filtered, blocks):
    """Scores and information of the gain of every link, (n_blocks, n_blocks), row: effect, column: cause.

    The gain that is most likely is one more than the score over the information; both are zero where there is no link.
    """
    carry, scores = Recurrence(model.carry), np.zeros((len(blocks),) * 2)
    information = np.zeros_like(scores)
    for m, effect in enumerate(blocks):
        causes = [k for k, cause in enumerate(blocks) if k != m and model.A[effect, cause].any()]
        if not causes:
            continue
        pushes = np.zeros((len(causes), *u.shape))
        for push, k in zip(pushes, causes, strict=True):
            push[:, effect] = filtered[:, blocks[k]] @ model.A[effect, blocks[k]].T
        score, products = _regression(model, carry, pushes, u)
        scores[m, causes], information[m, causes] = score, np.diag(products)
    return scores, information


def _regression(model, carry, pushes, u):
    """Scores and information of innovations u on what pushes of the next states do to them, (k, n_samples, n)."""
    n = u.shape[-1]
    late = np.zeros((*pushes.shape[:2], len(model.carry)))
    late[:, 1:, :n] = pushes[:, :-1]
    errors = carry.run((late, None))[..., :n]
    flat = errors.reshape(len(errors), u.size)
    return flat @ u.ravel(), flat @ (errors @ model.weight).reshape(flat.shape).T
