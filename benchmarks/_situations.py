"""Ordinary situations: what a plant or its records do that a linear plant around one level does not.

Four units u0 to u3 of two states behind six sensors, sensor noise as large as that of the states; u0 acts on
u1 with a gain of norm 0.3, the row after, unless the situation says otherwise. ``draw(name, seed)`` gives a
`Scene`.
"""

from typing import Any, NamedTuple

import numpy as np

N_UNITS, P, D, WARM = 4, 2, 6, 300
LINK = frozenset({("u0", "u1")})


class Scene(NamedTuple):
    """A record and what is true of it."""

    X: dict[str, np.ndarray]
    links: frozenset = LINK  # pairs (cause, effect) that are there
    doubtful: frozenset = frozenset()  # pairs of which neither answer is wrong
    n_states: Any = "auto"  # of the units' models


class _Plant:
    """Blocks, loadings and gain of a plant; `run` simulates its states."""

    def __init__(self, rng, *, p=P, d=D, radius=(0.4, 0.7), gain=0.3):
        self.rng, self.p = rng, p
        self.A = [_block(rng, p, rng.uniform(*radius)) for _ in range(N_UNITS)]
        self.C = [rng.standard_normal((d, p)) for _ in range(N_UNITS)]
        self.link = _of_norm(rng, p, gain)

    def run(self, T, *, drive=None, noise=None, vary=None, delay=1, shape=None, response=None):
        """States (T, units, p): plus `drive`, with own `noise`; `vary` scales the link by rows."""
        rng, p, n = self.rng, self.p, T + WARM
        W = rng.standard_normal((n, N_UNITS, p)) if noise is None else noise(n)
        if drive is not None:
            W = W + drive
        vary = np.ones(n) if vary is None else np.concatenate([np.full(WARM, vary[0]), vary])
        h = np.zeros((n, N_UNITS, p))
        A = np.array(self.A)
        for t in range(1, n):
            before = h[t - 1] if shape is None else shape(h[t - 1])
            h[t] = np.einsum("uij,uj->ui", A, before) + W[t]
            if t >= delay:
                cause = h[t - delay, 0]
                h[t, 1] += vary[t] * (self.link @ cause if response is None else response(self.link @ cause))
        return h[WARM:]

    def sensors(self, h, noise=None):
        """Measurements by unit; `noise` (T, units, d) is of unit variance if not given."""
        d = len(self.C[0])
        if noise is None:
            noise = self.rng.standard_normal((len(h), N_UNITS, d))
        return {f"u{m}": h[:, m] @ self.C[m].T + noise[:, m] for m in range(N_UNITS)}

    def scale(self, h):
        """Standard deviations of the states, (units, p)."""
        return h.std(axis=0)


def _block(rng, p, radius):
    G = rng.standard_normal((p, p))
    return G * radius / np.abs(np.linalg.eigvals(G)).max()


def _of_norm(rng, p, gain):
    G = rng.standard_normal((p, p))
    return gain * G / np.linalg.norm(G)


def _ar(rng, n, phi, shape=()):
    """Autoregression of unit variance."""
    x = np.zeros((n, *shape))
    steps = rng.standard_normal((n, *shape)) * np.sqrt(1 - phi**2)
    for t in range(1, n):
        x[t] = phi * x[t - 1] + steps[t]
    return x


def _with_driver(rng, T, series, units, late=0, gain=0.4):
    """Something nobody measures acts on the first state of `units`, on the last of them `late` rows later."""
    plant, drive = _Plant(rng), np.zeros((T + WARM, N_UNITS, P))
    for m in units:
        drive[:, m, 0] += gain * (np.roll(series, late) if late and m == units[-1] else series)
    return Scene(plant.sensors(plant.run(T, drive=drive)))


def _added(rng, T, pattern, *, units=range(N_UNITS)):
    """A pattern (T,) or (T, units) in standard deviations of the states is added to them."""
    plant = _Plant(rng)
    h = plant.run(T)
    scale = plant.scale(h)
    for m in units:
        own = pattern if np.ndim(pattern) == 1 else pattern[:, m]
        h[:, m] += own[:, None] * scale[m]
    return Scene(plant.sensors(h))


def _season(rng, T, period):
    phases = rng.uniform(0, 2 * np.pi, N_UNITS)
    return _added(rng, T, np.sin(2 * np.pi * np.arange(T)[:, None] / period + phases))


def _square(rng, T):
    pattern = np.where(np.arange(T) % 24 < 8, 1.0, 0.0)
    return _added(rng, T, pattern, units=(2, 3))


