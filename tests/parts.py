"""A part of what takes long, so that parts can be run in turn."""


def part_of(items, part):
    """Every N-th of some items from the K-th on, of a part ``"K/N"``; all of them where none is named."""
    if part is None:
        return list(items)
    first, _, number = part.partition("/")
    if not (first.isdecimal() and number.isdecimal() and 1 <= int(first) <= int(number)):
        raise ValueError(f"--part is K/N with K from 1 to N. Got {part}.")
    return list(items)[int(first) - 1 :: int(number)]
