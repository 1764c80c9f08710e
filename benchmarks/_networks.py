"""Networks that the benchmarks share: of weak links, published ones of several lags, and units with dead time."""

from typing import NamedTuple

import numpy as np

from skfedcausal.datasets import make_granger_plant

_BURN_IN = 300
_ROOT2 = 2**0.5


def weak_links(n_units, n_samples=5000, seed=0, **changes):
    """Plant with about 1.5 links per unit of norm 0.04-0.2 and sensor noise as large as state noise.

    Two states and eight sensors per unit. With sensor noise of variance about 8 the noise of the
    least-squares states ``(C'C)^-1 C'y`` has about unit variance, like the process noise.

    Returns
    -------
    X : dict of str to ndarray
    truth : PlantTruth
    """
    rng = np.random.default_rng([seed, n_units])
    options = {
        "n_samples": n_samples,
        "measurement_noise": np.sqrt(8 * rng.uniform(0.5, 1.5, n_units)).tolist(),
        "link_strength": (0.04, 0.2),
        "random_state": rng.integers(2**31),
    }
    return make_granger_plant(n_units, **{**options, **changes})


def links_of(truth):
    """Whether each ordered pair is linked, laid out like the rows of ``links_``."""
    slices = list(truth.state_slices.values())
    names = truth.names
    pairs = [(e, c) for e in range(len(names)) for c in range(len(names)) if e != c]
    return np.array([bool(np.any(truth.transition[slices[e], slices[c]])) for e, c in pairs])


class Network(NamedTuple):
    """Coefficients ``A[lag - 1, effect, cause]`` of quantities with unit noise, and where they come from."""

    name: str
    A: np.ndarray
    source: str


def _of(n, n_lags, terms):
    A = np.zeros((n_lags, n, n))
    for effect, cause, lag, value in terms:
        A[lag - 1, effect, cause] = value
    return A


FIVE = Network(
    "five nodes, VAR(3)",
    _of(
        5,
        3,
        [
            (0, 0, 1, 0.95 * _ROOT2),
            (0, 0, 2, -0.9025),
            (1, 0, 2, 0.5),
            (2, 0, 3, -0.4),
            (3, 0, 2, -0.5),
            (3, 3, 1, 0.25 * _ROOT2),
            (3, 4, 1, 0.25 * _ROOT2),
            (4, 3, 1, -0.25 * _ROOT2),
            (4, 4, 1, 0.25 * _ROOT2),
        ],
    ),
    "Baccalá and Sameshima (2001), Partial directed coherence, Biological Cybernetics 84",
)

_NINE = {  # (effect, cause): coefficients of lags 1 to 3
    (0, 0): (0.0114, 0.0148, 0.0076),
    (0, 2): (0.4088, 0.2590, 0.1434),
    (0, 3): (0.4236, 0.1965, 0.1787),
    (1, 0): (-0.3394, 0.2232, 0.1082),
    (1, 1): (-0.0192, -0.0070, -0.0065),
    (1, 3): (0.2799, 0.1779, 0.1351),
    (1, 7): (0.3085, -0.2383, 0.2021),
    (2, 2): (0.0194, -0.0058, 0.0050),
    (2, 3): (0.3437, 0.2008, 0.1826),
    (3, 1): (0.4302, 0.2103, 0.2090),
    (3, 3): (0.0188, 0.0012, -0.0037),
    (4, 2): (0.2851, 0.1597, 0.1943),
    (4, 4): (0.0027, 0.0065, 0.0097),
    (4, 6): (0.3160, 0.1989, -0.0698),
    (5, 4): (0.3039, 0.2062, 0.1347),
    (5, 5): (-0.0020, 0.0177, -0.0081),
    (6, 5): (0.3030, 0.1895, 0.2270),
    (6, 6): (-0.0186, -0.0008, -0.0004),
    (7, 7): (-0.0084, -0.0032, -0.0014),
    (7, 8): (0.3477, 0.1381, 0.1397),
    (8, 6): (0.3037, 0.1947, 0.2020),
    (8, 7): (0.2810, -0.1718, 0.1417),
    (8, 8): (-0.0208, 0.0068, -0.0022),
}
NINE = Network(
    "nine nodes, VAR(3)",
    _of(9, 3, [(i, j, lag, a) for (i, j), values in _NINE.items() for lag, a in enumerate(values, 1)]),
    "Barnett and Seth (2014), The MVGC multivariate Granger causality toolbox, J. Neuroscience Methods 223",
)
FOUR = Network(
    "four variables, lags to 3",
    _of(
        4,
        3,
        [
            (0, 0, 1, 0.7),
            (0, 1, 1, -0.8),
            (1, 1, 1, 0.8),
            (1, 3, 1, 0.8),
            (2, 2, 1, 0.5),
            (2, 1, 2, 0.5),
            (2, 3, 3, 0.6),
            (3, 3, 1, 0.4),
        ],
    ),
    "Runge et al. (2019), Detecting and quantifying causal associations, Science Advances 5 (tutorial)",
)
PUBLISHED = (FIVE, NINE, FOUR)


