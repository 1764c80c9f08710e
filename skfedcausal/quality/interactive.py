"""The findings of a check as a table to sort and to search: in a notebook, and as a page of its own."""

import secrets
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

import numpy as np
import pandas as pd

from ..containers.layout import listed

_WIDTH, _HEIGHT = 120, 28  # of a small picture, in pixels
_VERDICTS = {"ok": "good", "fix first": "bad", "not usable": "bad", "level not constant": "odd"}
_SHOWN = {
    "units": ["unit", "tags", "usable", "gaps", "clock", "verdict", "findings", "advice"],
    "findings": ["unit", "column", "kind", "start", "end", "detail", "advice"],
    "tags": ["unit", "column", "kind", "distribution", "course", "lowest", "highest", "gaps", "period", "resolution"],
}
_WITH_MEASURES = [*_SHOWN["tags"][:2], "measure", *_SHOWN["tags"][2:]]


def table_html(check):
    """The table as a piece of a page, which brings its own style and script."""
    tables = {"units": check.units, "findings": check.findings, "tags": _with_sketches(check)}
    shown = _SHOWN if not check.measures else _SHOWN | {"tags": _WITH_MEASURES}
    parts = {name: _table(tables[name][columns]) for name, columns in shown.items()}
    counts = {f"n_{name}": len(table) for name, table in tables.items()}
    template = _template("table.html")
    first = len(check.fix_first)
    words = f"{first} to fix first" if first else "nothing to fix first"
    return template.substitute(parts, **counts, words=words, key=f"check-{secrets.token_hex(6)}")


def write_page(check, path, title):
    """Write a page with the table; its path."""
    path = Path(path)
    steps = "".join(f"<li>{escape(text)}</li>" for text in check.fix_first)
    first = f'<h2 style="font-size:1.15rem">What to check first</h2><ol style="max-width:46rem">{steps}</ol>'
    texts = {"title": escape(str(title)), "table": table_html(check), "lead": escape(_answer(check))}
    texts["first"] = first if steps else ""
    path.write_text(_template("page.html").substitute(texts), encoding="utf-8")
    return path


def _template(name):
    return Template(files(__package__).joinpath(name).read_text("utf-8"))


def _answer(check):
    """What the check found, in a sentence."""
    units = check.units
    ready, count = int((units["verdict"] == "ok").sum()), len(units)
    names = units.loc[units["verdict"].isin(["fix first", "not usable"]), "unit"].tolist()
    if names:
        return f"Fix the data of {listed(names, 5, quoted=False)} first; {ready} of {count} units are ready to use."
    rest = "" if ready == count else "; the others are usable with the advice below"
    return f"Nothing has to be fixed first: {ready} of {count} units are ready to use{rest}."


def _with_sketches(check):
    """The table of tags with small pictures of what was measured."""
    sketches = [check.sketches.get(column) for column in check.tags["column"]]
    return check.tags.assign(
        distribution=_pictures(("" if s is None else _bars(s.counts) for s in sketches), check.tags.index),
        course=_pictures(("" if s is None else _line(s.course) for s in sketches), check.tags.index),
        lowest=[np.nan if s is None else s.low for s in sketches],
        highest=[np.nan if s is None else s.high for s in sketches],
        measure=[check.measures.get(column, "") for column in check.tags["column"]],
        gaps=[f"{share:.1%}" if share else "0%" for share in check.tags["gaps"]],
    )


class _Picture(str):
    """A drawing, which is not escaped."""


def _pictures(drawings, index):
    """A column of drawings; one of strings would keep their letters only."""
    return pd.Series([_Picture(one) for one in drawings], index=index, dtype=object)


def _bars(counts):
    """Bars of how often values fall in each class."""
    width, top = _WIDTH / len(counts), max(counts)
    heights = [max(_HEIGHT * count / top, 1.0 if count else 0.0) for count in counts]
    bars = "".join(
        f'<rect x="{k * width:.1f}" y="{_HEIGHT - h:.1f}" width="{width - 0.8:.1f}" height="{h:.1f}"/>'
        for k, h in enumerate(heights)
        if h
    )
    return _svg(bars, "distribution")


def _line(course):
    """The course of the values; nothing is drawn where nothing was measured."""
    values = np.array(course)
    low, high = np.nanmin(values), np.nanmax(values)
    y = _HEIGHT - 2 - (_HEIGHT - 4) * (values - low) / ((high - low) or 1.0)
    x = np.linspace(1, _WIDTH - 1, len(values))
    steps, pen = [], "M"
    for here, there in zip(x, y, strict=True):
        if np.isnan(there):
            pen = "M"
            continue
        steps.append(f"{pen}{here:.1f} {there:.1f}h0")
        pen = "L"
    return _svg(f'<path d="{"".join(steps)}"/>', "course")


def _svg(parts, kind):
    return f'<svg class="{kind}" role="img" aria-label="{kind}" width="{_WIDTH}" height="{_HEIGHT}">{parts}</svg>'


def _table(frame):
    """A table whose cells say what they are sorted by."""
    head = "".join(f'<th scope="col"><button>{escape(str(name))}</button></th>' for name in frame.columns)
    labels = [f' data-of="{escape(str(name))}"' for name in frame.columns]
    rows = ("".join(map(_cell, row, labels)) for row in frame.itertuples(index=False))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value, label):
    if isinstance(value, _Picture):
        return f"<td{label}>{value}</td>"
    if isinstance(value, pd.Timestamp):
        return f'<td{label} data-by="{value.value}" class="time">{value:%Y-%m-%d %H:%M:%S}</td>'
    if pd.isna(value):
        return '<td data-by=""></td>'
    if isinstance(value, (int, float, np.number)):
        text = f"{value:,}" if isinstance(value, (int, np.integer)) else f"{value:.6g}"
        return f'<td{label} data-by="{float(value)!r}" class="number">{text}</td>'
    text = escape(str(value))
    kind = _VERDICTS.get(text, "odd" if text.startswith("usable from") else None)
    return f"<td{label}>{text}</td>" if kind is None else f'<td{label}><span class="verdict {kind}">{text}</span></td>'
