"""Slow and plain references: loops over time, the whole joint Gaussian of a short series, differences."""

from dataclasses import dataclass, fields
from types import SimpleNamespace

import numpy as np
from scipy.linalg import block_diag, solve_discrete_are, solve_discrete_lyapunov
from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother

from skfedcausal.statespace.whittle import frequencies_of_states

EPS = np.finfo(float).eps


def rounding(size, condition=1.0):
    """Relative error of solving a few systems of `size` unknowns: backward error times condition."""
    return 8 * size * condition * EPS


def assert_within(actual, expected, error):
    """Every element within an absolute error."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=error)


# -- plants -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plant:
    """``h[t] = A h[t-1] + w``, ``y[t] = C h[t] + v``; `P0` is the covariance of the first state."""

    A: np.ndarray
    Q: np.ndarray
    C: np.ndarray
    R: np.ndarray
    P0: np.ndarray

    @property
    def n_states(self):
        return len(self.A)

    @property
    def W(self):
        return np.linalg.inv(self.R) @ self.C

    @property
    def J(self):
        return self.C.T @ self.W

    @property
    def predicted_cov(self):
        """Steady-state covariance of the predicted state, by scipy."""
        return solve_discrete_are(self.A.T, self.C.T, self.Q, self.R)

    @property
    def filter_matrix(self):
        """``(I - K C) A`` of the steady-state filter."""
        P = self.predicted_cov
        K = P @ self.C.T @ np.linalg.inv(self.C @ P @ self.C.T + self.R)
        return (np.eye(self.n_states) - K @ self.C) @ self.A

    @property
    def filter_rounding(self):
        """Relative error of a Kalman filter: one step's rounding, earlier steps' decaying with the filter.

        A step solves with the innovation covariance, or with R and I + P J.
        """
        solved = self.C @ self.P0 @ self.C.T + self.R, self.R, np.eye(self.n_states) + self.P0 @ self.J
        step = rounding(self.n_states + len(self.C), max(np.linalg.cond(x) for x in solved))
        return step / (1 - radius(self.filter_matrix))


def radius(A):
    return np.abs(np.linalg.eigvals(A)).max()


def random_covariance(rng, n):
    factor = rng.normal(size=(n, n + 3))
    return factor @ factor.T / (n + 3)


def random_transition(rng, n, radius_=0.8):
    A = rng.normal(size=(n, n))
    return A * radius_ / radius(A)


def random_plant(seed, n_states, n_sensors, radius_=0.8, noise=0.5, P0=None):
    """A plant with a full Q and a full R, starting from its stationary distribution unless P0 is given."""
    rng = np.random.default_rng(seed)
    A, Q = random_transition(rng, n_states, radius_), random_covariance(rng, n_states)
    C, R = rng.normal(size=(n_sensors, n_states)), noise * random_covariance(rng, n_sensors)
    return Plant(A, Q, C, R, solve_discrete_lyapunov(A, Q) if P0 is None else P0)


def loop_recurrence(F, drive, x0=None):
    """``x[t] = F x[t-1] + drive[t]``, one row after the other."""
    x = np.zeros(len(F)) if x0 is None else x0
    rows = []
    for row in drive:
        x = F @ x + row
        rows.append(x)
    return np.array(rows)


def simulate(plant, n_samples, seed, drive=None):
    """Measurements of one episode; row 0 of `drive` is the mean of the first state."""
    rng = np.random.default_rng(seed)
    shocks = rng.multivariate_normal(np.zeros(plant.n_states), plant.Q, size=n_samples)
    shocks[0] = rng.multivariate_normal(np.zeros(plant.n_states), plant.P0)
    states = loop_recurrence(plant.A, shocks if drive is None else shocks + drive)
    return states @ plant.C.T + rng.multivariate_normal(np.zeros(len(plant.C)), plant.R, size=n_samples)


def with_gaps(Y, seed, share=0.3, rows=(), column=None):
    """A copy with cells missing at random, whole rows missing and a column that is never there."""
    Y = Y.copy()
    Y[np.random.default_rng(seed).random(Y.shape) < share] = np.nan
    Y[list(rows)] = np.nan
    if column is not None:
        Y[:, column] = np.nan
    return Y


def episode_slices(starts, n_samples):
    return [slice(a, b) for a, b in zip(starts, [*starts[1:], n_samples], strict=True)]


# -- the joint Gaussian -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moments:
    """States given the past, the present and the whole of the measurements, one row per time step."""

    predicted: np.ndarray
    predicted_cov: np.ndarray
    filtered: np.ndarray
    filtered_cov: np.ndarray
    smoothed: np.ndarray
    smoothed_cov: np.ndarray
    log_density: np.ndarray


def _by_episode(function, plant, Y, drive, starts):
    """Moments of each episode below each other."""
    slices = episode_slices(starts, len(Y))
    parts = [function(plant, Y[e], None if drive is None else drive[e]) for e in slices]
    return Moments(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Moments)))


def joint_states(plant, n_samples, drive=None):
    """Mean and covariance of all states of an episode below each other."""
    n = plant.n_states
    powers = [np.eye(n)]
    for _ in range(n_samples):
        powers.append(powers[-1] @ plant.A)
    blank = np.zeros((n, n))
    rows = range(n_samples)
    to_states = np.block([[powers[t - s] if s <= t else blank for s in rows] for t in rows])
    shocks = block_diag(plant.P0, *[plant.Q] * (n_samples - 1))
    mean = np.zeros(n_samples * n) if drive is None else to_states @ drive.ravel()
    return mean, to_states @ shocks @ to_states.T


def joint_measurements(plant, Y, drive=None):
    """Mean, design and covariance of the measurements that are there, and those of the states."""
    mean, cov = joint_states(plant, len(Y), drive)
    seen = ~np.isnan(Y).ravel()
    design = np.kron(np.eye(len(Y)), plant.C)[seen]
    noise = np.kron(np.eye(len(Y)), plant.R)[np.ix_(seen, seen)]
    return SimpleNamespace(
        y=Y.ravel()[seen],
        design=design,
        mean=design @ mean,
        cov=design @ cov @ design.T + noise,
        state_mean=mean,
        state_cov=cov,
    )


def gaussian_log_density(residual, cov):
    fit = residual @ np.linalg.solve(cov, residual)
    return -0.5 * (len(residual) * np.log(2 * np.pi) + np.linalg.slogdet(cov)[1] + fit)


def _given(plant, Y, drive, n_rows):
    """All states of the episode, and the log-density, given its first `n_rows` measurements."""
    known = Y.copy()
    known[n_rows:] = np.nan
    joint = joint_measurements(plant, known, drive)
    residual = joint.y - joint.mean
    gain = np.linalg.solve(joint.cov, joint.design @ joint.state_cov).T
    mean = joint.state_mean + gain @ residual
    cov = joint.state_cov - gain @ joint.design @ joint.state_cov
    return mean, cov, gaussian_log_density(residual, joint.cov)


def brute_force(plant, Y, drive=None, starts=(0,)):
    """Moments of the states and log-density of each row, from the whole joint Gaussian of each episode."""
    return _by_episode(_brute_force_episode, plant, Y, drive, starts)


def _brute_force_episode(plant, Y, drive):
    T, n = len(Y), plant.n_states
    runs = [_given(plant, Y, drive, n_rows) for n_rows in range(T + 1)]

    def at(run, t):
        return run[0][t * n : (t + 1) * n], run[1][t * n : (t + 1) * n, t * n : (t + 1) * n]

    predicted, filtered, smoothed = (
        [np.array(part) for part in zip(*(at(runs[given(t)], t) for t in range(T)), strict=True)]
        for given in (lambda t: t, lambda t: t + 1, lambda t: T)
    )
    return Moments(*predicted, *filtered, *smoothed, np.diff([run[2] for run in runs]))


def brute_force_rounding(plant, Y):
    """Relative error of :func:`brute_force`, which solves with the covariance of a whole episode."""
    cov = joint_measurements(plant, np.zeros_like(Y)).cov
    return rounding(len(cov), np.linalg.cond(cov))


def generalised_least_squares(plant, Y):
    """Level of the states in one episode, log-density at it (joint Gaussian) and absolute rounding error."""
    joint = joint_measurements(plant, Y)
    X = joint.design @ np.tile(np.eye(plant.n_states), (len(Y), 1))
    VX = np.linalg.solve(joint.cov, X)
    level = np.linalg.solve(X.T @ VX, VX.T @ joint.y)
    error = brute_force_rounding(plant, Y) * np.linalg.cond(X.T @ VX) * (1 + np.abs(joint.y).max())
    return level, gaussian_log_density(joint.y - X @ level, joint.cov), error


def statsmodels_moments(plant, Y, drive=None, starts=(0,)):
    """The same moments from statsmodels' smoother on the raw measurements."""
    return _by_episode(_statsmodels_episode, plant, Y, drive, starts)


