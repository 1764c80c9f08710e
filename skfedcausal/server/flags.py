"""The paper's inference: two anomaly flags per unit, a look-up table of pairs, consistency over a horizon."""

import numpy as np

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


def roots_of_flags(flags, horizon=1, needed=1):
    """Root unit at every step from the flags of all units.

    A unit is the root when its flags are (1, 1), as in every pair of Table 1 that has a root, and no other
    unit's are; two such units violate the paper's assumptions (Proposition 5.2). With a horizon the unit
    must have been the root in at least `needed` of the last `horizon` steps and more often than any other
    (Remark 5.1).

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
    if horizon > 1:
        sums = np.cumsum(np.concatenate([np.zeros((1, is_root.shape[1])), is_root]), axis=0)
        ends = np.arange(1, len(is_root) + 1)
        count = sums[ends] - sums[np.maximum(ends - horizon, 0)]
        is_root = (count >= needed) & (count == count.max(axis=1, keepdims=True))
    total = is_root.sum(axis=1)
    return np.where(total == 1, is_root.argmax(axis=1), np.where(total > 1, -2, -1))
