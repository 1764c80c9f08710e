"""Roots by what units notice of the habits of their own columns: constants that change, values that are held."""

import numpy as np

CHANGED, HELD, ALL_HELD = 1, 2, 4  # bits of an event
HOLDING = ("sensor held", "unit held")  # kinds of faults that are there while their unit notices them
LOUD = 2.0  # alarm level over threshold while something is noticed
_SURE = 0.98  # probability that the unit that notices something first is the root
_LATE = 0.3  # the same of a constant that changes after the fault was seen elsewhere
_SOON = 5  # rows after an alarm in which an event still belongs to its beginning
_FADES = 1.0  # per row by which a unit notices something later than the first, in log probability


def event_codes(messages, names, n_samples):
    """What every unit notices in every row as a sum of bits, shape (n_samples, n_units)."""
    codes = np.zeros((n_samples, len(names)), dtype=np.uint8)
    for m, name in enumerate(names):
        events = messages[name].events
        if events is not None:
            codes[:, m] = events @ np.array([CHANGED, HELD, ALL_HELD], dtype=np.uint8)
    return codes


def event_ages(codes, before):
    """For how many rows each unit has been noticing something, shape of `codes`; `before`: (n_units,)."""
    if not codes.any():
        return np.zeros(codes.shape, dtype=int)
    rows = np.arange(1, len(codes) + 1)[:, None]
    quiet = np.maximum.accumulate(np.where(codes > 0, 0, rows), axis=0)
    return np.where(codes > 0, rows - quiet + np.where(quiet == 0, before, 0), 0)


def revised(answer, rows, detected, prior):
    """The answer to an incident given what units notice, the kind that follows and whether anything was noticed.

    Those that notice something first are likely roots, the earlier the more.
    """
    there = rows.events > 0
    if not there.any():
        return answer, ""
    first = np.where(there.any(axis=0), there.argmax(axis=0), len(there))
    begins = int(first.min())
    weights = prior * np.exp(-_FADES * np.minimum(first - begins, 50)) * (first < len(there))
    if not weights.any():
        return answer, ""
    codes = np.bitwise_or.reduce(rows.events[:, first == begins].ravel())
    late = rows.first + begins > detected + _SOON and not codes & (HELD | ALL_HELD)
    sure = _LATE if late else _SURE
    probability = (1 - sure) * answer.probability + sure * weights / weights.sum()
    start = min(answer.start, rows.first + begins) if late else min(rows.first + begins, detected)
    return answer._replace(probability=probability, start=start), "" if late else kind_of(int(codes))


def kind_of(code):
    """Kind of fault that an event tells of."""
    if code & ALL_HELD:
        return "unit held"
    return "sensor held" if code & HELD else "status"
