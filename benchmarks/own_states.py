"""Would units with more states than sensors forecast recorded plants better? A trial outside the library.

Every unit makes states of its own past (canonical variate analysis of its outputs and inputs, Larimore 1990)
and the plant is the least-squares regression of all states on those of the step before and all inputs. The
last 30 % of the records are not looked at.

Run ``python -m benchmarks.own_states [record ...]`` with the folder of the records in ``SKFEDCAUSAL_DATA``.
"""

import argparse
import os
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from skfedcausal.containers import read_plant
from skfedcausal.datasets import load_sysid

from ._report import table, write
from .counterfactual import RECORDS, free_run, normalised, subspace, varx

STRETCHES = ((0.35, 0.5), (0.5, 0.7))  # learned up to the first, judged between the two
ORDERS = ((2, 4, 10), (3, 6, 10))  # states of a unit, rows of its past, rows of its future
NOTE = (
    "Error over standard deviation of free-run forecasts of two stretches in the middle of each record "
    "(35-50 % and 50-70 %), the plant learned from what lies before them. Own states: see "
    "`benchmarks/own_states.py`; nothing keeps them stable. This: the default, one state per sensor."
)


def own_states(Y, U, n_train, n_states, n_past, n_future):
    """A unit's states from its own past, shape (n_samples, n_states), NaN in the first rows."""
    U = np.zeros((len(Y), 0)) if U is None else U
    past = np.full((len(Y), n_past * (Y.shape[1] + U.shape[1])), np.nan)
    rows = np.arange(n_past, len(Y))
    present = [Y[rows - lag] for lag in range(n_past)] + [U[rows - lag] for lag in range(1, n_past + 1)]
    past[rows] = np.hstack(present)
    rows = np.arange(n_past, n_train - n_future)
    future = np.hstack([Y[rows + k] for k in range(1, n_future + 1)])
    later = np.hstack([U[rows + k] for k in range(n_future)])
    regressors = np.hstack([past[rows], later])
    coefficients = np.linalg.lstsq(regressors, future, rcond=None)[0]
    S = np.atleast_2d(np.cov(future - regressors @ coefficients, rowvar=False))
    S += 1e-6 * np.trace(S) / len(S) * np.eye(len(S))
    effect = coefficients[: past.shape[1]] @ np.linalg.inv(np.linalg.cholesky(S)).T
    free = past[rows]
    if later.shape[1]:
        free = free - later @ np.linalg.lstsq(later, free, rcond=None)[0]
    axes = np.linalg.svd(free @ effect, full_matrices=False)[2][:n_states].T
    states = past @ effect @ axes
    return states / states[rows].std(axis=0)


def _read(record):
    return read_plant(record.data, client_labels="from_columns", input_columns=record.inputs)


def forecast(record, n_train, order):
    """Free run of the regression of all units' own states."""
    data = _read(record)
    level = [Y[:n_train].mean(axis=0) for Y in data.outputs]
    Y = [Y - mean for Y, mean in zip(data.outputs, level, strict=True)]
    U = [None if U is None else U - U[:n_train].mean(axis=0) for U in data.inputs]
    states = [own_states(*unit, n_train, *order) for unit in zip(Y, U, strict=True)]
    inputs = np.hstack([u for u in U if u is not None])
    rows = np.arange(order[1], n_train - 1)
    joined = np.hstack(states)
    regressors = np.hstack([joined[rows], inputs[rows]])
    step = np.linalg.lstsq(regressors, joined[rows + 1], rcond=None)[0]
    loadings = [np.linalg.lstsq(x[rows], y[rows], rcond=None)[0] for x, y in zip(states, Y, strict=True)]
    ends = np.cumsum([x.shape[1] for x in states])[:-1]
    x, found = joined[n_train - 1], []
    for u in inputs[n_train - 1 : -1]:
        x = np.concatenate([x, u]) @ step
        parts = zip(np.split(x, ends), loadings, level, strict=True)
        found.append(np.concatenate([own @ C + mean for own, C, mean in parts]))
    return np.array(found)


def errors(record, forecaster, columns):
    """Errors of both stretches; the forecasts have the given columns."""
    found = []
    for start, stop in STRETCHES:
        n_train, n_rows = (int(share * len(record.data)) for share in (start, stop))
        part = SimpleNamespace(data=record.data.iloc[:n_rows], inputs=record.inputs)
        prediction = forecaster(part, n_train)
        found.append(normalised(prediction, part.data[columns].to_numpy(float)[n_train:]))
    return " / ".join(f"{error:.3g}" for error in found)


def compared(folder, names):
    rows = []
    for name in names:
        record = load_sysid(Path(folder) / "sysid", name)
        outputs = [column for column in record.data if column not in record.inputs]
        row = {"record": name}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # feedback, extrapolation: real records
            row["this"] = errors(record, lambda part, n_train: free_run(part, n_train)[0], outputs)
        for order in ORDERS:
            units = [column for own in _read(record).layout.outputs for column in own]
            row[f"{order[0]} own states"] = errors(record, partial(forecast, order=order), units)
        for lags in (1, 2, 5):
            row[f"VARX({lags})"] = errors(record, partial(varx, n_lags=lags), outputs)
        row["subspace, central"] = errors(record, partial(subspace, order=len(outputs)), outputs)
        rows.append(row)
    return table(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", nargs="*", default=RECORDS)
    names = parser.parse_args().records
    title = "Units with more states than sensors: what it would bring"
    write("own_states", title, compared(os.environ["SKFEDCAUSAL_DATA"], names), NOTE)


if __name__ == "__main__":
    main()
