"""The paper's inference: two anomaly flags per unit, a look-up table of pairs, consistency over a horizon.

Incidents are runs of steps with a root in the flags.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import binom

from ...callers import warn
from .incidents import HORIZON, Verdict

GAP = 10  # steps without a root after which an incident is over
_LONGEST = 100_000  # steps: no horizon

ROOT, PROPAGATED, NOMINAL, AUGMENTED_ONLY = (1, 1), (1, 0), (0, 0), (0, 1)

#: Table 1 of the paper: flags (Z_c, Z_a) of two units to (root, propagated) or the name of a special verdict.
#: The paper prints ten of the sixteen pairs; the other six are marked and follow from the same reading.
TABLE_1 = {
    (ROOT, NOMINAL): ("first", None),
    (NOMINAL, ROOT): ("second", None),
    (ROOT, PROPAGATED): ("first", "second"),
    (PROPAGATED, ROOT): ("second", "first"),
    (AUGMENTED_ONLY, ROOT): "imperfect training",
    (ROOT, AUGMENTED_ONLY): "imperfect training",
    (NOMINAL, NOMINAL): "no anomaly",
    (PROPAGATED, PROPAGATED): "neither",
    (AUGMENTED_ONLY, AUGMENTED_ONLY): "independent clients",
    (ROOT, ROOT): "violates assumptions",
    # not in the paper's table:
    (PROPAGATED, NOMINAL): "neither",  # an effect whose cause shows no flag
    (NOMINAL, PROPAGATED): "neither",
    (AUGMENTED_ONLY, NOMINAL): "imperfect training",  # the augmenter alone is surprised
    (NOMINAL, AUGMENTED_ONLY): "imperfect training",
    (PROPAGATED, AUGMENTED_ONLY): "imperfect training",
    (AUGMENTED_ONLY, PROPAGATED): "imperfect training",
}


def needed_answers(horizon, kept, other, nominal, rate):
    """How many of a unit's randomised answers must be (1, 1) for it to count as the root.

    As many as are expected when more than half of the true pairs in the `horizon` steps looked at together
    are (1, 1), and so many that a unit in nominal operation gives them at most at the wanted `rate`, in
    false alarms per step of one unit. `kept` and `other` are the probabilities of an answer given that pair
    or another one, `nominal` bounds the share of true (1, 1) in nominal operation. Warns if it is more than
    `horizon`: then no alarm is possible.

    Examples
    --------
    >>> from skfedcausal.server.watching.flags import needed_answers
    >>> needed_answers(10, 1.0, 0.0, 0.0, 1e-3), needed_answers(10, 0.71, 0.1, 0.05, 1e-3)
    (6, 6)
    """
    needed = _needed(horizon, kept, other, nominal, rate)
    if needed > horizon:
        enough = (k for k in range(horizon, _LONGEST) if _needed(k, kept, other, nominal, rate) <= k)
        warn(
            f"Randomised flags cannot tell a root from chance within horizon={horizon} steps at the "
            "false-alarm rate asked for, so that there will never be an alarm. Give a horizon of at least "
            f"{next(enough, _LONGEST)}, a larger epsilon or a higher rate.",
        )
    return needed


def _needed(horizon, kept, other, nominal, rate):
    majority = horizon // 2 + 1
    expected = majority * kept + (horizon - majority) * other
    by_chance = binom.isf(rate, horizon, nominal * kept + (1 - nominal) * other) + 1
    return int(max(np.ceil(expected), by_chance))


def roots_of_flags(flags, horizon=1, needed=1):
    """Root unit at every step from the flags of all units.

    A unit is the root when its flags are (1, 1), as in every pair of Table 1 that has a root, and no other
    unit's are; two such units violate the paper's assumptions (Proposition 5.2), and beside a unit with
    (0, 1) the table answers "imperfect training": both are undecided. With a horizon the unit must have been
    (1, 1) in at least `needed` of the last `horizon` steps and more often than any other (Remark 5.1); single
    steps with other pairs then do not matter.

    `flags` are integers of shape (n_samples, n_units, 2). Gives the unit at every step, -1 for no incident
    and -2 for undecided.
    """
    is_root = (flags == 1).all(axis=2)
    imperfect = np.zeros(len(flags), dtype=bool)
    if horizon > 1 or needed > 1:
        sums = np.cumsum(np.concatenate([np.zeros((1, is_root.shape[1])), is_root]), axis=0)
        ends = np.arange(1, len(is_root) + 1)
        count = sums[ends] - sums[np.maximum(ends - horizon, 0)]
        is_root = (count >= needed) & (count == count.max(axis=1, keepdims=True))
    else:
        imperfect = (flags == AUGMENTED_ONLY).all(axis=2).any(axis=1)
    total = is_root.sum(axis=1)
    clear = (total == 1) & ~imperfect
    return np.where(clear, is_root.argmax(axis=1), np.where(total > 0, -2, -1))


def table_1_answers(flags):
    """Verdict of Table 1 on every pair of units at every step, one column ``first, second`` per pair.

    `flags` has the columns ``unit__Z_c`` and ``unit__Z_a``, as :func:`skfedcausal.inspection.flags` gives them.
    A root is ``"first"``, or ``"first -> second"`` where the other shows the propagated effect; special
    verdicts have their names.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.server.watching.flags import table_1_answers
    >>> names = ["a__Z_c", "a__Z_a", "b__Z_c", "b__Z_a"]
    >>> table_1_answers(pd.DataFrame([[1, 0, 1, 1], [0, 1, 1, 1]], columns=names))["a, b"].tolist()
    ['b -> a', 'imperfect training']
    """
    names = list(dict.fromkeys(column.rpartition("__")[0] for column in flags))
    pairs = {name: list(flags[[f"{name}__Z_c", f"{name}__Z_a"]].itertuples(index=False)) for name in names}
    verdicts = {}
    for first, second in combinations(names, 2):
        units = {"first": first, "second": second}
        words = {
            pair: answer if isinstance(answer, str) else " -> ".join(units[k] for k in answer if k)
            for pair, answer in TABLE_1.items()
        }
        together = zip(pairs[first], pairs[second], strict=True)
        verdicts[f"{first}, {second}"] = [words[tuple(a), tuple(b)] for a, b in together]
    return pd.DataFrame(verdicts, index=flags.index)


def causal_network(flags):
    """Which unit showed effects of which: the causal network that Algorithm 2 gives beside the roots.

    `flags` as for :func:`table_1_answers`. One row per ordered pair with ``cause -> effect`` in Table 1 at
    some step: ``cause``, ``effect``, ``steps`` and ``share`` of the steps at which the cause was named a
    root of the pair.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.server.watching.flags import causal_network
    >>> names = ["a__Z_c", "a__Z_a", "b__Z_c", "b__Z_a"]
    >>> flags = pd.DataFrame([[1, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0]], columns=names)
    >>> causal_network(flags).to_dict("records")
    [{'cause': 'b', 'effect': 'a', 'steps': 1, 'share': 0.5}]
    """
    rows = []
    for pair, answers in table_1_answers(flags).items():
        first, second = pair.split(", ")
        for cause, effect in ((first, second), (second, first)):
            steps = int((answers == f"{cause} -> {effect}").sum())
            named = steps + int((answers == cause).sum())
            if steps:
                rows.append({"cause": cause, "effect": effect, "steps": steps, "share": steps / named})
    return pd.DataFrame(rows, columns=["cause", "effect", "steps", "share"])


def local_verdicts(flags, heard=None):
    """What every unit says of itself from its own flags and those it hears, without a server.

    Parameters
    ----------
    flags : ndarray of int of shape (n_samples, n_units, 2)
    heard : sequence of sequence of int, default=None
        Positions of the units whose flags each unit gets; None: all others.

    Returns
    -------
    ndarray of str of shape (n_samples, n_units)
        "root" where its flags are (1, 1) and nobody it hears shows (1, 1) or (0, 1); "effect" where they
        are (1, 0) and somebody it hears shows (1, 1); "undecided" where Table 1 decides neither; "" if no
        flag is raised.
        With all units heard, exactly the unit that :func:`roots_of_flags` names says "root".
    """
    flags = np.asarray(flags)
    n_units = flags.shape[1]
    kinds = {pair: (flags == pair).all(axis=2) for pair in (ROOT, PROPAGATED, AUGMENTED_ONLY)}
    out = np.full(flags.shape[:2], "", dtype="<U9")
    for m in range(n_units):
        others = [n for n in range(n_units) if n != m] if heard is None else list(heard[m])
        somebody = {pair: kind[:, others].any(axis=1) for pair, kind in kinds.items()}
        out[flags[:, m].any(axis=1), m] = "undecided"
        out[kinds[ROOT][:, m] & ~somebody[ROOT] & ~somebody[AUGMENTED_ONLY], m] = "root"
        out[kinds[PROPAGATED][:, m] & somebody[ROOT], m] = "effect"
    return out


# -- incidents -------------------------------------------------------------------------------------------


@dataclass
class FlagIncident:
    """An incident that is followed: its first and last step, and how often each unit was the root."""

    detected: int
    last: int
    votes: np.ndarray
    first_rows: np.ndarray
    n_votes: int = 0

    def vote(self, row, root):
        """Take note of the root in one step, -2 for undecided."""
        self.last = row
        if row > self.detected + HORIZON:
            return
        self.n_votes += 1
        if root >= 0:
            self.votes[root] += 1
            if self.first_rows[root] < 0:
                self.first_rows[root] = row

    def verdict(self, is_open):
        """A unit's probability is its share of the steps from the first to the horizon."""
        probability, first_rows = self.votes / self.n_votes, self.first_rows.copy()
        return Verdict(self.detected, self.detected, self.last, is_open, "flags", probability, first_rows, "undecided")


