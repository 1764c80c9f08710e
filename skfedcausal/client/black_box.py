"""A unit whose own filter is a black box: what it reports before and after each measurement is enough."""

import warnings
from copy import copy
from inspect import signature

import numpy as np
from sklearn.base import clone

from ..containers import check_lengths, episode_starts
from ..message.states import StateMessage
from ..statespace.em import observation_step
from ..statespace.episodes import episode_lengths, episodes, inner_rows
from ..statespace.matrices import floor_eigenvalues
from ..statespace.observation import information, information_from_filter
from .identification import NOISE_FLOOR
from .records import active_columns, column_means


class BlackBoxClient:
    """Proprietary filter of one unit behind the methods of a KalmanClient; never refitted.

    The message is exact whatever the box is made of: a measurement adds ``J = P+^-1 - P-^-1`` to the
    information about the states and ``z = P+^-1 h+ - P-^-1 h-`` to their information vector. The fitted
    attributes serve predictions only. By the law of total expectation ``E[y h'] = E[y h+']`` and
    ``E[h h'] = E[h+ h+'] + P+``, so the regression of y on the filtered states with these moments is
    consistent for a box that filters the unit's true model.
    """

    def __init__(self, box, name="the unit"):
        self.box = box
        self.name = name

    def fit(self, Y, U=None, starts=(0,), columns=None):
        """Learn the map from the box's states to the sensors; the box itself stays as it is."""
        active = active_columns(Y, self.name, columns)
        prior, prior_cov, posterior, posterior_cov = self._moments(Y, U, starts)
        kept = Y[:, active]
        self._active = active
        self.observation_ = np.zeros((Y.shape[1], posterior.shape[1]))
        self.measurement_cov_ = np.full(Y.shape[1], np.inf)
        self.mean_ = np.full(Y.shape[1], np.nan)
        seen = ~np.isnan(Y).all(axis=0)
        self.mean_[seen] = column_means(Y[:, seen])
        floor = NOISE_FLOOR * np.nanvar(kept, axis=0)
        self.observation_[active], self.measurement_cov_[active], self.mean_[active] = observation_step(
            kept, posterior, posterior_cov, floor
        )
        self.transition_, self.process_cov_ = _linear_step(prior, prior_cov, posterior, posterior_cov, U, starts)
        return self

    @property
    def used_columns(self):
        """Which columns the model is about, (n_features,); the others never moved."""
        return self._active

    def _moments(self, Y, U, starts):
        """What the box says about every row, one episode at a time."""
        parts = [self._episode(Y[a:b], None if U is None else U[a:b]) for a, b in episodes(starts, len(Y))]
        prior, prior_cov, posterior, posterior_cov = zip(*parts, strict=True)
        before, after = _joined(prior_cov, prior), _joined(posterior_cov, posterior)
        return np.concatenate(prior), before, np.concatenate(posterior), after

    def _episode(self, Y, U):
        takes_inputs = U is not None and "inputs" in signature(self.box.filter_moments).parameters
        answer = self.box.filter_moments(Y, inputs=U) if takes_inputs else self.box.filter_moments(Y)
        who = f"`filter_moments` of the client of {self.name}"
        try:
            prior, prior_cov, posterior, posterior_cov = (np.asarray(part, dtype=float) for part in answer)
        except (TypeError, ValueError):
            raise ValueError(
                f"{who} must return four arrays: predicted states, covariances, filtered states, covariances."
            ) from None
        n_states = prior.shape[-1] if prior.ndim else 0
        covariances = {(n_states, n_states), (len(Y), n_states, n_states)}
        for what, value, shapes in (
            ("predicted states", prior, {(len(Y), n_states)}),
            ("predicted covariances", prior_cov, covariances),
            ("filtered states", posterior, {(len(Y), n_states)}),
            ("filtered covariances", posterior_cov, covariances),
        ):
            if value.shape not in shapes:
                wanted = " or ".join(str(shape) for shape in sorted(shapes))
                raise ValueError(f"{who} gave {what} of shape {value.shape}, expected {wanted}.")
            if not np.isfinite(value).all():
                raise ValueError(f"{who} gave {what} that are not finite.")
        return prior, prior_cov, posterior, posterior_cov

    def message(self, X, *, inputs=None, lengths=None, const=False, local_model=False):
        """Sufficient statistic of the measurements, see :meth:`KalmanClient.message`.

        The constant of the log-density rests on the fitted map to the sensors, the rest on the box alone.
        """
        lengths = check_lengths(lengths, len(X))
        moments = self._moments(X, inputs, episode_starts(lengths))
        constant = None
        if const:
            on = self._active
            sensors = self.observation_[on], self.measurement_cov_[on]
            constant = information(X[:, on] - self.mean_[on], *sensors, with_const=True).const
        return self._told(moments, lengths, constant, local_model)

    def _told(self, moments, lengths, constant=None, local_model=False):
        """Message that tells what the moments do, with the linear model where they leave states open."""
        info = information_from_filter(*moments)
        local_model = local_model or not info.determines_states
        model = (self.transition_, self.process_cov_) if local_model else ()
        return StateMessage(info.z, info.patterns, info.index, lengths, constant, *model)

    def filter(self, X, *, inputs=None, lengths=None):
        """The box's filtered states, shape (n_samples, n_states)."""
        return self._moments(X, inputs, episode_starts(check_lengths(lengths, len(X))))[2]

    def predict(self, X, *, inputs=None, lengths=None):
        """Measurements expected from the box's predicted states, shape (n_samples, n_features)."""
        prior = self._moments(X, inputs, episode_starts(check_lengths(lengths, len(X))))[0]
        return self.measurements(prior)

    def measurements(self, states):
        """Expected measurements of given states, shape (n_samples, n_features)."""
        return states @ self.observation_.T + self.mean_


