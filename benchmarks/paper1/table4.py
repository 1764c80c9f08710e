"""Table 4: losses on test records whose causality differs from the training record's."""

import numpy as np

from ._setting import SETTING, by_default, train_and_test, trained

TITLE = "First paper, Table 4: losses under perturbed causality and changed topology"
TEXT = SETTING + (
    " Training by the stationary solve on one record, tests on records of the changed plant with other "
    "noise; means over the records {records}. Losses are means of squared norms, as the paper defines them; "
    "'norm' rows are the means of the norms themselves. The scale is that of the records, which the paper "
    "does not print, so compare within a row. Growth is the last column over the first."
)
RAISED, TOPOLOGY, GROWTH = "All elements of A21 raised", "Other topologies", "Growth from 5 % to 125 %"
NOTES = {
    GROWTH: "The residual is the perturbation times the level of client 1, plus noise, and the loss is its "
    "square: it grows with the square of the perturbation where the level outweighs the noise. The paper's "
    "growth is below that of every square here, with and without a push, and near that of the norms.",
    RAISED: "The paper calls pre-trained clients over-sensitive, as their server loss is 2.1 to 2.3 times "
    "that of its own method. Here both come to the same blocks, and the ratio is near one at every push.",
}
VARIANTS = {
    "no client augmentation": "no_augmentation",
    "no server model": "no_server",
    "pre-trained clients": "pretrained",
    "paper's method": "joint",
}
CLIENT, SERVER = "client loss (L2)a", "server loss Ls"
PAPER = {
    ("no client augmentation", SERVER): ([1e-5] * 4, [1e-5] * 4),
    ("no server model", CLIENT): ([0.22, 0.58, 0.88, 1.135], [0.182, 0.24, 0.279, 0.127]),
    ("pre-trained clients", CLIENT): ([0.22, 0.58, 0.88, 1.135], [0.182, 0.24, 0.279, 0.127]),
    ("pre-trained clients", SERVER): ([0.007, 0.015, 0.022, 0.028], [0.006, 0.065, 0.012, 0.014]),
    ("paper's method", CLIENT): ([0.39, 0.57, 0.76, 0.93], [0.37, 0.35, 0.40, 0.34]),
    ("paper's method", SERVER): ([0.003, 0.007, 0.010, 0.013], [0.003, 0.033, 0.006, 0.008]),
}


def cases(s):
    """Settings of the test records, by section and column."""
    raised = {f"{e} %": {"driving": s["driving"] * (1 + e / 100)} for e in s["raised"]}
    topology = {
        "preserving": {},
        "reversing": {"driving": 0.0, "back": s["driving"]},
        "eliminating": {"driving": 0.0},
        "bidirectional": {"back": s["back"]},
    }
    return {RAISED: raised, TOPOLOGY: topology}


def changed(s, seed, case):
    """Test record of a changed plant."""
    case = dict(case)
    back = case.pop("back", 0.0)
    return train_and_test({**s, **case}, seed, back=back)[1]


def measured(fit, Y):
    """Losses of client 2 and of the server: means of squares and of norms."""
    losses = fit.losses(Y)
    own = fit.predict(Y)[1:, len(Y["unit0"][0]) :] - Y["unit1"][1:]
    return {
        (CLIENT, "square"): losses.client["unit1"],
        (SERVER, "square"): losses.server.sum(),
        (CLIENT, "norm"): np.linalg.norm(own, axis=1).mean(),
        (SERVER, "norm"): np.linalg.norm(gap(fit, Y), axis=1).mean(),
    }


def gap(fit, Y):
    """Server's less augmented predictions of all states."""
    states, parts = fit.transform(Y)[:-1], []
    for (name, own), client in zip(fit.state_slices_.items(), fit.clients_.values(), strict=True):
        off = fit.transition_[own].copy()
        off[:, own] = 0.0
        parts.append(states @ off.T - Y[name][:-1] @ (client.model.A @ fit.augmenters_[name].theta_).T)
    return np.hstack(parts)


def error_of_client_2(default, Y):
    """Mean squared one-step error of the default server for client 2's sensors."""
    first = Y["unit0"].shape[1]
    return np.mean(((default.predict(Y, model="server")[1:, first:] - Y["unit1"][1:]) ** 2).sum(axis=1))


def rows_of(s, columns, k):
    """Paper's and our losses of every variant on every test record, means over the records."""
    found, default = {}, []
    for seed in s["records"]:
        X, _, truth = train_and_test(s, seed)
        tests = {name: changed(s, seed, case) for name, case in columns.items()}
        for variant, mode in VARIANTS.items():
            fit = trained(X, truth, variant=mode, solve="stationary")
            for name, Y in tests.items():
                for key, value in measured(fit, Y).items():
                    if (variant, key[0]) in PAPER:
                        found.setdefault((variant, *key), {}).setdefault(name, []).append(value)
        fit = by_default(X, truth)
        default.append([error_of_client_2(fit, Y) for Y in tests.values()])
    rows = []
    for (variant, loss, kind), told in found.items():
        if kind == "square":
            paper = dict(zip(columns, PAPER[variant, loss][k], strict=len(columns) > 2))
            rows.append({"framework": variant, "": loss, "by": "paper", **paper})
        mean = {name: np.mean(values) for name, values in told.items()}
        rows.append({"framework": variant, "": loss, "by": f"ours, {kind}", **mean})
    mean = dict(zip(columns, np.mean(default, axis=0), strict=True))
    return [
        *rows,
        {"framework": "default mode", "": "error of client 2 by the server", "by": "ours, square", **mean},
    ]


def figures(s):
    """Sections of the table."""
    by_section = cases(s)
    out = {name: rows_of(s, columns, k) for k, (name, columns) in enumerate(by_section.items())}
    first, *_, last = by_section[RAISED]
    growth = []
    for push in s["pushes"]:
        ends = {first: by_section[RAISED][first], last: by_section[RAISED][last]}
        for row in rows_of({**s, "push": push}, ends, 0) if push != s["push"] else out[RAISED]:
            if row["framework"] == "paper's method" and row["by"] != "paper":
                growth.append({"": row[""], "push": f"push {push}", "by": row["by"], "growth": row[last] / row[first]})
    for loss in (CLIENT, SERVER):
        paper = PAPER["paper's method", loss][0]
        growth.insert(0, {"": loss, "push": "not printed", "by": "paper", "growth": paper[-1] / paper[0]})
    return {**out, GROWTH: growth}
