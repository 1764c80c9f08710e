"""
Where did it start?
===================

Two units on noisy limit cycles, one pushing the other. Sustained faults start in either of them; the detector
has seen nominal operation only. What this does not show: faults outside the range of nominal data, where the
prediction for the victims becomes arbitrary, and plants with more than two units.
"""

# %%
# Nominal operation to learn from, and a record with ten-step faults.
from skfedcausal import FederatedRCADetector
from skfedcausal.datasets import make_nonlinear_plant
from skfedcausal.displays import IncidentDisplay
from skfedcausal.metrics import incident_report

nominal = make_nonlinear_plant(n_samples=10_000, size=0, random_state=0)
record = make_nonlinear_plant(n_samples=2_000, size=2.0, random_state=1)

# %%
# One false alarm per 1000 steps is the budget of both units together.
detector = FederatedRCADetector(false_alarm_rate=1e-3).fit(nominal.data)
print(detector.false_alarms_)

# %%
# Incidents, best explained unit first, and how they compare with the truth.
incidents = detector.incidents(record.data)
print(incidents[["start", "detected", "end", "root", "probability"]].head())
print(incident_report(incidents, record.faults, 2_000))

# %%
# One of them: the alarm level of both units.
IncidentDisplay.from_detector(detector, record.data, incidents.iloc[0])

# %%
# The same record as a stream.
detector.reset()
for first in range(0, 2_000, 250):
    changed = detector.update(
        {name: Y[first : first + 250] for name, Y in record.data.items()}
    )
print(changed[["detected", "root"]])
