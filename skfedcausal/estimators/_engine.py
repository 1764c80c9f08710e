"""Which candidate at the server answers questions about inputs, and what is known of the timing of these."""

import re

import numpy as np

from ..containers.layout import listed
from ..server.responses import Engine, chosen_engine
from ..server.responses.runs import STABLE, rows_until_far

_SET_POINT = re.compile(r"(?<![a-z])(sp|set_?point|schedule)(?![a-z])", re.IGNORECASE)
_LED, _SEEN = 0.01, 8  # share of an input that is its own where a controller sets it; rows that a record shows anyway


def learned_engine(estimator, server, messages):
    """The engine that answers for a server which has just learned from messages, and who sets inputs by themselves."""
    known, inputs = estimator._sent_inputs, estimator._input_map
    messages = {name: messages[name] for name in server.names_ if name in messages}
    if len(messages) < len(server.names_) or not known.active.any() or getattr(server, "batches_", None) is not None:
        return Engine(None, {})
    words = [inputs.words[k] for k in inputs.owners]
    if isinstance(sampled := getattr(server, "sampled", "auto"), str) and sampled != "auto":
        words = [sampled] * len(words)  # of sites
    early = inputs.early[inputs.owners]
    now = ~early & np.array([word != "after" for word in words], dtype=bool)
    looped = looped_units(estimator, server)
    is_set = np.array([_SET_POINT.search(name) is not None for name in known.names], dtype=bool)
    in_doubt = np.array([word == "auto" for word in words], dtype=bool) & np.isin(known.units, looped) & ~is_set
    switched = estimator.relays or {}
    readers = [unit if name in switched else None for unit, name in zip(known.units, known.names, strict=True)]
    active = np.flatnonzero(known.active)
    return chosen_engine(server, messages, now[active], in_doubt[active], bool(looped), [readers[k] for k in active])


def looped_units(estimator, server):
    """Units whose inputs depend on measurements of rows before; what moves with them in a row may as well act there.

    Those whose inputs are all relays do not count: how these depend on measurements is known.
    """
    known, relays = estimator._plant_inputs, estimator.relays or {}
    others = {unit for unit, name in zip(known.units, known.names, strict=True) if name not in relays}
    return sorted(others.intersection(getattr(server, "controlled_units_", ())))


def check_held_loops(estimator, n_rows):
    """Refuse what inputs do in so many rows if nobody knows what the plant does while its controllers do not react."""
    radius, looped = estimator._engine.radius, looped_units(estimator, estimator.server_)
    table = estimator.excitation_
    if not looped:
        return
    is_led = table["unit"].isin(looped) & table["active"] & (table["share"] < _LED)
    led = [name for name in table.loc[is_led, "input"] if _SET_POINT.search(name) is None]
    if radius > STABLE:
        lasts = rows_until_far(radius)
        why = f"without them an effect grows by {radius - 1:.2%} a row"
    elif led:
        lasts, why = _SEEN, f"nothing but what they read moves {listed(led)}, which no record tells from the plant"
    else:
        return
    if n_rows > lasts:
        raise ValueError(
            f"Got {n_rows} rows of a question with loops='hold', and controllers of {listed(looped)} hold this plant: "
            f"{why}. With inputs as they were an answer means something for {lasts} rows; ask for as many, or with "
            "loops='react' for what happens while the controllers react."
        )


def timing_in_doubt(estimator, columns):
    """Sentence about columns whose effects hang on when an input acts, which nobody has said."""
    known, timing = estimator._sent_inputs, estimator._engine.timing
    names = np.array(known.names)[known.active][timing.in_doubt].tolist()
    first = {names[0]: "before"} if names else "before"
    return (
        f"It cannot be told what happens to {listed(list(columns))}: {listed(names)} may act in the row in which it "
        "stands or from the next row on. No record tells which, and the answers lie further apart than the band. Say "
        f"when it acts: fit with sampled={first!r} if it was set before its row was measured, or with 'after'."
    )


def engine_of(estimator, loops):
    """Name of the engine that answers; only the plant knows how controllers react."""
    return estimator.engine_ if loops == "hold" else "plant"


def rows_to_show(estimator, loops):
    """Rows from a move on in which all that it does can be seen: as responses say, or lags of the plant."""
    own = estimator._engine.responses if loops == "hold" else None
    return min(1 + len(estimator.lag_transitions_), _SEEN) if own is None else own.rows_to_show
