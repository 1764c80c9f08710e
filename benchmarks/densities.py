"""Held-out log-density per row of plants without declared inputs, beside autoregressions by least squares.

Run ``python -m benchmarks.densities`` with the folder of the records in ``SKFEDCAUSAL_DATA``; nothing is
downloaded. Another estimator is measured by ``--factory module:function``, a function without arguments that
gives an estimator that is not fitted.
"""

import argparse
import os
import signal
import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import process_time

import numpy as np
import pandas as pd

from skfedcausal.datasets import load_batadal, load_causrca, load_skab, load_tep
from skfedcausal.statespace.episodes import episodes

from ._report import table, write
from ._rivals import gaussian, lagged

_BURN = 3  # rows of an episode that are not judged: every tool has its past from then on
_LIMIT = 200.0  # processor seconds that a fit may take
_RIDGE = 1e-6  # share of the regressors' variance, for columns that others determine


@dataclass
class Sides:
    """Rows to learn from and to judge by with the lengths of their episodes, standardised by the former."""

    known: pd.DataFrame
    held_out: pd.DataFrame
    known_lengths: list[int] | None = None
    held_out_lengths: list[int] | None = None

    def __post_init__(self):
        moving = self.known.columns[self.known.std() > 0]
        level, scale = self.known[moving].mean(), self.known[moving].std(ddof=0)
        self.known, self.held_out = ((part[moving] - level) / scale for part in (self.known, self.held_out))

    def judged(self):
        """Rows of the second part that count."""
        mask = np.ones(len(self.held_out), dtype=bool)
        for start, _ in _episodes(self.held_out, self.held_out_lengths):
            mask[start : start + _BURN] = False
        return mask

    def units(self):
        """Positions of the columns of every unit."""
        owners = [name.split("__")[0] for name in self.known]
        return [[i for i, one in enumerate(owners) if one == unit] for unit in dict.fromkeys(owners)]


def _episodes(frame, lengths):
    starts = [0] if lengths is None else [0, *np.cumsum(lengths)[:-1]]
    return episodes(tuple(starts), len(frame))


def _split(data, n_known):
    data = data.astype(float).reset_index(drop=True)
    return Sides(data.iloc[:n_known], data.iloc[n_known:].reset_index(drop=True))


def tep(folder, inputs="drop"):
    known, held_out = (load_tep(folder / "tep", (name,), inputs=inputs).data for name in ("d00", "d00_te"))
    return Sides(known, held_out)


def batadal(folder):
    return _split(load_batadal(folder / "batadal", inputs="drop").data, 6000)


def skab(folder):
    data = load_skab(folder / "skab", "anomaly-free/anomaly-free").data
    return _split(data, int(0.7 * len(data)))


def causrca(folder, n_known=100):
    """Analog tags and counters of the first 100 normal runs and of the others."""
    record = load_causrca(folder / "causrca")
    analog = record.variables.loc[record.variables["type"].isin(["Continuous", "Counter"]), "name"]
    data, lengths = record.data[list(analog)].reset_index(drop=True), list(record.lengths)
    rows = int(np.sum(lengths[:n_known]))
    sides = data.iloc[:rows], data.iloc[rows:].reset_index(drop=True)
    return Sides(*sides, lengths[:n_known], lengths[n_known:])


def petshop(folder):
    """Mean latencies and requests of 41 services with hardly a gap, filled with the last value."""
    file = folder / "petshop" / "low_traffic" / "noissue" / "metrics.csv.gz"
    raw = pd.read_csv(file, header=[0, 1, 2], index_col=0)
    wanted = [c for c in raw if c[1:] in (("latency", "Average"), ("requests", "Sum"))]
    kept = [c for c in wanted if raw[c].isna().mean() < 0.02 and raw[c].std() > 0]
    kept = sorted(kept)
    data = raw[kept].ffill().bfill()
    data.columns = [f"{c[0].replace('__', '_')}__{c[1]}" for c in kept]
    return _split(data, int(0.7 * len(data)))


RECORDS = {
    "TEP, 22 sensors": tep,
    "TEP, 22 sensors and 11 valves": lambda folder: tep(folder, "outputs"),
    "BATADAL, 28 sensors": batadal,
    "SKAB, 8 sensors": skab,
    "causRCA, 9 tags": causrca,
    "PetShop, 66 metrics": petshop,
}


