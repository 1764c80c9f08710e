"""The question what has changed, as estimators ask it: its level, and dates in the words of the record."""

from numbers import Real

import numpy as np
import pandas as pd

from ..containers.rows import sampling_period


def level_of(alpha, false_alarm_rate, n_samples, index):
    """Chance of any false report about a record, from itself or from a budget of reports over time."""
    if false_alarm_rate is None:
        if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0 < float(alpha) < 1:
            raise ValueError(f"Got alpha={alpha!r}; give the chance of any false report, between 0 and 1.")
        return float(alpha)
    from ..server.watching.thresholds import steps_between_alarms  # for watches

    is_number = isinstance(false_alarm_rate, Real) and not isinstance(false_alarm_rate, bool)
    if not (isinstance(false_alarm_rate, str) or (is_number and 0 < float(false_alarm_rate) < 1)):
        raise ValueError(
            f"Got false_alarm_rate={false_alarm_rate!r}; give false reports per row, between 0 and 1, or for instance "
            "'1 per week'."
        )
    return float(-np.expm1(-n_samples / steps_between_alarms(false_alarm_rate, sampling_period(index))))


def dated(table, index):
    """The table with labels of the record's rows for their numbers, where rows have labels."""
    if index is None:
        return table
    known = table["since"].notna()
    labels = pd.Series(index[table.loc[known, "since"].astype(int)], index=table.index[known])
    return table.assign(since=labels.reindex(table.index))


def labelled(table, index):
    """The table with labels of the record's rows for those between which something holds, the last one for its end."""
    if index is None:
        return table
    stops = table["stop"].to_numpy()
    return table.assign(start=index[table["start"].to_numpy()], stop=index[np.minimum(stops, len(index) - 1)])


def settled(table, undecidable):
    """The table in which nothing has changed that noise may hide."""
    if not undecidable:
        return table
    return table.assign(changed=False, verdict="cannot tell", p_value=1.0, p_adjusted=1.0, since=np.nan)
