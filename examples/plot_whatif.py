"""
The same record with another valve position
===========================================

The record is replayed with an input of one unit lowered; the same disturbances drive the plant again. What
this does not show: inputs outside the range that was seen, of which a warning tells.
"""

# %%
import pandas as pd

from skfedcausal import FederatedCounterfactualEstimator
from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import EffectDisplay

X, truth = make_granger_plant(
    2,
    names=["boiler", "turbine"],
    n_inputs=1,
    input_links=[(0, 1)],
    input_strength=0.8,
    n_samples=3000,
    container="frame",
    random_state=0,
)
X.index = pd.date_range("2026-03-01", periods=len(X), freq="10s")
estimator = FederatedCounterfactualEstimator(
    input_columns=["boiler__u0", "turbine__u0"]
).fit(X)

# %%
# Half an hour in which the boiler's input never rises above its mean.
hour = X["2026-03-01 04:00":"2026-03-01 04:29"]
answer = estimator.whatif(hour, {"boiler__u0": lambda u: u.clip(upper=0.0)})
EffectDisplay.from_whatif(
    answer, columns=["boiler__s0", "turbine__s0", "turbine__s1", "turbine__s2"]
)

# %%
# The effect of a step of one, from one to fifteen time steps later.
effect, std = estimator.counterfactual(
    "boiler", 0.0, 1.0, horizon=15, return_std=True
)
EffectDisplay.from_effect(
    effect,
    std,
    columns=["boiler__s0", "turbine__s0", "turbine__s1", "turbine__s2"],
)