def _statsmodels_episode(plant, Y, drive):
    n = plant.n_states
    model = KalmanSmoother(k_endog=len(plant.C), k_states=n, tolerance=0.0)
    model.bind(np.ascontiguousarray(Y))
    model["design"], model["obs_cov"] = plant.C, plant.R
    model["transition"], model["selection"], model["state_cov"] = plant.A, np.eye(n), plant.Q
    mean = np.zeros(n)
    if drive is not None:
        mean = drive[0]
        model["state_intercept"] = np.vstack([drive[1:], np.zeros((1, n))]).T
    model.initialize_known(mean, plant.P0)
    run = model.smooth()
    covs = (run.predicted_state_cov[..., :-1], run.filtered_state_cov, run.smoothed_state_cov)
    means = (run.predicted_state[:, :-1], run.filtered_state, run.smoothed_state)
    pairs = zip(means, covs, strict=True)
    return Moments(*(x for m, c in pairs for x in (m.T, np.moveaxis(c, -1, 0))), run.llf_obs)


# -- derivatives --------------------------------------------------------------------------------------


def _five_point(function, matrix, direction, step):
    def at(k):
        return function(matrix + k * step * direction)

    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step)


def derivatives(function, matrix, *, symmetric=False, step=1e-3):
    """Derivatives with respect to the elements of a matrix, and a bound on their error.

    With `symmetric`, elements (i, j) and (j, i) move together and share their derivative. The error of the
    five-point rule falls as step**4, so the difference between the rules with steps h and 2 h is 15 times the
    truncation error at h; rounding of the function adds about ``1000 eps |f| / step``.
    """
    first, second = [], []
    for i, j in np.ndindex(*matrix.shape):
        direction = np.zeros_like(matrix)
        direction[i, j] = 1.0
        if symmetric:
            direction = (direction + direction.T) / 2
        first.append(_five_point(function, matrix, direction, step))
        second.append(_five_point(function, matrix, direction, 2 * step))
    first, second = np.array(first), np.array(second)
    floor = 1000 * EPS * np.abs(function(matrix)).max() / step
    shape = (*matrix.shape, *first.shape[1:])
    return first.reshape(shape), np.abs(first - second).max() + floor


