"""
Which tag to look at
====================

The SKAB rig circulates water; in this experiment a valve at the outlet of the
flow closes. The unit in which it began ranks its own tags. The record is
yours: put ``skab.csv.gz`` in a folder ``skab`` and set ``SKFEDCAUSAL_DATA`` to
the folder above. Without it a simulated plant with a biased sensor takes its
place.

What this example does not show: that one tag is always to blame. A fault of
the process moves several.
"""

# %%
import os
from pathlib import Path

from skfedcausal import FederatedRCADetector, inspection
from skfedcausal.datasets import load_skab, make_fault_plant
from skfedcausal.displays import TagDisplay

folder = Path(os.environ.get("SKFEDCAUSAL_DATA", ".")) / "skab"
if folder.is_dir():
    nominal = load_skab(folder, "anomaly-free/anomaly-free").data
    later = load_skab(folder, "valve1/0").data
else:
    print(f"There is no {folder.resolve()}: simulated plant instead.")
    nominal = make_fault_plant(n_samples=4000, random_state=0).data
    later = make_fault_plant(fault="sensor bias", random_state=1).data

# %%
detector = FederatedRCADetector(false_alarm_rate=1e-3).fit(nominal)
incidents = detector.incidents(later)
print(incidents[["start", "detected", "root", "probability"]].head())

# %%
# The tags of that unit, the most suspicious first, and where the others
# expected them.
incident = incidents.iloc[0]
tags = inspection.tags(detector, later, incident)
print(tags.to_string(index=False))
TagDisplay.from_detector(
    detector, later, incident, tags["tag"].head(3).tolist()
)
