"""Relays: pumps and valves that a level switches on and off, learned from a record and reacting in what-if answers."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import linalg, signal, stats

from ..containers.arrays import SEPARATOR, listed, refuse_unknown
from ..statespace.episodes import episodes
from .tuning import TUNING

_LAGS = 4  # rows of the past that news are news beside
_TINY = 1e-9  # variance of a status that its past and the inputs leave at least
_RIDGE = 1e-9  # share of the rows, for columns that repeat each other


@dataclass(frozen=True)
class Relay:
    """A switch that a level turns on beyond one value and off beyond another; in between it stays as it was.

    Parameters
    ----------
    level : str
        Sensor that it follows, ``unit__sensor``.
    on, off : float
        In units of the sensor. It switches on below `on` and off above `off`, or, where `on` is the larger one, on
        above `on` and off below `off`.

    Raises
    ------
    ValueError
        If `on` and `off` are not two different finite numbers.

    Examples
    --------
    >>> pump = Relay("tank__level", on=3.1, off=4.4)
    >>> print(pump)
    on below 3.1, off above 4.4 of 'tank__level'
    >>> pump.status([4.0, 3.0, 4.0, 4.5, 4.0])
    array([0., 1., 1., 0., 0.])
    """

    level: str
    on: float
    off: float

    def __post_init__(self):
        if not np.isfinite([self.on, self.off]).all() or self.on == self.off:
            raise ValueError(
                f"Got on={self.on!r} and off={self.off!r} of a relay; give two different numbers, in units of "
                f"{self.level!r}."
            )

    def __str__(self):
        sides = ("below", "above") if self.on < self.off else ("above", "below")
        return f"on {sides[0]} {self.on:.4g}, off {sides[1]} {self.off:.4g} of {self.level!r}"

    def status(self, level, before=0.0):
        """Whether it is on in each row.

        Parameters
        ----------
        level : array-like of shape (n_samples,)
            Of the same row; one that is missing switches nothing.
        before : float, default=0
            Status before the first row, 1 for on.

        Returns
        -------
        ndarray of shape (n_samples,)
            Zeros and ones.
        """
        side = 1 if self.on < self.off else -1
        level = np.asarray(level, dtype=float)
        is_on, is_off = side * level < side * self.on, side * level > side * self.off
        last = np.maximum.accumulate(np.where(is_on | is_off, np.arange(len(level)), -1))
        return np.where(last >= 0, is_on[last], before).astype(float)


def learned_relay(X, level, response, inputs=()):
    """The relay by a level whose switching explains most of what a column does beyond its past.

    For whoever sees both columns; it looks at nothing but `X`. The pump itself need not be measured: a flow or a
    pressure that it moves is enough.

    Parameters
    ----------
    X : DataFrame
        Record, in rows that follow each other, with the columns named and others that may explain the response.
    level, response : str
        Column that switches, and one that shows it: a status, a flow, a pressure.
    inputs : sequence of str, default=()
        Columns that may act in their own row.

    Returns
    -------
    Relay

    Raises
    ------
    ValueError
        If a column is unknown or has missing values, rows are too few, or no relay that switches twice in every tenth
        of the record explains 0.5 % of the news of the response, and more than chance, with the same sign in all.

    Notes
    -----
    News are what a regression on four rows of the past of all columns, on level and inputs of the same row, and on
    means of the level's past over about 5, 20 and 80 rows leaves of the response: a status of few switches says little
    more than whether the level was high for long, and that is no relay. Thresholds are those, of 25 quantiles of the
    level and then of 17 values around them, whose status is most correlated with the news when the same regression is
    taken off it. A level that goes with the one that switches, or acts along a curve, may pass for a relay: name the
    level that the plant's controls name.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> rng, level, on, rows = np.random.default_rng(0), 4.0, 0.0, []
    >>> for _ in range(2000):
    ...     on = 1.0 if level < 3 else 0.0 if level > 5 else on
    ...     rows.append([level, 2 * on + 0.3 * rng.normal()])
    ...     level += 0.2 * on - 0.1 + 0.05 * rng.normal()
    >>> found = learned_relay(pd.DataFrame(rows, columns=["level", "flow"]), "level", "flow")
    >>> bool(abs(found.on - 3) < 0.1 and abs(found.off - 5) < 0.1)
    True
    """
    refuse_unknown((level, response, *inputs), X.columns, "Got no column", "the record has")
    values = X.to_numpy(dtype=float)
    if not np.isfinite(values).all() or len(X) < 2 * TUNING.relays_stretches * _LAGS * (values.shape[1] + 1):
        raise ValueError(
            f"Got {len(X)} rows of {values.shape[1]} columns; give a stretch without missing values, of at least "
            f"{2 * TUNING.relays_stretches * _LAGS * (values.shape[1] + 1)} rows."
        )
    past = [values[_LAGS - k : len(values) - k] for k in range(1, _LAGS + 1)]
    read, response_rows = X[level].to_numpy(dtype=float), X[[response]].to_numpy(dtype=float)[_LAGS:]
    now, memory = X[[level, *inputs]].to_numpy(dtype=float)[_LAGS:], _memory(read)[_LAGS - 1 : -1]
    known = np.hstack([np.ones((len(past[0]), 1)), *past, now, memory])
    ends = np.unique(np.quantile(read, np.linspace(0.02, 0.98, TUNING.relays_ends)))
    lows = highs = ends
    for _ in range(2):  # around what was found once more
        tried = [Relay(level, float(a), float(b)) for a in lows for b in highs if a < b]
        statuses = np.column_stack([relay.status(read)[_LAGS:] for relay in tried])
        rest = _left(known, np.hstack([response_rows, statuses]))
        stretches = np.array_split(rest[:, 1:] * rest[:, :1], TUNING.relays_stretches)
        products = np.array([part.sum(axis=0) for part in stretches])
        size = np.maximum(np.square(rest[:, 1:]).sum(axis=0), _TINY * len(rest)) * np.square(rest[:, 0]).sum()
        share = np.square(products.sum(axis=0)) / size
        best = int(share.argmax())
        lows, highs = (_around(ends, value) for value in (tried[best].on, tried[best].off))
    found = tried[best]
    switches = min(np.abs(np.diff(part)).sum() for part in np.array_split(found.status(read), TUNING.relays_stretches))
    same_sign = abs(np.sign(products[:, best]).sum()) == TUNING.relays_stretches
    # by chance one of all that are tried explains as much
    least = max(TUNING.relays_least, stats.chi2.isf(TUNING.relays_level / len(tried), 1) / len(rest))
    if share[best] < least or not same_sign or switches < TUNING.relays_switches:
        raise ValueError(
            f"No relay by {level!r} explains {response!r}: at most {share[best]:.1%} of its news, where {least:.1%} "
            f"with the same sign in every tenth of the record, and {TUNING.relays_switches} switches in each, are "
            "asked for. Name another level or response, or give the values at which it switches."
        )
    return found if products[:, best].sum() > 0 else Relay(level, found.off, found.on)


def _around(ends, value):
    """Values between those beside one of some."""
    k = int(np.searchsorted(ends, value))
    return np.linspace(ends[max(k - 1, 0)], ends[min(k + 1, len(ends) - 1)], TUNING.relays_finer)


def _memory(level):
    """Means of a level over rows until each row, those of long ago with less and less weight, (n, k)."""
    moved = level - level.mean()
    return np.column_stack([signal.lfilter([1 / n], [1, 1 / n - 1], moved) for n in TUNING.relays_memory])


def _left(known, columns):
    """What a regression on what is known, (n, p), leaves of columns, (n, k)."""
    scale = np.maximum(np.abs(known).max(axis=0), np.finfo(float).tiny)
    known = known / scale
    gram = known.T @ known
    gram[np.diag_indices_from(gram)] += _RIDGE * len(known)
    return columns - known @ linalg.solve(gram, known.T @ columns, assume_a="pos")


def check_relays(relays, inputs):
    """Refuse relays that are none, or whose status is no input of the unit that has the level."""
    for name, relay in relays.items():
        if not isinstance(relay, Relay):
            raise ValueError(f"Got relays[{name!r}]={relay!r}; give a Relay of the sensor that switches it.")
        if name not in inputs:
            raise ValueError(f"Got a relay for {name!r}, which is no input; inputs are {listed(inputs)}.")
        if name.split(SEPARATOR)[0] != relay.level.split(SEPARATOR)[0]:
            raise ValueError(f"Got a relay of {name!r} by {relay.level!r}; name the status as an input of that unit.")


def relays_that_react(relays, do, split):
    """Relays that a question is not about."""
    left = {name: relay for name, relay in (relays or {}).items() if name not in do}
    if left and split:
        raise ValueError(f"Relays {listed(list(left))} answer all inputs together: leave `split` out.")
    return left


def reacting(relays, units, known, recorded, replaced, factual, effect_of, columns):
    """Inputs with those that are relays as they answer the others, and what they do in words.

    Row by row from the first one in which a relay is not as it was: its status there is what the level says, and those
    of later rows are read again with the effect that this has.

    Parameters
    ----------
    relays : dict of str to Relay
        By the input that is the status.
    units : UnitExchange
    known : PlantInputs
    recorded, replaced : ndarray of shape (n_samples, n_inputs)
        Inputs as they were, and as they are asked for.
    factual : ndarray of shape (n_samples, n_sensors)
    effect_of : callable
        Called with inputs (n_samples, n_inputs), gives their effect (n_samples, n_sensors).
    columns : sequence of str
        Names of the sensors.

    Returns
    -------
    replaced : ndarray of shape (n_samples, n_inputs)
    told : list of str
    """
    if not relays:
        return replaced, []
    at = [known.position(name) for name in relays]
    was, read = recorded[:, at], factual[:, _places(relays, columns)]
    _check_status(relays, was)
    follow = partial(_followed, list(relays.values()), units.starts, was)
    status = as_recorded = follow(read, was, 0)
    first, replaced = 0, replaced.copy()
    while True:  # ends: the first row that may differ moves on
        replaced[:, at] = (was + status - as_recorded).clip(0, 1)
        now = follow(read + effect_of(replaced)[:, _places(relays, columns)], status, first)
        differs = np.flatnonzero((now != status).any(axis=1))
        if not len(differs):
            return replaced, _told(relays, was, as_recorded, replaced[:, at])
        status, first = now, int(differs[0]) + 1


def _followed(relays, starts, recorded, levels, status, first):
    """Status of each relay, (n_samples, n_relays), by its level from a row on, as before until then.

    Episodes begin as they were recorded.
    """
    found = status.copy()
    for start, stop in episodes(starts, len(status)):
        begin = max(start, first)
        if begin < stop:
            before = found[begin - 1] if begin > start else recorded[start]
            for k, relay in enumerate(relays):
                found[begin:stop, k] = relay.status(levels[begin:stop, k], before[k])
    return found


def _places(relays, columns):
    """Position of each relay's level among the sensors."""
    missing = [relay.level for relay in relays.values() if relay.level not in columns]
    if missing:
        raise ValueError(f"Got a relay by {missing[0]!r}; sensors of this record are {listed(list(columns))}.")
    return [list(columns).index(relay.level) for relay in relays.values()]


def _check_status(relays, status):
    for name, values in zip(relays, status.T, strict=True):
        if not np.isin(values, (0, 1)).all():
            raise ValueError(f"Input {name!r} of a relay has values beside 0 (off) and 1 (on); give its status.")


def _told(relays, was, followed, status):
    """What relays do, in words."""
    return [
        f"{name!r} reacts: {relay}, as in {np.mean(was[:, k] == followed[:, k]):.0%} of the rows of this record; it is "
        f"another in {np.mean(was[:, k] != status[:, k]):.0%} of them."
        for k, (name, relay) in enumerate(relays.items())
    ]
