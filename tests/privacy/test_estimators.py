"""Privacy in the estimators: nothing raw passes the mechanism, the noise is known, the account is kept."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit, cross_val_score

from skfedcausal import (
    Baseline,
    Communication,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    GaussianMechanism,
    GradientServer,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
    PrivacyAccountant,
    inspection,
    papers,
    stack_clients,
)
from skfedcausal.bases import configured
from skfedcausal.client.records import UnitRows
from skfedcausal.client.unit_model import under_noise
from skfedcausal.client.worker import UnitWorker, local_prediction
from skfedcausal.datasets import make_granger_plant
from skfedcausal.message.packet import Packet
from skfedcausal.message.requests import FitRequest
from skfedcausal.message.states import StateMessage
from skfedcausal.papers import StopRule
from skfedcausal.privacy import PrivacyBudgetError, UtilityWarning

from ._audit import gaussian_mu
from ._poison import TRANSPORTS, ByBytes, Poisoning

N, D, P = 803, 6, 2
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::skfedcausal.privacy.{name}")
    for name in ("UtilityWarning", "SeededNoiseWarning", "WeakPrivacyWarning")
]


def make_plant(seed=0, n_samples=N, **how):
    X, _ = make_granger_plant(3, n_states=P, n_sensors=D, n_samples=n_samples, random_state=seed, **how)
    return X


def make_mechanism(**settings):
    return GaussianMechanism(**{"mu": 2.0, "delta": 1e-6, "clip_norm": 25.0, "event_radius": 3.0, **settings})


def make_estimator(privacy=None, **settings):
    privacy = make_mechanism() if privacy is None else privacy
    return FederatedGrangerEstimator(KalmanClient(n_states=P), privacy=privacy, **settings)


# --- nothing raw passes -----------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize("n_rounds", [1, 3])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_nothing_after_the_release_needs_the_raw_record(transport, n_rounds):
    server = LikelihoodServer(options=LikelihoodOptions(n_rounds=n_rounds))
    X, settings = make_plant(), {"communication": Communication(transport=transport), "server": server}
    clean = {name: Y.copy() for name, Y in X.items()}
    mechanism = {"mu": 2.0, "clip_norm": 25.0, "event_radius": 3.0, "random_state": 0}
    estimator = make_estimator(Poisoning(**mechanism), **settings).fit(X)
    assert all(np.isnan(Y).all() for Y in X.values())
    assert np.isfinite(estimator.transition_).all()
    assert np.isfinite(estimator.links_["p_value"]).all()
    assert all(np.isfinite(augmenter.theta_).all() for augmenter in estimator.augmenters_.values())
    expected = make_estimator(GaussianMechanism(**mechanism), **settings).fit(clean)
    assert_array_equal(estimator.transition_, expected.transition_)
    for call in (
        lambda e, X: e.predict(X, model="server"),
        lambda e, X: e.transform(X),
        lambda e, X: e.score_samples(X),
    ):
        poisoned = {name: Y.copy() for name, Y in clean.items()}
        assert_array_equal(call(estimator, poisoned), call(expected, clean))


@pytest.mark.medium
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_two_records_with_one_noised_copy_give_the_same_everything(transport):
    X, other = make_plant(0), make_plant(1)
    mechanism = make_mechanism()
    for name, release in mechanism.release(X, (N,)).items():
        mechanism.account.remember(mechanism._plan(name, other[name], (N,)).key, release)
    one, two = (
        make_estimator(mechanism, communication=Communication(transport=transport)).fit(record) for record in (X, other)
    )
    assert_array_equal(one.transition_, two.transition_)
    assert one.links_.equals(two.links_)
    assert_array_equal(one.predict(X, model="server"), two.predict(other, model="server"))
    for name in X:
        assert_array_equal(one.augmenters_[name].theta_, two.augmenters_[name].theta_)
        assert_array_equal(one.clients_[name].observation_, two.clients_[name].observation_)


def test_no_packet_holds_a_value_of_the_raw_record():
    X = make_plant()
    make_estimator(communication=Communication(transport=ByBytes)).fit(X)
    wire = b"".join(array.tobytes() for _, packet in ByBytes.last.up for array in packet.arrays.values())
    for Y in X.values():
        for pair in Y[::50].reshape(-1, 2):  # eight bytes or more are found by chance once in 10^13 runs
            assert not any(pair.astype(kind).tobytes() in wire for kind in ("<f8", "<f4"))
            assert not any(value.tobytes() in wire for value in pair)


@pytest.mark.parametrize("release_again", [False, True], ids=["as it is", "noise drawn twice"])
def test_an_attack_on_the_messages_learns_no_more_than_promised(release_again):
    """Every row is one draw: the unit's measurements are the same at all times, in both records."""
    rng = np.random.default_rng(0)
    C = rng.normal(size=(D, P))
    client = KalmanClient(A=0.5 * np.eye(P), C=C, Q=np.eye(P), R=0.01 * np.ones(D), baseline=Baseline(center=False))
    mu, n, radius = 1.0, 10_000, 2.0
    direction = C @ np.linalg.solve(C.T @ C, [1.0, 0.0])
    direction *= radius / 2 / np.linalg.norm(direction)  # the message sees all of it
    scores = []
    for sign in (-1, 1):
        mechanism = GaussianMechanism(mu=mu, clip_norm=radius / 2, random_state=5 + sign)
        total = 0.0
        for _ in range(1 + release_again):
            release = mechanism.release({"mill": np.tile(sign * direction, (n, 1))}, (n,))["mill"]
            mechanism.account.forget()
            worker = UnitWorker("mill", release.values, None, (0,), (), client, noise=release.variance)
            message = StateMessage.from_packet(worker.handle(Packet(FitRequest.OP), {})[0])
            total = total + np.linalg.solve(message.J, message.z.T).T @ (C.T @ direction)
        scores.append(total)
    found = gaussian_mu(*scores)
    assert (found > mu) == release_again
    assert found >= 0.9 * mu  # the attack sees nearly all there is


