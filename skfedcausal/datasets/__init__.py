"""Simulated plants with known truth, and readers for public records of real and simulated plants.

The readers take the path of a folder that the user has; nothing is shipped and nothing downloaded.
"""

from ._exports import make_historian_exports, make_messy_export
from ._faults import FAULT_KINDS, make_fault_plant
from ._nonlinear import make_nonlinear_plant
from ._plants import LevelShift, PlantTruth, make_granger_plant
from ._records import load_batadal, load_causrca, load_skab, load_sysid, load_tep
from ._testbeds import (
    cross_client_columns,
    discrete_columns,
    load_hai,
    load_swat,
    prepare_hai,
    prepare_records,
    prepare_swat,
)

__all__ = [
    "FAULT_KINDS", "LevelShift", "PlantTruth", "cross_client_columns", "discrete_columns", "load_batadal",
    "load_causrca", "load_hai", "load_skab", "load_swat", "load_sysid", "load_tep", "make_fault_plant",
    "make_granger_plant", "make_historian_exports", "make_messy_export", "make_nonlinear_plant", "prepare_hai",
    "prepare_records", "prepare_swat",
]  # fmt: skip
