"""
What is wrong with a record, before anything is learned
=======================================================

Half a year of a water network, as it comes: pumps that stand still, tags that
store changes only, values at a limit. The check says which of it has to be
fixed first; the picture shows what it means. The record is yours: put
``train_attacks.csv.gz`` and its tables of BATADAL in a folder ``batadal`` and
set ``SKFEDCAUSAL_DATA`` to the folder above. Without it a simulated export
with the usual defects takes its place.

What this example does not show: that a finding is a defect. A pump that
stands still reads zero as well.
"""

# %%
import os
from pathlib import Path

import pandas as pd

from skfedcausal import check_plant
from skfedcausal.datasets import load_batadal, make_fault_plant
from skfedcausal.displays import TrendDisplay

folder = Path(os.environ.get("SKFEDCAUSAL_DATA", ".")) / "batadal"
if folder.is_dir():
    X = load_batadal(folder, "train_attacks").data
else:
    print(f"There is no {folder.resolve()}: simulated plant instead.")
    units = make_fault_plant(fault="sensor freeze", random_state=0).data
    X = pd.concat(
        [
            pd.DataFrame(Y).add_prefix(f"{name}__x")
            for name, Y in units.items()
        ],
        axis=1,
    )

# %%
check = check_plant(X)
print(check)

# %%
# Three weeks of the tags with the first findings.
found = [name for name in check.findings["column"] if name]
columns = list(dict.fromkeys(found or X.columns))[:4]
TrendDisplay.from_record(X[:504], columns=columns)
