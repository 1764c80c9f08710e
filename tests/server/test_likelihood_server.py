"""Every option of the LikelihoodServer does what it says; what cannot be fitted is said."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from statsmodels.tsa.api import VAR

from skfedcausal import KalmanClient, LikelihoodOptions
from skfedcausal.bases import configured
from skfedcausal.datasets import make_granger_plant
from skfedcausal.message import StateMessage
from skfedcausal.server.dynamics import PlantFilter, smooth_record
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.likelihood import LikelihoodServer
from skfedcausal.server.links.grades import VALUES
from skfedcausal.server.links.questions import screen
from skfedcausal.server.links.tables import COLUMNS

from ..statespace._reference import with_gaps
from ._reference import coupled_plant


def example(missing=0.0, n_samples=600, seed=4, starts=(0,), **options):
    coupled = coupled_plant(1, **{"sizes": (2, 1), "links": [(1, 0)], "strength": 0.5, **options})
    Y = coupled.simulate(n_samples, seed, starts)
    return coupled, with_gaps(Y, 3, missing) if missing else Y


def fit(coupled, Y, starts=(0,), local_model=False, **options):
    return configured(LikelihoodServer, options).fit(coupled.messages(Y, starts, local_model))


def off_diagonal(server):
    return np.where(server.partition_.block_diagonal, 0.0, server.unshrunk_transition_)


GAPS = pytest.mark.parametrize("missing", [0.0, 0.1], ids=["complete", "missing"])


# --- options ----------------------------------------------------------------------------------------


@pytest.mark.medium
@GAPS
def test_fix_local_keeps_the_diagonal_blocks_and_frees_their_noise(missing):
    coupled, Y = example(missing)
    server = fit(coupled, Y, local_model=True, fix_local=True)
    free = fit(coupled, Y, local_model=True)
    for rows in coupled.partition.slices:
        own = coupled.plant.A[rows, rows]
        np.testing.assert_allclose(server.transition_[rows, rows], own, rtol=0, atol=1e-12)
        assert np.abs(free.transition_[rows, rows] - own).max() > 1e-4
        assert np.abs(server.process_cov_[rows, rows] - coupled.plant.Q[rows, rows]).max() > 1e-4
    assert server.needs_local_model
    assert not free.needs_local_model


def test_fix_local_asks_for_the_units_models_by_name():
    coupled, Y = example()
    messages = coupled.messages(Y, local_model=True)
    messages["unit1"] = replace(messages["unit1"], transition=None)
    with pytest.raises(ValueError, match=r"fix_local=True needs the own model of unit 'unit1'"):
        LikelihoodServer(options=LikelihoodOptions(fix_local=True)).fit(messages)


@GAPS
def test_dense_is_plain_maximum_likelihood(missing):
    coupled, Y = example(missing)
    server = fit(coupled, Y, sparsity=None)
    assert (server.transition_ != 0).all()
    np.testing.assert_array_equal(server.transition_, server.unshrunk_transition_)
    assert (server.process_cov_ != 0).all()
    assert server.gradient_norm_ <= server.tol


NOISE = 1e-5  # of measured states, for records that an autoregression explains


def seen_states(n_samples, n_lags=1):
    """Two units of two states that are seen and share noise, unit0 moves unit1; states and messages."""
    rng = np.random.default_rng(n_lags)
    A = np.kron(np.eye(2), [[0.5, 0.2], [-0.2, 0.4]])
    A[2, 0] = 0.3
    late = np.zeros_like(A) if n_lags == 1 else 0.4 * np.eye(4)
    shocks = rng.standard_normal((n_samples, 4)) @ np.linalg.cholesky(0.5 * np.eye(4) + 0.5).T
    x = np.zeros((n_samples, 4))
    for t in range(n_lags, n_samples):
        x[t] = A @ x[t - 1] + late @ x[t - n_lags] + shocks[t]
    x -= x.mean(axis=0)
    z, J = x / NOISE, np.eye(2)[None] / NOISE
    messages = {f"unit{k}": StateMessage(z[:, 2 * k : 2 * k + 2].copy(), J, None, (n_samples,)) for k in range(2)}
    return x, messages


@pytest.mark.parametrize("likelihood", ["whittle", "time-domain"])
def test_dense_is_a_regression_where_states_are_seen(likelihood):
    """Least squares and the covariance of all their residuals, by statsmodels."""
    x, messages = seen_states(2000)
    server = LikelihoodServer(likelihood=likelihood, options=LikelihoodOptions(sparsity=None)).fit(messages)
    expected = VAR(x).fit(1, trend="n")
    assert not server.has_prior_
    # the density of the first row, one of 2000, and noise that is nearly none
    np.testing.assert_allclose(server.transition_, expected.coefs[0], rtol=0, atol=2 / 2000)
    np.testing.assert_allclose(server.process_cov_, expected.sigma_u_mle, rtol=0, atol=4 / 2000)
    assert server.correlations_["p_value"].max() < 1e-10


def test_dense_shares_noise_with_several_lags_too():
    x, messages = seen_states(3000, n_lags=3)
    server = LikelihoodServer(options=LikelihoodOptions(sparsity=None)).fit(messages)
    expected = VAR(x).fit(len(server.lag_transitions_), trend="n")
    assert len(server.lag_transitions_) >= 3
    error = np.linalg.norm(server.process_cov_ - expected.sigma_u_mle) / np.linalg.norm(expected.sigma_u_mle)
    assert error < 4 * np.sqrt(2 / 3000)  # four standard errors of a variance


@pytest.mark.slow
def test_dense_does_not_take_noise_that_units_share_for_links():
    """A disturbance of both units in the same row, which no link carries."""
    rejected = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, shocks = np.zeros((1000, 2)), rng.standard_normal((1000, 2)) @ np.array([[1.0, 0.7], [0.0, 0.7]])
        for t in range(1, 1000):
            x[t] = 0.5 * x[t - 1] + shocks[t]
        z, J = (x + 0.5 * rng.standard_normal(x.shape)) / 0.25, np.full((1, 1, 1), 4.0)
        messages = {f"unit{k}": StateMessage(z[:, k : k + 1].copy(), J, None, (1000,)) for k in range(2)}
        rejected += np.count_nonzero(
            LikelihoodServer(options=LikelihoodOptions(sparsity=None)).fit(messages).links_["p_value"] < 0.01
        )
    assert rejected <= stats.binom.isf(1e-3, 40, 0.01)


def test_fdr_leaves_out_what_the_tests_do_not_show():
    coupled, Y = example()
    server = fit(coupled, Y)
    assert (server.unshrunk_transition_[:2, 2] == 0).all()
    assert (server.unshrunk_transition_[2, :2] != 0).all()


def test_alpha_is_the_level_of_search_and_verdicts():
    coupled, Y = example(n_samples=150, sizes=(1, 1, 1), links=[(1, 0), (2, 1)], strength=0.2, radius=0.6)
    servers = [fit(coupled, Y, alpha=alpha, shrink=False) for alpha in (1e-9, 0.05, 0.999)]
    blocks = [np.count_nonzero(off_diagonal(server)) for server in servers]
    assert blocks[0] == 0
    assert blocks == sorted(blocks)
    assert blocks[-1] > blocks[0]
    for server in servers:
        influence = server.links_.verdict == "influence"
        assert (influence == (server.links_.p_adjusted <= server.alpha)).all()


def test_margin_is_what_counts_as_none():
    coupled, Y = example(n_samples=2000)
    verdicts = [fit(coupled, Y, margin=margin).likelihood_links_.verdict.tolist() for margin in (1e-3, 0.3)]
    assert verdicts[0] == ["cannot tell", "influence"]
    assert verdicts[1] == ["no influence", "influence"]


def test_shrink_changes_the_plant_but_not_the_table():
    coupled, Y = example()
    shrunk, plain = fit(coupled, Y), fit(coupled, Y, shrink=False)
    assert np.linalg.norm(shrunk.transition_[2, :2]) < np.linalg.norm(plain.transition_[2, :2])
    np.testing.assert_array_equal(plain.transition_, plain.unshrunk_transition_)
    np.testing.assert_array_equal(shrunk.unshrunk_transition_, plain.transition_)
    assert shrunk.links_.equals(plain.links_)


@GAPS
def test_too_few_iterations_warn_and_keep_the_point_reached(missing):
    coupled, Y = example(missing, n_samples=200)
    with pytest.warns(ConvergenceWarning, match=r"after 1 iterations its gradient .*Raise max_iter"):
        server = fit(coupled, Y, sparsity=None, max_iter=1)
    assert not server.converged_
    assert server.n_iter_ == 1
    assert server.gradient_norm_ > server.tol
    assert np.isfinite(server.transition_).all()
    assert server.links_.p_value.notna().all()


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-10])
def test_tol_is_the_length_of_the_gradient_left(tol):
    coupled, Y = example()
    server = fit(coupled, Y, sparsity=None, tol=tol)
    assert server.converged_
    assert server.gradient_norm_ <= tol


def test_smaller_tolerances_take_more_iterations():
    coupled, Y = example()
    iterations = [fit(coupled, Y, sparsity=None, tol=tol).n_iter_ for tol in (1e-3, 1e-10)]
    assert iterations[0] < iterations[1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"fix_local": "yes"},
        {"sparsity": "lasso"},
        {"alpha": 0.0},
        {"alpha": 1.0},
        {"alpha": "5 %"},
        {"shrink": 0.5},
        {"margin": 0.0},
        {"margin": -1.0},
        {"n_rounds": 0},
        {"n_rounds": 1.5},
        {"max_iter": 0},
        {"tol": 0.0},
        {"tol": -1e-3},
    ],
    ids=str,
)
def test_bad_values_are_refused_by_name(wrong):
    coupled, Y = example(n_samples=60)
    (name,) = wrong
    messages = coupled.messages(Y)
    for ask in (LikelihoodServer.fit, screen):
        with pytest.raises(ValueError, match=f"The '{name}' parameter of Likelihood(Server|Options) must be"):
            ask(configured(LikelihoodServer, wrong), messages)


def test_fitting_leaves_the_parameters_alone_and_starts_afresh():
    coupled, Y = example()
    server = LikelihoodServer(options=LikelihoodOptions(sparsity=None))
    before = server.get_params()
    first = server.fit(coupled.messages(Y)).transition_
    server.fit(coupled.messages(Y[:300]))
    again = server.fit(coupled.messages(Y)).transition_
    np.testing.assert_array_equal(first, again)
    assert server.get_params() == before
    assert not hasattr(clone(server), "transition_")


# --- levels -----------------------------------------------------------------------------------------


@pytest.mark.medium
@GAPS
@pytest.mark.parametrize("starts", [(0,), (0, 250)], ids=str)
def test_a_constant_level_in_each_episode_changes_nothing(missing, starts):
    """Intercepts per unit and episode are profiled out, so an offset is not taken for a link."""
    coupled, Y = example(missing, starts=starts)
    plain = fit(coupled, Y, starts, sparsity=None)
    rng = np.random.default_rng(0)
    for start, stop in zip(starts, [*starts[1:], len(Y)], strict=True):
        Y[start:stop] += coupled.plant.C @ (20 * rng.normal(size=3))
    moved = fit(coupled, Y, starts, sparsity=None)
    # The maximum is the same; both climbs end where a derivative per row is at most 1e-10.
    np.testing.assert_allclose(moved.transition_, plain.transition_, rtol=0, atol=1e-7)
    np.testing.assert_allclose(moved.process_cov_, plain.process_cov_, rtol=0, atol=1e-7)
    np.testing.assert_allclose(moved.links_.p_value, plain.links_.p_value, rtol=1e-5, atol=1e-12)


# --- results ----------------------------------------------------------------------------------------


def test_attributes_are_in_the_units_own_states_and_order():
    coupled, Y = example(n_samples=4000)
    server = fit(coupled, Y)
    assert server.names_ == ("unit0", "unit1")
    assert server.state_slices_ == {"unit0": slice(0, 2), "unit1": slice(2, 3)}
    np.testing.assert_allclose(server.information_, coupled.plant.J, rtol=0, atol=1e-9)
    assert set(server.links_.columns) == {*COLUMNS, "basis", *VALUES}
    # links are found with errors of a few 1 / sqrt(T) times the ratio of the states' scales
    scale = np.sqrt(np.diag(coupled.plant.P0))
    error = 6 * scale.max() / scale.min() * 1.5 / np.sqrt(4000)
    np.testing.assert_allclose(server.transition_, coupled.plant.A, rtol=0, atol=error)


def test_wald_and_score_p_values_do_not_depend_on_the_units_bases():
    coupled, Y = example()
    messages = coupled.messages(Y)
    T = np.array([[2.0, 0.5], [-1.0, 0.3]])
    turned = dict(messages)
    inverse = np.linalg.inv(T)
    first = messages["unit0"]
    turned["unit0"] = replace(first, z=first.z @ inverse, patterns=inverse.T @ first.patterns @ inverse)
    one, other = (LikelihoodServer().fit(m).links_ for m in (messages, turned))
    np.testing.assert_allclose(one.statistic, other.statistic, rtol=1e-6)
    np.testing.assert_allclose(one.norm, other.norm, rtol=1e-6)


def test_screen_has_the_table_but_no_gewekes_measure():
    coupled, Y = example()
    table = screen(LikelihoodServer(), coupled.messages(Y))
    assert tuple(table.columns) == COLUMNS
    assert table.geweke.isna().all()
    assert table.drop(columns=["geweke", "delay", "delay_low", "delay_high"]).notna().all(axis=None)
    assert table.p_value[1] < 1e-3


def test_filter_and_replies_are_those_of_the_learned_plant():
    coupled, Y = example(n_samples=300)
    messages = coupled.messages(Y)
    server = LikelihoodServer().fit(messages)
    run = server.filter(messages)
    expected = PlantFilter(server.transition_, server.process_cov_, JointRecord.from_messages(messages))
    np.testing.assert_array_equal(run.filtered, expected.filtered)
    replies = server.replies(messages)
    cross = np.where(server.partition_.block_diagonal, 0, server.transition_)
    for name, rows in server.state_slices_.items():
        reply = replies[name]
        wanted = np.vstack([np.zeros(3), run.filtered[:-1] @ cross.T])[:, rows]
        np.testing.assert_allclose(reply.cross_term, wanted, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(reply.transition, server.transition_[rows, rows])
        np.testing.assert_array_equal(reply.process_cov, server.process_cov_[rows, rows])


def test_smoothed_replies_come_from_the_unshrunk_plant():
    coupled, Y = example(0.1, n_samples=100, strength=0.8)
    messages = coupled.messages(Y)
    server = LikelihoodServer().fit(messages)
    replies = server.smoothed(messages)
    record = JointRecord.from_messages(messages)
    states, covariances, _ = smooth_record(server.unshrunk_transition_, server.process_cov_, record)
    for k, (name, rows) in enumerate(server.state_slices_.items()):
        np.testing.assert_array_equal(replies[name].states, states[:, rows])
        np.testing.assert_array_equal(replies[name].covariances, covariances[k])


def test_messages_of_other_units_are_refused():
    coupled, Y = example()
    messages = coupled.messages(Y)
    server = LikelihoodServer().fit(messages)
    with pytest.raises(ValueError, match="expected one from each"):
        server.filter({"unit0": messages["unit0"]})


def test_one_unit_has_a_plant_and_no_links():
    coupled, Y = example(sizes=(2,), links=())
    server = fit(coupled, Y)
    assert len(server.links_) == 0
    assert server.converged_
    assert server.transition_.shape == (2, 2)


# --- what cannot be fitted --------------------------------------------------------------------------


def never_nan_in_silence(server):
    numbers = server.transition_, server.process_cov_, server.unshrunk_transition_
    assert all(np.isfinite(x).all() for x in numbers)
    assert np.abs(np.linalg.eigvals(server.unshrunk_transition_)).max() < 1
    assert np.linalg.eigvalsh(server.process_cov_)[0] > 0
    may_be_open = ["delay", "delay_low", "delay_high", *VALUES]  # no link, too few rows
    assert server.links_.drop(columns=may_be_open).notna().all(axis=None)


def allowing_the_warning(coupled, Y, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        server = fit(coupled, Y, **options)
    usual = ("drift like a random walk", "send the same states")  # as those that grow without bound do
    categories = {w.category for w in caught if not any(words in str(w.message) for words in usual)}
    assert categories <= {ConvergenceWarning}
    assert bool(categories) is not server.converged_
    return server


@pytest.mark.medium
@pytest.mark.parametrize("sparsity", ["fdr", None])
@pytest.mark.parametrize("n_samples", [2, pytest.param(5, marks=pytest.mark.slow), 15])
@GAPS
def test_short_records_give_numbers_or_say_that_they_do_not(n_samples, sparsity, missing):
    coupled, Y = example(n_samples=30)
    Y = Y[:n_samples]
    if missing:
        Y = with_gaps(Y, 0, missing)
    never_nan_in_silence(allowing_the_warning(coupled, Y, sparsity=sparsity))


@pytest.mark.parametrize("growth", [1.0, 1.02, 1.2])
def test_an_unstable_plant_gives_a_stable_estimate_or_an_error(growth):
    coupled, _ = example(sizes=(1, 1), links=[])
    rng = np.random.default_rng(0)
    h = np.zeros((120, 2))
    for t in range(1, 120):
        h[t] = growth * h[t - 1] + rng.normal(size=2)
    Y = h @ coupled.plant.C.T + rng.normal(size=(120, 6)) * np.sqrt(np.diag(coupled.plant.R))
    server = allowing_the_warning(coupled, Y)
    never_nan_in_silence(server)
    assert server.has_prior_


def test_states_that_no_sensor_sees_are_an_error_naming_the_unit():
    coupled, Y = example(n_samples=200)
    messages = coupled.messages(Y)
    blind = np.diag([1.0, 0.0])
    first = messages["unit0"]
    messages["unit0"] = replace(first, z=first.z @ blind, patterns=blind @ first.patterns @ blind)
    with pytest.raises(ValueError, match="unit 'unit0' do not determine its 2 states"):
        LikelihoodServer().fit(messages)


@pytest.mark.medium
def test_units_that_are_never_there_together_are_told_apart_from_no_influence():
    coupled, Y = example(n_samples=400)
    Y[:200, coupled.sensors[0]] = np.nan
    Y[200:, coupled.sensors[1]] = np.nan
    server = allowing_the_warning(coupled, Y)
    never_nan_in_silence(server)
    assert (server.links_.verdict != "influence").all()


@pytest.mark.slow
def test_wald_statistics_of_the_dense_fit_have_their_law_beside_a_real_link():
    """Wald statistics of the block that is truly zero follow their chi-squared law."""
    statistics = []
    for seed in range(200):
        coupled, Y = example(n_samples=800, seed=seed, strength=0.3)
        statistics.append(fit(coupled, Y, sparsity=None).links_.statistic[0])  # from unit1 to unit0
    chi2 = stats.chi2(2)
    for level in (0.5, 0.1, 0.05):
        share = np.mean(np.array(statistics) > chi2.isf(level))
        assert abs(share - level) <= 4 * np.sqrt(level * (1 - level) / 200)


def test_correlated_units_are_listed():
    coupled, _ = example(sizes=(1, 1, 1), links=[])
    rng = np.random.default_rng(1)
    Q = np.diag(np.diag(coupled.plant.Q))
    Q[0, 2] = Q[2, 0] = 0.8 * np.sqrt(Q[0, 0] * Q[2, 2])
    moved = coupled.with_dynamics(coupled.plant.A, Q)
    server = fit(moved, moved.simulate(1500, rng.integers(1000)))
    assert server.correlations_[["first", "second"]].to_numpy().tolist() == [["unit0", "unit2"]]
    assert server.correlations_.correlation[0] == pytest.approx(0.8, abs=5 * 2 * 0.36 / np.sqrt(1500))
    assert server.has_prior_


def test_units_that_drift_like_random_walks_are_named():
    coupled, Y = example(n_samples=1000, sizes=(2, 1), links=[])
    rows = coupled.sensors[1]
    walk = np.cumsum(np.random.default_rng(0).normal(size=1000))
    Y[:, rows] = np.outer(walk, coupled.plant.C[rows, 2]) + np.random.default_rng(1).normal(size=Y[:, rows].shape)
    with pytest.warns(UserWarning, match="drift like a random walk within this record: unit1. "):
        fit(coupled, Y)


def test_tests_of_slow_units_keep_their_size():
    """Statistics over degrees of freedom have mean one and variance 2 / dof where nothing couples."""
    ratios = []
    for seed in range(12):
        X, _ = make_granger_plant(
            4, n_samples=2000, links=[], radius=(0.95, 0.95), measurement_noise=2.0, random_state=seed
        )
        table = screen(LikelihoodServer(), {name: KalmanClient().fit(Y).message(Y) for name, Y in X.items()})
        ratios += (table.statistic / 4).tolist()
    # a few per cent of a record this long are transients that no expansion around the mean knows
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.04 + 3 * np.sqrt(0.5 / len(ratios)))
