"""Containers for plants: many forms in, arrays and column positions out."""

from .arrays import PlantLayout, constant_columns
from .batches import read_batches
from .plant import PlantData, read_plant, stack_clients
from .rows import ClientArrays, check_lengths, episode_starts

__all__ = [
    "ClientArrays", "PlantData", "PlantLayout", "check_lengths", "constant_columns", "episode_starts", "read_batches",
    "read_plant", "stack_clients",
]  # fmt: skip
