"""Modes in a column of words or numbers."""

from math import isfinite, isnan, nan
from numbers import Real

import numpy as np
import pandas as pd

from ..callers import warn
from .layout import SEPARATOR, listed
from .tuning import TUNING

_BOOLEANS = {"true": True, "false": False}


def is_called(name, column):
    """Whether a flat name is that of a column, or its tag is."""
    return name == column or (SEPARATOR not in column and name.partition(SEPARATOR)[2] == column)


def plain_modes(values):
    """A column of modes as numbers, words and booleans, NaN where it is missing or blank.

    Each value is read by itself: one and the same mode is a number in a batch that holds numbers alone, and a text in
    one with a word.
    """
    places, found = _factorised(values)
    return pd.Series(np.array(found, dtype=object)[places])


def _factorised(values):
    """Places of values among the different ones, and these as plain modes, of which the last one is missing."""
    places, found = pd.factorize(np.asarray(values, dtype=object))
    return places, [*map(_plain, found), nan]  # missing ones have the place -1


def _plain(value):
    """A mode as a number or boolean where it is one, also as a text, else as a text; NaN for a blank."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    text = str(value).strip()
    if text.lower() in _BOOLEANS:
        return _BOOLEANS[text.lower()]
    try:
        number = nan if not text else float(value if isinstance(value, Real) else text)
    except (ValueError, OverflowError):
        return text
    if not (isfinite(number) or isnan(number)) or "_" in text:  # words, as readers of files have them
        return text
    return int(number) if number.is_integer() else number


def modes_in(values, name):
    """Modes in a column, in order."""
    values = plain_modes(values).dropna()
    counts = values.value_counts()
    labels = sorted(counts.index.tolist(), key=lambda label: (isinstance(label, str), label))
    if len(labels) * TUNING.modes_fewest_per_mode > len(values):
        raise ValueError(
            f"{name!r} has {len(labels)} different values in {len(values)} rows: it does not name a mode. Give a "
            "column of a few modes, or name it in `input_columns` if it is a quantity."
        )
    rare = [label for label in labels if counts[label] < TUNING.modes_fewest_rows]
    if rare:
        raise ValueError(
            f"Mode(s) {listed(rare)} in {name!r} have fewer than {TUNING.modes_fewest_rows} rows in what is nominal, "
            "too few to "
            "learn a level from. Give more rows of them, join them with another mode, or leave those rows out."
        )
    return tuple(labels)


def mode_codes(values, labels):
    """Places of modes among those known, their number for others, NaN where missing; and the others."""
    known = {label: float(k) for k, label in enumerate(labels)}
    places, found = _factorised(values)
    codes = [nan if pd.isna(value) else known.get(value, float(len(known))) for value in found]
    unknown = [value for value in found if not pd.isna(value) and value not in known]
    return np.array(codes)[places], list(dict.fromkeys(unknown))


def warn_of_mode(value, name, labels, what):
    """Name a mode that is not known, and what is done about it."""
    warn(
        f"mode {value!r} of {name!r} was not in what was nominal: {what}. Monitoring continues. Known are "
        f"{listed(labels)}.",
    )


def mode_indicators(codes, n_codes):
    """Indicators of all modes but the first, (n_rows, n_codes - 1), from a column of codes (n_rows, 1)."""
    return (codes == np.arange(1, n_codes)).astype(float)
