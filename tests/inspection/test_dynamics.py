"""Gains and times of step responses against plants whose numbers are known."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.signal import lfilter

from skfedcausal import FederatedCounterfactualEstimator, inspection
from skfedcausal.datasets import make_granger_plant
from skfedcausal.inspection.responses import step_numbers

pytestmark = pytest.mark.medium


def test_numbers_of_a_first_order_response_with_a_dead_time():
    tau, delay = 12.0, 4
    steps = np.zeros(200)
    steps[delay:] = 3 * (1 - np.exp(-np.arange(1, 200 - delay + 1) / tau))
    gain, dead, constant, settled = step_numbers(steps[None, :, None])[:, 0, 0]
    assert_allclose(gain, 3, rtol=1e-5)
    assert dead == delay
    assert_allclose(constant, tau, rtol=0.01)  # interpolated between rows
    # exp(-t / tau) = 0.02
    assert abs(settled - (delay - 1 + tau * np.log(50))) <= 1


def test_a_pair_without_gain_has_no_times():
    assert np.isnan(step_numbers(np.zeros((1, 5, 1)))[1:]).all()


def test_a_plant_with_a_dead_time_is_read_off_its_record():
    rng = np.random.default_rng(0)
    u = np.repeat(rng.uniform(-1, 1, 600), 5)
    x = lfilter([0, 0, 0, 0, 0.2], [1, -0.9], u) + 0.02 * rng.standard_normal(len(u))
    table = pd.DataFrame({"a__y": x, "a__u": u})
    found = inspection.gain_table(FederatedCounterfactualEstimator(input_columns=["a__u"]).fit(table)).iloc[0]
    assert found["gain_low"] < 2 < found["gain_high"]
    assert found["dead_time"] == 4
    assert abs(found["time_constant"] - 1 / -np.log(0.9)) < 0.5


def test_gains_are_those_of_the_transfer_function():
    X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    estimator = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    table, G = inspection.gain_table(estimator), estimator.transfer_function()
    static = G.C @ np.linalg.solve(np.eye(len(G.A)) - G.A, G.B)
    assert_allclose(table["gain"].to_numpy().reshape(2, 16).T, static, atol=1e-5)
    assert (table["gain_low"] <= table["gain_high"]).all()
    with pytest.raises(ValueError, match="between 0 and 1"):
        inspection.gain_table(estimator, confidence=90)


@pytest.fixture(scope="module")
def learned():
    X, truth = make_granger_plant(2, n_samples=1500, n_inputs=1, input_links=[(0, 1)], random_state=0)
    return FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)


def test_step_responses_are_counterfactuals_of_a_step(learned):
    step = inspection.step_response(learned, "unit0__u0", "unit1__x2", n_steps=21)
    effect = learned.counterfactual("unit0", 0.0, 1.0, horizon=20)["unit1__x2"]
    assert_allclose(step["response"].iloc[1:], effect, rtol=1e-8)
    assert step["response"].iloc[0] == 0.0
    assert (step["response_low"] <= step["response_high"]).all()


def test_frequency_responses_are_those_of_the_transfer_function(learned):
    w = np.array([0.0, 0.05, 0.7, np.pi])
    found = inspection.frequency_response(learned, "unit0__u0", "unit1__x2", frequencies=w)
    G = learned.transfer_function()
    i, j = G.output_names.index("unit1__x2"), G.input_names.index("unit0__u0")
    expected = [(G.C @ np.linalg.solve(np.exp(1j * one) * np.eye(len(G.A)) - G.A, G.B))[i, j] for one in w]
    # what comes after the response is cut off
    assert_allclose(found["gain"] * np.exp(1j * found["phase"]), expected, rtol=1e-3, atol=1e-4)
    assert ((found["gain_low"] < found["gain"]) & (found["gain"] < found["gain_high"])).all()


def test_responses_of_what_is_not_known_are_refused(learned):
    with pytest.raises(ValueError, match="unknown input 'unit0__u7'"):
        inspection.step_response(learned, "unit0__u7", "unit1__x2")
    with pytest.raises(ValueError, match="unknown sensor 'unit1__x99'"):
        inspection.frequency_response(learned, "unit0__u0", "unit1__x99")
    with pytest.raises(ValueError, match="radians per step from 0 to pi"):
        inspection.frequency_response(learned, "unit0__u0", "unit1__x2", frequencies=[4.0])
    with pytest.raises(ValueError, match="n_steps=0"):
        inspection.step_response(learned, "unit0__u0", "unit1__x2", n_steps=0)


def test_the_picture_draws_the_numbers(learned):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot as plt

    from skfedcausal.displays import ResponseDisplay

    display = ResponseDisplay.from_estimator(learned, "unit0__u0", "unit1__x2", n_steps=15)
    lines = [ax.lines[0].get_xydata() for ax in display.ax_]
    assert_allclose(lines[0][:, 1], inspection.step_response(learned, "unit0__u0", "unit1__x2", n_steps=15)["response"])
    bode = inspection.frequency_response(learned, "unit0__u0", "unit1__x2")
    assert_allclose(lines[1], bode[["frequency", "gain"]])
    assert_allclose(lines[2][:, 1], np.degrees(bode["phase"]))
    plt.close(display.figure_)


def test_times_in_seconds_where_rows_have_times():
    rng = np.random.default_rng(0)
    u = np.repeat(rng.uniform(-1, 1, 200), 5)
    x = lfilter([0, 0, 0, 0, 0.2], [1, -0.9], u) + 0.02 * rng.standard_normal(len(u))
    rows = pd.DataFrame({"a__y": x, "a__u": u})
    timed = rows.set_index(pd.date_range("2026-01-01", periods=len(rows), freq="30s"))
    plain, known = (FederatedCounterfactualEstimator(input_columns=["a__u"]).fit(one) for one in (rows, timed))
    in_rows, in_seconds = inspection.gain_table(known), inspection.gain_table(known, times="seconds")
    for name in in_rows.columns[2:]:
        assert_allclose(in_seconds[name], in_rows[name] * (1 if name.startswith("gain") else 30))
    with pytest.raises(ValueError, match="had no regular times"):
        inspection.gain_table(plain, times="seconds")
    with pytest.raises(ValueError, match="choose 'rows' or 'seconds'"):
        inspection.gain_table(plain, times="minutes")


def test_what_is_left_of_a_link_that_was_not_selected_is_no_certain_gain():
    rng = np.random.default_rng(1)
    u, x, Y = np.repeat(rng.uniform(-1, 1, (300, 2)), 5, axis=0), np.zeros(2), np.zeros((1500, 2))
    for t in range(1500):
        Y[t] = x + 0.05 * rng.standard_normal(2)
        x = np.array([[0.8, 0.0], [0.2, 0.7]]) @ x + [0.4, 0.3] * u[t] + 0.05 * rng.standard_normal(2)
    record = pd.DataFrame({"a__y": Y[:, 0], "a__u": u[:, 0], "b__y": Y[:, 1], "b__v": u[:, 1]})
    estimator = FederatedCounterfactualEstimator(input_columns=["a__u", "b__v"]).fit(record)
    table = inspection.gain_table(estimator).set_index(["input", "output"])
    none = table.loc[("b__v", "a__y")]
    assert none["gain_low"] <= 0 <= none["gain_high"]
    assert abs(none["gain"]) < 0.01
    assert table.loc[("b__v", "b__y"), "gain_low"] > 0
