"""Effects of an input of a unit on another one that it drives along a curve: error and coverage beside kernel NARX."""

import numpy as np
from sklearn.kernel_ridge import KernelRidge

from skfedcausal import FederatedCounterfactualEstimator

from .._simulated import share_inside

TITLE = "Effects of inputs along curves"
TEXT = (
    "A unit whose input moves like white noise drives another one along a curve, every unit behind four noisy sensors. "
    "Asked is what the input of the first, held at a dose instead of zero, does to the sensors of the second over "
    "{n_rows} rows; doses of 0.5, 1 and 2 lead to 1, 2 and 4 standard deviations of the states. Error: of the path, "
    "over the size of the true one, which is the mean of {n_runs} runs of the equations; means over as many records of "
    "{n_known} rows as seeds. Band holds: share of 90 % bands that hold the true effect, mean over the doses. Kernel "
    "NARX and VARX know the loadings, so that they see the states with less noise; their effects are means of runs "
    "from the record's own states with news of their own."
)
COUPLINGS = {
    "linear": lambda s: s,
    "tanh(2h)": lambda s: np.tanh(2 * s),
    "h^2": lambda s: np.clip(s, -3, 3) ** 2,
    "sin(2h)": lambda s: np.sin(2 * s),
    "h > 1": lambda s: np.asarray(s > 1, dtype=float),
}
DOSES = 0.5, 1.0, 2.0
_WARM, _RUNS = 60, 800


def after(g, h, u):
    """States (n_runs, 2) one row after some, without news."""
    return np.stack([0.7 * h[:, 0] + 0.6 * u[:, 0], 0.6 * h[:, 1] + 0.5 * g(h[:, 0]) + 0.5 * u[:, 1]], axis=1)


def true_effect(g, dose, n_rows, n_runs):
    """Mean effect on the second state, (n_rows,)."""
    rng = np.random.default_rng(99)
    h = np.zeros((2, n_runs, 2))
    path = []
    for t in range(_WARM + n_rows):
        u = rng.standard_normal((n_runs, 2)) * (t < _WARM)
        news = 0.3 * rng.standard_normal((n_runs, 2))
        held = u + np.array([[[0.0, 0.0]], [[dose, 0.0]]]) * (t >= _WARM)
        h = np.stack([after(g, *world) + news for world in zip(h, held, strict=True)])
        path.append((h[1] - h[0])[:, 1].mean())
    return np.array(path[_WARM:])


def record(g, seed, n_known):
    """Inputs, measurements by unit, states by known loadings, and the loadings of the second unit."""
    rng = np.random.default_rng(seed)
    u, w = rng.standard_normal((n_known, 2)), 0.3 * rng.standard_normal((n_known, 2))
    h = np.zeros((n_known, 2))
    for t in range(1, n_known):
        h[t] = after(g, h[[t - 1]], u[[t - 1]])[0] + w[t]
    C = [rng.standard_normal(4) for _ in range(2)]
    X = {f"u{m}": np.outer(h[:, m], c) + 0.1 * rng.standard_normal((n_known, 4)) for m, c in enumerate(C)}
    return u, X, np.stack([X[f"u{m}"] @ c / (c @ c) for m, c in enumerate(C)], axis=1), C[1]


def kernel_narx(past, now):
    """What follows rows, by kernel ridge on the first half of a record, and its news on the second."""
    half = len(past) // 2
    model = KernelRidge(kernel="rbf", gamma=0.15, alpha=0.05).fit(past[:half], now[:half])
    return model.predict, now[half:] - model.predict(past[half:])


def varx(past, now):
    """The same by least squares."""
    design = np.column_stack([np.ones(len(past)), past])
    B = np.linalg.lstsq(design, now, rcond=None)[0]
    return lambda x: np.column_stack([np.ones(len(x)), x]) @ B, now - design @ B


def effect_of_runs(follow, news, states, dose, n_rows):
    """Effect on the second state by runs of a model."""
    rng, path = np.random.default_rng(5), []
    h = np.tile(states[rng.integers(0, len(states), _RUNS)], (2, 1))
    u = np.column_stack([np.repeat([0.0, dose], _RUNS), np.zeros(2 * _RUNS)])
    for _ in range(n_rows):
        h = follow(np.hstack([h, u])) + np.tile(news[rng.integers(0, len(news), _RUNS)], (2, 1))
        path.append(h[_RUNS:, 1].mean() - h[:_RUNS, 1].mean())
    return np.array(path)


def measured(g, truths, seed, s):
    """Errors of three tools and coverage of ours, (4, n_doses)."""
    u, X, states, loadings = record(g, seed, s["n_known"])
    ours = FederatedCounterfactualEstimator().fit(X, inputs=[u[:, [0]], u[:, [1]]])
    past = np.hstack([states[:-1], u[:-1]])
    rivals, out = [fit(past, states[1:]) for fit in (kernel_narx, varx)], []
    for dose, truth in zip(DOSES, truths, strict=True):
        seen, size = np.outer(truth, loadings), max(np.linalg.norm(truth), 0.05 * np.sqrt(len(truth)))
        mean, std = ours.counterfactual("u0", [0.0], [dose], horizon=s["n_rows"], return_std=True)
        mean, half = np.asarray(mean)[:, 4:], 1.645 * np.asarray(std)[:, 4:] + 1e-12
        errors = [np.linalg.norm(mean - seen) / np.linalg.norm(loadings)]
        errors += [np.linalg.norm(effect_of_runs(*of, states, dose, s["n_rows"]) - truth) for of in rivals]
        out.append([*(np.array(errors) / size), share_inside(mean - half, mean + half, seen, 0.0)])
    return np.transpose(out)


def figures(s):
    """A row of every coupling and dose."""
    rows = []
    for kind in s["kinds"]:
        g = COUPLINGS[kind]
        truths = [true_effect(g, dose, s["n_rows"], s["n_runs"]) for dose in DOSES]
        found = np.mean([measured(g, truths, seed, s) for seed in s["seeds"]], axis=0)
        rows += [
            {
                "coupling": kind,
                "dose": str(dose),
                "skfedcausal": ours,
                "kernel NARX": kernel,
                "VARX": line,
                "90 % band holds": inside,
                "asked": 0.9,
            }
            for dose, ours, kernel, line, inside in zip(DOSES, *found, strict=True)
        ]
    within = [row for row in rows if row["dose"] != "2.0"]
    total = {name: np.mean([row[name] for row in within]) for name in list(rows[0])[2:]}
    return {"Effects along curves": [*rows, {"coupling": "mean", "dose": "0.5 and 1"} | total]}
