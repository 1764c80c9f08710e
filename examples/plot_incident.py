"""
An incident and its page
========================

A disturbance in one unit travels to its neighbours. The detector, fitted to normal operation, names the
unit it began in; the picture shows the alarm level of every unit. What this does not show: a detector can
only be as good as its nominal record.
"""

# %%
# Normal operation, and a record in which the boiler is upset for five minutes.
import tempfile
from pathlib import Path

from skfedcausal import FederatedRCADetector
from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import IncidentDisplay

X, truth = make_granger_plant(
    4,
    names=["boiler", "turbine", "water", "cooling"],
    links=[("boiler", "turbine"), ("turbine", "water")],
    link_strength=0.4,
    n_samples=5000,
    level_shift={"unit": "boiler", "size": 4.0, "at": 4600, "until": 4630},
    container="frame",
    random_state=0,
)
detector = FederatedRCADetector(false_alarm_rate=1e-3).fit(X[:4500])
record = X[4500:]
incidents = detector.incidents(record)
print(incidents[["start", "detected", "end", "root", "probability"]])

# %%
# One lane per unit, the root on top; dotted lines are thresholds.
worst = incidents.iloc[incidents["probability"].argmax()]
IncidentDisplay.from_detector(detector, record, worst)

# %%
# The page for the shift lead.
page = detector.report(worst, Path(tempfile.mkdtemp()) / "trip.html", X=record)
print(page.name, page.stat().st_size, "bytes")
