"""Links that are not straight: what is told of plants of known equations, beside VAR, PCMCI and a kernel method.

References
----------
.. [1] Lorenz (1996), Predictability: a problem partly solved, ECMWF Seminar on Predictability.
.. [2] Johansson (2000), The quadruple-tank process, IEEE Transactions on Control Systems Technology 8.
.. [3] Kugiumtzis (2013), Direct-coupling information measure from nonuniform embedding, Physical Review E 87.
.. [4] Herdeanu et al. (2025), CausalDynamics: a large-scale benchmark for structural discovery of dynamical causal
       models, arXiv:2505.16620.
"""

from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from .._rivals import LEVEL, Autoregression, components, holm, kernel_granger, neural_granger, pcmci
from .plants import OURS, SURE, by_default, ranks, timed

TITLE = "Links that are not straight"
TEXT = (
    "Plants of known equations, every unit behind noisy sensors. Couplings: six units of one state in an order, seven "
    "links along a curve, each a quarter of the target's own news, or a product with the target's or another cause's "
    "state. Lorenz-96: ten units. Reactors: a chain of four stirred tanks with a recycle. Tanks: two above two. Hénon: "
    "five maps in a line. Flows: Lorenz, Rössler, Thomas and Nosé-Hoover systems with noise, each variable a unit. "
    "DAG: networks as CausalDynamics draws them, scale-free, of six nodes of three variables whose roots are Lorenz "
    "systems and whose others are sums of activations of their parents, one row later or within the row, and noise. "
    "AUROC of the ranking by evidence (VAR, kernel: p-value; PCMCI: size); shares of true and of absent pairs that are "
    "told a link; processor seconds over the VAR's. The others are told how many states a unit has and get as many "
    "principal components. VAR: order by AIC, Wald tests. PCMCI: two lags. Kernel: what a Gaussian kernel ridge on two "
    "lags loses on a quarter left out where the cause is missing, Student's t over 20 stretches. All by Holm's rule at "
    "5 %."
)
MEANS, SLOW = "Means over kinds", "Slow methods at few rows"
NOTES = {
    MEANS: "Every kind counts alike.",
    SLOW: "PCMCI with Gaussian processes and distance correlation (GPDC) or nearest neighbours (CMIknn, 100 "
    "permutations), one lag, on one record of 250 rows. 100 permutations are too few for Holm's rule: "
    "CMIknn decides every pair at 5 %. Neural: networks of two lags whose penalty, the best of three for the ranking, "
    "leaves a link or not.",
}
PERMUTED = {"sig_samples": 100, "sig_blocklength": 1}
VAR, PCMCI, KERNEL = "VAR(AIC), Wald (statsmodels)", "PCMCI, {} (tigramite)", "kernel Granger, cross-fitted"
NEURAL = "neural Granger, cMLP (neuralgc)"
_LAGS, _MOST_LAGS, _BURN = 2, 8, 500
_SAMPLES = np.random.default_rng(0).standard_normal((3, 200_000))  # by which couplings are scaled


class Coupled(NamedTuple):
    """Measurements by unit, true links [effect, cause], and how many states a unit has."""

    X: dict
    linked: np.ndarray
    n_states: int = 1


# -- couplings of our own -------------------------------------------------------------------------------------

OWN = {  # of the cause's, the target's and another cause's state
    "linear": lambda s, own, other: s,
    "tanh": lambda s, own, other: np.tanh(3 * s),
    "square": lambda s, own, other: np.clip(s, -2.5, 2.5) ** 2,
    "absolute": lambda s, own, other: np.abs(s),
    "sine": lambda s, own, other: np.sin(2 * s),
    "threshold": lambda s, own, other: np.asarray(s > 1, dtype=float),
    "product with own": lambda s, own, other: np.tanh(s) * np.tanh(own),
    "product of two": lambda s, own, other: np.tanh(s) * np.tanh(other),
}


