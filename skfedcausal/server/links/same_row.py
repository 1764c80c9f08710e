"""Which of two units acts on the other within a row, where their noise is not Gaussian.

Noise of two units that goes together may be a cause in the same row or one that nobody measures. If unit 1 acts on
unit 2, ``w_2 = B w_1 + n`` with n independent of w_1, and what regression leaves of unit 2 is independent of unit 1;
the other way round it is uncorrelated, but dependent unless all is Gaussian [1]_. What is left is tested for
dependence in both directions. A cause that nobody measures leaves dependence in both.

Innovations hold noise of the sensors as well. It is nearly Gaussian, and for Gaussian m independent of s
``E[g(s + m) m] = var(m) E[g'(s + m)]`` (Stein), so that ``E[g(x) r] - cov(x, r) E[g'(x)]`` is zero for any bounded g
where s and r are independent, whatever part of x and r is noise of the sensors.

References
----------
.. [1] Shimizu, Hoyer, Hyvarinen and Kerminen (2006), A linear non-Gaussian acyclic model for causal discovery,
       Journal of Machine Learning Research 7, 2003-2030.
"""

import numpy as np
from scipy.special import chdtrc

from ..joint import part_scores
from .tables import UNDIRECTED
from .tuning import TUNING

REFUTED = 1e-3  # p value of a direction that the record speaks against, divided by the number of pairs
KEPT = 0.05  # p value from which on it does not speak against the other one


def with_directions(table, run, record, Q):
    """The table of correlated pairs with p values of both directions, and the one that alone is left standing.

    Parameters
    ----------
    table : DataFrame
        As of :func:`~skfedcausal.server.links.tables.correlation_table`.
    run : PlantFilter
        Over the record.
    record : JointRecord
        Without gaps and with units whose sensors determine their states; of others nothing is said.
    Q : ndarray of shape (n, n)
        Covariance of process noise.

    Returns
    -------
    DataFrame
        With columns ``p_first_acts``, ``p_second_acts`` and ``direction``.
    """
    if not (record.is_constant and record.determined.all()):
        return table
    slices = dict(zip(record.names, record.partition.slices, strict=True))
    parts = dict(zip(record.names, record.parts, strict=True))
    innovations: dict = {}
    forward, backward, words = [], [], []
    for first, second in zip(table["first"].tolist(), table["second"].tolist(), strict=True):
        for name in {first, second} - innovations.keys():
            innovations[name] = part_scores(parts[name], slice(None)) - run.predicted[:, slices[name]]
        acts, is_acted_on = (
            independence(innovations[a], innovations[b], Q[slices[a], slices[a]], Q[slices[b], slices[a]])
            for a, b in ((first, second), (second, first))
        )
        forward.append(acts)
        backward.append(is_acted_on)
        words.append(_direction(first, second, acts, is_acted_on, REFUTED / len(table)))
    return table.assign(p_first_acts=forward, p_second_acts=backward, direction=words)


def _direction(first, second, forward, backward, level):
    if forward > KEPT and backward < level:
        return f"{first} -> {second}"
    if backward > KEPT and forward < level:
        return f"{second} -> {first}"
    return UNDIRECTED["direction"]


def independence(cause, effect, Q_cause, Q_both):
    """Test that an effect within the row is a linear function of a cause and of noise independent of it.

    Parameters
    ----------
    cause, effect : ndarray of shape (n_samples, p) and (n_samples, q)
        Innovations.
    Q_cause : ndarray of shape (p, p)
        Process covariance of the cause.
    Q_both : ndarray of shape (q, p)
        Process covariance of effect and cause.

    Returns
    -------
    float
        The p value of four moments that are zero then; they are those of the direction of the effect that goes along
        with the cause most.
    """
    cause, effect = (np.ascontiguousarray(w.T) for w in (cause, effect))  # sums over rows are faster so
    cause, effect = (w - w.mean(axis=1, keepdims=True) for w in (cause, effect))
    slope = np.linalg.solve(Q_cause, Q_both.T).T  # (q, p)
    left = np.linalg.svd(slope @ np.linalg.cholesky(Q_cause), full_matrices=False)[0][:, 0]
    weights = slope.T @ left
    x = weights @ cause
    r = left @ effect - x
    if not (x.std() > 0 and r.std() > TUNING.same_row_same * (left @ effect).std()):  # a copy leaves rounding
        return np.nan
    scale = x.std(), r.std()
    x, r, cause = x / scale[0], r / scale[1], cause / scale[0]
    ratio = scale[0] / scale[1]  # what an error of the weights moves: r, in units of its own scale
    g, slopes = _shapes(x, r)
    common, products = x * r, cause * r
    mean_g, mean_slopes, of_common = g.mean(axis=1), slopes.mean(axis=1), ratio * (cause @ x) / len(x)
    pushed = np.stack([g[0], slopes[1] * x, g[2], slopes[3] * x])  # r is what moves
    by_weights = np.outer(of_common, mean_slopes) - ratio * (cause @ pushed.T) / len(x)  # (p, 4)
    of_weights = np.linalg.solve(Q_cause / scale[0] ** 2, by_weights).T / ratio
    # each moment is a sum of few series: what it is of, then what its estimated means and weights add
    values = g - mean_g[:, None]
    values[::2] *= r
    values[1::2] *= x
    values -= np.outer(mean_slopes, common)
    values -= common.mean() * (slopes - mean_slopes[:, None])
    values += of_weights @ (products - products.mean(axis=1)[:, None])
    mean = values.mean(axis=1)
    statistic = len(x) * mean @ np.linalg.pinv(np.cov(values), hermitian=True) @ mean
    return float(chdtrc(len(values), statistic))


def _shapes(x, r):
    """Bounded functions of x, r, x and r, one for tails and one for skewness, and their slopes: (4, n_samples) each."""
    both = np.stack([x, r])
    tails, bell = np.tanh(both), np.exp(-0.5 * both * both)
    return np.concatenate([tails, bell]), np.concatenate([1 - tails * tails, -both * bell])
