"""Published pages: figures made by one file of settings, kept as numbers, compared again and written as pages.

A group of tables is a folder with `settings.toml`: `[plant]` (settings of all tables), `[full.TABLE]` and
`[small.TABLE]` (those of a form; the small form's go over the full form's), `[tolerance]` (relative) and
`[absolute]` by table, ``default`` for the others, where a table in turn may name its columns. With ``one_page =
true`` and a ``title`` the group is one page, otherwise every table is one.

A table is a module of that folder with `TITLE`, `TEXT` and ``figures(settings)``, which gives its sections: lists
of rows, each a dict whose text cells name the row and whose other cells are figures. It may have `NOTES` (a text
by section), `CURVES` (plots of sections) and ``missing(settings)``: why the table cannot be made here. A plot is a
section (or one and how the names of its rows begin), an abscissa, columns and scales: one curve per column over
a column of numbers, or over the names of rows where the abscissa is empty. With no columns every row is a curve
over the columns whose names begin with the abscissa and end with a number.
"""

import argparse
import hashlib
import json
import math
import os
import platform
import re
import runpy
import subprocess
import time
import tomllib
import warnings
from collections import Counter
from datetime import date
from importlib import import_module
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("numpy", "scipy", "scikit-learn", "statsmodels", "pandas")
DIGITS = 6
ROUNDING = 1e-9  # what is zero to rounding on both sides agrees
SEEDS = ("seeds", "records", "plants", "runs")  # settings that say what was drawn


def groups():
    """Names of all groups."""
    return sorted(path.parent.name for path in RESULTS.parent.glob("*/settings.toml"))


def settings(group, form="full"):
    """Settings of every table of a form; the small form's go over the full form's."""
    told = read(group)
    full, small = told["full"], told.get("small", {}) if form == "small" else {}
    names = small if form == "small" else full
    return {name: {**told.get("plant", {}), **full.get(name, {}), **small.get(name, {})} for name in names}


def read(group):
    """The file of settings of a group."""
    return tomllib.loads((RESULTS.parent / group / "settings.toml").read_text(encoding="utf-8"))


def tolerances(group, table):
    """Relative and absolute tolerance of a table by column, ``default`` for the others."""
    told, out = read(group), []
    for kind, usual in (("tolerance", 0.0), ("absolute", ROUNDING)):
        by_table = told.get(kind, {})
        found = by_table.get(table, {})
        found = found if isinstance(found, dict) else {"default": found}
        out.append({"default": by_table.get("default", usual)} | found)
    return tuple(out)


