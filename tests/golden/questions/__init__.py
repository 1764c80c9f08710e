"""Records, fits and questions, in groups that are stored in a file each."""

from functools import cache
from importlib import import_module

GROUPS = (
    "links",
    "lagged",
    "options",
    "units",
    "large",
    "effects",
    "inputs",
    "batches",
    "watching",
    "streams",
    "private",
    "trained",
    "sites",
    "checks",
    "seldom",
)


@cache
def plants_of(group):
    """Plants of a group, in their order."""
    return tuple(import_module(f"{__name__}.{group}").PLANTS)
