"""Links in the plant's own time."""

import pandas as pd

from ..message.clock import Clock

_DELAYS = ("delay", "delay_low", "delay_high")


def row_time(message):
    """Time from row to row that the clock in a message tells, None where it tells none."""
    clock = Clock.of_message(message)
    return None if clock is None else pd.Timedelta(seconds=clock.period)


def in_plant_time(links, period):
    """The table of links with its delays in seconds, too, where rows have times: ``delay_time`` and its interval."""
    if period is None or "delay" not in links:
        return links
    seconds = period.total_seconds()
    return links.assign(**{name.replace("delay", "delay_time"): links[name] * seconds for name in _DELAYS})
