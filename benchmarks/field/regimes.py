"""Plants of one state per unit in every regime, and every method on them: links, effects, and where a fault began."""

from dataclasses import dataclass, field, replace

import numpy as np
from sklearn.metrics import roc_auc_score

from .methods import judged

TITLE = "Links, effects and roots by regime"
TEXT = (
    "{n_units} units of {n_sensors} sensors, {n_samples} rows. Every method sees the same records. Links: {budget} of "
    "the pairs of the twins without links may exceed the threshold. Effects: one input of each unit, {horizon} steps. "
    "Roots: faults of size {size} over {length} steps, every {every} steps of a record of {n_test}."
)
LINKS, EFFECTS, ROOTS, MEANS = "Links", "Effects", "Roots", "Means over the regimes"
NOTES = {
    MEANS: "Of methods that give an answer in every regime.",
    LINKS: "AUROC ranks all ordered pairs. Found: share of the true links whose score exceeds what a small share of "
    "the pairs of twin plants without links reach, the same share for every method.",
    EFFECTS: "The input of unit 0 is one unit higher from now on; relative error of the change of the sensors of the "
    "*other* units, which is the part that no unit can learn at home, and of all sensors.",
    ROOTS: "Faults at one unit, whose windows are known to every method: one name for each, so that no threshold "
    "decides. Right, and named at all. A watch and flags name rows, not windows: the name that most rows of one got.",
}

# -- plants ----------------------------------------------------------------------------------------------------

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


# -- how methods are judged -------------------------------------------------------------------------------------


def found_links(function, s, regime):
    """Ranking and links found by a method in a regime."""
    pairs = ~np.eye(s["n_units"], dtype=bool)
    told, alone, truth = [], [], []
    for seed in s["plants"]:
        case, twin = link_case(s, regime, seed), link_case(s, regime, seed, linked=False)
        told.append(function(case)[pairs])
        alone.append(function(twin)[pairs])
        truth.append(case.plant.linked[pairs])
    areas = [roc_auc_score(t, score) for t, score in zip(truth, told, strict=True)]
    threshold = np.quantile(np.concatenate(alone), 1 - s["budget"])
    told, truth = np.concatenate(told), np.concatenate(truth)
    return {
        "AUROC": np.mean(areas),
        "found": (told[truth] > threshold).mean(),
        "false": (told[~truth] > threshold).mean(),
    }


def effect_errors(function, s, regime):
    """Relative errors, medians over the plants: other units, all units."""
    found = []
    for seed in s["plants"]:
        case = link_case(s, regime, seed)
        told, truth = function(case, 0, s["horizon"]), true_effect(case.plant, 0, s["horizon"])
        sides = s["n_sensors"], 0
        found.append([np.linalg.norm((told - truth)[:, k:]) / np.linalg.norm(truth[:, k:]) for k in sides])
    others, everything = np.median(found, axis=0)
    return {"other units": others, "all units": everything}


def named_roots(function, s, regime):
    """Share of faults named right, and named at all."""
    right, named = [], []
    for seed in s["plants"]:
        case = root_case(s, regime, seed)
        answers = np.array(function(case))
        right.append((answers == np.array(case.roots)).mean())
        named.append((answers != "").mean())
    return {"right": np.mean(right), "named": np.mean(named)}


def means(tasks):
    """Means over the regimes, of the methods that have a figure in every one."""
    out = []
    for task, rows in tasks.items():
        for method in dict.fromkeys(row["method"] for row in rows):
            same = [row for row in rows if row["method"] == method]
            columns = [key for key, cell in same[0].items() if not isinstance(cell, str)]
            if all(set(columns) <= set(row) for row in same) and columns:
                mean = {key: np.mean([row[key] for row in same]) for key in columns}
                out.append({"task": task, "method": method} | mean)
    return out


def figures(s):
    """A section for every task with all regimes and methods, and their means."""
    judges = {LINKS: ("links", found_links), EFFECTS: ("effects", effect_errors), ROOTS: ("roots", named_roots)}
    tasks = {section: judged(task, s, judge) for section, (task, judge) in judges.items()}
    return {MEANS: means(tasks)} | tasks
