"""Whether two answers are the same, and where they first differ."""

from typing import NamedTuple

import numpy as np

from .packed import pieces, weights

_MISSING = "not there"
_LEAST_SCALE = {"real": 0.0, "whole": 0.0, "share": 1.0, "log p": 1.0}  # of what tolerances are relative to


class Difference(NamedTuple):
    """A leaf that is not the same: its path, what was expected and what came."""

    path: str
    expected: object
    now: object
    how: str = ""
    expected_by: str = "stored"

    def __str__(self):
        how = f" ({self.how})" if self.how else ""
        return f"{self.path or 'the answer'}: {self.expected_by} {self.expected}, now {self.now}{how}"


def differing_bits(one, two):
    """The first leaf that differs between an answer by the fit and one by another way in any bit, or None."""
    for path in _paths(one, two):
        found = _other_bits(path, one.get(path, _MISSING), two.get(path, _MISSING))
        if found is not None:
            return Difference(*found, "every bit is promised", "by the fit")
    return None


def _paths(one, two):
    return [*one, *(path for path in two if path not in one)]


def _other_bits(path, a, b):
    """(place, value, other value) of the first entry that differs, or None."""
    if isinstance(a, list) and isinstance(b, list):
        places = [k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y]
        if places:
            return f"{path}[{places[0]}]", repr(a[places[0]]), repr(b[places[0]])
        return None if len(a) == len(b) else (path, f"{len(a)} words", f"{len(b)} words")
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return None if type(a) is type(b) and a == b else (path, a, b)
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return path, f"{a.dtype}{a.shape}", f"{b.dtype}{b.shape}"
    same = (a == b) | ((a != a) & (b != b))
    if same.all():
        return None
    place = int(np.flatnonzero(~same.ravel())[0])
    return (f"{path}[{place}]" if a.ndim else path), repr(a.flat[place].item()), repr(b.flat[place].item())


def differing(stored, now, tolerance):
    """The first leaf that is further from the stored one than `tolerance(path)` allows, or None."""
    for path in _paths(stored, now):
        if path not in stored or path not in now:
            return Difference(path, *("there" if path in each else _MISSING for each in (stored, now)))
        found = _differing_leaf(path, stored[path], now[path], tolerance)
        if found is not None:
            return found
    return None


def _differing_leaf(path, stored, now, tolerance):
    if not isinstance(stored, dict) or not isinstance(now, dict):
        return None if stored == now and type(stored) is type(now) else Difference(path, stored, now)
    if "words" in stored or "words" in now:
        return _differing_words(path, stored, now)
    for name in ("kind", "shape", "not finite"):
        if stored.get(name) != now.get(name):
            what = f"{name} {stored.get(name)}", f"{name} {now.get(name)}"
            return Difference(path, *what)
    return _differing_numbers(path, stored, now, tolerance(path))


def _differing_words(path, stored, now):
    if stored == now:
        return None
    one, two = ([word for word, n in each.get("words", ()) for _ in range(n)] for each in (stored, now))
    for place, (a, b) in enumerate(zip(one, two, strict=False)):
        if a != b:
            return Difference(f"{path}[{place}]", repr(a), repr(b))
    return Difference(path, f"{len(one)} words", f"{len(two)} words")


def excess(stored, now):
    """By how much numbers differ, of the scale of their array: (largest, which list, where)."""
    scale = max(stored["scale"], now["scale"], _LEAST_SCALE[stored["kind"]])
    n_entries = int(np.prod(stored["shape"]))
    found = (0.0, "values", 0)
    for part in ("values", "sums"):
        if part not in stored:
            continue
        one, two = (np.asarray(each[part], dtype=float) for each in (stored, now))
        if one.size == 0:
            continue
        each = np.full(len(one), scale)
        if part == "sums":  # as many entries, each as far off as it may be
            each = scale * np.add.reduceat(weights(n_entries), pieces(n_entries)[:-1])
        with np.errstate(invalid="ignore", divide="ignore"):
            off = np.where((one == two) | (np.isnan(one) & np.isnan(two)), 0.0, np.abs(one - two) / each)
        off = np.where(np.isnan(off), np.inf, off)
        found = max(found, (float(off.max()), part, int(off.argmax())), key=lambda entry: entry[0])
    return found


def _differing_numbers(path, stored, now, allowed):
    off, part, place = excess(stored, now)
    if off <= (0.0 if stored["kind"] == "whole" else allowed):
        return None
    where = f"{path}[{_entries(stored, part, place)}]" if stored["shape"] else path
    how = f"{off:.1e} of the scale, allowed {allowed:.1e}" if stored["kind"] != "whole" else "whole numbers"
    if stored["kind"] == "log p":
        how += ", logarithms of p values"
    return Difference(where, stored[part][place], now[part][place], f"weighted sum; {how}" if part == "sums" else how)


def _entries(stored, part, place):
    """Entries of a long array that a stored number is about."""
    if "sums" not in stored:
        return str(place)
    ends = pieces(int(np.prod(stored["shape"])))
    return f"{ends[place]}" if part == "values" else f"{ends[place]}:{ends[place + 1]}"