class Units(NamedTuple):
    """Measurements by unit, the quantities behind them, true links [effect, cause] and their first lags."""

    X: dict
    states: np.ndarray
    linked: np.ndarray
    delay: np.ndarray
    scores: np.ndarray  # the best one-number summary of every unit's sensors


def published(network, n_samples, seed, n_sensors=1, noise=1.0):
    """A record of a published network, one sensor without noise a node or several with noise."""
    rng = np.random.default_rng([seed, len(network.A[0]), n_sensors])
    n_lags, n = network.A.shape[:2]
    x = np.zeros((n_samples + _BURN_IN, n))
    w = rng.standard_normal(x.shape)
    for t in range(n_lags, len(x)):
        x[t] = w[t] + sum(network.A[k] @ x[t - 1 - k] for k in range(n_lags))
    off = network.A * ~np.eye(n, dtype=bool)
    linked = off.any(axis=0)
    delay = np.where(linked, (off != 0).argmax(axis=0) + 1.0, np.nan)
    return _sensed(x[_BURN_IN:], linked, delay, rng, n_sensors, noise)


def _sensed(x, linked, delay, rng, n_sensors, noise):
    if n_sensors == 1:
        X = {f"unit{m}": x[:, [m]] for m in range(x.shape[1])}
        return Units(X, x, linked, delay, x)
    X, scores = {}, np.empty_like(x)
    for m, states in enumerate(x.T):
        C = rng.normal(size=n_sensors)
        C /= np.linalg.norm(C)
        Y = states[:, None] * C + noise * states.std() * rng.normal(size=(len(x), n_sensors))
        X[f"unit{m}"], scores[:, m] = Y, Y @ C
    return Units(X, x, linked, delay, scores)


def dead_times(
    n_units, n_samples, seed, *, second_order=True, delays=(1, 10), gain=(0.04, 0.2), n_links=None, fault=None
):
    """Units of first or second order behind four sensors of one quantity each, linked with dead times.

    A link acts `delay` + 1 rows late: the dead time, and the row of the lag behind which it enters. A `fault`
    (unit, row, size) adds to what moves a unit from a row on.
    """
    rng = np.random.default_rng([seed, n_units, 7])
    gains, dead = np.zeros((n_units, n_units)), np.zeros((n_units, n_units), dtype=int)
    pairs = [(i, j) for i in range(n_units) for j in range(n_units) if i != j]
    n_links = int(1.5 * n_units) if n_links is None else n_links
    for k in rng.permutation(len(pairs))[:n_links]:
        gains[pairs[k]] = rng.uniform(*gain) * rng.choice([-1, 1])
        dead[pairs[k]] = rng.integers(delays[0], delays[1] + 1)
    first = rng.uniform(0.6, 0.85, n_units)
    second = rng.uniform(0.6, 0.85, n_units) if second_order else np.zeros(n_units)
    w = rng.normal(size=(n_samples, n_units))
    if fault is not None:
        unit, row, size = fault
        w[row:, unit] += size
    linked = gains != 0
    inner, x = np.zeros(n_units), np.zeros((n_samples, n_units))
    effect, cause = np.nonzero(linked)
    for t in range(1, n_samples):
        late = t - dead[effect, cause]
        pushed = np.zeros(n_units)
        np.add.at(pushed, effect, gains[effect, cause] * np.where(late >= 0, x[late, cause], 0.0))
        x[t] = second * x[t - 1] + (1 - second) * inner
        inner = first * inner + (1 - first) * 2 * pushed + 0.6 * w[t]
    delay = np.where(linked, dead + 1.0, np.nan)
    return _sensed(x, linked, delay, rng, 4, 0.3)
