"""Columns of one unit that repeat one of another, against a look at every pair."""

import numpy as np
import pytest

from skfedcausal.containers.arrays import copied_tags


def pairs_by_hand(units):
    """Pairs of columns of two units that are equal wherever both are there."""
    columns = [(name, tag, y) for name, tags, Y in units for tag, y in zip(tags, Y.T, strict=True)]
    found, taken = [], set()
    for a, (first, tag, x) in enumerate(columns):
        for b, (second, other, y) in enumerate(columns[a + 1 :], a + 1):
            both = ~np.isnan(x) & ~np.isnan(y)
            if first == second or {a, b} & taken or both.sum() < 20 or len(np.unique(x[both])) < 10:
                continue
            if (x[both] == y[both]).all():
                found.append((first, second, tag, other))
                taken.add(b)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_copies_are_found_with_gaps_and_without(seed):
    rng = np.random.default_rng(seed)
    units = [(f"u{k}", ["a", "b", "c"], rng.standard_normal((300, 3))) for k in range(4)]
    for (first, i), (second, j) in zip(rng.integers(0, 3, (4, 2)), rng.integers(0, 3, (4, 2)), strict=True):
        units[second][2][:, j] = units[first][2][:, i]
    for _, _, Y in units[::2]:
        Y[rng.random(Y.shape) < 0.2 * (seed % 2)] = np.nan
    units[3][2][:, 2] = 0.0  # a column that does not move is nobody's copy
    assert copied_tags(units) == pairs_by_hand(units)
    assert seed > 0 or copied_tags(units)
