"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    events_most: int = 1000  # incidents that are remembered

    live_listed: int = 200  # incidents on the page
    live_shown: int = 240  # rows of a trend
    live_last: int = 3  # batches, of which one has a value of a unit that is not quiet
    live_wide: float = 3.0  # standard deviations of the nominal record that a band is wide to both sides
    live_start: float = 10.0  # seconds
    live_held: float = 1.0
    live_looks: float = 0.05  # seconds that a page waits for another state, and between two looks for one

    loop_kept_every: float = 60.0  # seconds until the state is kept again, where rows came
    loop_room_again: float = 1.0  # seconds until a disk that was full is tried again
    loop_kept_rows: int = 5000  # or rows until then
    loop_quiet: float = 2.0  # periods without a row after which nothing is known of a plant
    loop_arrivals: int = 31  # batches whose distance is the usual one
    loop_told_again: int = 100  # incidents
    loop_seen_ids: int = 5000  # events that are remembered to have been told
    loop_once_in: float = 60.0  # seconds in which a note is said once

    pages_listed: int = 200  # incidents on the page

    settings_shortest: int = 16  # letters of a token
    settings_ports: int = 65_535

    sinks_patience: float = 5.0  # seconds of a call
    sinks_facility: int = 16 * 8  # local use 0


TUNING = Tuning()
