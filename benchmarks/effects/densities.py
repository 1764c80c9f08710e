"""Held-out log-density of plants without declared inputs, and what the units send, beside autoregressions."""

import numpy as np
import pandas as pd

from skfedcausal import FederatedGrangerEstimator
from skfedcausal.datasets import load_batadal, load_causrca, load_skab, load_tep
from skfedcausal.statespace.episodes import episodes

from .._records import folder_of, no_records
from .._rivals import gaussian, lagged

TITLE = "Held-out densities"
TEXT = (
    "Log-density of a row given those before it, nats, columns standardised by the rows that are learned from, more "
    "is better. TEP: 500 nominal rows, judged on 960. BATADAL: 6000 hours, judged on 2761. SKAB: the run without "
    "anomalies, 70 % and 30 %. causRCA: analog tags and counters of {n_runs} normal runs, judged on the others. "
    "PetShop: latencies and requests of 41 services, 70 % and 30 %. Units alone: the unit models of the same fit, "
    "nothing shared but the fit. Own VAR: least squares on every unit's own columns, nothing shared. Pooled VAR: on "
    "all columns in one place, which no federation has; of VARs the number of lags among {lags} that is best on the "
    "judged rows, in their favour. Bytes: what all units send in the default fit and what the raw table has, a row. "
    "The first {burn} rows of an episode are not judged. Densities of TEP with valves, BATADAL and PetShop and the "
    "bytes of SKAB hang on the last digits: another processor has others. No limit is known."
)


def missing(settings):
    """Why the table cannot be made here."""
    return no_records(["tep", "batadal", "skab", "causrca", "petshop"])


class Sides:
    """Rows to learn from and to judge by with the lengths of their episodes, standardised by the former."""

    def __init__(self, known, held_out, known_lengths=None, held_out_lengths=None):
        moving = known.columns[known.std() > 0]
        level, scale = known[moving].mean(), known[moving].std(ddof=0)
        self.known, self.held_out = ((part[moving] - level) / scale for part in (known, held_out))
        self.known_lengths, self.held_out_lengths = known_lengths, held_out_lengths

    def judged(self, burn):
        """Rows of the second part that count."""
        mask = np.ones(len(self.held_out), dtype=bool)
        for start, _ in bounds(self.held_out, self.held_out_lengths):
            mask[start : start + burn] = False
        return mask

    def units(self):
        """Positions of the columns of every unit."""
        owners = [name.split("__")[0] for name in self.known]
        return {unit: [i for i, one in enumerate(owners) if one == unit] for unit in dict.fromkeys(owners)}


def bounds(frame, lengths):
    """First row and row after the last of every episode."""
    starts = [0] if lengths is None else [0, *np.cumsum(lengths)[:-1]]
    return episodes(tuple(starts), len(frame))


def split(data, n_known):
    """First rows of a record and the others."""
    data = data.astype(float).reset_index(drop=True)
    return Sides(data.iloc[:n_known], data.iloc[n_known:].reset_index(drop=True))


def tep(s, inputs="drop"):
    """The two nominal records of the Tennessee Eastman process."""
    return Sides(*(load_tep(folder_of() / "tep", (name,), inputs=inputs).data for name in ("d00", "d00_te")))


def batadal(s, inputs="drop"):
    """The normal year of a water network."""
    return split(load_batadal(folder_of() / "batadal", inputs=inputs).data, 6000)


def skab(s):
    """The run of a water rig without anomalies."""
    data = load_skab(folder_of() / "skab", "anomaly-free/anomaly-free").data
    return split(data, int(0.7 * len(data)))


def causrca(s):
    """Analog tags and counters of the first normal runs of a machine tool and of the others."""
    record = load_causrca(folder_of() / "causrca")
    analog = record.variables.loc[record.variables["type"].isin(["Continuous", "Counter"]), "name"]
    data, lengths, n_runs = record.data[list(analog)].reset_index(drop=True), list(record.lengths), s["n_runs"]
    rows = int(np.sum(lengths[:n_runs]))
    sides = data.iloc[:rows], data.iloc[rows:].reset_index(drop=True)
    return Sides(*sides, lengths[:n_runs], lengths[n_runs:])


