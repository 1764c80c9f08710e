"""Large plants with inputs learned in blocks, against the same plants learned as a whole and against the truth."""

import tracemalloc
import warnings
from dataclasses import replace
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal import FederatedCounterfactualEstimator, KalmanClient, LikelihoodServer, parallel
from skfedcausal.bases import configured
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server import likelihood
from skfedcausal.server.estimation.scoring import RATE, Budget
from skfedcausal.server.fitting import settings_of
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.sparse import learning, tables
from skfedcausal.server.sparse import screening as inputs_module
from skfedcausal.server.sparse.blocks import LargePlant, filled_by_units
from skfedcausal.server.sparse.filter import SparsePlant
from skfedcausal.server.sparse.screening import find_drivers, pairs_of, products, regressors, units_on_their_own
from skfedcausal.server.sparse.server import asks_for_the_whole
from skfedcausal.server.sparse.tables import input_links_table, shrunk_inputs, without_inputs
from skfedcausal.statespace import inputs as statespace_inputs
from skfedcausal.statespace.episodes import fourier_sums, lag_covariances
from skfedcausal.statespace.inputs import BlockCovariance, input_response, response_covariances
from skfedcausal.statespace.matrices import Partition
from skfedcausal.statespace.whittle import midpoints

pytestmark = pytest.mark.medium

UNITS, ROWS = 36, 1500
N_INPUTS = [2 if m == 0 else int(m % 6 == 3) for m in range(UNITS)]


def plant_of(seed=0, **settings):
    settings = {"n_states": [2 if m % 5 == 0 else 1 for m in range(UNITS)], "n_sensors": 4, **settings}
    settings = {"n_samples": ROWS, "link_strength": (0.1, 0.3), "n_inputs": N_INPUTS, "n_input_links": 5, **settings}
    return make_granger_plant(UNITS, random_state=seed, **settings)


def messages_of(X, truth):
    found = {}
    for name, C, u in zip(X, truth.observation, truth.inputs, strict=True):
        found[name] = KalmanClient(C=C).fit(X[name], inputs=u).message(X[name], inputs=u, const=True)
    return found


def learned(messages, *, as_a_whole=False, **settings):
    with pytest.MonkeyPatch.context() as patch:
        if as_a_whole:
            patch.setattr(likelihood, "LARGE", 10**6)
            patch.setattr(LikelihoodServer, "frees_lags", False)
        server = configured(LikelihoodServer, {"correction": "fdr"} | settings).fit(messages)
    assert (not isinstance(server.plant_, SparsePlant)) == as_a_whole
    return server


@pytest.fixture(scope="module")
def both():
    X, truth = plant_of()
    messages = messages_of(X, truth)
    return SimpleNamespace(
        blocks=learned(messages), whole=learned(messages, as_a_whole=True), messages=messages, truth=truth, X=X
    )


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_backends_give_the_same_bits_with_inputs(both, monkeypatch, backend):
    monkeypatch.setattr(parallel, "_WORTH", 1)
    with joblib.parallel_config(backend, n_jobs=2):
        again = learned(both.messages)
    for name in ("transition_", "input_"):
        assert getattr(again, name).tobytes() == getattr(both.blocks, name).tobytes()
    covariance, expected = (np.concatenate([x.ravel() for x in s.coefficients_.covariance.blocks])
                            for s in (again, both.blocks))  # fmt: skip
    assert covariance.tobytes() == expected.tobytes()
    for name in ("links_", "validity_", "misfit_", "level_shifts_"):
        assert getattr(again, name).equals(getattr(both.blocks, name))


