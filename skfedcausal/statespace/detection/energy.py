"""Energy statistic: by how much, and in how many steps, a unit surprises a model of the whole plant.

The unit's states are predicted from all units' last states by a ridge regression. What the others'
innovations of the same step do not explain is the unit's own surprise: with innovation covariance C and
``L = C^-1`` the conditional innovation of block m is ``e_m - E[e_m | others] = L_mm^-1 (L e)_m``, and

    a_m = e_m' C_mm^-1 e_m + g_m            (own innovation)
    q_m = (L e)_m' L_mm^-1 (L e)_m + g_m    (given the other units of the same step)

where g_m is the unit's off-subspace number: the distance of its measurements from what its states can
show. Sums of ``log(1 + q / mean q)`` are log-likelihood ratios of a Cauchy-like tail: it counts for how long
and in how many steps a unit surprises, not how far its victims are pushed.
"""

from dataclasses import dataclass

import numpy as np

PENALTIES = (1e-5, 1e-4, 0.001, 0.01, 0.03, 0.1, 0.3)


def ridge_transition(past, present, penalty):
    """``argmin |present - past B|^2 + penalty T |B|^2`` over T rows, shape (n, n)."""
    n = past.shape[1]
    gram = past.T @ past + penalty * len(past) * np.eye(n)
    return np.linalg.solve(gram, past.T @ present)


def held_out_innovations(x, folds, penalties=PENALTIES):
    """Innovations of every fold under the regression fitted to the others, at the best penalty.

    Parameters
    ----------
    x : ndarray of shape (n_samples, n)
    folds : sequence of tuple (start, stop)
        Contiguous stretches of rows, at least two.
    penalties : sequence of float

    Returns
    -------
    innovations : list of ndarray of shape (stop - start - 1, n)
        Of each fold without its first row.
    penalty : float
        The one with the smallest held-out errors, geometric mean over the states: slow ones count as much.
    """
    pairs = [(x[start : stop - 1], x[start + 1 : stop]) for start, stop in folds]
    best = (np.inf, None, None)
    for penalty in penalties:
        innovations = []
        for k, (past, present) in enumerate(pairs):
            others = [pair for j, pair in enumerate(pairs) if j != k]
            B = ridge_transition(*(np.concatenate(part) for part in zip(*others, strict=True)), penalty)
            innovations.append(present - past @ B)
        error = np.log(sum((e**2).sum(axis=0) for e in innovations)).sum()
        if error < best[0]:
            best = (error, innovations, penalty)
    return best[1], best[2]


def held_out_errors(x, folds, fit):
    """Errors of every fold under a predictor of the next row fitted to the others.

    Parameters
    ----------
    x : ndarray of shape (n_samples, n)
    folds : sequence of tuple (start, stop)
    fit : callable
        ``fit(past, present)`` gives an object with ``predict``.

    Returns
    -------
    list of ndarray of shape (stop - start - 1, n)
    """
    pairs = [(x[start : stop - 1], x[start + 1 : stop]) for start, stop in folds]
    errors = []
    for k, (past, present) in enumerate(pairs):
        others = [pair for j, pair in enumerate(pairs) if j != k]
        model = fit(*(np.concatenate(part) for part in zip(*others, strict=True)))
        errors.append(present - model.predict(past))
    return errors


@dataclass(frozen=True)
class LinearMap:
    """Prediction of a row from the last: ``x_(t-1) @ matrix + level``."""

    matrix: np.ndarray
    level: np.ndarray

    def predict(self, past):
        """Predicted rows."""
        return past @ self.matrix + self.level

    def slopes(self, past):
        """Derivatives of the predicted row by the last, shape (n, n)."""
        return self.matrix.T


@dataclass(frozen=True)
class ScaledMap:
    """A predictor of standardised rows, in the units of the rows."""

    model: object
    mean: np.ndarray
    scale: np.ndarray

    def predict(self, past):
        """Predicted rows."""
        inside = (past - self.mean) / self.scale
        return self.model.predict(inside) * self.scale + self.mean

    def slopes(self, past):
        """Derivatives of the predicted row by the last, shape (n, n), over a tenth of each state's spread."""
        steps = 0.1 * np.diag(self.scale)
        ahead, behind = np.split(self.predict(np.concatenate([past + steps, past - steps])), 2)
        return ((ahead - behind) / (0.2 * self.scale[:, None])).T


def block_sums(blocks):
    """Matrix that sums the columns of each block, shape (n, n_blocks)."""
    sums = np.zeros((blocks[-1].stop, len(blocks)))
    for m, b in enumerate(blocks):
        sums[b, m] = 1.0
    return sums


@dataclass(frozen=True)
class ConditionalEnergy:
    """Surprise of every unit, on its own and given the other units' innovations of the same step.

    Attributes
    ----------
    covariance : ndarray of shape (n, n)
        Covariance C of the innovations.
    blocks : tuple of slice
        States of each unit.
    """

    covariance: np.ndarray
    blocks: tuple[slice, ...]

    def __post_init__(self):
        precision = np.linalg.inv(self.covariance)
        own = [np.linalg.cholesky(np.linalg.inv(self.covariance[b, b])) for b in self.blocks]
        given = [precision[:, b] @ np.linalg.cholesky(np.linalg.inv(precision[b, b])) for b in self.blocks]
        n = len(self.covariance)
        roots = np.zeros((n, n))
        for b, root in zip(self.blocks, own, strict=True):
            roots[b, b] = root
        object.__setattr__(self, "_own", roots)
        object.__setattr__(self, "_sums", block_sums(self.blocks))
        object.__setattr__(self, "_given", np.hstack(given))

    def own(self, e):
        """``e_m' C_mm^-1 e_m``, shape (n_samples, n_units)."""
        return self._block_sums((e @ self._own) ** 2)

    def given_others(self, e):
        """``(L e)_m' L_mm^-1 (L e)_m``, shape (n_samples, n_units)."""
        return self._block_sums((e @ self._given) ** 2)

    def shared(self):
        """Share of each unit's innovations that the others' of the same step explain, shape (n_units,).

        ``1 - tr(C_mm^-1 L_mm^-1) / P_m``, the mean of the squared canonical correlations.
        """
        precision = np.linalg.inv(self.covariance)
        left = [np.linalg.inv(precision[b, b] @ self.covariance[b, b]) for b in self.blocks]
        return np.array([1 - np.trace(part) / len(part) for part in left])

    def _block_sums(self, squares):
        return squares @ self._sums

    def with_covariance(self, covariance):
        """The same for innovations of another covariance."""
        return self if covariance is self.covariance else ConditionalEnergy(covariance, self.blocks)

    def without(self, absent):
        """The same for the units that are there, the states of the others left out.

        Parameters
        ----------
        absent : ndarray of bool, shape (n_units,)

        Returns
        -------
        energy : ConditionalEnergy
        columns : ndarray of int
            States it is about.
        """
        kept = [b for b, gone in zip(self.blocks, absent, strict=True) if not gone]
        columns = np.concatenate([np.arange(b.start, b.stop) for b in kept])
        bounds = np.cumsum([0, *(b.stop - b.start for b in kept)])
        blocks = tuple(slice(int(i), int(j)) for i, j in zip(bounds[:-1], bounds[1:], strict=True))
        return ConditionalEnergy(self.covariance[np.ix_(columns, columns)], blocks), columns
