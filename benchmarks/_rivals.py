"""Tools that users would try first on a recorded plant, all of which see the pooled table.

VARX by AIC, subspace methods and boosting on lags are fitted by a function of ``(Y, U, before)``: outputs, inputs,
and which inputs may act on the row that they stand in; and answer like an `Innovations` model. `Charts` watch a plant.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.linalg import solve_discrete_are
from scipy.signal import lfilter
from sklearn.ensemble import HistGradientBoostingRegressor
from statsmodels.tsa.api import VAR, AutoReg

LAGS = (1, 2, 3, 5, 8, 12, 20)
_BOUND = 1e6  # standard deviations at which a forecast that runs away is stopped


@dataclass
class Innovations:
    """``x[t+1] = A x[t] + B u[t] + K e[t]``, ``y[t] = C x[t] + D u[t] + e[t]``, Cov e = S."""

    A: np.ndarray
    B: np.ndarray
    C: np.ndarray
    D: np.ndarray
    K: np.ndarray
    S: np.ndarray
    note: str = ""

    def filtered(self, Y, U, start=0):
        """Innovations of every row, and the states before each row from `start` on and after the last."""
        x, errors, states = np.zeros(len(self.A)), np.empty_like(Y), []
        for t, (y, u) in enumerate(zip(Y, U, strict=True)):
            if t >= start:
                states.append(x)
            errors[t] = y - self.C @ x - self.D @ u
            x = self.A @ x + self.B @ u + self.K @ errors[t]
        return errors, np.array([*states, x])

    def free_runs(self, Y, U, origins, n_steps):
        """Forecasts of the rows from each origin on, shape (n_origins, n_steps, n_outputs)."""
        states = self.filtered(Y, U)[1]
        x = states[origins].T
        found = np.empty((len(origins), n_steps, Y.shape[1]))
        for k in range(n_steps):
            u = U[origins + k].T
            found[:, k] = np.clip(self.C @ x + self.D @ u, -_BOUND, _BOUND).T
            x = np.clip(self.A @ x + self.B @ u, -_BOUND, _BOUND)
        return found

    def response(self, changes):
        """Effect on the outputs of changes of the inputs, one row each."""
        x, found = np.zeros(len(self.A)), np.empty((len(changes), len(self.C)))
        for t, u in enumerate(changes):
            found[t] = np.clip(self.C @ x + self.D @ u, -_BOUND, _BOUND)
            x = np.clip(self.A @ x + self.B @ u, -_BOUND, _BOUND)
        return found

    def log_density(self, Y, U):
        """One-step log-density of every row."""
        return gaussian(self.filtered(Y, U)[0], self.S)


def gaussian(errors, S):
    """Log-density of rows of a centred Gaussian."""
    L = np.linalg.cholesky(S + 1e-12 * np.trace(S) / len(S) * np.eye(len(S)))
    white = np.linalg.solve(L, errors.T)
    return -0.5 * (white**2).sum(axis=0) - np.log(np.diag(L)).sum() - 0.5 * len(L) * np.log(2 * np.pi)


def lagged(series, lags, n_samples, first):
    """Columns of a series at the given lags, rows `first` to the end."""
    blocks = [series[first - lag : n_samples - lag] for lag in lags]
    return np.hstack(blocks) if blocks else np.zeros((n_samples - first, 0))


def varx(Y, U, before, lags=LAGS):
    """Vector autoregression by statsmodels, lags of outputs and inputs by AIC over the same rows."""
    most, same, found = max(lags), U[:, before], []
    for p in lags:
        exog = np.hstack([same[most:], lagged(U, range(1, p + 1), len(U), most)])
        if p > 1 and 1 + p * Y.shape[1] + exog.shape[1] > len(Y) / 3:
            continue
        params, errors = _least_squares(Y[most - p :], exog, p)
        S = errors.T @ errors / len(errors)
        aic = len(errors) * np.linalg.slogdet(S)[1] + 2 * params.size
        found.append((aic, p, params, S))
    _, p, params, S = min(found, key=lambda one: one[0])
    return _companion(params, S, p, before, U.shape[1])


def _least_squares(Y, exog, p):
    """Parameters in the order const, exog, lags of outputs, shape (n_parameters, n_outputs), and residuals.

    `exog` starts p rows after Y.
    """
    exog = np.vstack([np.zeros((p, exog.shape[1])), exog]) if exog.size else None
    if Y.shape[1] > 1:
        fit = VAR(Y, exog=exog).fit(p, trend="c")
        return np.asarray(fit.params), np.asarray(fit.resid)
    fit = AutoReg(Y[:, 0], p, trend="c", exog=exog).fit()
    const, own, rest = np.split(fit.params, [1, 1 + p])
    return np.concatenate([const, rest, own])[:, None], np.asarray(fit.resid)[:, None]


def _companion(params, S, p, before, k):
    """Innovations form of a VARX whose parameters are in the order const, inputs, lags of outputs."""
    n, s = len(S), int(before.sum())
    same, late, own = np.split(params[1:], [s, s + k * p])
    D = np.zeros((n, k))
    D[:, before] = same.T
    A, B = np.zeros(((n + k) * p,) * 2), np.zeros(((n + k) * p, k))
    C = np.hstack([own.T, late.T])
    A[:n], B[:n] = C, D
    A[n : n * p, : n * (p - 1)] = np.eye(n * (p - 1))
    B[n * p : n * p + k] = np.eye(k)
    A[n * p + k :, n * p : n * p + k * (p - 1)] = np.eye(k * (p - 1))
    K = np.zeros(((n + k) * p, n))
    K[:n] = np.eye(n)
    radius = np.abs(np.linalg.eigvals(A[: n * p, : n * p])).max()
    return Innovations(A, B, C, D, K, S, f"{p} lags, radius {radius:.3f}")


def cva(Y, U, before, order, horizon=10):
    """Canonical variate analysis (Larimore 1990): states from the past, the plant by regression on them."""
    rows = np.arange(horizon, len(Y) - horizon)
    past = np.hstack([block[rows - i] for i in range(1, horizon + 1) for block in (Y, U)])
    later = np.hstack([U[rows + i] for i in range(horizon)])
    future = np.hstack([Y[rows + i] for i in range(horizon)])
    if later.size:
        known = np.linalg.lstsq(later, np.hstack([past, future]), rcond=None)[0]
        rest_past, rest_future = np.split(np.hstack([past, future]) - later @ known, [past.shape[1]], axis=1)
    else:
        rest_past, rest_future = past, future
    left, right = (_root(np.cov(part, rowvar=False)) for part in (rest_past, rest_future))
    cross = rest_past.T @ rest_future / len(rows)
    vectors = np.linalg.svd(left @ cross @ right, full_matrices=False)[0][:, :order]
    states = past @ left @ vectors
    present = np.hstack([states, U[rows][:, before]])
    C, D = np.zeros((Y.shape[1], order)), np.zeros((Y.shape[1], U.shape[1]))
    seen = np.linalg.lstsq(present, Y[rows], rcond=None)[0].T
    C[:], D[:, before] = seen[:, :order], seen[:, order:]
    driven = np.hstack([states, U[rows]])[:-1]
    A, B = np.split(np.linalg.lstsq(driven, states[1:], rcond=None)[0].T, [order], axis=1)
    rest = np.hstack([states[1:] - driven @ np.hstack([A, B]).T, (Y[rows] - present @ seen.T)[:-1]])
    return _with_gain(A, B, C, D, rest.T @ rest / len(rest), f"order {order}")


def _with_gain(A, B, C, D, noise, note):
    """Innovations form of a plant with the joint covariance of process and measurement noise."""
    n = len(A)
    Q, S, R = noise[:n, :n], noise[:n, n:], noise[n:, n:]
    R = R + 1e-9 * np.trace(R) / len(R) * np.eye(len(R))
    P = solve_discrete_are(A.T, C.T, Q, R, s=S)
    V = C @ P @ C.T + R
    return Innovations(A, B, C, D, np.linalg.solve(V, (A @ P @ C.T + S).T).T, V, note)


def _root(S):
    values, vectors = np.linalg.eigh(np.atleast_2d(S))
    return (vectors / np.sqrt(np.maximum(values, 1e-6 * values[-1]))) @ vectors.T


class Boosting:
    """Gradient boosting of every output on ten lags of all outputs and inputs, scikit-learn's defaults."""

    def __init__(self, n_lags=10):
        self.n_lags = n_lags

    def fit(self, Y, U, before):
        self.before, n_train = before, int(0.7 * len(Y))
        Z, targets = self._rows(Y, U), Y[self.n_lags :]
        known = slice(0, n_train - self.n_lags)
        first = [HistGradientBoostingRegressor(random_state=0).fit(Z[known], y[known]) for y in targets.T]
        unseen = slice(n_train - self.n_lags, None)
        errors = targets[unseen] - np.column_stack([model.predict(Z[unseen]) for model in first])
        self.S = errors.T @ errors / len(errors)  # of rows that were not learned from
        self.models = [HistGradientBoostingRegressor(random_state=0).fit(Z, y) for y in targets.T]
        self.note = f"{self.n_lags} lags"
        return self

    def _rows(self, Y, U):
        lags = range(1, self.n_lags + 1)
        blocks = [U[self.n_lags :, self.before]]
        blocks += [lagged(part, lags, len(part), self.n_lags) for part in (Y, U)]
        return np.hstack(blocks)

    def free_runs(self, Y, U, origins, n_steps):
        Y = np.stack([Y[o - self.n_lags : o + n_steps] for o in origins])
        U = np.stack([U[o - self.n_lags : o + n_steps] for o in origins])
        for t in range(self.n_lags, self.n_lags + n_steps):
            blocks = [U[:, t, self.before]]
            blocks += [part[:, t - lag] for part in (Y, U) for lag in range(1, self.n_lags + 1)]
            Y[:, t] = np.column_stack([model.predict(np.hstack(blocks)) for model in self.models])
        return Y[:, self.n_lags :]

    def log_density(self, Y, U):
        Z = self._rows(Y, U)
        errors = Y[self.n_lags :] - np.column_stack([model.predict(Z) for model in self.models])
        return np.concatenate([np.full(self.n_lags, np.nan), gaussian(errors, self.S)])


