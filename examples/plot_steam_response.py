"""
What one more unit of an input does
===================================

The record of a steam generator, a standard one of the system identification
literature: fuel, air and feed water are its inputs. The picture is the answer
of a measurement to a step of an input, its gain and its phase, with bands.
The record is yours: put ``steamgen.csv.gz`` in a folder ``sysid`` and set
``SKFEDCAUSAL_DATA`` to the folder above. Without it a simulated plant takes
its place.

What this example does not show: inputs that follow the measurements. Of those
``excitation_`` warns.
"""

# %%
import os
from pathlib import Path

from skfedcausal import FederatedCounterfactualEstimator
from skfedcausal.datasets import load_sysid, make_granger_plant
from skfedcausal.displays import ResponseDisplay

folder = Path(os.environ.get("SKFEDCAUSAL_DATA", ".")) / "sysid"
if folder.is_dir():
    record = load_sysid(folder, "steamgen")
    X, inputs = record.data, record.inputs
else:
    print(f"There is no {folder.resolve()}: simulated plant instead.")
    X, _ = make_granger_plant(2, n_inputs=1, container="frame", random_state=0)
    inputs = [name for name in X if name.split("__")[1].startswith("u")]

# %%
estimator = FederatedCounterfactualEstimator(input_columns=inputs).fit(X)
print(estimator.excitation_)

# %%
# The input that moves most on its own, and the first tag of its unit.
output = next(name for name in X if name not in inputs)
ResponseDisplay.from_estimator(estimator, inputs[0], output)
