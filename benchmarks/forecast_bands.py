"""What 90 % bands of forecasts hold of recorded plants, 1, 10 and 50 rows ahead, over several splits.

Every record of `load_sysid` is learned from its first half, 60 % and 70 %; forecasts start at up to 200 rows of the
rest, each given the 300 rows before it or as many as the rest has: no row that was learned from. Misses of rows that
were learned from are smaller, most of all those of long forecasts; `--seen` gives these rows, too. Shares of few
forecasts that overlap scatter: their standard errors count on that, and say how many records bands that hold 90 % of
all that ever comes would show within the limits. Run ``python -m benchmarks.forecast_bands`` with the folder of the
records in ``SKFEDCAUSAL_DATA``.
"""

import argparse
import os
import warnings

import numpy as np
import pandas as pd
from scipy import stats

from ._report import table, write
from .records import _BURN, _PAST, RECORDS, Plant, default, read

_STEPS, _ORIGINS, _CONFIDENCE, _LOW, _HIGH = (1, 10, 50), 200, 0.9, 0.85, 0.95
_LEARNED = (0.5, 0.6, 0.7)
_TWICE = "winding5"  # the same record as another one, with other roles


def split(plant, share):
    """The same record with another share to learn from."""
    whole = pd.concat([plant.known, plant.tail], ignore_index=True)
    n_known = int(share * len(whole))
    return Plant(plant.name, whole.iloc[:n_known], whole.iloc[n_known:].reset_index(drop=True), plant.inputs)


def measured(plant, seen):
    """Whether measurements were inside the bands, (n_forecasts, n_sensors) by number of rows ahead."""
    estimator = default(plant).fit(plant.known).set_output(transform="pandas")
    outputs, rows, first = plant.outputs, plant.tail, min(_BURN, len(plant.tail) // 4)
    if seen:
        rows, first = pd.concat([plant.known, plant.tail], ignore_index=True), len(plant.known)
    far = [k for k in _STEPS if k < len(rows) - first]
    hits: dict = {k: [] for k in far}
    for o in np.unique(np.linspace(first, len(rows) - max(far), _ORIGINS).astype(int)):
        begin = max(o - _PAST, 0)
        part = rows.iloc[begin : o + max(far)].reset_index(drop=True)
        _, low, high = (x[outputs].to_numpy() for x in estimator.forecast(part, o - begin, confidence=_CONFIDENCE))
        Y = part[outputs].to_numpy()[o - begin :]
        for k in far:
            hits[k].append((low[k - 1] <= Y[k - 1]) & (Y[k - 1] <= high[k - 1]))
    return {k: np.array(found) for k, found in hits.items()}


def standard_error(hits):
    """Of the share of hits (n_forecasts, n_sensors), neighbours of which are alike (Bartlett's weights)."""
    x = hits.mean(axis=1) - hits.mean()
    n_lags = min(int(2 * np.sqrt(len(x))), len(x) - 1)
    sums = np.array([x[: len(x) - lag] @ x[lag:] for lag in range(n_lags + 1)]) / len(x)
    weights = 2 * (1 - np.arange(n_lags + 1) / (n_lags + 1))
    return float(np.sqrt(max(sums[1:] @ weights[1:] + sums[0], sums[0]) / len(x)))


def chance(hits):
    """That bands which hold just 90 % of all that ever comes are inside the limits at all steps."""
    errors = [max(standard_error(found), 1e-9) for found in hits.values()]
    inside = [np.diff(stats.norm.cdf([(_LOW - _CONFIDENCE) / e, (_HIGH - _CONFIDENCE) / e]))[0] for e in errors]
    return float(np.prod(inside)) if len(errors) == len(_STEPS) else 0.0


def is_inside(hits):
    """Whether shares are inside the limits at all steps."""
    return len(hits) == len(_STEPS) and all(_LOW <= found.mean() <= _HIGH for found in hits.values())


def together(by_split):
    """Hits of all splits."""
    steps = [k for k in _STEPS if any(k in hits for hits in by_split)]
    return {k: np.concatenate([hits[k].ravel() for hits in by_split if k in hits]) for k in steps}


def pooled(name, by_split):
    """One row of the table, of all splits of a record."""
    row = {"record": name}
    for k in _STEPS:
        parts = [hits[k] for hits in by_split if k in hits]
        sizes = np.array([found.size for found in parts])
        error = np.sqrt(np.square(sizes * [standard_error(found) for found in parts]).sum()) / max(sizes.sum(), 1)
        row[f"{k} rows"] = f"{together(by_split)[k].mean():.3f} ± {error:.3f}" if parts else ""
        row[f"at {k}"] = " ".join(f"{found.mean():.2f}" for found in parts)
    return row | {"splits inside": f"{sum(map(is_inside, by_split))} of {len(by_split)}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", nargs="+", choices=RECORDS, default=RECORDS)
    parser.add_argument("--learned", nargs="+", type=float, default=_LEARNED, help="shares to learn from")
    parser.add_argument("--seen", action="store_true", help="forecasts are given rows that were learned from, too")
    arguments = parser.parse_args()
    folder = os.environ.get("SKFEDCAUSAL_DATA")
    if not folder:
        parser.error("set SKFEDCAUSAL_DATA to the folder that holds sysid")
    warnings.simplefilter("ignore")  # of fits, and of forecasts with few rows before them
    found, rows = {}, []
    for name in arguments.records:
        plant = read(folder, name)
        found[name] = [measured(split(plant, share), arguments.seen) for share in arguments.learned]
        rows.append(pooled(name, found[name]))
        print(rows[-1], flush=True)
    once = [name for name in found if name != _TWICE]
    lines = [
        f"- learned from {100 * share:g}%: inside {sum(is_inside(found[name][i]) for name in once)} of {len(once)}, "
        f"bands that hold just {_CONFIDENCE:.0%} would be inside {sum(chance(found[name][i]) for name in once):.1f}"
        for i, share in enumerate(arguments.learned)
    ]
    whole = [
        np.mean([found[name][i][k].mean() for name in once for i in range(len(lines)) if k in found[name][i]])
        for k in _STEPS
    ]
    good = [name for name in once if is_inside(together(found[name]))]
    lines.append(f"- all splits together: inside {len(good)} of {len(once)} ({', '.join(good)})")
    lines.append(f"- mean share: {', '.join(f'{share:.3f}' for share in whole)} at {', '.join(map(str, _STEPS))} rows")
    write(
        "forecast_bands_seen" if arguments.seen else "forecast_bands",
        "Bands of forecasts",
        f"Share of measurements inside {_CONFIDENCE:.0%} bands, all sensors together, with its standard error over "
        f"the splits, and by split; forecasts from up to {_ORIGINS} rows of the part of every record that was not "
        f"learned from, each given up to {_PAST} rows before it"
        f"{', learned from or not' if arguments.seen else ' of that part'}. Inside: from {_LOW:.0%} to {_HIGH:.0%} at "
        f"all three distances. {_TWICE}, winding with the speeds of the reels as inputs, is not counted.",
        "\n".join(lines),
        table(rows),
    )


if __name__ == "__main__":
    main()
