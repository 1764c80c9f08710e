"""What a unit finds in its own record before it learns from it, of what `check_plant` looks for, in sentences."""

from hashlib import blake2b

import numpy as np

from ..containers.layout import listed
from .report import KINDS, texts_of
from .tags import Tag, filled, frozen


def damage(Y, suspects, starts, labels):
    """Sentences about fill values, frozen segments and sensors that are there twice among some columns."""
    filled_by: dict[str, list] = {}  # columns by what is said of them: an outage fills, or holds, a whole unit
    held_by: dict[str, list] = {}
    for k in suspects:
        tag, label = Tag(Y[:, k], np.array(starts)), str(labels[k])
        fills = filled(tag)
        for value, share in fills:
            filled_by.setdefault(". ".join(texts_of("fill value", value=value, share=share)), []).append(label)
        held = [] if fills else frozen(tag)
        if held:
            rows = [(int(tag.rows[a]), int(tag.rows[b - 1])) for a, b in held]
            where = listed([f"{a} to {b}" for a, b in rows], 3, quoted=False)
            held_by.setdefault(where, []).append(label)
    found = [f"{listed(columns)}: {text}" for text, columns in filled_by.items()]
    for where, columns in held_by.items():
        stands = "stands" if len(columns) == 1 else "stand"
        found.append(f"{listed(columns)} {stands} still in rows {where}. {KINDS['stuck']['advice']}")
    for first, second in same_columns(Y, suspects):
        found.append(
            f"{str(labels[second])!r} has the same values as {str(labels[first])!r}. {KINDS['same sensor']['advice']}"
        )
    return found


def same_columns(Y, columns):
    """Pairs of measured columns with the same values, each copy with the first of its kind."""
    first_of: dict[bytes, int] = {}
    found = []
    for k in columns:
        values = np.ascontiguousarray(Y[:, k])
        if len(np.unique(values[~np.isnan(values)][:1000])) < 10:
            continue  # switches are equal by chance
        first = first_of.setdefault(fingerprint(values), int(k))
        if first != k:
            found.append((first, int(k)))
    return found


def fingerprint(series):
    """Bytes that are the same for the same values."""
    return blake2b(np.ascontiguousarray(series).data, digest_size=16).digest()
