"""Exports of simulated plants as historians write them, with the defects that exports have."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ._plants import make_granger_plant
from ._records import as_generator, check_count
from .tuning import TUNING

_UNITS = {"P1": "boiler", "P2": "turbine", "P3": "water"}
_ZONE = "Europe/Berlin"
_CLOCK_AHEAD = pd.Timedelta("60s")
_MESSY_UNITS = (
    "BOILER1", "BOILER2", "TURB", "COND", "FGD", "ESP", "MILL", "FEED", "CT", "ASH", "DOSING", "AUX",
)  # fmt: skip
_LINKS = (
    ("MILL", "BOILER1"), ("MILL", "BOILER2"), ("FEED", "BOILER1"), ("BOILER1", "TURB"), ("BOILER2", "TURB"),
    ("TURB", "COND"), ("CT", "COND"), ("COND", "FEED"), ("BOILER1", "ESP"), ("ESP", "FGD"), ("ESP", "ASH"),
    ("DOSING", "FEED"),
)  # fmt: skip
_SPRING = pd.Timestamp("2026-03-29 01:00", tz="UTC")
_FORMS = "{}:{}", "{}-{}", "{}/{}/PV", "{}.{}.PV", "{}_{}"
_KINDS = "LT", "TI", "PIC", "FT", "FIC", "AI", "SI"
_BAD = "Bad", "No Data", "I/O Timeout", "-999.25", "", "#N/A", "Comm Fail"


def make_historian_exports(
    folder: str | PathLike[str],
    *,
    n_samples: int = 6000,
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
) -> tuple[dict[str, Path], dict[str, Any]]:
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
        names=list(_UNITS),
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


def make_messy_export(
    path: str | PathLike[str],
    *,
    n_samples: int = 100_000,
    n_tags: int = 80,
    every: str | pd.Timedelta = "10s",
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
) -> tuple[Path, dict[str, Any]]:
    """Write one file with all twelve units of a simulated power plant, as messy as files of plants are.

    The file is wide, with semicolons and decimal commas. Names of tags join unit and tag in five ways, some in
    small letters. Times are those of a clock on a wall in Berlin, around the night in which clocks are put
    forward. A process fault begins in ``TURB`` at four fifths of the record and lasts 600 rows.

    Parameters
    ----------
    path : str or Path
        File to write.
    n_samples : int, default=100000
        Rows before some are dropped, at least 7000.
    n_tags : int, default=80
        Sensors of all units together, at least 36.
    every : str or Timedelta, default="10s"
        Time from one row to the next.
    random_state : int, RandomState, Generator or None, default=None

    Returns
    -------
    path : Path
        Of the file.
    truth : dict
        ``links`` (pairs of cause and effect), ``names`` (of the file's columns, with unit and tag), ``units`` (a
        pattern that tells unit from tag), ``zone``, ``fault`` (unit, first and last time on the plant's clock),
        ``variance`` (the same of a fault that only makes a unit's noise larger), ``stuck`` (a column), ``text``
        (a column without numbers), ``fill_value`` and ``outage`` (first and last time without rows).

    Raises
    ------
    ValueError
        If there are too few rows or tags.

    See Also
    --------
    skfedcausal.PlantTable : Reads such a file.

    Notes
    -----
    Of the cells 0.2 % hold one of seven marks of a bad value, one of them the number -999.25; half of the tags
    have one empty stretch of 200 to 3000 rows; 1 % of the rows are dropped, and 1000 more in an outage.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from skfedcausal.datasets import make_messy_export
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path, truth = make_messy_export(Path(folder) / "plant.csv", n_samples=7000, random_state=0)
    ...     print(path.read_text().splitlines()[0][:60])
    Timestamp;BOILER1:LT100;BOILER1-TI101;BOILER1/PIC102/PV;BOIL
    >>> len(truth["links"]), truth["fault"][0]
    (12, 'TURB')
    """
    n = check_count(n_samples, "n_samples", 7000)
    n_tags = check_count(n_tags, "n_tags", 3 * len(_MESSY_UNITS))
    rng = as_generator(random_state)
    sizes = [n_tags // len(_MESSY_UNITS) + (k < n_tags % len(_MESSY_UNITS)) for k in range(len(_MESSY_UNITS))]
    fault, variance = ((int(share * n), int(share * n) + TUNING.exports_fault) for share in (0.8, 0.9))
    plant, _ = make_granger_plant(
        len(_MESSY_UNITS), names=_MESSY_UNITS, n_sensors=sizes, n_samples=n, links=_LINKS, link_strength=(0.15, 0.3),
        level_shift={"unit": "TURB", "size": 3.0, "at": fault[0], "until": fault[1]}, random_state=rng,
    )  # fmt: skip
    plant["CT"][slice(*variance)] *= 2.0
    times = pd.date_range(_SPRING - 0.55 * n * pd.Timedelta(every), periods=n, freq=every, tz="UTC").tz_convert(_ZONE)
    names = _names(plant)
    Y = np.hstack([_scaled(own, rng) for own in plant.values()])
    stuck = next(k for k, (unit, _) in enumerate(names.values()) if unit == "ASH")
    first = int(0.3 * n)
    Y[first : first + n // 20, stuck] = Y[first, stuck]
    _empty_stretches(Y, rng)
    cells = _cells(Y, rng)
    cells.insert(0, "Timestamp", times.tz_localize(None).strftime("%d.%m.%Y %H:%M:%S"))
    cells = cells.set_axis(["Timestamp", *names], axis=1)
    cells.insert(len(cells.columns), "Operator", rng.choice(["Meier", "Schulz", "Yilmaz"], n))
    kept = rng.random(n) >= 0.01
    kept[[0, -1, *fault, *variance]] = True
    out = int(0.6 * n), int(0.6 * n) + 1000
    kept[slice(*out)] = False
    cells[kept].to_csv(path, sep=";", index=False)
    return Path(path), {
        "links": [*_LINKS],
        "names": names,
        "units": "{unit}[:/._-]{tag}",
        "zone": _ZONE,
        "fault": ("TURB", times[fault[0]], times[fault[1] - 1]),
        "variance": ("CT", times[variance[0]], times[variance[1] - 1]),
        "stuck": list(names)[stuck],
        "text": "Operator",
        "fill_value": -999.25,
        "outage": (times[out[0]], times[out[1] - 1]),
    }


def _names(plant):
    """Name of each column in the file, with its unit and tag."""
    names, k = {}, 0
    for unit, Y in plant.items():
        for place in range(Y.shape[1]):
            tag, form = f"{_KINDS[place % len(_KINDS)]}{100 + place}", _FORMS[k % len(_FORMS)]
            name = form.format(unit, tag)
            names[name.lower() if form == _FORMS[-1] else name] = (unit, tag)
            k += 1
    return names


def _scaled(Y, rng):
    """Values of sensors in units of their own."""
    low, span = rng.uniform(10, 300, Y.shape[1]), rng.uniform(1, 20, Y.shape[1])
    return low + span * Y / Y.std(axis=0)


def _empty_stretches(Y, rng):
    """No values of half of the tags for 200 to 3000 rows, in place."""
    n, d = Y.shape
    for k in rng.permutation(d)[: d // 2]:
        length = int(rng.integers(200, min(3000, n // 10) + 1))
        first = int(rng.integers(0, n - length))
        Y[first : first + length, k] = np.nan


def _cells(Y, rng):
    """Values as text with decimal commas, some of them marks of a bad value."""
    texts = {}
    for k, y in enumerate(Y.T):
        column = np.char.replace(np.char.mod("%.4f", y), ".", ",").astype(object)
        column[np.isnan(y)] = ""
        bad = np.flatnonzero(rng.random(len(y)) < 0.002)
        column[bad] = rng.choice(_BAD, len(bad))
        texts[k] = column
    return pd.DataFrame(texts)
