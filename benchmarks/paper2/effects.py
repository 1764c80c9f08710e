"""Effects, transfer functions (Figure 6) and the pooled identification of Sections 9.2 and 13.2."""

from itertools import islice

import numpy as np
from scipy.signal import lfilter

from skfedcausal import KalmanClient
from skfedcausal.transfer import TransferFunction

from ._setting import SETTING, by_default, clients, lagrangian, records, simulated, trained
from ._setting import errors as block_errors

TITLE = "Effects of another client's inputs"
TEXT = SETTING + (
    " Relative errors of C_2 B21 and of the effect on the sensors of client 2 over {horizon} steps of a "
    "held change at client 1; medians over {records} records of each of the plants {plants} "
    "({records_of_rounds} where rounds are run)."
)
EFFECTS, KINDS_OF_INPUT = "Effects", "Other inputs: errors of the blocks, unit models given, plant 0"
ROOTS, ACROSS = "poles and zeros", "both singular values from client 1's inputs to client 2's sensors"
POOLED = "Response across clients"
NOTES = {
    EFFECTS: "In the paper's mode B21 stays at zero: theta y and phi are functions of the client's own "
    "data, which on independent inputs know nothing of the other client's, while all its losses fall. Of "
    "A21 a part is found where client 1 has slow states, which shows in later steps of the trajectory.",
    KINDS_OF_INPUT: "A level that steps once, the first paper's regime, leaves room for every matrix that carries it.",
    f"D = 8: {ROOTS}": "Figure 6. Client 1 acts on client 2 only, so the poles are those of the diagonal blocks, which "
    "the paper's mode is given: stable poles at the right places say nothing of what was learned. What was learned is "
    "the response from client 1's inputs to client 2's sensors.",
    f"D = 2: {ROOTS}": "With as many inputs, outputs and states (D = 2) and an invertible C B there are no finite "
    "zeros, with more outputs than inputs none in general. With as few sensors as states (D = 2) units identified at "
    "home find too few states.",
    POOLED: "Sections 9.2 and 13.2: one model of the pooled table by subspace identification; every state goes to the "
    "client whose sensors hold most of its column of C (L_2 norm), the rest of C is set to zero, and A and B are "
    "fitted again to the states by least squares. Errors of the response from client 1's inputs to client 2's "
    "sensors, which no choice of states changes; purity: share of the energy of C that the assignment keeps.",
}
CURVES = {"figure6": (f"D = 8: {ACROSS}", "w = ", None, ("log", "log"))}
FREQUENCIES = (0.01, 0.1, 0.3, 1.0, 2.0, 3.0)


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


def true_plant(truth, like):
    """The true transfer function with the labels of a learned one."""
    C = np.zeros((len(like.output_names), len(truth.transition)))
    first = 0
    for block, rows in zip(truth.observation, truth.state_slices.values(), strict=True):
        C[first : first + len(block), rows] = block
        first += len(block)
    return TransferFunction(np.array(truth.transition), np.array(truth.input), C, like.input_names, like.output_names)


def across(G, n_sensors):
    """From client 1's inputs to client 2's sensors: what no client knows beforehand."""
    return TransferFunction(G.A, G.B[:, :2], G.C[n_sensors:], G.input_names[:2], G.output_names[n_sensors:])


def listed(values):
    """Real parts and sizes of imaginary parts, in order, pairs once."""
    upper = sorted((z.real, abs(z.imag)) for z in np.round(np.asarray(values, complex), 9) if z.imag >= 0)
    return [part for pair in upper for part in pair]


