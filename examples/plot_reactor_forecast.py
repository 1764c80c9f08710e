"""
A stirred reactor, one row ahead
================================

The record of a stirred tank reactor, a standard one of the system
identification literature, in two units: concentration and temperature. The
first two thirds teach the plant, the last third judges it. The record is
yours: put ``cstr.csv.gz`` in a folder ``sysid`` and set ``SKFEDCAUSAL_DATA``
to the folder above. Without it a simulated plant takes its place.

What this example does not show: long forecasts. Each row here is predicted
from the rows before it.
"""

# %%
import os
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from skfedcausal import FederatedCounterfactualEstimator
from skfedcausal.datasets import load_sysid, make_granger_plant

folder = Path(os.environ.get("SKFEDCAUSAL_DATA", ".")) / "sysid"
if folder.is_dir():
    record = load_sysid(folder, "cstr")
    X, inputs = record.data, record.inputs
else:
    print(f"There is no {folder.resolve()}: simulated plant instead.")
    X, _ = make_granger_plant(2, n_inputs=1, container="frame", random_state=0)
    inputs = [name for name in X if name.split("__")[1].startswith("u")]

# %%
cut = 2 * len(X) // 3
estimator = FederatedCounterfactualEstimator(input_columns=inputs)
estimator.fit(X[:cut])
tags = [name for name in X if name not in inputs]
predicted = pd.DataFrame(estimator.predict(X[cut:]), columns=tags)
error = (predicted - X[cut:][tags].to_numpy()).std() / X[tags].std()
print("error in standard deviations of the tag:")
print(error.round(3).to_string())

# %%
# The first tag of each unit, as measured and as predicted one row ahead.
rows = np.arange(cut, cut + 150)
names = {name.split("__")[0]: name for name in reversed(tags)}
fig, axes = plt.subplots(
    len(names), 1, sharex=True, squeeze=False, layout="constrained"
)
for ax, name in zip(axes[:, 0], names.values(), strict=True):
    ax.plot(rows, X[name].to_numpy()[rows], label="measured")
    ax.plot(rows, predicted[name].to_numpy()[: len(rows)], "--", label="ahead")
    ax.set_title(name, loc="left", fontsize="small")
axes[0, 0].legend(frameon=False)
axes[-1, 0].set_xlabel("row")
