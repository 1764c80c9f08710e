"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    clock_far: int = 3  # periods after the last row, from which on a row is not believed alone
    clock_reordered: int = 10  # periods between neighbours that came in no order
    clock_ahead: int = 86_400 * 10**6  # microseconds before now that the first row may be ahead
    clock_remembered: int = 5000  # rows that are known again when they come twice
    clock_steps: int = 31  # between rows, whose median is the period
    clock_hole: int = 50  # periods without rows that may be filled late; in longer ones a clock was set
    clock_believed: int = 5  # steps that a period which was given counts as
    clock_jumps: int = 64  # of the source's clock that are remembered

    csv_file_at_once: int = 1 << 22  # bytes that are read in one look
    csv_file_heads: int = 8  # lines of names before the last one that a row may still fit better
    csv_file_mark: int = 64  # bytes before a place in a file by which it is known again

    database_at_once: int = 500  # rows of a look

    mqtt_patience: float = 0.2  # seconds that a row waits for the units that are missing from it
    mqtt_keep_alive: int = 30  # seconds
    mqtt_unsafe: int = 10  # messages without a word to the broker, which sends no more than 20 such as a rule
    mqtt_look: float = 0.05  # seconds between two looks whether rows have waited long enough

    opcua_answer: float = 30.0  # seconds until a server that does not answer is lost: a report may be drawn meanwhile
    opcua_patience: float = 0.5  # seconds that a row waits for values of its time
    opcua_look: float = 0.05  # seconds between two looks at what came
    opcua_queued: int = 10_000  # values of a node that the server keeps between two messages

    sources_batch: int = 100  # rows of a file that are judged at once: an alarm does not wait for more


TUNING = Tuning()
