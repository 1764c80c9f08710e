"""Modes in a column of words or numbers."""

import warnings

import numpy as np

from .layout import SEPARATOR, listed

_FEWEST_ROWS = 10  # of a mode that a level can be learned from
_FEWEST_PER_MODE = 20  # rows for each mode on average, else a column tells something else


def is_called(name, column):
    """Whether a flat name is that of a column, or its tag is."""
    return name == column or (SEPARATOR not in column and name.partition(SEPARATOR)[2] == column)


def modes_in(values, name):
    """Modes in a column without missing values, in order."""
    counts = values.value_counts()
    labels = sorted(counts.index.tolist(), key=lambda label: (isinstance(label, str), label))
    if len(labels) * _FEWEST_PER_MODE > len(values):
        raise ValueError(
            f"{name!r} has {len(labels)} different values in {len(values)} rows: it tells no mode. Give a column of a "
            "few modes, or name it in `input_columns` if it is a quantity."
        )
    rare = [label for label in labels if counts[label] < _FEWEST_ROWS]
    if rare:
        raise ValueError(
            f"Mode(s) {listed(rare)} in {name!r} have fewer than {_FEWEST_ROWS} rows in what is nominal, too few to "
            "learn a level from. Give more rows of them, join them with another mode, or leave those rows out."
        )
    return tuple(labels)


def mode_codes(values, labels):
    """Places of modes among those known, their number for others, NaN where missing; and the others."""
    places = {label: float(k) for k, label in enumerate(labels)}
    values = values.astype(object)
    found = {value: places.get(value, float(len(places))) for value in values.dropna().unique().tolist()}
    return values.map(found).to_numpy(dtype=float), [value for value in found if value not in places]


def warn_of_mode(value, name, labels, what, stacklevel):
    """Name a mode that is not known, and what is done about it."""
    warnings.warn(
        f"mode {value!r} of {name!r} was not in what was nominal: {what}. The watch goes on. Known are "
        f"{listed(labels)}.",
        UserWarning,
        stacklevel=stacklevel + 1,
    )


def mode_indicators(codes, n_codes):
    """Indicators of all modes but the first, (n_rows, n_codes - 1), from a column of codes (n_rows, 1)."""
    return (codes == np.arange(1, n_codes)).astype(float)
