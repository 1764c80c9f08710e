"""Resampled records: moments of weighted transitions, standard errors, stable links."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.optimize import brentq

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
    inspection,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation.evidence import link_estimates
from skfedcausal.server.estimation.scoring import Point, Scoring
from skfedcausal.server.links.resampling import Resampling, _refitted, cut_into_blocks, root_intervals
from skfedcausal.statespace.episodes import TransitionMoments, lag_covariances

from .._reference import coupled_plant, endless, structure_of


def test_weights_of_one_give_the_moments_of_the_record_and_those_of_parts_add_up():
    rng = np.random.default_rng(0)
    series, starts, n_lags = rng.normal(size=(60, 3)), (0, 25), 5
    whole = TransitionMoments.from_sums(lag_covariances(series, range(n_lags + 2), starts), series, starts)
    ones = TransitionMoments.weighted(series, np.ones(60), n_lags, starts)
    part = rng.random(60) < 0.5
    parts = [TransitionMoments.weighted(series, w.astype(float), n_lags, starts) for w in (part, ~part)]
    assert ones.n_transitions == whole.n_transitions == sum(p.n_transitions for p in parts)
    for name in ("late", "cross", "early", "back"):
        np.testing.assert_allclose(getattr(ones, name), getattr(whole, name), atol=1e-12)
        total = sum(getattr(p, name) * p.n_transitions for p in parts)
        np.testing.assert_allclose(total / whole.n_transitions, getattr(whole, name), atol=1e-12)


def test_blocks_divide_episodes():
    blocks = cut_into_blocks((0, 100), 130, 24)
    assert [b.start for b in blocks] == [0, *[b.stop for b in blocks][:-1]]
    assert blocks[-1].stop == 130
    assert 100 in [b.start for b in blocks]
    assert all(18 <= b.stop - b.start <= 30 for b in blocks)
    assert cut_into_blocks((0, 100), 130, "episodes") == [slice(0, 100), slice(100, 130)]


@pytest.fixture(scope="module")
def record():
    return make_granger_plant(3, n_samples=3000, n_states=[2, 1, 2], links=[(0, 1)], random_state=0)[0]


@pytest.fixture(scope="module")
def fitted(record):
    return FederatedGrangerEstimator(random_state=0).fit(record)


@pytest.mark.medium
@pytest.mark.parametrize("method", ["blocks", "parametric"])
def test_gaussian_noise_gives_the_standard_errors_of_the_fit(fitted, record, method):
    """A standard error from R records is known to ``1 / sqrt(2 R)`` of itself."""
    table = inspection.bootstrap_links(fitted, record, method=method, n_resamples=60)
    assert table.attrs["not_converged"] == 0
    pd.testing.assert_series_equal(table["stderr"], fitted.links_["stderr"], rtol=1e-4)
    # sum over T / L blocks: their own scatter comes on top
    np.testing.assert_allclose(table["bootstrap_stderr"], table["stderr"], rtol=4 / np.sqrt(2 * 60))
    found = fitted.links_["p_adjusted"] < 0.05
    assert (table.loc[found, "bootstrap_p_value"] == 1 / 61).all()
    assert (table.loc[~found, "bootstrap_p_value"] > 1 / 61).all()
    measure = table["geweke"]
    assert ((table["geweke_low"] < measure) & (measure < table["geweke_high"]))[measure > 0].all()
    assert table.loc[found, "geweke_low"].gt(0.005).all()
    assert table.loc[measure == 0, ["geweke_low", "geweke_high"]].isna().all(axis=None)


@pytest.mark.medium
def test_numbers_do_not_depend_on_the_jobs(fitted, record):
    for question in ("bootstrap_links", "stable_links"):
        ask = partial(getattr(inspection, question), fitted)
        with parallel_config("threading"):
            one, two = (ask(record, n_resamples=4, n_jobs=n_jobs, random_state=3) for n_jobs in (1, 2))
        pd.testing.assert_frame_equal(one, two, check_exact=True)
        assert not ask(record, n_resamples=4, random_state=4).equals(one)


@pytest.mark.medium
def test_blocks_know_that_the_variance_swings_and_the_plant_does_not():
    """Where the sandwich differs from the information, blocks side with it."""
    rng, n_samples = np.random.default_rng(0), 4000
    size = np.exp(1.2 * np.sin(2 * np.pi * np.arange(n_samples) / 200))[:, None]
    h, w = np.zeros((n_samples, 2)), size * rng.normal(size=(n_samples, 2))
    for t in range(1, n_samples):
        h[t] = 0.5 * h[t - 1] + w[t]
    Y = h + 0.3 * size * rng.normal(size=h.shape)
    unit = {"C": np.eye(1), "R": 0.3 * np.eye(1), "Q": np.eye(1)}
    clients = [KalmanClient(A=0.5 * np.eye(1), **unit) for _ in range(2)]
    X = {f"unit{k}": Y[:, [k]] for k in range(2)}
    fits = {}
    for covariance in ("information", "hac"):
        server = LikelihoodServer(covariance=covariance, options=LikelihoodOptions(sparsity=None, level_shifts=None))
        fits[covariance] = FederatedGrangerEstimator(clients, server=server).fit(X)
    blocks = inspection.bootstrap_links(fits["hac"], X, n_resamples=150, random_state=0)
    plant = inspection.bootstrap_links(fits["hac"], X, n_resamples=150, random_state=0, method="parametric")
    usual, robust = (fits[c].links_["stderr"].to_numpy() for c in ("information", "hac"))
    assert (robust > 1.3 * usual).all()
    error = 4 / np.sqrt(2 * 150)
    np.testing.assert_allclose(blocks["bootstrap_stderr"], robust, rtol=error)
    np.testing.assert_allclose(plant["bootstrap_stderr"], usual, rtol=error)


def test_stable_links_are_those_that_halves_find(fitted, record):
    table = inspection.stable_links(fitted, record, n_resamples=10)
    assert table.loc[table["stable"], ["cause", "effect"]].to_numpy().tolist() == [["unit0", "unit1"]]
    assert table["share"].between(0, 1).all()
    q = table.attrs["mean_selected"]
    assert q == pytest.approx(table["share"].sum())
    assert table.attrs["expected_false"] == pytest.approx(q**2 / (0.5 * 6))


@pytest.mark.medium
def test_links_of_inputs_are_resampled_too():
    X, truth = make_granger_plant(2, n_samples=2000, n_inputs=1, links=[(0, 1)], input_links=[(0, 1)], random_state=0)
    est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    table = inspection.bootstrap_links(est, X, inputs=truth.inputs, n_resamples=60, random_state=0)
    assert table["kind"].tolist() == est.links_["kind"].tolist()
    inputs = table[table["kind"] == "input"]
    np.testing.assert_allclose(inputs["bootstrap_stderr"], inputs["stderr"], rtol=4 / np.sqrt(2 * 60))


def test_stable_links_of_inputs():
    X, truth = make_granger_plant(
        2, n_samples=2000, n_inputs=1, links=[], input_links=[(0, 1)], input_strength=1.0, random_state=0
    )
    est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    table = inspection.stable_links(est, X, inputs=truth.inputs, n_resamples=5, random_state=0)
    assert table[["cause", "effect", "kind"]].equals(est.links_[["cause", "effect", "kind"]])
    found = table[table["stable"]]
    assert found[["cause", "effect", "kind"]].to_numpy().tolist() == [["unit0", "unit1", "input"]]


def test_what_cannot_be_resampled_is_refused(fitted, record):
    for ask, message in (
        (lambda: inspection.bootstrap_links(fitted, record, method="jackknife"), "'blocks' or 'parametric'"),
        (lambda: inspection.bootstrap_links(fitted, record, n_resamples=1), "n_resamples=1"),
        (lambda: inspection.bootstrap_links(fitted, record, block_length=1000), "3 blocks"),
        (lambda: inspection.bootstrap_links(fitted, record, block_length="episodes"), "1 blocks"),
        (lambda: inspection.bootstrap_links(fitted, record, confidence=95), "confidence=95"),
        (lambda: inspection.stable_links(fitted, record, threshold=0.5), "threshold=0.5"),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


def test_intervals_on_the_scale_of_roots():
    low, high = root_intervals(np.array([0.04, 0.0001, 0.0]), np.full(3, 0.05), 0.95)
    np.testing.assert_allclose(low[:2], [(0.2 - 0.05 * 1.959964) ** 2, 0.0], atol=1e-6)
    np.testing.assert_allclose(high[:2], [(0.2 + 0.05 * 1.959964) ** 2, (0.01 + 0.05 * 1.959964) ** 2], atol=1e-6)
    assert np.isnan([low[2], high[2]]).all()


def resampling_of(radius, n_samples, block_length=None):
    """Of a complete record of one state with the given pole."""
    plant = SimpleNamespace(
        determined=np.ones(1, dtype=bool),
        score_noise=np.eye(1),
        is_complete=True,
        standard_series=lambda: (np.zeros((n_samples, 1)), (0,), 12),
        standard_record=SimpleNamespace(mean_information=lambda: np.eye(1)),
    )
    point = SimpleNamespace(A=np.array([[radius]]), Q=np.eye(1))
    found = Resampling(plant, point, block_length)
    found._weighted = lambda counts: counts
    return found


@pytest.mark.parametrize(
    ("radius", "length"), [(0.0, 10), (np.exp(-1 / 2), 10), (np.exp(-1 / 5), 20), (np.exp(-0.16), 25)]
)
def test_blocks_hold_four_memories_of_the_slowest_states_and_a_cube_root_of_rows_at_least(radius, length):
    """Of a thousand rows ten; states that forget by a factor of e in 5 or 6.25 rows ask for 20 and 25."""
    blocks = resampling_of(radius * (1 - 1e-12), 1000).blocks_of_rows
    assert {block.stop - block.start for block in blocks} == {length}
    assert resampling_of(radius, 1000, 50).n_blocks == 20


def test_draws_have_as_many_blocks_as_there_are_and_halves_share_them():
    record, rng = resampling_of(0.5, 110, 10), np.random.default_rng(0)
    assert record.n_blocks == 11
    for _ in range(20):
        counts = record.blocks(rng)
        assert (len(counts), counts.sum()) == (11, 11)
        one, other = record.halves(rng)
        assert one.sum() == 5
        np.testing.assert_array_equal(one + other, 1)
    drawn = sum(record.blocks(rng) for _ in range(4000)) / 4000
    np.testing.assert_allclose(drawn, 1, atol=5 / np.sqrt(4000))  # of variance 10 / 11


def test_ten_blocks_are_enough_to_draw_from():
    resampling_of(0.5, 100, 10).require_blocks()
    with pytest.raises(ValueError, match="9 blocks to draw from, at least 10 are needed"):
        resampling_of(0.5, 90, 10).require_blocks()


@pytest.mark.parametrize(("left", "climbs"), [(0.9e-4, False), (1.1e-4, True)])
def test_a_refit_ends_where_a_step_promises_less_than_a_ten_thousandth(left, climbs):
    """From a place next to the maximum at which a scoring step promises as much log-likelihood."""
    coupled = coupled_plant(0, (1, 1), links=[(1, 0)])
    structure = structure_of(coupled.partition, linked=[(1, 0)])
    objective, top = endless(coupled)
    direction = Scoring(objective, structure, top).covariance @ np.ones(structure.free.n_elements)

    def point(size):
        A, Q = structure.free.scatter(size * direction, top.A.shape)
        return Point.at(objective, top.A + A, top.Q + Q)

    def promised(size):
        return Scoring(objective, structure, point(size)).gain

    size = brentq(lambda size: promised(size) - left, 0.0, 10.0)
    start = point(size)
    estimates, _, converged = _refitted(lambda rng: objective, structure, start, np.eye(2), None)
    stayed = link_estimates(Scoring(objective, structure, start)).estimate
    assert converged
    assert (not np.array_equal(estimates["state"], stayed)) is climbs
