"""Words of exports: time stamps on one clock, and units of measurement."""

import re
import tomllib
import warnings
from importlib.resources import files
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pandas as pd

from ..arguments import warn
from ..containers.rows import repeated_text, times_back, unit_since_1970
from .tuning import TUNING

# Words of exports, and their time stamps on one clock: formats, zones, the hour that occurs twice.

WORDS = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8"))
TIME_NAMES, BAD_TEXTS = WORDS["columns"]["time"], frozenset(WORDS["values"]["bad"])
JOINTS = "__", ".", "_", " ", ":", "/", "-"  # between a tag and the word for its quality
DECIMAL_COMMA = re.compile(r"^[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+),\d+(?:[eE][+-]?\d+)?$")
_EXCEL_DAYS, _EXCEL_ORIGIN = (20_000, 80_000), pd.Timestamp("1899-12-30")  # of 1954 to 2119
_EAST = re.compile(r"(?<=\d)[年月](?=\d)")  # between the parts of a date, as 日 is behind it
_DOTTED = re.compile(r"\d\S+ \d{1,2}\.\d{2}(?:\.\d{2})?$")  # a date, and hours with points
_MIDNIGHT = re.compile(r"((?:^|[T ]))24(:00(?::00(?:\.0+)?)?)\b")  # the end of a day
_COMPACT = {14: "%Y%m%d%H%M%S", 12: "%Y%m%d%H%M", 10: "%Y%m%d%H"}
_UNTIL = re.compile(r"\s+[-–]\s+(?=\d{1,4}[-./]\d{1,2}[-./]\d{1,4}\b).*$")  # the end of a span
_ENGLISH = {word: month for month, words in WORDS["months"].items() for word in words}
_MONTHS = re.compile(rf"\b({'|'.join(_ENGLISH)})\b", re.IGNORECASE)
_IN_ZONE = re.compile(r"\d ([A-Z]{3,4})$")
_ZONE = "Pass tz=..., the zone of the clock that wrote it, such as tz='Europe/Berlin'"
_WHICH_FIRST = "Pass dayfirst=True or dayfirst=False (--dayfirst, --no-dayfirst)"
_REMEDIES = {
    "episodes": "Read them as records of their own: PlantTable.read(..., fix='episodes'), or one file each",
    "no order": "Some times occur twice in it; keep one row of each",
}


def plain_name(name):
    """Name of a column as it is looked for among those that are known: ``_VALUE`` and ``$Time``, too."""
    name = name.strip().lower()
    return name.lstrip("_$") or name


def is_told(name):
    """Whether a column holds times, names or qualities, which are read as they are written."""
    name = plain_name(name)
    values = "value", "measure", "number"
    plain = {word for role, words in WORDS["columns"].items() if role not in values for word in words}
    plain = plain.union(*WORDS["dates"].values())
    ends = tuple(joint + word for word in WORDS["columns"]["quality"] for joint in JOINTS)
    return name in plain or name.endswith(ends)


