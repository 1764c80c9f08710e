"""Options and commands that the guide names are those that there are."""

import contextlib
import io
import re

import pytest

from skfedcausal.__main__ import main

from .words import DOCS, listed

_ASKED = (
    *(["links"], ["rca"], ["whatif"], ["impact"], ["watch"], ["init"], ["plan"], ["run"], ["serve"], ["verify"]),
    *(["repair"], ["key"], ["flare", "provision"], ["flare", "start"], ["flare", "fit"], ["flare", "stop"]),
)


@pytest.fixture(scope="module")
def options():
    """All options of all commands, and the commands that one help lists."""
    found = set()
    for words in (*_ASKED, []):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            main([*words, "--help"])
        found |= set(re.findall(r"--[a-z][a-z-]*", said.getvalue()))
    return found


@pytest.mark.medium
@pytest.mark.parametrize("page", listed("guide"))
def test_every_option_of_a_page_is_there(page, options):
    text = (DOCS / f"{page}.rst").read_text(encoding="utf-8")
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) - options == set()


@pytest.mark.parametrize("page", listed("guide"))
def test_every_command_of_a_page_is_there(page):
    text = (DOCS / f"{page}.rst").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^ +|``|m )skfedcausal (\w+)", text, re.MULTILINE))
    assert named - {words[0] for words in _ASKED} - {"demo", "import"} == set()
