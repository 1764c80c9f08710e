"""
A power plant under other inputs
================================

The record of a power plant from the system identification literature is
replayed with one input held at its first value: what would have been
different, with bands. The record is yours: put ``powerplant.csv.gz`` in a
folder ``sysid`` and set ``SKFEDCAUSAL_DATA`` to the folder above. Without it a
simulated plant takes its place.

What this example does not show: the truth. No record holds what would have
been; only a plant that is run twice does.
"""

# %%
import os
from pathlib import Path

from skfedcausal import FederatedCounterfactualEstimator
from skfedcausal.datasets import load_sysid, make_granger_plant
from skfedcausal.displays import EffectDisplay

folder = Path(os.environ.get("SKFEDCAUSAL_DATA", ".")) / "sysid"
if folder.is_dir():
    record = load_sysid(folder, "powerplant")
    X, inputs = record.data, record.inputs
else:
    print(f"There is no {folder.resolve()}: simulated plant instead.")
    X, _ = make_granger_plant(2, n_inputs=1, container="frame", random_state=0)
    inputs = [name for name in X if name.split("__")[1].startswith("u")]

# %%
estimator = FederatedCounterfactualEstimator(input_columns=inputs).fit(X)

# %%
# Measurements as recorded and as they would have been, the effect, and the
# effect added up.
name = inputs[0]
answer = estimator.whatif(X[:120], {name: lambda u: u.iloc[0] + 0 * u})
print(answer.groupby("column")["verdict"].first().to_string())
EffectDisplay.from_whatif(answer)
