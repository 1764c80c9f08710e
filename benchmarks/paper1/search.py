"""Table 3 over all choices that the paper leaves open: which of its entries lie inside the range."""

from itertools import product

import numpy as np

from ._setting import by_default, relative_error, trained, two_clients
from .table3 import PAPER

TITLE = "First paper, Table 3: what the open choices do to it"
TEXT = (
    "Paper's mode on every combination of A11 in {first_pole}, A22 in {second_pole}, push in {push}, T in "
    "{n_samples}, sensor noise in {sensor_noise} and rounds in {max_iter}, on the records {records} of "
    "each; the grid was fixed before it was run. The other settings are those of all tables."
)
NOTES = {
    "Entries of the paper": "An entry is covered if some choice and record give a smaller and some a larger one.",
    "By choice": "Means over all other choices and records. The default mode is run once for each plant.",
}
CHOICES = ("first_pole", "second_pole", "push", "n_samples", "sensor_noise", "max_iter")


def run(s):
    """Choice, entries and errors of both modes for every combination."""
    found = []
    for *plant, seed in product(*(s[name] for name in CHOICES[:-1]), s["records"]):
        first, second, push, n_samples, noise = plant
        one = {"own": [first, second], "push": push, "n_samples": n_samples, "sensor_noise": noise}
        X, truth = two_clients({**s, **one}, seed)
        default = relative_error(by_default(X, truth).transition_, truth)
        for rounds in s["max_iter"]:
            A = trained(X, truth, exchange="moments", max_iter=rounds, tol=0.0).transition_
            entries = np.concatenate([A[2:, :2].ravel(), A[:2, 2:].ravel()])
            found.append(
                (
                    dict(zip(CHOICES, (*plant, rounds), strict=True)),
                    entries,
                    relative_error(A, truth),
                    default,
                )
            )
    return found


def figures(s):
    """Range of every entry, and errors by choice."""
    found = run(s)
    entries = np.array([one[1] for one in found])
    names = [f"A{block}, element {k + 1}" for block in ("21", "12") for k in range(4)]
    rows = []
    for name, paper, values in zip(names, [*PAPER["A21"], *PAPER["A12"]], entries.T, strict=True):
        low, high = values.min(), values.max()
        middle = np.quantile(values, [0.25, 0.75]).tolist()
        rows.append(
            {
                "": name,
                "paper": paper,
                "least": low,
                "middle half": middle,
                "largest": high,
                "covered": bool(low <= paper <= high),
            }
        )
    by_choice = []
    for choice in CHOICES:
        for value in s[choice]:
            errors = [one[2:] for one in found if one[0][choice] == value]
            ours, default = np.mean(errors, axis=0)
            by_choice.append({"": f"{choice} = {value}", "error, paper's mode": ours, "error, default mode": default})
    return {"Entries of the paper": rows, "By choice": by_choice}
