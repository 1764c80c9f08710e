"""Plants of one state per unit in every regime, with their links, effects and faults."""

from dataclasses import dataclass, field, replace

import numpy as np

OWN = {"slow": (0.95, 0.98)}  # poles; elsewhere
USUAL = (0.5, 0.8)
DELAY = {"lagged": 3}
PERIOD = 50
SHIFT = 0.5  # per step, of the first unit from half time on


@dataclass(frozen=True)
class Plant:
    """Units ``x_m[t] = a_m x_m[t-1] + sum_n A_mn g(x_n[t-d]) + b_m u_m[t-1] + push + w``, ``y = C x + v``."""

    regime: str
    own: np.ndarray
    links: np.ndarray
    gains: np.ndarray
    loadings: list
    phases: np.ndarray
    sensor_noise: float

    @property
    def names(self):
        """Names of the units."""
        return [f"unit{m}" for m in range(len(self.own))]

    @property
    def linked(self):
        """Whether each ordered pair is linked, [effect, cause]."""
        return self.links != 0

    def states(self, inputs, noise, push=None):
        """States under given inputs, noise and pushes, all of shape (n_samples, n_units)."""
        n, delay = len(noise), DELAY.get(self.regime, 1)
        x = np.zeros((n + delay, len(self.own)))
        bent = np.tanh if self.regime == "nonlinear" else np.asarray
        for t in range(n):
            now, then = x[t + delay - 1], x[t]
            new = self.own * now + self.links @ (2 * bent(then / 2)) + noise[t]
            if t:
                new = new + self.gains * inputs[t - 1]
            if self.regime == "seasonal":
                new = new + np.sin(2 * np.pi * t / PERIOD + self.phases)
            if push is not None:
                new = new + push[t]
            x[t + delay] = new
        return x[delay:]

    def measured(self, states, rng):
        """Measurements of all units, by name."""
        noise = self.sensor_noise
        return {
            name: states[:, [m]] @ C.T + noise * rng.standard_normal((len(states), len(C)))
            for m, (name, C) in enumerate(zip(self.names, self.loadings, strict=True))
        }

    def without_links(self):
        """The twin whose units are alone."""
        return replace(self, links=np.zeros_like(self.links))


@dataclass(frozen=True)
class Case:
    """What a method sees (`X`, `inputs`, `nominal`, `test`, `windows`) and the truth it is judged by."""

    plant: Plant
    X: dict
    inputs: dict
    test: dict = field(default_factory=dict)
    windows: tuple = ()
    roots: tuple = ()


def make_plant(s, regime, seed):
    """A plant of a regime."""
    rng, n = np.random.default_rng([seed, 1]), s["n_units"]
    own = rng.uniform(*OWN.get(regime, USUAL), n)
    links = np.zeros((n, n))
    pairs = [(m, m + 1) for m in range(n - 1)] + [(0, n - 1)]
    if regime == "feedback":
        pairs.append((n - 1, 0))
    for cause, effect in pairs:
        sign = 1.0 if regime == "slow" else rng.choice([-1.0, 1.0])
        links[effect, cause] = sign * s["strength"] * (1 - own[effect]) / (1 - USUAL[1])
    if regime == "feedback":
        links = np.abs(links) / 2  # stable
    loadings = [rng.standard_normal((s["n_sensors"], 1)) for _ in range(n)]
    gains = rng.uniform(0.5, 1.0, n)
    return Plant(regime, own, links, gains, loadings, rng.uniform(0, 2 * np.pi, n), s["sensor_noise"])


def record(s, plant, seed, n_samples, push=None):
    """Measurements and inputs of one record; the first unit's level shifts in its regime."""
    rng = np.random.default_rng([seed, 2])
    shape = n_samples, len(plant.own)
    inputs, noise = rng.standard_normal(shape), rng.standard_normal(shape)
    push = np.zeros(shape) if push is None else push
    if plant.regime == "shifted":
        push = push.copy()
        push[n_samples // 2 :, 0] += SHIFT
    X = plant.measured(plant.states(inputs, noise, push), rng)
    return X, {name: inputs[:, [m]] for m, name in enumerate(plant.names)}


def link_case(s, regime, seed, linked=True):
    """A record for the task of links; the twin without links otherwise."""
    plant = make_plant(s, regime, seed)
    plant = plant if linked else plant.without_links()
    X, inputs = record(s, plant, seed, s["n_samples"])
    return Case(plant, X, inputs)


def true_effect(plant, unit, horizon):
    """Expected change of every sensor when one unit's input is one unit higher from now on."""
    rng = np.random.default_rng(3)
    start, n_draws, total = 50, 200 if plant.regime == "nonlinear" else 1, 0.0
    for _ in range(n_draws):
        noise = rng.standard_normal((start + horizon + 1, len(plant.own)))
        inputs = np.zeros_like(noise)
        raised = inputs.copy()
        raised[start:, unit] = 1.0
        difference = plant.states(raised, noise) - plant.states(inputs, noise)
        total = total + difference[start + 1 :] / n_draws
    return np.hstack([total[:, [m]] @ C.T for m, C in enumerate(plant.loadings)])


def root_case(s, regime, seed):
    """A nominal record to learn from and one with faults, whose windows are known to every method."""
    plant = make_plant(s, regime, seed)
    X, inputs = record(s, plant, seed, s["n_samples"])
    rng = np.random.default_rng([seed, 4])
    push, windows, roots = np.zeros((s["n_test"], len(plant.own))), [], []
    for first in range(s["every"], s["n_test"] - s["length"], s["every"]):
        unit = int(rng.integers(len(plant.own)))
        push[first : first + s["length"], unit] = s["size"]
        windows.append((first, first + s["length"]))
        roots.append(plant.names[unit])
    test, _ = record(s, plant, seed + 1000, s["n_test"], push)
    return Case(plant, X, inputs, test, tuple(windows), tuple(roots))
