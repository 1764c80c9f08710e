"""Figure 6: poles, zeros and singular values of the true and the learned plant."""

import numpy as np

from skfedcausal.transfer import TransferFunction

from ._setting import SETTING, by_default, clients, lagrangian, trained

TITLE = "Second paper, Figure 6: transfer functions"
TEXT = SETTING + (
    " Client 1 acts on client 2 only, so the poles are those of the diagonal blocks, which the paper's mode "
    "is given: stable poles at the right places say nothing of what was learned. What was learned is the "
    "response from client 1's inputs to client 2's sensors. With as many inputs, outputs and states (D = 2) "
    "and an invertible C B there are no finite zeros, with more outputs than inputs none in general. With "
    "as few sensors as states (D = 2) units identified at home find too few states."
)
ACROSS = "D = 8: both singular values from client 1's inputs to client 2's sensors"
CURVES = {"figure6": (ACROSS, "w = ", None, ("log", "log"))}
FREQUENCIES = (0.01, 0.1, 0.3, 1.0, 2.0, 3.0)


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


def rows_of(s, n_sensors):
    """One row per plant: poles and zeros; singular values across; distances."""
    X, inputs, truth = clients(s, n_sensors=n_sensors, seed=s["plant"])
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


def figures(s):
    """Sections of the page."""
    out = {}
    for n_sensors in s["sensors"]:
        roots, values = rows_of(s, n_sensors)
        out[f"D = {n_sensors}: poles and zeros"] = roots
        out[f"D = {n_sensors}: both singular values from client 1's inputs to client 2's sensors"] = values
    return out
