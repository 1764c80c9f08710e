"""Records, estimators and questions that several groups share."""

import html
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    LikelihoodServer,
)
from skfedcausal.bases import configured
from skfedcausal.datasets import make_granger_plant

from ...ask import question
from ..leaves import public_attributes
from ..plants import Record

_RUN_UP = 100  # rows of a simulation before its record
WORK = 1e6  # seconds that no fit comes near: what is learned hangs on no clock
_ABOUT_THE_FIT = {
    "clients_",
    "augmenters_",
    "server_",
    "communication_",
    "privacy_spent_",
    "privacy_ledger_",
    "privacy_statement_",
    "noise_covariance_",
    "remedies_",
    "n_features_in_",
    "feature_names_in_",
    "ledger_",
    "stream_ledger_",
    "layout_",
}


# -- parts of estimators ---------------------------------------------------------------------------------------


def likelihood(**settings):
    """A server without a limit on its work."""
    return configured(LikelihoodServer, {"max_time": WORK} | settings)


def granger(client=None, server=None, **settings):
    return FederatedGrangerEstimator(client, server=likelihood() if server is None else server, **settings)


def counterfactual(client=None, server=None, **settings):
    return FederatedCounterfactualEstimator(client, server=likelihood() if server is None else server, **settings)


def detector(client=None, **settings):
    return FederatedRCADetector(client, **{"false_alarm_rate": 0.01} | settings)


def made(kind, *args, **settings):
    """A function that makes an estimator anew each time."""
    return lambda: kind(*args, **settings)


# -- records ---------------------------------------------------------------------------------------------------


@cache
def _plant(n_units, seed, settings):
    return make_granger_plant(n_units, n_samples=2, random_state=seed, **dict(settings))[1]


def record(n_units=3, n_samples=800, seed=0, links=((0, 1), (1, 2)), through=None, **settings):
    """A simulated record, whose inputs act `through` a function.

    It starts at rest: from where a stationary plant starts, processors do not agree.
    """
    truth = _plant(n_units, seed, tuple({"links": links, **settings}.items()))
    rng, A = np.random.default_rng(seed), truth.transition
    n_rows = n_samples + _RUN_UP
    pushes = rng.standard_normal((n_rows, len(A)))
    U = None if truth.input is None else rng.standard_normal((n_rows, truth.input.shape[1]))
    if U is not None:
        pushes[1:] += (U if through is None else through(U))[:-1] @ truth.input.T
    h = np.zeros((n_rows, len(A)))
    for t in range(1, n_rows):
        h[t] = A @ h[t - 1] + pushes[t]
    X = {}
    for name, C in zip(truth.names, truth.observation, strict=True):
        X[name] = (h[:, truth.state_slices[name]] @ C.T + rng.standard_normal((n_rows, len(C))))[_RUN_UP:]
    inputs = None if U is None else [U[_RUN_UP:, own] for own in truth.input_slices.values()]
    return Record(X, inputs)


def driven(n_units=3, n_samples=600, seed=0, links=((0, 1), (1, 2)), input_links=((0, 1),), **settings):
    """A record of a plant whose units have an input each."""
    return record(n_units, n_samples, seed, links, n_inputs=1, input_links=input_links, **settings)


def gappy(found, share=0.05, seed=0):
    """The same with cells that are missing, and rows of one unit."""
    rng = np.random.default_rng(seed)
    for Y in found.X.values():
        Y[rng.random(Y.shape) < share] = np.nan
    last = list(found.X)[-1]
    found.X[last][100:120] = np.nan
    return found


def lagged(n_samples=1500, seed=0, n_units=3):
    """One sensor a unit; what the first does acts on the second three rows later, the second on the third after two."""
    rng = np.random.default_rng(seed)
    y = np.zeros((n_samples + 100, n_units))
    e = rng.standard_normal(y.shape)
    for t in range(4, len(y)):
        y[t] = 0.4 * y[t - 1] + e[t]
        y[t, 0] += 0.1 * y[t - 1, 0] - 0.3 * y[t - 3, 0]
        y[t, 1] += 0.6 * y[t - 3, 0]
        y[t, 2] += 0.5 * y[t - 2, 1]
    return Record({f"unit{k}": y[100:, [k]] for k in range(n_units)})


def table_of(found, start=None, freq="min"):
    """A record as one table, ``unit__x0``, ...; with times if it has a start. Inputs are columns ``unit__u0``."""
    columns = {f"{name}__x{k}": Y[:, k] for name, Y in found.X.items() for k in range(Y.shape[1])}
    for name, U in zip(found.X, found.inputs or (), strict=False):
        columns |= {f"{name}__u{k}": U[:, k] for k in range(U.shape[1])}
    table = pd.DataFrame(columns)
    return table if start is None else table.set_axis(pd.date_range(start, periods=len(table), freq=freq))


def faulty(found, unit="unit2", at=200, size=3.0):
    """The same with another level of a unit's sensors from a row on."""
    found.X[unit][at:] += size * found.X[unit].std(axis=0)
    return found


# -- questions -------------------------------------------------------------------------------------------------


def plant_of(fitted):
    """What a fit says of the plant: its public attributes but those about the units and the exchange."""
    known = public_attributes(fitted.estimator)
    return {name: known[name] for name in known if name not in _ABOUT_THE_FIT}


def server_of(fitted):
    """What the server keeps of a fit."""
    return fitted.estimator.server_


def units_of(fitted):
    """Models that the units keep, and what they sent and received."""
    estimator = fitted.estimator
    return estimator.clients_, estimator.augmenters_, estimator.communication_, estimator.noise_covariance_


def promise_of(fitted):
    """What a fit spent of privacy and promises."""
    estimator = fitted.estimator
    return estimator.privacy_spent_, estimator.privacy_ledger_, estimator.privacy_statement_


def warned_of(fitted):
    """Warnings of a fit in words, and the settings it chose itself."""
    said = sorted({f"{entry.category.__name__}: {entry.message}" for entry in fitted.warned})
    return said, getattr(fitted.estimator, "remedies_", ())


LEARNED = {"plant": plant_of, "server": server_of}  # at sites, too
ABOUT = {"units": units_of, "warnings": warned_of}


def ask(method, /, *args, **settings):
    """A question to a method that takes a record first."""
    return lambda fitted: question(fitted.estimator, method)(*args, **fitted.given, **settings)


def ask_nothing(method, /, *args, **settings):
    """A question to a method that takes no record."""
    return lambda fitted: question(fitted.estimator, method)(*args, **settings)


def page(write):
    """Words of a page that `write(fitted, path)` writes."""

    def asked(fitted):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "page.html"
            write(replace(fitted, estimator=fitted.copy()), path)
            return words_of(path.read_text())

    return asked


def words_of(text):
    """What a page says, without its pictures, its code, the day on which it was written and sizes of packets."""
    text = re.sub(r"<(script|style|svg)\b.*?</\1>", " ", text, flags=re.DOTALL)
    lines = html.unescape(re.sub(r"<[^>]+>", "\n", text)).splitlines()
    lines = [re.sub(r"^Written .*", "Written", line.strip()) for line in lines]
    lines = [re.sub(r"^skfedcausal \d+(\.\d+)+", "skfedcausal 0.1.0", line) for line in lines]  # as answers were stored
    return [line for line in lines if line and "bytes" not in line and not re.fullmatch(r"\d{1,3}(,\d{3})+", line)]
