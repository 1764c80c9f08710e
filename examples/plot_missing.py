"""
Gaps, slow tags and an absent unit
==================================

A value that is missing changes only that step's information; nothing is imputed. The price is time, not
bias. What this does not show: values that are missing because of what they would have been.
"""

# %%
# Complete, with a tenth of the cells missing, and with a unit that is absent for a third of the record.
import matplotlib.pyplot as plt

from skfedcausal import FederatedGrangerEstimator
from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import LinkMatrixDisplay

settings = {
    "n_units": 3,
    "links": [(0, 1), (1, 2)],
    "link_strength": 0.3,
    "n_samples": 1500,
    "random_state": 0,
}
records = {
    "complete": make_granger_plant(**settings)[0],
    "10 % of cells missing": make_granger_plant(**settings, missing=0.1)[0],
    "unit1 absent for a third": make_granger_plant(
        **settings, missing_blocks=[("unit1", 500, 1000)]
    )[0],
}
figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
for ax, (title, X) in zip(axes, records.items(), strict=True):
    display = LinkMatrixDisplay.from_estimator(
        FederatedGrangerEstimator().fit(X), ax=ax, title=title
    )
    display.image_.set_clim(0, 0.5)
