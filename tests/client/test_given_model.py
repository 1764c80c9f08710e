"""A KalmanClient with given matrices is the textbook filter; what does not fit is refused by name."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import solve_discrete_lyapunov
from sklearn.exceptions import NotFittedError

from skfedcausal import Baseline, KalmanClient
from skfedcausal.client.unit_model import may_refine, refined
from skfedcausal.statespace.observation import information_from_filter

from ._reference import EPS, random_unit

N = 150
ROUNDING = 1e4 * EPS  # the filters below condition on a few dozen well scaled numbers
EPISODES = {"one episode": None, "three episodes": [1, 49, N - 50]}


def starts_of(lengths):
    return (0,) if lengths is None else tuple(np.cumsum([0, *lengths[:-1]]))


@pytest.fixture(params=["independent noise", "correlated noise"])
def unit(request):
    return random_unit(np.random.default_rng(0), diagonal=request.param == "independent noise")


@pytest.fixture(params=[0.0, 0.2], ids=["complete", "missing"])
def record(request, unit):
    return unit.simulate(N, np.random.default_rng(1), missing=request.param)


def assert_equal_up_to_rounding(actual, expected):
    assert_allclose(actual, expected, rtol=0, atol=ROUNDING * max(np.abs(expected).max(), 1))


# --- the textbook filter --------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", EPISODES.values(), ids=EPISODES.keys())
def test_filter_prediction_and_likelihood_are_those_of_the_textbook(unit, record, lengths):
    Y, U = record
    expected = unit.filter(Y, U, starts_of(lengths))
    client, along = KalmanClient(**unit.matrices), {"inputs": U, "lengths": lengths}
    assert_equal_up_to_rounding(client.transform(Y, **along), expected.posterior)
    assert_equal_up_to_rounding(client.predict(Y, **along), expected.prior @ unit.C.T)
    assert_equal_up_to_rounding(client.score_samples(Y, **along), expected.log_density)


def test_a_diagonal_noise_covariance_may_be_given_as_its_diagonal(record):
    unit = random_unit(np.random.default_rng(0))
    Y, U = record
    full = KalmanClient(**unit.matrices).score_samples(Y, inputs=U)
    diagonal = KalmanClient(**{**unit.matrices, "R": np.diag(unit.R)}).score_samples(Y, inputs=U)
    assert_equal_up_to_rounding(diagonal, full)


@pytest.mark.parametrize("lengths", EPISODES.values(), ids=EPISODES.keys())
def test_methods_are_consistent_with_each_other(unit, record, lengths):
    Y, U = record
    client, along = KalmanClient(**unit.matrices).fit(Y, inputs=U), {"inputs": U, "lengths": lengths}
    assert_array_equal(client.filter(Y, **along), client.transform(Y, **along))
    assert client.score(Y, **along) == client.score_samples(Y, **along).mean()
    states = client.transform(Y, **along)
    assert_array_equal(client.measurements(states), states @ unit.C.T + client.mean_)


def test_set_output_concerns_transform_and_not_filter(unit, record):
    Y, _ = record
    client = KalmanClient(**unit.matrices).fit(Y).set_output(transform="pandas")
    frame = client.transform(pd.DataFrame(Y, index=np.arange(N) + 100))
    assert list(frame) == ["kalmanclient0", "kalmanclient1"]
    assert frame.index[0] == 100
    assert isinstance(client.filter(Y), np.ndarray)


def test_the_level_is_the_mean_of_the_record_unless_center_is_off():
    unit = random_unit(np.random.default_rng(0), level=50.0)
    Y, U = unit.simulate(N, np.random.default_rng(1), missing=0.1)
    centred = KalmanClient(**unit.matrices).fit(Y, inputs=U)
    assert_allclose(centred.mean_, np.nanmean(Y, axis=0))
    assert_allclose(centred.input_mean_, U.mean(axis=0))
    assert_equal_up_to_rounding(
        centred.transform(Y, inputs=U),
        KalmanClient(**unit.matrices).transform(Y - centred.mean_, inputs=U - centred.input_mean_),
    )
    raw = KalmanClient(baseline=Baseline(center=False), **unit.matrices).fit(Y, inputs=U)
    assert_array_equal(raw.mean_, 0)
    assert_array_equal(raw.input_mean_, 0)


def test_the_operating_point_of_the_inputs_does_not_matter():
    unit = random_unit(np.random.default_rng(0))
    Y, U = unit.simulate(N, np.random.default_rng(1))
    shift = np.array([50.0, -3.0])  # a valve that stands half open
    level = unit.C @ np.linalg.solve(np.eye(2) - unit.A, unit.B @ shift)
    plain = KalmanClient(**unit.matrices).fit(Y, inputs=U)
    moved = KalmanClient(**unit.matrices).fit(Y + level, inputs=U + shift)
    assert_allclose(moved.transform(Y + level, inputs=U + shift), plain.transform(Y, inputs=U), atol=1e-9)
    assert_allclose(moved.predict(Y + level, inputs=U + shift) - level, plain.predict(Y, inputs=U), atol=1e-9)


def test_before_fit_given_matrices_work_with_a_level_of_zero(unit, record):
    Y, U = record
    new = KalmanClient(**unit.matrices)
    fitted = KalmanClient(baseline=Baseline(center=False), **unit.matrices).fit(Y, inputs=U)
    for method in ("transform", "filter", "predict", "score_samples", "score"):
        assert_array_equal(getattr(new, method)(Y, inputs=U), getattr(fitted, method)(Y, inputs=U))
    assert_array_equal(new.message(Y).z, fitted.message(Y).z)
    assert not [name for name in vars(new) if name.endswith("_")]


def test_fit_leaves_given_matrices_as_they_are(unit, record):
    Y, U = record
    client = KalmanClient(**unit.matrices).fit(Y, inputs=U)
    learned = "transition_", "input_", "observation_", "process_cov_", "measurement_cov_"
    for name, given in zip(learned, unit.matrices.values(), strict=True):
        assert_array_equal(getattr(client, name), given)
    assert client.n_states_ == 2
    assert client.n_features_in_ == 5


@pytest.mark.parametrize("radius", [1.0, 1.05])
def test_a_unit_without_stationary_state_can_be_filtered(unit, radius):
    Y, _ = unit.simulate(N, np.random.default_rng(1))
    client = KalmanClient(**{**unit.matrices, "A": radius * np.eye(2), "B": None})
    assert np.isfinite(client.score_samples(Y)).all()


# --- the message ----------------------------------------------------------------------------------


def test_the_message_is_the_sufficient_statistic(unit, record):
    Y, _ = record
    message = KalmanClient(**unit.matrices).message(Y)
    J = np.broadcast_to(message.J, (N, 2, 2))
    for t, y in enumerate(Y):
        seen = np.flatnonzero(~np.isnan(y))
        weights = np.linalg.solve(unit.R[np.ix_(seen, seen)], unit.C[seen])
        assert_equal_up_to_rounding(message.z[t], y[seen] @ weights)
        assert_equal_up_to_rounding(J[t], unit.C[seen].T @ weights)


def test_the_message_about_a_complete_record_holds_one_matrix(unit):
    Y, _ = unit.simulate(N, np.random.default_rng(1))
    message = KalmanClient(**unit.matrices).message(Y)
    assert message.index is None
    assert message.patterns.shape == (1, 2, 2)
    assert message.lengths == (N,)


def test_constants_and_the_local_model_are_sent_only_if_wanted(unit, record):
    Y, _ = record
    client = KalmanClient(**unit.matrices)
    plain, full = client.message(Y), client.message(Y, const=True, local_model=True)
    assert (plain.const, plain.transition, plain.process_cov) == (None, None, None)
    assert_array_equal(full.transition, unit.A)
    assert_array_equal(full.process_cov, unit.Q)
    assert full.const.shape == (N,)


def test_the_local_model_is_sent_along_where_the_sensors_do_not_determine_the_states(unit):
    Y, _ = unit.simulate(N, np.random.default_rng(1))
    message = KalmanClient(A=unit.A, Q=unit.Q, C=unit.C[:1], R=unit.R[:1, :1]).message(Y[:, :1])
    assert_array_equal(message.transition, unit.A)


def test_constant_message_and_states_add_up_to_the_density_given_the_states(unit, record):
    Y, _ = record
    message = KalmanClient(**unit.matrices).message(Y, const=True)
    h = np.random.default_rng(2).normal(size=(N, 2))
    quadratic = np.einsum("ti,tij,tj->t", h, np.broadcast_to(message.J, (N, 2, 2)), h)
    expected = []
    for y, state in zip(Y, h, strict=True):
        seen = np.flatnonzero(~np.isnan(y))
        S, e = unit.R[np.ix_(seen, seen)], y[seen] - unit.C[seen] @ state
        logdet = np.linalg.slogdet(2 * np.pi * S)[1] if len(seen) else 0.0
        expected.append(-0.5 * (logdet + e @ np.linalg.solve(S, e)))
    assert_equal_up_to_rounding(message.const + (message.z * h).sum(axis=1) - quadratic / 2, expected)


@pytest.mark.parametrize("lengths", EPISODES.values(), ids=EPISODES.keys())
def test_the_moments_of_a_black_box_filter_give_the_same_message(unit, record, lengths):
    Y, U = record
    m = unit.filter(Y, U, starts_of(lengths))
    came = information_from_filter(m.prior, m.prior_cov, m.posterior, m.posterior_cov)
    message = KalmanClient(**unit.matrices).message(Y, lengths=lengths)
    # two inverses and their difference: errors grow with the condition of both covariances
    condition = max(np.linalg.cond(P) for P in (*m.prior_cov, *m.posterior_cov))
    tolerance = ROUNDING * condition * max(np.abs(message.z).max(), np.abs(message.J).max())
    assert_allclose(came.z, message.z, rtol=0, atol=tolerance)
    assert_allclose(came.matrices(), message.information.matrices(), rtol=0, atol=tolerance)


# --- partly given ---------------------------------------------------------------------------------


def quiet_unit(seed):
    """A unit whose sensors are about as noisy as its states move, without inputs."""
    unit = random_unit(np.random.default_rng(seed), n_sensors=8)
    return replace(unit, Q=0.1 * unit.Q, B=np.zeros((2, 1)))


def noise_stderr(unit, n_samples):
    """Standard errors of the noise variances when C is known and the states' covariance is not.

    The measurements outside the space of C are white noise with Fisher information ``T/2 P * P``
    (elementwise), P the inverse of R less its part in that space.
    """
    weights = np.linalg.solve(unit.R, unit.C)
    P = np.linalg.inv(unit.R) - weights @ np.linalg.solve(unit.C.T @ weights, weights.T)
    return np.sqrt(np.diag(np.linalg.inv(P * P)) * 2 / n_samples)


def assert_noise_found(unit, client, n_samples):
    error = client.measurement_cov_ - np.diag(unit.R)
    assert (np.abs(error) < 4 * noise_stderr(unit, n_samples)).all()


@pytest.fixture(scope="module", params=range(3))
def long_record(request):
    unit = quiet_unit(request.param)
    return unit, unit.simulate(20_000, np.random.default_rng(10 + request.param))[0]


@pytest.mark.parametrize("given", ["C", "CAQ", "CB"])
def test_with_C_given_the_noise_is_found(long_record, given):
    unit, Y = long_record
    client = KalmanClient(**{name: unit.matrices[name] for name in given}).fit(Y)
    assert_noise_found(unit, client, len(Y))
    for name in given:
        learned = {"A": "transition_", "B": "input_", "C": "observation_", "Q": "process_cov_"}[name]
        assert_array_equal(getattr(client, learned), unit.matrices[name])


def test_with_C_given_the_noise_is_found_below_a_strong_signal():
    unit = random_unit(np.random.default_rng(3))
    Y, _ = unit.simulate(20_000, np.random.default_rng(4))
    assert_noise_found(unit, KalmanClient(C=unit.C).fit(Y), len(Y))


@pytest.mark.parametrize("given", ["C", "CR", "CQR"])
def test_with_C_given_the_dynamics_are_found(long_record, given):
    unit, Y = long_record
    client = KalmanClient(**{name: unit.matrices[name] for name in given}).fit(Y)
    # states by least squares x = h + n with Cov n = N; A is the regression of x on the one before, less N.
    # Its residual w + n - A n_-1 repeats at lag one, which can at most triple the variance
    N = np.linalg.inv(unit.C.T @ np.linalg.solve(unit.R, unit.C))
    S = solve_discrete_lyapunov(unit.A, unit.Q)
    precision = np.linalg.inv(S)
    residual = unit.Q + N + unit.A @ N @ unit.A.T
    variance = np.outer(np.diag(residual), np.diag(precision @ (S + N) @ precision)) * 3 / len(Y)
    assert (np.abs(client.transition_ - unit.A) < 4 * np.sqrt(variance)).all()


@pytest.mark.parametrize("given", ["C", "CR"])
def test_the_model_found_has_the_covariance_of_the_record(long_record, given):
    unit, Y = long_record
    client = KalmanClient(**{name: unit.matrices[name] for name in given}).fit(Y)
    R = client.measurement_cov_ if given == "CR" else np.diag(client.measurement_cov_)
    states = np.linalg.lstsq(*(np.linalg.solve(np.linalg.cholesky(R), x) for x in (unit.C, Y.T)), rcond=None)[0]
    noise = np.linalg.inv(unit.C.T @ np.linalg.solve(R, unit.C))
    expected = solve_discrete_lyapunov(client.transition_, client.process_cov_) + noise
    assert_allclose(np.cov(states, bias=True), expected, rtol=1e-9)


# --- re-estimated from smoothed states --------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_refined_sensors_are_the_regressions_on_exactly_known_states(missing):
    rng = np.random.default_rng(5)
    unit = random_unit(rng, level=3.0)
    H = rng.normal(size=(N, 2))
    Y = H @ unit.C.T + unit.mean + rng.normal(size=(N, 5))
    Y[rng.random(Y.shape) < missing] = np.nan
    client = KalmanClient(**{**unit.matrices, "R": np.diag(unit.R)}).fit(Y)
    new = refined(client, Y, H, np.zeros((1, 2, 2)))
    for sensor in range(5):
        seen = ~np.isnan(Y[:, sensor])
        X = np.column_stack([H[seen], np.ones(seen.sum())])
        theta, squares, *_ = np.linalg.lstsq(X, Y[seen, sensor], rcond=None)
        assert_allclose(new.observation_[sensor], theta[:2], rtol=1e-10)
        assert_allclose(new.mean_[sensor], theta[2], rtol=1e-10)
        assert_allclose(new.measurement_cov_[sensor], squares[0] / seen.sum(), rtol=1e-10)


def test_uncertain_states_shrink_the_loadings_and_raise_the_noise(record):
    unit = random_unit(np.random.default_rng(0))
    Y, _ = record
    client = KalmanClient(**{**unit.matrices, "R": np.diag(unit.R)}).fit(Y)
    H = client.transform(Y)
    sure = refined(client, Y, H, np.zeros((1, 2, 2)))
    unsure = refined(client, Y, H, np.tile(10 * np.eye(2), (N, 1, 1)))
    assert np.linalg.norm(unsure.observation_) < np.linalg.norm(sure.observation_)
    assert (unsure.measurement_cov_ > sure.measurement_cov_).all()
    one_for_all = refined(client, Y, H, 10 * np.eye(2)[None])
    assert_allclose(unsure.observation_, one_for_all.observation_, rtol=1e-12)


def test_refined_is_a_copy(record):
    unit = random_unit(np.random.default_rng(0))
    Y, _ = record
    client = KalmanClient(**{**unit.matrices, "R": np.diag(unit.R)}).fit(Y)
    before = client.transform(Y)
    new = refined(client, Y, before, 0.1 * np.eye(2)[None])
    assert_array_equal(client.transform(Y), before)
    assert np.abs(new.transform(Y) - before).max() > 0
    assert_array_equal(new.transition_, client.transition_)


def test_what_was_a_method_of_a_client_is_one_for_two_releases_and_says_so(record):
    Y, _ = record
    client = KalmanClient().fit(Y)
    H = client.transform(Y)
    with pytest.warns(FutureWarning, match="`refined` of a UnitClient is for the worker"):
        before = client.refined(Y, H, 0.1 * np.eye(H.shape[1])[None])
    assert_array_equal(before.observation_, refined(client, Y, H, 0.1 * np.eye(H.shape[1])[None]).observation_)
    with pytest.warns(FutureWarning, match="`may_refine`"):
        assert client.may_refine == may_refine(client)
    with pytest.raises(AttributeError, match="'KalmanClient' object has no attribute 'refine'"):
        client.refine


def test_given_matrices_can_be_refined_before_fit():
    unit = random_unit(np.random.default_rng(0))
    Y, _ = unit.simulate(N, np.random.default_rng(1))
    new = KalmanClient(**{**unit.matrices, "R": np.diag(unit.R)})
    assert refined(new, Y, new.transform(Y), np.eye(2)[None]).observation_.shape == (5, 2)


def test_correlated_sensor_noise_cannot_be_refined():
    unit = random_unit(np.random.default_rng(0), diagonal=False)
    Y, _ = unit.simulate(N, np.random.default_rng(1))
    client = KalmanClient(**unit.matrices).fit(Y)
    with pytest.raises(ValueError, match="Only a diagonal R can be re-estimated; give the variances"):
        refined(client, Y, client.transform(Y), np.eye(2)[None])


# --- what is refused ------------------------------------------------------------------------------

UNIT = random_unit(np.random.default_rng(0))
COMPLETE, INPUTS = UNIT.simulate(N, np.random.default_rng(1))

REFUSED = {  # changed matrices, what the error must say
    "A too large": ({"A": np.eye(3)}, r"A has shape \(3, 3\), expected \(2, 2\)"),
    "A of one dimension": ({"A": np.ones(2)}, r"A has shape \(2,\), expected \(2, 2\)"),
    "C for other columns": ({"C": np.ones((7, 2))}, r"C has shape \(7, 2\), expected \(5, 2\) for 5 columns"),
    "Q too large": ({"Q": np.eye(3)}, r"Q has shape \(3, 3\), expected \(2, 2\)"),
    "R too short": ({"R": np.ones(4)}, r"R has shape \(4,\), expected \(5,\) or \(5, 5\)"),
    "R too large": ({"R": np.eye(6)}, r"R has shape \(6, 6\), expected \(5,\) or \(5, 5\)"),
    "R zero": ({"R": np.zeros(5)}, "R must be positive definite.*resolution: give its square over 12"),
    "R negative": ({"R": -np.eye(5)}, "R must be positive definite; its smallest eigenvalue is -1"),
    "R not finite": ({"R": np.full(5, np.nan)}, "R must be positive definite"),
    "B for other states": ({"B": np.ones((3, 1))}, r"B has shape \(3, 1\), expected \(2, n_inputs\)"),
    "B of one dimension": ({"B": np.ones(2)}, r"B has shape \(2,\), expected \(2, n_inputs\)"),
    "A without Q": ({"Q": None}, "A was given without Q. Give Q too"),
    "no C": ({"C": None}, r"\['A', 'B', 'Q', 'R'\] were given without C. Give C too"),
    "Q not positive": ({"Q": -np.eye(2)}, "Q must be positive"),
    "Q not symmetric": ({"Q": np.array([[1.0, 0.9], [0.0, 1.0]])}, "Q must be symmetric"),
    "R not symmetric": ({"R": np.eye(5) + np.eye(5, k=1) / 2}, "R must be symmetric"),
    "A not finite": ({"A": np.full((2, 2), np.nan)}, "A .*not finite"),
    "B not finite": ({"B": np.full((2, 2), np.inf)}, "B .*not finite"),
    "C not finite": ({"C": np.full((5, 2), np.nan)}, "C .*not finite"),
    "C of one dimension": ({"C": np.ones(5)}, r"C has shape \(5,\), expected \(n_features, n_states\)"),
    "A complex": ({"A": 1j * np.eye(2)}, "A is not a table of real numbers"),
    "A of words": ({"A": [["a", "b"], ["c", "d"]]}, "A is not a table of real numbers"),
    "A ragged": ({"A": [[1.0, 2.0], [3.0]]}, "A is not .* one list per row"),
}


@pytest.mark.parametrize(("changed", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_matrix_that_does_not_fit_is_refused_by_name(changed, message):
    with pytest.raises(ValueError, match=message):
        KalmanClient(**{**UNIT.matrices, **changed}).fit(COMPLETE)


@pytest.mark.parametrize("name", "ABCQR")
def test_a_matrix_that_cannot_be_meant_is_refused_before_fit_too(name):
    with pytest.raises(ValueError, match=f"{name} .*not finite"):
        KalmanClient(**{**UNIT.matrices, name: UNIT.matrices[name] * np.nan}).transform(COMPLETE)


def test_a_process_noise_that_leaves_states_alone_is_a_covariance():
    Q = np.diag([1.0, 0.0])
    score = KalmanClient(**{**UNIT.matrices, "Q": Q}).score_samples(COMPLETE, inputs=INPUTS)
    assert_equal_up_to_rounding(score, replace(UNIT, Q=Q).filter(COMPLETE, INPUTS).log_density)


def test_states_that_a_given_C_does_not_tell_apart_are_not_identified():
    with pytest.raises(ValueError, match=r"do not tell the 2 states of the given C apart.*Give A, Q and R"):
        KalmanClient(C=np.ones((5, 2))).fit(COMPLETE)


@pytest.mark.parametrize("missing", ["A", "C", "Q", "R", "ACQR"])
def test_without_all_of_A_C_Q_R_a_new_client_has_no_model(missing):
    given = {name: value for name, value in UNIT.matrices.items() if name not in missing}
    with pytest.raises(NotFittedError, match="no model yet: call fit, or give the matrices A, C, Q and R"):
        KalmanClient(**given).transform(COMPLETE)


def with_cell(value):
    X = COMPLETE.copy()
    X[3, 2] = value
    return X


BAD_RECORDS = {  # the record, what the error must say
    "another number of columns": (COMPLETE[:, :3], "3 features.*expecting 5"),
    "one dimension": (COMPLETE[0], "Expected 2D array, got 1D array"),
    "infinity": (with_cell(np.inf), "infinity"),
    "no rows": (COMPLETE[:0], "0 sample"),
    "complex numbers": (COMPLETE + 1j, "Complex data not supported"),
    "text": (np.where(COMPLETE > 0, "a", "1"), "could not convert string"),
}


@pytest.mark.parametrize("fitted", [True, False], ids=["after fit", "before fit"])
@pytest.mark.parametrize(("X", "message"), BAD_RECORDS.values(), ids=BAD_RECORDS.keys())
def test_a_record_that_does_not_fit_is_refused(X, message, fitted):
    client = KalmanClient(**UNIT.matrices)
    if fitted:
        client.fit(COMPLETE)
    for method in (client.transform, client.predict, client.score_samples, client.message):
        with pytest.raises(ValueError, match=message):
            method(X)


BAD_INPUTS = {
    "too few rows": (INPUTS[:-1], r"`inputs` has shape \(149, 2\); give one row for each of the 150 rows"),
    "NaN": (np.where(np.arange(N)[:, None] == 5, np.nan, INPUTS), "`inputs` has missing or infinite values"),
    "three dimensions": (INPUTS[None], "`inputs` has shape"),
}


@pytest.mark.parametrize(("U", "message"), BAD_INPUTS.values(), ids=BAD_INPUTS.keys())
def test_inputs_that_do_not_fit_are_refused(U, message):
    client = KalmanClient(**UNIT.matrices).fit(COMPLETE)
    for method in (client.fit, client.transform, client.predict, client.score_samples):
        with pytest.raises(ValueError, match=message):
            method(COMPLETE, inputs=U)


def test_a_single_input_may_be_a_vector():
    client = KalmanClient(**{**UNIT.matrices, "B": UNIT.B[:, :1]})
    u = INPUTS[:, 0]
    assert_array_equal(client.transform(COMPLETE, inputs=u), client.transform(COMPLETE, inputs=u[:, None]))


def test_another_number_of_inputs_than_B_has_is_refused():
    with pytest.raises(ValueError, match=r"(?s)`?inputs`? .*1 .*B .*2"):
        KalmanClient(**UNIT.matrices).transform(COMPLETE, inputs=INPUTS[:, :1])
    with pytest.raises(ValueError, match=r"`inputs` has 1 columns .* B has 2"):
        KalmanClient(**UNIT.matrices).fit(COMPLETE, inputs=INPUTS[:, :1])


def test_inputs_that_no_given_B_takes_up_are_not_dropped_in_silence():
    client = KalmanClient(**{**UNIT.matrices, "B": None})
    with pytest.warns(UserWarning, match="no matrix B, so its `inputs` are ignored"):
        client.fit(COMPLETE, inputs=INPUTS)
    for method in (client.transform, client.predict, client.score_samples):
        with pytest.warns(UserWarning, match="no matrix B, so its `inputs` are ignored"):
            method(COMPLETE, inputs=INPUTS)


@pytest.mark.parametrize("lengths", [[N - 1], [N, 1], [0, N], [1.5, 2], [[N]], []], ids=str)
def test_lengths_that_do_not_cut_the_record_are_refused(lengths):
    with pytest.raises(ValueError, match="lengths"):
        KalmanClient(**UNIT.matrices).transform(COMPLETE, lengths=lengths)


def test_a_copy_with_another_model_shows_its_matrices_and_leaves_the_client_as_it_is():
    Y = np.random.default_rng(0).standard_normal((300, 4))
    Y[:, 2] = 7.0
    with pytest.warns(UserWarning, match="constant"):
        client = KalmanClient(n_states=1).fit(Y)
    before = client.observation_.copy()
    other = client.__replace__(model=replace(client.model, C=2 * client.model.C), noise_share=-0.5)
    assert other.used_columns.tolist() == [True, True, False, True]
    np.testing.assert_array_equal(other.observation_, 2 * before)
    np.testing.assert_array_equal(client.observation_, before)
    assert other.mean_[2] == client.mean_[2] == 7.0
    assert np.isinf(other.measurement_cov_[2])
    np.testing.assert_allclose(other.message_model.R, other.model.R / 2)
    assert client.message_model is client.model
