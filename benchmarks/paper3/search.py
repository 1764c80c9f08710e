"""Table 2 over choices that the paper leaves open: what they do to its numbers."""

import numpy as np

from ._setting import SETTING, both_flags, detection, rca, records, residuals, trained

TITLE = "Third paper, Table 2: what the open choices do to it"
TEXT = SETTING + (
    " Process noise in {process_noise}, sensor noise in {sensor_noise}, dynamics in {dynamics}, plants "
    "{plants}; networks '{network}', {epochs} epochs on {n_train} steps, thresholds at the {percentile}th "
    "percentile, faults at one client. The grid was fixed before it was run."
)
PAPER = {"precision": 0.73, "recall": 0.57, "F1": 0.640, "ARL0": 27.82, "gap": 112.38}
RANGE, CHOICES, CELLS = (
    "The paper's numbers in the range",
    "Framework less pre-trained clients",
    "Every choice",
)
NOTES = {
    RANGE: "Over all choices and plants, with and without a majority of five steps. Covered: some choice "
    "gives a smaller and some a larger number; no single choice need give them all.",
    CHOICES: "The paper has 0.064 in F1 for the server's gradients.",
}


def cell(s, plant):
    """Numbers of the framework and of pre-trained clients on one plant."""
    train, nominal, test = records(s, plant)
    out = {}
    for name, feedback in (("framework", True), ("pre-trained", False)):
        detector = trained(s, train, feedback=feedback, seed=plant)
        quiet, flags = both_flags(residuals(detector, nominal), residuals(detector, test.data), s["percentile"])
        told = detection(quiet[:, :, 1].any(axis=1), flags[:, :, 1].any(axis=1), test.faults)
        out[name] = {"ARL0": told["ARL0"], "gap": told["gap"]}
        for horizon, after in ((1, ""), (5, ", horizon 5")):
            out[name] |= dict(
                zip(
                    (f"{k}{after}" for k in ("precision", "recall", "F1")),
                    rca(flags, test, horizon),
                    strict=True,
                )
            )
    return out


def figures(s):
    """Sections of the page."""
    cells, gains = [], []
    for dynamics in s["dynamics"]:
        for process in s["process_noise"]:
            for sensor in s["sensor_noise"]:
                one = {"dynamics": dynamics, "process_noise": process, "sensor_noise": sensor}
                label = f"{dynamics}, process noise {process}, sensor noise {sensor}"
                found = [cell({**s, **one}, plant) for plant in s["plants"]]
                for name in found[0]:
                    mean = {key: np.mean([told[name][key] for told in found]) for key in found[0][name]}
                    cells.append({"": label, "model": name, **mean})
                gain = [told["framework"]["F1"] - told["pre-trained"]["F1"] for told in found]
                gains.append({"": label, "F1, mean": np.mean(gain), "F1, range": [min(gain), max(gain)]})
    ours = [row for row in cells if row["model"] == "framework"]
    rows = []
    for name, paper in PAPER.items():
        values = [row[key] for row in ours for key in row if key.split(",")[0] == name]
        low, high = min(values), max(values)
        rows.append({"": name, "paper": paper, "least": low, "largest": high, "covered": bool(low <= paper <= high)})
    return {RANGE: rows, CHOICES: gains, CELLS: cells}