def assert_gradient(gradient, function, matrix, **options):
    """`gradient` agrees with differences to within their error, and the differences are sharp."""
    expected, error = derivatives(function, matrix, **options)
    assert error < 1e-4 * np.abs(expected).max()
    assert_within(gradient, expected, error)


# -- spectra ------------------------------------------------------------------------------------------


def half_circle(n_frequencies):
    return (np.arange(n_frequencies) + 0.5) * np.pi / n_frequencies


def rotated(A, frequencies):
    """``exp(i w) I - A`` at each frequency."""
    return np.exp(1j * np.asarray(frequencies))[:, None, None] * np.eye(len(A)) - A


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def score_spectrum(A, Q, N, frequencies):
    """Spectrum of the scores ``s = h + e``, ``Cov e = N``."""
    inverse = np.linalg.inv(rotated(A, frequencies))
    return inverse @ Q @ adjoint(inverse) + N


@dataclass(frozen=True)
class EndlessRecord:
    """Moments of the transitions of scores as an endless record would have them."""

    A: np.ndarray
    Q: np.ndarray
    N: np.ndarray
    n_frequencies: int
    n_transitions: int = 1

    @property
    def late(self):
        """Only its length counts: one more than the number of frequencies."""
        return np.zeros((self.n_frequencies + 1, *self.A.shape))

    def spectra(self, frequencies):
        S = score_spectrum(self.A, self.Q, self.N, frequencies)
        return S, np.exp(1j * frequencies)[:, None, None] * S, S


def unit_directions(n, elements, *, symmetric=False):
    """Matrices with a one at each (row, column), and at (column, row) if symmetric."""
    elements = list(elements)
    directions = np.zeros((len(elements), n, n))
    for direction, (i, j) in zip(directions, elements, strict=True):
        direction[i, j] = 1.0
        if symmetric:
            direction[j, i] = 1.0
    return directions


def whittle_information(A, Q, N, n_frequencies, of_A, of_Q):
    """``1/2 mean tr S^-1 dS_a S^-1 dS_b`` for directions of A, then of Q; and the relative rounding error.

    On so many frequencies, or as many more as slow states need.
    """
    n_frequencies = frequencies_of_states(A, n_frequencies)
    frequencies = half_circle(n_frequencies)
    inverse = np.linalg.inv(rotated(A, frequencies))
    S = score_spectrum(A, Q, N, frequencies)
    states = inverse @ Q @ adjoint(inverse)
    moved = [inverse @ D @ states for D in of_A]
    changes = [x + adjoint(x) for x in moved] + [inverse @ D @ adjoint(inverse) for D in of_Q]
    scaled = np.array([np.linalg.solve(S, x) for x in changes])
    matrix = 0.5 * np.einsum("afij,bfji->ab", scaled, scaled, optimize=True).real / n_frequencies
    condition = (np.linalg.cond(S) * np.linalg.cond(inverse) ** 2).max()
    return matrix, rounding(len(A), condition) * np.abs(matrix).max()
