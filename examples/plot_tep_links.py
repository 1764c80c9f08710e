"""
Links of the Tennessee Eastman process
======================================

Five units of a simulated chemical plant in closed loop: which drives which, compared with the material flows
of the flowsheet. The records are yours: give the folder that holds ``tep.npz`` and its tables as the first
argument, or set ``SKFEDCAUSAL_DATA`` to the folder above. Nothing is downloaded; without the records the
example says what it needs and ends.

What this example does not show: that the flowsheet can be recovered. It cannot from this record; see the page
on the Tennessee Eastman record in the user guide.
"""

import os
import sys
from pathlib import Path

from matplotlib import pyplot as plt
from sklearn.preprocessing import StandardScaler

from skfedcausal import FederatedGrangerEstimator
from skfedcausal.datasets import load_tep
from skfedcausal.displays import LinkMatrixDisplay

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
elif "SKFEDCAUSAL_DATA" in os.environ:
    folder = Path(os.environ["SKFEDCAUSAL_DATA"]) / "tep"
else:
    sys.exit(
        "Give the folder with tep.npz: python examples/plot_tep_links.py FOLDER"
    )

# sphinx_gallery_thumbnail_path = "_static/tep.png"
# %%
# Normal operation: d00 to learn from, d00_te to judge by, sensors only, columns standardised on d00.
training, held_out = (
    load_tep(folder, record, inputs="drop") for record in ("d00", "d00_te")
)
scaler = StandardScaler().set_output(transform="pandas").fit(training.data)
X, X_later = scaler.transform(training.data), scaler.transform(held_out.data)
estimator = FederatedGrangerEstimator().fit(X)

# %%
# The coupled plant against the units alone, on the later record
# ---------------------------------------------------------------
alone = sum(
    client.score(X_later.filter(regex=f"^{name}__").to_numpy())
    for name, client in estimator.clients_.items()
)
print(
    f"log-likelihood per time step: coupled {estimator.score(X_later):.2f}, units alone {alone:.2f}"
)

# %%
# Links against material flows
# ----------------------------
links = estimator.links_.copy()
flows = set(
    zip(training.topology["source"], training.topology["target"], strict=True)
)
links["flow"] = [
    pair in flows for pair in zip(links["cause"], links["effect"], strict=True)
]
columns = [
    "cause",
    "effect",
    "norm",
    "stderr",
    "p_adjusted",
    "verdict",
    "flow",
]
print(links.sort_values("p_adjusted")[columns].round(3).to_string(index=False))
found = links["verdict"] == "influence"
print(
    f"{(found & links['flow']).sum()} of {links['flow'].sum()} flows found with {found.sum()} links; as many "
    f"pairs drawn at random contain {found.sum() * links['flow'].mean():.1f}"
)

# %%
# Noise that moves together within a sampling period of 3 minutes has no direction. It is strong here, which
# makes single links unreliable.
print(estimator.server_.correlations_.round(2).to_string(index=False))
print("nearly degenerate, backed by the prior:", estimator.server_.has_prior_)

# %%
LinkMatrixDisplay.from_estimator(
    estimator, title="learned links (● influence)"
)
plt.show()
