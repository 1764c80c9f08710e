"""
What a wrong clock does to links
================================

The boiler drives the turbine one step later. If the turbine's clock is slow by a few steps, the effect
seems to come before its cause. What this does not show: offsets of one or two steps, which the check cannot
tell from couplings.
"""

# %%
# A plant with one link, and the same record with a clock that is eight steps slow.
import matplotlib.pyplot as plt

from skfedcausal import FederatedGrangerEstimator, check_plant
from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import LinkMatrixDisplay

X, truth = make_granger_plant(
    3,
    names=["boiler", "turbine", "water"],
    links=[("boiler", "turbine"), ("turbine", "water")],
    link_strength=0.4,
    n_samples=3000,
    container="frame",
    random_state=1,
)
turbine = X.filter(like="turbine").columns
wrong = X.copy()
wrong[turbine] = X[turbine].shift(-8)
wrong = wrong[:-8]

# %%
# The links of both.
figure, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
for ax, record, title in (
    (axes[0], X, "clocks agree"),
    (axes[1], wrong, "turbine 8 steps slow"),
):
    LinkMatrixDisplay.from_estimator(
        FederatedGrangerEstimator().fit(record), ax=ax, title=title
    )

# %%
# The check says so before the fit.
print(
    check_plant(wrong)
    .findings[["unit", "kind", "detail"]]
    .to_string(index=False)
)
