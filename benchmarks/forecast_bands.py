"""What 90 % bands of forecasts hold of recorded plants, 1, 10 and 50 rows ahead.

Every record of `load_sysid` is learned from its first 70 %; forecasts start at up to 80 rows of the rest, each
given the 300 rows before it. Run ``python -m benchmarks.forecast_bands`` with the folder of the records in
``SKFEDCAUSAL_DATA``.
"""

import argparse
import os
import warnings

import numpy as np
import pandas as pd

from ._report import table, write
from .records import _PAST, RECORDS, default, read

_STEPS, _ORIGINS, _CONFIDENCE, _LOW, _HIGH = (1, 10, 50), 80, 0.9, 0.85, 0.95


def measured(plant):
    """Share of measurements inside the bands by number of rows ahead."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = default(plant).fit(plant.known).set_output(transform="pandas")
    outputs, n_known, whole = plant.outputs, len(plant.known), pd.concat([plant.known, plant.tail], ignore_index=True)
    far = [k for k in _STEPS if k <= len(plant.tail) - 2]
    hits: dict = {k: [] for k in far}
    for o in np.unique(np.linspace(n_known, len(whole) - max(far), _ORIGINS).astype(int)):
        first = max(o - _PAST, 0)
        rows = whole.iloc[first : o + max(far)].reset_index(drop=True)
        _, low, high = (x[outputs].to_numpy() for x in estimator.forecast(rows, o - first, confidence=_CONFIDENCE))
        Y = rows[outputs].to_numpy()[o - first :]
        for k in far:
            hits[k].append((low[k - 1] <= Y[k - 1]) & (Y[k - 1] <= high[k - 1]))
    return {k: float(np.mean(found)) for k, found in hits.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", nargs="+", choices=RECORDS, default=RECORDS)
    arguments = parser.parse_args()
    folder = os.environ.get("SKFEDCAUSAL_DATA")
    if not folder:
        parser.error("set SKFEDCAUSAL_DATA to the folder that holds sysid")
    rows, good = [], []
    for name in arguments.records:
        found = measured(read(folder, name))
        if all(_LOW <= share <= _HIGH for share in found.values()) and len(found) == len(_STEPS):
            good.append(name)
        rows.append({"record": name} | {f"{k} rows": f"{share:.3f}" for k, share in found.items()})
        print(rows[-1], flush=True)
    write(
        "forecast_bands",
        "Bands of forecasts",
        f"Share of measurements inside {_CONFIDENCE:.0%} bands, all sensors together, forecasts from up to {_ORIGINS} "
        f"rows of the last 30 % of every record, each given {_PAST} rows before it (winding5: winding with the speeds "
        "of the reels as inputs).",
        f"- {_LOW:.0%} to {_HIGH:.0%} at all three: {len(good)} of {len(rows)} ({', '.join(good)})",
        table(rows, ["record", *(f"{k} rows" for k in _STEPS)]),
    )


if __name__ == "__main__":
    main()
