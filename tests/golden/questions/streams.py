"""A watch that goes on: batches, what operators say, records that sites watch."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from skfedcausal import Baseline, Evidence, inspection
from skfedcausal.federation import InProcessTransport
from skfedcausal.sites.site import read_site_settings

from ..plants import Plant, Record
from .common import LEARNED, detector, driven, faulty, gappy, made, record, table_of
from .watching import NOMINAL, split


def _plant(n_samples=1600):
    found = faulty(record(n_samples=n_samples, seed=3, links=((0, 1),), n_states=4), "unit2", 1150)
    found.X["unit0"][1400:] += 3.0 * found.X["unit0"].std(axis=0)
    return found


def _parts(found, size):
    """Rows after the nominal ones, in batches."""
    n_rows = len(found.X) if hasattr(found.X, "iloc") else len(next(iter(found.X.values())))
    return [found.rows(k, min(k + size, n_rows)) for k in range(NOMINAL, n_rows, size)]


def _batch(part):
    return part.X if part.inputs is None else (part.X, part.inputs)


def updated(size):
    """What batches of so many rows tell, and how the watch stands then."""

    def asked(fitted):
        watch = fitted.copy()
        told = [watch.update(_batch(part)) for part in _parts(fitted.record, size)]
        return told, watch.alarms_

    return asked


def _iterated(question):
    """The same by an iterator."""

    def asked(fitted):
        watch, parts = fitted.copy(), map(_batch, _parts(fitted.record, 50))
        return [
            (str(one), list(two)) if question == "predict_root_cause" else (one, two)
            for one, two in (
                each if isinstance(each, tuple) else ("", each) for each in getattr(watch, question)(iter(parts))
            )
        ]

    return asked


def _acknowledged(fitted):
    """Somebody has seen the first incident."""
    watch, parts = fitted.copy(), _parts(fitted.record, 50)
    told = [watch.update(_batch(part)) for part in parts[:6]]
    incidents = [table for table in told if len(table)]
    inspection.acknowledge(watch, incidents[-1].iloc[0])
    return told + [watch.update(_batch(part)) for part in parts[6:]], watch.alarms_


def _rebaselined(fitted):
    """The plant runs otherwise from now on, and somebody says so."""
    watch, parts = fitted.copy(), _parts(fitted.record, 50)
    told = [watch.update(_batch(part)) for part in parts[:7]]
    inspection.rebaseline(watch, ["unit2"])
    told += [watch.update(_batch(part)) for part in parts[7:]]
    watch.reset()
    return told, watch.update(_batch(parts[0]))


def _begun_elsewhere(fitted):
    """A record, and a stream, that begin at an operating point that nobody has seen."""
    found = fitted.record.rows(NOMINAL)
    for name in ("unit0", "unit1"):
        found.X[name] += 5.0 * found.X[name].std(axis=0)
    watch = fitted.copy()
    told = [watch.update({name: Y[k : k + 100] for name, Y in found.X.items()}) for k in range(0, 600, 100)]
    return fitted.estimator.incidents(found.X), told


def _paused(fitted):
    """Times that jump between batches."""
    watch, parts = fitted.copy(), _parts(fitted.record, 50)
    return [watch.update(part.X) for part in parts[:2] + parts[3:]]


QUESTIONS = {
    "update by 50 rows": updated(50),
    "update by 7 rows": updated(7),
    "update by single rows": updated(1),
    "incidents of a stream": _iterated("incidents"),
    "roots of a stream": _iterated("predict_root_cause"),
    "acknowledge": _acknowledged,
    "rebaseline": _rebaselined,
    "a record that begins elsewhere": _begun_elsewhere,
}


def _watched_sites(estimator, found, n_nominal=NOMINAL):
    """Sites with a record to learn from and two batches to watch."""
    with TemporaryDirectory() as home:
        home = Path(home)
        for name, Y in found.X.items():
            (home / f"{name}-watched").mkdir()
            np.save(home / f"{name}.npy", Y[:n_nominal])
            middle = (n_nominal + len(Y)) // 2
            for k, part in enumerate((Y[n_nominal:middle], Y[middle:]), start=1):
                np.save(home / f"{name}-watched" / f"{k}.npy", part)
            settings = f'[site]\nname = "{name}"\ndata = "{name}.npy"\nwatched = "{name}-watched"\n'
            (home / f"{name}.toml").write_text(settings)
        workers = {name: read_site_settings(home / f"{name}.toml").gate().worker for name in found.X}
        estimator.fit_sites(InProcessTransport(workers))
        return list(inspection.follow_sites(estimator)), estimator.site_incidents_, inspection.watch_sites(estimator)


def _there(fitted):
    """What sites tell of the batches that they watch."""
    return _watched_sites(fitted.copy(), fitted.record)


def _with_words():
    found = driven(n_samples=1400, seed=3)
    return faulty(found, "unit1", 1150)


PLANTS = [
    Plant("a stream", detector, _plant, QUESTIONS, {"watch_sites": _there}, fit=split(NOMINAL)),
    Plant(
        "a stream with gaps",
        detector,
        lambda: gappy(_plant(1400)),
        {"update by 50 rows": updated(50), "update by single rows": updated(1)},
        {},
        fit=split(NOMINAL),
    ),
    Plant(
        "a stream with inputs",
        detector,
        _with_words,
        {"update by 50 rows": updated(50), "update by single rows": updated(1)},
        {},
        fit=split(NOMINAL),
    ),
    Plant(
        "a stream with times",
        detector,
        lambda: Record(table_of(_plant(1300), "2020-01-01")),
        {"update by 50 rows": updated(50), "update by 20 rows": updated(20), "update after a pause": _paused},
        {},
        fit=split(NOMINAL),
    ),
    Plant(
        "a stream by flags",
        made(detector, false_alarm_rate=0.05, evidence=Evidence("flags", n_steps=5)),
        lambda: _plant(1300),
        {"update by 50 rows": updated(50)},
        {},
        fit=split(NOMINAL),
    ),
    Plant(
        "a stream of campaigns",
        made(detector, baseline=Baseline(levels="episode")),
        lambda: _with_campaigns(),
        {"update by 40 rows": updated(40)},
        {},
        fit=lambda estimator, record: estimator.fit(record.rows(0, NOMINAL).X, lengths=(500, 500)),
    ),
    Plant(
        "a stream after many rows",
        detector,
        lambda: _drifting(),
        {"plant": LEARNED["plant"], "update by 100 rows": updated(100)},
        {},
        fit=split(NOMINAL),
    ),
]


def _with_campaigns():
    """Two levels, and one that was not there before."""
    found = record(n_samples=1500, seed=3, links=((0, 1),), n_states=4)
    for Y in found.X.values():
        Y[500:1000] += 3.0 * Y.std(axis=0)
        Y[1200:1350] += 3.0 * Y.std(axis=0)
    found.X["unit1"][1420:] -= 4.0 * found.X["unit1"].std(axis=0)
    return found


def _drifting():
    """Sensors of a unit that drift slowly."""
    found, rng = record(n_samples=2400, seed=3, links=((0, 1),), n_states=4), np.random.default_rng(0)
    slope = np.linspace(0, 2.5, 1400)[:, None] * rng.standard_normal(found.X["unit2"].shape[1])
    found.X["unit2"][NOMINAL:] += slope * found.X["unit2"].std(axis=0)
    return found
