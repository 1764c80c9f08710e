"""What all tests share: draws without a seed that repeat, and which examples can run here."""

import importlib.util
import os
import random
import secrets
import sys

import pytest

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


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Seeds it by the name of a fixture that several tests share, whichever of them comes first."""
    if fixturedef.scope != "function":
        _seed(f"{fixturedef.baseid}::{fixturedef.argname}")
    return (yield)


if importlib.util.find_spec("nvflare") is None:  # an optional extra
    collect_ignore = ["skfedcausal/engines/nvflare.py"]


def pytest_collection_modifyitems(items):
    """Skip examples that read a public record where there is none."""
    if "SKFEDCAUSAL_DATA" in os.environ:
        return
    skip = pytest.mark.skip(reason="SKFEDCAUSAL_DATA is not set: no folder with public records to read")
    for item in items:
        if isinstance(item, pytest.DoctestItem) and any(
            "SKFEDCAUSAL_DATA" in example.source for example in item.dtest.examples
        ):
            item.add_marker(skip)
