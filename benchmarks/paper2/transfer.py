"""Figure 6: poles, zeros and singular values of the true and the learned plant.

Run ``python -m benchmarks.paper2.transfer``.
"""

import numpy as np

from skfedcausal.transfer import TransferFunction

from .._report import table, write
from ._setting import LAGRANGIAN, SETTING, by_default, clients, trained

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
    """Complex numbers on one line."""
    return ", ".join(f"{z.real:.3f}{z.imag:+.3f}i" if abs(z.imag) > 1e-9 else f"{z.real:.3f}" for z in values)


def rows_of(n_sensors, seed):
    """One row per plant: poles and zeros; singular values across; distances."""
    X, inputs, truth = clients(2, n_sensors=n_sensors, seed=seed)
    fits = {
        "paper's mode, xi = 1, limit": trained(X, inputs, truth, solve="stationary", xi=1.0),
        "paper's mode, augmented Lagrangian": trained(X, inputs, truth, **LAGRANGIAN),
        "default, unit models given": by_default(X, inputs, truth),
        "default, units identified at home": by_default(X, inputs),
    }
    plants = {name: fit.transfer_function() for name, fit in fits.items()}
    true = true_plant(truth, next(iter(plants.values())))
    roots, values = [], []
    for name, G in {"true": true, **plants}.items():
        zeros = G.zeros()
        roots.append({"": name, "poles": listed(G.poles()), "zeros": listed(zeros) if len(zeros) else "none"})
        G21, true21 = across(G, n_sensors), across(true, n_sensors)
        row = {"": name}
        row |= {f"w = {w:g}": " ".join(f"{s:.3f}" for s in G21.singular_values([w])[0]) for w in FREQUENCIES}
        row |= {"H2 distance across": f"{G21.distance(true21):.1%}", "whole plant": f"{G.distance(true):.1%}"}
        values.append(row)
    return roots, values


def main():
    """Print and write the tables."""
    sections = []
    for n_sensors, seed in ((2, 0), (8, 0)):
        roots, values = rows_of(n_sensors, seed)
        sections += [
            f"## D = {n_sensors}: poles and zeros\n\n" + table(roots),
            f"## D = {n_sensors}: both singular values from client 1's inputs to client 2's sensors\n\n"
            + table(values),
        ]
    write(
        "paper2/transfer",
        "Second paper, Figure 6: transfer functions",
        SETTING,
        *sections,
        "Client 1 acts on client 2 only, so the poles are those of the diagonal blocks, which the paper's "
        "mode is given: stable poles at the right places say nothing of what was learned. What was learned "
        "is the response from client 1's inputs to client 2's sensors. With as many inputs, outputs and "
        "states (D = 2) and an invertible C B there are no finite zeros, with more outputs than inputs none "
        "in general. With as few sensors as states (D = 2) units identified at home find too few states.",
    )


if __name__ == "__main__":
    main()
