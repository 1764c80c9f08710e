"""
An attack on a water network
============================

A detector learns a year of normal operation of the BATADAL water network and
watches half a year with attacks on its controllers. The record is yours: put
``train_normal.csv.gz``, ``train_attacks.csv.gz`` and their tables in a folder
``batadal`` and set ``SKFEDCAUSAL_DATA`` to the folder above. Without it a
simulated plant with a fault takes its place.

What this example does not show: how often this succeeds. The benchmarks count
that over all attacks.
"""

# %%
import os
from pathlib import Path

from skfedcausal import FederatedRCADetector
from skfedcausal.datasets import load_batadal, make_fault_plant
from skfedcausal.displays import IncidentDisplay

folder = Path(os.environ.get("SKFEDCAUSAL_DATA", ".")) / "batadal"
if folder.is_dir():
    nominal = load_batadal(folder).data
    later = load_batadal(folder, "train_attacks")
else:
    print(f"There is no {folder.resolve()}: simulated plant instead.")
    nominal = make_fault_plant(n_samples=4000, random_state=0).data
    later = make_fault_plant(fault="step", random_state=1)

# %%
# One false alarm in two weeks is allowed, for all zones together.
detector = FederatedRCADetector(false_alarm_rate=1 / 336).fit(nominal)
incidents = detector.incidents(later.data)
print(incidents[["start", "detected", "root", "probability"]].head(8))

# %%
# The strongest incident while an attack runs: who was in alarm, and in what
# order.
levels = detector.transform(later.data).max(axis=1)
rows = incidents["detected"].to_numpy()
if folder.is_dir():
    rows = later.data.index.get_indexer(incidents["detected"])
score = levels[rows] * (later.target[rows] != "")
strongest = incidents.iloc[score.argmax()]
IncidentDisplay.from_detector(detector, later.data, strongest)
