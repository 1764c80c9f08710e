"""Section 13.2 on records that can be had: training curves as in Figures 7 and 8, and what they are worth."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skfedcausal import FederatedCounterfactualEstimator, GradientServer
from skfedcausal.bases import configured
from skfedcausal.datasets import (
    load_hai,
    load_swat,
    load_sysid,
    load_tep,
    prepare_hai,
    prepare_records,
    prepare_swat,
)

from .._records import folder_of, no_records
from ._setting import lagrangian

TITLE = "Section 13.2: recorded plants"
TEXT = (
    "Preparation of the paper: constant and discrete measurements dropped, inputs by kind, everything "
    "standardised. Units are identified at home, {rounds} rounds from standard normal numbers over the "
    "first {share} of each record. L_s (equation 13, with its penalty), D and delta_d are sums over "
    "clients. The other columns: mean squared one-step error of all measurements over that of the clients' "
    "own filters, on the part that was learned from and on the unseen tail. All curves fall by orders of "
    "magnitude, as in the paper's Figures 7 and 8: they start from random parameters. What counts is "
    "whether predictions beat the clients' own filters on the unseen tail. Records that are not here have "
    "no section; the same command reads them below `SKFEDCAUSAL_DATA`."
)


def missing(s):
    """Why the table cannot be made here."""
    return no_records(["sysid", *s["others"]])


def modes(s):
    """How each row is made."""
    return {
        "paper's mode, xi = 1": {"xi": 1.0},
        "paper's mode, augmented Lagrangian": lagrangian(s),
        "default": None,
    }


def prepared(s):
    """Name and prepared record of everything that is there."""
    folder = folder_of()
    for name in s["sysid"] if (folder / "sysid").is_dir() else ():
        record = load_sysid(folder / "sysid", name)
        yield name, prepare_records(record.data, record.inputs)
    if "tep" in s["others"] and (folder / "tep").is_dir():
        tep = load_tep(folder / "tep", ["d00_te"], inputs="separate")
        yield "TEP (d00_te, XMV as inputs)", prepare_records(tep.data, tep.inputs)
    for name, sub, load, prepare in (
        ("HAI", "hai", load_hai, prepare_hai),
        ("SWaT", "swat", load_swat, prepare_swat),
    ):
        if sub in s["others"] and (folder / sub).is_dir():
            yield name, prepare(load(folder / sub, inputs="separate"), n_rows=s["n_rows"])


def fitted(s, data, inputs, mode):
    """Estimator on a table whose units are identified at home."""
    start = {"start_scale": s["start_scale"], "exchange": "moments", "max_iter": s["rounds"], "tol": 0.0}
    server = None if mode is None else configured(GradientServer, {**start, **mode})
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


def rows_of(s, ready):
    """Rows of one record."""
    data, inputs = ready.data, ready.inputs
    n_train = int(s["share"] * len(data))
    rows = []
    for mode, settings in modes(s).items():
        try:
            est = fitted(s, data.iloc[:n_train], inputs, settings)
        except np.linalg.LinAlgError as error:
            rows.append({"": f"{mode}: no fit, {type(error).__name__}"})
            continue
        row = {"": mode} | ({} if settings is None else curve(est.server_, settings))
        for label, where in (("learned from", slice(1, n_train)), ("unseen", slice(n_train, len(data)))):
            own = mean_square(est, data, inputs, where, "client")
            for model in ("augmented", "server"):
                row[f"{model}, {label}"] = mean_square(est, data, inputs, where, model) / own
        rows.append(row)
    return rows


def curve(server, settings):
    """First and last values of the losses."""
    told = {kind: server.loss_history_[kind].sum(axis=1) for kind in ("server", "penalty", "delta_d")}
    if "constraint" not in settings:
        told["server"] += settings["xi"] * told["penalty"]
    names = {
        "server": "residual" if "constraint" in settings else "L_s",
        "penalty": "D",
        "delta_d": "delta_d",
    }
    return {f"{names[kind]}, first and last round": [v.iloc[0], v.iloc[-1]] for kind, v in told.items()}


def figures(s):
    """A section for every record that is here."""
    out = {}
    for name, ready in prepared(s):
        n_clients = len({column.split("__")[0] for column in ready.data})
        told = f"{len(ready.data)} rows, {n_clients} clients, {len(ready.inputs)} inputs"
        out[f"{name}: {told}, {len(ready.dropped)} columns dropped"] = rows_of(s, ready)
    return out
