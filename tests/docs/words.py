"""Words of every page of the documentation, by the part of the site that lists it: ``python -m tests.docs``.

A word is what blanks part in the page's source (``wc -w``): markup, tables and examples count too.
"""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PARTS = ("guide", "background", "results", "reference")
MOST = {"guide": 17_000, "background": 17_000}  # words of a part
LONGEST = {"guide": 950}  # words of a page of it
_TREE = re.compile(r"^\.\. toctree::\n((?:[ \t]+.*\n|\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^ +(?:.*<(?P<named>[\w/-]+)>|(?P<plain>[\w/-]+)) *$", re.MULTILINE)


def listed(part):
    """Pages that a part of the site lists, in its order."""
    text = (DOCS / f"{part}.rst").read_text(encoding="utf-8")
    return [entry["named"] or entry["plain"] for tree in _TREE.findall(text + "\n") for entry in _ENTRY.finditer(tree)]


def words_of(page):
    """Words of a page's source."""
    return len((DOCS / f"{page}.rst").read_text(encoding="utf-8").split())


def counted():
    """Words of every page, by part."""
    return {part: {page: words_of(page) for page in listed(part)} for part in PARTS}


def too_long(counts):
    """What is above its limit, in words."""
    found = []
    for part, pages in counts.items():
        if (total := sum(pages.values())) > MOST.get(part, total):
            found.append(f"{part}: {total} words, {MOST[part]} at most")
        found += [
            f"{part}, {page}: {words} words, {LONGEST[part]} at most"
            for page, words in pages.items()
            if words > LONGEST.get(part, words)
        ]
    return found


def as_text(counts):
    """The list that is printed."""
    lines = []
    for part, pages in counts.items():
        limit = f" of {MOST[part]}" if part in MOST else ""
        lines += [f"{part}: {sum(pages.values())}{limit} words, {len(pages)} pages"]
        lines += [f"  {words:6}  {page}" for page, words in sorted(pages.items(), key=lambda each: -each[1])]
    return "\n".join([*lines, *too_long(counts)])