# --- the noise is known -----------------------------------------------------------------------------


def test_the_message_carries_the_noise_in_its_information():
    X, truth = make_granger_plant(2, n_states=P, n_sensors=D, n_samples=N, random_state=0)
    models = {name: KalmanClient(baseline=Baseline(center=False), **model) for name, model in truth.clients().items()}
    estimator = FederatedGrangerEstimator(
        models, privacy=make_mechanism(), communication=Communication(transport=ByBytes)
    ).fit(X)
    for name, packet in ByBytes.last.up[:2]:
        model, noise = truth.clients()[name], estimator.noise_covariance_[name]
        C, R = model["C"], model["R"] if np.ndim(model["R"]) == 2 else np.diag(model["R"])
        J = StateMessage.from_packet(packet).J
        assert_allclose(J, C.T @ np.linalg.solve(R + noise, C), rtol=1e-9)
        assert_allclose(np.diag(noise), (3.0 / 2.0) ** 2, rtol=1e-5)


@pytest.mark.parametrize("given", [(), ("C",), ("C", "R"), ("A", "C", "Q", "R")], ids="".join)
def test_noise_of_a_client_comes_and_goes(given):
    X, truth = make_granger_plant(1, n_states=P, n_sensors=D, n_samples=4000, random_state=0)
    (Y,), model = X.values(), truth.clients()["unit0"]
    settings = {name: model[name] for name in given} or {"n_states": P}
    added = np.linspace(0.5, 2.0, D)
    noisy = Y + np.sqrt(added) * np.random.default_rng(0).normal(size=Y.shape)
    told = KalmanClient(**settings).fit(UnitRows(noisy, noise=added))
    raw = KalmanClient(**settings).fit(UnitRows(Y))
    without = under_noise(told, np.zeros(D))
    total, sensors, clean = (diagonal(c.measurement_cov_) for c in (told, without, raw))
    assert (total > added).all()
    assert_allclose(sensors, total - added, atol=1e-12)
    # seven standard errors of a variance from 4000 rows
    assert (np.abs(sensors - clean) < 7 * np.sqrt(2 / 4000) * (total + clean)).all()
    assert_allclose(under_noise(without, added).measurement_cov_, told.measurement_cov_, rtol=1e-14)
    assert under_noise(told, added) is told


def diagonal(R):
    return R if R.ndim == 1 else np.diag(R)


def test_as_many_states_as_sensors_is_no_problem_when_the_noise_is_known():
    """Then noise and states cannot be told apart; the noise that was added still can."""
    X, _ = make_granger_plant(1, n_states=2, n_sensors=2, n_samples=20_000, random_state=0)
    (Y,) = X.values()
    added = np.full(2, Y.var())
    noisy = Y + np.sqrt(added) * np.random.default_rng(0).normal(size=Y.shape)
    fits = {
        "raw": KalmanClient(n_states=2).fit(UnitRows(Y)),
        "told": KalmanClient(n_states=2).fit(UnitRows(noisy, noise=added)),
        "untold": KalmanClient(n_states=2).fit(UnitRows(noisy)),
    }
    radius = {name: np.abs(np.linalg.eigvals(fit.transition_)).max() for name, fit in fits.items()}
    assert abs(radius["told"] - radius["raw"]) < 0.1
    assert radius["untold"] < radius["raw"] - 0.2  # noise taken for states makes them forget


