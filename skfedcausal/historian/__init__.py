"""Exports of plant historians as one table on one clock."""

from .read import read_historian

__all__ = ["read_historian"]
