"""What a unit reports to the server while it is watched: its states and how far it is from what they can show."""

import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite

import numpy as np
from scipy.linalg import null_space

from ..message.states import StateMessage
from ..statespace.em import expected_cells, partial_covariance
from ..statespace.episodes import episode_lengths
from ..statespace.observation import information, is_regular
from .extended_kalman import NonlinearClient
from .kalman import KalmanClient
from .moments import RIDGE, Moments
from .records import in_use
from .tuning import TUNING
from .unit_model import UnitModel, monitored_by


@dataclass(frozen=True)
class UnitMonitor:
    """Message of one unit about its states and about everything else its sensors show."""

    model: UnitModel
    outside: np.ndarray
    precision: np.ndarray
    covariance: np.ndarray
    resolution: np.ndarray
    spread: np.ndarray

    @classmethod
    def learn(cls, client, Y, starts):
        """Monitor of a fitted client from nominal measurements of its active columns."""
        model = client.model
        moments = Moments(Y, model.mean, starts)
        scale = moments.scale
        G = moments.G[0]
        if not moments.complete:
            G = partial_covariance((Y - model.mean) / scale, G)
        G = G + RIDGE * np.eye(len(scale))
        if client.R is None:
            model = replace(model, R=_regression_noise(model, G, scale))
        weights = model.weights * scale[:, None]  # per scaled column
        outside = null_space(weights.T) if len(scale) > model.n_states else np.zeros((len(scale), 0))
        precision = np.linalg.inv(outside.T @ G @ outside + TUNING.monitor_floor * np.eye(outside.shape[1]))
        spread = np.array([np.diff(y[~np.isnan(y)]).std() for y in Y.T])
        whole = G * np.outer(scale, scale)
        monitor = cls(model, outside / scale[:, None], precision, whole, np.zeros(len(scale)), spread)
        return replace(monitor, resolution=monitor.resolutions(Y)[-1])

    @cached_property
    def _decades(self):
        """Exponents k of the steps ``10^-k`` that would matter for some column."""
        finest = np.min(self.spread[self.spread > 0], initial=1.0) * TUNING.monitor_fine
        return np.arange(-2, int(np.ceil(-np.log10(finest))) + 1)

    @cached_property
    def _finest(self):
        """Resolutions of a record in which no step matters any more."""
        return np.zeros(len(self.spread))

    def resolutions(self, Y, known=None):
        """Smallest step seen so far in each column at each row, zero once it does not matter."""
        steps = np.full(Y.shape[1], np.inf) if known is None else known
        matter = np.flatnonzero(steps > TUNING.monitor_fine * self.spread)
        if self._is_fine(Y[0, matter]):
            return self._finest[None]
        seen = np.full(Y.shape, np.inf)
        seen[:, matter] = self._row_steps(Y[:, matter])
        seen = np.minimum.accumulate(np.minimum(seen, steps), axis=0)
        return np.where(seen > TUNING.monitor_fine * self.spread, seen, 0.0)

    def _is_fine(self, row):
        """Whether every value has more decimals than any step that matters."""
        finest = 10.0 ** float(self._decades[-1])
        for value in row.tolist():
            scaled = abs(value) * finest
            if not abs((scaled + 0.5) % 1.0 - 0.5) > 1e-9 + 1e-6 * scaled:
                return False
        return True

    def _row_steps(self, Y):
        """Coarsest power of ten that each value is a multiple of; zero if finer than any that matters."""
        steps = np.zeros(Y.shape)
        for k in self._decades[::-1]:
            scaled = Y * 10.0**k
            whole = np.abs(scaled - np.round(scaled)) <= 1e-9 + 1e-6 * np.abs(scaled)
            steps = np.where(whole, 10.0**-k, steps)
        return np.where(np.isnan(Y), np.inf, steps)

    def message(self, Y, starts, known=None):
        """Message about measurements of the active columns, and the resolution reached, shape (n_sensors,).

        Columns that are recorded more coarsely than in nominal data get that much more noise.
        """
        if known is self._finest:  # and will not be coarser in rows to come
            return self._plain_message(Y, starts), known
        steps = self.resolutions(Y, known)
        extra = np.maximum(np.minimum(steps, 1e3 * self.spread) ** 2 - self.resolution**2, 0.0) / 12
        extra = np.where(extra > 1e-3 * self.spread**2, extra, 0.0)
        if not extra.any():
            return self._plain_message(Y, starts), steps[-1] if steps[-1].any() else self._finest
        rows, index = np.unique(extra, axis=0, return_inverse=True)
        index = np.broadcast_to(index.reshape(-1), len(Y)) if len(extra) == 1 else index.reshape(-1)
        return self._coarse_message(Y, starts, rows, index), steps[-1]

    @cached_property
    def _weights(self):
        """Weights of the information vector, in rows those of the whitened rest, and information matrix."""
        rest = self.outside @ np.linalg.cholesky(self.precision)
        J = self.model.C.T @ self.model.weights
        J = ((J + J.T) / 2)[None]  # packets carry one triangle
        return np.ascontiguousarray(self.model.weights), np.ascontiguousarray(rest.T), J

    def _plain_message(self, Y, starts):
        """Message about measurements of nominal resolution."""
        centred = Y - self.model.mean
        if len(Y) == 1 and (message := self._message_of_row(centred)) is not None:
            return message
        if not np.isfinite(centred.sum()):
            distance = self._distance(centred, None)
            return replace(self.model.message(Y, starts), off_subspace=distance)
        weights, outside, J = self._weights
        distance = _squares(outside @ centred.T)
        if not distance.max() < TUNING.monitor_beyond**2:
            limit = TUNING.monitor_beyond * np.sqrt(np.diag(self.covariance))
            centred = np.clip(centred, -limit, limit)
            distance = _squares(outside @ centred.T)
        lengths = episode_lengths(starts, len(Y))
        return StateMessage(centred @ weights, J, None, lengths, off_subspace=distance)

    def _message_of_row(self, centred):
        """Message about one row, None where something is missing or far off."""
        weights, outside, _ = self._weights
        z, rest = centred.dot(weights), outside.dot(centred[0])  # `@` takes three times as long on a row
        distance = float(rest.dot(rest))
        if not (distance < TUNING.monitor_beyond**2 and isfinite(sum(z[0].tolist()))):
            return None
        return self._row_before.next_row(z, np.array([distance]))

    @cached_property
    def _row_before(self):
        """A message about one row, from which others differ in their numbers only."""
        J = self._weights[2]
        return StateMessage(np.zeros((1, len(J[0]))), J, None, (1,), off_subspace=np.zeros(1))

    def __getstate__(self):
        """All that a file holds of it: messages are made anew."""
        return {name: value for name, value in vars(self).items() if name != "_row_before"}

    def _coarse_message(self, Y, starts, extra, index):
        n_samples, p = len(Y), self.model.n_states
        z, distance = np.empty((n_samples, p)), np.empty(n_samples)
        patterns: list[np.ndarray] = []
        pattern_of = np.empty(n_samples, dtype=np.intp)
        base = self.model.R if self.model.R.ndim == 2 else np.diag(self.model.R)
        for k, added in enumerate(extra):
            rows = np.flatnonzero(index == k)
            centred = Y[rows] - self.model.mean
            info = information(centred, self.model.C, base + np.diag(added))
            z[rows] = info.z
            pattern_of[rows] = len(patterns) + (0 if info.index is None else info.index)
            patterns.extend(info.patterns)
            distance[rows] = self._distance(centred, added)
        lengths = episode_lengths(starts, n_samples)
        index = pattern_of if len(patterns) > 1 else None
        return StateMessage(z, np.array(patterns), index, lengths, off_subspace=distance)

    def _distance(self, centred, added):
        """Mahalanobis distance outside the states' directions, missing sensors at their expectation."""
        if self.outside.shape[1] == 0:
            return np.zeros(len(centred))
        precision, covariance = self.precision, self.covariance
        if added is not None:
            more = self.outside.T @ (added[:, None] * self.outside)
            precision = np.linalg.inv(np.linalg.inv(precision) + more)
            covariance = covariance + np.diag(added)
        if not np.isfinite(centred.sum()):
            centred = expected_cells(centred, covariance)
        rest = centred @ self.outside
        return ((rest @ precision) * rest).sum(axis=1)


