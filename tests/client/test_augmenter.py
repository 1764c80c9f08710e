"""Augmenters are regressions of the cross term on the unit's own past, and look at nothing else."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVR

from skfedcausal import LinearAugmenter, RegressorAugmenter
from skfedcausal.client.augmenter import lagged_rows

N, D, P = 60, 3, 2
STARTS = {"one episode": (0,), "three episodes": (0, 1, 25)}
AUGMENTERS = [
    LinearAugmenter(),
    RegressorAugmenter(),
    RegressorAugmenter(LinearRegression(), n_lags=2),
    RegressorAugmenter(SVR(), n_lags=3),
    RegressorAugmenter(KNeighborsRegressor(2), n_lags=1),
]


def record(n_states=P, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(N, D)).cumsum(axis=0) / 3
    return Y, 0.5 * Y @ rng.normal(size=(D, n_states)) + rng.normal(size=(N, n_states)) + 2.0


def inner(starts):
    return np.setdiff1d(np.arange(N), starts)


# --- least squares --------------------------------------------------------------------------------


@pytest.mark.parametrize("starts", STARTS.values(), ids=STARTS.keys())
def test_without_penalty_the_linear_augmenter_solves_least_squares(starts):
    Y, cross = record()
    augmenter = LinearAugmenter(alpha=0).fit(Y, cross, starts=starts)
    rows = inner(starts)
    X = np.column_stack([Y[rows - 1], np.ones(len(rows))])
    expected = np.linalg.lstsq(X, cross[rows], rcond=None)[0].T
    assert_allclose(augmenter.coef_, expected[:, :D], rtol=1e-8)
    assert_allclose(augmenter.phi_, expected[:, D], rtol=1e-8)


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
def test_the_penalty_is_per_time_step_in_units_of_the_variance_of_the_measurements(alpha):
    Y, cross = record()
    past = Y[:-1]
    ridge = Ridge(alpha=alpha * len(past) * past.var(axis=0).mean()).fit(past, cross[1:])
    augmenter = LinearAugmenter(alpha=alpha).fit(Y, cross)
    assert_allclose(augmenter.coef_, ridge.coef_, rtol=1e-8)
    assert_allclose(augmenter.phi_, ridge.intercept_, rtol=1e-8)


def test_a_longer_record_of_the_same_steps_gives_the_same_penalised_solution():
    Y, cross = record()
    once = LinearAugmenter(alpha=0.1).fit(Y, cross)
    thrice = LinearAugmenter(alpha=0.1).fit(np.tile(Y, (3, 1)), np.tile(cross, (3, 1)), starts=(0, N, 2 * N))
    assert_allclose(thrice.coef_, once.coef_, rtol=1e-10)


@pytest.mark.parametrize("A", [np.array([[0.9, 0.3], [-0.2, 0.5]]), np.eye(P)], ids=["regular", "identity"])
def test_the_transition_takes_theta_to_the_coefficients(A):
    Y, cross = record()
    augmenter = LinearAugmenter().fit(Y, cross, A)
    assert augmenter.theta_.shape == (P, D)
    assert_allclose(A @ augmenter.theta_, augmenter.coef_, rtol=1e-10)


def test_with_a_singular_transition_theta_is_its_shortest_least_squares_solution():
    Y, cross = record()
    A = np.array([[1.0, 1.0], [1.0, 1.0]])
    augmenter = LinearAugmenter().fit(Y, cross, A)
    assert_allclose(augmenter.theta_, np.linalg.pinv(A) @ augmenter.coef_, rtol=1e-10, atol=1e-12)
    assert_array_equal(augmenter.coef_, LinearAugmenter().fit(Y, cross).coef_)


def test_without_a_transition_theta_is_the_coefficients():
    augmenter = LinearAugmenter().fit(*record())
    assert_allclose(augmenter.theta_, augmenter.coef_, rtol=1e-12)


def test_a_linear_cross_term_is_reproduced():
    Y, _ = record()
    coef, phi = np.random.default_rng(1).normal(size=(P, D)), np.array([3.0, -1.0])
    cross = np.vstack([np.zeros(P), Y[:-1] @ coef.T + phi])
    for augmenter in (LinearAugmenter(alpha=0), RegressorAugmenter(LinearRegression(), n_lags=1)):
        assert_allclose(augmenter.fit(Y, cross).predict(Y), cross, atol=1e-8)
        assert augmenter.score(Y, cross) > 1 - 1e-12


def test_columns_that_repeat_each_other_share_their_coefficient():
    Y, cross = record()
    augmenter = LinearAugmenter().fit(np.hstack([Y, Y[:, :1]]), cross)
    assert np.isfinite(augmenter.coef_).all()
    assert_allclose(augmenter.coef_[:, 0], augmenter.coef_[:, 3], rtol=1e-6)


# --- any regressor --------------------------------------------------------------------------------


@pytest.mark.parametrize("starts", STARTS.values(), ids=STARTS.keys())
def test_the_regressor_augmenter_is_its_regressor_on_lagged_rows(starts):
    Y, cross = record()
    augmenter = RegressorAugmenter(n_lags=3).fit(Y, cross, starts=starts)
    Z, rows = lagged_rows(Y, 3, starts), inner(starts)
    expected = Ridge().fit(Z[rows], cross[rows]).predict(Z)
    expected[list(starts)] = 0
    assert_allclose(augmenter.predict(Y, starts), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_states", [1, 2, 4])
@pytest.mark.parametrize("estimator", [SVR(), Ridge(), KNeighborsRegressor(2)], ids=lambda e: type(e).__name__)
def test_regressors_with_one_output_serve_any_number_of_states(estimator, n_states):
    Y, cross = record(n_states)
    guess = RegressorAugmenter(estimator, n_lags=2).fit(Y, cross).predict(Y)
    assert guess.shape == (N, n_states)
    Z = lagged_rows(Y, 2)[1:]
    for state in range(n_states):
        alone = clone(estimator).fit(Z, cross[1:, state]).predict(Z)
        assert_allclose(guess[1:, state], alone, rtol=1e-9, atol=1e-9)


def test_the_given_regressor_stays_as_it_was():
    estimator = SVR()
    augmenter = RegressorAugmenter(estimator).fit(*record())
    assert augmenter.estimator is estimator
    assert not hasattr(estimator, "support_")


# --- time goes one way ------------------------------------------------------------------------------


@pytest.mark.parametrize("n_lags", [1, 2, 5, N + 3])
@pytest.mark.parametrize("starts", STARTS.values(), ids=STARTS.keys())
def test_lagged_rows_hold_the_rows_before_and_zeros_before_the_episode(starts, n_lags):
    Y, _ = record()
    Z = lagged_rows(Y, n_lags, starts).reshape(N, n_lags, D)
    for t in range(N):
        start = max(s for s in starts if s <= t)
        for lag in range(1, n_lags + 1):
            assert_array_equal(Z[t, lag - 1], Y[t - lag] if t - lag >= start else np.zeros(D))


@pytest.mark.parametrize("augmenter", AUGMENTERS, ids=str)
def test_a_guess_depends_on_no_later_row(augmenter):
    Y, cross = record()
    augmenter = clone(augmenter).fit(Y, cross)
    changed = Y.copy()
    changed[30:] += 100.0
    before, after = augmenter.predict(Y), augmenter.predict(changed)
    assert_array_equal(after[:31], before[:31])
    assert (np.abs(after[31] - before[31]) > 0).any()


@pytest.mark.parametrize("augmenter", AUGMENTERS, ids=str)
def test_a_guess_depends_on_no_other_episode(augmenter):
    Y, cross = record()
    starts = (0, 20, 40)
    augmenter = clone(augmenter).fit(Y, cross, starts=starts)
    whole = augmenter.predict(Y, starts)
    alone = np.vstack([augmenter.predict(Y[start : start + 20]) for start in starts])
    assert_allclose(whole, alone, rtol=1e-12, atol=1e-12)
    assert_array_equal(whole[list(starts)], 0)


@pytest.mark.parametrize("augmenter", AUGMENTERS, ids=str)
def test_learning_depends_on_no_transition_between_episodes(augmenter):
    Y, cross = record()
    probe, _ = record(seed=1)
    forward = clone(augmenter).fit(Y, cross, starts=(0, 20))
    rows = np.r_[20:N, 0:20]
    backward = clone(augmenter).fit(Y[rows], cross[rows], starts=(0, N - 20))
    # sums see the rows in another order, and support vectors are sought to a tolerance of 1e-3
    assert_allclose(backward.predict(probe), forward.predict(probe), rtol=1e-3, atol=1e-3)
    changed = cross.copy()
    changed[[0, 20]] = 1e6  # first rows have no past: nothing can be learned there
    assert_array_equal(clone(augmenter).fit(Y, changed, starts=(0, 20)).predict(probe), forward.predict(probe))


@pytest.mark.parametrize("augmenter", AUGMENTERS, ids=str)
def test_one_row_is_the_first_of_an_episode(augmenter):
    assert_array_equal(clone(augmenter).fit(*record()).predict(np.ones((1, D))), np.zeros((1, P)))


# --- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("augmenter", "name"),
    [
        (LinearAugmenter(alpha=-1), "alpha"),
        (RegressorAugmenter(n_lags=0), "n_lags"),
        (RegressorAugmenter(estimator="ridge"), "estimator"),
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused_by_name(augmenter, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter of {type(augmenter).__name__}"):
        augmenter.fit(*record())


@pytest.mark.parametrize("augmenter", AUGMENTERS[:2], ids=str)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda Y, c: (Y, c[:-1]), "cross_term"),
        (lambda Y, c: (Y, c[:, None]), "cross_term"),
        (lambda Y, c: (Y[:1], c[:1]), "transition|rows"),
        (lambda Y, c: (np.where(Y > 0, np.nan, Y), c), "Y|NaN"),
        (lambda Y, c: (Y[:, 0], c), "Expected 2D array"),
        (lambda Y, c: (Y, np.where(c > 2, np.inf, c)), "cross_term"),
        (lambda Y, c: (Y, c, None, range(N)), rf"Got rows \(n_samples = {N}\) that are all the first of an episode"),
    ],
    ids=[
        "other length",
        "three dimensions",
        "one row",
        "NaN",
        "Y of one dimension",
        "infinity",
        "no transition",
    ],
)
def test_series_that_do_not_fit_are_refused(augmenter, change, message):
    with pytest.raises(ValueError, match=message):
        clone(augmenter).fit(*change(*record()))


def test_a_transition_of_other_states_is_refused():
    with pytest.raises(ValueError, match=r"`transition` has shape \(3, 3\), expected .* 2 columns"):
        LinearAugmenter().fit(*record(), np.eye(P + 1))


@pytest.mark.parametrize("augmenter", AUGMENTERS[:2], ids=str)
def test_another_number_of_columns_is_refused(augmenter):
    with pytest.raises(ValueError, match=f"2 (features|columns).*{D}"):
        clone(augmenter).fit(*record()).predict(np.ones((5, 2)))


def test_parameters_of_a_class_are_those_of_its_constructor_also_in_subclasses():
    class Own(LinearAugmenter):
        def __init__(self, alpha=0.5, weight=2):
            super().__init__(alpha)
            self.weight = weight

    assert LinearAugmenter._get_param_names() == ["alpha", "features"]
    assert Own._get_param_names() == ["alpha", "weight"]
    assert Own(weight=3).get_params() == {"alpha": 0.5, "weight": 3}


@pytest.mark.parametrize("augmenter", AUGMENTERS[:2], ids=str)
def test_one_column_of_one_dimension_is_guessed_in_one_dimension(augmenter):
    rng = np.random.default_rng(0)
    Y, cross_term = rng.standard_normal((200, 3)), rng.standard_normal((200, 1))
    flat = clone(augmenter).fit(Y, cross_term[:, 0]).predict(Y)
    np.testing.assert_array_equal(flat, clone(augmenter).fit(Y, cross_term).predict(Y)[:, 0])
