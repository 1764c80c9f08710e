"""What all tests share: draws without a seed that repeat, the lanes, and which examples can run here."""

import contextlib
import importlib.util
import os
import random
import secrets
import sys
import time

import pytest

from tests.parts import part_of

os.environ.setdefault("MPLBACKEND", "Agg")
if "PYTEST_XDIST_WORKER" in os.environ:  # workers share the processors: before numpy is imported, one thread each
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

# Privacy noise comes from the operating system, and a regressor without a random_state from numpy's global
# generator. In tests both draw from one generator, seeded by the name of the test: a test that passes once
# passes always, alone or after others.
_numbers = random.Random(0)
secrets.randbits = _numbers.getrandbits


def _seed(name):
    _numbers.seed(name)
    np.random.seed(_numbers.getrandbits(32))  # noqa: NPY002  what is seeded asks for the global generator


@pytest.fixture(autouse=True)
def same_draws_in_every_run(request):
    """Seeds what is drawn without a seed, by the name of the test; closes the pictures it leaves."""
    _seed(request.node.nodeid)
    yield
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close("all")


@pytest.fixture(autouse=True)
def pages_for_desks(request, monkeypatch):
    """Pages have their pictures once; a second time, for telephones, in tests of reports: that takes half of a page."""
    page = sys.modules.get("skfedcausal.reports.page")
    if page is not None and "reports" not in request.path.parts:
        monkeypatch.setattr(page, "_LETTERS", float("inf"))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Seeds it by the name of a fixture that several tests share, whichever of them comes first."""
    if fixturedef.scope == "function":
        return (yield)
    _seed(f"{fixturedef.baseid}::{fixturedef.argname}")
    with _clock.of_several_tests():
        return (yield)


# --- lanes ------------------------------------------------------------------------------------------

# A test that takes more than 0.2 seconds of processor time is marked medium, a long simulation slow. Examples in
# docstrings and pages have no place for a mark: these files have such ones.
MEDIUM_EXAMPLES = {
    "docs/cannot_tell.rst",
    "docs/data.rst",
    "docs/first_steps.rst",
    "docs/leaves.rst",
    "docs/nonlinear.rst",
    "docs/parts.rst",
    "docs/privacy.rst",
    "docs/protection.rst",
    "docs/read_incident.rst",
    "docs/read_link.rst",
    "docs/read_whatif.rst",
    "docs/reports.rst",
    "docs/scale.rst",
    "docs/validity.rst",
    "docs/year.rst",
    "skfedcausal/client/extended_kalman.py",
    "skfedcausal/datasets/_records.py",
    "skfedcausal/datasets/_exports.py",
    "skfedcausal/displays/effects.py",
    "skfedcausal/displays/incidents.py",
    "skfedcausal/displays/links.py",
    "skfedcausal/estimators/_questions.py",
    "skfedcausal/estimators/_watching.py",
    "skfedcausal/estimators/detector.py",
    "skfedcausal/inspection/watching.py",
    "skfedcausal/inspection/moves.py",
    "skfedcausal/inspection/federation.py",
    "skfedcausal/inspection/links.py",
    "skfedcausal/inspection/responses.py",
    "skfedcausal/papers/server/regressor.py",
    "skfedcausal/testing/server_side.py",
}  # fmt: skip
MOST = 1.0  # seconds that a test without a mark may take in a check: clocks of busy machines are off by a few times


class Clock:
    """Seconds of processor time of this process and of those that it waited for, less what several tests share."""

    def __init__(self):
        self._shared = 0.0

    @staticmethod
    def _spent():
        times = os.times()
        return time.process_time() + times.children_user + times.children_system

    def now(self):
        """What was spent on single tests so far."""
        return self._spent() - self._shared

    @contextlib.contextmanager
    def of_several_tests(self):
        """What is spent inside counts for no single test."""
        before = self.now()
        yield
        self._shared = self._spent() - before


_clock = Clock()


def pytest_addoption(parser):
    """The check that keeps the quick lane quick, and a way to run a lane in turns."""
    parser.addoption("--lane-check", action="store_true", help=f"fail unmarked tests that take more than {MOST} s")
    parser.addoption("--part", help="K/N: run every N-th of the tests, from the K-th on")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Note when a test begins: what it sets up for itself counts."""
    item.begun = _clock.now()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test that belongs to a slower lane."""
    value = yield
    spent = _clock.now() - item.begun
    if item.config.getoption("lane_check") and not is_marked(item) and spent > MOST:
        pytest.fail(f"It took {spent:.1f} s of processor time: mark it medium, or make it cheaper.", pytrace=False)
    return value


def is_marked(item):
    """Whether a test is in the medium or in the slow lane."""
    return any(item.get_closest_marker(name) for name in ("medium", "slow"))


# --- examples ---------------------------------------------------------------------------------------

if importlib.util.find_spec("nvflare") is None:  # an optional extra
    collect_ignore = ["skfedcausal/engines/nvflare.py"]


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    """Mark examples before tests are chosen by their marks; leave out all but a part of those that are, if asked to."""
    mark_examples(config, items)
    value = yield
    chosen = part_of(items, config.getoption("part"))
    if len(chosen) < len(items):
        taken = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in taken])
        items[:] = chosen
    return value


def mark_examples(config, items):
    """Mark those that take long, and skip those that read a public record where there is none."""
    skip = pytest.mark.skip(reason="SKFEDCAUSAL_DATA is not set: no folder with public records to read")
    for item in items:
        if not isinstance(item, pytest.DoctestItem):
            continue
        if item.path.relative_to(config.rootpath).as_posix() in MEDIUM_EXAMPLES:
            item.add_marker(pytest.mark.medium)
        if "SKFEDCAUSAL_DATA" not in os.environ and any(
            "SKFEDCAUSAL_DATA" in example.source for example in item.dtest.examples
        ):
            item.add_marker(skip)
