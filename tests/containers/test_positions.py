"""Rows that are given as times."""

import pandas as pd

from skfedcausal.containers.rows import position


def test_a_time_in_records_below_each_other_is_its_first_row_there():
    later, earlier = (pd.date_range(day, periods=5, freq="1min") for day in ("2026-03-02", "2026-03-01"))
    index = later.append(earlier)
    assert position(later[2], index) == 2
    assert position(earlier[3], index) == 8
    assert position(earlier[3], earlier) == 3
