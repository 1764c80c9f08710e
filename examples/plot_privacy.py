"""
What noise costs and what it buys
=================================

A plant of four units shares its messages under differential privacy: what a budget leaves of the links, what
the estimator promises, and what the account says after more questions.

What this example does not show: bounds here come from the simulator. In use they must be known without
looking at the data, and epsilon must be chosen on a simulated, public or old record, as it is done below.
"""

import warnings

import numpy as np
from matplotlib import pyplot as plt

from skfedcausal import (
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    PrivacyAccountant,
    inspection,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import LinkMatrixDisplay
from skfedcausal.privacy import PrivacyBudgetError, gaussian_noise_multiplier

# %%
# A rehearsal on a simulated plant
# --------------------------------
# The ranges of the sensors are public: measurements lie within 25 of zero (Euclidean norm over a unit's
# sensors), and what is worth hiding at one time step is a change of at most 5.
names = ["boiler", "turbine", "cooling", "water"]
links = [("boiler", "turbine"), ("turbine", "cooling"), ("water", "boiler")]
settings = {
    "names": names,
    "links": links,
    "link_strength": 0.3,
    "n_samples": 5000,
}
rehearsal, _ = make_granger_plant(4, **settings, random_state=1)
bounds = {"clip_norm": 25.0, "event_radius": 5.0, "delta": 1e-6}
planned = FederatedGrangerEstimator(
    privacy=GaussianMechanism(epsilon=1.0, **bounds)
)
curve = inspection.privacy_curve(
    planned, rehearsal, [0.3, 1.0, 3.0, 8.0], random_state=0
)
print(curve.round(2).to_string(index=False))
print("smallest useful epsilon:", curve.attrs["smallest_useful_epsilon"])

# %%
# The record itself
# -----------------
# The account is shared by everything that learns from this record. It allows a total of epsilon = 10.
X, truth = make_granger_plant(4, **settings, random_state=0)
account = PrivacyAccountant(epsilon=10.0, delta=1e-6)
mechanism = GaussianMechanism(epsilon=8.0, accountant=account, **bounds)
estimator = FederatedGrangerEstimator(privacy=mechanism).fit(X)
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 4), layout="constrained"
)
LinkMatrixDisplay.from_links(truth.links, names, ax=left, title="true links")
LinkMatrixDisplay.from_estimator(
    estimator, ax=right, title="learned with epsilon = 8"
)
plt.show()

# %%
# The promise in words, and what it does not cover.
print(estimator.privacy_statement_)

# %%
# More questions about the same record are free: they are answered from the copy that was noised once.
estimator.score(X), estimator.fit(X), estimator.predict(X, model="server")
print(f"epsilon = {estimator.privacy_spent_.epsilon:.3f}")

# %%
# Half of the record is another record. Its release would cost more than is left, and is refused before
# anything is drawn.
try:
    estimator.fit({name: Y[:2500] for name, Y in X.items()})
except PrivacyBudgetError as error:
    print(error)

# %%
# Why one release
# ---------------
# Noise over sensitivity that a total of epsilon = 1 needs, by the number of releases. A protocol that sends
# two messages in each of 200 rounds needs twenty times the noise of one that sends one message once.
releases = np.array([1, 2, 10, 50, 100, 400])
noise = [gaussian_noise_multiplier(1.0, 1e-6, int(k)) for k in releases]
_, ax = plt.subplots(figsize=(5, 3.5), layout="constrained")
ax.loglog(releases, noise, "o-")
ax.set(
    xlabel="releases",
    ylabel="noise / sensitivity",
    title="total epsilon = 1, delta = 1e-6",
)
plt.show()

# %%
# Too little budget is said before it is spent.
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    weak = GaussianMechanism(epsilon=0.1, delta=1e-6, clip_norm=25.0)
    weak.release({"boiler": X["boiler"]}, lengths=(5000,))
print(caught[0].message)

# %%
# Watching under privacy
# ----------------------
# A detector pays for the record it learns from and, since watched rows are other time steps, for every period
# once. Its thresholds are those of noised records: noise alone raises no more alarms than were asked for.
shift = {"unit": "boiler", "at": 4800, "size": 3.0}
Y, _ = make_granger_plant(4, **settings, level_shift=shift, random_state=2)
nominal, today = (
    {name: part[rows] for name, part in Y.items()}
    for rows in (slice(4600), slice(4600, None))
)
account = PrivacyAccountant(epsilon=8.0, delta=1e-6)
mechanism = GaussianMechanism(epsilon=8.0, accountant=account, **bounds)
detector = FederatedRCADetector(privacy=mechanism, false_alarm_rate=1e-3).fit(
    nominal
)
account.new_period()
print(
    detector.incidents(today)[["start", "detected", "root", "probability"]]
    .round(2)
    .to_string(index=False)
)
print(
    f"the shift began at row 200; epsilon = {account.spent().epsilon:.3g} per period"
)
