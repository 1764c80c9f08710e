"""What units' messages say, judged and brought onto common rows before anything joint is computed from them."""

from collections import Counter
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from ..arguments import warn
from ..message.clock import Clock
from ..message.requests import FitRequest, RecordRequest, WatchRequest
from ..message.states import StateMessage
from ..statespace.matrices import spectral_radius
from .tuning import TUNING

# What units' messages say, judged one by one before anything joint is computed from them.

FASTEST = 2.0  # growth of states in one row: thirty decades in a hundred


@dataclass
class Expected:
    """What is known of messages before they come: None, or no entry, where nothing is."""

    n_states: dict[str, int] = field(default_factory=dict)
    n_inputs: dict[str, int] = field(default_factory=dict)
    lengths: tuple[int, ...] = ()
    wishes: FitRequest | None = None  # of the fit, which hold for its later rounds

    def note_wishes(self, requests):
        """What the first round of a fit asks for."""
        fits = [request for request in requests.values() if isinstance(request, FitRequest)]
        if fits:
            self.wishes = fits[-1]

    def learn(self, messages):
        """Later messages of a fit have the sizes of the first."""
        for name, message in messages.items():
            self.n_states.setdefault(name, message.n_states)
            self.n_inputs.setdefault(name, message.n_inputs)
        self.lengths = tuple(next(iter(messages.values())).lengths) if messages else ()

    def forget(self, names):
        """The next messages of these units may have more states."""
        for name in names:
            self.n_states.pop(name, None)


def unusable(messages, requests, expected, rule):
    """Problems of messages that no plant can be learned from, by unit."""
    if not messages or not next(iter(messages.values())).OF_RECORD:
        return {}
    expected.note_wishes(requests)
    problems = {}
    for name, message in messages.items():
        problem = _sizes(name, message, expected, rule.max_states) or _said(message, requests[name], expected.wishes)
        if problem is not None:
            problems[name] = problem
    rest = {name: message for name, message in messages.items() if name not in problems}
    _warn_of_odd(rest, requests)
    is_first = all(request.OPENS for request in requests.values())
    if is_first and any(message.clock is not None for message in rest.values()):
        return problems  # rows are put beside each other by their times
    is_whole = all(isinstance(one, RecordRequest) and one.until is None for one in requests.values())
    return problems | _lengths(rest, expected.lengths if is_whole else ())


def _said(message, request, wishes):
    """What is wrong with what a message says, or None."""
    if isinstance(message, StateMessage):
        return _unasked(message, request, wishes) or implausible(message, request)
    return _no_model(message)


def _sizes(name, message, expected, max_states):
    p, q = message.n_states, message.n_inputs
    if p > max_states:
        return f"has {p} states; LostUnits(max_states={max_states}) takes no more. Give max_states={p} to take them."
    known = expected.n_states.get(name, p), expected.n_inputs.get(name, q)
    if (p, q) != known:
        return f"sent {p} states and {q} inputs, expected {known[0]} and {known[1]}."
    if isinstance(message, StateMessage) and len(message.patterns) > len(message.z):
        return f"sent {len(message.patterns)} information matrices for {len(message.z)} rows."
    return None


def _no_model(message):
    """Why a unit's own model cannot be that of a record, or None."""
    radius = float(np.max(spectral_radius(message.transition)))
    if not radius <= FASTEST:
        return f"sent a model that grows {radius:.3g} times with every row, expected {FASTEST:g} times at most."
    if not np.linalg.eigvalsh(message.process_cov)[0] > 0:
        return "sent a model whose states have directions without process noise."
    return None if message.information.any() else "says that it sees none of its states."


def _lengths(messages, known):
    """Units whose episodes are not those that are known, or that most of the units have."""
    lengths = {name: tuple(map(int, message.lengths)) for name, message in messages.items()}
    if len(set(lengths.values())) < 2 and (not known or set(lengths.values()) <= {known}):
        return {}
    expected = known
    if not known:
        (expected, most), *others = Counter(lengths.values()).most_common()
        if others[0][1] == most:
            expected = ()  # nobody can say who is right
    words = {
        own: f"{own[0]} rows" if len(own) == 1 else f"{sum(own)} rows in {len(own)} episodes"
        for own in {*lengths.values(), expected}
    }
    return {
        name: f"sent {words[own]}, {'the others ' + words[expected] if expected else 'which others have not'}."
        for name, own in lengths.items()
        if own != expected
    }


def _unasked(message, request, wishes):
    """Parts of a message that nobody asked for, and a density that no number of sensors has."""
    if message.const is not None and message.const.max() > TUNING.content_densest:
        return "sent the rest of a density that no sensors have."
    request = wishes if request.LEARNED and not request.OPENS and wishes is not None else request
    parts = {"const": message.const is not None and not getattr(request, "const", True)}
    if message.transition is not None and not getattr(request, "local_model", True):
        parts["transition"] = message.information.determines_states  # the server needs a start where not
    if isinstance(request, FitRequest):
        parts["off_subspace"] = message.off_subspace is not None and not request.monitor
        parts["events"] = message.events is not None  # which are told of watched records
    sent = [name for name, is_unasked in parts.items() if is_unasked]
    return f"sent {', '.join(sent)} without being asked." if sent else None


