"""A KalmanClient finds the space its sensors span and the number of states at home."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.linalg import subspace_angles
from statsmodels.tsa.api import VAR

from skfedcausal import KalmanClient
from skfedcausal.client.kalman import METHODS
from skfedcausal.datasets import make_granger_plant

NOT_DISTURBED = [method for method in METHODS if method != "pca-var"]  # by unequal sensor noise
ORDER_LEVEL = 0.005  # of each test that chooses the number of states


def make_unit(seed, n_samples, **how):
    """Measurements of one simulated unit and its true model."""
    X, truth = make_granger_plant(1, n_samples=n_samples, random_state=seed, **how)
    return X["unit0"], truth.clients()["unit0"]


def unequal_noise(seed, shape):
    """Further sensor noise with standard deviations from a third to four."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) * np.exp(rng.uniform(-1, 1.5, shape[1]))


def space_error(client, model):
    """Sine of the largest angle between the space found and the true one."""
    return np.sin(subspace_angles(client.observation_, model["C"])[0])


def fit(Y, **settings):
    return KalmanClient(**{"n_states": 2} | settings).fit(Y)


# --- the space of the sensors -----------------------------------------------------------------------


@pytest.mark.parametrize("noise", [1e-3, 1e-6])
@pytest.mark.parametrize("method", METHODS)
def test_the_space_error_is_of_the_order_of_small_noise(method, noise):
    for seed in range(5):
        Y, model = make_unit(seed, 1000, measurement_noise=noise)
        smallest = np.linalg.svd(model["C"], compute_uv=False)[-1]
        assert space_error(fit(Y, identify=method), model) < 10 * noise / smallest


@pytest.mark.slow
@pytest.mark.parametrize("method", NOT_DISTURBED)
def test_the_space_error_falls_with_the_root_of_the_record_length(method):
    ratios = []
    for seed in range(8):
        Y, model = make_unit(seed, 16_000)
        short, long = (space_error(fit(Y[:n], identify=method), model) for n in (1000, 16_000))
        ratios.append(np.log(long / short))
    # the expected ratio is sqrt(1/16); an angle's logarithm varies by about 1/2 on either side
    assert abs(np.mean(ratios) - np.log(1 / 4)) < 4 * np.sqrt(2 * 0.5**2 / len(ratios))


@pytest.mark.slow
def test_principal_components_mistake_unequal_noise_for_signal_and_canonical_variates_do_not():
    n_seeds, worse = 20, 0
    for seed in range(n_seeds):
        Y, model = make_unit(seed, 8000)
        Y = Y + unequal_noise(seed, Y.shape)
        worse += space_error(fit(Y, identify="pca-var"), model) > space_error(fit(Y), model)
    assert stats.binomtest(worse, n_seeds, alternative="greater").pvalue < 1e-3


@pytest.mark.parametrize("method", NOT_DISTURBED)
def test_missing_cells_cost_accuracy_like_a_shorter_record(method):
    n_seeds, share = 8, 0.8
    errors = []
    for seed in range(n_seeds):
        complete, model = make_unit(seed, 4000)
        gappy, _ = make_unit(seed, 4000, missing=1 - share)
        errors.append([space_error(fit(Y, identify=method), model) for Y in (complete, gappy)])
    before, after = np.sqrt(np.mean(np.square(errors), axis=0))
    # a product of two cells is there in share**2 of the rows; a ratio of root mean squares varies by
    # about 1 / sqrt(n_seeds)
    assert after / before < (1 + 3 / np.sqrt(n_seeds)) / share


def test_canonical_variates_are_the_default():
    Y, _ = make_unit(0, 500)
    assert_array_equal(fit(Y).observation_, fit(Y, identify="cva-var").observation_)


# --- the number of states ---------------------------------------------------------------------------


@pytest.mark.parametrize("n_states", [1, 2, 3, 4])
def test_auto_finds_the_number_of_states(n_states):
    n_seeds = 10
    found = [fit(make_unit(seed, 4000, n_states=n_states)[0], n_states="auto") for seed in range(n_seeds)]
    wrong = sum(client.n_states_ != n_states for client in found)
    assert stats.binom.sf(wrong - 1, n_seeds, ORDER_LEVEL) > 1e-3


def test_auto_does_not_take_unequal_sensor_noise_for_states():
    n_seeds, wrong = 10, 0
    for seed in range(n_seeds):
        Y, _ = make_unit(seed, 8000)
        wrong += fit(Y + unequal_noise(seed, Y.shape), n_states="auto").n_states_ != 2
    assert stats.binom.sf(wrong - 1, n_seeds, ORDER_LEVEL) > 1e-3


