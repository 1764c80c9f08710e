"""Responses of a plant to its inputs, by least squares over lags with what rows left out say of it.

What an input does over many rows is learned from sums over rows of the units' scores and the inputs. What it says of
held-out segments of the record shows how many lags there are, how much of each effect is real, and how wide bands
have to be.
"""

from .answers import Responses
from .choice import Engine, chosen_engine
from .learning import Record, learned_responses

__all__ = ["Engine", "Record", "Responses", "chosen_engine", "learned_responses"]
