"""Model files that are kept, and what their estimators answer: ``python -m tests.saving.kept`` writes them anew.

They are of the version that wrote them and are to be read by every later one. Write them anew only while no release
has their form; afterwards add files of the new form in a folder beside these.
"""

import json
from pathlib import Path

import numpy as np

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    KalmanClient,
    load,
    save,
)

FOLDER = Path(__file__).parent / "files"
N_ROWS, FAULT = 240, 200  # of the record, and the row in which one of its units jumps
_HALF = 202  # rows that the stream has followed when it is saved: the jump has come, and nothing was told yet


def record(fault=False):
    """Two units of two sensors, where the second follows the first and the first an input."""
    rng = np.random.default_rng(0)
    u, e = rng.normal(size=(N_ROWS, 1)), rng.normal(size=(N_ROWS, 2))
    h = np.zeros((N_ROWS, 2))
    for t in range(1, N_ROWS):
        h[t] = 0.5 * h[t - 1] + e[t]
        h[t, 0] += 0.8 * u[t - 1, 0]
        h[t, 1] += 0.6 * h[t - 1, 0]
    X = {f"unit{m}": h[:, [m]] * [1.0, -0.7] + 0.3 * rng.normal(size=(N_ROWS, 2)) for m in range(2)}
    if fault:
        X["unit1"][FAULT:] += 8.0
    return X, [u, None]


def rows(X, start, stop):
    """Some rows of a record."""
    return {name: Y[start:stop] for name, Y in X.items()}


def granger():
    """A Granger estimator."""
    return FederatedGrangerEstimator(KalmanClient(n_states=1)).fit(record()[0])


def counterfactual():
    """A counterfactual estimator with an input."""
    X, inputs = record()
    return FederatedCounterfactualEstimator(KalmanClient(n_states=1)).fit(X, inputs=inputs)


def detector():
    """A detector that follows nothing."""
    return FederatedRCADetector(KalmanClient(n_states=1)).fit(record()[0])


def stream():
    """A detector in the middle of a stream."""
    found = detector()
    X, _ = record(fault=True)
    for start in range(0, _HALF, 30):
        found.update(rows(X, start, min(start + 30, _HALF)))
    return found


MADE = {"granger": granger, "counterfactual": counterfactual, "detector": detector, "stream": stream}


def answers(name, estimator):
    """What the estimator of a file is asked, as JSON has it."""
    X, inputs = record()
    if name == "granger":
        found = {"predict": estimator.predict(X), "p_values": estimator.links_["p_value"]}
    elif name == "counterfactual":
        found = {
            "score": estimator.score(X, inputs=inputs),
            "counterfactual": estimator.counterfactual("unit0", 0.0, 1.0, horizon=5),
        }
    elif name == "detector":
        found = {"transform": estimator.transform(record(fault=True)[0])}
    else:
        told = estimator.update(rows(record(fault=True)[0], _HALF, N_ROWS))
        found = {column: told[column] for column in ("start", "detected", "probability")}
    return {key: np.asarray(value, dtype=float).ravel()[-40:].tolist() for key, value in found.items()}


def main():
    """Write the files and what is answered of them."""
    FOLDER.mkdir(exist_ok=True)
    told = {}
    for name, make in MADE.items():
        save(make(), FOLDER / f"{name}.skfc")
        told[name] = answers(name, load(FOLDER / f"{name}.skfc"))
    (FOLDER / "answers.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