def _squares(rest):
    """Sum of squares of every column. `rest` is (n, n_samples)."""
    return np.einsum("it,it->t", rest, rest)


def _regression_noise(model, G, scale):
    """Noise covariance that makes the regression of the states on the measurements sufficient for them.

    With W the regression weights scaled to ``W' C = I``, noise ``C N C' + (I - C W') G (I - C W')'`` has
    ``R^-1 C = W N^-1``; N is the noise the unit's own model leaves in ``W' y``.

    G is (d, d), `scale` (d,).
    """
    C = model.C / scale[:, None]
    R = model.R / scale**2 if model.R.ndim == 1 else model.R / np.outer(scale, scale)
    W = np.linalg.solve(G, C)
    W = np.linalg.solve(W.T @ C, W.T).T
    N = W.T @ (R[:, None] * W if R.ndim == 1 else R @ W)
    rest = np.eye(len(C)) - C @ W.T
    noise = C @ N @ C.T + rest @ G @ rest.T
    noise = (noise + noise.T) / 2 * np.outer(scale, scale)
    return noise


@dataclass(frozen=True)
class NonlinearMonitor:
    """The same for a nonlinear unit: one information matrix for all complete rows.

    A row's measurements say ``z`` about the states with a matrix J of its own, which depends on where the
    filter linearised. What is sent is ``s = J^-1 z``, the states as this row alone shows them, with the mean
    of J; and how far the measurements are from ``h(s)``.
    """

    client: NonlinearClient
    J: np.ndarray
    precision: np.ndarray
    level: np.ndarray

    @classmethod
    def learn(cls, client, Y, starts):
        """Monitor of a fitted client; None where measurements do not determine the states."""
        exact = client.message(Y, lengths=episode_lengths(starts, len(Y)))
        active = client.used_columns
        complete = ~np.isnan(Y[:, active]).any(axis=1)
        J = exact.patterns[np.zeros(len(Y), dtype=int) if exact.index is None else exact.index]
        if not complete.any() or not all(is_regular(j) for j in J[complete]):
            return None
        states = np.linalg.solve(J[complete], exact.z[complete][..., None])[..., 0]
        rest = (Y[complete] - client.measurements(states))[:, active]
        floor = TUNING.monitor_floor * np.var(Y[complete][:, active], axis=0)
        precision = np.linalg.inv(np.atleast_2d(np.cov(rest.T)) + np.diag(floor))
        return cls(client, J[complete].mean(axis=0), precision, rest.mean(axis=0))

    def message(self, Y, starts, known=None):
        """Message about measurements, and where the filter stands after it."""
        exact, known = self.client.message_after(Y, starts, known)
        active = self.client.used_columns
        own = np.isnan(Y[:, active]).any(axis=1)
        regular, J = exact.information.determined_rows, exact.information.matrices()
        own |= ~regular
        states, z = np.zeros_like(exact.z), exact.z.copy()
        states[regular] = np.linalg.solve(J[regular], exact.z[regular][..., None])[..., 0]
        z[~own] = states[~own] @ self.J
        rest = np.nan_to_num((Y - self.client.measurements(states))[:, active] - self.level)
        rest[~regular] = 0.0
        distance = ((rest @ self.precision) * rest).sum(axis=1)
        if not own.any():
            return StateMessage(z, self.J[None], None, exact.lengths, off_subspace=distance), known
        patterns, position = np.unique(J[own], axis=0, return_inverse=True)
        pattern_of = np.zeros(len(Y), dtype=np.intp)
        pattern_of[own] = 1 + position.reshape(-1)
        patterns = np.concatenate([self.J[None], patterns])
        shown = {"z": z, "patterns": patterns, "index": pattern_of, "off_subspace": distance}
        return replace(exact, **shown, transition=None, process_cov=None), known