def implausible(message, request):
    """Why a message's series cannot come from measurements of the precision that it names, or None.

    Information vectors are ``z = J x + e`` with noise of covariance J, so in directions in which J is one they vary by
    one at least, and nowhere else: no state stands still, and none is a combination of others. A unit may be absent
    from a record it is asked about, but not from one to learn from; and in a batch that is watched everything may
    happen that a fault does.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        J, z = message.information.mean_information, message.z
        unit = np.sqrt(np.maximum(np.diag(J), 0.0))
        if not (np.isfinite(J).all() and np.isfinite(unit).all()):
            return "sent a precision that is beyond all numbers."
        seen = unit > 0
        if z[:, ~seen].any():
            return "sent a series about states that its precision says it does not see."
        if not seen.any():
            return "says that it sees none of its states." if request.LEARNED else None
        z, unit = z[:, seen] / unit[seen], unit[seen]
        values, vectors = np.linalg.eigh(J[np.ix_(seen, seen)] / np.outer(unit, unit))
        moved = z - z.mean(axis=0)
        power = np.einsum("ji,jk,ki->i", vectors, moved.T @ moved, vectors) / len(z)
        regular = values > TUNING.content_null * values[-1]
        if not np.isfinite(power).all():
            return "sent a series that is beyond all numbers."
        if power[~regular].sum() > TUNING.content_beside * power.sum():
            return "sent a series that moves where its precision says that no sensor sees anything (conditioning)."
        ratio = float((power[regular] / values[regular]).max())
        has_to_move = len(z) >= TUNING.content_few_rows and not isinstance(request, WatchRequest)
        problem = _out_of_proportion(ratio, has_to_move)
        if problem or not request.LEARNED:
            return problem
        return _in_one_row(moved) or _dependent(moved @ vectors[:, regular] / np.sqrt(values[regular]))


def oddity(messages):
    """How far the size of every unit's series, relative to its precision, is from that of the unit in the middle."""
    sizes = {}
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for name, message in messages.items():
            precision = np.diag(message.information.mean_information)
            sizes[name] = float(np.log(np.nanmax(message.z.var(axis=0) / precision, initial=np.finfo(float).tiny)))
    middle = float(np.median([*sizes.values()]))
    return {name: abs(np.nan_to_num(size - middle, nan=np.inf)) for name, size in sizes.items()}


def _out_of_proportion(ratio, has_to_move):
    """What a series' variance, relative to the noise in it, says against it."""
    if has_to_move and ratio < TUNING.content_least:
        return (
            "sent a series that is constant, or moves by less than the noise that its precision implies "
            f"(variance {ratio:.2g} of that noise, expected 1 at least)."
        )
    return f"sent a series of a variance {ratio:.2g} times that of its noise." if ratio > TUNING.content_most else None


def _in_one_row(moved):
    rows = np.einsum("ti,ti->t", moved, moved)
    is_one = len(rows) >= TUNING.content_few_rows and rows.max() > TUNING.content_one_row * rows.sum()
    return "sent a series that moves in one row only." if is_one else None


def _dependent(white):
    """What states say that stand still or determine each other, from series whose noise is white."""
    n, p = white.shape
    least = np.linalg.eigvalsh(white.T @ white / n)[0] if n >= max(TUNING.content_few_rows, 2 * p) else 1.0
    if least >= TUNING.content_least:
        return None
    return (
        "sent states that stand still or determine each other (a combination of them has a variance of "
        f"{max(least, 0.0):.2g} of the noise that its precision implies, expected 1 at least)."
    )


def _warn_of_odd(messages, requests):
    """Name units whose series look wrong and might be those of sparse tags, or of tags with a few large upsets."""
    for name, message in messages.items():
        odd = _odd(message) if requests[name].LEARNED and isinstance(message, StateMessage) else None
        if odd is not None:
            warn(
                f"What unit {name!r} sent looks wrong and was taken: {odd}. Look at its record; if its sensors do not "
                "say so, leave the unit out.",
            )


def _odd(message):
    """What looks wrong in a message's series, or None."""
    z, seen = message.z, np.diagonal(message.patterns, axis1=1, axis2=2)[message.information.pattern_of] > 0
    zeros = ((z == 0) & seen).sum(axis=0) / np.maximum(seen.sum(axis=0), TUNING.content_few_rows)
    if zeros.max() > TUNING.content_zeros:
        return f"{zeros.max():.1%} of the values of a state are zero"
    spread = z.std(axis=0)
    rows = np.sort(((z - z.mean(axis=0)) ** 2 / np.where(spread > 0, spread, 1.0) ** 2).sum(axis=1))
    few = len(rows) // TUNING.content_fewer
    if not few or not rows[-few:].sum() > TUNING.content_bursts * rows.sum():
        return None
    return f"{few} of {len(rows)} rows hold {rows[-few:].sum() / rows.sum():.1%} of all that it moves"


# Units brought onto the rows that all of them have, by their clocks; who cannot be is named with both clocks.


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