def published(group, form="full"):
    """What was published: a dict of tables, each with its facts, its digests and sections."""
    path = RESULTS / group / f"{form}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def compute(module, options):
    """Sections of a table, figures rounded to the digits that are published."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {name: [_rounded(row) for row in rows] for name, rows in module.figures(options).items()}


def _rounded(value):
    if isinstance(value, dict):
        return {key: _rounded(cell) for key, cell in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(cell) for cell in value]
    if isinstance(value, (str, bool)) or value is None:
        return value
    value = value.item() if hasattr(value, "item") else value
    return value if isinstance(value, (bool, int)) else float(f"{value:.{DIGITS}g}")


def flat(table, sections):
    """Every figure of a table under its name: table, section, row, column."""
    out = {}
    for section, rows in sections.items():
        seen = Counter()
        for row in rows:
            label = label_of(row)
            seen[label] += 1
            label += f" ({seen[label]})" * (seen[label] > 1)  # rows that only numbers tell apart
            for column, cell in row.items():
                if isinstance(cell, str):
                    continue
                for k, value in enumerate(cell if isinstance(cell, list) else [cell]):
                    place = f"{column} [{k}]" if isinstance(cell, list) else column
                    out[" / ".join([table, section, label, place])] = value
    return out


def label_of(row):
    """Name of a row: its text cells."""
    return ", ".join(cell for cell in row.values() if isinstance(cell, str))


def differences(kept, found, relative, absolute=None):
    """Lines that name every figure which is new, gone, or further from the one kept than the tolerances by column."""
    lines = [f"{name}: published, but not made any more" for name in kept if name not in found]
    lines += [f"{name}: made, but not published" for name in found if name not in kept]
    for name in kept:
        if name in found and not close(kept[name], found[name], *_allowed(name, relative, absolute)):
            lines.append(f"{name}: published {kept[name]}, now {found[name]}")
    return lines


def _allowed(name, relative, absolute):
    place = re.sub(r" \[\d+\]$", "", name)
    return [_of_column(told, place) for told in (relative, absolute or {"default": ROUNDING})]


def _of_column(told, place):
    """What is told of the column that a place ends with; names of columns may have a stroke in them."""
    return next((value for column, value in told.items() if place.endswith(f" / {column}")), told["default"])


def close(a, b, relative, absolute=ROUNDING):
    """Whether two figures agree."""
    if a is None or b is None or isinstance(a, bool):
        return a == b
    return math.isclose(a, b, rel_tol=relative, abs_tol=absolute) or (math.isnan(a) and math.isnan(b))


# -- what was published, as it was computed -------------------------------------------------------------------


def digests(name, sections):
    """Four digits for every figure by section: a figure or a name that is written by hand does not fit its own."""
    out = {}
    for section, rows in sections.items():
        told = flat(name, {section: rows}).items()
        out[section] = " ".join(hashlib.sha256(f"{key} {value}".encode()).hexdigest()[:4] for key, value in told)
    return out


def edited(group):
    """Lines that name every published figure which is not the one that was computed."""
    lines = []
    for form in ("full", "small"):
        for name, told in published(group, form).items():
            kept, now = told.get("digests", {}), digests(name, told["sections"])
            for section in dict.fromkeys([*kept, *now]):
                names = flat(name, {section: told["sections"].get(section, [])})
                given, fitting = (one.get(section, "").split() for one in (kept, now))
                changed = [n for n, a, b in zip_longest(names, given, fitting) if a != b]
                changed = [n or f"{name} / {section} / a figure that is gone" for n in changed]
                lines += [f"{group} / {n}: not what was computed ({form}.json)" for n in changed]
    return lines


def shared_differences(group, modules=None):
    """Figures of the two forms that have the same name and the same settings, but not the same value."""
    full, small, lines = published(group), published(group, "small"), []
    both = settings(group), settings(group, "small")
    for name in modules or small:
        if name in full and name in small and both[0].get(name) == both[1].get(name):
            kept, found = (flat(name, form[name]["sections"]) for form in (full, small))
            lines += [f"{group} / {line}" for line in differences(kept, found, *tolerances(group, name))]
    return lines


# -- pages ----------------------------------------------------------------------------------------------------


def text_of(value):
    """A cell of a page."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, list):
        return " ".join(text_of(cell) for cell in value)
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def page(module, told, options, shared=None, pictures=""):
    """A table in Markdown: a page of its own or, with the facts that are `shared`, a part of one."""
    own, level = _header(told, options, shared), "#" if shared is None else "##"
    parts = [f"{level} {module.TITLE}", *([own] if own else []), module.TEXT.format_map(options)]
    if options.get("form") == "small":
        parts.append("The small form, with the settings that continuous integration runs.")
    for section, rows in told["sections"].items():
        columns = list(dict.fromkeys(key for row in rows for key in row))
        lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        lines += ["| " + " | ".join(text_of(row.get(name)) for name in columns) + " |" for row in rows]
        note = getattr(module, "NOTES", {}).get(section)
        parts += [f"{level}# {section}", *([note] if note else []), "\n".join(lines)]
    if options.get("form") == "full":
        parts += [f"![{name}]({pictures}{name}.png)" for name in getattr(module, "CURVES", {})]
    return "\n\n".join(parts) + "\n"


def _header(told, options, shared):
    """Facts under which a table was made, without those that its page told already."""
    drawn = "; ".join(f"{name} {_listed(options[name])}" for name in SEEDS if name in options)
    found = told["facts"] | ({"seeds": drawn} if drawn else {})
    return "\n".join(f"- {key}: {value}" for key, value in found.items() if key not in (shared or {}))


