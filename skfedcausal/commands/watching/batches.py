"""Batches as records of the journal, and back."""

import numpy as np
import pandas as pd

from ...streams.clock import microseconds


def as_record(frame):
    """A table as JSON has it; as_frame gives the same table back."""
    timed = isinstance(frame.index, pd.DatetimeIndex)
    record = {"columns": [str(name) for name in frame.columns], "values": frame.to_numpy().tolist()}
    if timed:
        record |= {"times": microseconds(frame.index).tolist(), "zoned": frame.index.tz is not None}
    return record


def as_frame(record):
    """The table of a record."""
    index = None
    if "times" in record:
        index = pd.DatetimeIndex(np.array(record["times"], dtype=np.int64).view("datetime64[us]"))
        index = index.tz_localize("UTC") if record["zoned"] else index
    return pd.DataFrame(record["values"], columns=record["columns"], index=index)