def coupling(kind, rng, n_samples, n_units=6, n_links=7, strength=0.5):
    """Six units in a random order, ``h_m' = a h_m + sum_n c g(h_n) + w``, each coupling of the same variance."""
    of = OWN[kind](*_SAMPLES)
    order = rng.permutation(n_units)
    pairs = [(order[j], order[i]) for i in range(n_units) for j in range(i + 1, n_units)]
    links = [pairs[k] for k in rng.choice(len(pairs), n_links, replace=False)]
    place = np.argsort(order)
    if kind == "product of two":  # of two units before the target
        links = [(m, n) for m, n in links if place[m] > 1]
    mates = [rng.choice([k for k in order if place[k] < place[m] and k != n] or [n]) for m, n in links]
    own, spread = rng.uniform(0.4, 0.8, n_units), np.ones(n_units)
    news = np.sqrt(1 - own**2)
    w = news * rng.standard_normal((n_samples + _BURN, n_units))
    linked = np.zeros((n_units, n_units), dtype=bool)
    effects, causes = np.array(links).T
    h = np.zeros_like(w)
    for _ in range(3):  # until every coupling sees states of unit variance
        for t in range(1, len(h)):
            s = h[t - 1] / spread
            h[t] = own * h[t - 1] + w[t]
            bent = (OWN[kind](s[causes], s[effects], s[mates]) - of.mean()) / of.std()
            np.add.at(h[t], effects, strength * news[effects] * bent)
        spread = h[_BURN:].std(axis=0)
    linked[effects, causes] = True
    if kind == "product of two":
        linked[effects, mates] = True
    return Coupled(sensed(h[_BURN:] / spread, rng, 4, 0.2), linked)


def sensed(h, rng, n_sensors, noise):
    """Noisy sensors of units of one state."""
    return {
        f"u{m}": np.outer(x, rng.standard_normal(n_sensors)) + noise * rng.standard_normal((len(h), n_sensors))
        for m, x in enumerate(h.T)
    }


# -- plants of the literature ---------------------------------------------------------------------------------


def flow(f, x, n_samples, step, noise=0.0, n_steps=5):
    """Rows of ``x' = f(x)`` by Runge and Kutta's method, with noise (n_burn + n_samples, n) added after every row."""
    rows, h = [], step / n_steps
    for w in np.broadcast_to(noise, (n_samples + _BURN, *x.shape)):
        for _ in range(n_steps):
            k1 = f(x)
            k2 = f(x + h / 2 * k1)
            k3 = f(x + h / 2 * k2)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(x + h * k3))
        x = x + w
        rows.append(x)
    return np.array(rows[_BURN:])


