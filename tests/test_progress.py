"""Callbacks hear of every exchange with the units, and the log does."""

import logging

import numpy as np
import pytest

from skfedcausal import FederatedGrangerEstimator, FederatedRCADetector, GradientServer, inspection
from skfedcausal.datasets import make_granger_plant

X, _ = make_granger_plant(2, n_samples=600, random_state=0)


class Recorder:
    """The protocol of scikit-learn's callbacks."""

    def __init__(self):
        self.heard = []

    def setup(self, estimator, context):
        self.heard.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.heard.append(context.task_name)

    def on_fit_task_end(self, estimator, context):
        self.heard.append(f"end of {context.task_name}")

    def teardown(self, estimator, context):
        self.heard.append("teardown")


def test_callbacks_hear_of_every_exchange():
    pytest.importorskip("sklearn.callback")
    recorder = Recorder()
    estimator = FederatedGrangerEstimator().set_callbacks(recorder).fit(X)
    assert recorder.heard[:2] == ["setup", "fit"]
    assert recorder.heard[-2:] == ["end of fit", "teardown"]
    ops = list(dict.fromkeys(entry.op for entry in estimator.ledger_.entries if entry.direction == "down"))
    assert [word for word in recorder.heard[2:-2] if not word.startswith("end")] == ops
    np.testing.assert_array_equal(estimator.transition_, FederatedGrangerEstimator().fit(X).transition_)
    assert inspection.oracle_gap(estimator, X) < 1e-8


@pytest.mark.parametrize(
    "estimator",
    [
        FederatedRCADetector(false_alarm_rate=0.01),
        FederatedGrangerEstimator(server=GradientServer(solve="stationary")),
    ],
)
def test_other_estimators_and_servers_too(estimator):
    pytest.importorskip("sklearn.callback")
    recorder = Recorder()
    estimator.set_callbacks(recorder).fit(X)
    assert recorder.heard[-1] == "teardown"


def test_callbacks_are_let_go_when_a_fit_fails():
    pytest.importorskip("sklearn.callback")
    recorder = Recorder()
    constant = {name: np.ones_like(Y) for name, Y in X.items()}
    with pytest.raises(ValueError, match="nothing to model"):
        FederatedGrangerEstimator().set_callbacks(recorder).fit(constant)
    assert recorder.heard[-1] == "teardown"


def test_the_log_tells_of_exchanges(caplog):
    with caplog.at_level(logging.INFO, logger="skfedcausal"):
        FederatedGrangerEstimator().fit(X)
    assert "fit: 2 units asked, 2 answered" in caplog.messages


def test_the_library_prints_nothing(capsys):
    FederatedGrangerEstimator().fit(X).predict(X)
    assert capsys.readouterr() == ("", "")


def test_verbose_writes_the_log_of_a_fit_to_standard_error(capsys):
    log = logging.getLogger("skfedcausal")
    before = (log.level, list(log.handlers))
    estimator = FederatedGrangerEstimator(verbose=True).fit(X)
    out, err = capsys.readouterr()
    assert out == ""
    assert "[skfedcausal.federation.exchange] fit: 2 units asked, 2 answered" in err
    assert (log.level, list(log.handlers)) == before
    estimator.predict(X)
    assert capsys.readouterr() == ("", "")
