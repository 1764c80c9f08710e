"""Section 13.2 on records that can be had: training curves as in Figures 7 and 8, and what they are worth.

Run ``python -m benchmarks.paper2.recorded`` with the folder of the records in ``SKFEDCAUSAL_DATA``
(subfolders ``sysid``, ``tep``, and ``hai``, ``swat`` for those who have them).
"""

import os
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skfedcausal import FederatedCounterfactualEstimator, GradientServer
from skfedcausal.datasets import (
    load_hai,
    load_swat,
    load_sysid,
    load_tep,
    prepare_hai,
    prepare_records,
    prepare_swat,
)

from .._report import table, write
from ._setting import LAGRANGIAN, START, scientific

ROUNDS = 500
SYSID = ("winding", "steamgen", "evaporator", "powerplant", "glassfurnace")
MODES = {
    "paper's mode, xi = 1": {"xi": 1.0},
    "paper's mode, augmented Lagrangian": LAGRANGIAN,
    "default": None,
}


def prepared(folder):
    """Name, prepared record and number of rows to learn from, for every record that is there."""
    for name in SYSID:
        record = load_sysid(folder / "sysid", name)
        yield name, prepare_records(record.data, record.inputs), int(0.7 * len(record.data))
    tep = load_tep(folder / "tep", ["d00_te"], inputs="separate")
    yield "TEP (d00_te, XMV as inputs)", prepare_records(tep.data, tep.inputs), int(0.7 * len(tep.data))
    for name, sub, load, prepare in (
        ("HAI", "hai", load_hai, prepare_hai),
        ("SWaT", "swat", load_swat, prepare_swat),
    ):
        if (folder / sub).is_dir():
            ready = prepare(load(folder / sub, inputs="separate"), n_rows=30_000)
            yield name, ready, int(0.7 * len(ready.data))


def fitted(data, inputs, mode):
    """Estimator on a table whose units are identified at home."""
    server = None if mode is None else GradientServer(**{**START, "max_iter": ROUNDS, **mode})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # feedback: these plants are controlled
        est = FederatedCounterfactualEstimator(server=server, input_columns=inputs, random_state=0)
        return est.set_output(transform="pandas").fit(data)


def mean_square(est, data, inputs, rows, model):
    """One-step error of all measurements over some rows, in units of the variance of the record."""
    outputs = [name for name in data if name not in inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        guess = est.predict(data, model=model)[outputs]
    return float(((guess - data[outputs]).to_numpy()[rows] ** 2).sum(axis=1).mean())


def section(name, ready, n_train):
    """Table of one record."""
    data, inputs = ready.data, ready.inputs
    train, tail = slice(1, n_train), slice(n_train, len(data))
    rows = []
    for mode, settings in MODES.items():
        try:
            est = fitted(data.iloc[:n_train], inputs, settings)
        except np.linalg.LinAlgError as error:
            rows.append({"": f"{mode}: no fit, {type(error).__name__}: {error}"})
            continue
        row = {"": mode}
        history = getattr(est.server_, "loss_history_", None)
        for kind in ("server", "penalty", "delta_d"):
            told = "" if history is None else history[kind].sum(axis=1)
            label = {"server": "Ls", "penalty": "D"}.get(kind, kind)
            row[f"{label}, first and last round"] = (
                "" if history is None else f"{scientific(told.iloc[0])}, {scientific(told.iloc[-1])}"
            )
        for label, where in (("learned from", train), ("unseen", tail)):
            own = mean_square(est, data, inputs, where, "client")
            for model in ("augmented", "server"):
                error = mean_square(est, data, inputs, where, model)
                row[f"{model}, {label}"] = f"{error / own:.3f}"
        rows.append(row)
    n_clients = len({name.split("__")[0] for name in data})
    known = f"{len(data)} rows, {n_clients} clients, {len(inputs)} inputs"
    lost = ", ".join(f"{column} ({reason})" for column, reason in ready.dropped.items()) or "none"
    return f"## {name}: {known}\n\nDropped: {lost}.\n\n" + table(rows)


def main():
    """Print and write the tables."""
    folder = Path(os.environ["SKFEDCAUSAL_DATA"])
    sections = [section(*record) for record in prepared(folder)]
    missing = [name for name, sub in (("HAI", "hai"), ("SWaT", "swat")) if not (folder / sub).is_dir()]
    if missing:
        sections.append(
            f"## {', '.join(missing)}\n\nNot here: their owners give them on request. The preparation is "
            "tested on generated files in the documented layouts."
        )
    write(
        "paper2/recorded",
        "Second paper, Section 13.2: recorded plants",
        "Preparation of the paper: constant and discrete measurements dropped, inputs by kind, everything "
        f"standardised. Units are identified at home (the paper fits the pooled table first), {ROUNDS} "
        "rounds from standard normal numbers over the first 70 % of each record. Ls, D and delta_d are "
        "sums over clients. The other columns: mean squared one-step error of all measurements over that "
        "of the clients' own filters, on the part that was learned from and on the unseen tail.",
        *sections,
        "All curves fall by orders of magnitude, as in the paper's Figures 7 and 8: they start from random "
        "parameters. What counts is whether predictions beat the clients' own filters on the unseen tail. In the "
        "paper's mode they are at their level, or worse where the rounds have not led back from the start "
        "(glassfurnace, TEP). The default server is better on winding and TEP, at their level on evaporator and "
        "glassfurnace, worse on steamgen and on powerplant (140 rows to learn 5 inputs and 3 clients from).",
    )


if __name__ == "__main__":
    main()
