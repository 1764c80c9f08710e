"""Links of the documentation lead somewhere, and its words are those of the field."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .words import DOCS

_ROOT = DOCS.parent
_TEXTS = [*sorted(DOCS.glob("*.rst")), _ROOT / "README.md", _ROOT / "CONTRIBUTING.md"]
# Words of our own making, that a reader has to guess; `wanders` is the name of a field of a message.
_NOT_SAID = ("told again", "at home", "stretch of rows", "bytes left", "of undecided kind", "visited", "take it off")
_MARKDOWN = re.compile(r"\]\((?!https?:|#)([^)#]+)")
_PAGE_ROLE = re.compile(r":doc:`(?:[^`<]*<)?/?([\w/]+)>?`")
_LABEL_ROLE = re.compile(r":ref:`(?:[^`<]*<)?([\w ]+)>?`")


def _prose(path):
    """Text with blanks for line breaks, without literals."""
    return re.sub(r"\s+", " ", re.sub(r"``[^`]*``", "", path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", _TEXTS, ids=lambda path: path.name)
def test_no_word_has_to_be_guessed(path):
    found = [words for words in (*_NOT_SAID, "wanders") if re.search(rf"\b{words}\b", _prose(path), re.IGNORECASE)]
    assert found == []


@pytest.mark.parametrize("path", [path for path in _TEXTS if path.suffix == ".md"], ids=lambda path: path.name)
def test_every_file_that_markdown_links_to_is_there(path):
    text = path.read_text(encoding="utf-8")
    assert [link for link in _MARKDOWN.findall(text) if not (path.parent / link).exists()] == []


@pytest.mark.medium
def test_every_page_that_a_docstring_or_a_script_links_to_is_there():
    labels = re.findall(r"^\.\. _([\w ]+):$", "\n".join(path.read_text() for path in DOCS.glob("*.rst")), re.MULTILINE)
    lost = []
    for folder in ("skfedcausal", "examples", "tests", "benchmarks"):
        for path in (_ROOT / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            pages = [page for page in _PAGE_ROLE.findall(text) if not (DOCS / f"{page}.rst").exists()]
            files = [name for name in re.findall(r"\bdocs/\w+\.rst\b", text) if not (_ROOT / name).exists()]
            lost += [(path.name, link) for link in [*pages, *files]]
            lost += [(path.name, label) for label in _LABEL_ROLE.findall(text) if label not in labels]
    assert [each for each in lost if each[0] != Path(__file__).name] == []


def test_every_download_of_a_page_is_there():
    lost = []
    for path in DOCS.glob("*.rst"):
        named = re.findall(r":download:`[^`<]*<([^>`]+)>`", path.read_text(encoding="utf-8"))
        lost += [name for name in named if not (DOCS / name).exists()]
    assert lost == []


@pytest.mark.medium
def test_nothing_is_misspelt():
    pytest.importorskip("codespell_lib", reason="codespell comes with the extra docs")
    command = [sys.executable, "-m", "codespell_lib", "--ignore-words-list", "worstcase", *map(str, _TEXTS)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.stdout + run.stderr == ""