def _listed(value):
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def shown(group):
    """Tables to show with their settings: the full form's, the small form's where there is no other yet."""
    out = {}
    for form in ("small", "full"):
        told, options = published(group, form), settings(group, form)
        out |= {name: (told[name], options[name] | {"form": form}) for name in told if name in options}
    return {name: out[name] for name in settings(group) if name in out}


def page_of(group, table):
    """Path of the page that shows a table."""
    return RESULTS / f"{group}.md" if read(group).get("one_page") else RESULTS / group / f"{table}.md"


def pages(group):
    """Pages of a group by their paths."""
    told, modules, top = shown(group), tables_of(group), read(group)
    if not top.get("one_page"):
        return {page_of(group, name): page(modules[name], *told[name]) for name in told}
    if not told:
        return {}
    facts_of = [table["facts"].items() for table, _ in told.values()]
    shared = dict(item for item in facts_of[0] if all(item in other for other in facts_of))
    header = "\n".join(f"- {key}: {value}" for key, value in shared.items())
    parts = [page(modules[name], *told[name], shared, f"{group}/") for name in told]
    intro = [f"# {top['title']}", *([header] if header else []), *([top["text"].strip()] if "text" in top else [])]
    return {RESULTS / f"{group}.md": "\n\n".join([*intro, *parts])}


def stale_pages(group):
    """Lines that are not what the published figures give, by page."""
    out = []
    for path, text in pages(group).items():
        out += unlike(path, text)
    return out


def unlike(path, text):
    """The first lines in which a page differs from what it should be."""
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    pairs = list(zip_longest(kept.splitlines(), text.splitlines(), fillvalue=""))
    wrong = [k for k, (a, b) in enumerate(pairs) if a != b]
    name = shown_path(path)
    out = [f"{name}, line {k + 1}: {pairs[k][0]!r}, the figures give {pairs[k][1]!r}" for k in wrong[:3]]
    return out + [f"{name}: {len(wrong) - 3} further lines differ"] * (len(wrong) > 3)


def shown_path(path):
    """A path as it is seen from the root of the repository."""
    return path.relative_to(RESULTS.parent.parent).as_posix()


def draw(module, sections, folder):
    """Plots of the curves that a table names."""
    if not getattr(module, "CURVES", None):
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    for name, (where, x, columns, scales) in module.CURVES.items():
        section, begin = (where, "") if isinstance(where, str) else where
        figure, axis = pyplot.subplots(figsize=(6 if x else 8, 4), layout="constrained")
        rows = [row for row in sections[section] if label_of(row).startswith(begin)]
        for label, abscissas, values in curves(rows, x, columns):
            axis.plot(*((abscissas, values) if x else (values, abscissas)), marker=".", label=label)
        title = f"{section}: {begin.rstrip(', ')}" if begin else section
        if x:
            axis.set(xlabel=x.rstrip(" ="), xscale=scales[0], yscale=scales[1])
        else:  # names of rows take the height
            axis.set(xscale=scales[1])
            axis.invert_yaxis()
        axis.set_title(title, fontsize="medium", wrap=True)
        axis.legend(fontsize="small")
        figure.savefig(folder / f"{name}.png", dpi=100, metadata={"Software": None})
        pyplot.close(figure)


def curves(rows, x, columns):
    """Label, abscissas and ordinates of every curve of a plot."""
    if columns is None:
        for row in rows:
            at = [name for name in row if name.startswith(x)]
            yield label_of(row), [float(name.removeprefix(x)) for name in at], [_first(row[name]) for name in at]
        return
    for column in columns:
        yield column, [row[x] if x else label_of(row) for row in rows], [_first(row.get(column)) for row in rows]


def _first(cell):
    return cell[0] if isinstance(cell, list) else cell


# -- the conditions under which figures were measured ----------------------------------------------------------


