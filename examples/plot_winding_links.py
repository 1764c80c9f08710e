"""
Three reels of a winding machine
================================

A web runs from reel to reel; the record is a standard one of the system
identification literature. The order of the reels is known, so the matrix of
links can be judged by eye. The record is yours: put ``winding.csv.gz`` in a
folder ``sysid`` and set ``SKFEDCAUSAL_DATA`` to the folder above. Without it a
simulated chain of three units takes its place.

What this example does not show: same-row links. The web is faster than the
time step in part.
"""

# %%
import os
from pathlib import Path

from skfedcausal import FederatedGrangerEstimator
from skfedcausal.datasets import load_sysid, make_granger_plant
from skfedcausal.displays import LinkMatrixDisplay

folder = Path(os.environ.get("SKFEDCAUSAL_DATA", ".")) / "sysid"
if folder.is_dir():
    X = load_sysid(folder, "winding").data
else:
    print(f"There is no {folder.resolve()}: simulated plant instead.")
    X, _ = make_granger_plant(3, links=[(0, 1), (1, 2)], random_state=0)

# %%
estimator = FederatedGrangerEstimator().fit(X)
shown = ["cause", "effect", "verdict", "strength", "because"]
print(estimator.links_[shown].to_string(index=False))

# %%
# Causes are columns, effects rows; the marks are the grades.
LinkMatrixDisplay.from_estimator(estimator)
