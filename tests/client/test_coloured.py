"""Noise of sensors with a memory: the exact model of quasi-differences, its memory found, and what it cannot do."""

import warnings

import numpy as np
import pytest
from scipy.linalg import block_diag, solve_discrete_lyapunov
from scipy.stats import multivariate_normal
from sklearn.exceptions import NotFittedError
from statsmodels.tsa.statespace.kalman_filter import KalmanFilter

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    KalmanClient,
    LikelihoodServer,
)
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import InProcessTransport
from skfedcausal.federation.transport import Site

A = np.array([[0.6, 0.2], [-0.1, 0.5]])
Q = np.array([[1.0, 0.3], [0.3, 0.7]])
C = np.array([[1.0, 0.4], [-0.3, 0.8], [0.5, 0.5]])
R = np.array([0.5, 0.8, 0.3])
MEMORY = 0.8


def given(**settings):
    return KalmanClient(A=A, C=C, Q=Q, R=R, noise_memory=MEMORY, center=False, **settings)


def coloured(seed, memory, n=2000, d=5, p=2):
    """A record whose sensors have noise with a memory."""
    rng = np.random.default_rng(seed)
    loads, h, v = rng.standard_normal((d, p)), np.zeros(p), np.zeros(d)
    Y = np.zeros((n, d))
    for t in range(n):
        h = np.resize([0.8, -0.3], p) * h + rng.standard_normal(p)
        v = memory * v + np.sqrt(1 - memory**2) * rng.standard_normal(d)
        Y[t] = loads @ h + v
    return Y


def test_filter_predictions_and_likelihood_are_those_of_states_of_the_noise_in_statsmodels():
    Y = np.random.default_rng(0).standard_normal((60, 3))
    client = given().fit(Y)
    exact = KalmanFilter(
        3, 5, 5, design=np.hstack([C, np.eye(3)]), obs_cov=np.zeros((3, 3)), selection=np.eye(5),
        transition=block_diag(A, MEMORY * np.eye(3)), state_cov=block_diag(Q, np.diag(R)),
    )  # fmt: skip
    Y[20:25] = np.nan
    exact.bind(Y)
    # nothing is known of the noise before the record
    exact.initialize_known(np.zeros(5), block_diag(solve_discrete_lyapunov(A, Q), 1e7 * np.eye(3)))
    found = exact.filter()
    np.testing.assert_allclose(client.score_samples(Y)[1:25], found.llf_obs[1:25], atol=1e-6)
    np.testing.assert_allclose(client.predict(Y)[1:26], found.forecasts.T[1:26], atol=1e-6)  # as noise is forgotten
    np.testing.assert_allclose(client.transform(Y)[1:25, :2], found.filtered_state[:2].T[1:25], atol=1e-6)


def test_likelihood_of_quasi_differences_by_the_whole_joint_normal_distribution():
    n = 8
    Y = np.random.default_rng(1).standard_normal((n, 3))
    G = solve_discrete_lyapunov(A, Q)
    states = np.block(
        [
            [
                np.linalg.matrix_power(A, t - s) @ G if t >= s else (np.linalg.matrix_power(A, s - t) @ G).T
                for s in range(n)
            ]
            for t in range(n)
        ]
    )
    differ = np.eye(n - 1, n, 1) - MEMORY * np.eye(n - 1, n)
    to_measured = np.kron(differ, C)
    covariance = to_measured @ states @ to_measured.T + np.kron(np.eye(n - 1), np.diag(R))
    expected = multivariate_normal.logpdf((Y[1:] - MEMORY * Y[:-1]).ravel(), cov=covariance)
    assert given().fit(Y).score_samples(Y).sum() == pytest.approx(expected, abs=1e-9)


def test_episodes_begin_anew():
    Y = np.random.default_rng(2).standard_normal((50, 3))
    client = given().fit(Y)
    parts = np.concatenate([client.score_samples(Y[:20]), client.score_samples(Y[20:])])
    np.testing.assert_allclose(client.score_samples(Y, lengths=[20, 30]), parts, atol=1e-10)
    np.testing.assert_allclose(client.predict(Y, lengths=[20, 30])[[0, 20]], 0.0)  # the level


