"""What inputs do beyond what a linear plant says, beside the plant itself."""

import numpy as np
import pandas as pd
import pytest

from skfedcausal import FederatedCounterfactualEstimator
from skfedcausal.server.dynamics import Plant
from skfedcausal.server.lagged.curvature import Bends, _heard, _posterior, learned_curvature
from skfedcausal.statespace.inputs import quartile_spline

DYNAMICS = Plant(np.array([[[0.8]]]), np.array([[[0.0]], [[1.0]]]), np.array([[0.01]]))


def run(u, bend, noise):
    """States that follow ``u + bend (u^2 - 1)``, one row later."""
    h = np.zeros((len(u), 1))
    for t in range(1, len(u)):
        h[t] = 0.8 * h[t - 1] + u[t - 1] + bend * (u[t - 1] ** 2 - 1) + noise[t - 1]
    return h


def held(rng, n_samples):
    """Levels of ten rows each."""
    return np.repeat(rng.normal(size=(n_samples // 10, 1)), 10, axis=0)


def learned(bend, n_samples=4000, seed=2):
    rng = np.random.default_rng(seed)
    u = held(rng, n_samples)
    scores = run(u, bend, 0.1 * rng.normal(size=(n_samples, 1))) + 0.1 * rng.normal(size=(n_samples, 1))
    return learned_curvature(DYNAMICS, [slice(0, 1)], scores, u, (0,))


def test_a_linear_plant_is_left_as_it_is():
    curvature = learned(0.0)
    change = np.ones((40, 1))
    effect = DYNAMICS.response(change)
    shift, variance = curvature.moments(change, effect)
    assert not shift.any()
    # what 4000 rows leave open of a gain of five that is held: noise of long-run sd 0.5
    assert np.sqrt(variance.max()) < 4 * 0.5 / np.sqrt(4000 / 10)


def test_forecasts_count_on_as_much_of_a_bend_as_other_rows_confirm():
    assert learned(0.2).forms[0].foretold > 0.9
    rng = np.random.default_rng(3)
    u = np.repeat(rng.uniform(-(3**0.5), 3**0.5, size=(400, 1)), 10, axis=0)

    def turning(first, second):
        halves = ((slice(2000), first), (slice(2000, None), second))
        h = [run(u[rows], bend, 0.1 * rng.normal(size=(2000, 1))) for rows, bend in halves]
        return learned_curvature(DYNAMICS, [slice(0, 1)], np.concatenate(h), u, (0,))

    curvature = turning(0.3, 0.1)
    form = curvature.forms[0]
    assert form.moves
    # The bend of parts is 0.3, 0.3, 0.2, 0.1, 0.1; what is learned without one of the last is the mean of the others.
    # Squares of the 80 levels of a part differ by 12 % of their mean.
    assert form.foretold == pytest.approx(0.1 / 0.225, abs=0.15)
    np.testing.assert_allclose(curvature.driven(u), form.foretold * curvature.driven(u, 1.0))
    # plans count on half of it at least
    np.testing.assert_allclose(curvature.driven(u, 0.5), max(form.foretold, 0.5) * curvature.driven(u, 1.0))
    # a part without a bend, or with the opposite one
    assert turning(0.3, 0.0).forms[0].foretold < 0.1
    assert turning(0.3, -0.1).forms[0].foretold == 0.0


@pytest.mark.parametrize("level", [-1.0, 0.0, 0.7])
def test_the_effect_depends_on_where_the_plant_is_operated(level):
    bend, n_steps = 0.2, 40
    curvature = learned(bend)
    change, before = np.full((n_steps, 1), 0.5), np.full((100 + n_steps, 1), level)
    after, still = before.copy(), np.zeros((len(before) + 1, 1))
    after[100:] += change
    true = run(np.vstack([after, after[-1:]]), bend, still) - run(np.vstack([before, before[-1:]]), bend, still)
    effect = DYNAMICS.response(change)
    shift, variance = curvature.moments(change, effect, before)
    rest = true[101:] - effect
    assert np.abs(shift - rest).max() < 0.1 * bend * 5  # of what a bend does to a gain of five
    assert np.all(np.abs(rest - shift) < 2 * np.sqrt(variance) + 1e-9)


def test_beyond_what_was_visited_a_curve_goes_no_further():
    curvature = learned(0.2)
    shifts = []
    for size in (20.0, 40.0):
        change = np.full((100, 1), size)
        shifts.append(curvature.moments(change, DYNAMICS.response(change))[0][-1, 0])
    assert shifts[0] == pytest.approx(shifts[1], rel=1e-3)


def test_nothing_is_learned_without_inputs_or_from_few_rows():
    one = slice(0, 1)
    no_inputs = Plant(DYNAMICS.A, np.zeros((2, 1, 0)), DYNAMICS.Q)
    assert learned_curvature(no_inputs, [one], np.zeros((500, 1)), np.zeros((500, 0)), (0,)) is None
    assert learned_curvature(DYNAMICS, [one], np.zeros((50, 1)), np.zeros((50, 1)), (0,)) is None


def test_effects_of_inputs_add_up_whatever_the_curve():
    rng = np.random.default_rng(0)
    n_samples = 2000
    u, v = held(rng, n_samples), held(rng, n_samples)
    h = run(u, 0.2, v + 0.1 * rng.normal(size=(n_samples, 1)))
    noise = 0.1 * rng.normal(size=(n_samples, 3))
    data = pd.DataFrame(h @ [[1.0, 0.5, -1.0]] + noise, columns=["a__s0", "a__s1", "a__s2"])
    data["a__u"], data["a__v"] = u[:, 0], v[:, 0]
    estimator = FederatedCounterfactualEstimator(input_columns=["a__u", "a__v"], sampled="after").fit(data)
    assert estimator.server_.curvature_.forms[0].moves
    rows = data.iloc[-200:].reset_index(drop=True)
    other = {"a__u": (rows["a__u"] + np.r_[np.zeros(100), np.full(100, 0.4)]).clip(-2, 2), "a__v": 0.5}
    whole = estimator.whatif(rows, other)
    parts = estimator.whatif(rows, other, split=True)
    summed = parts.groupby(["time", "column"])["effect"].sum()
    found = whole.set_index(["time", "column"])["effect"]
    np.testing.assert_allclose(summed.reindex(found.index), found, rtol=1e-9, atol=1e-9)
    low = estimator.counterfactual("a", [-1.0, 0.0], [0.0, 0.0], horizon=30)
    high = estimator.counterfactual("a", [0.0, 0.0], [1.0, 0.0], horizon=30)
    # 5 (1 + 0.2 (2 u + 1)) at u = -1 and 0, within a tenth
    assert low["a__s0"].iloc[-1] == pytest.approx(4.0, rel=0.1)
    assert high["a__s0"].iloc[-1] == pytest.approx(6.0, rel=0.1)


def test_a_valve_that_saturates_bends_where_it_does():
    rng = np.random.default_rng(1)
    n_samples, end = 4000, 0.5

    def states(u, noise):
        drive, h = np.clip(u, -end, end), np.zeros(u.shape)
        for t in range(1, len(u)):
            h[t] = 0.8 * h[t - 1] + drive[t - 1] + noise[t - 1]
        return h

    u = np.repeat(rng.uniform(-1.5, 1.5, size=(n_samples // 10, 1)), 10, axis=0)
    scores = states(u, 0.1 * rng.normal(size=u.shape)) + 0.1 * rng.normal(size=u.shape)
    clipped = np.clip(u, -end, end)
    linear = (u.T @ clipped) / (u.T @ u)  # what a linear plant says of the valve
    dynamics = Plant(DYNAMICS.A, np.stack([0 * linear, linear]), DYNAMICS.Q)
    curvature = learned_curvature(dynamics, [slice(0, 1)], scores, u, (0,))
    n_steps = 40
    for low, high in ((0.7, 1.4), (-0.4, 0.4), (-1.2, -0.2)):
        before = np.full((100 + n_steps, 1), low)
        change = np.full((n_steps, 1), high - low)
        true = (np.clip(high, -end, end) - np.clip(low, -end, end)) * (1 - 0.8 ** np.arange(1, n_steps + 1)) / 0.2
        effect = dynamics.response(change)
        shift, variance = curvature.moments(change, effect, before)
        rest = true - (effect + shift)[:, 0]
        # kinks half of 1/16 of the range from where the valve ends leave 0.1 of the drive, five times that of a gain
        assert np.abs(rest).max() < 5 * 3.0 / 32
        assert np.abs(rest).max() < 0.3 * np.abs(true - effect[:, 0]).max()
        assert np.all(np.abs(rest) < 2 * np.sqrt(variance[:, 0]) + 1e-9)


def test_bends_are_no_linear_function_of_the_inputs():
    rng = np.random.default_rng(0)
    u = rng.normal(size=(500, 3))
    bends = Bends.learned(u)
    kinks = bends(u)
    assert kinks.shape == (500, 3 * 15)
    assert Bends.learned(u[:, :2]).number == 2 * 31
    np.testing.assert_allclose(np.column_stack([u, np.ones(500)]).T @ kinks, 0.0, atol=1e-9)
    beyond = np.vstack([u.max(axis=0), 10 + u.max(axis=0)])
    np.testing.assert_allclose(*bends(beyond))
    switch = (u[:, :1] > 0).astype(float)
    np.testing.assert_allclose(Bends.learned(switch)(switch), 0.0, atol=1e-12)


def test_columns_of_a_spline_have_every_kink_once():
    u = np.random.default_rng(0).uniform(-1, 1, size=2000)
    columns = quartile_spline(u)(u)
    bends = Bends.learned(columns)
    # the columns bend at three of the 31 quantiles themselves
    assert bends.number == 28
    assert np.linalg.matrix_rank(np.column_stack([columns, np.ones(2000), bends(columns)])) == 4 + 1 + 28
    assert Bends.learned(np.random.default_rng(0).normal(size=(500, 60))).number == 120


def test_what_bends_in_one_unit_reaches_the_next_through_its_states():
    rng = np.random.default_rng(5)
    n_samples, A, end = 4000, np.array([[0.85, 0.0], [0.12, 0.8]]), 0.5

    def states(u, noise):
        h = np.zeros((len(u), 2))
        for t in range(1, len(u)):
            h[t] = A @ h[t - 1] + [np.clip(u[t - 1, 0], -end, end), 0.0] + noise[t - 1]
        return h

    u = np.repeat(rng.uniform(-1.5, 1.5, size=(n_samples // 10, 1)), 10, axis=0)
    scores = states(u, 0.05 * rng.normal(size=(n_samples, 2))) + 0.05 * rng.normal(size=(n_samples, 2))
    clipped = np.clip(u, -end, end)
    B = np.vstack([(u.T @ clipped) / (u.T @ u), [[0.0]]])  # what a linear plant says of the valve
    dynamics = Plant(A[None], np.stack([0 * B, B]), 0.05**2 * np.eye(2))
    curvature = learned_curvature(dynamics, [slice(0, 1), slice(1, 2)], scores, u, (0,))
    assert [form.responses.shape[1] for form in curvature.forms] == [1, 2]  # the first unit hears nothing of the second
    before, change = np.full((160, 1), 0.7), np.full((60, 1), 0.7)
    effect = dynamics.response(change)  # the valve is at its end: nothing happens
    shift, variance = curvature.moments(change, effect, before)
    rest = (effect + shift)[:, 1]
    # a tenth of what the linear plant says; a bend that acts on the second unit at once leaves an eighth to a quarter
    assert np.abs(rest).max() < 0.1 * np.abs(effect[:, 1]).max()
    assert np.all(np.abs(rest) < 3 * np.sqrt(variance[:, 1]) + 1e-9)


def test_other_units_are_heard_where_they_bend_and_regressors_stay_few():
    answers = 0.5 ** np.arange(30)[:, None] * [0.3, 2.0, 1.0, 1e-3]
    all_move = np.ones(4, dtype=bool)
    heard = {n_features: list(_heard(answers, [0], all_move, n_features)) for n_features in (300, 120, 60)}
    assert heard == {300: [0], 120: [0, 1], 60: [0, 1, 2]}
    assert list(_heard(answers, [0], np.array([True, False, True, True]), 120)) == [0, 2]


def test_what_is_beyond_second_order_is_in_doubt_where_products_act():
    rng = np.random.default_rng(5)
    u, noise = held(rng, 4000), 0.1 * rng.normal(size=(4000, 1))
    h = np.zeros((4000, 1))
    for t in range(1, 4000):
        h[t] = 0.8 * h[t - 1] + u[t - 1] * (1 - 0.05 * h[t - 1]) + noise[t - 1]
    bilinear = learned_curvature(DYNAMICS, [slice(0, 1)], h + 0.1 * rng.normal(size=h.shape), u, (0,))
    change = np.ones((40, 1))
    effect = DYNAMICS.response(change)
    for curvature, low, high in ((bilinear, 0.5, 1.0), (learned(0.2), 0.0, 0.1)):  # squares of an input are a bend
        form, still = curvature.forms[0], np.zeros_like(change)
        moved = curvature.features(effect, change) - curvature.features(still, still)
        posterior = np.square(form.regressors(moved) @ form.root).sum(axis=1)
        shift, variance = curvature.moments(change, effect)
        shares = (variance[:, 0] - posterior) / shift[:, 0] ** 2
        assert form.moves
        np.testing.assert_allclose(shares, shares[0], rtol=1e-6)
        assert low < shares[0] < high


@pytest.mark.parametrize("size", [0.0, 1.0])
def test_what_is_missed_without_noise_has_finite_coefficients(size):
    G = np.random.default_rng(3).standard_normal((400, 2))
    y = size * G[:, 0]
    mean, root, gain = _posterior([y], [G], [np.zeros(400)], [np.array([0, 1]), np.array([], dtype=int)])
    np.testing.assert_allclose(mean, [size, 0], atol=1e-6)
    assert np.isfinite(root).all()
    assert np.isfinite(gain)
