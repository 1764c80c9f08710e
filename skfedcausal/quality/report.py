"""Tables of the findings of a check."""

import tomllib
from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..containers.layout import listed
from .tuning import TUNING

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
        from .interactive import table_html

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
        from .interactive import write_page

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
