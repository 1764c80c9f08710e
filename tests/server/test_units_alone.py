"""Units that a plant is no model of are predicted on their own, and noise may have heavy tails."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodOptions, LikelihoodServer
from skfedcausal.datasets import make_granger_plant

pytestmark = pytest.mark.medium


def _with_counter(n_samples=2000, seed=0):
    """Two coupled units, and one whose single column hardly moves from one row to the next, then jumps."""
    rng = np.random.default_rng(seed)
    X, _ = make_granger_plant(2, links=[("unit0", "unit1")], n_samples=n_samples, random_state=seed)
    jumps = rng.standard_normal(n_samples) * (rng.random(n_samples) < 0.02)
    return {**X, "counter": (np.cumsum(jumps) + 1e-4 * rng.standard_normal(n_samples))[:, None]}


@pytest.fixture(scope="module")
def fitted():
    X = _with_counter()
    with pytest.warns(UserWarning, match="drift"):
        return FederatedGrangerEstimator(server=LikelihoodServer(options=LikelihoodOptions(n_rounds="auto"))).fit(X), X


def test_a_counter_is_left_to_itself(fitted):
    estimator, _ = fitted
    assert estimator.server_.alone_ == ("counter",)
    links = estimator.server_.likelihood_links_.set_index(["cause", "effect"])["verdict"]
    assert links["unit0", "unit1"] == "influence"
    assert links["unit0", "counter"] == links["unit1", "counter"] == "cannot tell"


def test_the_density_is_that_of_the_plant_given_the_unit_times_the_units_own(fitted):
    estimator, X = fitted
    server = estimator.server_
    with estimator._asking(X, None, None) as units:
        messages = units.messages(const=True)
    assert messages["counter"].alone
    assert not messages["unit0"].alone
    run, t, n = server.filter(messages), 1500, len(server.transition_)
    whole = getattr(run, "_whole", run)
    P, J = whole._schedule.at(t)[0][:n, :n], server.information_
    z, h = np.hstack([messages[name].z[t] for name in server.names_]), run.predicted[t]
    c = server.state_slices_["counter"]
    S = J @ P @ J + J  # of all messages given the past
    joint = multivariate_normal(J @ h, S, allow_singular=True).logpdf(z) - multivariate_normal(cov=J).logpdf(z)
    own = multivariate_normal((J @ h)[c], S[c, c]).logpdf(z[c]) - multivariate_normal(cov=J[c, c]).logpdf(z[c])
    expected = sum(message.const[t] for message in messages.values()) + joint - own
    order = np.r_[np.arange(n)[c], np.setdiff1d(np.arange(n), np.arange(n)[c])]
    white = np.linalg.solve(np.linalg.cholesky(S[np.ix_(order, order)]), (z - J @ h)[order])
    if server._tails is not None:
        expected += server._tails.gain(white[None, 1:])[0]
    np.testing.assert_allclose(run.log_likelihood()[t], expected, rtol=1e-6)


def test_on_its_own_it_is_better_than_in_the_plant(fitted):
    estimator, X = fitted
    together = estimator.score(X)
    server, messages = estimator.server_, {n: KalmanClient().fit(Y).message(Y, const=True) for n, Y in X.items()}
    assert together > server.filter(messages).log_likelihood().mean() + 1


@pytest.mark.filterwarnings("ignore:Units whose states drift")
def test_with_states_without_noise_the_plant_is_as_good(fitted):
    """A unit that is sent as it is need not be left to itself: one lag says what seven and its own past say."""
    estimator, X = fitted
    default = FederatedGrangerEstimator().fit(X)
    assert default.server_.alone_ == ()
    assert default.score(X) > estimator.score(X) - 0.05


def test_plants_of_the_class_know_of_neither():
    for seed in range(3):
        X, _ = make_granger_plant(4, n_samples=1500, random_state=seed)
        server = FederatedGrangerEstimator().fit(X).server_
        assert server.alone_ == ()
        assert server._tails is None


def test_heavy_tails_are_found_and_gain_where_they_were_not_seen():
    rng = np.random.default_rng(0)
    h = np.zeros((4000, 2))
    for t in range(1, 4000):
        h[t] = [[0.7, 0.0], [0.4, 0.6]] @ h[t - 1] + rng.standard_t(2.5, 2)
    X = {f"u{k}": h[:, [k]] @ [[1.0, 0.8, 0.5]] + 0.1 * rng.standard_normal((4000, 3)) for k in range(2)}
    estimator = FederatedGrangerEstimator().fit({name: Y[:3000] for name, Y in X.items()})
    server, held_out = estimator.server_, {name: Y[3000:] for name, Y in X.items()}
    assert np.isfinite(server._tails.freedom).all()
    with estimator._asking({name: Y[:3000] for name, Y in X.items()}, None, None) as units:
        run = server._filter(server.joint_record(units.messages()))
    assert run.heavy_tails is run.told(np.zeros(0, dtype=int), None).heavy_tails
    assert len(run.told(np.array([0]), None).heavy_tails.freedom) == 1  # the other one is on its own
    value, server._tails = estimator.score(held_out), None
    assert value > estimator.score(held_out) + 0.2
