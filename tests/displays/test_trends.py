"""Trends and effects: the tags that matter, no peak lost, sums that add up."""

import numpy as np
import pandas as pd
import pytest

from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import EffectDisplay, TrendDisplay

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.fixture
def record():
    X, _ = make_granger_plant(3, n_samples=2000, random_state=0)
    X["unit1"][1500:1540, 4] += 8 * X["unit1"][:, 4].std()
    return X


def test_the_tag_that_left_what_was_usual_comes_first(record):
    display = TrendDisplay.from_record(record, window=(1500, 1540), units=["unit1", "unit0"], around=100)
    assert display.frame.columns[0] == "unit1__x4"
    assert len(display.frame) == 240
    assert display.window == (100, 140)


def test_no_peak_is_lost_where_rows_are_drawn_together(record):
    record["unit2"][777, 0] = 99.0
    display = TrendDisplay.from_record(record, columns=["unit2__x0"])
    assert display.ax_[0].dataLim.y1 == 99.0


def test_times_name_the_window(record):
    times = pd.date_range("2026-03-01", periods=2000, freq="1min", tz="Europe/Berlin")
    frames = {name: pd.DataFrame(Y, index=times).add_prefix("t") for name, Y in record.items()}
    display = TrendDisplay.from_record(frames, window=(times[1500], times[1540]))
    assert display.frame.columns[0] in ("unit0__t0", "unit1__t4") or "unit1__t4" in display.frame
    assert display.window == (1500, 1540)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"units": ["boiler"]}, "the record has unit0, unit1, unit2"),
        ({"columns": ["unit0__y"]}, "unit0__x0"),
        ({"window": (100, 5000)}, "no window of a record of 2000 rows"),
    ],
)
def test_what_the_record_does_not_have_is_refused(record, asked, words):
    with pytest.raises(ValueError, match=words):
        TrendDisplay.from_record(record, **asked)


def test_the_effect_so_far_is_the_sum_of_the_effects_before():
    rows = np.arange(50)
    effect = np.where(rows < 10, 0.0, 0.5)
    table = pd.DataFrame({"time": rows, "column": "a__x", "factual": np.sin(rows), "effect": effect})
    table["counterfactual"] = table["factual"] + effect
    table = table.assign(low=table["counterfactual"] - 0.1, high=table["counterfactual"] + 0.1)
    display = EffectDisplay.from_whatif(table)
    assert display.ax_.shape == (1, 3)
    drawn = display.ax_[0, 2].get_lines()[0].get_ydata()
    np.testing.assert_allclose(drawn, np.cumsum(effect))


@pytest.mark.parametrize("hours", [0.02, 0.4, 2.6, 3.3, 13, 31, 80, 400, 5000])
def test_few_times_stand_under_a_record_however_long_it_is(hours):
    """Without a warning of the one who places them, which would be a note of a command."""
    times = pd.date_range("2026-03-02 08:00", periods=50, freq=pd.Timedelta(hours=hours) / 50)
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((50, 2)), times, columns=["a__x", "b__x"])
    display = TrendDisplay.from_record(X)
    display.figure_.canvas.draw()
    low, high = display.ax_[-1].get_xlim()
    assert 1 <= sum(low <= tick <= high for tick in display.ax_[-1].get_xticks()) <= 8