@pytest.mark.parametrize("memory", [0.4, 0.9])
def test_the_memory_is_found_within_four_standard_errors(memory):
    Y = coloured(3, memory)
    client = KalmanClient(noise_memory="auto").fit(Y)
    assert client.n_states_ == 4
    error = np.sqrt((1 - memory**2) / (len(Y) * 3))  # of an autoregression, in three directions beside two states
    assert abs(client.noise_memory_ - memory) < 4 * error + 2e-3  # and the tolerance of the search


def test_the_model_is_as_likely_as_the_true_one():
    Y, rng = coloured(3, 0.9), np.random.default_rng(3)
    loads, noise = rng.standard_normal((5, 2)), np.full(5, 1 - 0.9**2)
    true = KalmanClient(A=np.diag([0.8, -0.3]), C=loads, Q=np.eye(2), R=noise, noise_memory=0.9, center=False).fit(Y)
    found = KalmanClient(noise_memory="auto").fit(Y)
    # 19 parameters are worth 19 / 2 nats of the whole record; identification by moments loses some more
    assert found.score_samples(Y).sum() > true.score_samples(Y).sum() - 20


def test_white_noise_has_no_memory_and_the_model_is_as_without_the_option():
    Y = coloured(4, 0.0)
    client, plain = KalmanClient(noise_memory="auto").fit(Y), KalmanClient().fit(Y)
    assert client.noise_memory_ == 0
    np.testing.assert_array_equal(client.transition_, plain.transition_)
    np.testing.assert_array_equal(client.predict(Y), plain.predict(Y))


def test_memory_of_zero_given_is_the_ordinary_model():
    Y = coloured(4, 0.0)
    np.testing.assert_array_equal(KalmanClient(noise_memory=0).fit(Y).predict(Y), KalmanClient().fit(Y).predict(Y))


def test_gaps_and_constant_columns_go_along():
    Y = np.hstack([coloured(5, 0.8), np.full((2000, 1), 7.0)])
    Y[100:110, 0] = np.nan
    with pytest.warns(UserWarning, match="constant"):
        client = KalmanClient(noise_memory="auto", n_states=2).fit(Y)
    assert client.noise_memory_ == pytest.approx(0.8, abs=0.05)
    predicted = client.predict(Y)
    assert np.isfinite(predicted).all()
    assert (predicted[:, -1] == 7.0).all()


def test_where_states_take_up_all_sensors_noise_is_taken_to_have_no_memory():
    with pytest.warns(UserWarning, match="take up all"):
        client = KalmanClient(noise_memory="auto", n_states=2).fit(coloured(6, 0.8, d=2))
    assert client.noise_memory_ == 0


@pytest.mark.parametrize("memory", [1, 1.5, -0.2, np.nan])
def test_noise_that_never_settles_is_refused(memory):
    with pytest.raises(ValueError, match="never settles"):
        KalmanClient(noise_memory=memory).fit(coloured(7, 0.5, n=300))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"C": C, "noise_memory": 0.5}, "give A, C, Q and R and a number"),
        ({"A": A, "C": C, "Q": Q, "R": R, "noise_memory": "auto"}, "give A, C, Q and R and a number"),
        ({"noise_memory": 0.5, "n_states": 9}, "give as many n_states at most"),
        ({"noise_memory": 0.5, "gain": np.zeros((2, 3))}, "does not go with gain"),
    ],
)
def test_settings_that_do_not_go_together_are_named(settings, words):
    with pytest.raises(ValueError, match=words):
        KalmanClient(**settings).fit(coloured(8, 0.5, n=300, d=3))


@pytest.mark.filterwarnings("ignore::skfedcausal.privacy.errors.WeakPrivacyWarning")
def test_inputs_privacy_and_estimators_of_predictions_refuse_it():
    X, _ = make_granger_plant(2, n_samples=400, random_state=0)
    client = KalmanClient(noise_memory=0.5)
    mechanism = GaussianMechanism(mu=20.0, delta=1e-6, clip_norm=25.0, event_radius=3.0)
    with pytest.raises(ValueError, match="does not go with inputs"):
        client.fit(X["unit0"], inputs=np.ones((400, 1)))
    with pytest.raises(ValueError, match="noise for privacy has no memory"):
        FederatedGrangerEstimator(client, privacy=mechanism).fit(X)
    with pytest.raises(ValueError, match="FederatedCounterfactualEstimator has no use for it"):
        FederatedCounterfactualEstimator(client).fit(X)


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore")  # of the short record
def test_the_pooled_table_gives_the_same_messages_and_plant(remembering):
    X, est = remembering
    assert est.oracle_gap(X) <= 1e-8


