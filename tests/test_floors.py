"""The oldest versions that may be installed are those that continuous integration installs together."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_floors_of_the_project_are_the_versions_that_are_tried_together():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    floors = dict(one.split(">=") for one in declared)
    lines = [line for line in (ROOT / ".ci" / "floors.txt").read_text().splitlines() if not line.startswith("#")]
    tried = dict(line.split("==") for line in lines)
    assert tried.keys() == floors.keys()
    for name, version in floors.items():
        assert (tried[name] + ".").startswith(version + "."), f"{name} {version} is declared, {tried[name]} is tried"
