"""Units brought onto the rows that all of them have, by their clocks; who cannot be is named with both clocks."""

from collections import Counter
from functools import reduce

from ..message.clock import Clock
from .tuning import TUNING


def common_grid(messages):
    """Grid that units have in common, None where all have the same rows, and problems by unit."""
    clocks = {name: Clock.of_message(message) for name, message in messages.items()}
    timed = {name: clock for name, clock in clocks.items() if clock is not None}
    if not timed:
        return None, _other_rows(messages)
    # the period and zone that most units have, and of these the grid
    kinds = {name: (round(clock.period, 6), clock.zoned) for name, clock in timed.items()}
    usual = Counter(kinds.values()).most_common(1)[0][0]
    best = Counter(clock[2:] for name, clock in timed.items() if kinds[name] == usual).most_common(1)[0][0]
    reference = next(name for name, clock in timed.items() if clock[2:] == best)
    problems = {}
    for name, clock in timed.items():
        reason = _reason(clock, timed[reference]) or _too_short(clock, timed[reference])
        if reason:
            clocks_of_both = f"its clock: {clock.in_words()}; that of {reference!r}: {timed[reference].in_words()}"
            problems[name] = f"cannot be put beside the others: {reason} ({clocks_of_both})."
    aligned = {name: clock for name, clock in timed.items() if name not in problems}
    grid = reduce(lambda grid, clock: grid and grid.common(clock), aligned.values())
    if grid is None or sum(grid.lengths) < TUNING.alignment_fewest:
        return None, problems | _apart(aligned, reference)
    for name in messages:
        if name not in timed and tuple(map(int, messages[name].lengths)) != grid.lengths:
            problems[name] = (
                f"reports no times for its {sum(map(int, messages[name].lengths))} rows, and the others have "
                f"{grid.in_words()} in common: rows cannot be joined. Name the column of its times (`time`)."
            )
    moved = any(not clock.is_same(grid) for clock in aligned.values())
    return (grid if moved else None), problems


def _reason(clock, other):
    """Why rows of two clocks cannot be aligned, empty where they can."""
    if not clock.same_period(other):
        return f"a row every {clock.period:g} s and not every {other.period:g} s"
    if clock.zoned != other.zoned:
        lacking = "its times have no zone" if other.zoned else "times of the others have no zone"
        return f"{lacking}; say it with `tz` in the settings of the site"
    beside = clock.beside(other)
    if beside:
        return f"its rows lie {beside:.3g} s beside theirs"
    shift, late = clock.starts[0] - other.starts[0], clock.ends[-1] - other.ends[-1]
    if not clock.zoned and shift and shift % TUNING.alignment_zones == 0 and shift == late:
        return (
            f"its whole record lies {shift / 60:g} min from theirs, which is either so or another zone, and no zone "
            "is known; say it with `tz` in the settings of each site"
        )
    return ""


def _too_short(clock, other):
    """Why the others are not cut to the rows of a clock, empty where they are."""
    shared, usual = clock.common(other), sum(other.lengths)
    rows = 0 if shared is None else sum(shared.lengths)
    is_enough = rows >= max(TUNING.alignment_fewest, TUNING.alignment_least_share * usual)
    return "" if is_enough else f"only {rows} of {usual} rows are at the same times"


def moved_from(messages, grid):
    """Clocks of the units that have other rows than those of a grid."""
    clocks = {name: Clock.of_message(message) for name, message in messages.items()}
    return {name: clock for name, clock in clocks.items() if clock is not None and not clock.is_same(grid)}


def _apart(aligned, reference):
    """Problems of units that have too few rows in common with the reference."""
    problems = {}
    for name, clock in aligned.items():
        shared = clock.common(aligned[reference])
        if name != reference and (shared is None or sum(shared.lengths) < TUNING.alignment_fewest):
            problems[name] = (
                f"has no {TUNING.alignment_fewest} rows at the times of {reference!r} (its clock: {clock.in_words()}; "
                f"that of {reference!r}: {aligned[reference].in_words()})."
            )
    if not problems:  # only all together have too few
        problems = dict.fromkeys(aligned, f"has no {TUNING.alignment_fewest} rows at times that all units have.")
    return problems


def _other_rows(messages):
    """Problems of units without times whose rows are not those of most."""
    lengths = {name: tuple(map(int, message.lengths)) for name, message in messages.items()}
    usual = Counter(lengths.values()).most_common(1)[0][0]
    remedy = "rows cannot be joined by number. Name the column of times (`time`) in the settings of the sites"
    return {
        name: f"has {_in_words(own)}, where others have {_in_words(usual)}: {remedy}."
        for name, own in lengths.items()
        if own != usual
    }


def _in_words(lengths):
    return f"{sum(lengths)} rows" if len(lengths) == 1 else f"episodes of {', '.join(map(str, lengths))} rows"
