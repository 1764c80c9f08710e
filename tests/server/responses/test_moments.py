"""Sums by stretch against regressions written out row by row."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.signal import lfilter

from skfedcausal.server.responses.learning import Rows


@pytest.fixture(scope="module")
def series():
    rng = np.random.default_rng(0)
    states, inputs = rng.standard_normal((400, 3)), rng.standard_normal((400, 2))
    states[100:103] = np.nan
    return states, inputs


def written_out(series, rows, p, now):
    states, inputs = series
    table = []
    for t in rows:
        past = [states[t - k] for k in range(1, p + 1)] + [inputs[t][now]] + [inputs[t - k] for k in range(1, p + 1)]
        table.append(np.concatenate([[1.0], *past]))
    return np.array(table), states[rows]


def test_rows_have_their_past_in_the_same_episode_and_all_of_it_known(series):
    rows = Rows.cut(*series, (0, 250), 4)
    expected = [t for t in range(400) if (t >= 254 or 4 <= t < 250) and not 100 <= t < 107]
    assert np.concatenate(rows.stretches).tolist() == expected
    assert {len(stretch) for stretch in rows.stretches} <= {38, 39, 40}


@pytest.mark.parametrize("p", [1, 2, 4])
@pytest.mark.parametrize("now", [[True, True], [True, False], [False, False]])
def test_regressions_without_a_stretch_are_those_of_the_other_rows(series, p, now):
    now = np.array(now)
    rows = Rows.cut(*series, (0, 250), 4)
    level, A, C = rows.moments.solved(p, 0.01, now, left_out=3)
    F, Y = written_out(series, np.concatenate([s for f, s in enumerate(rows.stretches) if f != 3]), p, now)
    penalty = np.diag(np.r_[1e-9, np.full(F.shape[1] - 1, 0.01)]) * len(F)
    expected = np.linalg.solve(F.T @ F + penalty, F.T @ Y)
    assert_allclose(level, expected[0], atol=1e-10)
    assert_allclose(A, expected[1 : 1 + 3 * p], atol=1e-10)
    assert_allclose(C[:2][now], expected[1 + 3 * p : 1 + 3 * p + now.sum()], atol=1e-10)
    assert not C[:2][~now].any()
    assert_allclose(C[2:], expected[1 + 3 * p + now.sum() :], atol=1e-10)


def test_inputs_may_act_at_once_on_some_scores_only(series):
    moments = Rows.cut(*series, (0, 250), 4).moments
    some = np.array([[True, False, True], [True, True, True]])
    found = moments.solved(2, 0.01, some)
    for k, now in enumerate(some.T):
        for part, alone in zip(found, moments.solved(2, 0.01, now), strict=True):
            assert_allclose(part[..., k], alone[..., k], atol=1e-12)


def test_inputs_that_follow_scores_are_told_from_random_ones():
    """Ten random inputs are told with a chance of 1 % together, one that follows a score surely."""
    rng = np.random.default_rng(5)
    u, x = rng.standard_normal((2000, 11)), np.zeros((2000, 2))
    for t in range(1, 2000):
        u[t, 0] += 0.3 * x[t - 1, 1]
        x[t] = 0.6 * x[t - 1] + u[t - 1, :2] + rng.standard_normal(2)
    p_values = Rows.cut(x, u, (0,), 3).followed()
    assert p_values[0] < 1e-6
    assert p_values[1:].min() > 1e-3


def test_inputs_that_seldom_move_follow_scores_no_more_often_than_said():
    """Of 60 schedules of 15 moves 3 are below 5 % in the mean, more than 8 with a chance of 1 %."""
    rng = np.random.default_rng(6)
    u = np.repeat(rng.uniform(-1, 1, (15, 60)), 100, axis=0)
    x = np.zeros((1500, 4))
    for t in range(1, 1500):
        x[t] = 0.99 * x[t - 1] + rng.standard_normal(4)
    p_values = np.array([Rows.cut(x, one[:, None], (0,), 8).followed()[0] for one in u.T])
    assert (p_values < 0.05).sum() <= 8


def test_levels_that_tell_how_long_a_pump_has_run_do_not_say_that_it_follows_them():
    """Its schedule is drawn beforehand; with a past of eight rows alone every one of these is found at 1 %."""
    rng, p_values = np.random.default_rng(8), []
    for _ in range(30):
        lasts = rng.integers(8, 33, 400)
        u = np.repeat(np.arange(400) % 2, lasts)[:4000].astype(float)[:, None]
        level = lfilter([1.0], [1.0, -0.97], u[:, 0] - 0.5 + 0.3 * rng.standard_normal(4000))[:, None]
        p_values.append(Rows.cut(level / level.std(), (u - u.mean()) / u.std(), (0,), 8).followed()[0])
    assert np.mean(np.array(p_values) < 0.01) <= 0.1
