"""One sensor in the exports of two units: columns that are equal, which a fit would take for a link."""

import warnings

import numpy as np

from .layout import listed

_PROBES = 64  # rows that tell most columns apart
_FEWEST = 20  # values that two columns have in common at least
_EQUAL = 0.999  # share of the rows in common: all of a few
_FEWEST_LEVELS = 10  # switches and set points are equal by chance


def copied_tags(units):
    """Columns of one unit that repeat one of another, as (unit, later unit, column, its copy).

    `units` are (name, names of columns, values of shape (n_samples, n_columns)).
    """
    owner = [(k, j) for k, (_, _, Y) in enumerate(units) for j in range(Y.shape[1])]
    n_samples = min(len(Y) for _, _, Y in units)
    probes = np.unique(np.linspace(0, n_samples - 1, _PROBES).astype(int))
    seen = np.concatenate([Y[probes] for _, _, Y in units], axis=1)
    found: list[tuple] = []
    taken: set[int] = set()
    for a, alike in _alike(seen):
        k, i = owner[a]
        for b in () if a in taken else alike:
            m, j = owner[b]
            if m != k and b not in taken and _are_equal(units[k][2][:n_samples, i], units[m][2][:n_samples, j]):
                found.append((units[k][0], units[m][0], units[k][1][i], units[m][1][j]))
                taken.add(b)
    return found


def _alike(seen):
    """Columns, and the later ones that show the same in every one of a few rows in which both are there."""
    gaps = np.isnan(seen)
    whole = ~gaps.any(axis=0)
    texts = column_texts(seen)
    same: dict[bytes, list[int]] = {}
    for b in np.flatnonzero(whole).tolist():
        same.setdefault(texts[b], []).append(b)
    open_ones = np.flatnonzero(~whole)
    for a in range(seen.shape[1] - 1):
        others = open_ones if whole[a] else np.arange(seen.shape[1])
        others = others[others > a]
        differ = (seen[:, a, None] != seen[:, others]) & ~gaps[:, a, None] & ~gaps[:, others]
        alike = others[~differ.any(axis=0)].tolist()
        yield a, sorted(alike + [b for b in same[texts[a]] if b > a] if whole[a] else alike)


def column_texts(Y):
    """Columns as bytes, which are the same where all values are."""
    return [column.tobytes() for column in Y.T + 0.0]  # zeros have one sign


def _are_equal(x, y):
    both = ~np.isnan(x) & ~np.isnan(y)
    if both.sum() < _FEWEST or len(np.unique(x[both][:1000])) < _FEWEST_LEVELS:
        return False
    return bool((x[both] == y[both]).mean() >= _EQUAL)


def warn_of_copies(plant):
    """Warn where units have a tag in common."""
    found = copied_tags(list(plant.units()))
    if found:
        pairs = [f"{column!r} of {first!r} is {copy!r} of {second!r}" for first, second, column, copy in found]
        warnings.warn(
            f"Units have tags in common: {listed(pairs, 4, quoted=False)}. One sensor in two units is taken for a "
            "link between them. Leave each out of one unit.",
            stacklevel=5,
        )
