"""Exports of plant historians as one table on one clock."""

from .read import read_historian
from .table import PlantTable

__all__ = ["PlantTable", "read_historian"]
