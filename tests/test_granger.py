"""What the Granger estimator promises as a whole: accuracy, parity, containers, levels, real records."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import block_diag, solve_discrete_lyapunov
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfedcausal import (
    Communication,
    FederatedGrangerEstimator,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
    inspection,
)
from skfedcausal.containers import stack_clients
from skfedcausal.datasets import load_tep, make_granger_plant
from skfedcausal.federation import ExactStatesWarning

from .statespace._reference import Plant, statsmodels_moments

FORMS = pytest.mark.parametrize("form", ["0.25 everywhere", "random"])
GAPS = pytest.mark.parametrize("missing", [0.0, 0.1], ids=["complete", "missing"])

# --- accuracy ---------------------------------------------------------------------------------------


def two_units(form, seed, n_samples=5000):
    """Unit 0 drives unit 1; two states and eight sensors each."""
    rng = np.random.default_rng(seed)
    A = block_diag(*[[[0.6, 0.2], [-0.2, 0.6]]] * 2)
    A[2:, :2] = 0.25 if form == "0.25 everywhere" else rng.uniform(-0.4, 0.4, size=(2, 2))
    return make_granger_plant(2, transition=A, n_samples=n_samples, random_state=seed)


def fit_two_units(form, seed, fix_local):
    """With the units' own models known; the server re-estimates their dynamics unless `fix_local`."""
    X, truth = two_units(form, seed)
    clients = []
    for k, rows in enumerate(truth.state_slices.values()):
        A, Q = truth.transition[rows, rows], truth.process_cov[rows, rows]
        clients.append(KalmanClient(A=A, C=truth.observation[k], Q=Q, R=truth.measurement_cov[k]))
    return FederatedGrangerEstimator(
        clients, server=LikelihoodServer(options=LikelihoodOptions(fix_local=fix_local))
    ).fit(X), truth


@pytest.mark.medium
@FORMS
@pytest.mark.parametrize("fix_local", [pytest.param(False), pytest.param(True, marks=pytest.mark.slow)], ids=str)
def test_a_stationary_link_is_learned(form, fix_local):
    """Error of the linked block at most 0.05, of the empty one at most 0.04: medians of 20 seeds."""
    errors, empty = [], []
    for seed in range(20):
        estimator, truth = fit_two_units(form, seed, fix_local)
        A = estimator.transition_
        errors.append(np.linalg.norm(A[2:, :2] - truth.transition[2:, :2]))
        empty.append(np.linalg.norm(A[:2, 2:]))
    assert np.median(errors) <= 0.05
    assert np.median(empty) <= 0.04


def test_the_link_has_the_right_direction():
    links = fit_two_units("0.25 everywhere", 0, fix_local=False)[0].links_.set_index(["cause", "effect"])
    assert links.verdict["unit0", "unit1"] == "influence"
    assert links.verdict["unit1", "unit0"] != "influence"
    assert links.geweke["unit0", "unit1"] > 10 * links.geweke["unit1", "unit0"]


# --- parity -----------------------------------------------------------------------------------------


@cache
def network(missing):
    X, truth = make_granger_plant(
        3, n_samples=800, missing=missing, link_strength=(0.2, 0.4), episodes=2, random_state=0
    )
    return X, truth.lengths, FederatedGrangerEstimator(KalmanClient(n_states=2)).fit(X, lengths=truth.lengths)


@pytest.mark.medium
@GAPS
def test_the_estimate_is_that_of_a_machine_with_all_raw_data(missing):
    X, lengths, estimator = network(missing)
    oracle = inspection.oracle(estimator, X, lengths=lengths)
    assert inspection.oracle_gap(estimator, X, lengths=lengths) <= 1e-8
    scale = np.linalg.norm(oracle.process_cov_)
    assert np.linalg.norm(estimator.process_cov_ - oracle.process_cov_) <= 1e-8 * scale
    np.testing.assert_allclose(estimator.links_.statistic, oracle.links_.statistic, rtol=1e-6)


