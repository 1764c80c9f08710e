"""Lists in the documentation are complete: public names, types that cross the border, tables of results."""

import importlib
import inspect
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent
_MESSAGES = ("states", "watching", "training", "requests", "promise", "secure")


def page(name):
    return (_ROOT / "docs" / f"{name}.rst").read_text(encoding="utf-8")


@pytest.mark.parametrize("module", _MESSAGES)
def test_every_type_that_crosses_the_border_is_on_the_page_of_messages(module):
    module = importlib.import_module(f"skfedcausal.message.{module}")
    own = [kind for name, kind in vars(module).items() if name[0] != "_" and inspect.isclass(kind)]
    crossing = [kind.__name__ for kind in own if kind.__module__ == module.__name__]
    assert crossing
    assert [name for name in crossing if name not in page("messages")] == []


def test_every_table_of_results_is_on_the_page_of_benchmarks():
    results = _ROOT / "benchmarks" / "results"
    tables = [path.relative_to(results).as_posix() for path in results.rglob("*.md")]
    assert tables
    assert [table for table in tables if f"<../benchmarks/results/{table}>" not in page("benchmarks")] == []


@pytest.mark.parametrize(
    "package",
    [
        "", ".datasets", ".displays", ".federation", ".metrics", ".privacy", ".quality", ".containers",
        ".testing", ".secure",
    ],
)  # fmt: skip
def test_every_public_name_is_on_the_page_of_the_api(package):
    public = importlib.import_module(f"skfedcausal{package}").__all__
    listed = {line.strip().rpartition(".")[2] for line in page("api").splitlines()}
    assert [name for name in public if name[0] != "_" and name not in listed] == []
