"""Effects of inputs on simulated plants outside the model class: error and coverage beside VARX by AIC."""

import numpy as np
from sklearn.kernel_ridge import KernelRidge

from skfedcausal import FederatedCounterfactualEstimator

from .._rivals import varx
from .._simulated import PLANTS, moved, record_of, relative_error, share_inside

TITLE = "Effects of inputs on simulated plants"
TEXT = (
    "The first input is moved by 1.2 standard deviations for {n_moved} rows (a switch is turned). Judged is the "
    "effect on all sensors over {n_rows} rows, by the simulator run again under the same noise; {n_known} rows to "
    "learn from, as many draws as seeds. Error: median and largest of the draws, over the size of the true effect (0: "
    "perfect, 1: as good as 'nothing happens'). Band holds: share of 90 % bands that hold the true effect, which "
    "should be 0.90, mean of the draws (rows of one draw are nearly one trial). Every tool is told that the actuators "
    "of 'same row' act at once, skfedcausal also that saturating valves may be curved. VARX by AIC sees the pooled "
    "table."
)

ALONG = "Effects along curves"
NOTES = {
    ALONG: "A unit whose input moves like white noise drives another one along a curve, each behind four noisy "
    "sensors: what the input of the first, held at a dose instead of zero, does to the sensors of the second over 12 "
    "rows. Doses of 0.5, 1 and 2 lead to 1, 2 and 4 standard deviations of the states. Error: mean over records of "
    "4000 rows, of the path over the size of the mean of 20000 runs of the equations. Kernel NARX and VARX know the "
    "loadings, so that they see the states with less noise; their effects are means of runs from the record's states "
    "with news of theirs."
}
COUPLINGS = {
    "linear": lambda s: s,
    "tanh(2h)": lambda s: np.tanh(2 * s),
    "h^2": lambda s: np.clip(s, -3, 3) ** 2,
    "sin(2h)": lambda s: np.sin(2 * s),
    "h > 1": lambda s: np.asarray(s > 1, dtype=float),
}
DOSES = 0.5, 1.0, 2.0
_WARM, _RUNS = 60, 800


def drawn(kind, seed, s):
    """A record of a plant, the inputs asked about and their true effect."""
    plant, rng = PLANTS[kind](), np.random.default_rng([seed, 17])
    U = plant.drive(rng)
    noise = plant.noise(rng)
    U, Y = plant.closed(U, noise)
    n_known, last = s["n_known"], s["n_known"] + s["n_rows"]
    other = moved(U, n_known, s["n_moved"])
    truth = plant.effect(U, noise, other, n_known, last)
    return record_of(kind, plant, Y[:last], U[:last], n_known), other[:last], truth


def library(record, other, n_past):
    """Effect and its 90 % band by the library."""
    n_known = len(record.known)
    rows = record.tail.iloc[n_known - n_past :].reset_index(drop=True)
    asked = {record.inputs[0]: other[n_known - n_past :, 0]}
    found = record.estimator().fit(record.known).whatif(rows, asked)
    wide = {name: found.pivot(index="time", columns="column", values=name) for name in found.columns[2:]}
    effect, low, high, factual = (
        wide[name][record.outputs].to_numpy()[n_past:] for name in ("effect", "low", "high", "factual")
    )
    return effect, low - factual, high - factual


def autoregression(record, other):
    """Effect by VARX(AIC)."""
    Y, U = record.arrays(record.known)
    scale, input_scale = Y.std(axis=0), U.std(axis=0)
    model = varx((Y - Y.mean(axis=0)) / scale, (U - U.mean(axis=0)) / input_scale, record.before)
    change = ((other - record.arrays(record.tail)[1]) / input_scale)[len(record.known) :]
    return model.response(change) * scale


def measured(kind, seed, s):
    """Errors and coverage of one draw."""
    record, other, truth = drawn(kind, seed, s)
    scale = record.arrays(record.known)[0].std(axis=0)
    effect, low, high = library(record, other, s["n_past"])
    errors = (relative_error(found, truth, scale) for found in (effect, autoregression(record, other)))
    return *errors, share_inside(low, high, truth, s["negligible"])


# -- along curves ------------------------------------------------------------------------------------------------


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


def coupled(g, seed, n_known):
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


def line(past, now):
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


def measured_along(g, truths, seed, s):
    """Errors of three tools and coverage of ours, (4, n_doses)."""
    u, X, states, loadings = coupled(g, seed, s["n_known"])
    ours = FederatedCounterfactualEstimator().fit(X, inputs=[u[:, [0]], u[:, [1]]])
    past = np.hstack([states[:-1], u[:-1]])
    rivals, out = [fit(past, states[1:]) for fit in (kernel_narx, line)], []
    for dose, truth in zip(DOSES, truths, strict=True):
        seen, size = np.outer(truth, loadings), max(np.linalg.norm(truth), 0.05 * np.sqrt(len(truth)))
        mean, std = ours.counterfactual("u0", [0.0], [dose], horizon=s["n_rows"], return_std=True)
        mean, half = np.asarray(mean)[:, 4:], 1.645 * np.asarray(std)[:, 4:] + 1e-12
        errors = [np.linalg.norm(mean - seen) / np.linalg.norm(loadings)]
        errors += [np.linalg.norm(effect_of_runs(*of, states, dose, s["n_rows"]) - truth) for of in rivals]
        out.append([*(np.array(errors) / size), share_inside(mean - half, mean + half, seen, 0.0)])
    return np.transpose(out)


def along_curves(s):
    """A row of every coupling and dose."""
    rows = []
    for kind in s["kinds"]:
        g = COUPLINGS[kind]
        truths = [true_effect(g, dose, s["n_rows"], s["n_runs"]) for dose in DOSES]
        found = np.mean([measured_along(g, truths, seed, s) for seed in s["seeds"]], axis=0)
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
    return [*rows, {"coupling": "mean", "dose": "0.5 and 1"} | total]


# -- both ------------------------------------------------------------------------------------------------------------


def figures(s):
    """A row of every plant, and of all."""
    draws = {kind: np.array([measured(kind, seed, s) for seed in s["seeds"]]) for kind in s["kinds"]}
    draws["all plants"] = np.concatenate(list(draws.values()))
    return {
        "Simulated plants": [row_of(kind, *found.T) for kind, found in draws.items()],
        ALONG: along_curves(s["along"]),
    }


def row_of(kind, ours, rival, inside):
    """Figures of some draws."""
    return {
        "plant": kind,
        "skfedcausal": np.median(ours),
        "VARX(AIC)": np.median(rival),
        "skfedcausal, largest": ours.max(),
        "VARX(AIC), largest": rival.max(),
        "90 % band holds": inside.mean(),
        "asked": 0.9,
    }
