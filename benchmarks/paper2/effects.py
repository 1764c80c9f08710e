"""Error of B21 and of the counterfactual trajectory on independent inputs: paper's mode and default."""

from itertools import islice

import numpy as np
from scipy.signal import lfilter

from ._setting import SETTING, by_default, clients, lagrangian, records, simulated, trained
from ._setting import errors as block_errors

TITLE = "Second paper: effects of another client's inputs"
TEXT = SETTING + (
    " Relative errors of C_2 B21 and of the effect on the sensors of client 2 over {horizon} steps of a "
    "held change at client 1; medians over {records} records of each of the plants {plants} "
    "({records_of_rounds} where rounds are run)."
)
EFFECTS, KINDS_OF_INPUT = "Effects", "Other inputs: errors of the blocks, unit models given, plant 0"
NOTES = {
    EFFECTS: "In the paper's mode B21 stays at zero: theta y and phi are functions of the client's own "
    "data, which on independent inputs know nothing of the other client's, while all its losses fall. Of "
    "A21 a part is found where client 1 has slow states, which shows in later steps of the trajectory.",
    KINDS_OF_INPUT: "A level that steps once, the first paper's regime, leaves room for every matrix that carries it.",
}


def modes(s):
    """How each row is made."""
    return {
        "paper's mode, xi = 0, limit": {"solve": "stationary"},
        "paper's mode, xi = 1, limit": {"solve": "stationary", "xi": 1.0},
        "paper's mode, xi = 100, limit": {"solve": "stationary", "xi": 100.0},
        "paper's mode, xi = 1, 1000 rounds": {"xi": 1.0, "max_iter": 1000},
        "paper's mode, augmented Lagrangian, 1000 rounds": {**lagrangian(s), "max_iter": 1000},
        "paper's mode, hybrid, 200 rounds of it and 800 with xi = 1": {
            "xi": 1.0,
            "constraint": "hybrid",
            "max_iter": 1000,
        },
        "default, unit models given": "given",
        "default, units identified at home": "home",
    }


def relative(found, expected):
    """Distance over the norm of what was expected."""
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def true_effect(truth, change, horizon):
    """Effect on the sensors of the second client, one row per step ahead."""
    h, rows = np.zeros(len(truth.transition)), []
    for _ in range(horizon):
        h = truth.transition @ h + truth.input @ change
        rows.append(truth.observation[1] @ h[2:])
    return np.array(rows)


def errors(s, mode, X, inputs, truth, seed):
    """Relative errors of ``C_2 B21``, which no choice of states changes, and of ten steps."""
    if isinstance(mode, str):
        est = by_default(X, inputs, truth if mode == "given" else None)
    else:
        est = trained(s, X, inputs, truth, seed, **mode)
    rows = est.state_slices_["unit1"]
    gain = est.clients_["unit1"].observation_ @ est.input_[rows, :2]
    effect = (
        est.counterfactual("unit0", [0, 0], [1, 0.5], horizon=s["horizon"]).filter(like="unit1__").tail(s["horizon"])
    )
    return (
        relative(gain, truth.observation[1] @ truth.input[2:, :2]),
        relative(effect.to_numpy(), true_effect(truth, np.array([1, 0.5, 0, 0]), s["horizon"])),
    )


def medians(s, mode, plant):
    """Number of records and medians of both errors over them."""
    iterated = isinstance(mode, dict) and "max_iter" in mode
    n_records = s["records_of_rounds"] if iterated else s["records"]
    some = islice(records(s, plant, s["records"]), n_records)
    found = [errors(s, mode, *record, seed) for seed, record in enumerate(some)]
    return n_records, *np.median(found, axis=0)


def _independent(rng, n_samples):
    return rng.standard_normal((n_samples, 2))


def _stepped(rng, n_samples):
    level = np.where(np.arange(n_samples)[:, None] < n_samples // 2, 0.0, [1.0, 2.0])
    return level + 0.1 * rng.standard_normal((n_samples, 2))


def _slow(rng, n_samples):
    return 0.14 * lfilter([1], [1, -0.99], rng.standard_normal((n_samples, 2)), axis=0)


KINDS = {
    "independent": _independent,
    "one step at half time, little else": _stepped,
    "slow (pole 0.99)": _slow,
}


def by_kind(s):
    """Errors of all blocks under other kinds of inputs, medians over records of plant 0."""
    _, _, truth = clients(s, n_samples=10)
    rows = []
    for kind, make in KINDS.items():
        found = {f"paper's mode, xi = {xi:g}, limit": [] for xi in (0.0, 1.0, 100.0)} | {"default": []}
        for seed in range(s["records_by_kind"]):
            rng = np.random.default_rng(seed)
            inputs = [make(rng, s["n_samples"]) for _ in range(2)]
            X = simulated(truth, inputs, seed)
            for told, xi in zip(found.values(), (0.0, 1.0, 100.0, None), strict=True):
                limit = {"solve": "stationary", "xi": xi}
                est = by_default(X, inputs, truth) if xi is None else trained(s, X, inputs, truth, **limit)
                told.append(block_errors(est, truth))
        for name, told in found.items():
            A, B = np.median(told, axis=0)
            rows.append({"inputs": kind, "": name, "A21 and A12": A, "B21 and B12": B})
    return rows


def figures(s):
    """Sections of the page."""
    rows = []
    for name, mode in modes(s).items():
        row = {"": name}
        for plant in s["plants"]:
            row["records"], row[f"plant {plant}, B21"], row[f"plant {plant}, trajectory"] = medians(s, mode, plant)
        rows.append(row)
    return {EFFECTS: rows, KINDS_OF_INPUT: by_kind(s)}