def lorenz_96(F, rng, n_samples, n_units=10):
    """Ten units in a ring [1]_: ``x_i' = (x_(i+1) - x_(i-2)) x_(i-1) - x_i + F``, .05 a row."""
    start = F + 0.01 * rng.standard_normal(n_units)
    h = flow(lambda x: (np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + F, start, n_samples, 0.05)
    linked = np.isin(np.subtract.outer(np.arange(n_units), np.arange(n_units)) % n_units, (1, 2, n_units - 1))
    return Coupled(sensed(h + 0.05 * rng.standard_normal(h.shape), rng, 3, 0.5), linked)


def reactors(rng, n_samples, n_units=4, recycled=0.3):
    """Exothermic stirred tanks in a chain, coolants that wander; a share of what leaves the last enters the first."""
    coolant = 300 + wandering(rng, n_samples, n_units, 3.0)
    linked = np.eye(n_units, k=-1, dtype=bool) | np.eye(n_units, k=n_units - 1, dtype=bool)
    x, rows, heat = np.tile([0.85, 323.0], (n_units, 1)), [], 5e4 / 239.0
    for cold in coolant:
        for _ in range(4):
            fed = np.vstack([(1 - recycled) * np.array([1.0, 350.0]) + recycled * x[-1], x[:-1]])
            rate = 7.2e10 * np.exp(-8750 / x[:, 1]) * x[:, 0]
            warmed = heat * rate + 5e2 / 239.0 * (cold - x[:, 1])
            x = x + 0.025 * (fed - x + np.column_stack([-rate, warmed]))
        rows.append(x)
    h = np.array(rows[_BURN:])
    noise = np.array([0.003, 0.1]) * rng.standard_normal(h.shape)
    return Coupled({f"u{m}": h[:, m] + noise[:, m] for m in range(n_units)}, linked, 2)


def wandering(rng, n_samples, n, size, memory=0.9):
    """Independent autoregressions of standard deviation `size`."""
    w, rows = rng.standard_normal((n_samples + _BURN, n)), [np.zeros(n)]
    for row in w:
        rows.append(memory * rows[-1] + size * np.sqrt(1 - memory**2) * row)
    return np.array(rows[1:])


def tanks(rng, n_samples):
    """Four tanks [2]_, the upper two over the lower two; inflows wander, outflows follow square roots of levels."""
    inflow = np.maximum(np.array([5, 5, 6, 6]) + wandering(rng, n_samples, 4, 2.5), 0.0)
    area, hole = np.array([28, 32, 28, 32.0]), np.array([0.35, 0.35, 0.3, 0.3])
    h, rows = np.array([10, 10, 4, 4.0]), []
    for pumped in inflow:
        for _ in range(5):
            out = hole * np.sqrt(2 * 981 * np.maximum(h, 1e-3)) / 2
            h = np.maximum(h + (np.array([out[2], out[3], 0, 0]) - out + pumped) / area, 1e-3)
        rows.append(h)
    linked = np.eye(4, k=2, dtype=bool)
    return Coupled(sensed(np.array(rows[_BURN:]), rng, 3, 0.05), linked)


def henon(rng, n_samples, n_units=5, coupled=0.3):
    """Hénon maps in a line, both ends free [3]_: ``x'' = 1.4 - (c (mean of neighbours) + (1 - c) x')^2 + 0.3 x``."""
    linked = np.abs(np.subtract.outer(np.arange(n_units), np.arange(n_units))) == 1
    linked[[0, -1]] = False
    shares = np.where(linked.any(axis=1), coupled, 0.0)
    (before, x), rows = 0.1 * rng.random((2, n_units)), []
    for _ in range(n_samples + _BURN):
        mixed = shares * (linked @ x) / 2 + (1 - shares) * x
        before, x = x, 1.4 - mixed**2 + 0.3 * before
        rows.append(x)
    return Coupled(sensed(np.array(rows[_BURN:]), rng, 3, 0.05), linked)


FLOWS = {  # velocities, rows per unit of time, noise, which variable acts on which [effect, cause]
    "Lorenz": (lambda x, y, z: (10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z), 0.05, 1.0, "010 101 110"),
    "Rössler": (lambda x, y, z: (-y - z, x + 0.2 * y, 0.2 + z * (x - 5.7)), 0.2, 0.1, "011 100 100"),
    "Thomas": (
        lambda x, y, z: (np.sin(y) - 0.2 * x, np.sin(z) - 0.2 * y, np.sin(x) - 0.2 * z),
        0.5,
        0.2,
        "010 001 100",
    ),
    "Nosé-Hoover": (lambda x, y, z: (y, y * z - x, 1.5 - y * y), 0.1, 0.1, "010 101 010"),
}


def flows(rng, n_samples):
    """One of four chaotic systems with noise, each variable a unit."""
    f, step, noise, told = FLOWS[rng.choice(list(FLOWS))]
    w = noise * np.sqrt(step) * rng.standard_normal((n_samples + _BURN, 3))
    h = flow(lambda x: np.array(f(*x)), np.array([1.0, 1.0, 1.0]), n_samples, step, w)
    linked = np.array([[cell == "1" for cell in row] for row in told.split()])
    return Coupled(sensed(h / h.std(axis=0), rng, 3, 0.1), linked)


ACTIVATIONS = (
    np.asarray, np.sin, np.tanh, lambda x: 1 / (1 + np.exp(-x)), lambda x: np.maximum(x, 0.0),
)  # fmt: skip


def drawn(lag, rng, n_samples, n_units=6, width=3, noise=0.3):
    """A network as CausalDynamics [4]_ draws it: grown node by node, roots that are chaotic, sums of activations."""
    linked, degree = np.zeros((n_units, n_units), dtype=bool), np.ones(n_units)
    for node in range(1, n_units):  # acts on an older one that is chosen by its degree
        older = rng.choice(node, p=degree[:node] / degree[:node].sum())
        linked[older, node], degree[older] = True, degree[older] + 1
    Lorenz, step = FLOWS["Lorenz"][:2]
    x = np.zeros((n_samples + lag, n_units, width))
    for node in reversed(range(n_units)):
        w = noise * rng.standard_normal(x[:, node].shape)
        if not linked[node].any():
            root = flow(lambda x: np.array(Lorenz(*x)), rng.standard_normal(3), len(x), step)
            x[:, node] = (root - root.mean(axis=0)) / root.std(axis=0) + w
            continue
        total, act = 0.0, ACTIVATIONS[rng.integers(len(ACTIVATIONS))]
        for parent in np.flatnonzero(linked[node]):
            W, b = rng.standard_normal((width, width)), rng.standard_normal(width)
            total = total + act(np.roll(x[:, parent], lag, axis=0) @ W + b)
        x[:, node] = (total - total.mean(axis=0)) / total.std(axis=0) + w
    x = x[lag:] + 0.1 * rng.standard_normal(x[lag:].shape)
    return Coupled({f"u{m}": x[:, m] for m in range(n_units)}, linked, width)


PLANTS = {kind: (coupling, kind) for kind in OWN} | {
    "Lorenz-96, F = 10": (lorenz_96, 10.0),
    "Lorenz-96, F = 40": (lorenz_96, 40.0),
    "reactors": (reactors,),
    "tanks": (tanks,),
    "Hénon": (henon,),
    "flows": (flows,),
    "DAG, next row": (drawn, 1),
    "DAG, same row": (drawn, 0),
}


def plant(kind, seed, n_samples):
    """A record of a kind."""
    make, *given = PLANTS[kind]
    return make(*given, np.random.default_rng([seed, list(PLANTS).index(kind)]), n_samples)


# -- methods --------------------------------------------------------------------------------------------------


def ours(record):
    """Scores and decisions [effect, cause] of the default fit: the verdict, influence alone."""
    found = by_default(record.X, list(record.X))
    return {name: found[name] for name in (OURS, SURE)}


def by_var(record):
    """The same of an autoregression of principal components."""
    p, size = Autoregression(components(record.X, record.n_states)[0], most_lags=_MOST_LAGS).tests()
    return {VAR: (ranks(p, size), holm(p))}


def by_kernel(record):
    """The same of a kernel ridge."""
    p, size = kernel_granger(components(record.X, record.n_states)[0], _LAGS)
    return {KERNEL: (ranks(p, size), holm(p))}


def by_neural(record):
    """The same of penalised networks."""
    size = neural_granger(components(record.X, record.n_states)[0], _LAGS)
    return {NEURAL: (size, size > 0)}


def by_pcmci(test, n_lags=1, decided=holm, **options):
    """The same of PCMCI with a test of independence and its options, and what decides on p-values."""

    def found(record):
        series = components(record.X, record.n_states)[0]
        p, size = pcmci(series, n_lags, most_conditions=6, test=test, **options)
        return {PCMCI.format(test): (size, decided(p))}

    return found


def judged(kind, n_samples, seed, methods):
    """Row of every method on a record."""
    record = plant(kind, seed, n_samples)
    off = ~np.eye(len(record.linked), dtype=bool)
    true, absent = off & record.linked, off & ~record.linked
    usual = min(timed(by_var, record)[1] for _ in range(2))
    for method in methods:
        answers, seconds = timed(method, record)
        for name, (score, told) in answers.items():
            yield {
                "plant": kind,
                "rows": str(n_samples),
                "method": name,
                "AUROC": roc_auc_score(true[off], score[off]),
                "true told": told[true].mean(),
                "absent told": told[absent].mean(),
                "CPU / VAR": 1.0 if method is by_var else seconds / usual,
            }


def means(rows, names):
    """Means of figures over rows whose cells of these names are alike."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    for label, same in groups.items():
        figures = [column for column, cell in same[0].items() if not isinstance(cell, str)]
        yield dict(zip(names, label, strict=True)) | {c: np.mean([row[c] for row in same]) for c in figures}


def figures(s):
    """Means over kinds, kinds, and slow methods at few rows."""
    has_package = bool(s["packages"] and find_spec("tigramite"))
    quick = [ours, by_var, by_kernel] + [by_pcmci("ParCorr", _LAGS)] * has_package
    cases = [(kind, n, seed) for kind in s.get("kinds", PLANTS) for n in s["n_samples"] for seed in s["seeds"]]
    rows = [row for case in cases for row in judged(*case, quick)]
    by_kind = list(means(rows, ("plant", "rows", "method")))
    out = {MEANS: list(means(by_kind, ("rows", "method"))), "Kinds": by_kind}
    if has_package and find_spec("dcor") and find_spec("numba"):
        slow = [ours, by_var, by_kernel, by_pcmci("ParCorr"), by_pcmci("GPDC")]
        slow.append(by_pcmci("CMIknn", decided=lambda p: p <= LEVEL, **PERMUTED))
        slow += [by_neural] * bool(find_spec("neuralgc"))
        out[SLOW] = [row for kind in s["slow_kinds"] for row in judged(kind, s["slow_rows"], 0, slow)]
    return out
