"""What a move did: against the simulator, against `whatif`, and in words."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skfedcausal import FederatedCounterfactualEstimator, inspection

pytestmark = pytest.mark.medium

N, FIRST, LAST = 1500, 1400, 1460


def simulate(u, noise):
    """A first-order unit that drives another; a third is left alone."""
    x, Y = np.zeros(3), np.zeros((len(u), 3))
    for t in range(len(u)):
        Y[t] = x + noise[t, 3:]
        x = np.array([0.8 * x[0] + 0.5 * u[t], 0.7 * x[1] + 0.3 * x[0], 0.6 * x[2]]) + noise[t, :3]
    return Y


@pytest.fixture(scope="module")
def moved():
    """A record with a move, the input without it, and what the move did."""
    rng = np.random.default_rng(0)
    u, noise = rng.uniform(-1, 1, N), 0.1 * rng.standard_normal((N, 6))
    with_move = u.copy()
    with_move[FIRST : FIRST + 30] = 0.9
    Y, without = simulate(with_move, noise), simulate(u, noise)
    record = pd.DataFrame(np.column_stack([Y, with_move]), columns=["a__y", "b__y", "c__y", "a__u"])
    record = record[["a__y", "a__u", "b__y", "c__y"]]
    return record, u, Y - without


@pytest.fixture(scope="module")
def fitted(moved):
    return FederatedCounterfactualEstimator(input_columns=["a__u"]).fit(moved[0].iloc[:FIRST])


def test_the_effect_is_what_the_simulator_says(moved, fitted):
    record, u, truth = moved
    found = fitted.impact(record, {"a__u": u[FIRST:LAST]}, (FIRST, LAST))
    effect = found.table.pivot(index="time", columns="column", values="effect").to_numpy()
    # 1400 rows: coefficients are known to two or three percent
    assert np.linalg.norm(effect - truth) < 0.1 * np.linalg.norm(truth)
    assert (effect[:FIRST] == 0).all()
    verdicts = found.total.set_index("column")["verdict"]
    assert verdicts[["a__y", "b__y"]].tolist() == ["effect", "effect"]
    assert verdicts["c__y"] == "no effect to be seen"
    assert "raised a__y" in found.summary
    assert "hardly moved c__y" in found.summary


def test_the_table_is_that_of_whatif_from_the_other_side(moved, fitted):
    record, u, _ = moved
    found = fitted.impact(record, {"a__u": u[FIRST:LAST]}, (FIRST, LAST), confidence=0.8).table
    other = fitted.whatif(record, {"a__u": u}, confidence=0.8)
    names = ["time", "column", "factual", "counterfactual", "effect", "low", "high", "effect_low", "effect_high"]
    assert list(found.columns) == names
    pd.testing.assert_frame_equal(
        found[["time", "column", "counterfactual", "low", "high"]],
        other[["time", "column", "counterfactual", "low", "high"]],
    )
    assert_allclose(found["effect"], found["factual"] - found["counterfactual"], atol=1e-12)
    assert_allclose(found["effect_low"], found["factual"] - found["high"])


def test_totals_are_sums_over_the_window(moved, fitted):
    record, u, _ = moved
    found = fitted.impact(record, {"a__u": u[FIRST:LAST]}, (FIRST, LAST))
    inside = found.table[found.table["time"].between(FIRST, LAST - 1)].groupby("column")["effect"]
    total = found.total.set_index("column")
    assert_allclose(total["total"], inside.sum().loc[total.index])
    assert_allclose(total["mean"], inside.mean().loc[total.index])
    assert (total["low"] <= total["total"]).all()


def test_bands_of_means_lie_within_the_means_of_bands(moved, fitted):
    found = fitted.impact(moved[0], {"a__u": 0.0}, (FIRST, LAST))
    inside = found.table[found.table["time"].between(FIRST, LAST - 1)].groupby("column")
    total = found.total.set_index("column")
    assert (total["mean_low"] >= inside["effect_low"].mean().loc[total.index] - 1e-12).all()
    assert (total["mean_high"] <= inside["effect_high"].mean().loc[total.index] + 1e-12).all()


def test_what_other_values_would_have_done_is_what_they_left_out(moved, fitted):
    did, would = (
        fitted.impact(moved[0], {"a__u": 0.0}, (FIRST, LAST), question=question) for question in ("did", "would")
    )
    for one, other in (("effect", "effect"), ("effect_low", "effect_high")):
        assert_allclose(would.table[one], -did.table[other], atol=1e-12)
    assert_allclose(would.total[["mean", "mean_low"]], -did.total[["mean", "mean_high"]])
    assert would.total["verdict"].tolist() == did.total["verdict"].tolist()
    assert "other values of 'a__u' would have lowered " in would.summary
    assert "They would hardly have moved c__y." in would.summary
    assert would.plot("a__y").other == "with other inputs"
    with pytest.raises(ValueError, match="Got question='could'; choose 'did' or 'would'"):
        fitted.impact(moved[0], {"a__u": 0.0}, (FIRST, LAST), question="could")


def test_effects_say_when_they_show_and_how_far_they_are_to_be_trusted(moved, fitted):
    total = fitted.impact(moved[0], {"a__u": 0.0}, (FIRST, LAST)).total.set_index("column")
    a, b = total.loc[["a__y", "b__y"], "shows"]
    assert FIRST < a < b < FIRST + 5  # one row later each, and a fifth of the way soon after
    assert np.isnan(total.loc["c__y", "shows"])
    assert total["trust"].between(0, 1).all()


def test_times_name_a_window_and_functions_see_it(moved, fitted):
    record, _, _ = moved
    dated = record.set_index(pd.date_range("2024-01-01", periods=N, freq="min"))
    edges = dated.index[FIRST], dated.index[LAST]
    one = fitted.impact(dated, {"a__u": lambda u: 0.5 * u}, edges)
    two = fitted.impact(record, {"a__u": 0.5 * record["a__u"].to_numpy()[FIRST:LAST]}, (FIRST, LAST))
    assert_allclose(one.table["effect"], two.table["effect"])
    assert one.window == (edges[0], dated.index[LAST - 1])


@pytest.mark.parametrize(
    ("window", "words"),
    [
        ((10, 10), "holds none"),
        ((-5, 10), "leaves the record"),
        ((0, N + 1), "leaves the record"),
        (7, "give .start, stop."),
        (("monday", "tuesday"), "give positions of rows"),
    ],
)
def test_a_window_lies_in_the_record(moved, fitted, window, words):
    with pytest.raises(ValueError, match=words):
        fitted.impact(moved[0], {"a__u": 0.0}, window)


def test_values_fit_the_window(moved, fitted):
    with pytest.raises(ValueError, match="Got 3 values for input 'a__u' in a window of 60 rows"):
        fitted.impact(moved[0], {"a__u": [1.0, 2.0, 3.0]}, (FIRST, LAST))
    with pytest.raises(ValueError, match="'a__u' was given 'off', but it is a number in the record"):
        fitted.impact(moved[0], {"a__u": "off"}, (10, 20))
    with pytest.raises(ValueError, match="unknown input"):
        fitted.impact(moved[0], {"a__nothing": 0.0}, (FIRST, LAST))


@pytest.mark.parametrize("held", [{"b__y": 0.0}, {"a": {"u": 0.0}}])
def test_sensors_and_units_are_for_whatif(moved, fitted, held):
    with pytest.raises(ValueError, match=r"known inputs are 'a__u'.*ask `whatif` about sensors that are held"):
        fitted.impact(moved[0], held, (FIRST, LAST))


def test_doses_act_in_proportion(moved, fitted):
    table = inspection.dose_response(fitted, moved[0], "a__u", [-0.5, 0.0, 0.5], (FIRST, LAST))
    effect = table.pivot(index="dose", columns="column", values="effect")["a__y"]
    assert_allclose(effect[0.5] - effect[0.0], effect[0.0] - effect[-0.5], rtol=0.2)
    assert (table["low"] <= table["effect"]).all()


def test_a_page_and_a_picture(moved, fitted, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    found = fitted.impact(moved[0], {"a__u": 0.0}, (FIRST, LAST))
    assert found.plot("b__y").ax_.shape == (3,)
    page = found.report(tmp_path / "impact.html").read_text()
    assert "b__y" in page
    assert "data:image/png" in page
    plt.close("all")
    with pytest.raises(ValueError, match="the impact knows"):
        found.plot("b__z")


def test_words_for_inputs_and_nothing_to_replace():
    rng = np.random.default_rng(0)
    mode, x, Y = rng.choice(["idle", "high"], 600), 0.0, np.zeros(600)
    for t in range(600):
        Y[t] = x + 0.05 * rng.standard_normal()
        x = 0.8 * x + 0.4 * (mode[t] == "high")
    record = pd.DataFrame({"mill__y": Y, "mill__mode": mode})
    estimator = FederatedCounterfactualEstimator(input_columns=["mill__mode"]).fit(record)
    found = estimator.impact(record, {"mill__mode": "idle"}, (100, 130))
    assert found.total["verdict"].tolist() == ["effect"]
    assert estimator.impact(record, {"mill__mode": lambda was: was}, (100, 130)).total["total"].tolist() == [0.0]
    with pytest.raises(ValueError, match="whose levels are 'high', 'idle'"):
        estimator.impact(record, {"mill__mode": 1.0}, (100, 130))
    with pytest.raises(ValueError, match="empty `do`"):
        estimator.impact(record, {}, (100, 130))
