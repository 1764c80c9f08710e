"""The package stays within its budget, and what counts it counts rightly."""

import ast

import pytest

from skfedcausal import federation, secure
from skfedcausal.server import engines
from skfedcausal.transfer import TransferFunction
from tests import house

SOURCE = '''"""A module."""

import numpy as np

from . import questions

FEWEST, _MOST = 3, -2 * 5
NAMES = ("a", "b")
SHARE: float = 0.5


class Server:
    """Learns."""

    reach, _gain = questions.reach, 3

    def fit(self, other):  # a comment
        """Fit."""
        self._fitted = other._lagged

        return np._core
'''


def test_code_lines_leave_out_docstrings_comments_and_blanks():
    assert house.code_lines(SOURCE) == 10


def test_habits_are_counted():
    tree = ast.parse(SOURCE)
    counts = [count(tree) for count in (house.constants, house.private_uses, house.attached, house.branches)]
    assert counts == [3, 1, 1, 1]


@pytest.mark.parametrize(
    ("below", "found"),
    [
        ("import p.b", [["p.a", "p.b"]]),
        ("from .b import name", [["p.a", "p.b"]]),
        ("from . import b", [["p.a", "p.b"]]),
        ("if True:\n    from . import b", [["p.a", "p.b"]]),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import b", []),
        ("def f():\n    from . import b", []),
    ],
)
def test_circles_are_of_imports_that_run_at_load(below, found):
    sources = {"p.__init__": "", "p.a": below, "p.b": "from . import c", "p.c": "import p.a"}
    edges = house.imports({name: ast.parse(source) for name, source in sources.items()})
    assert house.circles(edges) == [[*pair, "p.c"] for pair in found]


def test_a_walk_counts_what_a_call_enters():
    assert house.Walk().of(lambda: None) == {"files": 0, "functions": 0, "depth": 0}
    assert house.Walk().of(lambda: dir(house.skfedcausal)) == {"files": 1, "functions": 1, "depth": 1}


def test_what_is_above_the_budget_is_named():
    found = {"code lines": {"all": 12, "server": 3}, "structure": {"modules": 2, "circles": 1}}
    allowed = {"code lines": {"all": 11, "server": 4}, "structure": {"modules": 2}}
    assert house.above(found, allowed) == [
        "code lines: all: 12, budget 11",
        "structure: circles: 1, no budget",
    ]


def test_a_lowered_budget_is_never_higher():
    found, allowed = {"a": {"x": 5, "y": 1, "new": 2}}, {"a": {"x": 4, "y": 3, "gone": 7}}
    assert house.lowered(found, allowed) == {"a": {"x": 4, "y": 1, "new": 2}}


def test_a_written_budget_reads_as_it_was(tmp_path, monkeypatch):
    numbers = {"code lines": {"all": 12}, "walks": {"fit, late links": {"files": 3}}}
    monkeypatch.setattr(house, "BUDGET", tmp_path / "house.toml")
    house.BUDGET.write_text(house.as_toml(numbers))
    assert house.budget() == numbers


def test_estimators_have_sixteen_methods_at_most_and_other_public_classes_twelve():
    counts = house.surface()[0]
    estimators = {name: n for name, n in counts.items() if name.startswith("Federated")}
    assert len(estimators) == 3
    assert {name: n for name, n in estimators.items() if n > 16} == {}
    assert {name: n for name, n in counts.items() if n > 12 and name not in estimators} == {}
    rooms = (
        (engines.EngineServer, engines.PlantServer, TransferFunction),
        vars(federation).values(),
        vars(secure).values(),
    )
    others = {kind for room in rooms for kind in room if isinstance(kind, type) and kind.__module__.startswith("skfed")}
    assert len(others) > 20
    assert {kind.__name__ for kind in others if len(set(house.methods_of(kind))) > 12} == set()


@pytest.mark.medium
def test_the_package_is_within_its_budget():
    assert house.above(house.written(), house.budget()) == []


@pytest.mark.medium
def test_default_fits_walk_within_their_budget():
    assert house.above(house.walks(), house.budget()["walks"], "walks") == []
