"""Root causes under differential privacy: what noise on the measurements and randomised flags leave.

Run ``python -m benchmarks.privacy_roots --cases 40``.
"""

import argparse
import warnings

import numpy as np

from skfedcausal import FederatedRCADetector, GaussianMechanism, RandomizedResponse

from ._report import mean_and_error, table, write
from .root_cause import BEFORE, Network

N_UNITS = 4
DELTA = 1e-6
HORIZON = 20  # steps over which flags must agree
SHARE = 0.1  # event radius over range
SIZES = (2.0, 0.5)


def gaussian(nominal, epsilon):
    """Noise on the measurements; the clip radius is a quantile that stands in for a public constant."""
    if epsilon is None:
        return None
    clip = {f"unit{m}": float(np.quantile(np.linalg.norm(y, axis=1), 0.999)) for m, y in enumerate(nominal)}
    radius = {name: 2 * SHARE * value for name, value in clip.items()}
    return GaussianMechanism(epsilon=epsilon, delta=DELTA, clip_norm=clip, event_radius=radius)


def responses(nominal, epsilon):
    """Randomised flags; the nominal record is taken for public."""
    return None if epsilon is None else RandomizedResponse(epsilon=epsilon)


def named(X):
    """Records by unit name."""
    return {f"unit{m}": y for m, y in enumerate(X)}


def by_innovations(detector, record):
    """The most probable root of the faulty stretch, and how much of the time before was in alarm."""
    alarms = detector.predict(record)[:BEFORE] == -1
    return detector.attribute(record, start=BEFORE).client[0], alarms.mean()


def by_flags(detector, record):
    """The unit that was most often the root in the faulty stretch, and the share of time in alarm before."""
    roots = detector.predict_root_cause(record)
    names, counts = np.unique(roots[BEFORE + HORIZON :], return_counts=True)
    counts = np.where(np.isin(names, detector.client_names_), counts, -1)
    return names[counts.argmax()], (roots[:BEFORE] != "").mean()


MODES = {
    "states, noise on measurements": ("innovations", gaussian, by_innovations, (None, 30.0, 8.0, 3.0, 1.0)),
    "flags of noised measurements": ("flags", gaussian, by_flags, (None, 30.0, 8.0, 3.0, 1.0)),
    "randomised flags": ("flags", responses, by_flags, (8.0, 4.0, 2.0, 1.0, 0.5)),
}


def accuracy(mode, cases, size):
    """Share of roots named and share of nominal time in alarm, by epsilon."""
    evidence, mechanism, judge, epsilons = MODES[mode]
    rows = []
    for epsilon in epsilons:
        right, false = [], []
        for case in range(cases):
            network = Network(N_UNITS, case, "linear", loop=case % 2 == 1)
            nominal, record = network.record(size)
            privacy = mechanism(nominal, epsilon)
            detector = FederatedRCADetector(privacy=privacy, evidence=evidence, horizon=HORIZON)
            found, alarms = judge(detector.fit(named(nominal)), named(record))
            right.append(found == f"unit{network.root}")
            false.append(alarms)
        rows.append(
            {
                "epsilon": "no noise" if epsilon is None else f"{epsilon:g}",
                "right root": mean_and_error(right, 2),
                "nominal time in alarm": mean_and_error(false, 3),
            }
        )
        print(mode, size, rows[-1], flush=True)
    return table(rows)


def main():
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=40)
    cases = parser.parse_args().cases
    warnings.simplefilter("ignore")  # of weak promises: that is what the tables show
    sections = [
        f"{cases} networks of {N_UNITS} units with 4 sensors each, half of them with a loop; 3000 nominal "
        f"rows, then {BEFORE} more and 200 with a constant push of one unit's states; chance is 0.25. Noise "
        f"on measurements: per event, delta = {DELTA:g}, event radius {SHARE:.0%} of the range, epsilon of "
        "the nominal and of the watched record each. Randomised flags: epsilon per pair of flags, the "
        f"nominal record taken for public. Flags must agree over {HORIZON} steps."
    ]
    for size in SIZES:
        for mode in list(MODES) if size == max(SIZES) else list(MODES)[:1]:  # flags miss small pushes anyway
            sections.append(f"## Push of {size:g}: {mode}\n\n{accuracy(mode, cases, size)}")
    write("privacy_roots", "Privacy: root causes against epsilon", *sections)


if __name__ == "__main__":
    main()
