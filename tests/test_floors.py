"""The oldest versions that may be installed are those that continuous integration installs together."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def pinned(python):
    """The versions that are tried together under a Python."""
    lines = [line for line in (ROOT / ".ci" / "floors.txt").read_text("utf-8").splitlines() if line[0] != "#"]
    asked = [Requirement(line) for line in lines]
    here = [one for one in asked if one.marker is None or one.marker.evaluate({"python_version": python})]
    assert len({one.name for one in here}) == len(here)
    return {one.name: next(iter(one.specifier)).version for one in here}


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_the_floors_of_the_project_are_the_versions_that_are_tried_together(python):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    floors = {one.name: one.specifier for one in map(Requirement, declared)}
    tried = pinned(python)
    assert tried.keys() == floors.keys()
    for name, allowed in floors.items():
        assert tried[name] in allowed
        if python == "3.11":
            floor = next(one.version for one in allowed if one.operator == ">=")
            assert (tried[name] + ".").startswith(floor + "."), f"{name} {floor} is declared, {tried[name]} is tried"