@pytest.mark.filterwarnings("ignore")  # of the short record
def test_a_plant_that_cannot_be_learned_names_the_units_with_a_memory(monkeypatch):
    def fails(*_):
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(FederatedGrangerEstimator, "_learn", fails)
    X = {"a": coloured(9, 0.8, n=600), "b": coloured(10, 0.8, n=600)}
    clients = {"a": KalmanClient(noise_memory=0.8, n_states=2), "b": KalmanClient(n_states=2)}
    with pytest.raises(ValueError, match=r"\(Singular matrix\), .* noise with a memory: a\. Give another"):
        FederatedGrangerEstimator(clients).fit(X)
    with pytest.raises(np.linalg.LinAlgError, match=r"^Singular matrix$"):
        FederatedGrangerEstimator().fit(X)


def short_plant():
    return {"a": coloured(9, 0.8, n=600), "b": coloured(10, 0.8, n=600)}


@pytest.fixture(scope="module")
def remembering():
    """A record and an estimator of it whose sensors have noise with a memory."""
    X = short_plant()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the short record
        return X, FederatedGrangerEstimator(KalmanClient(noise_memory=0.8, n_states=2)).fit(X)


def sites(X):
    client = KalmanClient(noise_memory=0.8, n_states=2)
    return {name: Site(UnitWorker(name, Y, None, (0,), None, client)) for name, Y in X.items()}


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore")  # of the short record
def test_a_plant_predicts_the_first_row_of_an_episode_by_the_level_and_rows_after_gaps(remembering):
    X, estimator = short_plant(), remembering[1]
    levels = np.concatenate([client.mean_ for client in estimator.clients_.values()])
    X["a"][50:53, 1] = np.nan
    alone = np.hstack([estimator.clients_[name].predict(X[name], lengths=[100, 500]) for name in X])
    for model in ("augmented", "client", "server"):
        predicted = estimator.predict(X, lengths=[100, 500], model=model)
        assert np.isfinite(predicted).all()
        np.testing.assert_allclose(predicted[[0, 100]], [levels, levels])
        Y = np.hstack(list(X.values()))[1:]
        assert np.nanvar(Y - predicted[1:]) < 0.6 * np.nanvar(Y)
        if model == "client":
            np.testing.assert_allclose(predicted, alone)


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore")  # of the short record
def test_further_rounds_leave_such_sensors_as_they_are():
    client = KalmanClient(noise_memory=0.8, n_states=2)
    estimator = FederatedGrangerEstimator(client, server=LikelihoodServer(n_rounds=2)).fit(short_plant())
    for fitted in estimator.clients_.values():
        loads = fitted.observation_
        np.testing.assert_array_equal(loads[:, 2:], -0.8 * loads[:, :2])


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore")  # of the short record
def test_sites_refuse_to_be_monitored_and_to_stand_beside_inputs():
    X = short_plant()
    with pytest.raises(ValueError, match=r"asked to be monitored, and its client has `noise_memory`"):
        FederatedRCADetector().fit_sites(InProcessTransport(sites(X)))
    with pytest.raises(ValueError, match=r"asked beside inputs, and its client has `noise_memory`"):
        FederatedCounterfactualEstimator().fit_sites(InProcessTransport(sites(X)))
    estimator = FederatedGrangerEstimator().fit_sites(InProcessTransport(sites(X)))
    with pytest.raises(ValueError, match=r"Forecasts, effects and replays need .* `noise_memory`"):
        estimator.forecast(None, 500)


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore")  # of the short record
@pytest.mark.parametrize(
    "ask", ["forecast", "partial_fit", "bootstrap_links", "stable_links", "links_over_time", "link_effects"]
)
def test_what_needs_states_that_sensors_determine_names_the_option(remembering, ask):
    X, estimator = remembering
    with pytest.raises(ValueError, match=r"`noise_memory`.* [Ll]eave (it|noise_memory) out"):
        getattr(estimator, ask)(*{"forecast": (X, 500), "link_effects": ()}.get(ask, (X,)))
    if ask == "forecast":
        with pytest.raises(ValueError, match="`noise_memory`"):
            estimator.forecast(X, 500, confidence=0.9)
    if ask == "partial_fit":
        with pytest.raises(ValueError, match="`noise_memory` of the client of 'a', 'b': partial_fit"):
            FederatedGrangerEstimator(KalmanClient(noise_memory="auto")).partial_fit(X)