def transfer_rows(s, n_sensors):
    """One row per plant: poles and zeros; singular values across; distances."""
    X, inputs, truth = clients(s, n_sensors=n_sensors, seed=0)
    fits = {
        "paper's mode, xi = 1, limit": trained(s, X, inputs, truth, solve="stationary", xi=1.0),
        "paper's mode, augmented Lagrangian": trained(s, X, inputs, truth, **lagrangian(s)),
        "default, unit models given": by_default(X, inputs, truth),
        "default, units identified at home": by_default(X, inputs),
    }
    plants = {name: fit.transfer_function() for name, fit in fits.items()}
    true = true_plant(truth, next(iter(plants.values())))
    roots, values = [], []
    for name, G in {"true": true, **plants}.items():
        poles, zeros = listed(G.poles()), listed(G.zeros())
        roots.append({"": name, "poles (real, imaginary)": poles, "zeros": zeros, "number of zeros": len(zeros) // 2})
        G21, true21 = across(G, n_sensors), across(true, n_sensors)
        row = {"": name}
        row |= {f"w = {w:g}": G21.singular_values([w])[0].tolist() for w in FREQUENCIES}
        values.append(row | {"H2 distance across": G21.distance(true21), "whole plant": G.distance(true)})
    return roots, values


def assigned(C, slices):
    """Client of every state: the one whose sensors hold most of its column."""
    energy = np.array([(C[rows] ** 2).sum(axis=0) for rows in slices])
    return energy.argmax(axis=0), energy.max(axis=0).sum() / energy.sum()


def pooled(X, inputs, n_states):
    """A, B, C of the pooled table with a block-diagonal C, and the share of C's energy that was kept."""
    Y, U = np.hstack(list(X.values())), np.hstack(inputs)
    ends = np.cumsum([0, *(part.shape[1] for part in X.values())])
    slices = [slice(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True)]
    model = KalmanClient(identify="subspace", n_states=n_states).fit(Y, inputs=U)
    C = model.observation_
    owner, kept = assigned(C, slices)
    block = np.zeros_like(C)
    for m, rows in enumerate(slices):
        block[rows] = np.where(owner == m, C[rows], 0.0)
    states = np.linalg.lstsq(block, (Y - Y.mean(axis=0)).T, rcond=None)[0].T
    past = np.hstack([states[:-1], U[:-1] - U.mean(axis=0)])
    found = np.linalg.lstsq(past, states[1:], rcond=None)[0].T
    return found[:, : states.shape[1]], found[:, states.shape[1] :], block, slices, kept


def response(A, B, C, horizon):
    """Impulse responses, (horizon, n_sensors, n_inputs)."""
    out, power = [], B
    for _ in range(horizon):
        out.append(C @ power)
        power = A @ power
    return np.array(out)


def pooled_rows(s):
    """Errors of the pooled model and of units at home."""
    rows = []
    for seed in s["plants"]:
        X, inputs, truth = clients(s, seed=seed)
        d, U = s["n_sensors"], inputs[0].shape[1]
        true = np.zeros((2 * d, len(truth.transition)))
        for m, (C, own) in enumerate(zip(truth.observation, truth.state_slices.values(), strict=True)):
            true[m * d : (m + 1) * d, own] = C
        expected = response(np.array(truth.transition), np.array(truth.input), true, s["horizon"])[:, d:, :U]
        size = np.linalg.norm(expected)
        A, B, C, slices, kept = pooled(X, inputs, len(truth.transition))
        found = response(A, B, C, s["horizon"])[:, slices[1], :U]
        row = {"": f"plant {seed}, pooled and assigned", "error": np.linalg.norm(found - expected) / size}
        rows.append({**row, "purity": kept})
        G = by_default(X, inputs).transfer_function()
        found = response(G.A, G.B, G.C, s["horizon"])[:, d:, :U]
        rows.append({"": f"plant {seed}, units at home, default", "error": np.linalg.norm(found - expected) / size})
    return rows


def figures(s):
    """Sections of the table."""
    rows, out = [], {}
    for name, mode in modes(s).items():
        row = {"": name}
        for plant in s["plants"]:
            row["records"], row[f"plant {plant}, B21"], row[f"plant {plant}, trajectory"] = medians(s, mode, plant)
        rows.append(row)
    for n_sensors in s["sensors"]:
        out[f"D = {n_sensors}: {ROOTS}"], out[f"D = {n_sensors}: {ACROSS}"] = transfer_rows(s, n_sensors)
    return {EFFECTS: rows, KINDS_OF_INPUT: by_kind(s), **out, POOLED: pooled_rows(s)}