def autoregression(sides, columns, n_lags):
    """Held-out log-density per row of an autoregression of some columns by least squares."""

    def rows_of(frame, lengths, first):
        Y, blocks = frame.to_numpy()[:, columns], []
        for start, stop in _episodes(frame, lengths):
            if stop - start > first:
                y = Y[start:stop]
                past = lagged(y, range(1, n_lags + 1), len(y), first)
                blocks.append(np.hstack([np.ones((len(past), 1)), past, y[first:]]))
        Z = np.vstack(blocks)
        return Z[:, : -len(columns)], Z[:, -len(columns) :]

    Z, targets = rows_of(sides.known, sides.known_lengths, n_lags)
    gram = Z.T @ Z
    gram[np.diag_indices(len(gram))] += _RIDGE * len(Z)
    weights = np.linalg.solve(gram, Z.T @ targets)
    errors = targets - Z @ weights
    S = errors.T @ errors / len(errors)
    Z, targets = rows_of(sides.held_out, sides.held_out_lengths, _BURN)
    return float(gaussian(targets - Z @ weights, S).mean())


def _stop(*_):
    raise TimeoutError


def library(sides, factory):
    """Row of the library's estimator; without numbers where the fit takes too long."""
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, _LIMIT)
    start = process_time()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            estimator = factory().fit(sides.known, lengths=sides.known_lengths)
    except TimeoutError:
        return {"seconds": f"stopped after {_LIMIT:.0f}"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = process_time() - start
    found = estimator.score_samples(sides.held_out, lengths=sides.held_out_lengths)
    up = sum(unit["bytes_up"] for unit in estimator.communication_["per_client"].values())
    return {
        "held out": float(found[sides.judged()].mean()),
        "bytes a row": up / len(sides.known),
        "states": len(estimator.transition_),
        "links found": int((estimator.links_["verdict"] == "influence").sum()),
        "seconds": seconds,
        "warnings": len({str(w.message)[:40] for w in caught}),
    }


def measured(name, sides, factory):
    """One row per tool."""
    rows = [{"record": name, "tool": "this library", **library(sides, factory)}]
    every = [list(range(sides.known.shape[1]))]
    for tool, groups in {"own VAR({}) of every unit": sides.units(), "pooled VAR({})": every}.items():
        for p in (1, 2, 3):
            total = sum(autoregression(sides, columns, p) for columns in groups)
            rows.append({"record": name, "tool": tool.format(p), "held out": total})
    for row in rows:
        print(shown(row), flush=True)
    return rows


def shown(row):
    """A row as text for a table."""
    digits = {"held out": ".2f", "bytes a row": ".0f", "seconds": ".1f"}
    return {
        name: format(value, digits[name]) if name in digits and isinstance(value, float) else value
        for name, value in row.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", nargs="+", help="beginnings of the records' names; all if not given")
    parser.add_argument("--factory", default="skfedcausal:FederatedGrangerEstimator")
    parser.add_argument("--name", default="densities", help="of the file in results")
    arguments = parser.parse_args()
    folder = os.environ.get("SKFEDCAUSAL_DATA")
    if not folder:
        parser.error("set SKFEDCAUSAL_DATA to the folder that holds the records")
    module, function = arguments.factory.split(":")
    factory = getattr(import_module(module), function)
    rows = []
    for name, read in RECORDS.items():
        if not arguments.records or any(name.startswith(one) for one in arguments.records):
            rows += measured(name, read(Path(folder)), factory)
    columns = ("record", "tool", "held out", "bytes a row", "states", "links found", "seconds", "warnings")
    write(
        arguments.name,
        "Held-out log-density per row",
        "Columns standardised by the rows that are learned from; log-density of a row given those before it, "
        "larger is better. TEP: 500 nominal rows (d00), judged on 960 (d00_te). BATADAL: 6000 hours, judged "
        "on 2761. SKAB: the run without anomalies, 70 % and 30 %. causRCA: analog tags and counters of 100 "
        "normal runs, judged on 70. PetShop: latencies and requests of 41 services, 70 % and 30 %. "
        "Autoregressions by least squares: of every unit's own columns, nothing shared, and of all "
        f"columns of the pooled table; the first {_BURN} rows of an episode do not count. Bytes: what all "
        f"units sent in `fit`. A fit is stopped after {_LIMIT:.0f} seconds of the processor.",
        table([shown(row) for row in rows], columns),
    )


if __name__ == "__main__":
    main()