def test_refined_sensors_never_have_less_noise_than_was_added():
    X = make_plant()
    estimator = make_estimator(server=LikelihoodServer(options=LikelihoodOptions(n_rounds=3))).fit(X)
    for name, client in estimator.clients_.items():
        assert (client.measurement_cov_ > np.diag(estimator.noise_covariance_[name])).all()


@pytest.mark.parametrize("n_rounds", [1, 2])
def test_the_oracle_learns_from_the_same_noised_record(n_rounds):
    X = make_plant(n_samples=2000)
    estimator = make_estimator(server=LikelihoodServer(options=LikelihoodOptions(n_rounds=n_rounds))).fit(X)
    assert inspection.oracle_gap(estimator, X) < 1e-8
    assert len(estimator.privacy.account) == 3


def test_a_unit_tells_predictions_of_its_released_record_only():
    X, other = make_plant(), {name: Y[:100] for name, Y in make_plant().items()}
    estimator = make_estimator().fit(X)
    noised = estimator.privacy.release(X, (len(X["unit0"]),))["unit0"].values  # remembered: costs nothing
    for model in ("client", "augmented"):
        predicted = estimator.predict(X, model=model)
        expected = local_prediction(estimator._units["unit0"], noised, None, (0,), augmented=model == "augmented")
        assert_array_equal(predicted[:, :D], expected)
    assert len(estimator.privacy.account) == 3
    estimator.predict(other, model="client")  # what leaves is paid for
    assert len(estimator.privacy.account) == 6


@pytest.mark.slow
@pytest.mark.parametrize("radius", [(0.5, 0.85), 0.95], ids=["fast states", "slow states"])
def test_tests_keep_their_size_under_noise(radius):
    """Score tests of 12 pairs without a link in 60 plants; the binomial error of the share is 0.0081."""
    p_values = []
    for seed in range(60):
        X, _ = make_granger_plant(4, n_links=0, n_samples=3000, radius=radius, random_state=seed)
        privacy = GaussianMechanism(mu=1.5, clip_norm=25.0, event_radius=5.0, random_state=seed)
        estimator = FederatedGrangerEstimator(KalmanClient(n_states=2), privacy=privacy).fit(X)
        p_values += list(estimator.links_["p_value"])
    share = np.mean(np.array(p_values) < 0.05)
    assert abs(share - 0.05) < 3 * 0.0081
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3


def plant_in_noise(seed, epsilon, n_samples=5000):
    """A plant of strong links, its links, and noise on events of a tenth of the range."""
    X, truth = make_granger_plant(
        4,
        n_samples=n_samples,
        radius=0.95,
        measurement_noise=2.2,
        link_strength=(0.2, 0.5),
        random_state=seed,
    )
    clip = {name: float(np.quantile(np.linalg.norm(Y, axis=1), 0.999)) for name, Y in X.items()}
    radius = {name: 0.2 * value for name, value in clip.items()}
    privacy = GaussianMechanism(epsilon=epsilon, delta=1e-5, clip_norm=clip, event_radius=radius, random_state=seed)
    return X, {(row.cause, row.effect) for row in truth.links.itertuples()}, privacy


@pytest.mark.medium
def test_noise_that_may_hide_states_leaves_every_link_undecided():
    """The second states of units are not found; they may act as common causes."""
    X, _, privacy = plant_in_noise(5, 1.0)
    with pytest.warns(UtilityWarning, match="every link is undecided"):
        estimator = FederatedGrangerEstimator(privacy=privacy).fit(X)
    assert min(client.n_states_ for client in estimator.clients_.values()) == 1
    assert (estimator.links_["p_value"] == 1).all()
    assert (estimator.links_["p_adjusted"] == 1).all()
    assert (estimator.links_["verdict"] == "cannot tell").all()
    assert (estimator.test_links(X, "score")["p_fdr"] == 1).all()
    assert (estimator.server_.links_["p_value"] < 1e-3).any()  # what the tests would have said
    assert estimator.links_["statistic"].equals(estimator.server_.links_["statistic"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The plant of several lags that fits:UserWarning")  # of one plant
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_tests_of_what_is_no_link_keep_their_size_beside_strong_links(epsilon):
    """Share of 5 %-rejections among the pairs without a link, binomial error 0.02 (6 pairs in 20 plants)."""
    false = []
    for seed in range(20):
        X, true, privacy = plant_in_noise(seed, epsilon)
        links = FederatedGrangerEstimator(privacy=privacy).fit(X).links_
        is_link = np.array([(row.cause, row.effect) in true for row in links.itertuples()])
        false += list(links["p_value"][~is_link] < 0.05)
    assert np.mean(false) <= 0.05 + 3 * 0.02


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "least"), [(3.0, 0.88), (8.0, 0.95)])
def test_links_are_ranked_well_at_a_tenth_of_the_range(epsilon, least):
    """Mean over 20 plants of 5000 time steps; without noise the ranking is perfect."""
    ranking = []
    for seed in range(20):
        X, true, privacy = plant_in_noise(seed, epsilon)
        links = FederatedGrangerEstimator(privacy=privacy).fit(X).links_
        is_link = [(row.cause, row.effect) in true for row in links.itertuples()]
        ranking.append(roc_auc_score(is_link, links["statistic"]))
    assert np.mean(ranking) >= least


