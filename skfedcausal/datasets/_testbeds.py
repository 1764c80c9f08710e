"""HAI and SWaT, records of two testbeds that their owners give out on request, and their preparation."""

import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from ..arguments import check_choice
from ..bases import Bunch
from ._records import check_list, plant_record, source_of
from .tuning import TUNING

# HAI and SWaT, records of two industrial testbeds that their owners give out on request.

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


# Preparation of the records of HAI and SWaT before a fit, as in the second paper.


def discrete_columns(
    data: pd.DataFrame, *, max_values: int = 10, min_changes: float = 0.01, dominance: float = 0.99
) -> list[str]:
    """Columns that take few values or stay at one: switches and what behaves like them.

    The second paper drops "boolean-like and quasi-discrete channels with low transition counts or extreme
    dominance" and gives no thresholds; these are ours.

    Parameters
    ----------
    data : DataFrame
    max_values : int, default=10
        A column with at most so many values is discrete if it changes seldom.
    min_changes : float, default=0.01
        Seldom: in less than this share of the time steps.
    dominance : float, default=0.99
        A column that spends more than this share of its time at one value is discrete however many it takes.

    Returns
    -------
    list of str
        Names of these columns; every one with at most three values is among them.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skfedcausal.datasets import discrete_columns
    >>> data = pd.DataFrame({"pump": [1, 1, 2, 2, 2, 1], "level": [0.1, 0.4, 0.2, 0.9, 0.8, 0.3]})
    >>> discrete_columns(data)
    ['pump']
    """
    found = []
    for name in data:
        values = data[name].dropna()
        counts = values.value_counts()
        changes = (values.to_numpy()[1:] != values.to_numpy()[:-1]).mean() if len(values) > 1 else 0.0
        seldom = len(counts) <= max_values and changes < min_changes
        stuck = len(counts) > 0 and counts.iloc[0] > dominance * len(values)
        if len(counts) <= TUNING.preparation_switch or seldom or stuck:
            found.append(str(name))
    return found


