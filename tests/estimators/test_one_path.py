"""Sites answer every question that the estimator of a pooled process answers, with the same bits."""

import pickle
import threading
from contextlib import contextmanager
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skfedcausal import (
    Evidence,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GradientServer,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
    inspection,
)
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import ClientError, FileSite, FileTransport, Gate, InProcessTransport, SitePolicy
from skfedcausal.federation.exchange import Site
from skfedcausal.federation.gate import OPERATIONS
from skfedcausal.message.states import Acknowledgement
from skfedcausal.papers import StopRule

from ..ask import question as named

N = 400
X, TRUTH = make_granger_plant(3, n_samples=N, links=[(0, 1), (1, 2)], n_inputs=1, input_links=[(0, 1)], random_state=0)
U = TRUTH.inputs
GAPPY = {name: Y.copy() for name, Y in X.items()}
GAPPY["unit1"][50:60, 2] = np.nan
GAPPY["unit2"][100:120] = np.nan
FAULTY = {name: Y.copy() for name, Y in X.items()}
FAULTY["unit2"][300:] += 4 * FAULTY["unit2"].std(axis=0)

RESAMPLED = {"n_resamples": 3, "random_state": 0}
# of each kind of fit: the estimator, the record, whether units have inputs, and what is asked
KINDS = {
    "granger": (
        lambda: FederatedGrangerEstimator(),
        X,
        False,
        {
            "predict": {},
            "predict by own filters": {"model": "client"},
            "predict by the server": {"model": "server"},
            "forecast": {"start": 350},
            "transform": {},
            "score": {},
            "score_samples": {},
            "test_links": {"method": "score"},
            "benefit": {},
            "bootstrap_links": RESAMPLED,
            "stable_links": RESAMPLED,
            "changed_links": {},
            "links_over_time": {},
        },
    ),
    "granger with gaps": (
        lambda: FederatedGrangerEstimator(server=LikelihoodServer(options=LikelihoodOptions(n_rounds=2))),
        GAPPY,
        False,
        {
            "predict": {},
            "forecast": {"start": 350},
            "transform": {},
            "score": {},
            "test_links": {},
            "changed_links": {},
        },
    ),
    "trained": (
        lambda: FederatedGrangerEstimator(server=GradientServer(stop=StopRule(max_iter=3, tol=0.0))),
        X,
        False,
        {"losses": {}, "predict": {}, "predict by the server": {"model": "server"}, "transform": {}},
    ),
    "counterfactual": (
        lambda: FederatedCounterfactualEstimator(),
        GAPPY,
        True,
        {
            "counterfactual": {"n": "unit0", "u0": 0.0, "u1": 1.0, "horizon": 4, "return_std": True},
            "counterfactual of states": {"n": 0, "u0": 0.0, "u1": 1.0, "of": "state"},
            "whatif": {"do": {"unit0__u0": lambda u: 0.5 * u}},
            "impact": {"do": {"unit0__u0": 0.0}, "window": (200, 230)},
            "dose_response": {"input": "unit0__u0", "doses": [0.0, 1.0], "window": (200, 230)},
            "transfer_function": {},
            "aggregate_counterfactual": {"unit": "unit1", "scale": 2.0},
            "predict": {},
            "forecast": {"start": 350},
            "forecast with a band": {"start": 350, "confidence": 0.9},
            "score": {},
        },
    ),
    "detector": (
        lambda: FederatedRCADetector(false_alarm_rate=0.05),
        FAULTY,
        False,
        {
            "incidents": {},
            "predict_root_cause": {},
            "predict": {},
            "attribute": {"start": 300},
            "transform": {},
            "score": {},
            "score_samples": {},
        },
    ),
    "detector by flags": (
        lambda: FederatedRCADetector(false_alarm_rate=0.05, evidence=Evidence("flags", n_steps=5)),
        FAULTY,
        False,
        {"flags": {}, "incidents": {}, "predict_root_cause": {}, "attribute": {"start": 300}},
    ),
}
CASES = [(kind, question) for kind, case in KINDS.items() for question in case[3]]
WITHOUT_RECORD = {"counterfactual", "transfer_function", "aggregate_counterfactual"}


def sites_of(kind, wrap=Site):
    """Workers as sites have them: each with its own record and the client of its settings."""
    _, record, driven, _ = KINDS[kind]
    columns = {name: tuple(f"{name}__x{k}" for k in range(Y.shape[1])) for name, Y in record.items()}
    inputs = dict(zip(record, U if driven else [None] * 3, strict=True))
    return {
        name: wrap(UnitWorker(name, Y, inputs[name], (0,), columns[name], KalmanClient())) for name, Y in record.items()
    }


