"""Containers for plants: many forms in, arrays and column positions out."""

from typing import TYPE_CHECKING

from .arrays import constant_columns
from .clients import ClientArrays
from .layout import PlantLayout
from .plant import PlantData, read_plant, stack_clients
from .rows import check_lengths, episode_starts

if TYPE_CHECKING:
    from .batches import read_batches

__all__ = [
    "ClientArrays",
    "PlantData",
    "PlantLayout",
    "check_lengths",
    "constant_columns",
    "episode_starts",
    "read_batches",
    "read_plant",
    "stack_clients",
]


if not TYPE_CHECKING:  # which would take every name for one that is there

    def __getattr__(name):
        if name == "read_batches":  # for records larger than memory
            from .batches import read_batches

            return read_batches
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