def cross_client_columns(data: pd.DataFrame, threshold: float = 0.3) -> list[str]:
    """Columns that vary and correlate with a column of another client.

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
    clients = np.array([str(name).split("__")[0] for name in varying])
    correlation = np.abs(varying.corr().to_numpy())
    correlation[clients[:, None] == clients] = 0.0
    kept = varying.columns[np.nan_to_num(correlation).max(axis=1, initial=0.0) >= threshold].tolist()
    wanted = f"has a correlation of {threshold} with another client's. Lower the threshold or leave the client out"
    _check_clients(data, kept, "No column of {} " + wanted)
    return kept


def prepare_records(
    data: pd.DataFrame,
    inputs: Sequence[str],
    *,
    n_rows: int | None = None,
    discrete_inputs: str = "keep",
    input_noise: float = 0.0,
    correlation: float | None = None,
    random_state: Any = None,
) -> Bunch:
    """Columns that vary, split into inputs and measurements and standardised, as in the second paper.

    Parameters
    ----------
    data : DataFrame
        Flat columns ``client__column``.
    inputs : sequence of str
        Which of them are inputs.
    n_rows : int, default=None
        Use the first rows only; what is constant there is dropped too.
    discrete_inputs : {"keep", "drop", "bits"}, default="keep"
        What to do with inputs that :func:`discrete_columns` names: nothing, leave them out (HAI), or read
        those with at most three values as on (their largest value) or off, whatever they call it (SWaT).
    input_noise : float, default=0.0
        Standard deviation of Gaussian noise that is added to discrete inputs, in units of their own: the
        paper adds some so that a pooled subspace method does not fail.
    correlation : float, default=None
        Keep only measurements whose correlation with another client's is at least this in absolute value.
    random_state : int, RandomState instance or None, default=None
        For the noise.

    Returns
    -------
    Bunch
        With these entries:

        - ``data`` (DataFrame): columns in their order, mean 0 and standard deviation 1 (before the noise);
        - ``inputs`` (list of str);
        - ``scaling`` (DataFrame): columns ``mean`` and ``std`` of each column, to go back to its units;
        - ``dropped`` (Series): why each other column was left out: "constant", "constant in the first rows",
          "discrete" or "alone" (correlated with no other client's).

    Raises
    ------
    ValueError
        If an input is not a column, or no measurement is left of a client.
    """
    unknown = [name for name in inputs if name not in data]
    if unknown:
        raise ValueError(f"Inputs {unknown} are not columns of the data.")
    check_choice("discrete_inputs", discrete_inputs, ("keep", "drop", "bits"))
    dropped: dict[str, str] = {}

    def without(table, names, reason):
        dropped.update(dict.fromkeys(names, reason))
        return table.drop(columns=list(names))

    rows = without(data, _constant(data), "constant").iloc[:n_rows].astype(float)
    rows = without(rows, _constant(rows), "constant in the first rows")
    discrete = discrete_columns(rows)
    switches = [name for name in discrete if name in inputs]
    left_out = [name for name in discrete if discrete_inputs == "drop" or name not in inputs]
    rows = without(rows, left_out, "discrete")
    kept_inputs = [name for name in inputs if name in rows]
    if discrete_inputs == "bits":
        for name in switches:
            if rows[name].nunique() <= TUNING.preparation_switch:
                rows[name] = (rows[name] == rows[name].max()).astype(float)
    if correlation is not None:
        outputs = rows.drop(columns=kept_inputs)
        rows = without(rows, set(outputs) - set(cross_client_columns(outputs, correlation)), "alone")
    wanted = "No measurement is left of {}. Take more rows, or leave the client out with its inputs"
    _check_clients(data, rows.columns.difference(kept_inputs), wanted)
    scaling = pd.DataFrame({"mean": rows.mean(), "std": rows.std(ddof=0)})
    rows = (rows - scaling["mean"]) / scaling["std"]
    noisy = [name for name in switches if name in rows and input_noise]
    if noisy:
        rng = check_random_state(random_state)
        rows[noisy] += input_noise * rng.standard_normal((len(rows), len(noisy)))
    reasons = pd.Series({name: dropped[name] for name in data if name in dropped}, dtype=object)
    return Bunch(data=rows, inputs=kept_inputs, scaling=scaling, dropped=reasons.rename("reason"))


def prepare_hai(hai: Bunch, *, n_rows: int | None = None) -> Bunch:
    """Preprocessing of the HAI testbed's records in the second paper (its section 13.2).

    Constant columns are dropped, before and after truncation, so are discrete ones; inputs and measurements
    go by the family of their tag; everything is standardised.

    Parameters
    ----------
    hai : Bunch
        From ``load_hai(..., inputs="separate")``.
    n_rows : int, default=None

    Returns
    -------
    Bunch
        As :func:`prepare_records`.
    """
    return prepare_records(hai.data, _separate(hai), n_rows=n_rows, discrete_inputs="drop")


def prepare_swat(
    swat: Bunch,
    *,
    n_rows: int = 30_000,
    input_noise: float = 0.05,
    correlation: float | None = 0.3,
    random_state: Any = None,
) -> Bunch:
    """Preprocessing of the SWaT testbed's records in the second paper (its sections 9.2 and 13.2).

    Constant columns are dropped, before and after truncation, so are discrete measurements; actuators become
    bits; measurements that go along with no other stage's are dropped; everything is standardised and the
    actuators get a little noise.

    Parameters
    ----------
    swat : Bunch
        From ``load_swat(..., inputs="separate")``.
    n_rows : int, default=30_000
    input_noise : float, default=0.05
        The paper says "small".
    correlation : float or None, default=0.3
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    Bunch
        As :func:`prepare_records`.
    """
    settings: dict[str, Any] = {"n_rows": n_rows, "input_noise": input_noise, "correlation": correlation}
    settings |= {"discrete_inputs": "bits", "random_state": random_state}
    return prepare_records(swat.data, _separate(swat), **settings)


def _separate(record):
    if not record.inputs:
        raise ValueError("The record has no inputs: load it with inputs='separate'.")
    return record.inputs


def _constant(data):
    return [name for name in data if data[name].nunique(dropna=True) <= 1]


def _check_clients(before, after, complaint):
    """Refuse columns that leave out clients of those before."""
    lost = sorted({name.split("__")[0] for name in before} - {name.split("__")[0] for name in after})
    if lost:
        raise ValueError(f"{complaint.format(', '.join(lost))}.")