def test_a_block_of_all_units_has_the_maximum_of_the_whole_plant(both, monkeypatch):
    """The same likelihood at the same structure: both climbs end within tol standard errors of one row."""
    monkeypatch.setattr(learning, "cores", lambda near: [list(range(len(near)))])
    monkeypatch.setattr(learning, "with_halo", lambda core, near, causes: list(core))
    monkeypatch.setattr(learning._Search, "_is_one_block", lambda self: False)
    one = learned(both.messages, shrink=False)
    whole = learned(both.messages, as_a_whole=True, shrink=False)
    same = (one.transition_ != 0) == (whole.transition_ != 0)
    assert same.all()
    assert ((one.input_ != 0) == (whole.input_ != 0)).all()
    error = np.sqrt(whole.coefficients_.covariance.diagonal().max() * ROWS)  # of one row, in standardised units
    scale = np.abs(whole.plant_.scale).max() / np.abs(whole.plant_.scale.diagonal()).min()
    most = 10 * LikelihoodServer().tol * error * scale
    assert_allclose(one.transition_, whole.transition_, rtol=0, atol=max(most, 1e-8))
    assert_allclose(one.input_, whole.input_, rtol=0, atol=max(most, 1e-8))
    # and the same covariance of the coefficients, whose order is another one
    kept = whole.coefficients_
    expected = dict(zip(zip(kept.rows, kept.cols, strict=True), kept.covariance.diagonal(), strict=True))
    found = one.coefficients_
    variances = found.covariance.diagonal()
    assert len(variances) == len(expected)
    for at, variance in zip(zip(found.rows, found.cols, strict=True), variances, strict=True):
        assert_allclose(variance, expected[at], rtol=1e-6)


def test_links_of_both_kinds_are_those_of_the_whole_plant(both):
    key = ["cause", "effect", "kind"]
    blocks, whole = both.blocks.likelihood_links_, both.whole.likelihood_links_
    joined = blocks.merge(whole, on=key, suffixes=("", "_whole"))
    assert len(joined) == len(blocks) == len(whole)
    clear = (joined["p_value_whole"] < 1e-6) | (joined["p_value_whole"] > 0.05)
    found, expected = joined["verdict"] == "influence", joined["verdict_whole"] == "influence"
    assert (found == expected)[clear].all()
    inputs = joined["kind"] == "input"
    assert (found & inputs).sum() >= 4
    # what a block leaves out are neighbours' neighbours
    gap = np.abs(joined["norm"] - joined["norm_whole"]) / joined["stderr_whole"]
    assert gap[found & expected].max() < 0.5
    ratio = joined["stderr"] / joined["stderr_whole"]
    assert np.abs(ratio[found & expected] - 1).median() < 0.02


def test_the_input_matrix_is_that_of_the_whole_plant_and_near_the_truth(both):
    B, expected = both.blocks.input_, both.whole.input_
    assert np.linalg.norm(B - expected) < 0.1 * np.linalg.norm(expected - both.truth.input)
    assert np.linalg.norm(B - both.truth.input) < 0.15 * np.linalg.norm(both.truth.input)


def test_effects_and_their_errors_are_those_of_the_whole_plant(both, monkeypatch):
    monkeypatch.setattr(both.whole, "curvature_", None)
    change = np.zeros((20, both.blocks.input_.shape[1]))
    change[:, 0] = 1.0
    found, expected = both.blocks.effects(change), both.whole.effects(change)
    for name in both.blocks.names_:
        mine, other = found[name], expected[name]
        error = np.sqrt(np.diagonal(other.covariances, axis1=1, axis2=2))
        if np.abs(other.states).max() < 1e-3:
            continue
        assert (np.abs(mine.states - other.states) < error + 0.02 * np.abs(other.states).max()).all()
    reached = [n for n in found if np.abs(expected[n].states).max() > 0.1]
    assert len(reached) >= 2
    for name in reached:
        mine, other = (np.sqrt(np.diagonal(x[name].covariances[-1])) for x in (found, expected))
        assert_allclose(mine, other, rtol=0.25)


