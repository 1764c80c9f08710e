"""Tools that users would try first on a recorded plant, all of which see the pooled table.

VARX by AIC, subspace methods and boosting on lags are fitted by a function of ``(Y, U, before)``: outputs, inputs,
and which inputs may act on the row that they stand in; and answer like an `Innovations` model. `Charts` watch a plant.
An `Autoregression` with Wald tests, PCMCI (`pcmci`) and `kernel_granger` tell links of units' series.
"""

from dataclasses import dataclass
from importlib import import_module

import numpy as np
import pandas as pd
from scipy import stats
from scipy.linalg import block_diag, solve, solve_discrete_are
from scipy.signal import lfilter
from sklearn.ensemble import HistGradientBoostingRegressor
from statsmodels.stats.multitest import multipletests
from statsmodels.tsa.api import VAR, AutoReg

LEVEL = 0.05  # of decisions on links
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


# -- links ---------------------------------------------------------------------------------------------------


def holm(p):
    """Rejections of p-values [effect, cause] off the diagonal at a family-wise level."""
    off, out = ~np.eye(len(p), dtype=bool), np.zeros_like(p, dtype=bool)
    out[off] = multipletests(p[off], LEVEL, method="holm")[0]
    return out


def components(X, n_components):
    """First principal components of every unit's sensors, gaps filled linearly, and their axes."""
    scores, axes = [], []
    for Y in X.values():
        centred = filled(Y) - np.nanmean(Y, axis=0)
        axes.append(np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :n_components])
        scores.append(centred @ axes[-1])
    return scores, axes


def filled(Y):
    """A record whose gaps are filled linearly in time."""
    if not np.isnan(Y).any():
        return Y
    rows = np.arange(len(Y))
    return np.column_stack([np.interp(rows, rows[~np.isnan(y)], y[~np.isnan(y)]) for y in Y.T])


