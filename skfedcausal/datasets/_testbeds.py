"""HAI and SWaT, records of two industrial testbeds that their owners give on request."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from ._files import Source, check_list, client_names, flat_table, select_columns

__all__ = ["cross_client_columns", "load_hai", "load_swat"]

_HAI = Source(
    title="HAI (hardware-in-the-loop augmented industrial control system)",
    origin="GitHub repository icsdataset/hai (Git LFS), Kaggle icsdataset/hai-security-dataset",
    citation="H.-K. Shin et al., HAI security datasets (2023)",
    licence="CC BY-SA 4.0 by its README",
)
_SWAT = Source(
    title="SWaT (secure water treatment testbed), A1 and A2, December 2015",
    origin="iTrust, Singapore University of Technology and Design, on request",
    citation="A. P. Mathur and N. O. Tippenhauer, CySWater (2016), 31-36",
    licence="as agreed with iTrust, not to be passed on",
)
_HAI_OUTPUT = re.compile(
    r"^P\d_(\w*Z|PIT01_HH|[FLPTS]I?T\d+|VT\d+|VIBTR\d+|24Vdc|SCST|(HT|ST)_PO|ST_(GOV|PT\d+|TT\d+))$"
)
_HAI_TAG = re.compile(r"^P[1-4]_\w+$")
_SWAT_TAG = re.compile(r"^([A-Z]+)(\d)\d\d$")
_SWAT_INPUTS = ("MV", "P", "UV")


def load_hai(path, files=None, *, inputs="outputs"):
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
        data : DataFrame of shape (n_samples, n_columns)
            Flat columns ``P1__P1_FT01``, indexed by time.
        labels : Series of bool
            Whether an attack is running; False in training files.
        lengths : list of int
            Rows of each file.
        files : list of str
            Names without endings.
        clients : list of str
            P1 to P4.
        inputs : list of str
            Flat names of the inputs if ``inputs="separate"``.
        variables : DataFrame
            One row per column of `data`: name, column, client, role.
        sampling_period : float
            Seconds.
        DESCR : str
            What the records are and where they come from.

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
    found = _records(path, files, "train", _HAI)
    tables, labels = [], []
    for name, file in found.items():
        table = _timed(pd.read_csv(file, sep=None, engine="python"), ("timestamp", "time"), file)
        tables.append(table[[column for column in table if _HAI_TAG.match(column)]])
        labels.append(_hai_labels(table, name, file))
    _check_same_columns(tables, found)
    columns = list(tables[0])
    variables = pd.DataFrame(
        {
            "column": columns,
            "client": [column[:2] for column in columns],
            "role": ["output" if _HAI_OUTPUT.match(column) else "input" for column in columns],
        }
    )
    return _bunch(tables, labels, variables, inputs, list(found), _HAI, "Four processes, 1 Hz.")


def load_swat(path, files=None, *, inputs="outputs"):
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
    found = _records(path, files, "Normal", _SWAT)
    tables, labels = [], []
    for file in found.values():
        table = pd.read_csv(file, skiprows=_group_line(file), skipinitialspace=True)
        table = _timed(table, ("Timestamp",), file, dayfirst=True)
        tables.append(table[[column for column in table if _SWAT_TAG.match(column)]])
        told = table.get("Normal/Attack", pd.Series("Normal", index=table.index)).astype(str)
        labels.append(~told.str.replace(" ", "").str.fullmatch("Normal"))
    _check_same_columns(tables, found)
    columns = list(tables[0])
    parts = [_SWAT_TAG.match(column).groups() for column in columns]
    variables = pd.DataFrame(
        {
            "column": columns,
            "client": [f"P{stage}" for _, stage in parts],
            "role": ["input" if kind in _SWAT_INPUTS else "output" for kind, _ in parts],
        }
    ).sort_values("client", kind="stable", ignore_index=True)
    return _bunch(tables, labels, variables, inputs, list(found), _SWAT, "Six stages, 1 Hz.")


def _records(path, files, default, source):
    """Paths of the wanted CSV files by name without endings."""
    folder = Path(path)
    if folder.is_file():
        files = folder.name.split(".csv")[0] if files is None else files
        folder = folder.parent
    known = {file.name.split(".csv")[0]: file for file in sorted(folder.glob("*.csv*"))}
    usual = [name for name in known if default in name]
    if not usual and files is None:
        raise FileNotFoundError(
            f"{source.title}: the folder '{folder}' has no CSV file named *{default}*. skfedcausal "
            f"neither ships nor downloads these data; they can be had from: {source.origin}."
        )
    return {name: known[name] for name in check_list(usual if files is None else files, known, "files")}


def _timed(table, names, file, dayfirst=False):
    """Table indexed by its time column, column names without blanks."""
    table = table.rename(columns=lambda name: str(name).strip())
    name = next((name for name in names if name in table), None)
    if name is None:
        raise ValueError(f"'{file}' has no column {' or '.join(names)}; it starts with {list(table)[:3]}.")
    times = pd.to_datetime(table[name].astype(str).str.strip(), dayfirst=dayfirst)
    return table.drop(columns=name).set_index(pd.DatetimeIndex(times, name="time"))


def _hai_labels(table, name, file):
    """Whether an attack is running: a column of the table, or a file of its own."""
    for column in ("attack", "Attack"):
        if column in table:
            return table[column] != 0
    other = file.with_name(file.name.replace("hai-", "label-", 1))
    if "test" in name and other != file and other.is_file():
        told = pd.read_csv(other)
        if len(told) != len(table):
            raise ValueError(f"'{other}' has {len(told)} rows for {len(table)} of '{file}'.")
        return pd.Series(told["label"].to_numpy() != 0, index=table.index)
    return pd.Series(False, index=table.index)


def _group_line(file):
    """Number of lines before the one that holds the column names."""
    lines = pd.read_csv(file, header=None, nrows=2, dtype=str).fillna("")
    return 0 if lines.iloc[0].str.strip().eq("Timestamp").any() else 1


def _check_same_columns(tables, found):
    first = next(iter(found))
    for name, table in zip(found, tables, strict=True):
        if list(table) != list(tables[0]):
            other = sorted(set(table) ^ set(tables[0]))
            raise ValueError(f"Files {first} and {name} differ in their tags: {other or 'another order'}.")


def _bunch(tables, labels, variables, inputs, files, source, text):
    variables, input_names = select_columns(variables, inputs)
    labels = pd.concat(labels).rename("attack")
    return Bunch(
        data=flat_table(pd.concat(tables), variables),
        labels=labels.astype(bool),
        lengths=[len(table) for table in tables],
        files=files,
        clients=client_names(variables),
        inputs=input_names,
        variables=variables,
        sampling_period=1.0,
        DESCR=source.describe(text),
    )


def cross_client_columns(data, threshold=0.3):
    """Columns that vary and go along with another client's.

    The first papers keep the measurements whose Pearson correlation with a measurement of another client is
    at least 0.3 in absolute value.

    Parameters
    ----------
    data : DataFrame
        Flat columns ``client__sensor``.
    threshold : float, default=0.3

    Returns
    -------
    list of str
        Names of the kept columns, in their order.

    Raises
    ------
    ValueError
        If nothing is left of a client.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skfedcausal.datasets import cross_client_columns
    >>> x = np.arange(10.0)
    >>> table = pd.DataFrame({'mill__a': x, 'mill__b': x % 2, 'kiln__a': -x})
    >>> cross_client_columns(table)
    ['mill__a', 'kiln__a']
    """
    varying = data.loc[:, data.nunique(dropna=True) > 1]
    clients = np.array([name.split("__")[0] for name in varying])
    correlation = np.abs(varying.corr().to_numpy())
    correlation[clients[:, None] == clients] = 0.0
    kept = varying.columns[np.nan_to_num(correlation).max(axis=1, initial=0.0) >= threshold].tolist()
    lost = {name.split("__")[0] for name in data} - {name.split("__")[0] for name in kept}
    if lost:
        raise ValueError(
            f"No column of {', '.join(sorted(lost))} has a correlation of {threshold} with another client's. "
            "Lower the threshold or leave the client out."
        )
    return kept
