"""What a team must hold in its head is the core; the rooms beside it can be left out of sight one at a time."""

import ast
from pathlib import Path

import pytest

import skfedcausal
from skfedcausal import beside
from skfedcausal.client import worker

ROOT = Path(skfedcausal.__file__).parent
BESIDE = (
    "commands", "datasets", "displays", "engines", "historian", "inspection", "metrics", "papers", "quality", "reports",
    "saving",
    "secure", "sites", "streams", "testing", "theory",
)  # fmt: skip
PUBLIC = ("__init__.py", "__main__.py")  # the top of the package names everything
MODULES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
FOLDERS = sorted({path.parent for path in (*ROOT.glob("*/__init__.py"), *ROOT.glob("server/*/__init__.py"))})


def rooms_of_imports(name, text):
    """Rooms whose modules a module imports, at the top or inside a function."""
    package = name.split("/")[:-1]
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            paths = [alias.name.split(".") for alias in node.names]
            found |= {path[1] for path in paths if path[0] == "skfedcausal" and len(path) > 1}
        elif isinstance(node, ast.ImportFrom):
            base = node.module.split(".") if node.module else []
            if node.level:
                base = [*package[: len(package) - node.level + 1], *base]
            elif base[:1] == ["skfedcausal"]:
                base = base[1:]
            else:
                continue
            found |= {base[0]} if base else {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import numpy", set()),
        ("import skfedcausal.papers.problems", {"papers"}),
        ("from skfedcausal import papers", {"papers"}),
        ("from skfedcausal.reports.page import Page", {"reports"}),
        ("from ...reports import page", {"reports"}),
        ("from ... import displays", {"displays"}),
        ("from ..plant import reports", {"server"}),
        ("from .reports import page", {"server"}),
        ("def f():\n    from ...quality.home import damage", {"quality"}),
    ],
)
def test_imports_are_read(line, found):
    assert rooms_of_imports("server/links/tests.py", line) == found


def test_the_core_imports_nothing_from_rooms_beside_it():
    core = [name for name in MODULES if name.split("/")[0] not in (*BESIDE, *PUBLIC)]
    assert "server/likelihood.py" in core
    found = {name: rooms_of_imports(name, (ROOT / name).read_text(encoding="utf-8")) & {*BESIDE} for name in core}
    found = {name: ", ".join(sorted(rooms)) for name, rooms in found.items() if rooms}
    assert not found, (
        "Modules of the core import from rooms beside it. What they need belongs to the core, to an object that the "
        "room hands in, or into `skfedcausal.beside`."
    )


def test_every_room_is_core_or_beside_it():
    assert {*BESIDE} < {path.parent.name for path in ROOT.glob("*/__init__.py")}


def test_what_the_core_uses_of_rooms_beside_it_is_there_and_used():
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in MODULES)
    for name, home in beside.HOMES.items():
        assert home.split(".")[0] in BESIDE
        assert callable(beside.beside(name))
        assert f'beside("{name}")' in text.replace(f'>>> beside("{name}")', "")


def test_units_answer_in_the_core_and_in_the_papers_room():
    assert {module.split(".")[0] for module in worker.MODULES} == {"client", "papers"}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(ROOT).as_posix())
def test_a_room_says_what_lives_there_and_what_may_not(folder):
    lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 6
    assert lines[0] == f"# {folder.relative_to(ROOT).as_posix()}"
    assert "Not here" in "".join(lines)
