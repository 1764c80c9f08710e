"""
Another schedule for one unit
=============================

Three units of a simulated plant: learn from messages how the input of one acts on the sensors of the others,
then ask what a record would have looked like under another schedule. The simulator, run again with the same
noise, says how good the answer is.

What this example does not show: real plants are nonlinear and their controllers respond (``loops="react"``).
"""

import numpy as np
from matplotlib import pyplot as plt

from skfedcausal import FederatedCounterfactualEstimator
from skfedcausal.datasets import make_granger_plant

# %%
# A plant with inputs
# -------------------
# The mill's input acts on the mill and on the kiln, the kiln's states on the cooler.
settings = {
    "names": ["mill", "kiln", "cooler"],
    "links": [(0, 1), (1, 2)],
    "link_strength": 0.3,
}
settings |= {
    "n_inputs": [1, 1, 0],
    "input_links": [(0, 1)],
    "input_strength": 1.0,
    "n_samples": 3000,
}
X, truth = make_granger_plant(3, **settings, random_state=1)
estimator = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
print(
    estimator.links_[["cause", "effect", "kind", "norm", "stderr", "verdict"]]
    .round(3)
    .to_string()
)

# %%
# A held change, step by step
# ---------------------------
effect, std = estimator.counterfactual(
    "mill", 0.0, 1.0, horizon=12, return_std=True
)
print(effect[["mill__x0", "kiln__x0", "cooler__x0"]].round(3).head())

# %%
# The record under another schedule
# ---------------------------------
# The mill's input is raised by half in the last fifty rows of a short record.
start = 100
schedule = truth.inputs[0][:150, 0].copy()
schedule[start:] += 0.5
record = {name: Y[:150] for name, Y in X.items()}
inputs = [None if U is None else U[:150] for U in truth.inputs]
table = estimator.whatif(
    record, {"mill__u0": np.clip(schedule, -3, 3)}, inputs=inputs
)
answer = table[table["column"] == "kiln__x0"].set_index("time")

# %%
# The true counterfactual: same noise, other input.
change, h, truly = (
    np.clip(schedule, -3, 3) - inputs[0][:, 0],
    np.zeros(len(truth.transition)),
    [],
)
C, states = truth.clients()["kiln"]["C"], truth.state_slices["kiln"]
for step in change:
    truly.append(C[0] @ h[states])
    h = truth.transition @ h + truth.input[:, 0] * step

figure, axes = plt.subplots(figsize=(8, 3.5), layout="constrained")
axes.fill_between(
    answer.index,
    answer["low"] - answer["factual"],
    answer["high"] - answer["factual"],
    alpha=0.3,
)
axes.plot(answer["effect"], label="effect on the kiln's first sensor")
axes.plot(truly, "k:", label="simulator with the same noise")
axes.set(
    xlabel="row", ylabel="difference to the record", xlim=(start - 10, 150)
)
axes.legend()
plt.show()
