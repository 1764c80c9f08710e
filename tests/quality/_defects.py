"""Simulated plants as historians export them, and the defects that exports have."""

import numpy as np
import pandas as pd

from skfedcausal.datasets import make_granger_plant
from skfedcausal.datasets._exports import swinging_door

STEPS = ("1s", "10s", "30s", "60s")


def clean_plant(seed):
    """A plant with measured tags, rounded and integer ones, switches and setpoints, and its settings.

    Returns
    -------
    X : DataFrame
        Columns ``unit__tag``, with times.
    kinds : dict of str to str
        "measured", "rounded", "integer", "switch", "setpoint" of each column.
    """
    rng = np.random.default_rng([seed, 7])
    n_units, n_rows = int(rng.integers(2, 6)), int(rng.choice([1500, 3000, 6000]))
    slow = rng.choice(["fast", "medium", "slow"])
    radius = {"fast": (0.2, 0.6), "medium": (0.6, 0.9), "slow": (0.9, 0.97)}[slow]
    links = [(k, k + 1) if rng.random() < 0.7 else (k + 1, k) for k in range(n_units - 1)]
    n_states = int(rng.integers(1, 4))
    X, _ = make_granger_plant(
        n_units,
        n_states=n_states,
        n_sensors=int(rng.integers(max(3, n_states), 9)),
        n_samples=n_rows,
        links=links,
        link_strength=(0.2, 0.5),
        radius=radius,
        measurement_noise=float(rng.choice([0.2, 0.5, 1.0])),
        missing=float(rng.choice([0.0, 0.0, 0.02])),
        random_state=seed,
    )
    index = pd.date_range("2026-03-02", periods=n_rows, freq=str(rng.choice(STEPS)))
    columns, kinds = {}, {}
    for name, Y in X.items():
        for j, y in enumerate(Y.T):
            kind = str(rng.choice(["measured", "measured", "rounded", "integer"])) if j > 1 else "measured"
            scaled = 50 + rng.uniform(2, 20) * (y - np.nanmean(y)) / np.nanstd(y)
            digits = {"measured": None, "rounded": int(rng.integers(1, 4)), "integer": 0}[kind]
            columns[f"{name}__s{j}"] = scaled if digits is None else np.round(scaled, digits)
            kinds[f"{name}__s{j}"] = kind
        columns[f"{name}__pump"] = _switch(rng, n_rows)
        columns[f"{name}__setpoint"] = _setpoint(rng, n_rows)
        kinds |= {f"{name}__pump": "switch", f"{name}__setpoint": "setpoint"}
    return pd.DataFrame(columns, index=index), kinds


def _switch(rng, n_rows):
    """A pump that is switched now and then, or never."""
    mean = float(rng.choice([20, 200, 10 * n_rows]))
    changes = rng.random(n_rows) < 1 / mean
    return (np.cumsum(changes) % 2).astype(float)


def _setpoint(rng, n_rows):
    """A setpoint that an operator changes a few times, or never."""
    n = int(rng.choice([0, 1, 5, 15]))
    levels = np.round(rng.uniform(10, 90, n + 1), 1)
    return levels[np.searchsorted(np.sort(rng.integers(1, n_rows, n)), np.arange(n_rows), side="right")]


# -- defects: each changes a copy and says what should be found ---------------------------------------


def compressed(rng, X, kinds):
    """One tag through a swinging door."""
    column = _one(rng, kinds, ("measured", "rounded"))
    y = X[column].ffill().bfill().to_numpy()
    noise = np.std(np.diff(y)) / np.sqrt(2)
    return X.assign(**{column: swinging_door(y, rng.uniform(0.7, 3) * noise)}), (column, ("interpolated",))


def slowed(rng, X, kinds):
    """One tag that has a new value every few rows only, held in between."""
    column, period = _one(rng, kinds, ("measured", "rounded")), int(rng.integers(3, 10))
    y = X[column].ffill().bfill().to_numpy()
    return X.assign(**{column: y[np.arange(len(y)) // period * period]}), (column, ("slow",))


def stuck(rng, X, kinds):
    """One tag that freezes for 3 to 30 % of the record."""
    column = _one(rng, kinds, ("measured", "rounded"))
    start, stop = _stretch(rng, len(X), 0.03, 0.3)
    y = X[column].ffill().bfill().to_numpy().copy()
    y[start:stop] = y[start]
    return X.assign(**{column: y}), (column, ("stuck",))


def clipped(rng, X, kinds):
    """One tag that saturates above its 80th to 97th percentile."""
    column = _one(rng, kinds, ("measured",))
    limit = np.nanpercentile(X[column], rng.uniform(80, 97))
    return X.assign(**{column: X[column].clip(upper=limit)}), (column, ("clipped",))


def outage(rng, X, kinds):
    """One unit without values, or with its last ones repeated, for 2 to 15 % of the record."""
    unit = str(rng.choice(units_of(X)))
    columns = [column for column in X if column.startswith(unit + "__")]
    start, stop = _stretch(rng, len(X), 0.02, 0.15)
    changed = X.copy()
    rows = changed.index[start:stop]
    frozen = X[columns].ffill().bfill().iloc[start].to_numpy()
    changed.loc[rows, columns] = np.nan if rng.random() < 0.5 else frozen
    return changed, (unit, ("outage",))


def clock_shift(rng, X, kinds):
    """One unit whose clock is 5 to 60 steps off."""
    unit = str(rng.choice(units_of(X)))
    columns = [column for column in X if column.startswith(unit + "__")]
    shift = int(rng.integers(5, 61)) * int(rng.choice([-1, 1]))
    changed = X.copy()
    changed[columns] = X[columns].shift(shift)
    return changed.iloc[60:-60], (unit, ("clock",))


def repeated_hour(rng, X, kinds):
    """Local times of a record over the night in which clocks are put back."""
    own = X.index[1] - X.index[0] if isinstance(X.index, pd.DatetimeIndex) else pd.Timedelta("10s")
    step = max(own, pd.Timedelta("6h") / len(X)).ceil("s")
    before = int(rng.uniform(0.2, 2.5) * pd.Timedelta("1h") / step)
    start = pd.Timestamp("2026-10-25 03:00", tz="Etc/GMT-2") - before * step
    times = pd.date_range(start, periods=len(X), freq=step).tz_convert("Europe/Berlin").tz_localize(None)
    changed = X.set_axis(times)
    if rng.random() < 0.5:
        changed = changed.sort_index(kind="stable")
    return changed, ("all units", ("repeated hour",))


DEFECTS = {
    "swinging-door compression": compressed,
    "clock shift": clock_shift,
    "stuck tag": stuck,
    "unit outage": outage,
    "DST repeat": repeated_hour,
    "clipped tag": clipped,
    "slow tag": slowed,
}


def units_of(X):
    """Names of the units."""
    return list(dict.fromkeys(column.split("__")[0] for column in X))


def _one(rng, kinds, wanted):
    return str(rng.choice([column for column, kind in kinds.items() if kind in wanted]))


def _stretch(rng, n_rows, least, most):
    length = int(rng.uniform(least, most) * n_rows)
    start = int(rng.integers(10, n_rows - length - 10))
    return start, start + length
