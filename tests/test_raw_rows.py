"""Raw measurements are named where they are read and where the unit works with them, nowhere else."""

import ast
from pathlib import Path

import pytest

import skfedcausal

ROOT = Path(skfedcausal.__file__).parent
ROOMS = ("client", "containers", "papers/client", "papers/problems.py")
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))


def lines_with_raw_rows(text):
    """Lines that name the measurements of a record, as ``record.outputs``."""
    nodes = ast.walk(ast.parse(text))
    return sorted({node.lineno for node in nodes if isinstance(node, ast.Attribute) and node.attr == "outputs"})


@pytest.mark.medium
def test_raw_rows_are_found_where_they_are():
    assert lines_with_raw_rows("a = 1\nb = plant.outputs[0]\nplant.inputs\n") == [2]
    for room in ROOMS:
        assert any(lines_with_raw_rows((ROOT / name).read_text()) for name in MODULES if inside(name, room))


def inside(name, *rooms):
    return any(name == room or name.startswith(f"{room}/") for room in rooms)


@pytest.mark.medium
def test_only_units_and_readers_name_raw_measurements():
    others = [name for name in MODULES if not inside(name, *ROOMS)]
    assert "server/likelihood.py" in others
    found = {name: lines_with_raw_rows((ROOT / name).read_text(encoding="utf-8")) for name in others}
    named = [f"skfedcausal/{name} names `.outputs` in line(s) {lines}." for name, lines in found.items() if lines]
    assert not named, "\n".join(
        [
            *named,
            "Raw measurements belong to the unit: move what needs them into skfedcausal/client (or into a reader in "
            "skfedcausal/containers) and hand on only what it makes of them.",
        ]
    )