def order_chosen(fit, Y, U, orders):
    """Model of the order whose free run of the last 30 % of the rows is best, fitted to all rows."""
    n_train = int(0.7 * len(Y))
    errors = {}
    for order in orders:
        try:
            model = fit(Y[:n_train], U[:n_train], order)
            found = model.free_runs(Y, U, np.array([n_train]), len(Y) - n_train)[0]
        except (np.linalg.LinAlgError, ValueError):
            continue
        errors[order] = np.sqrt(((found - Y[n_train:]) ** 2).mean(axis=0)).mean()
    return fit(Y, U, min(errors, key=lambda order: errors[order]))


class Charts:
    """EWMA charts of what an autoregression of every column leaves, with limits that the nominal record gives.

    Regressors are `n_lags` rows of the column itself and the inputs of its unit, now and one row before. An alarm
    begins where the largest chart exceeds its limit and none has for a while; it names the unit of that chart. The
    limit is exceeded in as many stretches of the nominal record as false alarms are allowed.
    """

    weight, quiet, n_lags = 0.2, 50, 2

    def __init__(self, false_alarm_rate=1e-3):
        self.false_alarm_rate = false_alarm_rate

    def fit(self, X, inputs=None, lengths=None):
        """Learn regressions, scales and the limit."""
        Y, self.owners = _columns(X)
        self.level, self.scale = np.nanmean(Y, axis=0), np.nanstd(Y, axis=0)
        self.scale[~(self.scale > 0)] = 1.0
        parts = [self._regression(Y, inputs, k) for k in range(len(self.owners))]
        self.weights = [np.linalg.lstsq(Z, target, rcond=None)[0] for Z, target in parts]
        self.spread = np.ones(len(parts))
        charts = self._charts(Y, inputs)
        self.spread = np.maximum(charts.std(axis=0), 1e-9)
        most = np.abs(charts / self.spread).max(axis=1)
        stretches = np.sort([most[i : i + self.quiet].max() for i in range(0, len(most), self.quiet)])
        self.limit = stretches[-min(int(self.false_alarm_rate * len(most)) + 1, len(stretches))]
        return self

    def incidents(self, X, inputs=None):
        """Alarms as the library lists them."""
        charts = np.abs(self._charts(_columns(X)[0], inputs) / self.spread)
        beyond, rows, last = charts.max(axis=1) > self.limit, [], -np.inf
        for t in np.flatnonzero(beyond):
            if t - last > self.quiet:
                rows.append({"detected": t, "root": self.owners[charts[t].argmax()]})
            last = t
            rows[-1]["end"] = t
        found = pd.DataFrame(rows, columns=["detected", "root", "end"])
        return found.assign(kind="chart", probability=np.nan)

    def _regression(self, Y, inputs, k):
        """Regressors and values of a column, standardised; what is missing stays as it was."""
        y = pd.Series((Y[:, k] - self.level[k]) / self.scale[k]).ffill().fillna(0.0).to_numpy()
        Z = [np.ones((len(y), 1)), *(np.r_[np.zeros(p), y[:-p]][:, None] for p in range(1, self.n_lags + 1))]
        U = (inputs or {}).get(self.owners[k])
        if U is not None:
            Z += [U, np.vstack([U[:1], U[:-1]])]
        return np.hstack(Z), y

    def _charts(self, Y, inputs):
        """Averages of the residuals that forget, one column each."""
        parts = (self._regression(Y, inputs, k) for k in range(len(self.owners)))
        rest = np.column_stack([y - Z @ w for (Z, y), w in zip(parts, self.weights, strict=True)])
        return lfilter([self.weight], [1, self.weight - 1], rest, axis=0)


def _columns(X):
    """Values of all columns and the units that they belong to."""
    if isinstance(X, dict):
        return np.hstack(list(X.values())), [name for name, Y in X.items() for _ in range(Y.shape[1])]
    return X.to_numpy(float), [name.split("__")[0] for name in X]
