"""What every mechanism has: parameters, the shared account, the promise in words."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator

from .accountant import PrivacyAccountant
from .bounds import Bounds, clipped
from .sampling import grid_of, normal_noise, on_grid

_CHUNK = 2**14  # rows that noise is drawn for at a time


@dataclass(frozen=True)
class UnitNoise:
    """Ball that a unit's measurements are clipped to, and the noise added to them there.

    Attributes
    ----------
    bounds : Bounds
    std : float
        In units of the scale of the bounds.
    """

    bounds: Bounds
    std: float

    @property
    def variance(self):
        """Of the noise in each column, shape (n_features,)."""
        return (self.std * self.bounds.scale) ** 2

    def drawn(self, Y, rng, sampler, out=None):
        """Copy of measurements that is clipped and has noise; what comes after sees nothing else.

        Written some rows at a time, so that records and copies may be files.

        Parameters
        ----------
        Y : ndarray of shape (n_samples, n_features)
        rng : Generator
        sampler : callable
            Draws the noise.
        out : ndarray of shape (n_samples, n_features), default=None
            Where to; None for a new array.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        values = np.empty(Y.shape) if out is None else out
        for start in range(0, len(Y), _CHUNK):
            rows = slice(start, start + _CHUNK)
            noise = normal_noise(Y[rows].shape, self.std, rng, sampler)
            noised = on_grid(clipped(Y[rows], self.bounds), grid_of(self.std)) + noise
            values[rows] = self.bounds.center + self.bounds.scale * noised
        values = values.view()
        values.setflags(write=False)
        return values


@dataclass(frozen=True)
class Release:
    """A unit's record as everything but the unit itself sees it.

    Attributes
    ----------
    values : ndarray of shape (n_samples, n_features)
        Clipped, with noise; NaN where missing.
    noise : UnitNoise
    """

    values: np.ndarray
    noise: UnitNoise

    @property
    def variance(self):
        """Of the noise added to each column, shape (n_features,)."""
        return self.noise.variance


class PrivacyMechanism(BaseEstimator, ABC):
    """Base of the mechanisms: parameters, the shared account, the promise in words."""

    def _account(self):
        """The accountant, one for this mechanism and its clones if none was given."""
        if self.accountant is not None:
            return self.accountant
        if not hasattr(self, "_own_accountant"):
            self._own_accountant = PrivacyAccountant()
        return self._own_accountant

    def __sklearn_clone__(self):
        twin = type(self)(**self.get_params(deep=False))
        if self.accountant is None:
            twin._own_accountant = self._account()
        return twin

    def __copy__(self):
        return self.__sklearn_clone__()

    def __deepcopy__(self, memo):
        return self.__sklearn_clone__()

    def __reduce__(self):
        return self._account().__reduce__()

    @property
    def account(self):
        """The :class:`PrivacyAccountant` that is charged."""
        return self._account()

    @property
    @abstractmethod
    def scope(self):
        """What is protected, a :class:`~skfedcausal.privacy.Scope`."""

    @abstractmethod
    def statement(self, spent, names, n_samples):
        """The promise in words."""
