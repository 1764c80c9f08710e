"""Table 3: estimated blocks under a persistent level shift, and the same blocks on other data."""

import numpy as np

from ._setting import SETTING, by_default, relative_error, trained, two_clients

TITLE = "Table 3: A21 and A12"
TEXT = SETTING + " Error: distance of both blocks to the true ones over the norm of the true ones."
PAPER = {"A21": [0.2793, 0.2441, 0.3351, 0.3298], "A12": [0.0186, -0.0113, 0.0102, 0.0010]}
DEFAULT = "default mode (LikelihoodServer)"
PLANTS = {
    "Pushed, the plant of all tables": {},
    "Without a push: client 1 drifts on its own": {"push": 0.0},
    "Pushed by one deviation": {"push": 1.0},
    "Stationary: A11 = 0.7 I, no push": {"own": [0.7, 0.5], "push": 0.0},
}
NOTES = {
    "Stationary: A11 = 0.7 I, no push": "The losses fall here too; the paper's mode does not get near the truth.",
}


def modes(s):
    """How the paper's mode may be run."""
    return {
        "paper's mode, batch": {"exchange": "moments", "max_iter": s["max_iter"]},
        "paper's mode, online, 2 passes": {"update": "online"},
        "paper's mode, its limit": {"solve": "stationary"},
    }


def one_record(s):
    """The blocks as the paper prints them, by mode."""
    X, truth = two_clients(s, s["records"][0])
    fits = {name: trained(X, truth, **mode) for name, mode in modes(s).items()}
    fits[DEFAULT] = by_default(X, truth)
    printed = np.concatenate([np.array(PAPER["A21"]) - s["driving"], PAPER["A12"]])
    rows = [{"": "paper", **PAPER, "error": np.linalg.norm(printed) / (2 * s["driving"])}]
    for name, fit in fits.items():
        A21, A12 = fit.transition_[2:, :2].ravel().tolist(), fit.transition_[:2, 2:].ravel().tolist()
        rows.append({"": name, "A21": A21, "A12": A12, "error": relative_error(fit.transition_, truth)})
    return rows


def repeated(s):
    """Deviations over the records, by mode."""
    kept = {name: mode for name, mode in modes(s).items() if "online" not in name}
    rows = []
    for name, mode in {**kept, DEFAULT: None}.items():
        told = []
        for seed in s["records"]:
            X, truth = two_clients(s, seed)
            fit = by_default(X, truth) if mode is None else trained(X, truth, **mode)
            A, done = fit.transition_, mode is not None or fit.server_.converged_
            off = np.abs(A[2:, :2] - s["driving"]).max(), np.abs(A[:2, 2:]).max()
            told.append((*off, relative_error(A, truth), not done))
        worst, mean = np.max(told, axis=0), np.mean(told, axis=0)
        rows.append(
            {
                "": name,
                "largest deviation of A21": worst[0],
                "largest element of A12": worst[1],
                "error, mean": mean[2],
                "error, largest": worst[2],
                "did not converge": round(mean[3] * len(told)),
            }
        )
    return rows


def figures(s):
    """Sections of the table."""
    return {"One record": one_record(s)} | {name: repeated({**s, **change}) for name, change in PLANTS.items()}
