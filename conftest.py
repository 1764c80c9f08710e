"""Examples in docstrings and in the user guide: which can run here."""

import importlib.util
import os

import pytest

os.environ.setdefault("MPLBACKEND", "Agg")

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