def parse_times(column, dayfirst, where):
    """Times from text, numbers since 1970 or times: UTC where they carry an offset, else as they came."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return pd.DatetimeIndex(column)
    is_number = pd.api.types.is_numeric_dtype(column)
    texts = column if is_number else column.astype(str).str.strip()
    times = None if is_number else of_plain_stamps(texts)
    if times is not None:
        return times
    numbers = pd.to_numeric(texts, errors="coerce")
    if not is_number and "," in texts.iloc[0] and numbers.isna().all():  # days of Excel with decimal commas
        numbers = pd.to_numeric(texts.str.replace(",", "."), errors="coerce")
    if is_number or numbers.notna().all():
        return _since_1970(numbers.to_numpy(dtype=float), where)
    if texts.str.match(r"^\d{1,2}:\d{2}").all():
        raise ValueError(f"The times of {where} have no date ({texts.iloc[0]!r}). Give it in a column 'date'.")
    texts = _western(texts).str.replace(r"(\d),(\d+)$", r"\1.\2", regex=True)  # fractions of seconds
    written, texts = texts, texts.str.replace(_MIDNIGHT, r"\g<1>00\2", regex=True)
    midnight = written != texts
    offset = texts.str.contains(r"(?:Z|[+-]\d{2}:?\d{2})$", regex=True)
    codes, stamps = pd.factorize(texts)
    options = {"dayfirst": _day_first(texts, dayfirst, where), "utc": bool(offset.any())}
    times = pd.DatetimeIndex(_read_stamps(pd.Series(stamps), options, where))[codes]
    return times + pd.to_timedelta(midnight.to_numpy().astype(int), unit="D") if midnight.any() else times


_PLAIN = r"\d{4}-\d{2}-\d{2}[ T](?:[01]\d|2[0-3]):\d{2}(?::\d{2}(?:\.\d{1,9})?)?"  # what can be read one way only


def of_plain_stamps(texts):
    """Times of texts such as 2026-03-01 08:00:00, a block of rows after the other; None where there are others."""
    parts = []
    for start in range(0, len(texts), TUNING.times_block):
        block = texts.iloc[start : start + TUNING.times_block]
        if not block.str.fullmatch(_PLAIN).all():
            return None
        try:
            parts.append(pd.DatetimeIndex(pd.to_datetime(block, format="ISO8601")))
        except ValueError:  # a day that is none
            return None
    return parts[0].append(parts[1:]) if parts else None


_LIKE_TIMES = re.compile(r"^\s*\D{0,10}\d{1,4}[-./ ,]+(?:\d{1,2}|[^\W\d]{3,9})[-./ ,]+\d{1,4}(?:\b|T).*")


def are_times(texts):
    """Whether texts are times: all but few, which may be remarks below a table."""
    texts = _western(texts.dropna().astype(str).str.strip())
    like = texts.str.match(_LIKE_TIMES)
    if not len(texts) or like.mean() < TUNING.times_most:
        return False
    english = _in_english(texts[like])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        times = pd.to_datetime(english, format="mixed", errors="coerce", utc=True)
    return bool(times.notna().mean() >= TUNING.times_most)


def _in_english(texts):
    """Times with the names of their months in English."""
    return texts.str.replace(_MONTHS, lambda found: _ENGLISH[found[0].lower()], regex=True)


def _western(texts):
    """Times with the marks that are read, all of them written as the first one: 2026年03月01日, 01/03/2026 06.00."""
    first = texts.iloc[0] if len(texts) else ""
    if _EAST.search(first):
        texts = texts.str.replace(_EAST, "-", regex=True).str.replace("日", " ").str.strip()
    for half, letters in (("上午", "AM"), ("下午", "PM")) if "午" in first else ():
        texts = texts.str.replace(rf"{half}\s*(\S+)$", rf"\1 {letters}", regex=True)
    if _UNTIL.search(first):
        texts = texts.str.replace(_UNTIL, "", regex=True)
    if _IN_ZONE.search(first):
        for offset, names in WORDS["zones"].items():
            texts = texts.str.replace(rf" (?:{'|'.join(names)})$", offset, regex=True)
    return texts.str.replace(r"\.(?=\d{2}(?:\.\d{2})?$)", ":", regex=True) if _DOTTED.match(first) else texts


def _read_stamps(stamps, options, where):
    """Times in one format, or where there are several each in its own, which takes much longer."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # no format could be inferred
            return pd.to_datetime(stamps, **options)
    except (ValueError, UserWarning):
        pass  # read below, where the error is told
    try:
        return pd.to_datetime(stamps, format="mixed", **options)
    except ValueError as error:
        english = _in_english(stamps)
        if not english.equals(stamps):
            return _read_stamps(english, options, where)
        remedy = "Write them as 2026-03-01 08:00:00, or name another column as the time"
        raise ValueError(f"Cannot read the times of {where}: {str(error).rstrip('.')}. {remedy}.") from None


