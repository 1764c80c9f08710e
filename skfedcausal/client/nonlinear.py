"""A unit with a nonlinear model of its own behind the methods of a KalmanClient."""

import warnings
from dataclasses import replace

import numpy as np
from sklearn.base import clone

from ..message.states import StateMessage
from ..statespace.episodes import inner_rows
from ..statespace.observation import information_from_filter, is_regular
from .black_box import BlackBoxClient

_FLOOR = 0.01  # share of a column's variance added to the covariance of what the states do not show


class NonlinearClient(BlackBoxClient):
    """An :class:`~skfedcausal.ExtendedKalmanClient` as the model of a unit.

    Beside what a black box can do it predicts measurements by the maps themselves, with or without a
    correction of the filtered states (eq. 3 and 8 of the paper): ``x_a[t] = f(x_hat[t-1] + phi[t-1])``.

    Parameters
    ----------
    box : ExtendedKalmanClient
        Fitted to the unit's record unless it is fitted already.
    name : str
        For messages to the user.
    """

    def fit(self, Y, U=None, starts=(0,), columns=None):
        """Fit the filter if it is not, and describe it linearly; see :class:`BlackBoxClient`."""
        if not self.box.is_fitted:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # constant columns are named below
                self.box = clone(self.box).fit(Y, lengths=np.diff([*starts, len(Y)]))
        return super().fit(Y, U, starts, columns)

    @property
    def f(self):
        """The unit's transition, with ``value`` and ``jacobian``."""
        return self.box.f_map_

    @property
    def h(self):
        """The unit's measurement map, with ``value`` and ``jacobian``."""
        return self.box.h_map_

    def measurements(self, states):
        """Expected measurements of given states, shape (n_samples, n_features)."""
        return self.h.value(np.asarray(states, dtype=float))

    def predict_corrected(self, Y, correction, starts):
        """Measurements predicted from corrected states, shape (n_samples, n_features).

        Parameters
        ----------
        Y : ndarray of shape (n_samples, n_features)
        correction : ndarray of shape (n_samples, n_states)
            Added to the filtered states of each row.
        starts : sequence of int
        """
        prior, _, filtered, _ = self._moments(Y, None, starts)
        rows = inner_rows(len(Y), starts)
        prior[rows] = self.f.value((filtered + correction)[rows - 1])
        return self.measurements(prior)


class WatchedNonlinearClient(NonlinearClient):
    """A nonlinear unit that is watched for faults: one information matrix for all complete rows.

    A row's measurements say ``z`` about the states with a matrix J of its own, which depends on where the
    filter linearised. What is watched is ``s = J^-1 z``, the states as this row alone shows them, sent with
    the mean of J; and how far the measurements are from ``h(s)``.
    """

    def fit(self, Y, U=None, starts=(0,), columns=None):
        """Fit the filter and learn what is nominal."""
        super().fit(Y, U, starts, columns)
        exact = super().message(Y, lengths=np.diff([*starts, len(Y)]))
        complete = ~np.isnan(Y[:, self._active]).any(axis=1)
        J = exact.patterns[np.zeros(len(Y), dtype=int) if exact.index is None else exact.index]
        self._regular = bool(complete.any()) and all(is_regular(j) for j in J[complete])
        if not self._regular:
            return self  # measurements that do not determine the states are told as they are
        self._J = J[complete].mean(axis=0)
        states = np.linalg.solve(J[complete], exact.z[complete][..., None])[..., 0]
        rest = (Y[complete] - self.measurements(states))[:, self._active]
        floor = _FLOOR * np.var(Y[complete][:, self._active], axis=0)
        self._precision = np.linalg.inv(np.atleast_2d(np.cov(rest.T)) + np.diag(floor))
        self._rest = rest.mean(axis=0)
        return self

    def message(self, X, *, inputs=None, lengths=None, const=False, local_model=False):
        """What the detector is told; see :meth:`BlackBoxClient.message` for what else there is."""
        exact = super().message(X, inputs=inputs, lengths=lengths, const=const, local_model=local_model)
        return exact if const or local_model else self._watched(np.asarray(X, dtype=float), exact)

    def watched_message(self, Y, starts, resolution=None):
        """Message with the off-subspace numbers, and where the filter stands after it.

        Parameters
        ----------
        Y : ndarray of shape (n_samples, n_features)
        starts : sequence of int
        resolution : tuple of ndarray, default=None
            Where the filter stood after the rows before; None starts an episode.
        """
        if resolution is None:
            moments = self._moments(Y, None, starts)
        else:
            moments = self.box.filter_moments(Y, after=resolution)
        info = information_from_filter(*moments)
        model = () if info.determines_states else (self.transition_, self.process_cov_)
        lengths = tuple(int(k) for k in np.diff([*starts, len(Y)]))
        exact = StateMessage(info.z, info.patterns, info.index, lengths, None, *model)
        return self._watched(Y, exact), (moments[2][-1], moments[3][-1])

    def _watched(self, Y, exact):
        if not self._regular:
            return exact
        own = np.isnan(Y[:, self._active]).any(axis=1)
        regular, J = exact.information.determined_rows, exact.information.matrices()
        own |= ~regular
        states, z = np.zeros_like(exact.z), exact.z.copy()
        states[regular] = np.linalg.solve(J[regular], exact.z[regular][..., None])[..., 0]
        z[~own] = states[~own] @ self._J
        rest = np.nan_to_num((Y - self.measurements(states))[:, self._active] - self._rest)
        rest[~regular] = 0.0
        distance = ((rest @ self._precision) * rest).sum(axis=1)
        if not own.any():
            return StateMessage(z, self._J[None], None, exact.lengths, off_subspace=distance)
        patterns, position = np.unique(J[own], axis=0, return_inverse=True)
        pattern_of = np.zeros(len(Y), dtype=np.intp)
        pattern_of[own] = 1 + position.reshape(-1)
        patterns = np.concatenate([self._J[None], patterns])
        return replace(
            exact,
            z=z,
            patterns=patterns,
            index=pattern_of,
            off_subspace=distance,
            transition=None,
            process_cov=None,
        )
