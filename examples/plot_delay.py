"""
A link that acts after three samples
====================================

Material needs time from one unit to the next. A test after the fit of one lag says whether the record asks
for more, and a plant of several lags finds the delay. What this does not show: delays that change with the
load.
"""

# %%
# Three units of two states; the first acts on the second three samples, half a minute, later.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skfedcausal import FederatedGrangerEstimator

rng = np.random.default_rng(0)
own, delay = np.array([[0.6, 0.1], [-0.1, 0.6]]), 3
h = np.zeros((4000, 3, 2))
for t in range(delay, len(h)):
    h[t] = h[t - 1] @ own.T + rng.normal(size=(3, 2))
    h[t, 1] += 0.25 * h[t - delay, 0]
times = pd.date_range("2026-01-01", periods=len(h), freq="10s")
X = {
    name: pd.DataFrame(
        states @ rng.normal(size=(2, 6)) + 0.5 * rng.normal(size=(len(h), 6)),
        index=times,
    )
    for name, states in zip(
        ("mixer", "reactor", "boiler"), h.transpose(1, 0, 2), strict=True
    )
}
estimator = FederatedGrangerEstimator().fit(X)

# %%
# One lag was not enough: the channels in which later lags act.
estimator.server_.misfit_.sort_values("p_value").head(4)

# %%
# The delay in samples, the most probable one and the ends of a set that holds 90 % of the probability.
links = estimator.links_.query("verdict == 'influence'")
links[
    [
        "cause",
        "effect",
        "norm",
        "p_adjusted",
        "delay",
        "delay_low",
        "delay_high",
    ]
]

# %%
# What the mixer does to the reactor by lag.
mixer, reactor = (
    estimator.state_slices_["mixer"],
    estimator.state_slices_["reactor"],
)
blocks = estimator.lag_transitions_[:, reactor, mixer]
size = np.linalg.norm(blocks, axis=(1, 2))
figure, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.bar(np.arange(1, len(size) + 1), size)
ax.set(xlabel="lag (samples)", ylabel="norm of the block")

# %%
# The table holds on data that nobody simulated only as far as noise behaves: halves of the record are a check.
found = []
for half in (slice(None, 2000), slice(2000, None)):
    again = FederatedGrangerEstimator().fit(
        {name: frame.iloc[half] for name, frame in X.items()}
    )
    found.append(
        again.links_.query("verdict == 'influence'")[
            ["cause", "effect", "p_adjusted", "delay"]
        ]
    )
pd.concat(found, keys=["first half", "second half"])