class Autoregression:
    """Vector autoregression by statsmodels of the series of all units, and Wald tests of its blocks.

    The numbers of statsmodels' ``test_causality(..., kind="wald")``, without its covariance of all coefficients.
    The order is given, or chosen by AIC up to `most_lags`.
    """

    def __init__(self, series, n_lags=None, most_lags=None):
        values = np.hstack(series)
        if n_lags is None:  # a short record has no room for more
            most_lags = int(np.clip(len(values) // (4 * values.shape[1]), 1, most_lags))
        self.fit = VAR(values).fit(n_lags or most_lags, ic=None if n_lags else "aic", trend="c")
        self.n_lags = self.fit.k_ar
        edges = np.cumsum([0, *(part.shape[1] for part in series)])
        self.units = [np.arange(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]
        lagged = self.fit.endog_lagged
        self._moments = np.linalg.pinv(lagged.T @ lagged, hermitian=True)

    def block(self, effect, cause):
        """Coefficients of all lags (lags of the cause, effect), their covariance over rows and over columns."""
        first = 1 + self.fit.neqs * np.arange(self.n_lags)[:, None]  # after the constant
        rows, columns = (first + self.units[cause]).ravel(), self.units[effect]
        params, sigma = np.asarray(self.fit.params), np.asarray(self.fit.sigma_u)
        return params[np.ix_(rows, columns)], self._moments[np.ix_(rows, rows)], sigma[np.ix_(columns, columns)]

    def tests(self):
        """p-values and statistics over their degrees of freedom [effect, cause].

        One and zero on the diagonal, and everywhere where no lag was chosen.
        """
        n = len(self.units)
        p, size = np.ones((n, n)), np.zeros((n, n))
        for effect, cause in np.ndindex(n, n):
            if effect != cause and self.n_lags:
                B, over_rows, over_columns = self.block(effect, cause)
                statistic = np.trace(np.linalg.solve(over_columns, B.T) @ np.linalg.solve(over_rows, B))
                p[effect, cause], size[effect, cause] = stats.chi2.sf(statistic, B.size), statistic / B.size
        return p, size

    def p_values(self):
        """p-values alone."""
        return self.tests()[0]

    def changes(self, other):
        """p-values [effect, cause] of differences from an autoregression of the same order, own blocks too."""
        n, out = len(self.units), np.ones((len(self.units),) * 2)
        for at in np.ndindex(n, n):
            (A, *own), (B, *its) = self.block(*at), other.block(*at)
            difference, covariance = (A - B).ravel(), np.kron(*own) + np.kron(*its)
            statistic = difference @ np.linalg.solve(covariance, difference)
            out[at] = stats.chi2.sf(statistic, len(difference))
        return out


TESTS = {"ParCorr": "parcorr", "GPDC": "gpdc", "CMIknn": "cmiknn"}  # of independence, and their modules


def pcmci(series, n_lags, most_conditions=None, test="ParCorr", **options):
    """PCMCI with a test of independence and its options: p-values and largest sizes [effect, cause].

    A pair's p-value is the smallest of its series' and lags', times their number.
    """
    from tigramite.data_processing import DataFrame
    from tigramite.pcmci import PCMCI

    independence = getattr(import_module(f"tigramite.independence_tests.{TESTS[test]}"), test)(**options)
    run = PCMCI(DataFrame(np.hstack(series)), independence, verbosity=0)
    found = run.run_pcmci(tau_min=1, tau_max=n_lags, pc_alpha=0.05, max_conds_dim=most_conditions)
    edges = np.cumsum([0, *(part.shape[1] for part in series)])
    units = [slice(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]
    n = len(units)
    p, size = np.ones((n, n)), np.zeros((n, n))
    for effect, cause in np.ndindex(n, n):
        if effect != cause:
            block = found["p_matrix"][units[cause], units[effect], 1:]
            p[effect, cause] = min(1.0, block.min() * block.size)
            size[effect, cause] = np.abs(found["val_matrix"][units[cause], units[effect], 1:]).max()
    return p, size


def neural_granger(series, n_lags, penalty=0.1, n_steps=10_000):
    """Neural Granger causality [1]_ by the authors' networks and proximal descent: sizes [effect, cause], 0 for none.

    A layer of a hundred, the hierarchical penalty, and a step and ridge as in their example; its penalty of .002 keeps
    every link here.

    References
    ----------
    .. [1] Tank, Covert, Foti, Shojaie, Fox (2021), Neural Granger causality, IEEE Transactions on Pattern Analysis and
           Machine Intelligence 44(8).
    """
    import torch
    from neuralgc.models.cmlp import cMLP, train_model_ista

    torch.manual_seed(0)
    torch.set_num_threads(1)
    Z = np.hstack([(part - part.mean(axis=0)) / part.std(axis=0) for part in series])
    model = cMLP(Z.shape[1], n_lags, [100])
    how = {"lr": 5e-2, "max_iter": n_steps, "lam": penalty, "lam_ridge": 1e-2, "verbose": 0}
    train_model_ista(model, torch.tensor(Z[None], dtype=torch.float32), **how)
    size = model.GC(threshold=False).detach().numpy() ** 2
    firsts = np.cumsum([0, *(part.shape[1] for part in series[:-1])])
    return np.sqrt(np.add.reduceat(np.add.reduceat(size, firsts, axis=0), firsts, axis=1))


def kernel_granger(series, n_lags, n_folds=4, n_stretches=20, ridges=(0.03, 0.3, 3.0)):
    """Granger causality by kernel ridge regression [1]_: p-values and Student's t [effect, cause].

    A Gaussian kernel, as wide as the median distance, of the lags of all units; each fold is predicted from the
    others, with and without a cause, and what its lack loses is a mean over stretches, tested one-sided. The ridge is
    the one with which the full regression loses least.

    References
    ----------
    .. [1] Marinazzo, Pellicoro, Stramaglia (2008), Kernel method for nonlinear Granger causality, Physical Review
           Letters 100, 144103.
    """
    Z = [(part - part.mean(axis=0)) / part.std(axis=0) for part in series]
    now = np.hstack([part[n_lags:] for part in Z])
    past = [np.hstack([part[n_lags - lag : len(part) - lag] for lag in range(1, n_lags + 1)]) for part in Z]
    firsts = np.cumsum([0, *(part.shape[1] for part in Z[:-1])])
    folds = np.array_split(np.arange(len(now)), n_folds)

    def losses(parts, ridge):
        X, missed = np.hstack(parts), np.empty_like(now)
        squares = np.square(X).sum(axis=1)
        distances = np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0.0)
        K = np.exp(-distances / np.median(distances[::7, ::7]))
        for left in folds:
            seen = np.setdiff1d(np.arange(len(now)), left)
            known = K[np.ix_(seen, seen)] + ridge * np.eye(len(seen))
            missed[left] = now[left] - K[np.ix_(left, seen)] @ solve(known, now[seen], assume_a="pos")
        return np.add.reduceat(np.square(missed), firsts, axis=1)  # of units

    n, tried = len(Z), [losses(past, ridge) for ridge in ridges]
    best = int(np.argmin([lost.sum() for lost in tried]))
    p, size = np.ones((n, n)), np.zeros((n, n))
    for cause in range(n):
        lost = losses(past[:cause] + past[cause + 1 :], ridges[best]) - tried[best]
        means = np.array([part.mean(axis=0) for part in np.array_split(lost, n_stretches)])
        effects = np.flatnonzero(np.arange(n) != cause)
        found = stats.ttest_1samp(means[:, effects], 0.0, alternative="greater")
        size[effects, cause], p[effects, cause] = found.statistic, found.pvalue
    return p, size


def aligned(A, loadings, truth):
    """Transition matrix of other states, whose sensors' loadings are given, in the true states."""
    change = [np.linalg.lstsq(C, L, rcond=None)[0] for C, L in zip(truth.observation, loadings, strict=True)]
    S = block_diag(*change)  # true states = S @ other states
    return S @ A @ np.linalg.inv(S)
