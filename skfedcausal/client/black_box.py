"""A unit whose own filter is a black box: what it tells before and after each measurement is enough."""

from inspect import signature

import numpy as np

from ..containers import check_lengths, episode_starts
from ..message.states import StateMessage
from ..statespace.em import observation_step
from ..statespace.episodes import episodes
from ..statespace.matrices import floor_eigenvalues
from ..statespace.observation import information, information_from_filter
from .identification import NOISE_FLOOR
from .records import active_columns, column_means


class BlackBoxClient:
    """Proprietary filter of one unit behind the methods of a KalmanClient; never refitted.

    Parameters
    ----------
    box : object
        With a method ``filter_moments(Y)``, called with one episode at a time, that returns the predicted
        states ``(n_samples, n_states)``, their covariances ``(n_states, n_states)`` or one for each time
        step, the filtered states and their covariances. NaN in Y stands for a missing measurement. A box
        whose method has a parameter ``inputs`` is given the unit's inputs.
    name : str
        For messages to the user.

    Attributes
    ----------
    observation_ : ndarray of shape (n_features, n_states)
    measurement_cov_, mean_ : ndarray of shape (n_features,)
        Expectation of the measurements given the box's states: what maps predicted states to sensors.
    transition_, process_cov_ : ndarray of shape (n_states, n_states)
        Best linear description of the step from filtered to predicted states.

    Notes
    -----
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
        """Learn the map from the box's states to the sensors; the box itself stays as it is.

        Parameters
        ----------
        Y : ndarray of shape (n_samples, n_features)
        U : ndarray of shape (n_samples, n_inputs), default=None
        starts : sequence of int
        columns : sequence of str, default=None
            Names of the sensors, for messages.

        Returns
        -------
        self : BlackBoxClient
        """
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
        self.transition_, self.process_cov_ = _linear_step(
            prior, prior_cov, posterior, posterior_cov, U, starts
        )
        return self

    def _moments(self, Y, U, starts):
        """What the box says about every row, one episode at a time."""
        parts = [
            self._episode(Y[start:stop], None if U is None else U[start:stop])
            for start, stop in episodes(starts, len(Y))
        ]
        prior, prior_cov, posterior, posterior_cov = zip(*parts, strict=True)
        return (
            np.concatenate(prior),
            _joined(prior_cov, prior),
            np.concatenate(posterior),
            _joined(posterior_cov, posterior),
        )

    def _episode(self, Y, U):
        takes_inputs = U is not None and "inputs" in signature(self.box.filter_moments).parameters
        answer = self.box.filter_moments(Y, inputs=U) if takes_inputs else self.box.filter_moments(Y)
        who = f"`filter_moments` of the client of {self.name}"
        try:
            prior, prior_cov, posterior, posterior_cov = (np.asarray(part, dtype=float) for part in answer)
        except (TypeError, ValueError):
            raise ValueError(
                f"{who} must return four arrays: predicted states and their covariances, filtered states and "
                "their covariances."
            ) from None
        n_states = prior.shape[-1] if prior.ndim else 0
        covariances = {(n_states, n_states), (len(Y), n_states, n_states)}
        expected = {
            "predicted states": (prior, {(len(Y), n_states)}),
            "predicted covariances": (prior_cov, covariances),
            "filtered states": (posterior, {(len(Y), n_states)}),
            "filtered covariances": (posterior_cov, covariances),
        }
        for what, (value, shapes) in expected.items():
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
        info = information_from_filter(*self._moments(X, inputs, episode_starts(lengths)))
        constant = None
        if const:
            on = self._active
            constant = information(
                X[:, on] - self.mean_[on], self.observation_[on], self.measurement_cov_[on], with_const=True
            ).const
        local_model = local_model or not info.determines_states
        A, Q = (self.transition_, self.process_cov_) if local_model else (None, None)
        return StateMessage(info.z, info.patterns, info.index, lengths, constant, A, Q)

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
    """One covariance if it is the same at all time steps of all episodes, else one per step."""
    first = covariances[0]
    if first.ndim == 2 and all(part.shape == first.shape and (part == first).all() for part in covariances):
        return first
    shapes = [(len(part), *first.shape[-2:]) for part in states]
    return np.concatenate([np.broadcast_to(*pair) for pair in zip(covariances, shapes, strict=True)])


def _linear_step(prior, prior_cov, posterior, posterior_cov, U, starts):
    """Transition and process covariance by regression of predicted states on the filtered ones before."""
    first = np.zeros(len(prior), dtype=bool)
    first[list(starts)] = True
    rows = np.flatnonzero(~first)
    known = [posterior[rows - 1], np.ones((len(rows), 1))]
    if U is not None:
        known.append(U[rows - 1])
    p = prior.shape[1]
    A = np.linalg.lstsq(np.hstack(known), prior[rows], rcond=None)[0][:p].T
    before = prior_cov if prior_cov.ndim == 2 else prior_cov[rows].mean(axis=0)
    after = posterior_cov if posterior_cov.ndim == 2 else posterior_cov[rows - 1].mean(axis=0)
    return A, floor_eigenvalues(before - A @ after @ A.T, np.finfo(float).tiny)
