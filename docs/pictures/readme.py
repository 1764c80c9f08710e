"""README's picture: ``python docs/pictures/readme.py FOLDER`` writes ``docs/_static/readme.png``.

FOLDER holds the public records of the Tennessee Eastman process (``tep.npz`` and its tables). The detector learns from
the two normal records and judges that of fault 4: the reactor's cooling water gets warmer at row 160.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from skfedcausal import FederatedRCADetector
from skfedcausal.datasets import load_tep
from skfedcausal.displays import IncidentDisplay, TagDisplay

FAULT, ONSET = "d04_te", 160


def write(folder, path):
    """The first incident after the fault: its units on the left, the first tag of its root on the right."""
    nominal, record = load_tep(folder, ["d00", "d00_te"]), load_tep(folder, FAULT).data
    detector = FederatedRCADetector(false_alarm_rate=1e-3).fit(nominal.data, lengths=nominal.lengths)
    incidents = detector.incidents(record)
    incident = incidents[incidents["detected"] >= ONSET].iloc[0]
    print(incident.to_string())
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), layout="constrained", width_ratios=(1.1, 1))
    IncidentDisplay.from_detector(detector, record, incident, ax=left)
    TagDisplay.from_detector(detector, record, incident, ax=right)
    left.set_title("Where did it start?", fontsize="large", fontweight="bold")
    right.set_title("Which tag?", fontsize="large", fontweight="bold")
    figure.savefig(path, dpi=80)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(__file__).parents[1] / "_static" / "readme.png")