def right_orders(n_seeds, n_samples, n_states, **how):
    units = (make_unit(seed, n_samples, n_states=n_states, **how)[0] for seed in range(n_seeds))
    return sum(fit(Y, n_states="auto").n_states_ == n_states for Y in units)


@pytest.mark.parametrize("missing", [0.1, 0.2, 0.3])
@pytest.mark.parametrize("n_states", [1, 2, 3])
def test_auto_does_not_take_missing_cells_for_states(n_states, missing):
    wrong = 5 - right_orders(5, 2000, n_states, missing=missing)
    assert stats.binom.sf(wrong - 1, 5, ORDER_LEVEL) > 1e-3


def test_auto_does_not_take_stretches_of_absence_for_states():
    gaps = [("unit0", 100, 700), ("unit0", 1200, 1500)]
    assert right_orders(5, 2000, 2, missing_blocks=gaps) >= 4  # fails by chance with probability 1e-4
    wrong = 0
    for seed in range(5):
        Y, _ = make_unit(seed, 3000)
        for sensor in range(8):  # each sensor is away for a stretch of its own
            Y[300 * sensor : 300 * sensor + 600, sensor] = np.nan
        wrong += fit(Y, n_states="auto").n_states_ != 2
    assert wrong <= 1


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_level_of_the_order_test_is_kept(missing):
    n_seeds = 400
    wrong = n_seeds - right_orders(n_seeds, 1000, 1, missing=missing)
    # Bartlett's approximation and the variance of the inflation: up to twice the nominal level
    assert stats.binom.sf(wrong - 1, n_seeds, 2 * ORDER_LEVEL) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("n_sensors", [4, 8, 16, 32])
@pytest.mark.parametrize("n_states", [1, 2, 3, 4])
def test_auto_finds_the_order_of_most_units(n_states, n_sensors, missing):
    assert right_orders(20, 5000, n_states, n_sensors=n_sensors, missing=missing) > 10


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_states", [1, 2, 3, 8])
def test_a_given_number_of_states_is_taken(method, n_states):
    Y, _ = make_unit(0, 500)
    client = fit(Y, identify=method, n_states=n_states)
    assert client.n_states_ == n_states
    assert client.transform(Y).shape == (500, n_states)


