"""The record that a unit has watched, batch by batch, and where the unit stands between two of them."""

import hashlib
from dataclasses import dataclass

import numpy as np

from .mapped import release_pages
from .messages import stream_message


@dataclass(frozen=True)
class Batch:
    """Rows of a watched record.

    Attributes
    ----------
    outputs : ndarray of shape (n_samples, n_sensors)
    starts : tuple of int
        First row of each episode. The first goes on where the batch before ended.
    fingerprint : str
        Of the rows, where they could be others when they are read again.
    """

    outputs: np.ndarray
    starts: tuple = (0,)
    fingerprint: str = ""


class Batches:
    """Batches that are in memory.

    Parameters
    ----------
    batches : sequence of Batch

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.client.batches import Batch, Batches
    >>> batches = Batches([Batch(np.zeros((10, 2)))])
    >>> len(batches.batch(1).outputs), batches.batch(2)
    (10, None)
    """

    def __init__(self, batches):
        self._batches = list(batches)

    def batch(self, number):
        """Batch of a number from 1, None where there is none."""
        return self._batches[number - 1] if number <= len(self._batches) else None


@dataclass(frozen=True)
class Place:
    """Where a unit stands in its watched record.

    Attributes
    ----------
    number : int
        Of the batch that it answered last.
    known : object
        What the rows so far left the unit with, see :func:`~skfedcausal.client.messages.stream_message`.
    record : str
        Fingerprint of the batches so far.
    before : Place or None
        Where it stood before that batch, which may be asked for again.
    """

    number: int = 0
    known: object = None
    record: str = ""
    before: object = None


def next_message(client, watched, number, place=None):
    """Message about the next batch, or about the last one again, and where the unit stands after it.

    Parameters
    ----------
    client : object
        The unit's fitted client.
    watched : Batches or similar
    number : int
        Of the batch that is asked for.
    place : Place, default=None

    Returns
    -------
    message : StateMessage or None
        None where the batch is not there yet.
    place : Place

    Raises
    ------
    ValueError
        If another batch is the next one.
    """
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
