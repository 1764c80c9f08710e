"""Fitted estimators as files that a later version reads, without code and without unpickling."""

from .archive import ModelFileError
from .model import load, save

__all__ = ["ModelFileError", "load", "save"]
