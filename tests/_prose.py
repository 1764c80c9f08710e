"""Prose of the documentation, and the measured figures that stand in it.

A measured figure is quoted from a page of results (``:published:``). What is a setting, a level, a definition or
part of an example is an inline literal or mathematics. So once code, literals, mathematics, roles, references and
the names of versions and theorems are taken off, no decimal, percentage, count of cases, ratio, time or size is left.
"""

import re

# Directives whose content is prose. Of all others, and of comments, targets and footnotes, nothing is read.
_OPEN = {
    "admonition", "csv-table", "glossary", "grid", "grid-item", "grid-item-card", "important", "list-table", "note",
    "rubric", "tip", "warning",
}  # fmt: skip
_EXPLICIT = re.compile(r"\.\. (?:([\w:-]+):: ?)?(.*)")
_OPTION = re.compile(r":[\w.-]+:(?: |$)")
_BORDER = re.compile(r"([^\w\s])\1{2}[^\w]*$")
_ITEM = re.compile(r"(?:(?:[*-]|\d+\.|#\.) )+")
_PLACE = r"[A-Z]?\.?\d+(?:\.\d+)*"
_NOT_MEASURED = re.compile(
    "|".join([
        r"``.+?``",
        r":[\w:-]+:`[^`]*`",
        r"`[^`]*`_{0,2}",
        r"!?\[[^]]*\]\([^)]*\)",  # a link in Markdown
        r"https?://\S+",
        r"\b(?:HAI|Python|Version|Scikit-learn|NumPy) \d+(?:\.\d+)+",
        r"\b(?:Section|Sec\.|Theorem|Proposition|Lemma|Corollar|Claim|Equation|Definition|Remark|Assumption|Algorithm"
        rf"|Table|Figure|Chapter)(?:s|y|ies)? \(?{_PLACE}(?:(?:, and |, | and | to ){_PLACE})*",
    ]),
    re.IGNORECASE,
)  # fmt: skip
_WORD = r"(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|hundred|thousand)"
_NUMBER = r"\d+(?:[.,]\d+)*"
_COUNT = rf"(?:{_NUMBER}|{_WORD})"
_FAST = r"(?:as (?:fast|long|slow|cheap)|faster|slower|longer|cheaper)"
_MEASURED = re.compile(
    rf"\b{_COUNT} (?:out )?of (?:the |these |those |all |its |their )?{_COUNT}\b"
    rf"|\b(?:{_COUNT} times|twice) {_FAST}\b"
    rf"|{_NUMBER}(?: ?%| per cent\b|-fold\b| ?times\b|x\b)"
    rf"|{_NUMBER} ?(?:ns|µs|us|ms|s|min|h|[kMGT]i?B|bytes?|nats?|hours?)\b"
    rf"|\b{_COUNT} ?(?:(?:milli|micro|nano)?seconds?|minutes?)\b"
    r"|(?<![\w./])\d+/\d+(?![\w./])"
    r"|\b\d+(?:\.\d+)?e-?\d+\b"
    r"|(?<![\w.])\d*\.\d+(?!\w)",
    re.IGNORECASE,
)


def rst_paragraphs(text):
    """Paragraphs, items and rows of tables of a page in reStructuredText, by the number of their first line."""
    return _joined(_without_blocks(text.splitlines()))


def markdown_paragraphs(text):
    """The same of a page in Markdown."""
    fenced = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
    lines = fenced.sub(lambda block: "\n" * block[0].count("\n"), text).splitlines()
    plain = re.compile(r"`[^`]+`")  # code in a line
    return _joined((k, "" if line.startswith("    ") else plain.sub("_", line)) for k, line in enumerate(lines, 1))


def measured(paragraph):
    """Figures in a paragraph that are no quotations, settings or names of places."""
    cells = re.sub(r"(?<=\S) {2,}(?=\S)", " | ", paragraph)
    return [found[0] for found in _MEASURED.finditer(_NOT_MEASURED.sub(" _ ", cells))]


def _without_blocks(lines):
    """Numbered lines of prose: code, doctests and directives without prose are empty lines."""
    deeper, example = None, False
    for number, line in enumerate(lines, 1):
        bare, indent = line.strip(), len(line) - len(line.lstrip())
        if bare and (deeper is None or indent <= deeper):
            deeper, example = None, example or bare.startswith(">>> ")
        example = example and bool(bare)
        if deeper is not None or example or _OPTION.match(bare) or _BORDER.match(bare):
            bare = ""
        elif explicit := _EXPLICIT.match(bare):
            is_open = explicit[1] in _OPEN
            deeper, bare = None if is_open else indent, explicit[2] if is_open else ""
        elif bare.endswith("::"):
            deeper = indent
        yield number, bare


def _joined(lines):
    found, first = {}, None
    for number, line in lines:
        if not line or _ITEM.match(line):
            first = None
        if line:
            first = first or number
            found[first] = f"{found[first]} {line}" if first in found else line
    return found
