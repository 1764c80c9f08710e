"""What each tag is: measured value, set point, output, mode, switch, counter or laboratory value."""

import re

import numpy as np
import pandas as pd

from ..containers.layout import SEPARATOR, listed
from ..quality.tags import Tag
from .measures import measure_in, without_measure
from .times import WORDS
from .tuning import TUNING

ROLES = ("PV", "SP", "OP", "MODE", "switch", "counter", "lab", "constant")
_PARTS = re.compile(r"[^\W_]+")


def roles_of(frame, texts=()):
    """Proposed role of every column, by its name (ISA-5.1 and usual endings) and by how it behaves.

    Parameters
    ----------
    frame : DataFrame
        Columns ``unit__tag``.
    texts : collection of str, default=()
        Columns without numbers, which are states.

    Returns
    -------
    DataFrame
        One row per column: ``column``, ``role``, ``measure`` (its unit of measurement where the name tells it, else
        empty), ``because``.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skfedcausal.historian.roles import roles_of
    >>> hours, noise = np.arange(400) // 40, np.random.default_rng(0).standard_normal(400)
    >>> frame = pd.DataFrame({"P1__RUN": hours, "P1__PT1 [bar]": noise, "P1__PIC1.SP": 5.0})
    >>> roles_of(frame)[["column", "role", "measure"]].values.tolist()
    [['P1__RUN', 'counter', ''], ['P1__PT1 [bar]', 'PV', 'bar'], ['P1__PIC1.SP', 'SP', '']]
    """
    rows = [(name, *_role(name, frame[name].to_numpy(dtype=float))) for name in frame]
    rows += [(name, "MODE" if _named(name) != "switch" else "switch", "holds words") for name in texts]
    table = pd.DataFrame(rows, columns=["column", "role", "because"])
    table.insert(2, "measure", table["column"].map(measure_in))
    return table


def corrected(table, corrections):
    """A table of roles with those that somebody gave, by column or by the tag in it."""
    wanted = dict(corrections)
    short = dict(zip(table["column"], table["column"].str.partition(SEPARATOR)[2], strict=True))
    unknown = [name for name in wanted if name not in short and name not in short.values()]
    wrong = [role for role in wanted.values() if role not in ROLES]
    if unknown or wrong:
        what = f"columns {listed(unknown)}, which are not there" if unknown else f"roles {listed(wrong)}"
        raise ValueError(f"Got roles of {what}; give {{column: role}} with roles of {listed(ROLES)}.")
    given = table["column"].map(lambda name: wanted.get(name, wanted.get(short[name])))
    changed = given.notna() & (given != table["role"])
    return table.assign(role=given.where(changed, table["role"]), because=table["because"].mask(changed, "as given"))


def coarse_counters(frame, counters):
    """Counters that rise in few rows, such as hours, whose steps are those of a clock."""
    rise = frame[counters].diff()
    return [name for name in counters if (rise[name] > 0).sum() < TUNING.roles_often * rise[name].notna().sum()]


def seldom_seen(frame):
    """Columns that have a value in so few rows that nothing is learned from them, as those of a laboratory."""
    return [name for name in frame if frame[name].notna().mean() < TUNING.roles_seldom]


def rates(frame, counters):
    """A frame with the rise from row to row in place of some counters.

    It is missing where they were set back or rolled over, and in the first row.
    """
    rise = frame[counters].diff()
    return frame.assign(**{name: rise[name].where(rise[name] >= 0) for name in counters})


def _role(name, values):
    """Role of a column and why."""
    told, tag = _named(name), Tag(values, np.zeros(1, dtype=int))
    if tag.kind == "counter" or (told == "counter" and _only_rises(tag.values)):
        return "counter", "never goes down but where it is set back"
    if _is_sparse(tag, len(values)):
        return "lab", "a value every so many rows"
    if told not in ("PV", "counter", None) and (told, tag.kind) != ("lab", "binary"):
        return told, "its name"
    behaves = {"constant": "constant", "empty": "constant", "binary": "switch", "steps": "SP"}.get(tag.kind, "PV")
    if told == "PV" and behaves == "SP":
        return "PV", "its name"
    why = {"constant": "never moves", "switch": "two values", "SP": "stands still or moves in steps"}
    return behaves, why.get(behaves, "moves like a measurement")


def _only_rises(values):
    """Whether a tag rises now and then, and never goes down."""
    step = np.diff(values)
    return bool((step > 0).any() and (step >= 0).all())


def _named(name):
    """Role that a name tells by its ending or the letters before its number, None where it tells none."""
    parts = [part.lower() for part in _PARTS.findall(without_measure(name))]
    letters = [re.split(r"\d", part, maxsplit=1)[0] for part in parts]
    for role, words in WORDS["roles"].items():
        if parts and parts[-1] in words["ends"]:
            return role
        if any(letter in words["letters"] for letter in letters[1:]):
            return role
    return None


def _is_sparse(tag, n_rows):
    """Whether values come alone at even distances of many rows."""
    if len(tag.rows) < 3 or len(tag.rows) > (1 - TUNING.roles_sparse) * n_rows:
        return False
    every = np.diff(tag.rows)
    return bool(np.median(every) >= TUNING.roles_row and (every % np.median(every) == 0).mean() > TUNING.roles_sparse)
