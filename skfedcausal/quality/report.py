"""The findings of a check as tables: plain, and one to sort and to search."""

import secrets
import tomllib
from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pandas as pd

from ..containers.arrays import listed
from .tuning import TUNING

# Tables of the findings of a check.

Finding = namedtuple("Finding", "unit column kind start end value detail advice")  # a row of the table of findings
KINDS = tomllib.loads(files(__package__).joinpath("kinds.toml").read_text("utf-8"))
_WRONG = [kind for kind, about in KINDS.items() if "wrong" in about]
_MOVES = [kind for kind, about in KINDS.items() if "moves" in about]


def finding(what, value, ends, *, unit="all units", column="", **words):
    """A :class:`Finding` of a kind, ``kind`` or ``kind: case``, between two rows or times; `words` fill its texts."""
    start, end = ends
    detail, advice = texts_of(what, value=value, **words)
    return Finding(unit, column, what.split(":")[0], start, end, value, detail, advice)


def texts_of(what, **words):
    """Detail and advice of a kind of finding."""
    return [KINDS[what][text].format(**words) for text in ("detail", "advice")]


@dataclass(frozen=True, eq=False, repr=False)
class PlantCheck:
    """Result of :func:`~skfedcausal.check_plant`; printing it shows `units`.

    Attributes
    ----------
    units : DataFrame
        One row per unit: ``unit``, ``tags`` (number of columns), ``usable`` (step from which the order of
        events can be told), ``gaps`` (share of cells without a value), ``clock`` ("ok", an offset, or
        "cannot tell"), ``verdict`` ("ok", "usable from ...", "level not constant" for what the unit's own model can
        remove, "fix first", "not usable"), ``findings`` and ``advice`` in words.
    findings : DataFrame
        One row per finding: ``unit`` ("all units" where the table's clock is meant), ``column`` ("" for the
        whole unit), ``kind`` ("outage", "gap", "stuck", "clipped", "fill value", "interpolated", "held",
        "slow", "no data", "clock", "repeated hour", "skipped hour", "same sensor", "same unit", "season",
        "trend", "level shift", "modes", "wandering", "common spikes"), ``start`` and ``end`` (times, or row
        numbers from 0; the last row is included), ``value`` (what it is about: offset in seconds or steps,
        limit, share or period), ``detail``, ``advice``.
    tags : DataFrame
        One row per column: ``unit, column, kind`` ("measured", "steps", "binary", "constant", "empty"),
        ``resolution`` (0 where values lie on no lattice), ``period`` (rows from one new value to the next),
        ``gaps``.
    sketches : dict of str to Sketch
        How the values of each column lie and run, for the table that notebooks and :meth:`report` show.
    measures : dict of str to str
        Unit of measurement of each column of which a :class:`~skfedcausal.PlantTable` knows it.

    Examples
    --------
    >>> from skfedcausal import check_plant
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, _ = make_granger_plant(2, random_state=0)
    >>> check_plant(X).ok
    True
    """

    units: pd.DataFrame
    findings: pd.DataFrame
    tags: pd.DataFrame
    sketches: Mapping = field(default_factory=dict)
    measures: Mapping = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return self.findings.empty

    @property
    def fix_first(self) -> Any:
        """Sentences about what has to be put right before a fit, one for each kind of finding and unit."""
        wrong = self.findings[self.findings["kind"].isin(_WRONG)]
        said = []
        for (kind, unit), own in wrong.groupby(["kind", "unit"], sort=False):
            columns = list(dict.fromkeys(name for name in own["column"] if name))
            what = f" ({listed(columns, 3)})" if columns else ""
            said.append(f"{unit}: {kind}{what}: {own['detail'].iloc[0].rstrip('.')}. {own['advice'].iloc[0]}")
        return tuple(said)

    def __repr__(self):
        return self.units.drop(columns="advice").to_string(index=False)

    def _repr_html_(self):

        return table_html(self)

    def report(self, path: str | PathLike[str], *, title: str = "What the check of the record found") -> Path:
        """Write a page with the interactive table: units, findings and tags to sort and to search.

        Parameters
        ----------
        path : str or Path
            HTML file. The page holds everything it shows and loads nothing.
        title : str

        Returns
        -------
        Path

        Examples
        --------
        >>> import tempfile
        >>> from pathlib import Path
        >>> from skfedcausal import check_plant
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(2, random_state=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = check_plant(X).report(Path(folder) / "check.html")
        ...     page.read_text("utf-8").splitlines()[0]
        '<!DOCTYPE html>'
        """

        return write_page(self, path, title)


