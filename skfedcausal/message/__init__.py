"""The frozen types that cross the border between a unit and the server. Nothing else does."""

from . import requests, training  # noqa: F401, kinds that packets are read as
from .schema import Message, wire
from .states import StateMessage

__all__ = ["Message", "StateMessage", "wire"]
