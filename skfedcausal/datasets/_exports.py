"""Exports of a simulated plant as historians write them, with the defects that exports have."""

from pathlib import Path

import numpy as np
import pandas as pd

from ._plants import make_granger_plant

_UNITS = {"P1": "boiler", "P2": "turbine", "P3": "water"}
_ZONE = "Europe/Berlin"
_CLOCK_AHEAD = pd.Timedelta("60s")


def make_historian_exports(folder, *, n_samples=6000, random_state=None):
    """Write exports of a simulated plant of boiler, turbine and water treatment.

    One row every 10 s from the evening of 24 October 2025 on, in local time, over the night in which clocks
    are put back. The boiler (P1) drives the turbine (P2), the turbine the water treatment (P3). In the last
    tenth of the record the boiler is upset for five minutes.

    Parameters
    ----------
    folder : str or Path
        Where to write ``boiler.csv`` (wide, semicolons, decimal commas, quality codes, a tag that froze),
        ``turbine.csv`` (long, words for quality; the clock is a minute ahead) and ``water.csv`` (wide, one
        tag compressed by a swinging door, a gap).
    n_samples : int, default=6000
    random_state : int, RandomState, Generator or None, default=None

    Returns
    -------
    exports : dict of str to Path
        Export of each unit.
    truth : dict
        ``upset`` (first and last time of the upset, with zone), ``root``, ``stuck``, ``interpolated``
        (columns) and ``clock`` (unit and how far it is ahead).

    Raises
    ------
    OSError
        If the folder cannot be written to.

    Examples
    --------
    >>> import tempfile
    >>> from skfedcausal.datasets import make_historian_exports
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     exports, truth = make_historian_exports(folder, n_samples=500, random_state=0)
    ...     print(exports["P1"].read_text().splitlines()[0])
    time;s0;s0.quality;s1;s1.quality;s2;s2.quality;s3;s3.quality
    """
    start = int(0.93 * n_samples)
    plant, _ = make_granger_plant(
        3,
        names=_UNITS,
        n_sensors=4,
        n_samples=n_samples,
        links=[("P1", "P2"), ("P2", "P3")],
        link_strength=0.4,
        measurement_noise=0.7,
        level_shift={"unit": "P1", "size": 4.0, "at": start, "until": start + 30},
        random_state=random_state,
    )
    times = pd.date_range("2025-10-25 18:00", periods=n_samples, freq="10s", tz=_ZONE)
    scaled = {name: 50 + 5 * Y / Y.std(axis=0) for name, Y in plant.items()}
    paths = {unit: Path(folder) / f"{name}.csv" for unit, name in _UNITS.items()}
    _write_boiler(paths["P1"], scaled["P1"], times)
    _write_turbine(paths["P2"], scaled["P2"], times + _CLOCK_AHEAD)
    _write_water(paths["P3"], scaled["P3"], times)
    truth = {"root": "P1", "upset": (times[start], times[start + 29]), "clock": ("P2", _CLOCK_AHEAD)}
    return paths, truth | {"stuck": "P1__s3", "interpolated": "P3__s3"}


def _local(times):
    return times.tz_localize(None).strftime("%d.%m.%Y %H:%M:%S")


def _write_boiler(path, Y, times):
    """Wide with OPC codes; one tag freezes, some values are bad."""
    Y, n = Y.copy(), len(Y)
    Y[n // 5 : n // 3, 3] = Y[n // 5, 3]
    columns = {"time": _local(times)}
    for j, y in enumerate(Y.T):
        columns |= {f"s{j}": y, f"s{j}.quality": np.where(np.arange(n) % 97 == j, 24, 192)}
    pd.DataFrame(columns).to_csv(path, sep=";", index=False, decimal=",", float_format="%.4f")


def _write_turbine(path, Y, times):
    """Long, in order of time."""
    n, d = Y.shape
    stamps = times.tz_convert("UTC").strftime("%Y-%m-%dT%H:%M:%SZ").to_numpy()
    table = pd.DataFrame({"time": np.repeat(stamps, d), "tag": np.tile([f"s{j}" for j in range(d)], n)})
    words = np.where(np.arange(n * d) % 211 == 0, "Bad", "Good")
    table.assign(value=Y.ravel().round(4), quality=words).to_csv(path, index=False)


def _write_water(path, Y, times):
    """Wide; one tag went through a swinging door, three minutes are missing."""
    Y, n = Y.copy(), len(Y)
    Y[:, 3] = swinging_door(Y[:, 3], 0.5 * np.std(np.diff(Y[:, 3])))
    columns = {f"s{j}": [f"{value:.6f}" for value in y] for j, y in enumerate(Y.T)}
    table = pd.DataFrame({"time": _local(times), **columns})
    table.iloc[n // 2 : n // 2 + 18, 1:] = "I/O Timeout"
    table.to_csv(path, index=False)


def swinging_door(values, width):
    """Values as a swinging door archives them: on straight lines, none further than `width` from its own."""
    kept, start = [0], 0
    while start < len(values) - 1:
        low, high, end = -np.inf, np.inf, start + 1
        for t in range(start + 1, len(values)):
            span = t - start
            if not low <= (values[t] - values[start]) / span <= high:
                break
            low = max(low, (values[t] - width - values[start]) / span)
            high = min(high, (values[t] + width - values[start]) / span)
            end = t
        kept.append(end)
        start = end
    return np.interp(np.arange(len(values)), kept, values[kept])
