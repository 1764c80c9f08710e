"""A plant's record as one table: units, tags, clock, grid, zone, episodes and what is wrong with it."""

import warnings
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from ..arguments import check_kind, check_number, warn
from ..containers.arrays import SEPARATOR, check_unit_names, listed, split_flat_names
from ..containers.rows import is_numbering, sampling_period
from ..quality.check import checked
from ..quality.report import PlantCheck, with_findings
from .databases import without_password
from .forms import ExportTable, bad_marks, check_known, export_table
from .grid import FIXES, EvenStep, apply_fixes, on_grid, read_fixes, time_text, usual_step
from .naming import coarse_counters, corrected, levels_of, rates, roles_of, unit_names
from .read import files_of, is_folder, named_by_file, tag_of_folder, together
from .times import measure_in
from .tuning import TUNING
from .written import Dialect


@dataclass(frozen=True, eq=False, repr=False)
class PlantTable:
    """Record of a plant as it is fitted: one table on one clock, checked, with what was done to it.

    Estimators take it wherever they take a record; printing it shows what it is and what was done.

    Parameters
    ----------
    frame : DataFrame
        Columns ``unit__tag``, one row per time step, NaN where there is no value. Times are those of the
        plant's own zone where it is known.
    lengths : tuple of int
        Rows of each episode: the record is cut where rows are missing for longer than 100 steps.
    check : PlantCheck
        What is wrong with it, after all that was put right.
    zone : str or None
        Zone of the times, None where none is known.
    said : tuple of str
        What was done: columns left out, rows filled in, episodes cut, findings put right.
    left_out : dict of str to str
        Columns that were left out, and why.
    given_roles : dict of str to str
        Roles of columns that were corrected.
    given_measures : dict of str to str
        Units of measurement of columns, by the file or a table of roles.

    See Also
    --------
    read_historian : The table alone.
    skfedcausal.check_plant : What is wrong with a record.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal import PlantTable
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, _ = make_granger_plant(2, names=["mill", "kiln"], container="frame", random_state=0)
    >>> X.index = pd.date_range("2026-03-01", periods=len(X), freq="10s")
    >>> X.loc[X.index[[7, 80, 900]], "mill__s0"] = -999.25
    >>> plant = PlantTable.read(X.drop(X.index[500]), fix="fill values")
    >>> plant
    2 units, 16 tags, 2000 rows every 10 s from 2026-03-01 00:00:00 to 2026-03-01 05:33:10
    grid: 1 missing rows are there without values, one row every 10 s
    fill values: -999.25 in 3 cells of 1 tag set to missing ('mill__s0')
    """

    frame: pd.DataFrame
    lengths: tuple[int, ...]
    check: PlantCheck
    zone: str | None = None
    said: tuple[str, ...] = ()
    left_out: Mapping[str, str] | None = None
    given_roles: Mapping[str, str] | None = None
    given_measures: Mapping[str, str] | None = None

    @classmethod
    def read(
        cls,
        source: Any,
        *,
        units: str | dict[str, Any] = "prefix",
        tz: str | None = None,
        every: str | pd.Timedelta | None = None,
        fix: Any = (),
        time: str | None = None,
        columns: Collection[str] | None = None,
        drop: Collection[str] = (),
        bad_values: Collection[str] | float = (),
        dayfirst: Any = None,
        clock: Any = None,
        good: Any = None,
        keep_uncertain: Any = False,
        names: Any = None,
        query: str | None = None,
        hold: Any = None,
    ) -> Self:
        """Read a plant's record from files, databases or frames, as historians and tools export it.

        Exports are wide or long, in text (any separator, decimal commas), workbooks, Parquet, JSON or databases, one
        for all units or some for each, or a folder with a file for each tag. Rows that are missing are filled in
        without values, longer gaps end an episode, columns without numbers are left out; `said` names all of it.

        Parameters
        ----------
        source : path, address of a database, file object, DataFrame, or dict of str to those
            One record of all units, or one for each by its name; a list is one after the other, or side by side where
            each has tags of its own. So is a folder.
        units : str or dict, default="prefix"
            Which unit a column of a single record belongs to. "prefix": what stands before the first
            separator, or the first level of names such as ``SITE1.BLR.B01.PT101`` that differs. "level 3": what stands
            at that level. A pattern: ``"{unit}[:/._-]{tag}"``, a glob or a regular expression with a group ``unit``.
            A dict, or a JSON file, of names or globs by unit. Capitals do not matter.
        tz : str, default=None
            The plant's own zone, for example ``"Europe/Berlin"``.
        every : str or Timedelta, default=None
            Step of the table; None takes that of the record.
        fix : str or collection of str, default=()
            Findings to put right: "fill values", "stuck", "duplicates", "grid", "episodes", or "all".
        time : str, default=None
            Name of the column of times, where it is none of the usual ones.
        columns : collection of str, default=None
            Names of the columns or tags to read, as they are in the file, beside that of the times; ``*`` and ``?``
            stand for other letters. Of Parquet and of large files no others are ever in memory. None: all.
        drop : collection of str, default=()
            Names of columns to leave out; ``*`` and ``?`` stand for other letters.
        bad_values : collection of str or float, default=()
            Texts and numbers that stand for a bad value besides the usual ones.
        names : sequence of str, default=None
            Names of the columns of a file without a header.
        query : str, default=None
            Query of a database that has several tables, in SQL; glob of the nodes of an OPC UA server.
        hold : str or Timedelta, default=None
            How long a stored value holds where an archive stores changes only and tags have times of their own: "auto"
            for the longest usual silence of each tag, which commands take. None: cells without an event are missing.
        dayfirst, good, keep_uncertain, clock
            As in :func:`read_historian`.

        Returns
        -------
        PlantTable

        Raises
        ------
        ValueError
            If something cannot be read or told; the message says what to pass.

        Examples
        --------
        >>> import io
        >>> from skfedcausal import PlantTable
        >>> rows = [f"01.03.2026 00:{k:02d};{k},5;{7 + k % 5},1;Meier" for k in range(60)]
        >>> text = "\\n".join(["Zeit;P1:LT1;p2_FT2;Operator", *rows])
        >>> plant = PlantTable.read(io.StringIO(text), units="{unit}[:_]{tag}")
        >>> list(plant.frame), plant.left_out
        (['P1__LT1', 'p2__FT2'], {'Operator': 'holds no numbers'})
        """
        fixes = read_fixes(fix)
        if not isinstance(source, Mapping) and isinstance(source, pd.DataFrame):
            source = [source]
        check_kind(drop, "`drop`", (str, Sequence, Set, pd.Index), "a list of columns")
        drop = tuple([drop] if isinstance(drop, str) else drop)
        columns = None if columns is None else tuple([columns] if isinstance(columns, str) else columns)
        dialect = Dialect(
            tz, dayfirst, bad_marks(bad_values), good, keep_uncertain, drop, time, names, query, hold, every, columns
        )
        table, left_out, told, runs, measures = _raw_table(source, units, dialect, clock)
        if len(table) < TUNING.table_least_rows:
            raise ValueError(
                f"The record has one row; give a row per time step, {TUNING.table_least_rows} at the very least."
            )
        said = [*told, *(f"left out: {name!r} {why}" for name, why in left_out.items())]
        lengths, rows_found = (len(table),), ()
        if not isinstance(table.index, (pd.DatetimeIndex, pd.TimedeltaIndex)) and (every or tz) is not None:
            raise ValueError("The record has no column of times, so a step (every) and a zone (tz) mean nothing.")
        if tz is not None and getattr(table.index, "tz", None) is not None:
            table = table.set_axis(table.index.tz_convert(tz))
        if not is_numbering(table.index):
            tables = [table]
            del table  # nobody but the grid has it, which lets its columns go
            gridded = on_grid(tables.pop(), every, runs)
            table, lengths, rows_found = gridded.frame, gridded.lengths, gridded.findings
            said += gridded.said
        check = _checked(table, lengths, whole=not fixes)
        plant = cls(table, lengths, check, _zone(table, tz), tuple(said), left_out, None, measures)
        return put_right(plant, fixes, rows_found).with_measures({})

    @property
    def units(self) -> tuple[str, ...]:
        """Names of the units, in order."""
        return tuple(dict.fromkeys(split_flat_names(list(self.frame))))

    @property
    def measures(self) -> dict[str, str]:
        """Unit of measurement by column: what the file or a table of roles told, else what stands in the name."""
        named = {str(column): measure for column in self.frame if (measure := measure_in(str(column)))}
        return named | {name: word for name, word in (self.given_measures or {}).items() if name in self.frame and word}

    def with_measures(self, measures: Mapping[str, str]) -> Self:
        """The table with units of measurement of some columns, which its check tells, too.

        Parameters
        ----------
        measures : dict of str to str
            Unit of measurement by column, such as ``{"boiler__PT101": "bar"}``; "" takes one away that was given.

        Returns
        -------
        PlantTable
        """
        check_kind(measures, "`measures`", (Mapping,), "a dict from column to unit of measurement")
        given = replace(self, given_measures={**(self.given_measures or {}), **measures})
        return replace(given, check=replace(self.check, measures=given.measures))

    @property
    def roles(self) -> pd.DataFrame:
        """Role of every tag, by its name and how it behaves, those that were given first; see `with_roles`."""
        texts = [name for name, why in (self.left_out or {}).items() if why == "holds no numbers"]
        table = roles_of(self.frame, texts)
        measures = self.measures
        table["measure"] = [measures.get(column, "") for column in table["column"]]
        return table if self.given_roles is None else corrected(table, self.given_roles)

    def with_roles(self, roles: Any) -> Self:
        """The table with other roles of some tags.

        Parameters
        ----------
        roles : dict of str to str, or path
            Role by column or tag: "PV", "SP", "OP", "MODE", "switch", "counter", "lab" or "constant"; or a CSV file
            with columns ``column``, ``role`` and perhaps ``measure``, the unit of measurement, such as that of `roles`
            with some of them changed.

        Returns
        -------
        PlantTable

        Raises
        ------
        FileNotFoundError
            If there is no such table.
        """
        measures: dict[str, str] = {}
        if isinstance(roles, (str, Path)):
            if not Path(roles).is_file():
                raise FileNotFoundError(f"There is no table {str(roles)!r}; give its path, or {{column: role}}.")
            table = pd.read_csv(roles, keep_default_na=False)
            roles = dict(zip(table["column"], table["role"], strict=True))
            measures = dict(zip(table["column"], table.get("measure", ()), strict=False))
        check_kind(roles, "`roles`", (Mapping,), "a dict from column to role, or the path of a table")
        corrected(self.roles, roles)
        return replace(self, given_roles={**(self.given_roles or {}), **roles}).with_measures(measures)

    def with_rates(self) -> Self:
        """The table with the rise from row to row in place of counters, whose level tells nothing.

        Those that rise in few rows, such as hours, are left out: their steps are those of a clock.

        Returns
        -------
        PlantTable
        """
        table = self.roles
        counters = [name for name in table.loc[table["role"] == "counter", "column"] if name in self.frame]
        if not counters:
            return self
        coarse = coarse_counters(self.frame, counters)
        fine = [name for name in counters if name not in coarse]
        parts = [rates(part.drop(columns=coarse), fine) for part in self._episodes()]
        said = [f"counters: {listed(fine, 6)} as the rise from row to row"] if fine else []
        said += [f"counters: {listed(coarse, 6)} left out, whose steps are those of a clock"] if coarse else []
        left_out = {**(self.left_out or {}), **dict.fromkeys(coarse, "counts hours or the like")}
        rise = {name: f"{self.measures[name]} per row" for name in fine if name in self.measures}
        changed = replace(self, frame=pd.concat(parts), said=(*self.said, *said), left_out=left_out)
        return changed.with_measures(rise)

    @property
    def step(self) -> Any:
        """Time from one row to the next, None where rows have no times."""
        return sampling_period(self.frame.index)

    @property
    def fix_first(self) -> Any:
        """Sentences about what has to be put right before a fit, none where nothing has."""
        return self.check.fix_first

    def to_episodes(self) -> list[pd.DataFrame]:
        """The frame of each episode, in order.

        Returns
        -------
        list of DataFrame
        """
        if self.fix_first:
            warn(f"Fix first: {' '.join(self.fix_first)}")
        return self._episodes()

    def _episodes(self):
        ends = np.cumsum(self.lengths)
        return [self.frame.iloc[end - rows : end] for end, rows in zip(ends, self.lengths, strict=True)]

    def with_columns(self, columns: Sequence[str]) -> "PlantTable":
        """The table with some of its columns, and without rows that have no values at either end.

        Parameters
        ----------
        columns : list of str

        Returns
        -------
        PlantTable

        Raises
        ------
        ValueError
            If one is not there, or none has values.
        """
        columns = [columns] if isinstance(columns, str) else columns
        check_kind(columns, "`columns`", (Sequence, np.ndarray, pd.Index, pd.Series), "a list of names of columns")
        unknown = [name for name in columns if not isinstance(name, str) or name not in self.frame]
        if unknown or len(columns) == 0:
            raise ValueError(f"Got `columns` with {listed(unknown, 6)}; give some of {listed(list(self.frame), 6)}.")
        there = np.flatnonzero(self.frame[[*columns]].notna().any(axis=1))
        if not there.size:
            raise ValueError(f"Columns {listed(list(columns), 6)} have no values; give others.")
        part = self.split(int(there[-1]) + 1)[0].split(int(there[0]))[1]
        return replace(part, frame=part.frame[[*columns]])

    def split(self, row: int) -> "tuple[PlantTable, ...]":
        """The record before a row and from there on.

        Parameters
        ----------
        row : int
            Position of the first row of the second part.

        Returns
        -------
        tuple of PlantTable
        """
        check_number(row, "row", least=0)
        starts = np.cumsum([0, *self.lengths])
        before = np.diff(np.clip(starts, 0, row))
        after = np.diff(np.clip(starts, row, starts[-1]))
        parts = (self.frame.iloc[:row], before), (self.frame.iloc[row:], after)
        return tuple(replace(self, frame=frame, lengths=tuple(n for n in rows.tolist() if n)) for frame, rows in parts)

    def __repr__(self):
        times, rows = "", f"{len(self.frame)} rows"
        if self.step is not None:
            first, last = map(time_text, (self.frame.index[0], self.frame.index[-1]))
            zone = f" ({self.zone})" if self.zone else ""
            times = f" every {usual_step(self.frame.index)} from {first} to {last}{zone}"
        head = f"{len(self.units)} units, {self.frame.shape[1]} tags, {rows}{times}"
        return "\n".join([head, *self.said, *self.fix_first])


