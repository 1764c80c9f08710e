"""
Who drives whom in a water network
==================================

A year of hourly levels, flows and pressures of the BATADAL water network, in
five zones. The record is yours: put ``train_normal.csv.gz`` and its tables in
a folder ``batadal`` and set ``SKFEDCAUSAL_DATA`` to the folder above. Without
it a simulated plant takes its place.

What this example does not show: that grey pairs are linked. They move
together within the hour, and an hourly record cannot say which moves first.
"""

# %%
import os
from pathlib import Path

from skfedcausal import FederatedGrangerEstimator
from skfedcausal.datasets import load_batadal, make_granger_plant
from skfedcausal.displays import LinkGraphDisplay

folder = Path(os.environ.get("SKFEDCAUSAL_DATA", ".")) / "batadal"
if folder.is_dir():
    X = load_batadal(folder).data
else:
    print(f"There is no {folder.resolve()}: simulated plant instead.")
    X, _ = make_granger_plant(5, n_samples=4000, random_state=0)

# %%
# Each pair of zones has a grade: influence, coupled, negligible, cannot tell.
estimator = FederatedGrangerEstimator().fit(X)
links = estimator.links_
print(links["verdict"].value_counts().to_string())

# %%
# Influences are blue, with the share of the effect that they predict.
LinkGraphDisplay.from_estimator(estimator)
