"""Leaves as they are stored: short arrays whole, long ones as sums in which a changed sign shows wherever it is."""

import hashlib

import numpy as np

_WHOLE = 40  # numbers up to which an array is stored as it is
_PIECES = 16  # of a longer one: sums, and entries that are stored beside them
_DIGITS = 12  # behind the scale of an array
_LEAST_P = 1e-300  # below it a p value is zero
_SHARES = ("undecided", "probability", "ranking", "gradient_norm_")  # of one: tiny ones are zero to rounding
_STEP = (np.sqrt(5.0) - 1.0) / 2.0  # of the weights in a sum, no two of which are alike


def packed(leaf, path=""):
    """A leaf in terms of JSON."""
    if type(leaf) is int and is_size(path):
        leaf = np.array(leaf)
    if isinstance(leaf, np.ndarray):
        return _packed_array(leaf, path)
    if isinstance(leaf, list):
        return {"words": _runs(leaf)}
    return leaf


def is_p_value(path):
    """Whether numbers are p values, which are compared by their logarithms."""
    name = path.rsplit(".", 1)[-1]
    return "p_value" in name or name.startswith(("p_", "p["))


def is_size(path):
    """Whether numbers are sizes of packets: these are compressed, and the last digits of what they hold count."""
    return "bytes" in path.rsplit(".", 1)[-1]


def _kind(dtype, path):
    """How the numbers of an array are compared."""
    if is_size(path):
        return "real"
    if dtype.kind in "biu":
        return "whole"
    if is_p_value(path):
        return "log p"
    return "share" if any(name in path for name in _SHARES) else "real"


def pieces(n_entries):
    """First entries of the pieces of a long array, and its length."""
    return np.linspace(0, n_entries, _PIECES + 1).astype(int)


def weights(n_entries):
    """Weights of the entries in their sum, between one and two: neighbours that change places show, too."""
    return 1.0 + (np.arange(1, n_entries + 1) * _STEP) % 1.0


def _packed_array(values, path):
    kind = _kind(values.dtype, path)
    values = values.astype(float)
    if kind == "log p":
        with np.errstate(invalid="ignore"):
            values = np.log(np.maximum(values, _LEAST_P))
    flat = values.ravel()
    finite = np.isfinite(flat)
    scale = float(np.abs(flat[finite]).max(initial=0.0))
    found = {"kind": kind, "shape": list(values.shape), "scale": _rounded([scale], scale)[0]}
    if flat.size <= _WHOLE:
        return found | {"values": _rounded(flat, scale)}
    sums = np.add.reduceat(np.where(finite, flat, 0.0) * weights(flat.size), pieces(flat.size)[:-1])
    found |= {"values": _rounded(flat[pieces(flat.size)[:-1]], scale), "sums": _rounded(sums, scale)}
    if not finite.all():
        found["not finite"] = _digest(flat, finite)
    return found


def _rounded(values, scale):
    """Numbers without digits that no tolerance asks for."""
    digits = _DIGITS - int(np.floor(np.log10(scale))) if scale > 0 else _DIGITS
    return [round(float(value), digits) if np.isfinite(value) else float(value) for value in values]


def _digest(flat, finite):
    """Which entries are not numbers, and which are infinite."""
    kinds = np.where(finite, 0, np.where(np.isnan(flat), 1, np.where(flat > 0, 2, 3))).astype(np.uint8)
    return hashlib.sha256(kinds.tobytes()).hexdigest()[:16]


def _runs(words):
    """Words with how often each follows itself."""
    found = []
    for word in words:
        if found and found[-1][0] == word:
            found[-1][1] += 1
        else:
            found.append([word, 1])
    return found