@dataclass
class FlagState:
    """Where a stream of flags stands: steps so far, the flags of the last ones, the open incident."""

    position: int = 0
    tail: np.ndarray | None = None
    incident: FlagIncident | None = None


@dataclass(frozen=True)
class FlagWatch:
    """Incidents from flags as they come; `horizon` and `needed` as in :func:`roots_of_flags`."""

    horizon: int
    needed: int
    new_state = FlagState

    @staticmethod
    def pause(state):
        """Begin anew after rows of which nothing is known."""
        state.tail, state.incident = None, None

    def push(self, flags, state):
        """Verdicts on the incidents that are new or that changed with more flags, (n_samples, n_units, 2).

        The FlagState is changed in place.
        """
        known = flags if state.tail is None else np.concatenate([state.tail, flags])
        roots = roots_of_flags(known, self.horizon, self.needed)[len(known) - len(flags) :]
        state.tail = known[len(known) - min(self.horizon - 1, len(known)) :]
        begin, state.position = state.position, state.position + len(flags)
        changed = [] if state.incident is None else [state.incident]
        for k in np.flatnonzero(roots != -1).tolist():
            row, n_units = begin + k, flags.shape[1]
            if state.incident is None or row - state.incident.last > GAP:
                state.incident = FlagIncident(row, row, np.zeros(n_units), np.full(n_units, -1))
                changed.append(state.incident)
            state.incident.vote(row, int(roots[k]))
        if state.incident is not None and state.position - 1 - state.incident.last > GAP:
            state.incident = None
        return [incident.verdict(is_open=incident is state.incident) for incident in changed]
