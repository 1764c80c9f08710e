"""When is a plant out of the ordinary, and where did it begin: all questions of the detector."""

import numpy as np

from skfedcausal import Baseline, Evidence, inspection
from skfedcausal.datasets import make_fault_plant

from ...ask import question
from ..plants import Plant, Record, at_sites, by_threads
from .common import (
    ABOUT,
    LEARNED,
    ask,
    ask_nothing,
    detector,
    driven,
    faulty,
    gappy,
    likelihood,
    made,
    page,
    record,
    table_of,
)

# questions about the record itself, which sites answer, too
WATCHED = {
    **LEARNED,
    "incidents": ask("incidents"),
    "predict_root_cause": ask("predict_root_cause"),
    "predict": ask("predict"),
    "attribute": ask("attribute", start=600),
    "transform": ask("transform"),
    "decision_function": ask("decision_function"),
    "score": ask("score"),
    "score_samples": ask("score_samples"),
}
NOMINAL = 1000


def split(found):
    """A fit to the nominal rows only."""
    return lambda estimator, record: estimator.fit(**record.rows(0, found).given())


def _plant(n_samples=1400, unit="unit2", **settings):
    return faulty(record(n_samples=n_samples, seed=3, links=((0, 1),), **settings), unit, 1150)


def _later(fitted):
    """Rows after the nominal ones, as they are given to a method."""
    return fitted.record.rows(NOMINAL).given()


def _of_later(method, /, *args, **settings):
    return lambda fitted: question(fitted.estimator, method)(*args, **_later(fitted), **settings)


def _first_incident(fitted):
    found = fitted.estimator.incidents(**_later(fitted))
    return found[found["detected"] >= 140].iloc[0]


def _about_incident(method):
    return lambda fitted: question(fitted.estimator, method)(_later(fitted)["X"], _first_incident(fitted))


def _fitted_and_predicted(fitted):
    """A record that is judged by itself."""
    given = fitted.record.rows(0, NOMINAL).given()
    return fitted.copy().fit(**given).predict(**given)


def _truth(fitted):
    """What would be right to say of every row."""
    n_rows = len(next(iter(_later(fitted)["X"].values())))
    return np.where(np.arange(n_rows) >= 150, "unit2", "")


LATER = {
    "incidents": _of_later("incidents"),
    "predict_root_cause": _of_later("predict_root_cause"),
    "predict": _of_later("predict"),
    "attribute": _of_later("attribute", start=150, end=250),
    "transform": _of_later("transform"),
    "decision_function": _of_later("decision_function"),
    "score": _of_later("score"),
    "score_samples": _of_later("score_samples"),
}
_HERE = {
    **ABOUT,
    **LATER,
    "score of roots": lambda fitted: fitted.estimator.score(_later(fitted)["X"], _truth(fitted)),
    "plan": lambda fitted: fitted.estimator.plan(**_later(fitted)),
    "tags": _about_incident("tags"),
    "tag_trend": _about_incident("tag_trend"),
    "report": page(lambda fitted, path: fitted.estimator.report(_first_incident(fitted), path, X=_later(fitted)["X"])),
    "fit_predict": _fitted_and_predicted,
    "partial_fit": lambda fitted: (
        fitted.copy()
        .partial_fit(fitted.record.rows(NOMINAL, 1140).X, forget=0.5)
        .transform(fitted.record.rows(NOMINAL).X)
    ),
    "get_feature_names_out": ask_nothing("get_feature_names_out"),
}


def _campaigns():
    found = record(n_samples=1500, seed=3, links=((0, 1),), n_states=4)
    for Y in found.X.values():
        Y[500:1000] += 3.0 * Y.std(axis=0)
    return Record(found.X, None, (500, 500, 500))


def _levels():
    """The plant runs at two levels, and nobody says when."""
    found = record(n_samples=1600, seed=3, links=((0, 1),), n_states=4)
    for Y in found.X.values():
        Y[400:800] += 4.0 * Y.std(axis=0)
        Y[1000:1300] += 4.0 * Y.std(axis=0)
    return found


def _modes():
    """A column says which recipe runs, and each has a level of its own."""
    found = record(n_samples=1400, seed=3, links=((0, 1),), n_states=4)
    mode = np.arange(1400) // 200 % 2
    for Y in found.X.values():
        Y += 3.0 * mode[:, None]
    return Record(table_of(faulty(found, "unit1", 1150)).assign(unit0__recipe=np.where(mode, "winter", "summer")))


def _driven_plant():
    return faulty(driven(n_samples=1400, seed=3), "unit2", 1150)