def _set_points(rng, T):
    levels, pattern = np.cumsum(rng.uniform(-1, 1, 11)), np.zeros(T)
    rows = np.linspace(0, T, 12).astype(int)
    for level, start, stop in zip(levels, rows[:-1], rows[1:], strict=True):
        ramp = min(20, stop - start)
        first = pattern[start - 1] if start else level
        pattern[start : start + ramp] = np.linspace(first, level, ramp)
        pattern[start + ramp : stop] = level
    return _added(rng, T, 1.5 * pattern)


def _ramp(rng, T):
    rows = np.clip((np.arange(T) - 0.4 * T) / (0.1 * T), 0, 1)
    return _added(rng, T, 3.0 * rows)


def wander(rng, T, step=0.05):
    """Every sensor has a random walk of its own, of that step in deviations of its noise."""
    plant = _Plant(rng)
    h = plant.run(T)
    walk = np.cumsum(rng.standard_normal((T, N_UNITS, D)), axis=0) * step
    return Scene(plant.sensors(h, rng.standard_normal((T, N_UNITS, D)) + walk))


def _spikes(rng, T, *, common):
    plant = _Plant(rng)

    def noise(n):
        W = rng.standard_normal((n, N_UNITS, P))
        hit = rng.random((n, 1 if common else N_UNITS)) < 0.01
        sizes = 20.0 * rng.choice([-1.0, 1.0], (n, N_UNITS))
        W[:, :, 0] += np.where(hit, sizes, 0.0)
        return W

    return Scene(plant.sensors(plant.run(T, noise=noise)))


