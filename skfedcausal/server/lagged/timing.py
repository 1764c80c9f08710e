"""Whether an input acts in the row it is recorded in: it was set before the row was measured, or after."""

import numpy as np
from scipy import stats

from ...statespace.episodes import episodes, lagged_rows
from .tuning import TUNING

SAMPLED = ("auto", "after", "before")


def words_by_input(sampled, names, sizes):
    """A word for every input, from one for all or a dict of unit -> word or words."""
    if isinstance(sampled, str):
        sampled = dict.fromkeys(names, sampled)
    unknown = set(sampled) - set(names)
    if unknown:
        raise ValueError(f"`sampled` names units {sorted(unknown)}; the units are {', '.join(names)}.")
    words = []
    for name, size in zip(names, sizes, strict=True):
        own = sampled.get(name, "auto")
        own = [own] * size if isinstance(own, str) else list(own)
        if len(own) != size or not set(own) <= set(SAMPLED):
            raise ValueError(
                f"Got sampled={own!r} for the {size} inputs of unit {name!r}; give one of 'auto', 'after', "
                "'before', or one for each input."
            )
        words += own
    return words


def refuse_delays(where):
    """Refuse links that do not act after one row, where plants of several lags cannot be learned."""
    raise ValueError(
        f"`delays` leave out a link's first row, and a plant of several lags cannot be learned {where}. Leave `delays` "
        "out, or allow a delay of one row."
    )


def refuse_at_once(names, sampled, where):
    """Say that an input cannot act in its own row as the plant has one lag."""
    units = names if isinstance(sampled, str) else sorted(sampled)
    raise ValueError(
        f"`sampled` says that inputs of {', '.join(units)} were set before their row was measured and act in "
        f"it, but {where} a plant keeps one lag and none acts at once. Move these columns up by one row: "
        "FederatedCounterfactualEstimator(sampled=...) does so with records in this process."
    )


def first_lags(words, series, starts, n_states):
    """First lag at which every input acts.

    "before" is 0, "after" 1. "auto" is 0 only where feedback cannot deceive it: where earlier measurements
    say nothing of the input, and what its own past leaves of it says something of the row's measurements.
    """
    same_row, feedback = _p_values(series, starts, n_states)
    at_once = (same_row < TUNING.timing_level) & (feedback >= TUNING.timing_level)
    words = np.array(words)
    return np.where((words == "before") | ((words == "auto") & at_once), 0, 1)


def _p_values(series, starts, n_states):
    """P values of no same-row response and of no feedback, by input, (2, k)."""
    s, u = series[:, :n_states], series[:, n_states:]
    kept = np.concatenate([np.arange(a + TUNING.timing_own_lags, b) for a, b in episodes(starts, len(s))])
    lags = TUNING.timing_own_lags, TUNING.timing_state_lags
    own, seen = (lagged_rows(x, n_lags, starts)[kept] for x, n_lags in zip((u, s), lags, strict=True))
    s, u = s[kept], u[kept]
    without, given = _residual(u, own), _residual(u, np.hstack([own, seen]))
    rest = _residual(s, np.hstack([own, seen]))
    n_rows, k = u.shape
    p_values, dof = np.ones((2, k)), n_rows - own.shape[1] - seen.shape[1]
    if dof < 1:
        return p_values
    given_squares = np.maximum(np.square(given).sum(axis=0), TUNING.timing_rounded * n_rows)
    squares = np.maximum(np.square(without).sum(axis=0), given_squares), given_squares
    F = (squares[0] - squares[1]) / seen.shape[1] / (squares[1] / dof)
    p_values[1] = stats.f.sf(F, seen.shape[1], dof)
    after = np.maximum(np.square(_residual(rest, given)).sum(axis=0), TUNING.timing_rounded * n_rows)
    for j in range(k):
        before = np.square(_residual(rest, np.delete(given, j, axis=1))).sum(axis=0)
        ratio = (np.maximum(before, after) / after).max()
        p_values[0, j] = min(1.0, n_states * stats.chi2.sf(n_rows * np.log(ratio), 1))
    return p_values


def _residual(y, x):
    return y - x @ np.linalg.lstsq(x, y, rcond=None)[0] if x.shape[1] else y
