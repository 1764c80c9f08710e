"""Which tag a unit blames: against dense least squares, and on faults of single tags of a unit under control."""

import numpy as np
import pytest

from skfedcausal.client.watching import TagModel, _unusual, _wrong_values

SENSORS, VALVE = 3, 3


def unit(n_samples, rng, fault=None, tag=0, at=None):
    """One state behind three sensors, and a valve that a controller moves by the first of them."""
    h, total, valve, rows = 0.0, 0.0, 0.0, np.empty((n_samples, SENSORS + 1))
    for t in range(n_samples):
        acts = at is not None and t >= at
        y = h * np.array([1.0, 0.8, -1.2]) + 0.2 * rng.standard_normal(SENSORS)
        if acts and fault == "bias":
            y[tag] += 3.0
        if acts and fault == "noise":
            y[tag] += 3.0 * rng.standard_normal()
        if acts and fault == "freeze":
            y[tag] = rows[at - 1, tag]
        wanted = -(0.2 * y[0] + 0.05 * total)
        total += y[0]
        if not (acts and fault == "stuck"):
            valve = wanted
        rows[t] = [*y, valve + 0.02 * rng.standard_normal()]
        h = 0.8 * h + 0.7 * valve + 0.5 * rng.standard_normal() + 2.0 * (acts and fault == "push")
    return rows


@pytest.fixture(scope="module")
def model():
    return TagModel.learn(unit(3000, np.random.default_rng(0)), (0,))


@pytest.mark.parametrize("fault", ["bias", "noise", "freeze"])
@pytest.mark.parametrize("tag", range(SENSORS))
def test_the_sensor_at_fault_is_blamed(model, fault, tag):
    Y = unit(300, np.random.default_rng(1), fault, tag, at=200)
    assert model.blame(Y, 200, 280).order[0] == tag


def test_a_valve_that_sticks_is_blamed_though_all_others_follow_it(model):
    found = model.blame(unit(300, np.random.default_rng(2), "stuck", at=200), 200, 280)
    assert found.order[0] == VALVE
    assert found.explained[VALVE] > 0.8


@pytest.mark.parametrize("seed", range(6))
def test_a_valve_is_blamed_that_stands_still_where_it_seldom_moved_far(model, seed):
    # nothing is far from where it usually is: what the valve leaves undone is all there is to see
    Y = unit(260, np.random.default_rng(20 + seed), "stuck", at=200)
    assert model.blame(Y, 200, 250).order[0] == VALVE


def test_rows_that_move_too_little_are_unusual_as_those_are_that_move_too_much():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((3, 3))
    usual = rng.standard_normal((400, 3)) @ root.T
    found = [_unusual(factor * usual, root @ root.T) for factor in (0.5, 1.0, 2.0)]
    # of the usual rows twice a log-likelihood that six numbers gain: chi-squared of six degrees, below 24 but 5e-4
    assert found[1] < 24
    for factor, value in ((0.5, found[0]), (2.0, found[2])):
        # each direction gains n (r - 1 - log r); a variance of 400 rows is known to 7 %, four times that
        expected = 400 * 3 * (factor**2 - 1 - np.log(factor**2))
        assert value == pytest.approx(expected, rel=0.3)


def test_a_push_of_the_process_is_blamed_on_no_tag(model):
    found = model.blame(unit(300, np.random.default_rng(3), "push", at=200), 200, 260)
    assert found.explained.max() < 0.5


def test_what_repeats_or_never_moved_is_said_in_words():
    rng = np.random.default_rng(4)
    Y = np.column_stack([unit(1000, rng), np.ones(1000)])
    model = TagModel.learn(Y[:700], (0,))
    Y[800:, 4] = 0.0
    found = model.blame(Y, 800, 900)
    assert (found.order[0], found.why[4]) == (4, "never moved before")
    frozen = Y.copy()
    frozen[800:, :] = Y[800, :]
    frozen[800:, 4] = 1.0
    assert not any("never" in words for words in model.blame(frozen, 800, 900).why)


def test_wrong_values_are_those_of_dense_least_squares():
    rng = np.random.default_rng(5)
    n, p, rows = 3, 2, 12
    lags, root = 0.3 * rng.standard_normal((p, n, n)), rng.standard_normal((n, n))
    S, E, j = root @ root.T + np.eye(n), rng.standard_normal((rows, n)), 1
    design = np.zeros((rows, n, rows))
    for t in range(rows):
        design[t, j, t] = 1.0
        for k, A in enumerate(lags, 1):
            if t + k < rows:
                design[t + k, :, t] = -A[:, j]
    white = np.linalg.cholesky(np.linalg.inv(S)).T
    X, y = (white @ design).reshape(rows * n, rows), (E @ white.T).ravel()
    expected, *_ = np.linalg.lstsq(X, y)
    left, wrong, std = _wrong_values(E, lags, S, j, np.arange(n))
    np.testing.assert_allclose(wrong, expected, atol=1e-6)
    np.testing.assert_allclose(left, np.sum((y - X @ expected) ** 2), rtol=1e-6)
    np.testing.assert_allclose(std, np.sqrt(np.diag(np.linalg.inv(X.T @ X))), rtol=1e-5)


@pytest.mark.parametrize("tag", range(SENSORS + 1))
def test_the_band_holds_what_an_untouched_tag_shows(model, tag):
    Y = unit(600, np.random.default_rng(6))
    mean, std = model.expected(Y, tag, 100, 500)
    inside = (np.abs(Y[100:500, tag] - mean) < 2 * std).mean()
    # 0.954 of a normal law, of 400 rows that hang together for some; wider for a tag that is run freely
    assert inside > 0.954 - 4 * np.sqrt(0.954 * 0.046 / 100)


def test_missing_values_are_expected_not_blamed(model):
    rng = np.random.default_rng(7)
    Y = unit(300, rng, "bias", 1, at=200)
    Y[rng.random(Y.shape) < 0.1] = np.nan
    Y[190:, 2] = np.nan
    assert model.blame(Y, 200, 280).order[0] == 1


def test_nominal_rows_with_gaps_give_nearly_the_same_model(model):
    rng = np.random.default_rng(0)
    Y = unit(3000, rng)
    Y[rng.random(Y.shape) < 0.01] = np.nan
    gappy = TagModel.learn(Y, (0,))
    # three standard errors of a coefficient: 0.09 in 3000 rows of tags of unit variance and correlation 0.8
    np.testing.assert_allclose(gappy.cov, model.cov, atol=0.1)


def test_the_first_rows_of_a_record_have_no_past(model):
    Y = unit(50, np.random.default_rng(8), "bias", 0, at=0)
    assert len(model.blame(Y, 0, 1).order) == SENSORS + 1
    assert np.isnan(model.expected(Y, 0, 0, 20)[0][:3]).all()


def test_a_unit_of_one_tag():
    rng = np.random.default_rng(9)
    model = TagModel.learn(rng.standard_normal((200, 1)), (0,))
    assert model.blame(rng.standard_normal((30, 1)) + 5, 10, 30).order.tolist() == [0]
    assert model.expected(rng.standard_normal((30, 1)), 0, 10, 30).shape == (2, 20)
