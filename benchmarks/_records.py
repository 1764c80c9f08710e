"""Recorded plants: where they lie, which are missing, and plants with inputs as the tables of effects use them."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from skfedcausal import FederatedCounterfactualEstimator, InputModel
from skfedcausal.datasets import load_sysid

# Records whose inputs the row that they stand in already shows: a VARX by AIC, learned from the first 70 % of the
# rows to learn from, forecasts the others at least 2 % better in a free run if all inputs may act on their own row.
BEFORE = ("exchanger", "cd_player_arm", "winding", "winding5", "evaporator", "glassfurnace")
# Records of which the library, learned from the same rows, forecasts the others at least 2 % better in a free run
# if inputs may act through a curve.
SPLINE = ("exchanger", "cascaded_tanks", "cstr", "winding5", "steamgen")


def folder_of():
    """Folder of the records."""
    return Path(os.environ.get("SKFEDCAUSAL_DATA", "records"))


def no_records(subfolders):
    """Why none of the records can be read; empty if one of them is there."""
    if any((folder_of() / name).is_dir() for name in subfolders):
        return ""
    return f"none of {', '.join(subfolders)} is in the folder {folder_of()} (SKFEDCAUSAL_DATA)"


@dataclass
class InputRecord:
    """A plant with inputs: the rows to learn from, those to judge by, and what every tool is told of the inputs."""

    name: str
    known: pd.DataFrame
    tail: pd.DataFrame
    inputs: list[str]
    sampled: str = "after"
    basis: str = "linear"

    @property
    def outputs(self):
        """Measurements."""
        return [name for name in self.known if name not in self.inputs]

    @property
    def before(self):
        """Which inputs may act on the row that they stand in."""
        return np.full(len(self.inputs), self.sampled == "before")

    def arrays(self, frame):
        """Measurements and inputs of some rows."""
        return frame[self.outputs].to_numpy(float), frame[self.inputs].to_numpy(float)

    def estimator(self):
        """The library as it comes, told of the inputs' timing and curves."""
        sampled = dict.fromkeys(self.inputs, self.sampled)
        return FederatedCounterfactualEstimator(
            input_columns=self.inputs, sampled=sampled, input_model=InputModel(basis=self.basis)
        )


def read_sysid(name, share):
    """Record of `load_sysid` by name, a first share of its rows apart from the rest.

    "winding5" is winding with the roles that DaISy gives: the measured speeds of the reels are inputs, too.
    """
    record = load_sysid(folder_of() / "sysid", name.removesuffix("5"))
    data, inputs = record.data.astype(float).reset_index(drop=True), list(record.inputs)
    if name == "winding5":
        data = data.rename(columns=lambda c: c.replace("reel2__", "reel1__"))
        data = data[sorted(data, key=lambda c: (c.split("__")[0], "__u_" in c))]
        inputs = [c for c in data if "__u_" in c]
    n_known = int(share * len(data))
    told = "before" if name in BEFORE else "after", "spline" if name in SPLINE else "linear"
    return InputRecord(name, data.iloc[:n_known], data.iloc[n_known:].reset_index(drop=True), inputs, *told)
