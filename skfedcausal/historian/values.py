"""Values and quality codes of an export as floats, NaN where a value is not good."""

import re

import numpy as np
import pandas as pd

from ..containers.layout import listed

# what historians write in place of a value, lower case
BAD_TEXTS = frozenset(
    "|".join(
        [
            "bad|bad input|bad data|bad value|no data|nodata|no good data|no value|null|none|nan|na|n/a|#n/a",
            "-|--|?|err|error|#value!|#error|i/o timeout|io timeout|timeout|comm fail|comm failure|offline",
            "not connected|disconnected|off line|scan off|pt created|shutdown|configure|calc failed",
            "arc off-line|over range|under range|out of service|equip fail|failed|invalid|unknown|missing",
            "uncertain",
        ]
    ).split("|")
)
_GOOD = {"good", "ok", "g", "true", "valid", "normal"}
_UNCERTAIN = {"uncertain", "questionable", "substituted"}
_DECIMAL_COMMA = re.compile(r"^[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+(?:[eE][+-]?\d+)?$")
_OPC_DA_GOOD, _OPC_DA_UNCERTAIN = 192, 64


def to_numbers(values, bad_values, where):
    """Column of an export as floats.

    Parameters
    ----------
    values : Series
        Numbers or text.
    bad_values : frozenset of str
        Lower-case texts that stand for no good value.
    where : str
        Column and unit, for the error.

    Returns
    -------
    ndarray of shape (n_rows,)

    Raises
    ------
    ValueError
        If there is text that is neither a number nor known to be bad.
    """
    if pd.api.types.is_bool_dtype(values) or pd.api.types.is_numeric_dtype(values):
        numbers = values.to_numpy(dtype=float, na_value=np.nan)
        return np.where(np.isinf(numbers), np.nan, numbers)
    texts = values.astype("string").str.strip()
    numbers = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    left = np.isnan(numbers) & texts.notna().to_numpy() & (texts != "").fillna(False).to_numpy(dtype=bool)
    commas = left & texts.str.match(_DECIMAL_COMMA).fillna(False).to_numpy(dtype=bool)
    plain = texts[commas].str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    numbers[commas] = plain.to_numpy(dtype=float)
    unknown = [text for text in texts[left & ~commas].unique() if text.lower() not in bad_values]
    if unknown:
        raise ValueError(
            f"Got {unknown[0]!r} in {where}, which is neither a number nor a known mark of bad quality. Map "
            f"states to numbers, leave the column out, or name the marks: bad_values={unknown[:5]!r}."
        )
    return np.where(np.isinf(numbers), np.nan, numbers)


def is_good(quality, good, keep_uncertain, where):
    """Which rows have a quality code that stands for a good value.

    Parameters
    ----------
    quality : Series
        Codes of OPC DA (192 is good), OPC UA (0 is good), per cent (100 is good), 0 or 1, or words.
    good : None, collection or callable
        Codes that are good, or a function of a code; None recognises the kinds above.
    keep_uncertain : bool
    where : str

    Returns
    -------
    ndarray of bool of shape (n_rows,)

    Raises
    ------
    ValueError
        If the codes could mean either.
    """
    if callable(good):
        return np.array([bool(good(code)) for code in quality], dtype=bool)
    if good is not None:
        wanted = {str(code).strip().lower() for code in good}
        return _words(quality).isin(wanted).to_numpy(dtype=bool)
    numbers = pd.to_numeric(quality, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    if np.isnan(numbers).all():
        words = _words(quality)
        known = _GOOD | (_UNCERTAIN if keep_uncertain else set())
        first = words.str.split(r"[,;:\s]", n=1, regex=True).str[0]
        return first.isin(known).fillna(False).to_numpy(dtype=bool)
    return _good_codes(numbers, keep_uncertain, where)


def _words(quality):
    return quality.astype("string").str.strip().str.lower()


def _good_codes(codes, keep_uncertain, where):
    """Numeric codes, by the standard they can only belong to."""
    present = codes[~np.isnan(codes)]
    largest = present.max(initial=0.0)
    known = ~np.isnan(codes)
    whole = np.where(known, codes, 0).astype(np.int64)
    if largest >= 2**30:  # OPC UA: the two highest of 32 bits
        severity = whole >> 30
        return known & ((severity == 0) | (keep_uncertain & (severity == 1)))
    if largest >= _OPC_DA_GOOD:  # OPC DA: the two highest of eight bits
        status = whole & _OPC_DA_GOOD
        return known & ((status == _OPC_DA_GOOD) | (keep_uncertain & (status == _OPC_DA_UNCERTAIN)))
    if largest in (1.0, 100.0):
        return known & (codes == largest)
    raise ValueError(
        f"The quality codes of {where} are {listed(np.unique(present), 6)}: zero is good in OPC UA, bad in "
        "OPC DA. Say which codes are good: good=[...]."
    )