@GAPS
def test_log_likelihoods_are_those_of_the_pooled_raw_data(missing):
    """By statsmodels, from all measurements side by side."""
    X, lengths, estimator = network(missing)
    clients = estimator.clients_.values()
    C = block_diag(*[client.observation_ for client in clients])
    R = block_diag(*[np.diag(client.measurement_cov_) for client in clients])
    mean = np.concatenate([client.mean_ for client in clients])
    A, Q = estimator.transition_, estimator.process_cov_
    plant = Plant(A, Q, C, R, solve_discrete_lyapunov(A, Q))
    starts = (0, lengths[0])
    expected = statsmodels_moments(plant, np.hstack(list(X.values())) - mean, starts=starts).log_density
    actual = estimator.score_samples(X, lengths=lengths)
    np.testing.assert_allclose(actual, expected, rtol=1e-8)
    assert estimator.score(X, lengths=lengths) == pytest.approx(expected.mean(), rel=1e-8)


@pytest.mark.medium
@GAPS
def test_half_precision_changes_the_estimate_by_less_than_a_thousandth(missing):
    X, lengths, estimator = network(missing)
    half = FederatedGrangerEstimator(KalmanClient(n_states=2), communication=Communication(wire_dtype="float16")).fit(
        X, lengths=lengths
    )
    change = np.linalg.norm(half.transition_ - estimator.transition_)
    assert 0 < change <= 1e-3 * np.linalg.norm(estimator.transition_)
    assert (half.links_.verdict == estimator.links_.verdict).all()


@pytest.mark.parametrize(("dtype", "share"), [("float64", 1.0), ("float16", 0.25)])
def test_bytes_up_are_those_of_the_states(dtype, share):
    """At most 5 % more than P of every D numbers, in the precision of the wire."""
    X, truth = two_units("random", 0)
    estimator = FederatedGrangerEstimator(
        [KalmanClient(C=C) for C in truth.observation], communication=Communication(wire_dtype=dtype)
    )
    sent = estimator.fit(X).communication_
    assert sent["raw_bytes"] == sum(Y.nbytes for Y in X.values())
    assert sent["bytes_up"] <= 1.05 * share * 2 / 8 * sent["raw_bytes"]
    assert sent["rounds"] == 1


# --- model selection and containers -----------------------------------------------------------------


@pytest.mark.medium
def test_grid_search_over_time_series_splits_picks_the_true_order():
    X = make_granger_plant(2, n_samples=600, container="frame", return_truth=False, random_state=1)
    scaler = StandardScaler().set_output(transform="pandas")
    estimator = make_pipeline(scaler, FederatedGrangerEstimator(KalmanClient()))
    grid = {"federatedgrangerestimator__client__n_states": [1, 2, 3]}
    search = GridSearchCV(estimator, grid, cv=TimeSeriesSplit(n_splits=3), error_score="raise").fit(X)
    assert search.best_params_ == {"federatedgrangerestimator__client__n_states": 2}


@pytest.mark.medium
@GAPS
def test_every_container_gives_the_identical_plant(missing):
    X = make_granger_plant(3, n_samples=300, missing=missing, return_truth=False, random_state=2)
    frame = stack_clients(X)
    labels = [name.split("__")[0] for name in frame]
    levels = frame.copy()
    levels.columns = frame.columns.str.split("__", expand=True)
    forms = {
        "dict": FederatedGrangerEstimator().fit(X),
        "dict of frames": FederatedGrangerEstimator().fit({k: frame.filter(like=f"{k}__") for k in X}),
        "list": FederatedGrangerEstimator().fit(list(X.values())),
        "frame": FederatedGrangerEstimator().fit(frame),
        "two levels": FederatedGrangerEstimator().fit(levels),
        "rows in memory": FederatedGrangerEstimator(client_labels=labels).fit(frame.to_numpy().copy("C")),
        "array and labels": FederatedGrangerEstimator(client_labels=labels).fit(frame.to_numpy()),
        "array and function": FederatedGrangerEstimator(client_labels=lambda k: labels[k]).fit(frame.to_numpy()),
    }
    for name, estimator in forms.items():
        np.testing.assert_array_equal(estimator.transition_, forms["dict"].transition_, err_msg=name)
        np.testing.assert_array_equal(estimator.process_cov_, forms["dict"].process_cov_, err_msg=name)


# --- levels -----------------------------------------------------------------------------------------


class OneLag(LikelihoodServer):
    """With gaps, what is left of moved levels may look like later lags of a plant whose every block is free."""

    frees_lags = False


