"""How a tag looks at a glance: the distribution of its values, and its course in a few steps."""

from dataclasses import dataclass

import numpy as np

_BINS, _STEPS = 24, 60


@dataclass(frozen=True)
class Sketch:
    """Lowest and highest value, how often values fall in each of equal classes, and means of equal stretches."""

    low: float
    high: float
    counts: tuple[int, ...]
    course: tuple[float, ...]  # NaN where nothing was measured


def sketch(values):
    """The sketch of a series with NaN; None of one without values."""
    seen = values[np.isfinite(values)]
    if not len(seen):
        return None
    counts = np.histogram(seen, bins=_BINS)[0]
    parts = np.array_split(values, min(_STEPS, len(values)))
    course = [float(part.mean()) if len(part) else np.nan for part in (p[np.isfinite(p)] for p in parts)]
    return Sketch(float(seen.min()), float(seen.max()), tuple(counts.tolist()), tuple(course))
