"""Commands tell while they work."""

import io
import time

from skfedcausal.commands._shared import ticking


def test_work_that_takes_a_while_is_told_with_what_is_left():
    told = io.StringIO()
    with ticking("learning", at_most=60, every=0.05, to=told):
        time.sleep(0.3)
    lines = told.getvalue().splitlines()
    assert len(lines) >= 2
    assert all(line.startswith("  learning: 0 s, at most ") for line in lines)
    time.sleep(0.1)
    assert told.getvalue().splitlines() == lines  # it ends with the work


def test_nothing_is_told_where_standard_error_is_no_terminal(capfd):
    with ticking("reading", every=0.01):
        time.sleep(0.05)
    assert not capfd.readouterr().err


def test_short_work_is_not_told():
    told = io.StringIO()
    with ticking("reading", to=told):
        pass
    assert not told.getvalue()
