"""Times of rows: the sampling period, and whether later rows keep to it."""

import warnings
from numbers import Integral

import numpy as np
import pandas as pd

_SAME = 0.01  # relative difference of two sampling periods that is jitter


def sampling_period(index):
    """Median time between rows as a Timedelta; None without times or with one row."""
    if not isinstance(index, pd.DatetimeIndex) or len(index) < 2:
        return None
    return pd.Timedelta(np.median(np.diff(index.to_numpy())))


def check_sampling(index, period):
    """Refuse rows at another sampling period than in `fit`.

    Parameters
    ----------
    index : pandas.Index or None
    period : Timedelta or None
        Of the nominal record.

    Raises
    ------
    ValueError
    """
    came = sampling_period(index)
    if came is None or period is None:
        return
    if abs(came / period - 1) > _SAME:
        raise ValueError(
            f"X has a row every {came}, the nominal record had one every {period}. Dynamics are learned per "
            "row: resample X, or fit to a nominal record of that sampling."
        )


def warn_of_gaps(index, starts):
    """Warn where rows of an episode are further apart than one sampling period.

    Parameters
    ----------
    index : pandas.Index or None
    starts : sequence of int
        First row of each episode.
    """
    period = sampling_period(index)
    if period is None:
        return
    far = np.array(index[1:] - index[:-1] > 1.5 * period)
    far[[start - 1 for start in starts if start > 0]] = False
    gaps = np.flatnonzero(far)
    if len(gaps):
        more = f" and {len(gaps) - 1} times more" if len(gaps) > 1 else ""
        warnings.warn(
            f"X has no rows between {index[gaps[0]]} and {index[gaps[0] + 1]}{more}; its rows are taken as "
            "one step apart. Give missing rows as NaN, or cut there by `lengths`.",
            UserWarning,
            stacklevel=4,
        )


class StreamTimes:
    """Times of the rows of a stream by their positions, as long as somebody may ask for them.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.containers.sampling import StreamTimes
    >>> times = StreamTimes(n_kept=2)
    >>> for start in ("2026-01-01 00:00", "2026-01-01 00:03"):
    ...     times.extend(pd.date_range(start, periods=3, freq="min"))
    ...     times.keep([1])
    >>> str(times[1]), str(times[5])
    ('2026-01-01 00:01:00', '2026-01-01 00:05:00')
    """

    def __init__(self, n_kept):
        self._n_kept, self._index, self._first, self._held = n_kept, None, 0, {}

    def extend(self, index):
        """Take note of the times of the next rows."""
        self._index = index if self._index is None else self._index.append(index)

    def keep(self, rows):
        """Forget all but the last rows and these."""
        self._held = {row: self[row] for row in rows}
        gone = max(len(self._index) - self._n_kept, 0)
        self._index, self._first = self._index[gone:], self._first + gone

    def __getitem__(self, row):
        return self._held[row] if row < self._first else self._index[row - self._first]


def check_following(index, last, period):
    """Time of the last row of a batch that follows another.

    Parameters
    ----------
    index : pandas.Index or None
        Of the batch.
    last : Timestamp or None
        Time of the last row before it.
    period : Timedelta or None

    Raises
    ------
    ValueError
        If the batch does not come after the rows before it.

    Warns
    -----
    UserWarning
        If rows are missing in between.
    """
    if not isinstance(index, pd.DatetimeIndex) or len(index) == 0:
        return last
    if last is not None and index[0] <= last:
        raise ValueError(
            f"The batch starts at {index[0]}, but the stream has been followed up to {last} already. Give "
            "the rows after that, or reset() for another stream."
        )
    if last is not None and period is not None and index[0] - last > 1.5 * period:
        warnings.warn(
            f"There are no rows between {last} and {index[0]}; the stream goes on as if none had been left "
            "out. Give missing rows as NaN, or reset().",
            UserWarning,
            stacklevel=3,
        )
    return index[-1]


def position(row, index, default=None):
    """Position of a row that is given as a position or a time; `default` for None.

    Raises
    ------
    TypeError
        If it is neither.
    """
    if row is None:
        return default
    if isinstance(row, Integral) and not isinstance(row, bool):
        return int(row)
    if isinstance(index, pd.DatetimeIndex) and not isinstance(row, float):
        return int(index.searchsorted(pd.Timestamp(row)))
    raise TypeError(
        f"Got {row!r} as a row; give a position"
        + (" or a time." if isinstance(index, pd.DatetimeIndex) else "; the record has no times.")
    )
