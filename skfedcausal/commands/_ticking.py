"""Progress of work that takes a while: how long it has taken, and how long it may still take."""

import sys
import threading
import time
from contextlib import contextmanager

_EVERY = 5.0  # seconds


@contextmanager
def ticking(what, at_most=None, every=_EVERY, to=None):
    """Say on standard error every few seconds that work goes on, and how much of `at_most` seconds is left."""
    begin, done = time.monotonic(), threading.Event()

    def tell():
        while not done.wait(every):
            passed = time.monotonic() - begin
            left = "" if at_most is None else f", at most {max(at_most - passed, 0):.0f} s of work left"
            left = ", finishing" if at_most is not None and passed > at_most else left
            print(f"  {what}: {passed:.0f} s{left}", file=to or sys.stderr, flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
