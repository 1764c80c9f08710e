"""Public text says what it means in an engineer's words: phrases that readers took for something else do not return.

Public text is every docstring of the package, and every string that may be shown: messages, sentences of reports,
help of commands, examples. Names (parameters, fields on the wire, attributes that model files hold) are not text.
"""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted([*(ROOT / "skfedcausal").rglob("*.py"), *(ROOT / "examples").rglob("*.py")])
TEXTS = sorted(path for kind in ("*.html", "*.toml", "*.md") for path in (ROOT / "skfedcausal").rglob(kind))

# What readers misread -> what says it
UNCLEAR = {
    r"told again": "sent again, reported again",
    r"at home": "locally, by the unit itself",
    r"stretch(?:es)? of rows": "run of rows, segment of the record",
    r"bytes (?:left\b(?! over)|came)": "bytes sent, bytes received",
    r"of undecided kind": "process fault or sensor fault: cannot be distinguished",
    r"visited": "reached, seen",
    r"take (?:it|them) off": "remove, model, detach",
    r"wanders": "drifts",
    r"was noticed": "was detected",
    r"with reserve": "provisional",
    r"cannot be told where": "its origin could not be determined",
}
_UNCLEAR = re.compile("|".join(f"(?:{phrase})" for phrase in UNCLEAR), re.IGNORECASE)
_NAME = re.compile(r"[a-zA-Z_][\w.]*(?: : [^\n]*)?")  # a string that is a name, and a parameter of a docstring
_PARAMETER = re.compile(r"^ *\w+(?:, \w+)* : .*$", re.MULTILINE)


def texts_of(source):
    """Strings of a module that are no names, docstrings among them, as (line, text)."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not _NAME.fullmatch(node.value):
            yield node.lineno, _PARAMETER.sub("", node.value)


def unclear(text):
    """Phrases of a text that readers misread, whatever the line breaks."""
    return [found[0] for found in _UNCLEAR.finditer(re.sub(r"\s+", " ", text))]


def test_no_string_of_the_package_or_its_examples_has_a_phrase_that_readers_misread():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {phrase!r}"
        for path in SOURCES
        for line, text in texts_of(path.read_text("utf-8"))
        for phrase in unclear(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_table_or_note_of_the_package_has_one(path):
    text = path.read_text("utf-8")
    if path.suffix == ".toml":
        text = "\n".join(_strings(tomllib.loads(text)))
    assert not unclear(text)


def _strings(value):
    if isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
    elif isinstance(value, str) and not _NAME.fullmatch(value):
        yield value


def test_phrases_are_found_across_lines_and_names_are_left():
    source = 'def f():\n    """It is told\n    again."""\n    return {"wanders": f"{k} bytes left"}\n'
    assert [phrase for _, text in texts_of(source) for phrase in unclear(text)] == ["told again", "bytes left"]
    assert not unclear("1 bytes left over")