def petshop(s):
    """Mean latencies and requests of services with hardly a gap, filled with the last value."""
    file = folder_of() / "petshop" / "low_traffic" / "noissue" / "metrics.csv.gz"
    raw = pd.read_csv(file, header=[0, 1, 2], index_col=0)
    wanted = [c for c in raw if c[1:] in (("latency", "Average"), ("requests", "Sum"))]
    kept = sorted(c for c in wanted if raw[c].isna().mean() < 0.02 and raw[c].std() > 0)
    data = raw[kept].ffill().bfill()
    data.columns = [f"{c[0].replace('__', '_')}__{c[1]}" for c in kept]
    return split(data, int(0.7 * len(data)))


RECORDS = {
    "TEP, 22 sensors": tep,
    "TEP, 22 sensors and 11 valves": lambda s: tep(s, "outputs"),
    "BATADAL, 28 sensors": batadal,
    "BATADAL, sensors and statuses": lambda s: batadal(s, "outputs"),
    "SKAB, 8 sensors": skab,
    "causRCA, 9 tags": causrca,
    "PetShop, 66 metrics": petshop,
}


def autoregression(sides, columns, n_lags, s):
    """Held-out log-density per row of an autoregression of some columns by least squares."""

    def rows_of(frame, lengths, first):
        Y, blocks = frame.to_numpy()[:, columns], []
        for start, stop in bounds(frame, lengths):
            if stop - start > first:
                y = Y[start:stop]
                past = lagged(y, range(1, n_lags + 1), len(y), first)
                blocks.append(np.hstack([np.ones((len(past), 1)), past, y[first:]]))
        Z = np.vstack(blocks)
        return Z[:, : -len(columns)], Z[:, -len(columns) :]

    Z, targets = rows_of(sides.known, sides.known_lengths, n_lags)
    gram = Z.T @ Z
    gram[np.diag_indices(len(gram))] += s["ridge"] * len(Z)
    weights = np.linalg.solve(gram, Z.T @ targets)
    errors = targets - Z @ weights
    S = errors.T @ errors / len(errors)
    Z, targets = rows_of(sides.held_out, sides.held_out_lengths, s["burn"])
    return float(gaussian(targets - Z @ weights, S).mean())


def best_of_lags(sides, groups, s):
    """Held-out log-density of autoregressions of groups of columns, of the best number of lags."""
    return max(sum(autoregression(sides, columns, p, s) for columns in groups) for p in s["lags"])


def units_alone(estimator, sides):
    """Sum of the units' own log-densities per row."""
    columns = {unit: sides.held_out.columns[own] for unit, own in sides.units().items()}
    lengths = {} if sides.held_out_lengths is None else {"lengths": sides.held_out_lengths}
    own = estimator.clients_.items()
    return sum(client.score(sides.held_out[columns[unit]].to_numpy(), **lengths) for unit, client in own)


def measured(sides, s):
    """Figures of one record."""
    estimator = FederatedGrangerEstimator().fit(sides.known, lengths=sides.known_lengths)
    found = estimator.score_samples(sides.held_out, lengths=sides.held_out_lengths)
    sent = sum(unit["bytes_up"] for unit in estimator.communication_["per_client"].values())
    return {
        "skfedcausal": found[sides.judged(s["burn"])].mean(),
        "units alone": units_alone(estimator, sides),
        "own VAR": best_of_lags(sides, sides.units().values(), s),
        "pooled VAR": best_of_lags(sides, [list(range(sides.known.shape[1]))], s),
        "bytes": sent / len(sides.known),
        "raw bytes": 8 * sides.known.shape[1],
    }


def figures(s):
    """A row of every record."""
    return {"Held out": [{"record": name, **measured(RECORDS[name](s), s)} for name in s["records"]]}
