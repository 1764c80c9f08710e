"""What the page for readers of the papers names is there."""

import re
from importlib import import_module

import pytest

import skfedcausal

from .words import DOCS

_ROOMS = (
    *("", ".papers", ".inspection", ".datasets", ".metrics", ".privacy", ".server.watching.incidents", ".message"),
    *(".theory.unified", ".theory.disentanglement", ".theory.training_costs", ".theory.oracle_bounds"),
    *(".theory.root_cause_bounds", ".papers.numerics.descent", ".message.training"),
)
_ASKED = re.compile(r"(?:est|detector)\.(\w+)")
_PAGE = (DOCS / "papers.rst").read_text(encoding="utf-8").split("First paper\n")[1]
_NAMES = sorted({re.split(r"[(\[]", text)[0] for text in re.findall(r"``([^`]+)``", _PAGE)})
NAMES = [name for name in _NAMES if name[-1] != "_" and not name.startswith(("python ", "evidence"))]


def reached(name):
    """Whether a dotted name leads somewhere from a room of the library."""
    for room in _ROOMS:
        thing = import_module(f"skfedcausal{room}")
        for part in name.split("."):
            try:
                thing = getattr(thing, part, None) or import_module(f"{thing.__name__}.{part}")
            except (ModuleNotFoundError, AttributeError):
                break
        else:
            return True
    return False


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_table_is_there(name):
    if asked := _ASKED.match(name):
        kinds = [getattr(skfedcausal, kind) for kind in skfedcausal.__all__ if kind.startswith("Federated")]
        assert any(hasattr(kind, asked[1]) for kind in kinds)
    elif name not in ("gamma", "_"):  # a step size
        assert reached(name)