# --- the model ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_states", [1, 2, 3, 8])
def test_a_found_model_is_stable_and_its_covariances_are_positive(method, n_states):
    Y, _ = make_unit(0, 500)
    client = fit(Y, identify=method, n_states=n_states)
    assert np.abs(np.linalg.eigvals(client.transition_)).max() < 1
    assert np.linalg.eigvalsh(client.process_cov_)[0] > 0
    assert (client.measurement_cov_ > 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_the_unit_of_a_sensor_does_not_matter(method):
    Y, _ = make_unit(0, 800)
    scale, shift = np.geomspace(1e-6, 1e6, 8), np.linspace(-1e3, 1e3, 8)
    plain, other = fit(Y, identify=method), fit(Y * scale + shift * scale, identify=method)
    # shifts of a thousand standard deviations cost three digits of the covariances, squared
    assert_allclose((other.predict((Y + shift) * scale) / scale - shift), plain.predict(Y), atol=1e-8)
    assert_allclose(other.measurement_cov_ / scale**2, plain.measurement_cov_, rtol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_no_lag_reaches_into_the_episode_before(method):
    Y, _ = make_unit(0, 900, episodes=3)
    first, second, third = Y[:300], Y[300:600], Y[600:]
    forward = fit_episodes([first, second, third], identify=method)
    backward = fit_episodes([third, first, second], identify=method)
    assert_allclose(backward.predict(Y), forward.predict(Y), atol=1e-8)
    joined = KalmanClient(n_states=2, identify=method).fit(Y)
    assert np.abs(joined.transition_ - forward.transition_).max() > 1e-6


def fit_episodes(episodes, **settings):
    return KalmanClient(n_states=2, **settings).fit(
        np.concatenate(episodes), lengths=[len(episode) for episode in episodes]
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("n_sensors", "n_samples"), [(64, 1000), (64, 50), (3, 60_000), (1, 500)], ids=lambda n: str(n)
)
def test_wide_and_tall_records_can_be_identified(method, n_sensors, n_samples):
    Y, _ = make_unit(0, n_samples, n_sensors=n_sensors, n_states=min(n_sensors, 2))
    client = fit(Y, identify=method, n_states="auto")
    assert client.observation_.shape == (n_sensors, client.n_states_)
    assert np.isfinite(client.score(Y))


def test_many_sensors_are_weighed_by_their_number():
    Y, model = make_unit(0, 2000, n_sensors=64)
    few = make_unit(0, 2000, n_sensors=4)
    assert space_error(fit(Y), model) < 0.1
    assert fit(Y, n_states="auto").n_states_ == fit(few[0], n_states="auto").n_states_ == 2


# --- inputs -------------------------------------------------------------------------------------------


def driven_unit(seed, n_samples, missing=0.0):
    """Measurements, inputs around 50 and the true model of a unit that its inputs drive."""
    X, truth = make_granger_plant(1, n_samples=n_samples, n_inputs=2, missing=missing, random_state=seed)
    model = truth.clients()["unit0"]
    level = model["C"] @ np.linalg.solve(np.eye(2) - model["A"], model["B"] @ np.full(2, 50.0))
    return X["unit0"] + level, truth.inputs[0] + 50.0, model


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_effect_of_inputs_is_identified(method, missing):
    errors = []
    for seed in range(5):
        Y, U, model = driven_unit(seed, 8000, missing)
        client = KalmanClient(identify=method, n_states=2).fit(Y, inputs=U)
        assert_allclose(client.input_mean_, U.mean(axis=0))
        # what does not depend on the basis of the states: responses of the sensors after one and two steps
        true = [model["C"] @ step @ model["B"] for step in (np.eye(2), model["A"])]
        found = [client.observation_ @ step @ client.input_ for step in (np.eye(2), client.transition_)]
        errors.append(np.linalg.norm(np.subtract(found, true)) / np.linalg.norm(true))
        assert client.score(Y, inputs=U) > client.score(Y)
    assert np.median(errors) < (0.05 if missing == 0 else 0.1)


def test_an_input_that_never_moves_has_no_effect():
    Y, U, _ = driven_unit(0, 2000)
    alone = KalmanClient(n_states=2).fit(Y, inputs=U[:, :1])
    client = KalmanClient(n_states=2).fit(Y, inputs=np.column_stack([U[:, 0], np.full(len(U), 7.0)]))
    assert_allclose(client.input_[:, 1], 0, atol=1e-12)
    assert_allclose(client.input_[:, :1], alone.input_, rtol=1e-8)


@pytest.mark.parametrize("given", ["CB", "CBR"])
def test_with_B_given_the_dynamics_are_those_beside_the_inputs(given):
    Y, U, model = driven_unit(0, 20_000)
    client = KalmanClient(**{name: model[name] for name in given}).fit(Y, inputs=U)
    assert_array_equal(client.input_, model["B"])
    assert np.abs(client.transition_ - model["A"]).max() < 0.05
    ignorant = KalmanClient(C=model["C"]).fit(Y)
    assert client.score(Y, inputs=U) > ignorant.score(Y)


# --- columns that never change ------------------------------------------------------------------------


def with_constant(Y, column, value):
    Y = Y.copy()
    Y[:, column] = value
    return Y


@pytest.mark.parametrize("value", [7.5, 0.0, np.nan], ids=["constant", "zero", "never seen"])
def test_a_column_that_never_changes_is_warned_about_and_ignored(value):
    Y, _ = make_unit(0, 600)
    with pytest.warns(UserWarning, match="^Columns 3 of the unit are constant or missing throughout"):
        client = fit(with_constant(Y, 3, value))
    without = fit(np.delete(Y, 3, axis=1))
    new = make_unit(0, 1200)[0][600:]  # later it may move: it is ignored all the same
    rest = np.delete(new, 3, axis=1)
    predicted = client.predict(new)
    assert_allclose(client.transform(new), without.transform(rest), atol=1e-10)
    assert_allclose(client.score_samples(new), without.score_samples(rest), atol=1e-10)
    assert_allclose(np.delete(predicted, 3, axis=1), without.predict(rest), atol=1e-10)
    assert_array_equal(predicted[:, 3], value)
    assert_array_equal(client.observation_[3], 0)
    assert client.measurement_cov_[3] == np.inf
    assert client.n_features_in_ == 8


def test_a_constant_column_of_a_given_model_is_left_out_of_its_matrices():
    Y, model = make_unit(0, 600)
    del model["B"]
    rest = [0, 1, 2, 4, 5, 6, 7]
    reduced = {**model, "C": model["C"][rest], "R": model["R"][np.ix_(rest, rest)]}
    with pytest.warns(UserWarning, match="Columns 3 of the unit"):
        client = KalmanClient(**model).fit(with_constant(Y, 3, 1.0))
    expected = KalmanClient(**reduced).fit(Y[:, rest])
    assert_allclose(client.transform(Y), expected.transform(Y[:, rest]), atol=1e-10)
    assert np.isinf(client.measurement_cov_[3, 3])


def test_a_unit_in_which_nothing_moves_is_refused():
    Y = np.tile([1.0, np.nan, -3.0], (50, 1))
    with pytest.raises(ValueError, match=r"Every column of the unit is constant or missing \(0, 1, 2\).*Leave"):
        KalmanClient().fit(Y)


# --- what is refused --------------------------------------------------------------------------------


def test_more_states_than_lags_of_the_columns_are_refused():
    Y, _ = make_unit(0, 100, n_sensors=3)
    with pytest.raises(ValueError, match=r"n_states=16 for the unit, which has 3 columns.*Use at most 15"):
        fit(Y, n_states=16)


@pytest.mark.parametrize(("n_samples", "n_states"), [(4, 2), (4, "auto"), (6, 4), (2, 1)])
def test_too_few_rows_are_refused(n_samples, n_states):
    Y, _ = make_unit(0, n_samples)
    with pytest.raises(ValueError, match=rf"has {n_samples} rows; identifying \d states needs at least \d"):
        fit(Y, n_states=n_states)


def test_episodes_without_a_single_transition_are_refused():
    Y, _ = make_unit(0, 50)
    with pytest.raises(ValueError, match=r"by `lengths` into 50 episodes, which leaves 0 transitions"):
        KalmanClient(n_states=2).fit(Y, lengths=[1] * 50)
    with pytest.raises(ValueError, match=r"leaves 3 transitions .* 2 states needs at least 4"):
        KalmanClient(n_states=2).fit(Y, lengths=[2, 2, 2] + [1] * 44)


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, lambda Y: Y.tolist(), np.asfortranarray])
def test_any_table_gives_the_same_model(kind):
    Y, _ = make_unit(0, 300)
    assert_allclose(fit(kind(Y)).predict(kind(Y)), fit(Y).predict(Y), atol=1e-10)