def _since_1970(numbers, where):
    if not np.isfinite(numbers).all():
        raise ValueError(f"Times are missing in {where}; drop those rows.")
    if _are_excel_days(numbers):
        slow = len(numbers) > 1 and np.median(np.abs(np.diff(numbers))) > TUNING.times_slow_days
        return (_EXCEL_ORIGIN + pd.to_timedelta(numbers, unit="D")).round("s" if slow else "ms")
    compact = compact_form(numbers)
    if compact is not None:
        stamps = pd.to_datetime(pd.Series(numbers).map("{:.0f}".format), format=compact, errors="coerce")
        if stamps.notna().all():
            return pd.DatetimeIndex(stamps)
    unit = unit_since_1970(np.abs(numbers).max(initial=0))
    return pd.DatetimeIndex(pd.to_datetime(numbers, unit=unit, utc=True))


def compact_form(numbers):
    """Format of numbers such as 20260301080000, by the first; None of others."""
    first = f"{numbers[0]:.0f}" if len(numbers) else ""
    form = _COMPACT.get(len(first))
    time = pd.NaT if form is None else pd.to_datetime(first, format=form, errors="coerce")
    return form if time is not pd.NaT and 1950 <= time.year < 2100 else None


def _are_excel_days(numbers):
    """Whether numbers are days since 1900 as Excel counts them: of our time, and closer than a day to each other."""
    low, high = _EXCEL_DAYS
    if not len(numbers) or not ((numbers > low) & (numbers < high)).all():
        return False
    steps = np.abs(np.diff(numbers))
    return bool((numbers % 1).any() and (len(steps) == 0 or 0 < np.median(steps) < 1))


def _day_first(texts, dayfirst, where):
    """Whether the day comes first in 26.10.2025 or 10/26/2025."""
    parts = texts.str.extract(r"^(\d{1,2})([./-])(\d{1,2})\2\d{2,4}")
    if parts[0].isna().all():
        return False  # year first
    if dayfirst is not None:
        return dayfirst
    if (parts[1] == ".").any():
        return True
    first, second = parts[0].astype(float).max(), parts[2].astype(float).max()
    if first > 12 or second > 12:
        return bool(first > 12)
    raise ValueError(f"The dates of {where} can be read both ways: {texts.iloc[0]!r}. {_WHICH_FIRST}.")


def on_one_clock(times, tags, tz, where, strict=True):
    """Local times as UTC; times with a zone or without any known zone stay as they are.

    Not `strict`: times that go back where no zone is known stay as they are, too.
    """
    if times.tz is not None:
        return times.tz_convert("UTC") if strict else times
    if tz is None and not strict:
        return times
    if tz is None:
        for rows in _series(tags, len(times)):
            own = times[rows]
            own = own[::-1] if _newest_first(own) else own
            kind, text = times_back(own)[0], repeated_text(own)
            if text is not None and not (kind == "no order" and own.is_unique):  # those are sorted
                raise ValueError(f"{text} Found in {where}. {_REMEDIES.get(kind, _ZONE)}; nothing was dropped.")
        return times
    try:
        zone = ZoneInfo(tz)
    except (ZoneInfoNotFoundError, TypeError, ValueError) as error:
        raise ValueError(f"tz={tz!r} is not a time zone; give its name, such as 'Europe/Berlin'.") from error
    earlier = np.ones(len(times), dtype=bool)
    ambiguous = times.tz_localize(zone, ambiguous="NaT", nonexistent="shift_forward").isna()
    if ambiguous.any():
        once = [_mark_second(times, rows[ambiguous[rows]], earlier) for rows in _series(tags, len(times))]
        if not any(once):
            first = times[ambiguous][0]
            warn(
                f"The hour from {first:%H:%M} on {first.day} {first:%B %Y} should occur twice in {where} and "
                "is there once; taken as the first, before the clock was put back."  # the caller of read_historian
            )
    local = times.tz_localize(zone, ambiguous=earlier, nonexistent="NaT")
    missing = times[local.isna() & times.notna()]
    if len(missing):
        raise ValueError(
            f"{missing[0]} does not exist in {tz}, where clocks are put forward then, but is in {where}: "
            "its clock does not change to summer time. Pass a zone without it: tz='Etc/GMT-1' for UTC+1."
        )
    return local.tz_convert("UTC")


