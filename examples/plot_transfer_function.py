"""
Poles, zeros and gains of a learned plant
=========================================

A plant with one input per unit. The transfer function does not depend on the choice of the states, so the
learned one can be compared with the true one. What this does not show: inputs that hardly move, whose
effects nobody can learn.
"""

# %%
import numpy as np

from skfedcausal import FederatedCounterfactualEstimator
from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import TransferFunctionDisplay
from skfedcausal.transfer import TransferFunction

X, truth = make_granger_plant(
    2,
    n_inputs=1,
    input_links=[(0, 1)],
    links=[(0, 1)],
    n_samples=4000,
    random_state=0,
)
estimator = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
G = estimator.transfer_function()
TransferFunctionDisplay.from_transfer_function(G)

# %%
# Distance to the truth, relative to its size.
C = np.zeros((G.C.shape[0], len(truth.transition)))
rows = np.split(np.arange(len(C)), 2)
for own, name, loadings in zip(
    rows, truth.names, truth.observation, strict=True
):
    C[own, truth.state_slices[name]] = loadings
true = TransferFunction(
    truth.transition, truth.input, C, G.input_names, G.output_names
)
print(f"{G.distance(true):.1%}")
