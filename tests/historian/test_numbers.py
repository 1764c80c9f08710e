"""Cells that are numbers, in all the ways in which exports write them."""

import io

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skfedcausal import PlantTable
from skfedcausal.datasets import make_granger_plant
from skfedcausal.historian.forms import _floats

CELLS = {
    "1.5": 1.5, "1,5": 1.5, "-1.234,5": -1234.5, "1.234.567,25": 1234567.25, " 7 ": 7.0, "1,5e3": 1500.0,
    "-999.25": -999.25, "+0,1": 0.1, "1e-3": 1e-3,
}  # fmt: skip
WORDS = "Bad", "1.2.3", "12,34,56", "I/O Timeout"


@pytest.mark.parametrize("cell", CELLS)
def test_a_number_is_read_however_it_is_written(cell):
    numbers, words = _floats([cell])
    assert (numbers.tolist(), words) == ([CELLS[cell]], [])


def test_words_are_named_once_and_nothing_is_no_word():
    numbers, words = _floats([*WORDS, "Bad", "", " ", None, np.nan, 3, 2.5])
    assert words == list(WORDS)
    assert_array_equal(numbers, [*[np.nan] * 9, 3, 2.5])


def test_a_column_of_words_is_found_below_many_marks_and_empty_cells():
    rng, n = np.random.default_rng(0), 6000
    words = np.where(rng.random(n) < 0.9, "", np.where(rng.random(n) < 0.3, "Bad", "Meier"))
    times = pd.date_range("2026-01-01", periods=n, freq="10s").astype(str)
    table = pd.DataFrame({"time": times, "a.x": rng.standard_normal(n), "b.x": rng.standard_normal(n), "Who": words})
    plant = PlantTable.read(io.StringIO(table.to_csv(index=False)))
    assert plant.left_out == {"Who": "holds no numbers"}


def test_a_sensor_that_a_unit_has_twice_is_left_out_on_request():
    X, _ = make_granger_plant(2, n_samples=800, container="frame", random_state=0)
    X["unit0__twice"] = X["unit0__s1"]
    assert any("unit0__twice" in text for text in PlantTable.read(X).fix_first)
    plant = PlantTable.read(X, fix="duplicates")
    assert not plant.fix_first
    assert "unit0__twice" not in plant.frame
    assert "unit0__s1" in plant.frame
    assert any("the same values as 'unit0__s1'" in text for text in plant.said)
