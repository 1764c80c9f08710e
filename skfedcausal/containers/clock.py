"""Times that occur twice: what a clock that was put back leaves in a record."""

import warnings

import pandas as pd

from .episodes import episode_starts


def repeated_stretch(times):
    """First and last of the times that occur twice or lie before an earlier row, None if there are none.

    Parameters
    ----------
    times : DatetimeIndex

    Returns
    -------
    tuple of Timestamp or None

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.containers.clock import repeated_stretch
    >>> local = pd.date_range("2025-10-26", periods=10, freq="30min", tz="Europe/Berlin").tz_localize(None)
    >>> [str(time) for time in repeated_stretch(local)]
    ['2025-10-26 02:00:00', '2025-10-26 02:30:00']
    """
    if times.is_monotonic_increasing and times.is_unique:
        return None
    latest = pd.Series(times).cummax().to_numpy()
    again = times[1:][times[1:] <= latest[:-1]]
    return again.min(), again.max()


def repeated_text(times):
    """Sentence that names the repeated stretch of a record, None if there is none."""
    stretch = repeated_stretch(times)
    if stretch is None:
        return None
    first, last = stretch
    step = pd.Series(times).diff().abs().median()
    day = f"{first.day} {first:%B %Y}"
    if first.date() == last.date():
        return f"{first:%H:%M} to {last + step:%H:%M} occurs twice on {day}."
    return f"Times from {first} to {last} occur twice or go back."


def check_times(index, lengths):
    """Refuse episodes that run backwards and warn of times that repeat or go back inside one."""
    if not isinstance(index, pd.DatetimeIndex):
        return
    for start, length in zip(episode_starts(lengths), lengths, strict=True):
        times = index[start : start + length]
        if times.is_monotonic_decreasing and times[-1] < times[0]:
            raise ValueError(
                f"The rows of X run backwards in time, from {times[0]} to {times[-1]}: what was an effect "
                "would be taken for a cause. Sort them by time."
            )
        text = repeated_text(times)
        if text is not None:
            warnings.warn(
                f"{text} Rows are taken in the order they came; nothing was dropped. Clocks put back in "
                "autumn do this: read exports with read_historian(..., tz=...), or give the index a zone by "
                "tz_localize(..., ambiguous='infer').",
                UserWarning,
                stacklevel=5,
            )
