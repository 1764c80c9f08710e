"""A limit on the time of a computation whose size somebody else has chosen."""

import time
from contextlib import contextmanager
from contextvars import ContextVar

_END: ContextVar[float | None] = ContextVar("end", default=None)


class TimeUpError(RuntimeError):
    """A computation took longer than it was given."""


@contextmanager
def time_limit(seconds):
    """Let what is computed meanwhile end with a :class:`TimeUpError` after so many seconds; None for no limit."""
    token = _END.set(None if seconds is None else time.monotonic() + seconds)
    try:
        yield
    finally:
        _END.reset(token)


def check_time():
    """End the computation if its time is up; called where a long one comes by again and again."""
    end = _END.get()
    if end is not None and time.monotonic() > end:
        raise TimeUpError("the time that it was given is up")