def test_a_refit_that_fails_leaves_the_client_as_it_was():
    Y = coloured(8, 0.5, n=300, d=3)
    client = KalmanClient(noise_memory=0.5, n_states=2).fit(Y)
    before = client.predict(Y)
    with pytest.raises(ValueError, match="give as many n_states"):
        client.set_params(n_states=9, trend="linear").fit(Y)
    np.testing.assert_array_equal(client.predict(Y), before)
    with pytest.raises(ValueError, match="gain has shape"):
        client.set_params(n_states=2, noise_memory=None, gain=np.zeros((7, 7))).fit(Y)
    np.testing.assert_array_equal(client.predict(Y), before)
    assert client.noise_memory_ == 0.5


def with_gaps(kind):
    Y = coloured(9, 0.8, n=600)
    if kind == "every second row":
        Y[::2] = np.nan
    else:
        Y[::2, 0] = Y[1::2, 1] = np.nan
    return Y


@pytest.mark.parametrize("memory", [0.8, "auto"])
@pytest.mark.parametrize("kind", ["every second row", "never together"])
def test_records_without_pairs_of_rows_are_refused_by_name(memory, kind):
    with pytest.raises(ValueError, match=r"^noise_memory=.* in the row before, in 0 rows"):
        KalmanClient(noise_memory=memory, n_states=2).fit(with_gaps(kind))


def test_sensors_that_are_hardly_ever_there_together_are_refused_by_name():
    Y = coloured(9, 0.8, n=600)
    Y[np.random.default_rng(0).random(Y.shape) < 0.6] = np.nan
    with pytest.raises(ValueError, match=r"noise_memory=0.8.* in the row before, in 0 rows only"):
        KalmanClient(noise_memory=0.8, n_states=2).fit(Y)


@pytest.mark.parametrize("memory", [0.8, "auto"])
def test_episodes_of_two_rows_are_refused_by_name(memory):
    with pytest.raises(ValueError, match=r"^noise_memory=.*300 episodes, which leaves 0 transitions"):
        KalmanClient(noise_memory=memory).fit(coloured(9, 0.8, n=600), lengths=[2] * 300)


def test_what_numpy_cannot_decompose_is_said_in_words(monkeypatch):
    def fails(*_):
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr("skfedcausal.client.coloured.identify", fails)
    with pytest.raises(ValueError, match=r"noise_memory=0.5: .* told apart \(Singular matrix\)"):
        KalmanClient(noise_memory=0.5).fit(coloured(8, 0.5, n=300))


@pytest.mark.parametrize("ask", ["predict", "transform", "score_samples", "message"])
def test_given_matrices_need_a_fit_for_noise_with_a_memory(ask):
    with pytest.raises(NotFittedError, match=r"noise_memory needs the level .* call fit first"):
        getattr(given(), ask)(np.zeros((5, 3)))


def test_an_initial_state_is_that_of_the_states_of_one_row():
    Y = np.random.default_rng(0).standard_normal((40, 3))
    mean, cov = np.array([2.0, -1.0]), np.diag([0.3, 0.5])
    client = given(initial=(mean, cov)).fit(Y)
    exact = KalmanFilter(
        3, 5, 5, design=np.hstack([C, np.eye(3)]), obs_cov=np.zeros((3, 3)), selection=np.eye(5),
        transition=block_diag(A, MEMORY * np.eye(3)), state_cov=block_diag(Q, np.diag(R)),
    )  # fmt: skip
    exact.bind(Y)
    exact.initialize_known(np.append(mean, np.zeros(3)), block_diag(cov, 1e7 * np.eye(3)))
    np.testing.assert_allclose(client.predict(Y), exact.filter().forecasts.T, atol=1e-6)
    with pytest.raises(ValueError, match="for 2 states"):
        given(initial=(np.zeros(4), np.eye(4))).fit(Y)
    assert np.isfinite(given(initial="diffuse").fit(Y).predict(Y)[3:]).all()


def test_a_gain_goes_with_a_memory_of_zero():
    Y = np.random.default_rng(0).standard_normal((40, 3))
    settings = {"A": A, "C": C, "Q": Q, "R": R, "gain": 0.1 * C.T}
    client = KalmanClient(**settings, noise_memory=0.0).fit(Y)
    np.testing.assert_array_equal(client.transform(Y), KalmanClient(**settings).fit(Y).transform(Y))
