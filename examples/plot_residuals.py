"""
Client, augmented, server, oracle
=================================

How well each of four models predicts the next measurements: a unit's own filter, the same with its guess of
the others' influence, the server's filter over all messages, and the server of a central machine that has
all raw data. The last two agree. What this does not show: forecasts several steps ahead.
"""

# %%
from skfedcausal import FederatedGrangerEstimator
from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import ResidualDisplay, StateCorrelationDisplay

X, truth = make_granger_plant(
    5, n_samples=3000, link_strength=(0.3, 0.5), random_state=0
)
estimator = FederatedGrangerEstimator().fit(X)
ResidualDisplay.from_estimator(estimator, X)

# %%
# The states behind the predictions, each against all states one step before.
StateCorrelationDisplay.from_estimator(estimator, X)
