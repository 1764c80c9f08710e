"""Parts of what takes long: all of them together are the whole, and no part is quietly empty."""

import pytest

from .parts import part_of


def test_parts_are_disjoint_and_together_all():
    items = list(range(11))
    parts = [part_of(items, f"{k}/3") for k in (1, 2, 3)]
    assert sorted(item for part in parts for item in part) == items
    assert part_of(items, None) == items


@pytest.mark.parametrize("part", ["0/3", "4/3", "1", "a/b", "1/0"])
def test_a_part_that_is_none_is_refused(part):
    with pytest.raises(ValueError, match="K/N"):
        part_of([1, 2, 3], part)
