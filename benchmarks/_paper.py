"""Figures of a paper: made by one file of settings, kept as numbers, compared again and written as pages.

A table is a module with `TITLE`, `TEXT` and ``figures(settings)``, which gives its sections: lists of rows,
each a dict whose text cells name the row and whose other cells are figures. It may have `NOTES` (a text by
section), `CURVES` (plots of sections) and ``missing(settings)``: why the table cannot be made here. A plot is a
section (or one and how the names of its rows begin), an abscissa, columns and scales: one curve per column over
a column of numbers, or over the names of rows where the abscissa is empty. With no columns every row is a curve
over the columns whose names begin with the abscissa and end with a number.
"""

import argparse
import json
import math
import runpy
import time
import tomllib
import warnings
from importlib import import_module

from ._report import RESULTS, conditions

DIGITS = 6
_HERE = RESULTS.parent


def settings(paper, form="full"):
    """Settings of every table of a form; the small form's go over the full form's."""
    told = _read(paper)
    small = told.get("small", {}) if form == "small" else {}
    names = small if form == "small" else told["full"]
    return {name: {**told["plant"], **told["full"].get(name, {}), **small.get(name, {})} for name in names}


def _read(paper):
    return tomllib.loads((_HERE / paper / "settings.toml").read_text(encoding="utf-8"))


def tolerances(paper):
    """Relative tolerance of the figures of each table, ``default`` for the others."""
    return _read(paper)["tolerance"]


def published(paper, form="full"):
    """What was published: a dict of tables, each with its conditions and sections."""
    path = RESULTS / paper / f"{form}.json"
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
        for row in rows:
            label = _label(row)
            for column, cell in row.items():
                if isinstance(cell, str):
                    continue
                for k, value in enumerate(cell if isinstance(cell, list) else [cell]):
                    place = f"{column} [{k}]" if isinstance(cell, list) else column
                    out[" / ".join([table, section, label, place])] = value
    return out


def differences(kept, found, tolerance):
    """Lines that name every figure which is new, gone, or further from the one kept than the tolerance."""
    lines = [f"{name}: published, but not made any more" for name in kept if name not in found]
    lines += [f"{name}: made, but not published" for name in found if name not in kept]
    for name in kept:
        if name in found and not close(kept[name], found[name], tolerance):
            lines.append(f"{name}: published {kept[name]}, now {found[name]}")
    return lines


def close(a, b, tolerance):
    """Whether two figures agree; what is zero to rounding on both sides does."""
    if a is None or b is None or isinstance(a, bool):
        return a == b
    return math.isclose(a, b, rel_tol=tolerance, abs_tol=1e-9) or (math.isnan(a) and math.isnan(b))


