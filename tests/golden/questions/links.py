"""Which unit drives which: all questions about links, of one lag, with and without gaps, of two records."""

from skfedcausal import inspection
from skfedcausal.server.links.questions import screen

from ..plants import Plant, Record, at_sites, by_files, by_pickle, by_threads
from .common import (
    ABOUT,
    LEARNED,
    ask,
    ask_nothing,
    gappy,
    granger,
    page,
    record,
    table_of,
)

_RESAMPLED = {"n_resamples": 4, "random_state": 0}

# questions that sites answer about their own records
QUESTIONS = {
    **LEARNED,
    "test_links by likelihood ratios": ask("test_links"),
    "test_links by Wald's statistic": ask("test_links", method="wald"),
    "test_links by scores": ask("test_links", method="score"),
    "predict": ask("predict"),
    "predict by own filters": ask("predict", model="client"),
    "predict by the server": ask("predict", model="server"),
    "forecast": ask("forecast", start=500),
    "forecast with a band": ask("forecast", start=500, confidence=0.9),
    "forecast with deviations": ask("forecast", start=500, return_std=True),
    "transform": ask("transform"),
    "score": ask("score"),
    "score_samples": ask("score_samples"),
    "changed_links": ask("changed_links"),
    "benefit": ask("benefit"),
    "benefit by pair": ask("benefit", by="pair"),
    "link_effects": ask_nothing("link_effects"),
    "link_intervals": ask_nothing("link_intervals"),
    "link_intervals of Geweke's measure": ask_nothing("link_intervals", confidence=0.9, geweke=True),
    "spectrum": ask_nothing("spectrum", "unit0", "unit1"),
    "spectrum with a band": ask_nothing("spectrum", "unit0", "unit1", n_frequencies=16, confidence=0.9),
    "spectrum of two units": ask_nothing("spectrum", "unit0", "unit1", conditional=False),
    "to_networkx": ask_nothing("to_networkx", undecided=True),
    "validity_": lambda fitted: fitted.estimator.validity_,
}
RESAMPLED = {
    "bootstrap_links": ask("bootstrap_links", **_RESAMPLED),
    "bootstrap_links by simulation": ask("bootstrap_links", method="parametric", **_RESAMPLED),
    "stable_links": ask("stable_links", **_RESAMPLED),
    "links_over_time": ask("links_over_time"),
}
HERE = {
    **ABOUT,
    "oracle": ask("oracle"),
    "oracle_gap": ask("oracle_gap"),
    "plan": ask("plan"),
    "changed_links since": lambda fitted: inspection.changed_links(
        fitted.estimator, _changed().X, false_alarm_rate=0.01
    ),
    "predict other rows": lambda fitted: fitted.estimator.predict(_changed().X),
    "fit_transform": lambda fitted: fitted.copy().fit_transform(fitted.record.X),
    "screen by the server": lambda fitted: screen(fitted.estimator.server_, messages(fitted)),
    "get_feature_names_out": ask_nothing("get_feature_names_out"),
    "report": page(lambda fitted, path: fitted.estimator.report(path, X=fitted.record.X)),
    "frame out": lambda fitted: fitted.copy().set_output(transform="pandas").transform(fitted.record.X),
}


def messages(fitted):
    """What the units say of their records, as the server has it."""
    return {name: client.message(fitted.record.X[name]) for name, client in fitted.estimator.clients_.items()}


def _changed():
    """Rows of a plant in which the links are others."""
    return record(seed=0, links=((0, 1), (2, 0)), n_samples=600)


def _two_records():
    found = record(n_samples=900)
    return Record(found.X, None, (500, 400))


def _timed():
    return Record(table_of(record(n_samples=600), start="2020-01-01"))


PLANTS = [
    Plant(
        "links",
        granger,
        record,
        QUESTIONS | RESAMPLED,
        HERE,
        {"at sites": at_sites},
    ),
    Plant(
        "links, other ways",
        granger,
        lambda: record(n_samples=500),
        {name: QUESTIONS[name] for name in ("plant", "test_links by scores", "predict", "score")},
        ways={"by threads": by_threads, "by files": by_files, "by a pickle": by_pickle},
    ),
    Plant(
        "links with gaps",
        granger,
        lambda: gappy(record()),
        {
            **LEARNED,
            **{
                name: QUESTIONS[name]
                for name in (
                    "test_links by likelihood ratios",
                    "predict",
                    "predict by own filters",
                    "predict by the server",
                    "forecast",
                    "forecast with a band",
                    "transform",
                    "score",
                    "score_samples",
                    "changed_links",
                    "benefit",
                    "link_effects",
                    "link_intervals",
                    "spectrum",
                    "links_over_time",
                    "bootstrap_links",
                    "stable_links",
                )
                if name in QUESTIONS
            },
            "links_over_time": RESAMPLED["links_over_time"],
            "stable_links": RESAMPLED["stable_links"],
        },
        {**ABOUT, "oracle": HERE["oracle"]},
        {"at sites": at_sites},
    ),
    Plant(
        "links, two records",
        granger,
        _two_records,
        {
            **LEARNED,
            "test_links": ask("test_links"),
            "predict": ask("predict"),
            "score_samples": ask("score_samples"),
            "benefit": ask("benefit"),
            "links_over_time": ask("links_over_time"),
            "transform": ask("transform"),
            "bootstrap_links": RESAMPLED["bootstrap_links"],
        },
        ABOUT,
        {"at sites": at_sites},
    ),
    Plant(
        "links, times",
        granger,
        _timed,
        {**LEARNED, "forecast": ask("forecast", start=400), "links_over_time": ask("links_over_time")},
        {**ABOUT, "report": page(lambda fitted, path: fitted.estimator.report(path, X=fitted.record.X))},
    ),
]
