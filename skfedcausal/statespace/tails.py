"""Noise with heavier tails than a Gaussian's: components of Student's t in its place."""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from .matrices import are_heavy
from .tuning import TUNING

_FREEDOMS = np.array([1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 20.0, 50.0])
_MOST_ROWS = 5000  # that tails are learned from


def heavy_tails(white):
    """:class:`Tails` of rows with unit covariance, None where all of their components may be Gaussian.

    `white` is (n_samples, n).
    """
    return Tails.learned(white) if are_heavy(white) else None


@dataclass(frozen=True)
class Tails:
    """Independent components of Student's t in place of standard Gaussian ones."""

    freedom: np.ndarray  # (n,), infinite where a component is Gaussian
    size: np.ndarray  # (n,)

    @classmethod
    def learned(cls, white):
        """Of the most likely components, by BIC; None where all of them are Gaussian."""
        rows = white[:: max(len(white) // _MOST_ROWS, 1)]
        freedom, size = np.array([_component(x) for x in rows.T]).T
        return cls(freedom, size) if np.isfinite(freedom).any() else None

    def gain(self, white):
        """What they add to the Gaussian log-density of rows (n_samples, n), shape (n_samples,)."""
        at = np.flatnonzero(np.isfinite(self.freedom))
        x = white[:, at]
        return (_log_t(x, self.freedom[at], self.size[at]) + 0.5 * (x**2 + np.log(2 * np.pi))).sum(axis=1)


def _log_t(x, freedom, size):
    """Log-density of Student's t."""
    constant = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - 0.5 * np.log(freedom * np.pi) - np.log(size)
    return constant - (freedom + 1) / 2 * np.log1p((x / size) ** 2 / freedom)


def _component(x):
    """Degrees of freedom and scale of the most likely t, infinite and one where a Gaussian is as good.

    `x` is (n_samples,).
    """
    squares = x[:, None] ** 2
    variance = np.full(len(_FREEDOMS), max(np.median(squares), TUNING.tails_least_size**2))
    for _ in range(TUNING.tails_steps):
        variance = np.mean((_FREEDOMS + 1) / (_FREEDOMS + squares / variance) * squares, axis=0)
        variance = np.maximum(variance, TUNING.tails_least_size**2)
    found = _log_t(x[:, None], _FREEDOMS, np.sqrt(variance)).sum(axis=0)
    best = int(found.argmax())
    gain = found[best] + 0.5 * (x @ x + len(x) * np.log(2 * np.pi))
    if gain < TUNING.tails_least_gain + np.log(len(x)):
        return np.inf, 1.0
    return _FREEDOMS[best], np.sqrt(variance[best])
