"""The record that a unit has watched, batch by batch, and where the unit stands between two of them."""

import hashlib
from dataclasses import dataclass

import numpy as np

from .answers import stream_message
from .records import release_pages


@dataclass(frozen=True)
class Batch:
    """Rows of a watched record."""

    outputs: np.ndarray
    starts: tuple = (0,)
    fingerprint: str = ""


class Batches:
    """Batches that are in memory."""

    def __init__(self, batches):
        self._batches = list(batches)

    def batch(self, number):
        """Batch of a number from 1, None where there is none."""
        return self._batches[number - 1] if number <= len(self._batches) else None


@dataclass(frozen=True)
class Place:
    """Where a unit stands in its watched record."""

    number: int = 0
    known: object = None
    record: str = ""
    before: object = None


def next_message(client, watched, number, place=None):
    """Message about the next batch, or about the last one again, and where the unit stands after it."""
    place = Place() if place is None else place
    if number == place.number and place.before is not None:
        place = place.before
    if type(number) is not int or number != place.number + 1:
        raise ValueError(f"Batch {number!r} was asked for, and {place.number + 1} is the next one.")
    batch = watched.batch(number)
    if batch is None:
        return None, place
    message, known = stream_message(client, batch.outputs, batch.starts, place.known)
    release_pages(batch.outputs)
    record = hashlib.sha256(f"{place.record} {batch.fingerprint}".encode()).hexdigest()
    return message, Place(number, known, record, Place(place.number, place.known, place.record))