def _swings(rng, T):
    plant = _Plant(rng)

    def noise(n):
        size = np.where((np.arange(n) // 100) % 2, np.sqrt(10.0), 1.0)
        return rng.standard_normal((n, N_UNITS, P)) * size[:, None, None]

    return Scene(plant.sensors(plant.run(T, noise=noise)))


def _of_state_noise(rng, T):
    plant = _Plant(rng)
    n = T + WARM
    h, A = np.zeros((n, N_UNITS, P)), np.array(plant.A)
    for t in range(1, n):
        size = np.sqrt(0.5 + 0.5 * h[t - 1] ** 2 / (1 + 0.2 * h[t - 1] ** 2))
        h[t] = np.einsum("uij,uj->ui", A, h[t - 1]) + size * rng.standard_normal((N_UNITS, P))
        h[t, 1] += plant.link @ h[t - 1, 0]
    return Scene(plant.sensors(h[WARM:]))


def _modes(rng, T):
    """Two modes, switched for all units together every 100 to 300 rows: other dynamics, other level."""
    first, second = _Plant(rng), _Plant(rng)
    n, mode = T + WARM, np.zeros(T + WARM, dtype=int)
    t = 0
    while t < n:
        length = int(rng.integers(100, 300))
        mode[t : t + length] = (mode[t - 1] + 1) % 2 if t else 0
        t += length
    h, A = np.zeros((n, N_UNITS, P)), (np.array(first.A), np.array(second.A))
    level = 2.0 * rng.standard_normal((2, N_UNITS, P))
    for t in range(1, n):
        now = mode[t]
        h[t] = level[now] + np.einsum("uij,uj->ui", A[now], h[t - 1] - level[now])
        h[t] += rng.standard_normal((N_UNITS, P))
    return Scene(first.sensors(h[WARM:]), links=frozenset())


def _same_row(rng, T, *, chain):
    """u0 acts on u1 in the same row, and u1 on u2 where there is a chain; no link from row to row."""
    plant = _Plant(rng, gain=0.0)
    n = T + WARM
    links = [_of_norm(rng, P, 0.5) for _ in range(2)]
    h, A = np.zeros((n, N_UNITS, P)), np.array(plant.A)
    for t in range(1, n):
        h[t] = np.einsum("uij,uj->ui", A, h[t - 1]) + rng.standard_normal((N_UNITS, P))
        h[t, 1] += links[0] @ h[t, 0]
        if chain:
            h[t, 2] += links[1] @ h[t, 1]
    # seen from row to row, what acts at once on a unit with memory acts later as well: neither answer is wrong
    doubtful = {("u0", "u1"), ("u1", "u2"), ("u0", "u2")} if chain else {("u0", "u1")}
    return Scene(plant.sensors(h[WARM:]), links=frozenset(), doubtful=frozenset(doubtful))


def _thinned(rng, T, every, *, means):
    plant = _Plant(rng, radius=(0.7, 0.9))
    fine = plant.sensors(plant.run(T * every))
    if means:
        return Scene({name: Y.reshape(T, every, -1).mean(axis=1) for name, Y in fine.items()})
    return Scene({name: Y[::every] for name, Y in fine.items()})


def _ar_noise(rng, T):
    plant = _Plant(rng)
    return Scene(plant.sensors(plant.run(T), _ar(rng, T, 0.9, (N_UNITS, D))))


def _shared_noise(rng, T):
    plant = _Plant(rng)
    noise = rng.standard_normal((T, N_UNITS, D))
    common = rng.standard_normal((T, D))
    for m in (2, 3):
        noise[:, m] = (noise[:, m] + common) / np.sqrt(2)
    return Scene(plant.sensors(plant.run(T), noise))


def _controlled(rng, T, *, noisy):
    """u1 is a PI controller of a variable of u0; a disturbance of u2 acts on u0."""
    n, rest = T + WARM, _Plant(rng)
    x, v, e, other = np.zeros((4, n))
    gain_p, gain_i = (0.4, 0.02) if noisy else (0.8, 0.2)
    total = 0.0
    h = rest.run(T)
    w = rng.standard_normal((n, 3))
    for t in range(1, n):
        e[t] = 0.9 * e[t - 1] + 0.4 * w[t, 0]
        x[t] = 0.8 * x[t - 1] + 0.5 * v[t - 1] + 0.5 * e[t - 1] + 0.3 * w[t, 1]
        seen = x[t] + (0.5 if noisy else 0.02) * w[t, 2]
        total += seen
        v[t] = -gain_p * seen - gain_i * total
        other[t] = 0.5 * other[t - 1] + rng.standard_normal()
    rows = slice(WARM, None)

    def unit(series):
        loads = rng.standard_normal(D)
        return series[rows, None] * loads + 0.1 * series[rows].std() * rng.standard_normal((T, D))

    X = {"u0": unit(x), "u1": unit(v), "u2": unit(e), "u3": rest.sensors(h)["u3"]}
    return Scene(X, links=frozenset({("u0", "u1"), ("u1", "u0"), ("u2", "u0")}))


def _scales(rng, T):
    plant = _Plant(rng)
    plant.A = [_block(rng, P, radius) for radius in (0.1, 0.995, 0.5, 0.99)]
    return Scene(plant.sensors(plant.run(T)))


def _copies(rng, T):
    scene = _plain(rng, T)
    X = dict(scene.X)
    source = X["u2"][:, :2]
    X["u3"] = np.hstack([X["u3"], source + 0.3 * source.std(axis=0) * rng.standard_normal(source.shape)])
    return Scene(X)


def _late_clock(rng, T, unit, rows):
    scene = _plain(rng, T + rows)
    X = {name: Y[rows:] for name, Y in scene.X.items()}
    X[unit] = scene.X[unit][:T]  # what it reports at t is from t - rows
    return Scene(X)


def _seen(rng, T, change):
    scene = _plain(rng, T)
    return Scene({name: np.apply_along_axis(change, 0, Y) for name, Y in scene.X.items()})


def _quantised(y):
    edges = np.quantile(y, np.linspace(0, 1, 9)[1:-1])
    return np.searchsorted(edges, y).astype(float)


def _clipped(y):
    return np.clip(y, y.mean() - y.std(), y.mean() + y.std())


def _dead_band(y):
    out, band = y.copy(), y.std()
    for t in range(1, len(y)):
        out[t] = y[t] if abs(y[t] - out[t - 1]) > band else out[t - 1]
    return out


def _missing(rng, T, *, large):
    scene = _plain(rng, T)
    X = {}
    for name, values in scene.X.items():
        Y = values.copy()
        score = Y - Y.mean(axis=0)
        X[name] = Y
        Y[score > np.quantile(score, 0.9, axis=0) if large else rng.random(Y.shape) < 0.1] = np.nan
    return Scene(X)


def _plain(rng, T, **settings):
    plant = _Plant(rng)
    return Scene(plant.sensors(plant.run(T, **settings)))


def _no_link(rng, T):
    plant = _Plant(rng, gain=0.0)
    return Scene(plant.sensors(plant.run(T)), links=frozenset())


def _quadratic(rng, T):
    return _plain(rng, T, response=lambda x: 0.5 * (x**2 - (x**2).mean()) / max(np.std(x), 0.3))


def _bistable(rng, T):
    plant = _Plant(rng, gain=0.0)
    n, h = T + WARM, np.zeros((T + WARM, N_UNITS, P))
    for t in range(1, n):
        x = h[t - 1]
        h[t] = x + 0.2 * (x - x**3 / 4) + 0.5 * rng.standard_normal((N_UNITS, P))
    return Scene(plant.sensors(h[WARM:]), links=frozenset())


def _exp_sensors(rng, T):
    plant = _Plant(rng)
    h = plant.run(T)
    X = plant.sensors(h / plant.scale(h), 0.3 * rng.standard_normal((T, N_UNITS, D)))
    return Scene({name: np.exp(Y / 3) for name, Y in X.items()})


def _fat_tails(rng, T):
    return _plain(rng, T, noise=lambda n: rng.standard_t(2.5, (n, N_UNITS, P)))


def _half(rng, T, after):
    return _plain(rng, T, vary=np.where(np.arange(T) < T // 2, 1.0, after))


def _late_link(rng, T, delay):
    plant = _Plant(rng, gain=0.5)
    return Scene(plant.sensors(plant.run(T, delay=delay)))


def _of_orders(rng, T, *, given):
    return _plain(rng, T)._replace(n_states=given)


def _few_sensors(rng, T, p, d):
    """Modes that swing, more of them than sensors."""
    plant = _Plant(rng, p=p, d=d)
    for m in range(N_UNITS):
        blocks = []
        for _ in range(p // 2):
            angle, size = rng.uniform(0.2, 1.2), rng.uniform(0.6, 0.9)
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            blocks.append(size * turn)
        plant.A[m] = np.kron(np.eye(p // 2), np.ones((2, 2))) * 0
        for k, block in enumerate(blocks):
            plant.A[m][2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = block
    noise = 0.3 * rng.standard_normal((T, N_UNITS, d))
    return Scene(plant.sensors(plant.run(T), noise))


def _slow(rng, T):
    plant = _Plant(rng, gain=0.0, radius=(0.99, 0.99))
    return Scene(plant.sensors(plant.run(T)), links=frozenset())


def _ambient(rng, T):
    return _with_driver(rng, T, 2.0 * _ar(rng, T + WARM, 0.98), range(N_UNITS))


def _measured_driver(rng, T):
    """u0 acts on u1 and u2, and is measured; nothing acts between these two."""
    plant = _Plant(rng)
    links = {1: plant.link, 2: _of_norm(rng, P, 0.3)}
    return Scene(plant.sensors(_acted_on(plant, T, [(0, m, B) for m, B in links.items()])), LINK | {("u0", "u2")})


def _loop(rng, T):
    """u0 acts on u1, and u1 on u0."""
    plant = _Plant(rng)
    links = [(0, 1, plant.link), (1, 0, _of_norm(rng, P, 0.3))]
    return Scene(plant.sensors(_acted_on(plant, T, links)), LINK | {("u1", "u0")})


def _acted_on(plant, T, links):
    """States under links (cause, effect, gain) of one row."""
    h, A = np.zeros((T + WARM, N_UNITS, P)), np.array(plant.A)
    for t in range(1, len(h)):
        h[t] = np.einsum("uij,uj->ui", A, h[t - 1]) + plant.rng.standard_normal((N_UNITS, P))
        for cause, effect, B in links:
            h[t, effect] += B @ h[t - 1, cause]
    return h[WARM:]


def _walks(rng, T):
    plant = _Plant(rng, p=1)
    return Scene(plant.sensors(np.cumsum(rng.standard_normal((T, N_UNITS, 1)), axis=0)), links=frozenset())


def _growing(rng, T):
    scene = _plain(rng, T)
    growth = 1e4 ** (np.arange(T) / T)
    return Scene({**scene.X, "u3": growth[:, None] * rng.standard_normal(D) + rng.standard_normal((T, D))})


def _twins(rng, T):
    plant = _Plant(rng)
    h = plant.run(T)
    h[:, 3] = h[:, 2]
    return Scene(plant.sensors(h))


def _heavy_rows(rng, T):
    """Student's t with four degrees of freedom whose size all numbers of a row share."""
    plant = _Plant(rng)
    sizes = np.sqrt(2 / rng.chisquare(4, size=T + WARM))[:, None, None]
    h = plant.run(T, noise=lambda n: sizes * rng.standard_normal((n, N_UNITS, P)))
    return Scene(plant.sensors(h, sizes[WARM:] * rng.standard_normal((T, N_UNITS, D))))


SITUATIONS = {
    "no violation": _plain,
    "no violation, no link": _no_link,
    "hidden AR(.9) driver of two units": lambda rng, T: _with_driver(rng, T, _ar(rng, T + WARM, 0.9), (2, 3)),
    "hidden white driver, one row apart": lambda rng, T: _with_driver(
        rng, T, rng.standard_normal(T + WARM), (2, 3), late=1
    ),
    "hidden slow driver of all units": _ambient,
    "quadratic link": _quadratic,
    "saturating dynamics": lambda rng, T: _plain(rng, T, shape=lambda h: 3 * np.tanh(h / 3)),
    "bistable units": _bistable,
    "sensors that are exponentials": _exp_sensors,
    "noise of t(2.5)": _fat_tails,
    "spikes of single units": lambda rng, T: _spikes(rng, T, common=False),
    "spikes of all units together": lambda rng, T: _spikes(rng, T, common=True),
    "variance of all swings": _swings,
    "season of 24 rows": lambda rng, T: _season(rng, T, 24),
    "season of 288 rows": lambda rng, T: _season(rng, T, 288),
    "square daily pattern of two units": _square,
    "linear trend": lambda rng, T: _added(rng, T, np.linspace(0, 3, T)),
    "sensors wander": wander,
    "ten common set-point changes": _set_points,
    "one common ramp": _ramp,
    "link in half the record": lambda rng, T: _half(rng, T, 0.0),
    "link changes sign": lambda rng, T: _half(rng, T, -1.0),
    "two operating modes": _modes,
    "delay of 2 rows": lambda rng, T: _late_link(rng, T, 2),
    "delay of 5 rows": lambda rng, T: _late_link(rng, T, 5),
    "delay of 10 rows": lambda rng, T: _late_link(rng, T, 10),
    "delay of 20 rows": lambda rng, T: _late_link(rng, T, 20),
    "effect in the same row": lambda rng, T: _same_row(rng, T, chain=False),
    "chain in the same row": lambda rng, T: _same_row(rng, T, chain=True),
    "every 3rd row kept": lambda rng, T: _thinned(rng, T, 3, means=False),
    "every 10th row kept": lambda rng, T: _thinned(rng, T, 10, means=False),
    "means over 3 rows": lambda rng, T: _thinned(rng, T, 3, means=True),
    "means over 10 rows": lambda rng, T: _thinned(rng, T, 10, means=True),
    "sensor noise AR(.9)": _ar_noise,
    "sensor noise shared by two units": _shared_noise,
    "one state given, two true": lambda rng, T: _of_orders(rng, T, given=1),
    "four states given, two true": lambda rng, T: _of_orders(rng, T, given=4),
    "one sensor, two states": lambda rng, T: _few_sensors(rng, T, 2, 1),
    "two sensors, four states": lambda rng, T: _few_sensors(rng, T, 4, 2),
    "tight control": lambda rng, T: _controlled(rng, T, noisy=False),
    "controller reads a noisy sensor": lambda rng, T: _controlled(rng, T, noisy=True),
    "very different time scales": _scales,
    "slow units, no link": _slow,
    "noisy copies of another unit's sensors": _copies,
    "eight levels": lambda rng, T: _seen(rng, T, _quantised),
    "clipped at one deviation": lambda rng, T: _seen(rng, T, _clipped),
    "dead band of one deviation": lambda rng, T: _seen(rng, T, _dead_band),
    "clock of the cause two rows late": lambda rng, T: _late_clock(rng, T, "u0", 2),
    "clock of one unit one row late": lambda rng, T: _late_clock(rng, T, "u3", 1),
    "a tenth of the cells missing": lambda rng, T: _missing(rng, T, large=False),
    "missing where large": lambda rng, T: _missing(rng, T, large=True),
    "noise that depends on states": _of_state_noise,
}


# of their own seeds, so that those above keep theirs
FURTHER = {
    "white driver of two units in the same row": lambda rng, T: _with_driver(
        rng, T, rng.standard_normal(T + WARM), (2, 3)
    ),
    "driver of two units that is measured": _measured_driver,
    "loop of two units": _loop,
    "40 rows, no link": lambda rng, T: _no_link(rng, 40),
    "40 rows": lambda rng, T: _plain(rng, 40),
    "150 rows": lambda rng, T: _plain(rng, 150),
    "level of all five deviations higher": lambda rng, T: _added(rng, T, 5.0 * (np.arange(T) >= T // 2)),
    "level of one unit five deviations higher": lambda rng, T: _added(
        rng, T, 5.0 * (np.arange(T) >= T // 2), units=[2]
    ),
    "random walks": _walks,
    "one unit grows without bound": _growing,
    "two units with the same states": _twins,
    "rows of heavy tails (t4)": _heavy_rows,
}


def draw(name, seed, n_samples=2000):
    """The `Scene` of a situation, of one seed."""
    first, situations = (100, FURTHER) if name in FURTHER else (0, SITUATIONS)
    place = first + sorted(situations).index(name)
    return situations[name](np.random.default_rng([seed, place]), n_samples)
