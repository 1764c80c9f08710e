"""Movements of levels in long records, which are looked for in means of a few rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.signal import lfilter

from skfedcausal.quality import moves
from skfedcausal.quality.moves import _smooth, moves_of

N = 4000


def wave(rng, n=N):
    return lfilter([1.0], [1, -0.5], rng.standard_normal((n, 2)), axis=0)


@pytest.fixture(params=[20_000, 1000], ids=["every row", "means of four"])
def most_rows(request, monkeypatch):
    monkeypatch.setattr(moves, "_MOST_ROWS", request.param)


def test_the_smooth_part_is_the_projection_on_slow_waves():
    series = np.cumsum(np.random.default_rng(0).standard_normal((500, 2)), axis=0)
    waves = np.cos(np.pi * (np.arange(500)[:, None] + 0.5) / 500 * np.arange(5))
    assert_allclose(_smooth(series), waves @ np.linalg.lstsq(waves, series, rcond=None)[0], atol=1e-9)


def test_a_season_has_its_period_in_rows(most_rows):
    Y = wave(np.random.default_rng(1)) + 2 * np.sin(2 * np.pi * np.arange(N) / 160)[:, None]
    found, _ = moves_of(Y)
    assert [move.kind for move in found] == ["season"]
    assert found[0].value == pytest.approx(160, abs=2)


def test_a_shift_has_its_row(most_rows):
    Y = wave(np.random.default_rng(2))
    Y[2600:] += 4
    found, _ = moves_of(Y)
    assert [move.kind for move in found] == ["level shift"]
    assert abs(int(found[0].words["where"]) - 2600) <= 8


def test_nothing_moves_in_a_record_around_one_level(most_rows):
    assert moves_of(wave(np.random.default_rng(3)))[0] == []