def _series(tags, n_rows):
    """Rows of each series of an export, in its order."""
    if tags is None:
        return [np.arange(n_rows)]
    codes = pd.factorize(tags)[0]
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def _newest_first(times):
    return len(times) > 1 and np.median(np.sign(np.diff(times.asi8))) < 0


def _mark_second(times, rows, earlier):
    """Mark the second pass through the repeated hour, in place; whether there was one."""
    rows = rows[::-1] if _newest_first(times[rows]) else rows
    days = times[rows].normalize()
    for day in np.unique(days):
        here = rows[days == day]
        back = np.flatnonzero(np.diff(times[here].asi8) < 0)
        again = pd.Series(times[here]).duplicated().to_numpy()
        earlier[here[back[0] + 1 :] if len(back) else here[again]] = False
    return not earlier[rows].all()


# Units of measurement: which words are some, and where files tell them.

_IN_NAME = re.compile(r"[\[(]([^\])]{1,12})[\])]\s*$")
_NUMBER_AND_UNIT = r"^([+-]?[\d.,]*\d(?:[eE][+-]?\d+)?)\s*([^\d\s.,;:+-]\S{0,9})$"
_PARTS = re.compile(r"[/*·. ]+")
_POWER = re.compile(r"\^?[-+]?\d+$|[²³]$")
_NONE = {"", "-", "1"}  # of a number without a unit


def is_measure(text):
    """Whether a word is a unit of measurement: products and quotients of known ones, such as ``m³/h`` or ``kg/(m2 s)``.

    Examples
    --------
    >>> from skfedcausal.historian.times import is_measure
    >>> [is_measure(word) for word in ("bar", "Nm3/h", "°C", "1/min", "north", "feed of the mill")]
    [True, True, True, True, False, False]
    """
    parts = [_POWER.sub("", part) for part in _PARTS.split(re.sub(r"[()]", "", str(text).strip()))]
    named = [part for part in parts if part]
    return bool(named) and all(part.casefold() in _KNOWN for part in named)


def measure_in(name):
    """Unit of measurement that a name ends with in brackets, "" where it has none."""
    found = _IN_NAME.search(name)
    return found[1] if found is not None and is_measure(found[1]) else ""


def measure_behind(column):
    """A column of numbers with the same unit behind each, such as ``12.3 kPa``, without it, and the unit; else as it
    came and ""."""
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_datetime64_any_dtype(column):
        return column, ""
    there = column.dropna()
    some = there.iloc[:: max(1, len(there) // TUNING.layouts_sample)].astype(str).str.strip()
    found = some.str.extract(_NUMBER_AND_UNIT)[1].dropna()
    unit = found.iloc[0] if len(found) > TUNING.measures_most * len(some) else ""
    if not is_measure(unit) or (found != unit).any():
        return column, ""
    return column.astype("string").str.strip().str.removesuffix(unit).str.strip().astype(object), unit


def without_measure(name):
    """A name without what stands in brackets at its end."""
    return _IN_NAME.sub("", name)


def measures_below(names, words):
    """Units of measurement of columns by a line of words below their names; none where it holds other words."""
    cells = {name: word.strip() for name, word in zip(names, words, strict=False)}
    told = {name: word for name, word in cells.items() if word not in _NONE}
    known = {name: word for name, word in told.items() if is_measure(word)}
    return known if told and len(known) >= TUNING.measures_most * len(told) else {}


def measures_by_tag(tags, words):
    """Units of measurement of tags by two columns of a table of a row for every value: the first of each."""
    pairs = pd.DataFrame({"tag": tags, "measure": words}).dropna().drop_duplicates("tag")
    return {tag: word for tag, word in zip(pairs["tag"], pairs["measure"].astype(str).str.strip(), strict=True) if word}


_KNOWN = {form.casefold() for unit in WORDS["measures"]["with prefixes"] for form in (unit, *(
    prefix + unit for prefix in WORDS["measures"]["prefixes"]))} | {
    unit.casefold() for unit in WORDS["measures"]["alone"]
}  # fmt: skip
