"""The library's own inference on the paper's task and harder variants, beside the paper's flags.

Run ``python -m benchmarks.paper3.incidents``.
"""

import argparse
import warnings

import numpy as np

from skfedcausal import ExtendedKalmanClient, FederatedRCADetector, RegressorServer
from skfedcausal.datasets import make_nonlinear_plant
from skfedcausal.metrics import incident_report

from .._report import table, write
from ._setting import SETTING, flags_of, rca, records, residuals


def calibrated(seed, server, size=2.0, **settings):
    """Row of the detector with innovations at one false alarm per 2000 steps, per incident."""
    nominal = make_nonlinear_plant(
        n_samples=12_000, size=0, random_state=1, **{"plant_state": seed, "process_noise": 0.1, **settings}
    )
    test = records(seed, size=size, **settings)[2]
    detector = FederatedRCADetector(server=server, false_alarm_rate=1 / 2000).fit(nominal.data)
    return incident_report(detector.incidents(test.data), test.faults, len(test.target))


def beside(seeds):
    """Incidents by innovations on the paper's task and its harder variants, beside the flags per step."""
    loop = {"n_units": 4, "links": ((0, 1), (1, 2), (2, 0), (2, 3)), "strength": 1.0, "process_noise": 0.3}
    cases = {
        "alpha 0.5, size 2, process noise 0.1": {},
        "alpha 3, size 0.5, process noise 0.1": {"strength": 3.0, "size": 0.5},
        "alpha 0.5, size 0.6, process noise 0.3": {"size": 0.6, "process_noise": 0.3},
        "four units with a loop, size 2, process noise 0.3": loop,
    }
    rows = []
    for label, settings in cases.items():
        told = {"case": label}
        for name, server in (("linear (default)", None), ("RegressorServer", RegressorServer())):
            reports = [calibrated(seed, server, **settings) for seed in seeds]
            mean = {k: np.mean([r[k] for r in reports]) for k in ("f1", "detected", "delay", "false_alarms")}
            told[f"{name}: F1"] = f"{mean['f1']:.2f}"
            told[f"{name}: detected, delay"] = f"{mean['detected']:.2f}, {mean['delay']:.2f}"
        train, nominal, test = records(seeds[0], **settings)
        detector = FederatedRCADetector(ExtendedKalmanClient(random_state=0), evidence="flags").fit(train)
        flags = flags_of(residuals(detector, nominal), residuals(detector, test.data), 95.0)
        told["flags, 95 %: F1 per step"] = f"{rca(flags, test)[2]:.2f}"
        rows.append(told)
        print(told, flush=True)
    return rows


def main():
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plants", type=int, default=2)
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    write(
        "paper3/incidents",
        "Third paper's task: incidents by innovations, beside the flags",
        SETTING,
        f"Per incident, at one false alarm per 2000 nominal steps, 12 000 nominal steps, {args.plants} "
        "plants; delay in steps given detection. Beside it the flags of the first plant per step at their "
        "own 95th percentile, augmented by a ridge regression of the server's cross term.",
        table(beside(range(args.plants))),
    )


if __name__ == "__main__":
    main()
