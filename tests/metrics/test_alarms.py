"""Run lengths mean what their definitions say."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.metrics import alarm_report


def test_independent_alarms_have_the_run_length_of_their_rate():
    """5 % alarms: one per 20 steps, and 20 steps of waiting from anywhere; five standard errors of 0.13."""
    alarms = np.random.default_rng(0).random(400_000) < 0.05
    report = alarm_report(alarms, [])
    assert_allclose([report["arl0"], report["wait"]], 20, atol=0.7)
    assert np.isnan(report["detected"])
    assert np.isnan(report["delay"])


def test_clusters_make_the_wait_longer_than_the_rate_says():
    alarms = np.zeros(2000, dtype=bool)
    alarms[np.arange(2000) % 200 < 10] = True
    report = alarm_report(alarms, [])
    assert report["arl0"] == 20
    assert report["wait"] > 80


def test_delay_stays_below_the_fault_and_the_gap_grows_with_what_is_missed():
    faults = [(k, k + 10, "a") for k in range(100, 10_000, 100)]
    alarms = np.zeros(10_100, dtype=bool)
    for first, _, _ in faults[::2]:
        alarms[first + 3] = True
    report = alarm_report(alarms, faults)
    assert report["delay"] == 3
    assert report["arl1"] == 4
    assert report["detected"] == pytest.approx(0.5, abs=0.01)
    assert report["gap"] == pytest.approx(200, rel=0.02)
    assert report["arl0"] == np.inf


def test_answers_of_predict_are_no_alarms():
    predicted = np.array([1, 1, -1, 1])
    with pytest.raises(ValueError, match="predict"):
        alarm_report(predicted, [])
    assert alarm_report(predicted == -1, [(2, 3)])["detected"] == 1
