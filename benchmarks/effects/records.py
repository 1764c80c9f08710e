"""Recorded plants with inputs: free runs, forecasts and one-step densities beside tools that see the pooled table."""

from functools import partial

import numpy as np
import pandas as pd

from .._records import no_records, read_sysid
from .._rivals import Boosting, cva, order_chosen, varx

TITLE = "Recorded plants with inputs"
TEXT = (
    "Records of `load_sysid` (winding5: winding with the speeds of the reels as inputs), learned from the first "
    "{share:.0%} and judged on the rest. Errors are over the standard deviation of the rest, mean over outputs, less "
    "is better: a free run from row {burn} to the end, and forecasts of 1 and {ahead} rows from {origins} rows. Nats "
    "a row: log-density of single steps in raw units, more is better. Only skfedcausal learns from messages of the "
    "units; the others see the pooled table. All are told which inputs act on the row that they stand in, skfedcausal "
    "also of which the effect is curved. VARX: lags by AIC. Subspace: canonical variate analysis, order by the free "
    "run of a held-out part. Boosting: scikit-learn's, on ten lags. Over all records: geometric means of errors, "
    "medians of nats. No limit is known."
)
OURS = "skfedcausal"


def missing(settings):
    """Why the table cannot be made here."""
    return no_records(["sysid"])


class Library:
    """The library behind the interface of the rivals."""

    def __init__(self, record, past):
        self.outputs, self.past = record.outputs, past
        self.estimator = record.estimator().fit(record.known).set_output(transform="pandas")

    def free_runs(self, frame, origins, n_steps):
        """Forecasts of the rows from each origin on."""
        found = []
        for origin in origins:
            first = max(origin - self.past, 0)
            window = frame.iloc[first : origin + n_steps].reset_index(drop=True)
            found.append(self.estimator.forecast(window, int(origin - first))[self.outputs].to_numpy())
        return np.stack(found)

    def log_density(self, frame):
        """One-step log-density of every row."""
        return self.estimator.score_samples(frame)


class Rival:
    """A tool that works on standardised arrays."""

    def __init__(self, fit, record):
        self.record = record
        Y, U = record.arrays(record.known)
        self.level, self.scale = Y.mean(axis=0), Y.std(axis=0)
        self.input_level, self.input_scale = U.mean(axis=0), U.std(axis=0)
        self.model = fit(*self._scaled(record.known), record.before)

    def _scaled(self, frame):
        Y, U = self.record.arrays(frame)
        return (Y - self.level) / self.scale, (U - self.input_level) / self.input_scale

    def free_runs(self, frame, origins, n_steps):
        """Forecasts of the rows from each origin on."""
        return self.model.free_runs(*self._scaled(frame), origins, n_steps) * self.scale + self.level

    def log_density(self, frame):
        """One-step log-density of every row."""
        return self.model.log_density(*self._scaled(frame)) - np.log(self.scale).sum()


def subspace(Y, U, before):
    """Canonical variate analysis of the order that runs freely best."""
    most = min(4 * Y.shape[1], len(Y) // 40, 24)
    orders = range(Y.shape[1], max(most, Y.shape[1]) + 1, 1 if most < 10 else 2)
    return order_chosen(lambda Y, U, order: cva(Y, U, before, order), Y, U, orders)


def boosting(Y, U, before):
    """Gradient boosting on lags."""
    return Boosting().fit(Y, U, before)


def tools(s):
    """Name and maker of everything that is measured."""
    rivals = {"VARX(AIC)": varx, "subspace (CVA)": subspace, "boosting on lags": boosting}
    return {OURS: partial(Library, past=s["past"])} | {name: partial(Rival, fit) for name, fit in rivals.items()}


def judged(model, record, s):
    """What a tool reaches on the rest of a record."""
    Y = record.arrays(record.tail)[0]
    spread, burn, ahead = Y.std(axis=0), min(s["burn"], len(Y) // 4), s["ahead"]
    whole = model.free_runs(record.tail, np.array([burn]), len(Y) - burn)[0]
    origins = np.unique(np.linspace(burn, len(Y) - ahead, s["origins"]).astype(int))
    runs = model.free_runs(record.tail, origins, ahead)
    errors = np.array([found - Y[o : o + ahead] for o, found in zip(origins, runs, strict=True)])
    by_step = (np.sqrt((errors**2).mean(axis=0)) / spread).mean(axis=1)
    return {
        "free run": float((np.sqrt(((whole - Y[burn:]) ** 2).mean(axis=0)) / spread).mean()),
        "1 row": by_step[0],
        f"{ahead} rows": by_step[-1],
        "nats a row": float(np.mean(model.log_density(record.tail)[burn:])),
    }


def figures(s):
    """A row of every record and measure, and of each measure over all records."""
    rows = []
    for name in s["records"]:
        record = read_sysid(name, s["share"])
        found = {tool: judged(make(record), record, s) for tool, make in tools(s).items()}
        rows += [
            {"record": name, "measure": measure, **{tool: scores[measure] for tool, scores in found.items()}}
            for measure in found[OURS]
        ]
    frame = pd.DataFrame(rows)
    for measure, part in frame.groupby("measure", sort=False):
        values = part[list(tools(s))]
        middle = values.median() if measure == "nats a row" else np.exp(np.log(values).mean())
        rows.append({"record": "all records", "measure": measure, **middle.to_dict()})
    return {"Recorded plants": rows}