def with_findings(check, rows):
    """The check with further findings about all units, which make each of them one to be put right first."""
    if not rows:
        return check
    more = pd.DataFrame(rows)
    words = ", ".join(more["detail"])
    units = check.units.assign(
        verdict="fix first",
        findings=[words if own == "none" else f"{words}, {own}" for own in check.units["findings"]],
        advice=[" ".join([*more["advice"], own]).strip() for own in check.units["advice"]],
    )
    findings = more if check.findings.empty else pd.concat([more, check.findings], ignore_index=True)
    return replace(check, units=units, findings=findings)


def unit_table(units, findings, tags, offsets):
    """Table of units from everything that was found; `offsets` holds the clock of each unit."""
    rows = []
    for unit in units:
        own = findings[findings["unit"].isin([unit.name, "all units"])]
        here = tags[tags["unit"] == unit.name]
        period = here.loc[here["kind"] == "measured", "period"].median()
        period = 1.0 if pd.isna(period) else float(period)
        usable, cells = unit.span(period), here["gaps"].mean()
        clock = _clock(own, offsets.get(unit.name), len(units))
        words = _verdict(own, here, period, usable), _in_words(own), " ".join(dict.fromkeys(own["advice"]))
        rows.append((unit.name, len(here), usable, f"{cells:.1%}" if cells else "0%", clock, *words))
    names = ["unit", "tags", "usable", "gaps", "clock", "verdict", "findings", "advice"]
    return pd.DataFrame(rows, columns=names)


def _clock(findings, offset, n_units):
    found = findings.loc[findings["kind"] == "clock", "detail"]
    if len(found):
        return found.iloc[0].split(" against")[0].removeprefix("clock about ")
    if n_units == 1:
        return "alone"
    return "cannot tell" if offset is None else "ok"


def _verdict(findings, tags, period, usable):
    if not (tags["kind"] == "measured").any():
        return "not usable" if not tags["kind"].isin(["binary", "steps"]).any() else "switches only"
    if findings["kind"].isin(_WRONG).any():
        return "fix first"
    if findings["kind"].isin(_MOVES).any():
        return "level not constant"
    return f"usable from {usable}" if period > 1 else "ok"


def _in_words(findings):
    parts = []
    for kind, count in findings["kind"].value_counts(sort=False).items():
        word = KINDS[kind].get("word")
        if word is None:
            parts.extend(findings.loc[findings["kind"] == kind, "detail"])
            continue
        plural = word.replace("tag", "tags", 1) if "tag" in word.split() else word + "s"
        parts.append(f"{count} {word if count == 1 else plural}")
    return ", ".join(parts) or "none"


# -- sketches --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sketch:
    """Lowest and highest value, how often values fall in each of equal classes, and means of equal segments."""

    low: float
    high: float
    counts: tuple[int, ...]
    course: tuple[float, ...]  # NaN where nothing was measured


def sketch(values):
    """The sketch of a series with NaN; None of one without values."""
    seen = values[np.isfinite(values)]
    if not len(seen):
        return None
    low, high = float(seen.min()), float(seen.max())
    if high - low < np.spacing(max(abs(low), abs(high))) * TUNING.report_bins:  # too near for classes between them
        counts = np.bincount([0], [len(seen)], TUNING.report_bins).astype(int)
    else:
        counts = np.histogram(seen, bins=TUNING.report_bins)[0]
    parts = np.array_split(values, min(TUNING.report_steps, len(values)))
    course = [float(part.mean()) if len(part) else np.nan for part in (p[np.isfinite(p)] for p in parts)]
    return Sketch(low, high, tuple(counts.tolist()), tuple(course))


# The findings of a check as a table to sort and to search: in a notebook, and as a page of its own.

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
