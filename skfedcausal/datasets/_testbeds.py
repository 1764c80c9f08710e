"""HAI and SWaT, records of two industrial testbeds that their owners give out on request."""

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import pandas as pd

from ..bases import Bunch
from ._records import check_list, plant_record, source_of

_HAI_OUTPUT = re.compile(
    r"^P\d_(\w*Z|PIT01_HH|[FLPTS]I?T\d+|VT\d+|VIBTR\d+|24Vdc|SCST|(HT|ST)_PO|ST_(GOV|PT\d+|TT\d+))$"
)
_HAI_TAG = re.compile(r"^P[1-4]_\w+$")
_SWAT_TAG = re.compile(r"^[A-Z]+\d\d\d$")
_SWAT_INPUTS = ("MV", "P", "UV")


def load_hai(path: str | PathLike[str], files: str | Sequence[str] | None = None, *, inputs: str = "outputs") -> Bunch:
    """Read records of the HAI testbed: boiler (P1), turbine (P2), water treatment (P3), simulation (P4).

    Parameters
    ----------
    path : str or path-like
        Folder with CSV files of one release (21.03: ``train1.csv``, ...; 22.04: the same; 23.05:
        ``hai-train1.csv``, ... with the labels of ``hai-test1.csv`` in ``label-test1.csv``), compressed or
        not; or one of these files, which then is the only one.
    files : str or sequence of str, default=None
        Names without endings, ``"train1"``; every file is an episode. None reads all files whose name
        has ``train`` in it.
    inputs : {"outputs", "separate", "drop"}, default="outputs"
        What to do with commands, set points and switches: see :func:`load_batadal`.

    Returns
    -------
    hai : Bunch
        ``lengths``, ``inputs``, ``sampling_period`` and ``DESCR`` as in :func:`load_tep`, and

        data : DataFrame of shape (n_samples, n_columns)
            Flat columns ``P1__P1_FT01``, indexed by time.
        labels : Series of bool
            Whether an attack is running; False in training files.
        files : list of str
            Names without endings.
        clients : list of str
            P1 to P4.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a file lacks the time, or the files differ in their tags.

    Notes
    -----
    The records are not shipped with the package, and this reader is tested on generated files of the
    documented layouts only. Roles follow the names of the tags: transmitters (FT, LIT, PIT, TIT, SIT, VT,
    VIBTR), valve positions (...Z) and the simulator's outputs are outputs, everything else is an input.

    References
    ----------
    .. [1] Shin, Lee, Yun, Kim (2020), HAI 1.0: HIL-based augmented ICS security dataset, USENIX CSET.
    """
    return _load(path, files, "train", inputs, _read_hai, _hai_column, source_of("hai"))


def load_swat(path: str | PathLike[str], files: str | Sequence[str] | None = None, *, inputs: str = "outputs") -> Bunch:
    """Read records of the SWaT testbed, six stages of water treatment P1 to P6.

    Parameters
    ----------
    path : str or path-like
        Folder with the records as CSV files, ``SWaT_Dataset_Normal_v1.csv`` and
        ``SWaT_Dataset_Attack_v0.csv``, compressed or not, or one of them; a first line with the stages'
        names is skipped.
    files : str or sequence of str, default=None
        Names without endings; every file is an episode. None reads all files whose name has ``Normal`` in
        it.
    inputs : {"outputs", "separate", "drop"}, default="outputs"
        What to do with valves (MV), pumps (P) and ultraviolet lamps (UV): see :func:`load_batadal`.

    Returns
    -------
    swat : Bunch
        As :func:`load_hai`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If a file lacks the time, or the files differ in their tags.

    Notes
    -----
    The records are given by iTrust on request only, and this reader is tested on generated files of the
    documented layout only. The client is the stage in the first digit of a tag.

    References
    ----------
    .. [1] Goh, Adepu, Junejo, Mathur (2016), A dataset to support research in the design of secure water
           treatment systems, CRITIS.
    """
    return _load(path, files, "Normal", inputs, _read_swat, _swat_column, source_of("swat"))


def _load(path, files, usual, inputs, read, column, source):
    """Record of a testbed: `read` gives a file's tags and attacks, `column` a tag's client and role."""
    found = _choose(path, files, usual, source)
    tables, labels = zip(*(read(file) for file in found.values()), strict=True)
    for name, table in zip(found, tables, strict=True):
        if list(table) != list(tables[0]):
            other = sorted(set(table) ^ set(tables[0])) or "another order"
            raise ValueError(f"Files {next(iter(found))} and {name} differ in their tags: {other}.")
    return plant_record(
        tables,
        [(tag, *column(tag)) for tag in tables[0]],
        source,
        inputs=inputs,
        labels=pd.concat(labels).rename("attack").astype(bool),
        files=list(found),
    )


def _choose(path, files, usual, source):
    """Paths of the wanted CSV files by name without endings."""
    folder = Path(path)
    if folder.is_file():
        files = folder.name.split(".csv")[0] if files is None else files
        folder = folder.parent
    known = {file.name.split(".csv")[0]: file for file in sorted(folder.glob("*.csv*"))}
    wanted = [name for name in known if usual in name] if files is None else files
    if files is None and not wanted:
        raise source.missing(f"the folder '{folder}' has no CSV file named *{usual}*")
    return {name: known[name] for name in check_list(wanted, known, "files")}


def _timed(table, names, file, dayfirst=False):
    """Table indexed by its time column, column names without blanks."""
    table = table.rename(columns=lambda name: str(name).strip())
    name = next((name for name in names if name in table), None)
    if name is None:
        raise ValueError(f"'{file}' has no column {' or '.join(names)}; it starts with {list(table)[:3]}.")
    times = pd.to_datetime(table[name].astype(str).str.strip(), dayfirst=dayfirst)
    return table.drop(columns=name).set_index(pd.DatetimeIndex(times, name="time"))


def _read_hai(file):
    """Tags and attacks; those are in a column of the table, or in a file of their own."""
    table = _timed(pd.read_csv(file, sep=None, engine="python"), ("timestamp", "time"), file)
    tags = table[[column for column in table if _HAI_TAG.match(column)]]
    for column in ("attack", "Attack"):
        if column in table:
            return tags, table[column] != 0
    other = file.with_name(file.name.replace("hai-", "label-", 1))
    if "test" in file.name and other != file and other.is_file():
        labels = pd.read_csv(other)["label"]
        if len(labels) != len(table):
            raise ValueError(f"'{other}' has {len(labels)} rows for {len(table)} of '{file}'.")
        return tags, pd.Series(labels.to_numpy() != 0, index=table.index)
    return tags, pd.Series(False, index=table.index)


def _hai_column(tag):
    return tag[:2], "output" if _HAI_OUTPUT.match(tag) else "input"


def _read_swat(file):
    """Tags in the order of the stages, and attacks; a line with the stages' names may stand above."""
    top = pd.read_csv(file, header=None, nrows=2, dtype=str).fillna("").iloc[0]
    lines = 0 if top.str.strip().eq("Timestamp").any() else 1
    table = pd.read_csv(file, skiprows=lines, skipinitialspace=True)
    table = _timed(table, ("Timestamp",), file, dayfirst=True)
    tags = sorted((column for column in table if _SWAT_TAG.match(column)), key=lambda tag: tag[-3])
    state = table.get("Normal/Attack", pd.Series("Normal", index=table.index)).astype(str)
    return table[tags], ~state.str.replace(" ", "").str.fullmatch("Normal")


def _swat_column(tag):
    return f"P{tag[-3]}", "input" if tag[:-3] in _SWAT_INPUTS else "output"
