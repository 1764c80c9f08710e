"""What the third paper says about root causes and about the distance to a central filter, beside what is so.

Its ``rho`` is printed with ``|Delta K|`` where the proof needs the gain of the unit's own filter, without the
gains by which the central filter corrects a unit from the others' sensors, and with a term ``L_h C_x`` in the
units of the sensors, not of the states. Both theorems can be violated (see the tests of this module); the
repaired bounds hold, and are no smaller than the distances they bound.
"""

from itertools import combinations

import numpy as np
import pandas as pd

# What pairs of flags say of a root: the table and Algorithm 2. The detector has the rule for many units and steps,
# `roots_of_flags`.

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


def table_1_answers(flags):
    """Verdict of Table 1 on every pair of units at every step, one column ``first, second`` per pair.

    `flags` has the columns ``unit__Z_c`` and ``unit__Z_a``, as :func:`skfedcausal.inspection.flags` gives them.
    A root is ``"first"``, or ``"first -> second"`` where the other shows the propagated effect; special
    verdicts have their names.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal.theory.root_cause_bounds import table_1_answers
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
    >>> from skfedcausal.theory.root_cause_bounds import causal_network
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
        With all units heard, exactly the unit that the detector's rule ``roots_of_flags`` names says "root".
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


# Propositions and theorems beside what is so.


def several_roots(rates, step, length=0.0):
    """Proposition 5.2: faults of several units at once, arrivals being independent Poisson processes.

    Parameters
    ----------
    rates : array-like of shape (n_units,)
        Arrivals per unit of time.
    step : float
        The window ``Delta t``.
    length : float, default=0.0
        How long a fault lasts.

    Returns
    -------
    dict of str to float
        ``probability``, that more than one fault begins in the window; ``bound``, its half squared mean;
        ``overlap``, that a fault of the mean unit meets one of another unit while it lasts. The first
        vanishes with `step`, as the proposition says; the last does not: a unique root does not follow.
    """
    rates = np.asarray(rates, dtype=float)
    total = rates.sum() * step
    others = (rates * (rates.sum() - rates)).sum() / rates.sum()
    return {
        "probability": float(-np.expm1(-total) - total * np.exp(-total)),
        "bound": float(total**2 / 2),
        "overlap": float(-np.expm1(-2 * length * others)),
    }


def learned_interdependency(outputs, best, others, lipschitz, distance):
    """Lemma 6.5: distance of a correction to the sum of the other units' states.

    Parameters
    ----------
    outputs, best : ndarray of shape (n_samples, n_states)
        ``phi_m`` at the present and at the best parameters.
    others : ndarray of shape (n_samples, n_states)
        Sum of the other units' states of the central filter.
    lipschitz, distance : float
        ``L_theta`` and ``|theta - theta*|``.

    Returns
    -------
    dict of str to float
        ``distance``, the left side; ``irreducible``, epsilon*; ``bound``. A triangle inequality, so it
        holds. Yet epsilon* is no training error: the correction that makes the prediction exact is the
        influence, not the sum of states.
    """
    irreducible = _mean_norm(best - others)
    return {
        "distance": _mean_norm(outputs - others),
        "irreducible": irreducible,
        "bound": float(lipschitz * distance + irreducible),
    }


def structural_difference(own, joint):
    """Proposition 6.8: ``delta_m``, mean distance of ``f_m(z_m)`` to unit m's part of ``f(z)``.

    Parameters
    ----------
    own, joint : ndarray of shape (n_samples, n_states)

    Returns
    -------
    float
        Finite for bounded states, which is all that the proposition says.
    """
    return _mean_norm(own - joint)


def central_gap(gain, central_gain, *, rows, columns, f, h, states, residual, n_units):
    """The ``rho`` of Theorems 6.10 and 6.13: distance of a unit's to the central filtered states.

    Parameters
    ----------
    gain : ndarray of shape (n_states, n_sensors)
        Of the unit's own filter.
    central_gain : ndarray of shape (n, d)
        Of the central filter.
    rows, columns : slice
        The unit's states and sensors in it.
    f, h : float
        Lipschitz constants of the unit's maps.
    states : float
        ``C_x``, largest mean norm of a unit's states.
    residual : ndarray of shape (d,)
        Largest size of the central filter's residual, sensor by sensor.
    n_units : int

    Returns
    -------
    dict of str to float
        ``condition``, ``(1 + |Delta K| L_h) L_f``, to be below one; ``printed``, rho as it stands (infinite
        where the condition fails); ``repaired_condition`` and ``repaired``, with ``|K|`` in its place, the
        central filter's gains from other units' sensors, and the influence of the others as the structural
        difference has it: ``repaired`` times ``delta_m`` plus ``offset`` bounds the distance.
    """
    own = central_gain[rows, columns]
    change = np.linalg.norm(gain - own, 2)
    elsewhere = np.delete(central_gain[rows], np.r_[columns], axis=1)
    away = np.linalg.norm(np.delete(residual, np.r_[columns]))
    own_residual = np.linalg.norm(residual[columns])
    condition = (1 + change * h) * f
    top = change * own_residual + h * states + f * (n_units - 1) * states
    factor = 1 + np.linalg.norm(gain, 2) * h
    left = 1 - factor * f
    offset = change * own_residual + np.linalg.norm(elsewhere, 2) * away
    return {
        "condition": float(condition),
        "printed": float(top / (1 - condition)) if condition < 1 else np.inf,
        "repaired_condition": float(factor * f),
        "repaired": float(factor / left) if left > 0 else np.inf,
        "offset": float(offset / left) if left > 0 else np.inf,
    }


def local_convergence(rho, f, irreducible, structural):
    """Theorem 6.10: ``L_f (rho + epsilon*) + delta_m``, the printed bound of a unit's predicted states."""
    return float(f * (rho + irreducible) + structural)


def server_convergence(rho, f_s, n_units, irreducible):
    """Theorem 6.13: ``L_fs M rho + sigma*``, the printed bound of the server's predicted states."""
    return float(f_s * n_units * rho + irreducible)


def state_noise(epsilon, delta, *, gain_change, f, h, phi, states, residual, measurements):
    """Theorem 7.1: noise of the states a unit sends, as printed.

    Parameters
    ----------
    epsilon, delta : tuple of float
        Of the filtered and of the augmented states.
    gain_change : float
        ``|Delta K|``.
    f, h, phi : float
        Lipschitz constants of the unit's maps and of its correction (in its parameters, as printed).
    states, residual, measurements : float
        ``C_x`` and the largest norms of residuals and measurements.

    Returns
    -------
    dict of str to float
        ``filtered`` and ``augmented`` standard deviations. No guarantee: with the central filter's own gain
        (``gain_change=0``) the states go without noise, and a measurement moves every later state too.
    """
    sizes = gain_change * (h * states + residual), f * states + phi * measurements
    found = [2 * size * _classical(e, d) for size, e, d in zip(sizes, epsilon, delta, strict=True)]
    return dict(zip(("filtered", "augmented"), found, strict=True))


def gradient_noise(epsilon, delta, clip):
    """Theorem 7.2: noise of one clipped gradient, ``2 C_g sqrt(2 log(1.25 / delta)) / epsilon``.

    For one release and an epsilon of at most one; rounds add up, and at larger epsilon the classical constant
    is too small (:func:`~skfedcausal.privacy.gaussian_noise_multiplier` is exact).
    """
    return 2 * clip * _classical(epsilon, delta)


def _classical(epsilon, delta):
    return float(np.sqrt(2 * np.log(1.25 / delta)) / epsilon)


def _mean_norm(rows):
    return float(np.linalg.norm(rows, axis=1).mean())
