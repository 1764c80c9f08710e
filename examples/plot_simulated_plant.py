"""
Links of a simulated plant
==========================

Five units with known links: learn them from one message per unit, compare with the truth, see what a missing
unit and a change of the operating point do.

What this example does not show: real records are nonlinear, controlled and disturbed by what nobody measures.
"""

import numpy as np
from matplotlib import pyplot as plt

from skfedcausal import (
    FederatedGrangerEstimator,
    LikelihoodOptions,
    LikelihoodServer,
    inspection,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import LinkMatrixDisplay

# %%
# A plant with a loop
# -------------------
# boiler, turbine and cooling act on each other in a loop; storage is on its own.
names = ["boiler", "turbine", "cooling", "water", "storage"]
links = [
    ("boiler", "turbine"),
    ("turbine", "cooling"),
    ("cooling", "boiler"),
    ("water", "boiler"),
]
settings = {
    "names": names,
    "links": links,
    "link_strength": 0.2,
    "n_samples": 3000,
    "random_state": 0,
}
X, truth = make_granger_plant(5, **settings)
estimator = FederatedGrangerEstimator().fit(X)
print(
    estimator.links_.sort_values("p_adjusted")
    .head(6)
    .round(3)
    .to_string(index=False)
)

# %%
# Truth and estimate side by side. Dots mark the verdict "influence", question marks "cannot tell". Strengths
# of the truth are in the simulator's states, those of the estimate in standardised states.
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 4), layout="constrained"
)
LinkMatrixDisplay.from_links(truth.links, names, ax=left, title="true links")
LinkMatrixDisplay.from_estimator(estimator, ax=right, title="learned links")
plt.show()

# %%
# What left the units, and what pooling would have changed
# ---------------------------------------------------------
sent = estimator.communication_
print(
    f"{sent['bytes_up']:,} of {sent['raw_bytes']:,} bytes, oracle gap {inspection.oracle_gap(estimator, X):.0e}"
)

# %%
# A change of the operating point
# -------------------------------
# From the middle of the record on, constants act on storage and water. Their common movement would look like
# links. The server looks for such shifts and gives each a term of its own; cutting the record where the
# change is known removes them as well.
shifts = [
    {"unit": name, "size": 3.0, "at": 0.5} for name in ("water", "storage")
]
shifted, _ = make_granger_plant(5, level_shift=shifts, **settings)
real = set(links)
for label, level_shifts, lengths in (
    ("default", "auto", None),
    ("without looking", None, None),
    ("cut at the shift", None, [1500, 1500]),
):
    server = LikelihoodServer(
        options=LikelihoodOptions(level_shifts=level_shifts)
    )
    fitted = FederatedGrangerEstimator(server=server).fit(
        shifted, lengths=lengths
    )
    table = fitted.links_
    found = table[table["verdict"] == "influence"]
    found = set(zip(found["cause"], found["effect"], strict=True))
    print(
        f"{label}: {len(found & real)} of {len(real)} links, extra: {sorted(found - real)}"
    )
    if len(fitted.server_.level_shifts_):
        print(fitted.server_.level_shifts_.round(2).to_string(index=False))

# %%
# The filter of the whole plant predicts better than a unit alone, most of all where the boiler acts.
pooled = np.hstack(list(X.values()))
for model in ("client", "augmented", "server"):
    error = (estimator.predict(X, model=model) - pooled)[1:]
    print(
        f"{model:>9}: root mean square error {np.sqrt(np.mean(error**2)):.4f}"
    )