def facts(command):
    """Command, commit, processor, versions and date of what is computed now, by name."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return {
        "command": f"`OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'not set')} {command}`",
        "commit": _commit(),
        "processor": _processor(),
        "versions": f"Python {platform.python_version()}, {packages}",
        "date": date.today().isoformat(),
    }


def _commit():
    """The last commit of the package, and whether files of the package were changed after it."""
    return _git("log", "-1", "--format=%h", "--", "skfedcausal") + " with changes" * bool(
        _git("status", "--porcelain", "skfedcausal")
    )


def _git(*arguments):
    done = subprocess.run(
        ["git", *arguments], cwd=Path(__file__).parent.parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


# -- making and checking them ---------------------------------------------------------------------------------


def run(group, modules, form):
    """Figures of all tables of a form that can be made here, and why the others cannot."""
    options, reasons, found = settings(group, form), {}, {}
    for name, module in modules.items():
        if name in options:
            reason = module.missing(options[name]) if hasattr(module, "missing") else ""
            if reason:
                print(f"{group}.{name} is left out: {reason}", flush=True)
                reasons[name] = reason
    for name, module in modules.items():
        if name in options and name not in reasons:
            found[name] = _made(group, name, module, options[name], form)
    return found, reasons


def _made(group, name, module, options, form):
    begin = time.process_time()
    sections = compute(module, options)
    seconds = round(time.process_time() - begin)
    print(f"{group}.{name}: {seconds} s of processor time", flush=True)
    command = f"python -m benchmarks {group} --tables {name}" + " --small --write" * (form == "small")
    told = facts(command) | {"CPU seconds": seconds}
    return {"facts": told, "digests": digests(name, sections), "sections": sections}


def recomputed(group, modules):
    """Lines about the small form's figures that are not those published, and why tables were left out."""
    found, reasons = run(group, modules, "small")
    kept, lines = published(group, "small"), []
    for name in dict.fromkeys([*kept, *found]):
        if name in modules and name not in reasons:
            pair = [flat(name, form.get(name, {}).get("sections", {})) for form in (kept, found)]
            lines += [f"{group} / {line}" for line in differences(*pair, *tolerances(group, name))]
    return lines, reasons


def at_rest(group):
    """Lines about pages and figures that do not fit each other, which takes no computing."""
    return edited(group) + stale_pages(group) + shared_differences(group)


def check(group, modules):
    """Lines about everything of a group that is not as published."""
    return recomputed(group, modules)[0] + at_rest(group)


def publish(group, modules, form):
    """Compute a form and keep its figures; the full one writes pages and plots too."""
    folder = RESULTS / group
    folder.mkdir(parents=True, exist_ok=True)
    for name, module in modules.items():
        found, _ = run(group, {name: module}, form)
        kept = published(group, form) | found
        kept = {key: kept[key] for key in settings(group, form) if key in kept}
        text = json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
        (folder / f"{form}.json").write_text(text, encoding="utf-8")
    write_pages(group, modules)


def write_pages(group, modules):
    """Pages of a group, and plots of some tables, from the published figures."""
    for path, text in pages(group).items():
        path.write_text(text, encoding="utf-8")
    for name, told in published(group).items():
        if name in modules:
            draw(modules[name], told["sections"], RESULTS / group)


def tables_of(group):
    """Modules of a group's tables by name, in the order of its settings."""
    return {name: import_module(f"benchmarks.{group}.{name}") for name in settings(group)}


def main(arguments=None):
    """Command line of a group; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    parser.add_argument("group", choices=groups())
    parser.add_argument("--small", action="store_true", help="recompute the small form; 1 if a figure differs")
    parser.add_argument("--write", action="store_true", help="with --small: publish what was computed")
    parser.add_argument("--pages", action="store_true", help="only write pages and plots from the figures again")
    parser.add_argument("--tables", nargs="+", help="some of the group's tables")
    parser.add_argument("--with", nargs="+", default=[], dest="files", help="files that add methods")
    args = parser.parse_args(arguments)
    modules = tables_of(args.group)
    if unknown := set(args.tables or []) - set(modules):
        parser.error(f"{args.group} has no table {', '.join(sorted(unknown))}, but {', '.join(modules)}")
    for file in args.files:
        runpy.run_path(file)
    chosen = {name: modules[name] for name in args.tables or modules}
    if args.pages:
        write_pages(args.group, chosen)
        return 0
    if not args.small or args.write:
        publish(args.group, chosen, "small" if args.small else "full")
        return 0
    lines = check(args.group, chosen)
    print("\n".join(lines) or f"{args.group}: every figure of the small form is as published", flush=True)
    return int(bool(lines))