def test_covariances_by_blocks_are_those_of_one_matrix():
    rng = np.random.default_rng(0)
    A, B = np.diag([0.5, 0.4, 0.3]) + np.tri(3, k=-1) * 0.2, rng.normal(size=(3, 2))
    response = input_response(A, B, rng.normal(size=(6, 2)))
    rows, cols = np.array([2, 0, 0, 1, 1]), np.array([1, 0, 3, 4, 0])
    parts = [rng.normal(size=(k, k)) for k in (2, 3)]
    parts = [part @ part.T for part in parts]
    dense = np.zeros((5, 5))
    dense[:2, :2], dense[2:, 2:] = parts
    slices = [slice(0, 2), slice(2, 3)]
    found = response_covariances(response, rows, cols, BlockCovariance(parts), slices)
    for mine, other in zip(found, response_covariances(response, rows, cols, dense, slices), strict=True):
        assert_allclose(mine, other, atol=1e-12)


def test_a_change_of_nothing_has_no_effect_for_sure():
    response = input_response(0.5 * np.eye(2), np.eye(2), np.zeros((4, 2)))
    rows, cols = np.array([0, 0, 1, 1]), np.array([0, 2, 1, 3])
    (found,) = response_covariances(response, rows, cols, BlockCovariance([np.eye(2), np.eye(2)]), [slice(0, 2)])
    assert_allclose(found, np.zeros((4, 2, 2)))


