"""Check of a record before anything is fitted to it."""

from .check import check_plant
from .report import PlantCheck

__all__ = ["PlantCheck", "check_plant"]
