"""
Asked and achieved false alarms
===============================

Thresholds come from a budget of false alarms and are checked on nominal data that was held out. What this
does not show: normal operation that changes; then every budget is exceeded.
"""

# %%
# The same nominal record, four budgets.
from skfedcausal import FederatedRCADetector
from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import FalseAlarmDisplay

X, _ = make_granger_plant(3, n_samples=6000, random_state=0)
detectors = [
    FederatedRCADetector(false_alarm_rate=rate).fit(X)
    for rate in (5e-4, 1e-3, 3e-3, 1e-2)
]

# %%
FalseAlarmDisplay.from_detectors(detectors)