def _joined(covariances, states):
    """One covariance if it is the same at all time steps of all episodes, else one per step.

    A list of (p, p) or (n_rows, p, p) by episode, and of states (n_rows, p).
    """
    first = covariances[0]
    if first.ndim == 2 and all(part.shape == first.shape and (part == first).all() for part in covariances):
        return first
    shapes = [(len(part), *first.shape[-2:]) for part in states]
    return np.concatenate([np.broadcast_to(*pair) for pair in zip(covariances, shapes, strict=True)])


def _linear_step(prior, prior_cov, posterior, posterior_cov, U, starts):
    """Transition and process covariance by regression of predicted states on the filtered ones before.

    States are (n_samples, p), covariances (p, p) or (n_samples, p, p).
    """
    rows = inner_rows(len(prior), starts)
    known = [posterior[rows - 1], np.ones((len(rows), 1))]
    if U is not None:
        known.append(U[rows - 1])
    p = prior.shape[1]
    A = np.linalg.lstsq(np.hstack(known), prior[rows], rcond=None)[0][:p].T
    before = prior_cov if prior_cov.ndim == 2 else prior_cov[rows].mean(axis=0)
    after = posterior_cov if posterior_cov.ndim == 2 else posterior_cov[rows - 1].mean(axis=0)
    return A, floor_eigenvalues(before - A @ after @ A.T, np.finfo(float).tiny)


class NonlinearClient(BlackBoxClient):
    """An :class:`~skfedcausal.ExtendedKalmanClient` as the model of a unit.

    Beside what a black box can do it predicts measurements by the maps themselves, with or without a
    correction of the filtered states (eq. 3 and 8 of the paper): ``x_a[t] = f(x_hat[t-1] + phi[t-1])``.
    """

    _added_noise = 0.0  # of a record without noise

    def fit(self, Y, U=None, starts=(0,), columns=None):
        """Fit the filter if it is not, and describe it linearly; see :class:`BlackBoxClient`."""
        if not self.box.is_fitted:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # constant columns are named below
                self.box = clone(self.box).fit(Y, lengths=episode_lengths(starts, len(Y)))
        self.f, self.h = self.box.f_map_, self.box.h_map_  # transition and measurements of states
        return super().fit(Y, U, starts, columns)

    def fitted_on(self, noise):
        """The client after a fit on a record with noise of known variances added to its columns.

        Maps that were learned cover it by their residuals; R of given maps does not, and gets it.
        """
        learned = self.box.R is None
        self._added_noise = noise if learned else np.zeros_like(noise)
        return self if learned else self.with_noise(noise)

    def with_noise(self, noise):
        """Copy for a record with noise of other known variances added to its columns."""
        change = noise - self._added_noise
        if not change.any():
            return self
        box = copy(self.box)
        R = self.box.measurement_cov_ + np.diag(change)
        lowest = NOISE_FLOOR * np.diag(self.box.measurement_cov_)  # of columns that had little but noise
        short = np.maximum(lowest - np.diag(R), 0.0)
        box.measurement_cov_ = R + np.diag(short)
        other = copy(self)
        vars(other).update(box=box, _added_noise=noise)
        return other

    def measurements(self, states):
        """Expected measurements of given states, shape (n_samples, n_features)."""
        return self.h.value(np.asarray(states, dtype=float))

    def predict_corrected(self, Y, correction, starts):
        """Measurements predicted from corrected states, shape (n_samples, n_features)."""
        prior, _, filtered, _ = self._moments(Y, None, starts)
        rows = inner_rows(len(Y), starts)
        prior[rows] = self.f.value((filtered + correction)[rows - 1])
        return self.measurements(prior)

    def message_after(self, Y, starts, known=None):
        """Message about measurements that follow those before, and where the filter stands after it."""
        moments = self._moments(Y, None, starts) if known is None else self.box.filter_moments(Y, after=known)
        lengths = episode_lengths(starts, len(Y))
        return self._told(moments, lengths), (moments[2][-1], moments[3][-1])