def _faults(kind):
    """Rows of a plant with one kind of fault, after nominal ones of the same plant."""
    nominal = make_fault_plant(4, None, n_samples=NOMINAL, random_state=1).data
    later = make_fault_plant(4, kind, n_samples=300, onset=150, random_state=2).data
    return Record({name: np.vstack([nominal[name], later[name]]) for name in nominal})


def _fault(kind):
    return Plant(
        f"fault: {kind}",
        detector,
        lambda: _faults(kind),
        {"incidents": LATER["incidents"], "attribute": LATER["attribute"], "tags": _tags},
        fit=split(NOMINAL),
    )


def _tags(fitted):
    """Tags to blame in every incident that is found."""
    later = _later(fitted)["X"]
    return [
        inspection.tags(fitted.estimator, later, incident)
        for _, incident in fitted.estimator.incidents(later).iterrows()
    ]


PLANTS = [
    Plant("watching", detector, _plant, {**LEARNED}, _HERE, fit=split(NOMINAL)),
    Plant(
        "watching at sites",
        made(detector, baseline=Baseline(levels=None)),
        lambda: faulty(record(n_samples=900, seed=3, links=((0, 1),), n_states=4), at=700),
        WATCHED,
        ABOUT,
        {"at sites": at_sites, "by threads": by_threads},
    ),
    Plant(
        "watching with gaps",
        detector,
        lambda: gappy(_plant()),
        LEARNED,
        LATER,
        fit=split(NOMINAL),
    ),
    Plant(
        "watching by energy", made(detector, evidence=Evidence(statistic="energy")), _plant, LATER, fit=split(NOMINAL)
    ),
    Plant(
        "watching by shifts",
        made(detector, evidence=Evidence(statistic="shift", prior={"unit0": 3.0, "unit1": 1.0, "unit2": 1.0})),
        _plant,
        LATER,
        fit=split(NOMINAL),
    ),
    Plant("watching by likelihood", made(detector, server=likelihood()), _plant, LEARNED, LATER, fit=split(NOMINAL)),
    Plant(
        "watching by flags",
        made(detector, false_alarm_rate=0.05, evidence=Evidence("flags", n_steps=5)),
        _plant,
        {"plant": LEARNED["plant"]},
        {name: LATER[name] for name in ("incidents", "predict_root_cause", "predict", "attribute")}
        | {"flags": _of_later("flags")},
        fit=split(NOMINAL),
    ),
    Plant(
        "watching by flags at sites",
        made(detector, false_alarm_rate=0.05, evidence=Evidence("flags", n_steps=5)),
        lambda: faulty(record(n_samples=900, seed=3, links=((0, 1),), n_states=4), at=700),
        {"flags": ask("flags"), "incidents": ask("incidents"), "attribute": ask("attribute", start=700)},
        {},
        {"at sites": at_sites},
    ),
    Plant("watching with inputs", detector, _driven_plant, LEARNED, LATER, fit=split(NOMINAL)),
    Plant(
        "watching with inputs set after",
        made(detector, sampled="after"),
        _driven_plant,
        LEARNED,
        LATER,
        fit=split(NOMINAL),
    ),
    Plant(
        "campaigns",
        made(detector, baseline=Baseline(levels="episode")),
        _campaigns,
        {
            "plant": LEARNED["plant"],
            "incidents": ask("incidents"),
            "transform": ask("transform"),
            "predict_root_cause": ask("predict_root_cause"),
        },
        ABOUT,
    ),
    Plant(
        "levels that are found",
        detector,
        _levels,
        {"plant": LEARNED["plant"], "incidents": ask("incidents"), "transform": ask("transform")},
        ABOUT,
    ),
    Plant(
        "modes that are told",
        made(detector, baseline=Baseline(mode="unit0__recipe")),
        _modes,
        LEARNED,
        {name: LATER[name] for name in ("incidents", "transform", "attribute")} | ABOUT,
        fit=split(NOMINAL),
    ),
    Plant(
        "watching, times",
        made(detector, false_alarm_rate="1 per day"),
        lambda: Record(table_of(_plant(), "2020-01-01")),
        {"plant": LEARNED["plant"]},
        {
            "incidents": _of_later("incidents"),
            "tags": lambda f: inspection.tags(
                f.estimator, _later(f)["X"], f.estimator.incidents(_later(f)["X"]).iloc[0]
            ),
        },
        fit=split(NOMINAL),
    ),
    *map(
        _fault,
        (
            "step",
            "sensor bias",
            "sensor drift",
            "sensor freeze",
            "unit held",
            "sensor noise",
            "oscillation",
            "changed dynamics",
            "stuck valve",
        ),
    ),
]