@pytest.mark.medium
@GAPS
@pytest.mark.parametrize("server", [None, OneLag(options=LikelihoodOptions(sparsity=None))], ids=["default", "dense"])
def test_an_offset_of_units_or_episodes_is_not_taken_for_a_link(missing, server):
    """Every unit moves to another level in each of three episodes; no unit influences another."""
    X, truth = make_granger_plant(3, n_samples=900, n_links=0, missing=missing, episodes=3, random_state=3)
    clients = [KalmanClient(C=C, R=R) for C, R in zip(truth.observation, truth.measurement_cov, strict=True)]
    estimator = FederatedGrangerEstimator(clients, server=server)
    plain = clone(estimator).fit(X, lengths=truth.lengths)
    rng = np.random.default_rng(0)
    ends = np.cumsum(truth.lengths)
    moved = {name: Y + 100.0 for name, Y in X.items()}
    for start, stop in zip(ends - truth.lengths, ends, strict=True):
        for Y, C in zip(moved.values(), truth.observation, strict=True):
            Y[start:stop] += C @ (10 * rng.normal(size=2))
    shifted = clone(estimator).fit(moved, lengths=truth.lengths)
    for fitted in (plain, shifted):
        assert (fitted.links_.verdict != "influence").all()
    # Complete: exact. With gaps, a sensor's mean over the rows it has is not quite the level of its states,
    # and what is left over is one more constant that the states have to explain: less than a standard error.
    error = 1 / np.sqrt(900) if missing else 1e-6
    np.testing.assert_allclose(shifted.transition_, plain.transition_, rtol=0, atol=error)


# --- real records -----------------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.skipif("SKFEDCAUSAL_DATA" not in os.environ, reason="SKFEDCAUSAL_DATA names no folder with tep")
@pytest.mark.filterwarnings("ignore:Column.*constant:UserWarning")
@pytest.mark.filterwarnings("ignore:Units whose states drift:UserWarning")  # the stripper's do
def test_tennessee_eastman():
    """Links are finite, and knowing the other units helps on a record that was not learned from."""
    folder = Path(os.environ["SKFEDCAUSAL_DATA"]) / "tep"
    training, held_out = (load_tep(folder, record, inputs="drop").data for record in ("d00", "d00_te"))
    training = training.iloc[:300]  # of 500: more rows have more states, and take long
    scaler = StandardScaler().set_output(transform="pandas").fit(training)
    training, held_out = scaler.transform(training), scaler.transform(held_out)
    estimator = FederatedGrangerEstimator().fit(training)
    assert estimator.client_names_ == ("feed", "compressor", "reactor", "separator", "stripper")
    assert len(estimator.links_) == 20
    numbers = estimator.links_.select_dtypes("number").drop(columns=["delay", "delay_low", "delay_high"])
    assert np.isfinite(numbers).all(axis=None)
    alone = sum(
        estimator.clients_[name].score(held_out.filter(like=f"{name}__").to_numpy()) for name in estimator.client_names_
    )
    assert estimator.score(held_out) > alone
    # the pooled record is learned as well, which one state a unit makes affordable
    small = FederatedGrangerEstimator(KalmanClient(n_states=1)).fit(training)
    assert inspection.oracle_gap(small, training) < 1e-8


def test_a_unit_that_never_moves_is_left_out_by_name_and_changes_nothing():
    X, _ = make_granger_plant(3, n_samples=800, random_state=4)
    still = {**X, "still": np.full((800, 2), 5.0)}
    with pytest.warns(UserWarning, match="Every column of 'still' is constant or missing throughout.*left out"):
        with_it = FederatedGrangerEstimator().fit(still)
    alone = FederatedGrangerEstimator().fit(X)
    pd.testing.assert_frame_equal(with_it.links_, alone.links_)
    assert with_it.predict(still).shape == (800, 24)
    assert with_it.score(still) == alone.score(X)


def test_a_unit_whose_states_tell_its_sensors_is_named_by_the_fit_and_its_plan():
    X, _ = make_granger_plant(3, n_samples=400, random_state=0)
    X["pump"], X["valve"] = np.random.default_rng(0).standard_normal((2, 400, 1))
    with pytest.warns(ExactStatesWarning, match="The states of 'pump', 'valve' are as many as the sensors that move"):
        assert FederatedGrangerEstimator().plan(X).attrs["exact"] == ["pump", "valve"]


def test_a_plant_that_never_moves_is_refused():
    with pytest.raises(ValueError, match="there is nothing to model"):
        FederatedGrangerEstimator().fit({"a": np.ones((300, 2)), "b": np.zeros((300, 1))})