def policy_of(kind):
    """Policy that allows the questions to a kind of estimator, by their names."""
    asked = {question.split()[0] for question in KINDS[kind][3]}
    learning = {"granger with gaps": ("refine", 3), "trained": ("train", 20)}.get(kind, ("fit", 1))
    return SitePolicy(operations=(*sorted(asked & OPERATIONS.keys()), learning[0]), rounds=learning[1])


class ByFiles:
    """Sites in threads, files between them and the server."""

    def __init__(self, kind, folder):
        workers = sites_of(kind, wrap=lambda worker: worker)
        keys = {name: name.encode() * 8 for name in workers}
        self.transport = FileTransport(folder / "exchange", list(workers), "run", keys, timeout=60.0)
        self._threads = []
        for name, worker in workers.items():
            gate = Gate(name, worker, folder / "home" / name, key=keys[name], policy=policy_of(kind))
            site = FileSite(gate, folder / "exchange")
            self._threads.append(threading.Thread(target=site.serve, daemon=True))
            self._threads[-1].start()

    def close(self):
        self.transport.close()
        for thread in self._threads:
            thread.join(10)


TRANSPORTS = {
    "threads": {"n_jobs": 2},
    "processes": {"n_jobs": 2, "backend": "loky"},
}


@pytest.fixture(scope="module")
def here():
    """Estimators fitted to the records in this process."""
    fitted = {}
    for kind, (make, record, driven, _) in KINDS.items():
        fitted[kind] = make().fit(record, **({"inputs": U} if driven else {}))
    return fitted


@pytest.fixture(scope="module")
def said(here):
    """Answers of those estimators, each asked for once; after none of them is a raw row in the estimator."""

    def answer(kind, question):
        value = asked(here[kind], kind, question, KINDS[kind][1])
        kept = pickle.dumps(here[kind])
        assert not any(row in kept for row in raw_rows(KINDS[kind][1]))
        return value

    return cache(answer)


@contextmanager
def fitted_over(transport, kind, folder):
    """An estimator fitted over sites that hold their records."""
    make = KINDS[kind][0]
    if transport != "files":
        yield make().fit_sites(InProcessTransport(sites_of(kind), **TRANSPORTS[transport]))
        return
    files = ByFiles(kind, folder)
    try:
        yield make().fit_sites(files.transport)
    finally:
        files.close()


@pytest.fixture(scope="module")
def transports():
    """Transports to sites in this process."""
    return {kind: InProcessTransport(sites_of(kind)) for kind in KINDS}


@pytest.fixture(scope="module")
def there(transports):
    """The same over sites in this process."""
    return {kind: KINDS[kind][0]().fit_sites(transport) for kind, transport in transports.items()}


def asked(estimator, kind, question, record):
    """Answer to a question about a record, or with None about that of the sites."""
    settings = dict(KINDS[kind][3][question])
    method = named(estimator, question.split()[0])
    if question.split()[0] in WITHOUT_RECORD:
        return method(**settings)
    if record is not None and KINDS[kind][2]:
        settings["inputs"] = U
    return method(record, **settings)


def assert_identical(one, two):
    if isinstance(one, tuple):
        assert len(one) == len(two)
        for a, b in zip(one, two, strict=True):
            assert_identical(a, b)
    elif isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, two, check_exact=True)
    elif isinstance(one, pd.Series):
        pd.testing.assert_series_equal(one, two, check_exact=True)
    elif hasattr(one, "summary"):
        assert one.summary == two.summary
        assert_identical((one.table, one.total), (two.table, two.total))
    elif hasattr(one, "input_names"):
        for name in "ABC":
            assert_array_equal(getattr(one, name), getattr(two, name))
        assert one.output_names == two.output_names
    else:
        assert_array_equal(one, two)