def test_effects_of_many_states_go_along_the_links_and_are_the_same(monkeypatch):
    rng = np.random.default_rng(1)
    n, k = 30, 3
    A = np.diag(rng.uniform(0.3, 0.8, n))
    A[rng.integers(n, size=20), rng.integers(n, size=20)] += 0.1
    B = np.where(rng.random((n, k)) < 0.1, 1.0, 0.0)
    B[0, 0] = 1.0
    rows, cols = np.nonzero(np.hstack([A, B]))
    order = np.argsort(rows // 6, kind="stable")
    rows, cols = rows[order], cols[order]
    parts = [rng.normal(size=(m, m + 2)) for m in np.bincount(rows // 6)]
    covariance = BlockCovariance([1e-4 * part @ part.T for part in parts])
    whole = np.zeros((len(rows),) * 2)
    for own, block in zip(np.split(np.arange(len(rows)), np.cumsum(np.bincount(rows // 6))[:-1]), covariance.blocks,
                          strict=True):  # fmt: skip
        whole[np.ix_(own, own)] = block
    change = np.zeros((12, k))
    change[:, 0] = 1.0
    slices = [slice(m, m + 2) for m in range(0, n, 2)]
    expected = input_response(A, B, change)
    variances = response_covariances(expected, rows, cols, whole, slices)
    monkeypatch.setattr(statespace_inputs, "_MANY", 1)
    found = input_response(A, B, change)
    assert_allclose(found.effect, expected.effect, atol=1e-14)
    greatest = max(each.max() for each in variances)
    for mine, other in zip(response_covariances(found, rows, cols, covariance, slices), variances, strict=True):
        assert_allclose(mine, other, atol=1e-12 * greatest)
    chosen = rng.random(len(rows)) < 0.5
    root = covariance.of(chosen).root().toarray()
    assert_allclose(root @ root.T, whole[np.ix_(chosen, chosen)], atol=1e-12)


def test_tests_of_inputs_some_at_a_time_are_those_of_all(both, monkeypatch):
    plant = LargePlant(JointRecord.from_messages(both.messages))
    pairs, spectra, pushes = pairs_of(plant.partition), *units_on_their_own(plant)
    where = plant.sparse(plant.A), plant.sparse(plant.noise), plant.starts, plant.n_transitions
    found = products(pushes, plant.series, *where, known=plant.known, with_states=True)
    known = regressors(np.eye(UNITS, dtype=bool), plant.driven, plant.partition)
    whole = inputs_module.tested_inputs(pairs, spectra.U, found, known, plant)
    monkeypatch.setattr(inputs_module, "_PAIRS", 17)
    for mine, other in zip(inputs_module.tested_inputs(pairs, spectra.U, found, known, plant), whole, strict=True):
        assert_allclose(mine, other, rtol=1e-10, atol=1e-14)


def test_a_million_pairs_of_inputs_are_tested_in_little_memory():
    """A thousand units with an input each; spectra of all pairs of inputs alone would be half a gigabyte."""
    rng, m, n_rows = np.random.default_rng(0), 1000, 200
    partition, known, U = (
        Partition([1] * m, [1] * m),
        rng.normal(size=(n_rows, m)),
        np.ones((m, 8, 1, 1), dtype=complex),
    )
    found = SimpleNamespace(links=rng.normal(size=(m, 2 * m)), states=np.eye(2 * m))
    plant = SimpleNamespace(
        partition=partition, known=known, n_lags=4, n_frequencies=8, starts=(0,), n_transitions=n_rows - 1,
        n_samples=n_rows,
    )  # fmt: skip
    pairs, alone = pairs_of(partition), regressors(*2 * [np.eye(m, dtype=bool)], partition)
    tracemalloc.start()
    try:
        n_tested = sum(len(part) for part, *_ in inputs_module._in_parts(pairs, U, found, alone, plant))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert n_tested == m * (m - 1)
    assert peak < 64 * 2**20
    # those of the units one by one are what all of them have together on the diagonal
    sums = lag_covariances(known[:, :20], range(5), (0,)) / (n_rows - 1)
    whole = fourier_sums(sums, sums, np.exp(-1j * np.outer(midpoints(8), np.arange(1, 5))))
    S = inputs_module._input_spectra(plant, inputs_module.places(partition))
    assert_allclose(S[:20, :, 0, 0], np.diagonal(whole, axis1=1, axis2=2).T, rtol=1e-10, atol=1e-12)


def test_of_many_units_inputs_are_tested_again_where_they_may_act(both, monkeypatch):
    """As pairs of states are: what is far from acting at first keeps its first p-value, and counts."""
    for module in (learning, tables):
        monkeypatch.setattr(module, "ALL_PAIRS", 1)
    record = JointRecord.from_messages(both.messages)
    plant = LargePlant(record)
    first = find_drivers(plant, 0.05)
    settings = settings_of(LikelihoodServer(correction="fdr"), record.names)
    estimate = learning.estimate_large(plant, settings, input_p_value=first)
    every = pairs_of(plant.partition)
    assert len(estimate.input_tests.pairs) < 0.7 * len(every)
    tested = np.zeros((UNITS, UNITS), dtype=bool)
    tested[tuple(estimate.input_tests.pairs.T)] = True
    left = ~tested[tuple(every.T)]
    same = (estimate.input_p_value == first)[tuple(every[left].T)]  # but for those that were in a block in some round
    assert same.mean() > 0.8
    assert first[tuple(every[left].T)].min() > 0.1
    names = list(both.messages)
    table = input_links_table(names, estimate, "fdr", 0.05, 0.0).query("verdict == 'influence'")
    links = both.blocks.links_.query("kind == 'input' and verdict == 'influence'")
    found, expected = ({tuple(row) for row in each[["cause", "effect"]].to_numpy()} for each in (table, links))
    assert found == expected
    B = estimate.plant.unscaled_inputs(shrunk_inputs(estimate))
    assert np.linalg.norm(B - both.truth.input) < 0.15 * np.linalg.norm(both.truth.input)


def test_the_work_of_tests_of_inputs_is_counted(both):
    plant = LargePlant(JointRecord.from_messages(both.messages))
    budget = Budget(1000.0)
    search = learning._Search(plant, settings_of(LikelihoodServer(), plant.names), None, budget)
    search.fits, search._known_products = [], None
    search.spectra, search.pushes = units_on_their_own(plant)
    before = budget.left
    search._tested_inputs(True)
    p, n = plant.partition.padded.shape[1], plant.partition.n_states
    e = p * max(plant.partition.input_sizes)
    tests = 2 * len(pairs_of(plant.partition)) * plant.n_frequencies * e**2
    work = (plant.n_samples * n * plant.regressors.shape[1] + tests) / learning._FAST
    assert_allclose((before - budget.left) * RATE, work, rtol=1e-6)


def test_units_alone_find_the_inputs_of_others(both):
    record = JointRecord.from_messages(both.messages)
    plant = LargePlant(record)
    find_drivers(plant, 0.05)
    acts = np.array([
        [bool(np.any(both.truth.input[rows, own])) for own in record.partition.input_slices]
        for rows in record.partition.slices
    ])  # fmt: skip
    assert plant.driven[acts].mean() > 0.9
    assert (plant.driven & ~acts).sum() <= 2  # false discoveries at a rate of 5 %
    assert len(pairs_of(record.partition)) == np.count_nonzero(N_INPUTS) * (UNITS - 1)


def test_inputs_that_act_on_no_other_unit_are_said_not_to():
    X, truth = plant_of(seed=3, n_input_links=0)
    server = learned(messages_of(X, truth))
    inputs = server.links_[server.links_["kind"] == "input"]
    assert (inputs["verdict"] == "influence").sum() <= 1
    assert np.linalg.norm(server.input_ - truth.input) < 0.15 * np.linalg.norm(truth.input)


def test_inputs_that_move_slowly_together_are_told_apart():
    """Two units whose inputs share a slow wave: neither acts on the other."""
    rng = np.random.default_rng(1)
    wave = np.convolve(rng.standard_normal(ROWS + 99), np.ones(100) / 10, "valid")[:, None]
    series = [None if k == 0 else 0.7 * wave + 0.7 * rng.standard_normal((ROWS, k)) for k in N_INPUTS]
    X, truth = plant_of(seed=8, n_links=0, n_input_links=0)
    for (name, Y), rows, own, u, old in zip(
        X.items(), truth.state_slices.values(), truth.input_slices.values(), series, truth.inputs, strict=True
    ):
        if u is None:
            continue
        h, A = np.zeros((ROWS, rows.stop - rows.start)), truth.transition[rows, rows]
        for t in range(1, ROWS):  # what these inputs do beyond those that were drawn
            h[t] = A @ h[t - 1] + truth.input[rows, own] @ (u - old)[t - 1]
        X[name] = Y + h @ truth.observation[list(X).index(name)].T
    truth = replace(truth, inputs=series)
    server = learned(messages_of(X, truth))
    inputs = server.links_[server.links_["kind"] == "input"]
    assert (inputs["verdict"] == "influence").sum() <= 1


def test_levels_that_shift_beside_inputs(both):
    shift = [{"unit": unit, "size": 6.0, "at": 0.5} for unit in (1, 2)]
    X, truth = plant_of(seed=5, level_shift=shift)
    server = learned(messages_of(X, truth))
    assert {"unit1", "unit2"} <= set(server.level_shifts_["unit"])
    assert np.linalg.norm(server.input_ - truth.input) < 0.15 * np.linalg.norm(truth.input)


def test_levels_less_what_inputs_do(both):
    record = JointRecord.from_messages(both.messages)
    plant = LargePlant(record)
    n = record.partition.n_states
    A = plant.sparse(plant.A)
    estimate = SimpleNamespace(plant=plant, A=A, B=plant.B)
    moved = (record.u[700:].mean(axis=0) - record.u[:700].mean(axis=0)) / plant.known_scale
    level = np.linalg.solve(np.eye(n) - A.toarray(), plant.B @ moved)
    found = without_inputs([[np.zeros(len(own)) for own in plant.A]], estimate, record, (700,))
    assert_allclose(np.concatenate(found[0]), -level, atol=1e-10)


def test_the_estimator_answers(both):
    X, truth = both.X, both.truth
    inputs = {name: u for name, u in zip(X, truth.inputs, strict=True) if u is not None}
    clients = [KalmanClient(C=C) for C in truth.observation]
    estimator = FederatedCounterfactualEstimator(clients, server=LikelihoodServer()).fit(X, inputs=inputs)
    assert isinstance(estimator.server_.plant_, SparsePlant)
    assert estimator.predict(X, inputs=inputs).shape == (ROWS, 4 * UNITS)
    assert np.isfinite(estimator.forecast(X, ROWS - 5, inputs=inputs)).all()
    effect, error = estimator.counterfactual("unit3", [0.0], [1.0], horizon=5, return_std=True)
    rows, own = truth.state_slices["unit3"], truth.input_slices["unit3"]
    first = truth.observation[3] @ truth.input[rows, own][:, 0]
    columns = [c for c in effect.columns if c.startswith("unit3__")]
    assert_allclose(effect[columns].iloc[0], first, atol=4 * error[columns].iloc[0].max())
    told = estimator.whatif(X, {"unit3__u0": 1.0}, inputs=inputs)
    assert np.isfinite(np.asarray(told.effect)).all()


def _with_gaps(X, share, seed=0):
    rng = np.random.default_rng(seed)
    found = {}
    for name, Y in X.items():
        found[name] = Y.copy()
        for start in rng.integers(0, ROWS - 25, size=max(1, round(share * ROWS / 25))):
            found[name][start : start + 25] = np.nan
    return found


def test_a_record_with_inputs_and_gaps_is_learned_in_blocks(both):
    server = learned(messages_of(_with_gaps(both.X, 0.04), both.truth))
    found = server.links_.query("kind == 'input' and verdict == 'influence'")
    complete = both.blocks.links_.query("kind == 'input' and verdict == 'influence' and p_value < 1e-6")
    pairs, expected = ({tuple(row) for row in each[["cause", "effect"]].to_numpy()} for each in (found, complete))
    assert expected <= pairs
    assert len(pairs - expected) <= 2
    assert np.linalg.norm(server.input_ - both.truth.input) < 0.15 * np.linalg.norm(both.truth.input)


def test_gaps_are_filled_with_what_inputs_do(both):
    """In a stretch without measurements a unit is where its inputs have driven it."""
    hidden = {name: Y.copy() for name, Y in both.X.items()}
    driven = [m for m in range(UNITS) if N_INPUTS[m]]
    for m in driven:
        hidden[f"unit{m}"][700:760] = np.nan
    record = JointRecord.from_messages(messages_of(hidden, both.truth))
    filled, expected = filled_by_units(record), JointRecord.from_messages(both.messages).centred()
    for m in driven:
        rows = record.partition.slices[m]
        mine, other = (
            np.linalg.solve(x.parts[m].patterns[0], x.z[700:760, rows].T).T for x in (filled, expected)
        )  # fmt: skip
        own = both.truth.transition[rows, rows], both.truth.input[rows, both.truth.input_slices[f"unit{m}"]]
        if np.linalg.norm(own[1]) > 1.0:
            assert np.corrcoef(mine.ravel(), other.ravel())[0, 1] > 0.5


def test_inputs_that_answer_measurements_are_learned_as_a_whole():
    X, truth = plant_of(seed=6, n_input_links=0, n_samples=500)
    first = next(iter(X))
    u = truth.inputs[0].copy()
    u[:, 0] = 0.3 * u[:, 0] - X[first][:, 0]  # a controller that reads the row it acts after
    truth = replace(truth, inputs=[u, *truth.inputs[1:]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = LikelihoodServer(max_time=0.2).fit(messages_of(X, truth))
    assert not isinstance(server.plant_, SparsePlant)
    assert server.has_feedback_ or server.feedback_["same_row_p_value"].min() < 1e-3


def test_what_asks_for_the_whole_is_named(both):
    record = JointRecord.from_messages(both.messages)
    assert asks_for_the_whole(record, LikelihoodServer()) == ""
    words = asks_for_the_whole(record, LikelihoodServer(sampled="before"))
    assert words == "inputs that act in the row they stand in"