def test_products_that_are_no_covariance_still_give_a_model():
    """Sensors that repeat each other, single cells missing: some combinations have negative variances."""
    rng = np.random.default_rng(11)
    x = rng.standard_normal((300, 1)).cumsum(axis=0)
    Y = (x - x.mean(axis=0)) @ rng.standard_normal((1, 7)) + 0.01 * rng.standard_normal((300, 7))
    Y[rng.random(Y.shape) < 0.1] = np.nan
    client = KalmanClient(n_states=3).fit(Y)  # failed on these numbers
    assert np.isfinite(client.message(Y).z).all()


# --- the dynamics -----------------------------------------------------------------------------------


def test_the_autoregression_of_states_is_that_of_statsmodels():
    """From lag covariances, so that only the ends of the record differ: a product of two deviations a row."""
    rng = np.random.default_rng(0)
    A, Y = np.array([[0.7, 0.2], [-0.3, 0.5]]), np.zeros((2000, 2))
    for t in range(1, 2000):
        Y[t] = A @ Y[t - 1] + rng.standard_normal(2)
    client = KalmanClient(C=np.eye(2), R=1e-9 * np.eye(2)).fit(Y)
    assert_allclose(client.transition_, VAR(Y).fit(1, trend="c").coefs[0], rtol=0, atol=3**2 / 2000)


@pytest.mark.medium
@pytest.mark.parametrize("n_lags", [1, 2])
def test_the_own_past_of_a_unit_is_the_autoregression_of_statsmodels(n_lags):
    Y = make_granger_plant(2, n_samples=800, random_state=3)[0]["unit0"]
    own = KalmanClient().fit(Y).model.own_past
    x = own.scaled(Y, None, Y.mean(axis=0))
    theirs = VAR(x[own.n_lags - n_lags :]).fit(n_lags, trend="n")
    B, S = own.autoregression(n_lags)
    assert_allclose(B, np.hstack(theirs.coefs), atol=1e-7)  # a ridge of 1e-9 of every regressor
    assert_allclose(S, theirs.sigma_u_mle, atol=1e-7)


@pytest.mark.medium
@pytest.mark.parametrize("memory", [1, 2])
def test_the_own_past_of_a_unit_has_the_order_that_statsmodels_chooses_by_bic(memory):
    rng = np.random.default_rng(memory)
    Y = rng.normal(size=(900, 3))
    for t in range(memory, len(Y)):
        Y[t] += 0.6 * Y[t - memory]
    own = KalmanClient().fit(Y).model.own_past
    chosen = VAR(own.scaled(Y, None, Y.mean(axis=0))).select_order(own.n_lags, trend="n").bic
    assert 1 + np.argmax(own.evidences()) == chosen == memory
