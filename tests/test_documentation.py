"""Lists in the documentation are complete, and no figure stands in it that no page of results has."""

import importlib
import inspect
import re
import tomllib
from pathlib import Path

import pytest

from ._prose import markdown_paragraphs, measured, rst_paragraphs

_ROOT = Path(__file__).parent.parent
_RESULTS = _ROOT / "benchmarks" / "results"
_PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((_ROOT / "docs").glob("*.rst"))}
_README = (_ROOT / "README.md").read_text(encoding="utf-8")
_MESSAGES = ("states", "training", "requests", "secure")


@pytest.mark.parametrize("module", _MESSAGES)
def test_every_type_that_crosses_the_border_is_on_the_page_of_messages(module):
    module = importlib.import_module(f"skfedcausal.message.{module}")
    own = [kind for name, kind in vars(module).items() if name[0] != "_" and inspect.isclass(kind)]
    crossing = [kind.__name__ for kind in own if kind.__module__ == module.__name__]
    assert crossing
    assert [name for name in crossing if name not in _PAGES["messages"]] == []


def test_every_table_of_results_is_on_the_page_of_benchmarks():
    tables = [path.relative_to(_RESULTS).as_posix() for path in _RESULTS.rglob("*.md")]
    assert tables
    assert [table for table in tables if f"<../benchmarks/results/{table}>" not in _PAGES["benchmarks"]] == []


@pytest.mark.parametrize(
    "package",
    [
        "", ".datasets", ".displays", ".federation", ".metrics", ".privacy", ".quality", ".containers",
        ".testing", ".secure", ".inspection",
    ],
)  # fmt: skip
def test_every_public_name_is_on_a_page_of_the_reference(package):
    public = importlib.import_module(f"skfedcausal{package}").__all__
    listed = {line.strip().rpartition(".")[2] for line in (_PAGES["api"] + _PAGES["rooms"]).splitlines()}
    assert [name for name in public if name[0] != "_" and name not in listed] == []


@pytest.mark.parametrize("name", [name for name, text in _PAGES.items() if "published:" in text])
def test_every_published_figure_of_a_page_is_among_the_results(name, monkeypatch):
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(_ROOT / "docs" / "extensions"))
    published = importlib.import_module("published")
    figures = re.findall(r":published:`([^`]*)`", _PAGES[name])
    sections = re.findall(r"\.\. published:: (.*)", _PAGES[name])
    assert figures or sections
    assert all(published.figure(text) for text in figures)
    assert all(published.section_of(*(part.strip() for part in text.split("|"))) for text in sections)


def test_no_measured_figure_of_the_documentation_stands_in_no_page_of_results():
    found = [
        f"docs/{name}.rst, line {line}: {', '.join(figures)}"
        for name, text in _PAGES.items()
        for line, words in rst_paragraphs(text).items()
        if (figures := measured(words))
    ]
    assert found == []


def test_every_measured_figure_of_the_readme_stands_in_a_page_of_results():
    results = "\n".join(path.read_text(encoding="utf-8") for path in _RESULTS.rglob("*.md"))
    figures = [figure for words in markdown_paragraphs(_README).values() for figure in measured(words)]
    assert [f for f in figures if not re.search(rf"(?<![\w.]){re.escape(f)}(?!\.?\d)", results)] == []


@pytest.mark.parametrize(
    ("words", "figures"),
    [
        ("F1 is 0.83 instead of .86, 1e-9 apart.", ["0.83", ".86", "1e-9"]),
        ("It names 11 of 12 roots, none of 40 and three of the four others.", ["11 of 12", "three of the four"]),
        ("**25 %** of pairs, 3 per cent, half.", ["25 %", "3 per cent"]),
        (
            "66 times as long, 2-fold, 3x, three times faster.",
            ["66 times as long", "2-fold", "3x", "three times faster"],
        ),
        ("1.1 s, 40 ms, 4 GiB, 2.3 nats and seven seconds", ["1.1 s", "40 ms", "4 GiB", "2.3 nats", "seven seconds"]),
        ("Level ``0.05``, :math:`A = 0.7 I`, :published:`a | b | 0.5 | F1`, `PyRCA 0.1 <https://a.b/1.2>`__.", []),
        ("Theorem 5.4, Sections 9.2 and 13.2, (Lemma 8.2), Python 3.11, scikit-learn 1.9, one of two, 2000 rows.", []),
    ],
)
def test_what_is_taken_for_a_measured_figure(words, figures):
    assert measured(words) == figures


_SAMPLE = """
A title, 0.1
============

.. _place: 0.2
.. a comment of 0.3

.. code-block:: python

   fit(0.4)

   fit(0.5)

.. list-table:: Errors, 0.6
   :widths: 0.7 0.8

   * - rows that
       wrap: 0.9
     - 1.0

>>> fit(1.1)
1.2

The paragraph ends, 1.3::

    fit(1.4)

===== =====
a     1.5
===== =====

.. [1] A book of 1.6
       pages.

- an item, 1.7
- another, 1.8
"""


def test_which_parts_of_a_page_are_prose():
    found = {line: figures for line, words in rst_paragraphs(_SAMPLE).items() if (figures := measured(words))}
    prose = ["0.1", "0.6", "0.9", "1.0", "1.3", "1.5", "1.7", "1.8"]
    assert [figure for figures in found.values() for figure in figures] == prose
    assert all(figures[0] in "".join(_SAMPLE.splitlines()[line - 1 : line + 1]) for line, figures in found.items())


def test_which_parts_of_a_markdown_page_are_prose():
    text = "It takes 0.1\n\n```bash\nfit 0.2\n```\n\n    fit 0.3\n\n`0.4`, [a 0.5](b/0.6.md), 0.7 and\n0.8 s."
    assert [measured(words) for words in markdown_paragraphs(text).values()] == [["0.1"], ["0.7", "0.8 s"]]


_COMMAND = re.compile(r"python -m (benchmarks(?:\.\w+)?)(?: ([a-z]\w*))?|--tables((?: [a-z]\w*)+)")


def unknown_commands(text):
    """Commands of the benchmarks whose module, group or tables (of the group named last) are not there."""
    known = {}
    for module, group, tables in _COMMAND.findall(text):
        if "." in module:
            there = (_ROOT / f"{module.replace('.', '/')}.py").exists()
        elif module:
            settings = _ROOT / "benchmarks" / group / "settings.toml"
            there = settings.exists()
            known = tomllib.loads(settings.read_text(encoding="utf-8"))["full"] if there else {}
        else:
            there = set(tables.split()) <= set(known)
        if not there:
            yield " ".join(f"{module} {group} {tables}".split())


def test_every_benchmark_that_the_documentation_names_is_there():
    found = {name: list(unknown_commands(text)) for name, text in {**_PAGES, "README": _README}.items()}
    assert {name: commands for name, commands in found.items() if commands} == {}


def test_a_command_that_is_not_there_is_named():
    text = (
        "``python -m benchmarks paper1 --tables table3 table99``, ``--tables losses``, ``python -m benchmarks.sitting``"
    )
    assert list(unknown_commands(text)) == ["table3 table99", "benchmarks.sitting"]