def text_of(value):
    """A cell of a page."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, list):
        return " ".join(text_of(cell) for cell in value)
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def page(module, told, options):
    """The page of a table in Markdown."""
    columns = [list(dict.fromkeys(key for row in rows for key in row)) for rows in told["sections"].values()]
    parts = [f"# {module.TITLE}", told["conditions"], module.TEXT.format_map(options)]
    if options.get("form") == "small":
        parts.append("The small form, with the settings that continuous integration runs.")
    for (section, rows), names in zip(told["sections"].items(), columns, strict=True):
        lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
        lines += ["| " + " | ".join(text_of(row.get(name)) for name in names) + " |" for row in rows]
        note = getattr(module, "NOTES", {}).get(section)
        parts += [f"## {section}", *([note] if note else []), "\n".join(lines)]
    if options.get("form") == "full":
        parts += [f"![{name}]({name}.png)" for name in getattr(module, "CURVES", {})]
    return "\n\n".join(parts) + "\n"


def shown(paper):
    """Tables to show with their settings: the full form's, the small form's where there is no other yet."""
    out = {}
    for form in ("small", "full"):
        told, options = published(paper, form), settings(paper, form)
        out |= {name: (told[name], options[name] | {"form": form}) for name in told if name in options}
    return out


def pages(paper, modules):
    """Pages of all tables by their paths."""
    told = shown(paper)
    return {
        RESULTS / paper / f"{name}.md": page(module, *told[name]) for name, module in modules.items() if name in told
    }


def stale_pages(paper, modules):
    """Pages that are not what the published figures give."""
    return [
        f"{path.relative_to(_HERE.parent)}: not what the published figures give"
        for path, text in pages(paper, modules).items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def shared_differences(paper, modules):
    """Figures of the two forms that have the same name and the same settings, but not the same value."""
    full, small, lines = published(paper), published(paper, "small"), []
    both = settings(paper), settings(paper, "small")
    for name in small:
        if name in modules and name in full and both[0][name] == both[1][name]:
            kept, found = (flat(name, form[name]["sections"]) for form in (full, small))
            lines += differences(kept, found, tolerances(paper).get(name, tolerances(paper)["default"]))
    return lines


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
        rows = [row for row in sections[section] if _label(row).startswith(begin)]
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
            yield _label(row), [float(name.removeprefix(x)) for name in at], [_first(row[name]) for name in at]
        return
    for column in columns:
        yield column, [row[x] if x else _label(row) for row in rows], [_first(row.get(column)) for row in rows]


def _label(row):
    return ", ".join(cell for cell in row.values() if isinstance(cell, str))


def _first(cell):
    return cell[0] if isinstance(cell, list) else cell


def run(paper, modules, form):
    """Figures of all tables of a form that can be made here, and why the others cannot."""
    options, reasons, todo = settings(paper, form), {}, {}
    for name, module in modules.items():
        if name in options:
            reason = module.missing(options[name]) if hasattr(module, "missing") else ""
            reasons |= {name: reason} if reason else {}
            todo |= {} if reason else {name: module}
    for name, reason in reasons.items():
        print(f"{paper}.{name} is left out: {reason}", flush=True)
    found = {}
    for name, module in todo.items():
        begin = time.process_time()
        sections = compute(module, options[name])
        seconds = time.process_time() - begin
        print(f"{paper}.{name}: {seconds:.0f} s of processor time", flush=True)
        told = f"{conditions()}\n- processor time: {seconds:.0f} s"
        found[name] = {"conditions": told, "sections": sections}
    return found, reasons


def check(paper, modules):
    """Lines about the small form's figures that are not those published, and pages that are stale."""
    found, reasons = run(paper, modules, "small")
    kept, tolerance, lines = published(paper, "small"), tolerances(paper), []
    for name in dict.fromkeys([*kept, *found]):
        if name in modules and name not in reasons:
            pair = [flat(name, form.get(name, {}).get("sections", {})) for form in (kept, found)]
            lines += differences(*pair, tolerance.get(name, tolerance["default"]))
    return lines + stale_pages(paper, modules) + shared_differences(paper, modules)


def publish(paper, modules, form):
    """Compute a form and keep its figures; the full one writes pages and plots too."""
    folder = RESULTS / paper
    folder.mkdir(parents=True, exist_ok=True)
    for name, module in modules.items():
        found, _ = run(paper, {name: module}, form)
        kept = published(paper, form) | found
        kept = {key: kept[key] for key in settings(paper, form) if key in kept}
        text = json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
        (folder / f"{form}.json").write_text(text, encoding="utf-8")
    write_pages(paper, modules)


def write_pages(paper, modules):
    """Pages and plots of all tables from the published figures."""
    for path, text in pages(paper, modules).items():
        path.write_text(text, encoding="utf-8")
    for name, told in published(paper).items():
        if name in modules:
            draw(modules[name], told["sections"], RESULTS / paper)


def tables_of(paper):
    """Modules of a paper's tables by name, in the order of its settings."""
    return {name: import_module(f"benchmarks.{paper}.{name}") for name in settings(paper)}


def main(paper, arguments=None):
    """Command line of a paper; returns the exit code."""
    modules = tables_of(paper)
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{paper}", description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="recompute the small form; 1 if a figure differs")
    parser.add_argument("--write", action="store_true", help="with --small: publish what was computed")
    parser.add_argument("--pages", action="store_true", help="only write pages and plots from the figures again")
    parser.add_argument("--tables", nargs="+", choices=list(modules), default=list(modules))
    parser.add_argument("--with", nargs="+", default=[], dest="files", help="files that add methods")
    args = parser.parse_args(arguments)
    for file in args.files:
        runpy.run_path(file)
    chosen = {name: modules[name] for name in args.tables}
    if args.pages:
        write_pages(paper, chosen)
        return 0
    if not args.small or args.write:
        publish(paper, chosen, "small" if args.small else "full")
        return 0
    lines = check(paper, chosen)
    print("\n".join(lines) or f"{paper}: every figure of the small form is as published", flush=True)
    return int(bool(lines))
