"""
Where faults of a chemical plant began
======================================

One detector of the Tennessee Eastman process, and faults whose root is known:
the picture has a row for each fault and says what each unit is thought to
have to do with it. The record is yours: put ``tep.npz`` and its tables in a
folder ``tep`` and set ``SKFEDCAUSAL_DATA`` to the folder above. Without it
faults of a simulated plant take their place.

What this example does not show: faults without a single known root, which are
left out.
"""

# %%
import os
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt

from skfedcausal import FederatedRCADetector
from skfedcausal.datasets import load_tep, make_fault_plant

folder = Path(os.environ.get("SKFEDCAUSAL_DATA", ".")) / "tep"
if folder.is_dir():
    nominal = load_tep(folder, "d00").data
    names = ("d01", "d04", "d06", "d07", "d12")
    records = {name: load_tep(folder, f"{name}_te") for name in names}
else:
    print(f"There is no {folder.resolve()}: simulated plant instead.")
    nominal = make_fault_plant(n_samples=4000, random_state=0).data
    kinds = ("step", "large step", "sensor bias", "ramp", "stuck valve")
    records = {
        kind: make_fault_plant(fault=kind, random_state=k)
        for k, kind in enumerate(kinds)
    }

# %%
# The first incident after each fault, and the probability of every unit.
detector = FederatedRCADetector(false_alarm_rate=1e-3).fit(nominal)
units = list(detector.client_names_)
belief = np.full((len(records), len(units)), np.nan)
truth = []
for row, record in enumerate(records.values()):
    first = int((record.target != "").argmax())
    truth.append(record.target[first])
    incidents = detector.incidents(record.data)
    later = incidents[incidents["detected"] >= first]
    if len(later):
        ranking = dict(later.iloc[0]["ranking"])
        belief[row] = [ranking.get(name, 0.0) for name in units]

# %%
# Frames are the true roots; grey rows had no incident.
fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
cmap = plt.get_cmap("Blues").with_extremes(bad="0.85")
image = ax.imshow(belief, vmin=0, vmax=1, cmap=cmap, aspect="auto")
for row, unit in enumerate(truth):
    if unit in units:
        ax.add_patch(
            plt.Rectangle(
                (units.index(unit) - 0.48, row - 0.48),
                0.96,
                0.96,
                fill=False,
                edgecolor="#D55E00",
                linewidth=2,
            )
        )
ax.set_xticks(range(len(units)), units)
ax.set_yticks(range(len(records)), list(records))
ax.set(xlabel="unit", ylabel="fault", title="Where it began")
fig.colorbar(image, label="probability")
