"""The paper's inference: two anomaly flags per unit, a look-up table of pairs, consistency over a horizon."""

import warnings

import numpy as np
import pandas as pd
from scipy.stats import binom

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

    As many as are expected when more than half of the true pairs are, and so many that a unit in nominal
    operation gives them at most at the wanted rate.

    Parameters
    ----------
    horizon : int
        Steps that are looked at together.
    kept, other : float
        Probability of an answer given that pair, or another one.
    nominal : float
        Bound on the share of true (1, 1) in nominal operation.
    rate : float
        Wanted false alarms per step of one unit.

    Returns
    -------
    int
        Warned about if it is more than `horizon`: then no alarm is possible.

    Examples
    --------
    >>> from skfedcausal.server.watching.flags import needed_answers
    >>> needed_answers(10, 1.0, 0.0, 0.0, 1e-3), needed_answers(10, 0.71, 0.1, 0.05, 1e-3)
    (6, 6)
    """
    needed = _needed(horizon, kept, other, nominal, rate)
    if needed > horizon:
        enough = (k for k in range(horizon, _LONGEST) if _needed(k, kept, other, nominal, rate) <= k)
        warnings.warn(
            f"Randomised flags cannot tell a root from chance within horizon={horizon} steps at the "
            "false-alarm rate asked for, so that there will never be an alarm. Give a horizon of at least "
            f"{next(enough, _LONGEST)}, a larger epsilon or a higher rate.",
            UserWarning,
            stacklevel=4,
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

    Parameters
    ----------
    flags : ndarray of int, shape (n_samples, n_units, 2)
    horizon, needed : int

    Returns
    -------
    roots : ndarray of int, shape (n_samples,)
        Unit, -1 for no incident, -2 for undecided.
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
    """What Table 1 says of every pair of units at every step.

    Parameters
    ----------
    flags : DataFrame
        As :meth:`FederatedRCADetector.flags` gives it: columns ``unit__Z_c`` and ``unit__Z_a``.

    Returns
    -------
    DataFrame
        One column ``first, second`` per pair of units. A root is told as ``"first"`` or ``"first -> second"``
        where the other shows the propagated effect; special verdicts by their names.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.server.watching.flags import table_1_answers
    >>> names = ["a__Z_c", "a__Z_a", "b__Z_c", "b__Z_a"]
    >>> table_1_answers(pd.DataFrame([[1, 0, 1, 1], [0, 1, 1, 1]], columns=names))["a, b"].tolist()
    ['b -> a', 'imperfect training']
    """
    names = list(dict.fromkeys(column.rpartition("__")[0] for column in flags))
    pairs = {name: flags[[f"{name}__Z_c", f"{name}__Z_a"]].to_numpy().tolist() for name in names}
    told = {}
    for k, first in enumerate(names):
        for second in names[k + 1 :]:
            name = {"first": first, "second": second}
            told[f"{first}, {second}"] = [
                _in_words(TABLE_1[tuple(a), tuple(b)], name)
                for a, b in zip(pairs[first], pairs[second], strict=True)
            ]
    return pd.DataFrame(told, index=flags.index)


def _in_words(answer, name):
    if isinstance(answer, str):
        return answer
    root, effect = answer
    return name[root] if effect is None else f"{name[root]} -> {name[effect]}"