def put_right(plant, fixes, rows_found):
    """The table with findings put right: those about rows are when it is read, and need to be known."""
    frame, check = plant.frame, plant.check
    said: list[str] = []
    known: dict = {}
    for _ in range(TUNING.table_passes if fixes else 0):  # one defect may hide another
        frame, more = apply_fixes(frame, check.findings, fixes)
        if not more:
            break
        said, check = said + more, _checked(frame, plant.lengths, whole=False, known=known)
    if fixes:
        check = _checked(frame, plant.lengths, known=known)
    about_rows = [(finding, FIXES[finding.kind]) for finding in rows_found]
    said += [f"{name}: {finding.detail}" for finding, name in about_rows if name in fixes]
    gone = {name: "has no values left" for name in plant.frame if name not in frame}
    return replace(
        plant,
        frame=frame,
        check=with_findings(check, [finding for finding, name in about_rows if name not in fixes]),
        said=(*plant.said, *said),
        left_out={**(plant.left_out or {}), **gone},
    )


def _checked(frame, lengths, whole=True, known=None):
    """Check of a table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what they say is found
        return checked(frame, lengths=lengths, whole=whole, known=known)


def _zone(table, tz):
    zone = getattr(table.index, "tz", None)
    return None if zone is None else str(tz or zone)


class _Raw(NamedTuple):
    """Table of all units in the order of the rows of the file, and what is known of it."""

    table: pd.DataFrame
    left_out: dict[str, str]  # columns and why
    said: Sequence[str]  # what was done
    runs: tuple[int, ...] | None  # rows of each run that an index names
    measures: dict[str, str]


def _raw_table(source, units, dialect, clock):
    """The :class:`_Raw` table of a source."""
    if isinstance(source, Mapping):
        return _joined(source, dialect, clock)
    if clock:
        raise ValueError("clock= is for records of each unit, {unit: export}: one record has one clock.")
    table, texts, said, runs, measures = _one_after_another(source, dialect, "the record")
    names, others = unit_names(list(table), units)
    if units == "prefix" and (levels := levels_of(list(table))) is not None:
        said = [*said, *_levels_told(levels, dict.fromkeys(split_flat_names(list(names.values()))))]
    left_out = dict.fromkeys(texts, "holds no numbers") | dict.fromkeys(others, "belongs to no unit")
    table = table if list(names) == list(table) else table[list(names)]
    measures = {names.get(tag, tag): measure for tag, measure in measures.items()}
    return _Raw(table.rename(columns=names), left_out, said, runs, measures)


def _levels_told(levels, units):
    """Sentence on the levels of names where the first one is not that of the units."""
    _, first, values = levels
    if first == 1 or not {*units} & {*values[f"level {first}"]}:
        return
    others = [f"{level}: {listed(list(found), 4, quoted=False)}" for level, found in values.items()]
    yield f"units: {listed(list(units), 8, quoted=False)} are level {first} of the names ({'; '.join(others)})"


def _one_after_another(source, dialect, where):
    """One export, or several of a unit or plant, as they are in time: an :class:`.forms.ExportTable`."""
    parts = [one for one in files_of(source) if dialect.wants(tag_of_folder(one))] if is_folder(source) else source
    several = isinstance(parts, (list, tuple)) and len(parts) > 1
    tables, texts = [], []
    said: list[str] = []
    measures: dict[str, str] = {}
    for k, one in enumerate(parts if isinstance(parts, (list, tuple)) else [parts]):
        place = f"{where}, part {k}" if several else where
        place = without_password(str(one)) if isinstance(one, (str, Path)) else place
        table, words, told, runs, own = export_table(one, dialect, place, alone=not several)
        if several and isinstance(one, (str, Path)):
            table, words, own = named_by_file(table, words, own, one)
            table = table[[name for name in table if dialect.wants(name)]]
        measures |= own
        tables.append(table)
        texts += words
        said += told if not several else [f"{text} in {_part(one, k)}" for text in told]
    if not several:
        return ExportTable(tables[0], tuple(dict.fromkeys(texts)), tuple(said), runs, measures)
    check_known(list(dict.fromkeys(chain.from_iterable([*tables, texts]))), dialect, where)
    table, held = together(tables, where, dialect)
    return ExportTable(table, tuple(dict.fromkeys(texts)), (*said, *held), None, measures)


def _part(one, k):
    return Path(one).name if isinstance(one, (str, Path)) else f"part {k}"


def _joined(exports, dialect, clock):
    """Tables of all units side by side by their times."""
    check_unit_names([str(unit) for unit in exports])
    tables: dict[str, pd.DataFrame] = {}
    left_out: dict[str, str] = {}
    said: list[str] = []
    measures: dict[str, str] = {}
    for unit, export in exports.items():
        table, texts, told, _, own = _one_after_another(export, dialect, f"unit {unit!r}")
        measures |= {f"{unit}{SEPARATOR}{tag}": measure for tag, measure in own.items()}
        said += [f"{text} of {unit}" for text in told]
        left_out |= {f"{unit}{SEPARATOR}{text}": "holds no numbers" for text in texts}
        if clock and unit in clock:
            table.index = table.index + pd.Timedelta(clock[unit])
        tables[unit] = table.rename(columns=lambda tag, unit=unit: f"{unit}{SEPARATOR}{tag}")
    timed = [unit for unit, table in tables.items() if not is_numbering(table.index)]
    zoned = [unit for unit in timed if getattr(tables[unit].index, "tz", None) is not None]
    if 0 < len(timed) < len(tables) or 0 < len(zoned) < len(timed):
        missing = listed([unit for unit in tables if unit not in (zoned or timed)])
        raise ValueError(f"The records of {missing} have no {'zone' if zoned else 'times'} and others do: pass tz=....")
    if not timed and len({len(table) for table in tables.values()}) > 1:
        raise ValueError("The records of the units have no times and different numbers of rows; give them times.")
    if timed:
        steps = {unit: usual_step(table.index) for unit, table in tables.items()}
        even = [step for step in steps.values() if isinstance(step, EvenStep)]
        widest: Any = max(even, key=lambda step: step.size, default=None)
        is_usual = {unit: widest is None or step in (widest, None) for unit, step in steps.items()}
        gridded = {unit: on_grid(table, None if is_usual[unit] else widest.size) for unit, table in tables.items()}
        said += [f"{text} of {unit}" for unit, grid in gridded.items() for text in grid.said]
        tables = {unit: grid.frame[~grid.frame.index.duplicated(keep="last")] for unit, grid in gridded.items()}
    return _Raw(pd.concat(tables.values(), axis=1).sort_index(), left_out, said, None, measures)