pytestmark = [
    pytest.mark.medium,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def assert_same_plant(one, two):
    assert_array_equal(one.transition_, two.transition_)
    assert_array_equal(one.process_cov_, two.process_cov_)
    if hasattr(one, "links_"):
        assert one.links_.equals(two.links_)


@pytest.mark.parametrize("kind", KINDS)
def test_sites_teach_the_same_plant(here, there, kind):
    assert_same_plant(there[kind], here[kind])


@pytest.mark.parametrize(("kind", "question"), CASES)
def test_sites_answer_as_a_record_in_one_process_does(said, there, kind, question):
    assert_identical(asked(there[kind], kind, question, None), said(kind, question))


@pytest.mark.parametrize(
    ("transport", "kind"),
    [
        pytest.param(transport, kind, marks=[pytest.mark.slow] if kind != "counterfactual" else [])
        for transport in (*TRANSPORTS, "files")
        for kind in KINDS
    ],
)
def test_sites_apart_teach_and_answer_the_same(here, said, transport, kind, tmp_path):
    with fitted_over(transport, kind, tmp_path) as apart:
        assert_same_plant(apart, here[kind])
        for question in KINDS[kind][3]:
            assert_identical(asked(apart, kind, question, None), said(kind, question))


@pytest.mark.filterwarnings("ignore:The schedule takes inputs")
def test_sites_plan_as_a_record_in_one_process_does(here, there):
    settings = {"inputs": ["unit0__u0"], "bounds": {"unit0__u0": (-3.0, 3.0)}, "by": 8}
    one = inspection.reach(here["counterfactual"], {"unit1__x0": 0.5}, **settings, X=GAPPY, record_inputs=U)
    two = inspection.reach(there["counterfactual"], {"unit1__x0": 0.5}, **settings)
    assert (one.verdict, one.miss, one.notes) == (two.verdict, two.miss, two.notes)
    assert_identical((one.schedule, one.trajectory), (two.schedule, two.trajectory))


def test_sites_say_the_same_of_bands_held_sensors_hidden_causes_and_experiments(here, there):
    one, two = here["counterfactual"], there["counterfactual"]
    record = {"inputs": U}
    bands = {"start": 350, "confidence": 0.9}
    assert_identical(one.forecast(GAPPY, **bands, **record), two.forecast(None, **bands))
    held = {"do": {"unit0__x0": 0.5}, "sensors": "force"}
    assert_identical(one.whatif(GAPPY, **held, **record), two.whatif(None, **held))
    assert_identical(one.hidden_causes_, two.hidden_causes_)
    assert_identical(*(inspection.sensitivity(fit, "unit0", 0.0, 1.0, horizon=5) for fit in (one, two)))
    asked = {"inputs": ["unit0__u0"], "bounds": {"unit0__u0": (-3.0, 3.0)}, "rows": 40}
    plans = [inspection.experiment(fit, "unit0", "unit1", **asked) for fit in (one, two)]
    assert_identical(*(plan.schedule for plan in plans))
    assert plans[0].rows_needed == plans[1].rows_needed
    assert_identical(*(inspection.step_response(fit, "unit0__u0", "unit1__x0") for fit in (one, two)))
    assert_identical(*(inspection.frequency_response(fit, "unit0__u0", "unit1__x0") for fit in (one, two)))
    assert_identical(*(inspection.gain_table(fit) for fit in (one, two)))


def test_sites_say_the_same_of_units_that_are_operated_together_and_of_whole_units(here, there):
    one, two = here["counterfactual"], there["counterfactual"]
    together = {"n": ["unit0", "unit1"], "u0": {"unit0": 0.0, "unit1": 0.0}, "u1": {"unit0": 1.0, "unit1": -1.0}}
    for settings in ({"horizon": 3, "return_std": True}, {"split": True}, {"horizon": 3, "loops": "react"}):
        assert_identical(*(fit.counterfactual(**together, **settings) for fit in (one, two)))
    asked = {"do": {"unit0": {"u0": 0.5, "x1": 0.2}, "unit2__u0": np.zeros(N)}, "sensors": "force", "split": True}
    assert_identical(one.whatif(GAPPY, inputs=U, **asked), two.whatif(None, **asked))
    std = {"start": 350, "return_std": True}
    assert_identical(one.forecast(GAPPY, inputs=U, **std), two.forecast(None, **std))
    for fit, record in ((one, {"X": GAPPY, "inputs": U}), (two, {"X": None})):
        with pytest.raises(ValueError, match="sensors='force'"):
            fit.whatif(**record, do={"unit0__x0": 0.5})


def test_sites_that_were_trained_answer_or_say_why_they_cannot():
    """By gradient descent there are effects without standard errors, here as in one process."""
    make = lambda: FederatedCounterfactualEstimator(server=GradientServer(stop=StopRule(max_iter=3, tol=0.0)))  # noqa: E731
    columns = {name: tuple(f"{name}__x{k}" for k in range(Y.shape[1])) for name, Y in X.items()}
    workers = {
        name: Site(UnitWorker(name, Y, inputs, (0,), columns[name], KalmanClient()))
        for (name, Y), inputs in zip(X.items(), U, strict=True)
    }
    one, two = make().fit(X, inputs=U), make().fit_sites(InProcessTransport(workers))
    assert_identical(*(fit.counterfactual("unit0", 0.0, 1.0, horizon=4) for fit in (one, two)))
    assert_identical(*(inspection.gain_table(fit) for fit in (one, two)))
    asked = {"do": {"unit0__u0": 0.0}, "window": (200, 230)}
    found = one.impact(X, inputs=U, **asked), two.impact(None, **asked)
    assert_identical(*found)
    assert "has no band" in found[0].summary
    bands = {"start": 350, "confidence": 0.9}
    assert_identical(one.forecast(X, inputs=U, **bands), two.forecast(None, **bands))
    limits = {"inputs": ["unit0__u0"], "bounds": {"unit0__u0": (-3.0, 3.0)}}
    for question in (
        lambda: inspection.reach(two, {"unit1__x0": 0.5}, **limits, by=8),
        lambda: inspection.experiment(two, "unit0", "unit1", **limits, rows=40),
        lambda: inspection.sensitivity(two, "unit0", 0.0, 1.0),
        lambda: two.whatif(None, {"unit0__x0": 0.5}, sensors="force"),
    ):
        with pytest.raises(ValueError, match=r"Fit with server=LikelihoodServer\(\)"):
            question()


@pytest.mark.parametrize(("kind", "question"), CASES)
def test_a_question_about_nothing_says_which_fit_could_answer(here, kind, question):
    if question.split()[0] in WITHOUT_RECORD:
        return
    with pytest.raises(ValueError, match=r"keeps no record: give X\. Only after `fit_sites`"):
        asked(here[kind], kind, question, None)


def test_the_record_of_the_sites_needs_no_word(there):
    assert_array_equal(there["granger"].transform(), there["granger"].transform(None))


def test_sites_are_not_asked_about_other_records_and_pool_none(there):
    with pytest.raises(ValueError, match=r"sites, which hold their records.*`fit`"):
        there["granger"].predict(X)
    for question in (inspection.oracle, inspection.oracle_gap):
        with pytest.raises(ValueError, match="pools raw measurements, which sites keep"):
            question(there["granger"], X)


# --- nothing raw is kept ----------------------------------------------------------------------------


def raw_rows(record):
    """Bytes of rows and of pieces of columns, as they would lie in a pickle."""
    for Y in record.values():
        for row in (0, 17, len(Y) - 1):
            if np.isfinite(Y[row]).all():
                yield Y[row].tobytes()
        yield Y[200:210, 0].tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_no_raw_row_is_in_a_fitted_estimator_whatever_it_was_asked(here, said, kind):
    kept = pickle.dumps(here[kind])
    assert not any(row in kept for row in raw_rows(KINDS[kind][1]))
    for question in KINDS[kind][3]:
        said(kind, question)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pickle_after_sites_has_neither_rows_nor_transport(there, transports, kind):
    question = next(iter(KINDS[kind][3]))
    expected = asked(there[kind], kind, question, None)
    kept = pickle.dumps(there[kind])
    assert not any(row in kept for row in raw_rows(KINDS[kind][1]))
    loaded = pickle.loads(kept)
    with pytest.raises(ClientError, match=r"connect\(transport\)"):
        asked(loaded, kind, question, None)
    assert_identical(asked(loaded.connect(transports[kind]), kind, question, None), expected)


def test_keys_of_sites_are_in_no_pickle(tmp_path):
    with fitted_over("files", "granger", tmp_path) as estimator:
        kept = pickle.dumps(estimator)
    assert not any(name.encode() * 8 in kept for name in X)


def test_an_estimator_of_records_has_no_sites_to_connect(here):
    with pytest.raises(ValueError, match="no sites to reach"):
        here["granger"].connect(None)


def test_effects_on_states_leave_those_on_sensors_at_the_sites():
    sites = sites_of("counterfactual")
    estimator = FederatedCounterfactualEstimator().fit_sites(InProcessTransport(sites))
    before = estimator.ledger_.total("up")
    estimator.counterfactual("unit0", 0.0, 1.0, horizon=5, of="state")
    assert {site.state["effect"].shape for site in sites.values()} == {(5, 8)}
    acknowledged = sum(Acknowledgement().to_packet(0).nbytes for _ in sites)
    assert estimator.ledger_.total("up") - before < 1.5 * acknowledged


@pytest.mark.parametrize("evidence", ["innovations", "flags"])
@pytest.mark.parametrize("size", [1, 7, 100])
def test_no_raw_row_of_a_stream_is_in_the_detector(evidence, size):
    detector = FederatedRCADetector(false_alarm_rate=0.05, evidence=Evidence(evidence, n_steps=5)).fit(X)
    for start in range(0, 200, size):
        batch = {name: Y[start : start + size] for name, Y in FAULTY.items()}
        detector.update(batch)
        kept = pickle.dumps(detector)
        assert not any(Y[start].tobytes() in kept for Y in FAULTY.values())
        assert not any(Y[max(start - 3, 0)].tobytes() in kept for Y in FAULTY.values())
    again = pickle.loads(pickle.dumps(detector))
    pd.testing.assert_frame_equal(again.incidents(FAULTY), detector.incidents(FAULTY))