@pytest.mark.slow
def test_a_climb_that_ends_where_few_lags_say_nothing_is_repeated_with_more():
    """The Whittle likelihood of few lags rises without end on the way of this plant, in heavy noise."""
    X, _, privacy = plant_in_noise(15, 3.0)
    server = FederatedGrangerEstimator(privacy=privacy).fit(X).server_
    assert server.converged_
    assert np.abs(server.transition_).max() < 2


# --- the account ------------------------------------------------------------------------------------


@pytest.mark.medium
def test_rounds_refits_and_answers_about_the_same_record_cost_nothing_more():
    X = make_plant()
    estimator = make_estimator().fit(X)
    estimator.fit(X), estimator.score(X), estimator.transform(X), estimator.predict(X, model="server")
    clone(estimator).set_params(server=LikelihoodServer(options=LikelihoodOptions(n_rounds=3))).fit(X)
    assert_allclose(estimator.privacy_spent_.mu, 2.0)
    assert len(estimator.privacy.account) == 3  # one release of each unit
    estimator.score({name: Y[:400] for name, Y in X.items()})
    assert_allclose(estimator.privacy_spent_.mu, np.sqrt(2) * 2.0)


def test_what_comes_back():
    X = make_plant()
    estimator = make_estimator(GaussianMechanism(epsilon=4.0, delta=1e-6, clip_norm=25.0, event_radius=3.0)).fit(X)
    spent = estimator.privacy_spent_
    assert (spent.epsilon, spent.delta, spent.unit) == (pytest.approx(4.0), 1e-6, "event")
    assert set(spent.per_client) == set(X)
    assert list(estimator.privacy_ledger_["client"]) == list(X)
    assert "epsilon = 4, delta = 1e-06" in estimator.privacy_statement_
    assert {C.shape for C in estimator.noise_covariance_.values()} == {(D, D)}


def test_without_a_mechanism_nothing_is_promised():
    estimator = FederatedGrangerEstimator().fit(make_plant())
    spent = estimator.privacy_spent_
    assert (spent.epsilon, spent.delta, spent.mu, spent.unit) == (np.inf, 0.0, np.inf, "none")
    assert estimator.privacy_statement_.startswith("Not differentially private")
    assert len(estimator.privacy_ledger_) == 0
    assert estimator.noise_covariance_ == {}


@pytest.mark.medium
@pytest.mark.parametrize("shared", [True, False], ids=["accountant given", "own accountant"])
def test_cross_validation_is_charged_for_every_fold(shared):
    X = stack_clients(make_plant(n_samples=3000))
    mechanism = make_mechanism(accountant=PrivacyAccountant() if shared else None)
    estimator = make_estimator(mechanism)
    cross_val_score(estimator, X, cv=TimeSeriesSplit(5))
    assert len(mechanism.account) == 5 * 2 * 3  # folds, training and test record, units
    assert_allclose(mechanism.account.spent(1e-6).mu, np.sqrt(10) * 2.0)
    GridSearchCV(estimator, {"server": [LikelihoodServer()]}, cv=TimeSeriesSplit(2)).fit(X)
    # the test records of two folds and the refit; their training records were two of the five above
    assert len(mechanism.account) == 5 * 2 * 3 + 2 * 3 + 3
    GridSearchCV(estimator, {"server": [LikelihoodServer(alpha=0.1)]}, cv=TimeSeriesSplit(2)).fit(X)
    assert len(mechanism.account) == 5 * 2 * 3 + 2 * 3 + 3  # all of these were released before


