"""Where the library stands: one page of the figures that users decide by, and whether they still hold.

``python -m benchmarks.standing`` composes ``results/standing.md`` from the `[[standing]]` entries of all groups: a
question, the table that answers it, our figure, the best other tool's and the limit (each ``SECTION | ROW |
COLUMN``), which is ``better``, and as one likes the other ``tool`` and the ``form`` of the figures.

``--check`` computes the small form of every table again and ends with 1, naming it, where a figure is not as
published, a page is not what its figures give, a figure was written by hand, or the page of standing is another.
What cannot be run here is said, and never holds. ``--part 2/3`` (``today/3``: by date) checks a part of the tables.
"""

import argparse
import time
from datetime import date

from . import _pages

HOLDS = "holds"
INTRO = """\
Ours is what the library does as it comes, the other what the best other tool does on the same records, the limit what \
nobody can pass, by theory or by an oracle that is told what is to be found. The better of the two is bold. Every page \
says how its figures were made; `python -m benchmarks.standing --check` computes a part of each again."""
COLUMNS = ("", "ours", "best other", "limit", "page", "commit")


def entries():
    """Every line to show, with its group."""
    return [{"group": group} | entry for group in _pages.groups() for entry in _pages.read(group).get("standing", [])]


def page():
    """Path of the page of standing."""
    return _pages.RESULTS / "standing.md"


# -- the page -------------------------------------------------------------------------------------------------


def figure(entry, which):
    """The figure that an entry points to; None where it has none."""
    if which not in entry:
        return None
    table = _pages.published(entry["group"]).get(entry["table"], {"sections": {}})
    name = " / ".join([entry["table"], *(part.strip() for part in entry[which].split("|"))])
    found = _pages.flat(entry["table"], table["sections"])
    if name not in found:
        raise KeyError(f"{entry['group']} / {name}: not published, but {which!r} of the line {entry['question']!r}")
    return found[name]


def line(entry):
    """Cells of one line."""
    ours, other, limit = (figure(entry, which) for which in ("ours", "other", "limit"))
    cells = {"": entry["question"]} | dict(
        zip(COLUMNS[1:4], (told(entry, x) for x in (ours, other, limit)), strict=True)
    )
    if ours is not None and other is not None and cells["ours"] != cells["best other"]:
        better = "ours" if (ours > other) == (entry["better"] == "more") else "best other"
        cells[better] = f"**{cells[better]}**"
    if entry.get("tool"):
        cells["best other"] += f" ({entry['tool']})"
    place = _pages.page_of(entry["group"], entry["table"]).relative_to(_pages.RESULTS).as_posix()
    commit = _pages.published(entry["group"])[entry["table"]]["facts"].get("commit", "")
    return cells | {"page": f"[{entry['group']}, {entry['table']}]({place})", "commit": commit}


def told(entry, value):
    """A figure in words."""
    return format(value, entry["form"]) if value is not None and "form" in entry else _pages.text_of(value)


def compose():
    """The page of standing in Markdown."""
    rows = [line(entry) for entry in entries()]
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(row[name] for name in COLUMNS) + " |" for row in rows]
    return "\n\n".join(["# Where the library stands", INTRO, "\n".join(lines)]) + "\n"


# -- whether it holds -----------------------------------------------------------------------------------------


def wrong_at_rest():
    """What needs no computing: pages and figures that do not fit each other, and pages that no table makes."""
    lines = [each for group in _pages.groups() for each in _pages.at_rest(group)]
    made = {page()} | {path for group in _pages.groups() for path in _pages.pages(group)}
    lines += [
        f"{_pages.shown_path(path)}: no table makes it"
        for path in sorted(_pages.RESULTS.rglob("*.md"))
        if path not in made
    ]
    try:
        composed = compose()
    except KeyError as error:
        return [*lines, error.args[0]]
    return lines + _pages.unlike(page(), composed)


def tables():
    """Every table by group and name, and the processor seconds that its small form took; None without one."""
    out = {}
    for group in _pages.groups():
        small, kept = _pages.settings(group, "small"), _pages.published(group, "small")
        for name in _pages.settings(group):
            seconds = kept.get(name, {"facts": {}})["facts"].get("CPU seconds") or 0
            out[group, name] = seconds if name in small else None
    return out


def part_of(found, which):
    """Tables of a part ``K/N``, or ``today/N``, all parts being about as long."""
    k, n = which.split("/")
    n = int(n)
    k = date.today().toordinal() % n if k == "today" else int(k) - 1
    if not 0 <= k < n:
        raise ValueError(f"--part is K/N with K from 1 to N, or today/N. Got {which}.")
    parts, taken = [[] for _ in range(n)], [0.0] * n
    for name, seconds in sorted(found.items(), key=lambda item: -(item[1] or 0)):
        shortest = taken.index(min(taken))
        parts[shortest].append(name)
        taken[shortest] += (seconds or 0) + 0.1  # so that what takes no time is shared out as well
    return sorted(parts[k])


def judge(group, name):
    """Why a table was not run, and lines about its figures that are not as published."""
    if name not in _pages.settings(group, "small"):
        return "it has no small form", []
    try:
        module = _pages.tables_of(group)[name]
        lines, reasons = _pages.recomputed(group, {name: module})
    except Exception as error:  # of one table: the others go on
        return "", [f"{group} / {name}: failed, {type(error).__name__}: {error}"]
    return reasons.get(name, ""), lines


def check(chosen):
    """Compute tables again and print what became of every line; the lines that name what is wrong."""
    wrong = wrong_at_rest()
    for group, name in chosen:
        reason, lines = judge(group, name)
        wrong += lines
        here = f"{group} / {name} / ", _pages.shown_path(_pages.page_of(group, name))
        if lines or any(each.startswith(here) for each in wrong):
            verdict = "does not hold"
        else:
            verdict = f"not run: {reason}" if reason else HOLDS
        questions = [entry["question"] for entry in entries() if (entry["group"], entry["table"]) == (group, name)]
        for question in questions or ["(no line)"]:
            print(f"{group}/{name}: {question}: {verdict}", flush=True)
    return wrong


def main(arguments=None):
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.standing", description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="whether everything holds; 1 if not")
    parser.add_argument("--part", help="with --check: K/N or today/N, a part of the tables")
    parser.add_argument("--tables", nargs="+", metavar="GROUP/TABLE", help="with --check: some of the tables")
    args = parser.parse_args(arguments)
    if not args.check:
        text = compose()
        page().write_text(text, encoding="utf-8")
        print(text)
        return 0
    found, begin = tables(), time.process_time()
    chosen = part_of(found, args.part) if args.part else list(found)
    if args.tables:
        chosen = [tuple(name.split("/")) for name in args.tables]
        if unknown := [name for name, place in zip(args.tables, chosen, strict=True) if place not in found]:
            parser.error(f"there is no table {', '.join(unknown)}, but {', '.join('/'.join(name) for name in found)}")
    wrong = check(chosen)
    print("\n".join(wrong) or "Everything that was run is as published.")
    print(f"{len(chosen)} of {len(found)} tables, {time.process_time() - begin:.0f} s of processor time.", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
