"""
The papers' training, and what it can learn
===========================================

Federated gradient training lowers its losses a little, and ends. Whether it finds the links depends on the data: on a
stationary record its fixed point is close to zero, while maximum likelihood from the same kind of messages
finds the blocks. What this does not show: records with a persistent level shift, where the training does
find the gain; see the guide.
"""

# %%
import numpy as np

from skfedcausal import FederatedGrangerEstimator, GradientServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import LossDisplay
from skfedcausal.papers import StopRule

X, truth = make_granger_plant(
    2, links=[(0, 1)], link_strength=0.5, n_samples=4000, random_state=0
)
trained = FederatedGrangerEstimator(
    server=GradientServer(stop=StopRule(max_iter=1000, tol=1e-5))
).fit(X)
LossDisplay.from_estimator(trained, relative=True)

# %%
# Strength of the one true link by both.
learned = FederatedGrangerEstimator().fit(X)
for name, estimator in (
    ("gradient training", trained),
    ("maximum likelihood", learned),
):
    links = estimator.links_.set_index(["cause", "effect"])
    print(
        f"{name:20} {np.round(links.loc[('unit0', 'unit1'), 'strength'], 3)}"
    )