def monitored(client, Y, starts, again):
    """A fitted client as it is when its unit is monitored, and its monitor; None for a client of the user's.

    With ``n_states="auto"`` a monitored unit has as many states as the order test finds, but at least half as
    many as sensors and at most four: a direction that carries no dynamics in nominal operation may be the one
    that a fault moves. `again` fits the client anew with another number of states.
    """
    if isinstance(client, NonlinearClient):
        return client, NonlinearMonitor.learn(client, Y, starts)
    if not isinstance(client, KalmanClient):
        return client, None
    d = client.model.C.shape[0]
    wanted = min(TUNING.monitor_max_states, max(client.n_states_, -(-d // 2)), d)
    if client.n_states == "auto" and client.C is None and wanted != client.n_states_:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # said already
            with suppress(ValueError):  # measurements that have no more states than were found
                client = again(wanted)
    if client.n_states_ > d:
        raise ValueError(
            f"Got n_states={client.n_states_} for a unit with fewer sensors that vary, {d}: to be monitored it may "
            "have at most as many states as sensors. Give a smaller n_states."
        )
    monitor = UnitMonitor.learn(client, in_use(client, Y), starts)
    return monitored_by(client, monitor.model), monitor


@dataclass(frozen=True)
class ResidualFlag:
    """Mahalanobis distance of a unit's residual and its nominal threshold (eq. 7 of the paper)."""

    mean: np.ndarray
    precision: np.ndarray
    threshold: float

    @classmethod
    def learn(cls, residuals, percentile):
        """Mean, covariance and threshold of nominal residuals, rows with missing values left out."""
        complete = residuals[~np.isnan(residuals).any(axis=1)]
        if len(complete) <= residuals.shape[1]:
            raise ValueError(f"Only {len(complete)} rows have every sensor; {residuals.shape[1]} residuals need more.")
        mean = complete.mean(axis=0)
        covariance = np.atleast_2d(np.cov(complete.T))
        floor = 1e-9 * np.trace(covariance) / len(covariance)
        precision = np.linalg.inv(covariance + floor * np.eye(len(covariance)))
        flag = cls(mean, precision, 0.0)
        return cls(mean, precision, float(np.percentile(flag.distances(complete), percentile)))

    def distances(self, residuals):
        """Squared Mahalanobis distances; missing sensors count as their mean."""
        centred = np.nan_to_num(residuals - self.mean)
        return np.einsum("ti,ij,tj->t", centred, self.precision, centred)

    def raised(self, residuals):
        """1 where the distance is above the threshold, else 0."""
        return (self.distances(residuals) > self.threshold).astype(np.uint8)
