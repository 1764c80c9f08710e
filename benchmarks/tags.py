"""The tag to blame: how often the first tag that a unit names at home is the one at fault.

Faults of a single sensor or valve in plants under control (`make_fault_plant`). The detector, as it comes, is fitted to
3000 nominal rows and asked for incidents; of the first one after the onset whose unit is right, the unit's own ranking
of its tags counts. Run ``python -m benchmarks.tags``; ``--plants`` says how many there are.
"""

import argparse
import warnings

import numpy as np

from skfedcausal import FederatedRCADetector
from skfedcausal.datasets import make_fault_plant

from ._report import table, write

KINDS = (
    *("sensor bias", "sensor drift", "sensor freeze", "sensor gain", "sensor noise"),
    *("stuck valve", "valve loss", "valve stiction"),
)
_NOMINAL, _ROWS, _ONSET, _UNITS = 3000, 600, 200, 6
_FIRST_PLANT = 300  # others than those it was built on


def judged(plant_state):
    """By kind: whether the unit was right, and whether its first tag was, None where the unit was not."""
    nominal = make_fault_plant(_UNITS, plant_state=plant_state, n_samples=_NOMINAL, random_state=plant_state)
    detector = FederatedRCADetector().fit(nominal.data)
    root, sensor = nominal.network.root, nominal.network.sensor
    for kind in KINDS:
        settings = {
            "n_samples": _ROWS,
            "onset": _ONSET,
            "plant_state": plant_state,
            "random_state": 10_000 + plant_state,
        }
        record = make_fault_plant(_UNITS, kind, **settings).data
        incidents = detector.incidents(record).query(f"detected >= {_ONSET}")
        if incidents.empty:
            yield kind, False, None, ""
            continue
        incident = incidents.iloc[0]
        unit = f"unit{root}"
        if incident["ranking"][0][0] != unit:
            yield kind, False, None, ""
            continue
        at_fault = sensor if kind.startswith("sensor") else record[unit].shape[1] - 1
        tag = detector.tags(record, incident)["tag"].iloc[0]
        yield kind, True, tag == f"{unit}__x{at_fault}", "first" if sensor == 0 else "other"


def main(arguments=None):
    """Judge all plants and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plants", type=int, default=40)
    parser.add_argument("--name", default="tags")
    options = parser.parse_args(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [case for k in range(options.plants) for case in judged(_FIRST_PLANT + k)]
    rows = [_row(kind, [case for case in found if case[0] == kind]) for kind in KINDS]
    rows.append(_row("a sensor that a controller reads", [c for c in found if c[3] == "first" and "sensor" in c[0]]))
    rows.append(_row("all", found))
    write(options.name, "The tag to blame, found at home", table(rows))


def _row(kind, cases):
    right = [tag for _, _, tag, _ in cases if tag is not None]
    error = np.sqrt(np.mean(right) * (1 - np.mean(right)) / len(right)) if right else np.nan
    return {
        "fault": kind,
        "cases": len(cases),
        "right unit": f"{np.mean([unit for _, unit, _, _ in cases]):.2f}",
        "right first tag of the right unit": f"{np.mean(right):.2f}" if right else "",
        "± standard error": f"{error:.2f}",
    }


if __name__ == "__main__":
    main()
