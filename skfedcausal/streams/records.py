"""Batches as records of a journal, which JSON has, and back."""

import numpy as np
import pandas as pd


def microseconds(index):
    """Times as microseconds since 1970."""
    return index.asi8 if index.unit == "us" else index.as_unit("us").asi8


def as_record(frame):
    """A table without the names of its columns as JSON has it."""
    record = {"values": frame.to_numpy().tolist()}
    if isinstance(frame.index, pd.DatetimeIndex):
        record |= {"times": microseconds(frame.index).tolist(), "zoned": frame.index.tz is not None}
    return record


def as_frame(record, columns):
    """The table of a record, which has these columns."""
    index = None
    if "times" in record:
        index = pd.DatetimeIndex(np.array(record["times"], dtype=np.int64).view("datetime64[us]"))
        index = index.tz_localize("UTC") if record["zoned"] else index
    return pd.DataFrame(record["values"], columns=columns, index=index)