@pytest.mark.medium
def test_processes_that_would_lose_charges_are_refused():
    X, estimator = stack_clients(make_plant()), make_estimator()
    with pytest.raises(Exception, match=r"pickle|PrivacyAccountant") as caught:
        cross_val_score(estimator, X, cv=TimeSeriesSplit(2), n_jobs=2, error_score="raise")
    text, error = "", caught.value
    while error is not None:
        text, error = text + str(error), error.__cause__
    assert "a copy in another process would lose its charges" in text
    assert len(estimator.privacy.account) == 0


def test_a_budget_stops_a_fit_before_anything_leaves():
    X = make_plant()
    account = PrivacyAccountant(epsilon=5.0, delta=1e-6)
    mechanism = make_mechanism(mu=None, epsilon=4.0, accountant=account)
    make_estimator(mechanism, communication=Communication(transport=ByBytes)).fit(X)
    ByBytes.last = None
    estimator = make_estimator(mechanism, communication=Communication(transport=ByBytes))
    with pytest.raises(PrivacyBudgetError, match="the budget is 5, of which 4 is spent"):
        estimator.fit(make_plant(seed=1))
    assert ByBytes.last is None
    assert not {"server_", "clients_", "privacy_spent_"} & set(vars(estimator))
    assert account.spent().epsilon == pytest.approx(4.0)


def test_a_client_that_cannot_be_told_is_refused_before_anything_is_spent():
    class BlackBox:
        def filter_moments(self, Y):
            raise AssertionError("never asked")

    estimator = FederatedGrangerEstimator(BlackBox(), privacy=make_mechanism())
    with pytest.raises(
        TypeError, match=r"unit 'unit0' is a BlackBox\. Only a KalmanClient, or an ExtendedKalmanClient"
    ):
        estimator.fit(make_plant())
    assert len(estimator.privacy.account) == 0


def test_a_fitted_estimator_is_saved_without_its_mechanism_and_releases_nothing_then():
    X = make_plant()
    estimator = make_estimator().fit(X)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(estimator)
    saved = pickle.loads(pickle.dumps(estimator.set_params(privacy=None)))
    assert_array_equal(saved.transition_, estimator.transition_)
    assert saved.privacy_statement_ == estimator.privacy_statement_
    for ask in (saved.predict, saved.score):
        with pytest.raises(ValueError, match="no mechanism any more"):
            ask(X)


# --- gradient training ------------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("settings", [{"exchange": "series"}, {"exchange": "moments"}], ids=["series", "moments"])
def test_gradient_training_is_post_processing(settings, transport):
    server = configured(GradientServer, {"max_iter": 3} | settings)
    mechanism = {"mu": 2.0, "clip_norm": 25.0, "event_radius": 3.0, "random_state": 0}
    X, clean = make_plant(), make_plant()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        poisoned = make_estimator(
            Poisoning(**mechanism), server=server, communication=Communication(transport=transport)
        ).fit(X)
        expected = make_estimator(
            GaussianMechanism(**mechanism), server=server, communication=Communication(transport=transport)
        ).fit(clean)
        longer = clone(expected).set_params(server=clone(server).set_params(stop__max_iter=10)).fit(clean)
    assert all(np.isnan(Y).all() for Y in X.values())
    assert np.isfinite(poisoned.transition_).all()
    assert_array_equal(poisoned.transition_, expected.transition_)
    for name in X:
        assert_array_equal(poisoned.augmenters_[name].theta_, expected.augmenters_[name].theta_)
    assert np.isfinite(papers.losses(expected, clean)).all(axis=None)
    assert len(longer.privacy.account) == 3  # more rounds cost nothing more


# --- every estimator --------------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize(
    "server", [None, GradientServer(stop=StopRule(max_iter=3, tol=0))], ids=["likelihood", "gradients"]
)
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_counterfactual_estimator_needs_no_raw_record_after_the_release(transport, server):
    X, U = make_plant(n_samples=600), np.random.default_rng(0).normal(size=(600, 1))
    clean, inputs = {name: Y.copy() for name, Y in X.items()}, {"unit0": U}
    found = []
    for kind, record in ((Poisoning, X), (GaussianMechanism, clean)):
        mechanism = kind(mu=2.0, clip_norm=25.0, event_radius=3.0, random_state=0)
        estimator = FederatedCounterfactualEstimator(
            KalmanClient(n_states=P), privacy=mechanism, server=server, communication=Communication(transport=transport)
        )
        found.append(estimator.fit(record, inputs=inputs).server_)
        assert len(mechanism.account) == 3
    assert all(np.isnan(Y).all() for Y in X.values())
    assert_array_equal(found[0].transition_, found[1].transition_)
    assert_array_equal(found[0].input_, found[1].input_)
