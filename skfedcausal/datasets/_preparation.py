"""Preparation of the records of HAI and SWaT before a fit, as in the second paper."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from ..bases import Bunch

from ..arguments import check_choice
from .tuning import TUNING


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
