"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    arrays_probes: int = 64  # rows that tell most columns apart
    arrays_fewest: int = 20  # values that two columns have in common at least
    arrays_equal: float = 0.999  # share of the rows in common: all of a few
    arrays_still: float = 1e-9  # share of its size that a column moves at least, and that one has that is no sum
    arrays_enough: int = 2**14  # rows that tell which columns move
    arrays_fewest_levels: int = 10  # switches and set points are equal by chance

    modes_fewest_rows: int = 10  # of a mode that a level can be learned from
    modes_fewest_per_mode: int = 20  # rows for each mode on average, else a column tells something else

    rows_shuffled: float = 0.05  # share of the steps that go back where rows are in no order
    rows_stacked: float = 0.9  # share of the rows whose time others have, too
    rows_same: float = 0.01  # relative difference of two sampling periods that is jitter
    rows_few_parts: int = 256


TUNING = Tuning()
