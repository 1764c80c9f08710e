"""Table 7: federated against centralised on recorded plants, with the paper's preprocessing."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from statsmodels.tsa.api import VAR

from skfedcausal import (
    FederatedGrangerEstimator,
    GradientServer,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
    inspection,
)
from skfedcausal.bases import configured
from skfedcausal.datasets import cross_client_columns, load_batadal, load_hai, load_swat, load_tep

from .._records import folder_of, no_records
from ._setting import cross_blocks

TITLE = "Table 7: federated against centralised"
TEXT = (
    "Preprocessing of the paper: columns whose correlation with another client's is at least {correlation} "
    "in absolute value, {n_states} SVD states per client (one where only one column is left), VAR for A_mm; "
    "columns standardised, actuators are columns like others. The paper compares with a centralised VAR of "
    "the states, which is no truth: it takes measurement noise for dynamics and drops no link. Bytes are "
    "doubles; a round of the paper sends two states up and one gradient down per client and time step and "
    "repeats that for the whole record; the stationary solve relays every state to every other client once. In the "
    "default mode those of a round were measured, all bytes both ways over the rounds and steps; with "
    "`n_rounds='auto'` units whose model an autoregression of their own beats are asked in further rounds. "
    "Records that are not here have no section: their owners give them on request, and the same command "
    "reads them below `SKFEDCAUSAL_DATA`."
)
LOADERS = {
    "TEP (d00_te)": ("tep", lambda path: load_tep(path, "d00_te", analysers=True).data),
    "BATADAL (normal year)": ("batadal", lambda path: load_batadal(path).data),
    "HAI": ("hai", lambda path: load_hai(path).data),
    "SWaT": ("swat", lambda path: load_swat(path).data),
}
PAPER = [
    {"": "paper, HAI", "distance to VAR, all blocks": 0.8140, "bytes saved per step and round": 144},
    {"": "paper, SWaT", "distance to VAR, all blocks": 3.0816, "bytes saved per step and round": 176},
]


def missing(s):
    """Why the table cannot be made here."""
    return no_records([LOADERS[name][0] for name in s["recorded"]])


def preprocessed(data, correlation):
    """Standardised columns that go along with another client's."""
    kept = cross_client_columns(data.dropna(axis=1, how="all"), correlation)
    return StandardScaler().set_output(transform="pandas").fit_transform(data[kept])


def columns_of(data):
    """Number of columns of each client."""
    clients = [column.split("__")[0] for column in data]
    return {name: clients.count(name) for name in dict.fromkeys(clients)}


def centralised(estimator, data):
    """VAR(1) of all clients' SVD states in one place, as the paper's "ground truth"."""
    parts = []
    for name, client in estimator.clients_.items():
        columns = [column for column in data if column.split("__")[0] == name]
        C = client.observation_
        parts.append((data[columns].to_numpy() - client.mean_) @ np.linalg.pinv(C).T)
    return VAR(np.hstack(parts)).fit(1).coefs[0]


def row(mode, estimator, A, data, per_state=None):
    """Distance to the centralised estimate and bytes; `per_state` numbers cross for a state in a step and round."""
    slices = list(estimator.state_slices_.values())
    learned, sent = estimator.transition_, estimator.communication_
    total = sent["bytes_up"] + sent["bytes_down"]
    crossing = total / sent["rounds"] / len(data) if per_state is None else 8 * per_state * len(learned)
    return {
        "": mode,
        "distance to VAR, all blocks": np.linalg.norm(learned - A),
        "blocks between clients": np.linalg.norm(cross_blocks(learned - A, slices)),
        "their norm": np.linalg.norm(cross_blocks(learned, slices)),
        "VAR's norm": np.linalg.norm(cross_blocks(A, slices)),
        "bytes saved per step and round": 8 * data.shape[1] - crossing,
        "rounds": sent["rounds"],
        "bytes saved in all": sent["raw_bytes"] - total,
    }


def record(data, s):
    """Rows of one record."""
    data = preprocessed(data, s["correlation"])
    sizes = columns_of(data)
    clients = {name: KalmanClient(identify="pca-var", n_states=min(s["n_states"], k)) for name, k in sizes.items()}
    rounds, solve = {"exchange": "series", "max_iter": s["max_iter"]}, {"solve": "stationary"}
    default = LikelihoodServer()
    modes = {
        f"paper's mode, {s['max_iter']} rounds": (configured(GradientServer, rounds), 3),
        "paper's mode, stationary solve": (configured(GradientServer, solve), len(sizes)),
        "default mode, the same clients": (default, None),
        "n_rounds='auto'": (LikelihoodServer(options=LikelihoodOptions(n_rounds="auto")), None),
    }
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for mode, (server, per_state) in modes.items():
            fit = FederatedGrangerEstimator(clients, server=server).fit(data)
            rows.append(row(mode, fit, centralised(fit, data), data, per_state))
            if server is default:
                rows[-1]["distance to its own fit on pooled data"] = inspection.oracle_gap(fit, data)
    return rows


def figures(s):
    """A section for every record that is here."""
    out, folder = {"Paper": PAPER}, folder_of()
    for name, (sub, load) in LOADERS.items():
        if name in s["recorded"] and (folder / sub).is_dir():
            data = load(folder / sub)
            out[f"{name}: {len(data)} rows"] = record(data, s)
    return out
