"""
From exports to a table that can be trusted
===========================================

Three units export their tags in three forms, over the night in which clocks are put back. One clock is off,
one tag froze, one was compressed. What this does not show: a dead time of several steps between two units,
which looks like a clock that is off.
"""

# %%
# A simulated plant writes the exports; with your own, give their paths.
import tempfile

import matplotlib.pyplot as plt
import pandas as pd

from skfedcausal import check_plant, read_historian
from skfedcausal.datasets import make_historian_exports

exports, truth = make_historian_exports(tempfile.mkdtemp(), random_state=0)
for unit, path in exports.items():
    print(unit, path.name, path.read_text(encoding="utf-8").splitlines()[1])

# %%
# One table on one clock. The hour from 02:00 to 03:00 is there twice, each time with its own offset.
X = read_historian(exports, tz="Europe/Berlin", every="10s")
row = X.index.searchsorted(pd.Timestamp("2025-10-26 02:59:40+02:00"))
print(X.iloc[row : row + 4, :2])

# %%
# What is wrong with it, by unit and by tag.
report = check_plant(X)
print(report)
report.findings[["unit", "column", "kind", "detail"]]

# %%
# The frozen tag, and the compressed one: straight lines between archived points.
figure, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3), layout="constrained"
)
frozen = report.findings.query("kind == 'stuck'").iloc[0]
left.plot(X[frozen["column"]].to_numpy(), linewidth=0.6)
left.set_title(f"{frozen['column']}: {frozen['detail']}", fontsize="medium")
right.plot(X[truth["interpolated"]].to_numpy()[:60], ".-")
right.set_title(truth["interpolated"], fontsize="medium")
for ax in (left, right):
    ax.set_xlabel("row")

# %%
# With the clock corrected and the two tags left out nothing is found any more but short outages.
X = read_historian(
    exports, tz="Europe/Berlin", every="10s", clock={"P2": "-60s"}
)
print(check_plant(X.drop(columns=[truth["stuck"], truth["interpolated"]])))
