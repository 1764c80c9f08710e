"""Plants learned in blocks, against the same plants learned as a whole."""

import warnings
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodServer, parallel
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server import likelihood
from skfedcausal.server.dynamics import PlantFilter
from skfedcausal.server.links import questions
from skfedcausal.server.links.questions import changed_links, links_over_time, screen
from skfedcausal.server.sparse import learning, tables
from skfedcausal.server.sparse import report as sparse_report
from skfedcausal.server.sparse import server as server_module
from skfedcausal.server.sparse.filter import SparsePlant
from skfedcausal.server.sparse.report import _is_coloured
from skfedcausal.server.validity import report

pytestmark = pytest.mark.medium

UNITS, ROWS = 33, 1000


def plant_of(**settings):
    settings = {"n_states": 1, "n_sensors": 4, "n_samples": ROWS, "link_strength": (0.1, 0.3), **settings}
    return make_granger_plant(settings.pop("n_units", UNITS), random_state=settings.pop("seed", 0), **settings)


def messages_of(X, truth):
    clients = zip(X, truth.observation, strict=True)
    return {name: KalmanClient(C=C).fit(X[name]).message(X[name], const=True) for name, C in clients}


@pytest.fixture(scope="module")
def both():
    """A plant learned in blocks and as a whole, and the messages."""
    X, truth = plant_of()
    messages = messages_of(X, truth)
    with pytest.MonkeyPatch.context() as patch:
        blocks = LikelihoodServer().fit(messages)
        patch.setattr(likelihood, "LARGE", 10**6)
        whole = LikelihoodServer().fit(messages)
    assert isinstance(blocks.plant_, SparsePlant)
    assert not isinstance(whole.plant_, SparsePlant)
    return blocks, whole, messages


def test_links_are_those_of_the_whole_plant(both):
    blocks, whole, _ = both
    assert blocks.converged_
    clear = (whole.links_["p_value"] < 1e-6) | (whole.links_["p_value"] > 0.05)
    found, expected = (set(s.likelihood_links_[clear].query("verdict == 'influence'").index) for s in (blocks, whole))
    assert found == expected
    assert len(found) > UNITS / 2


def test_estimates_differ_by_less_than_their_standard_errors(both):
    # what a block leaves out of a plant are neighbours' neighbours: a fifth of a standard error at most was seen
    blocks, whole, _ = both
    links = whole.links_["verdict"] == "influence"
    gap = np.abs(blocks.links_["norm"] - whole.links_["norm"]) / whole.links_["stderr"]
    assert gap[links].max() < 0.5
    ratio = blocks.links_["stderr"] / whole.links_["stderr"]
    assert np.abs(ratio[links] - 1).median() < 0.02
    assert np.abs(ratio[links] - 1).max() < 0.15
    assert np.corrcoef(blocks.links_["statistic"], whole.links_["statistic"])[0, 1] > 0.99


def test_the_record_is_as_likely(both):
    blocks, whole, messages = both
    scores = [server.filter(messages).log_likelihood() for server in (blocks, whole)]
    # each of the links that only one of the two kept is worth half its statistic, about ten
    assert -2 / ROWS < np.mean(scores[0]) - np.mean(scores[1]) < 20 / ROWS


def test_the_sparse_filter_is_the_stationary_one(both):
    blocks, _, messages = both
    sparse = blocks.filter(messages)
    dense = PlantFilter(blocks.transition_, blocks.process_cov_, blocks.joint_record(messages))
    late = slice(50, None)
    scale = dense.predicted[late].std(axis=0)
    for name in ("filtered", "predicted"):
        gap = (getattr(sparse, name) - getattr(dense, name))[late] / scale
        assert np.sqrt(np.square(gap).mean(axis=0)).max() < 0.05
    for own, other in zip(
        sparse.unit_covariances(blocks.state_slices_.values()),
        dense.unit_covariances(blocks.state_slices_.values()),
        strict=True,
    ):
        np.testing.assert_allclose(own[-1], other[-1], rtol=0.02)


def test_intervals_of_measures_are_those_of_the_whole_plant_nearly(both):
    """Those of blocks go with the square of the strength, those of the whole by the delta method."""
    blocks, whole, _ = both
    table, known = (server.link_intervals(geweke=True) for server in (blocks, whole))
    linked = ((table["geweke_low"] > 1e-3) & (known["geweke_low"] > 1e-3)).to_numpy()
    assert linked.sum() > 20
    for end in ("geweke_low", "geweke_high"):
        ratio = np.sqrt(table[end][linked] / known[end][linked])
        assert np.abs(np.log(ratio)).mean() < 0.2
    spectrum = blocks.spectrum("unit0", "unit1", confidence=0.9)
    assert (spectrum["low"] <= spectrum["measure"]).all()
    assert (spectrum["measure"] <= spectrum["high"]).all()


def test_screening_says_of_every_pair_what_the_whole_plant_does(both, monkeypatch):
    _, _, messages = both
    table = screen(LikelihoodServer(), messages)
    monkeypatch.setattr(questions, "LARGE", 10**6)
    dense = screen(LikelihoodServer(), messages)
    assert table["cause"].tolist() == dense["cause"].tolist()
    np.testing.assert_allclose(np.sqrt(table["statistic"]), np.sqrt(dense["statistic"]), atol=0.2)


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_backends_give_the_same_bits(both, monkeypatch, backend):
    blocks, _, messages = both
    monkeypatch.setattr(parallel, "_WORTH", 1)
    with joblib.parallel_config(backend, n_jobs=2):
        again = LikelihoodServer().fit(messages)
    assert again.transition_.tobytes() == blocks.transition_.tobytes()
    for name in ("links_", "validity_", "misfit_", "level_shifts_"):
        assert getattr(again, name).equals(getattr(blocks, name))


def test_the_report_has_every_check_of_units_and_links(both):
    """The same tests in parts of the plant: their statistics are those of the report of the whole."""
    blocks, _, messages = both
    record = blocks.joint_record(messages)
    key, found = ["check", "cause", "effect"], blocks.validity_
    own = found[found["cause"] == found["effect"]].groupby("check").size()
    assert own.to_dict() == dict.fromkeys(["steady variance", "same in both halves", "no trend", "no season"], UNITS)
    n_links = (blocks.links_["verdict"] == "influence").sum()  # others lost their verdict by the report
    assert (found["check"] == "gains held-out").sum() >= n_links > UNITS / 2
    seen = report.evidence(blocks, blocks._filter(record), record, blocks.links_)
    levels = dict.fromkeys(np.ndindex(UNITS, UNITS), report.LEVEL)
    rows = [*report._of_squares(seen), *report._of_halves(seen, levels), *report._of_scores(seen)]
    whole = pd.DataFrame(rows, columns=list(report.COLUMNS)).set_index(key)["statistic"]
    alike = found[found["check"].isin(["steady variance", "same in both halves", "no trend", "no season"])]
    actual, expected = alike.set_index(key)["statistic"], whole[pd.MultiIndex.from_frame(alike[key])]
    np.testing.assert_allclose(actual, expected, rtol=1e-9)


def test_innovations_that_follow_their_own_past_are_coloured():
    white = np.random.default_rng(0).standard_normal((500, 2))
    assert not _is_coloured(white)
    assert _is_coloured(white[1:] + 0.3 * white[:-1])


def test_tables_of_many_units_hold_links_and_what_comes_near(both, monkeypatch):
    blocks, _, messages = both
    for module in (learning, tables):
        monkeypatch.setattr(module, "ALL_PAIRS", 10)
    few = LikelihoodServer().fit(messages)
    assert len(few.links_) + few.n_absent_ == UNITS * (UNITS - 1)
    assert len(few.links_) < 3 * UNITS
    key = ["cause", "effect"]
    joined = few.links_.merge(blocks.links_, on=key, suffixes=("", "_all"))
    np.testing.assert_allclose(joined["norm"], joined["norm_all"], rtol=1e-9)
    np.testing.assert_allclose(joined["p_adjusted"], joined["p_adjusted_all"], rtol=1e-6)
    assert (few.links_["verdict"] == "influence").sum() == (blocks.links_["verdict"] == "influence").sum()
    intervals = few.link_intervals()
    assert intervals[key].equals(few.links_[key])


def test_adjusted_p_values_are_those_of_benjamini_and_hochberg_and_of_holm():
    from scipy.stats import false_discovery_control
    from statsmodels.stats.multitest import multipletests

    p_value = np.random.default_rng(0).uniform(size=(7, 7)) ** 3
    off = ~np.eye(7, dtype=bool)
    fdr, family_wise = (tables.adjusted_p_values(p_value, correction) for correction in ("fdr", "family-wise"))
    np.testing.assert_allclose(fdr[off], false_discovery_control(p_value[off]))
    np.testing.assert_allclose(family_wise[off], multipletests(p_value[off], method="holm")[1])


def test_units_without_links_stay_without():
    X, truth = plant_of(n_links=0, seed=5)
    server = LikelihoodServer().fit(messages_of(X, truth))
    assert (server.links_["verdict"] == "influence").sum() <= 2  # a false discovery in 20 records
    assert (server.transition_[~server.partition_.block_diagonal] == 0).mean() > 0.99


def test_a_level_that_shifts_is_no_link():
    shift = [{"unit": unit, "size": 6.0, "at": 0.5} for unit in (0, 1)]
    X, truth = plant_of(n_links=0, level_shift=shift, seed=2)
    server = LikelihoodServer().fit(messages_of(X, truth))
    assert {"unit0", "unit1"} <= set(server.level_shifts_["unit"])
    assert np.abs(server.level_shifts_["start"] - ROWS // 2).max() <= 5
    assert (server.links_["verdict"] == "influence").sum() <= 2


def test_later_lags_are_learned_as_a_whole_or_told(monkeypatch):
    X, truth = plant_of(n_links=0, seed=4)
    rng = np.random.default_rng(0)
    y = rng.standard_normal((ROWS, 1))
    for t in range(5, ROWS):
        y[t] += 0.7 * y[t - 5]
    first = next(iter(X))
    X[first] = 3 * y @ truth.observation[0].T + 0.3 * rng.standard_normal(X[first].shape)
    messages = messages_of(X, truth)
    monkeypatch.setattr("skfedcausal.server.sparse.server.ALL_PAIRS", 10)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        server = LikelihoodServer().fit(messages)
    assert any("Later lags act" in str(each.message) for each in told)
    assert server.misfit_.loc[server.misfit_["p_value"].idxmin(), "effect"] == first


@pytest.mark.filterwarnings("ignore:Later lags act")
def test_an_estimator_answers_with_a_plant_in_blocks():
    X, truth = plant_of(seed=7)
    estimator = FederatedGrangerEstimator([KalmanClient(C=C) for C in truth.observation]).fit(X)
    assert estimator.predict(X).shape == (ROWS, 4 * UNITS)
    assert np.isfinite(estimator.score(X))
    alone = ~np.eye(UNITS, dtype=bool)
    found = estimator.links_.query("verdict == 'influence'")
    assert alone.any()
    assert len(found) > UNITS / 2


def test_a_task_has_the_same_bits_however_its_arrays_came():
    """Backends hand over arrays column by column, or between the words of memory."""

    def elsewhere(x, k):
        raw = np.zeros(x.nbytes + 8, dtype=np.uint8)
        moved = raw[3 : 3 + x.nbytes].view(x.dtype).reshape(x.shape)
        moved[:] = x
        return [np.asfortranarray(x), moved][k]

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((300, 7)) for _ in range(2)]

    def summed(pair):
        return np.einsum("ti,ti->i", *pair), pair[0].sum(axis=0), pair[0].T @ pair[1]

    def summed_of_all(x, y):
        return summed((x, y))

    (expected,) = parallel.called(summed, [(arrays,)])
    for k in range(2):
        moved = [elsewhere(x, k) for x in arrays]
        for (actual,) in (parallel.called(summed, [(moved,)]), parallel.called(summed_of_all, [()], *moved)):
            assert all(a.tobytes() == b.tobytes() for a, b in zip(actual, expected, strict=True))


def test_a_unit_that_is_left_out_is_filtered_exactly(both):
    """Nothing is known of its states but what the others say."""
    blocks, _, messages = both
    record = blocks.joint_record(messages)
    silent = replace(record.parts[0], z=0 * record.parts[0].z, patterns=0 * record.parts[0].patterns)
    without = replace(record, parts=(silent, *record.parts[1:]))
    expected = PlantFilter(blocks.transition_, blocks.process_cov_, without)
    np.testing.assert_allclose(blocks._filter(without).predicted, expected.predicted)


def test_a_plant_of_which_nearly_all_is_linked_is_learned_as_a_whole():
    """One driver of all units: every block would be the plant again, and its climb longer than that of the whole."""
    rng = np.random.default_rng(0)
    driver = rng.standard_normal(150)
    X = {f"unit{k}": (0.8 * driver + rng.standard_normal(150))[:, None] for k in range(UNITS)}
    with pytest.warns(UserWarning, match="max_time"):
        estimator = FederatedGrangerEstimator(server=LikelihoodServer(max_time=0.2)).fit(X)
    assert not isinstance(estimator.server_.plant_, SparsePlant)
    assert np.isfinite(estimator.transition_).all()


@pytest.mark.medium
def test_links_over_time_are_those_of_the_whole_plant(both):
    """Pieces are learned in blocks, given the links, and judged as those of a plant that is learned as a whole."""
    blocks, whole, messages = both
    table, known = (links_over_time(server, messages, None) for server in (blocks, whole))
    assert not table["changes"].any()
    key = ["cause", "effect"]
    joined = table.merge(known[~known["changes"]], on=key, suffixes=("", "_whole"))
    gap = (joined["norm"] - joined["norm_whole"]) / joined["stderr_whole"]
    assert np.sqrt(np.square(gap).mean()) < 0.6
    assert np.abs(np.log(joined["stderr"] / joined["stderr_whole"])).mean() < 0.2


@pytest.mark.medium
def test_changes_of_many_units_are_looked_for_where_the_table_has_rows(both, monkeypatch):
    _, _, messages = both
    for module in (learning, tables, server_module, sparse_report):
        monkeypatch.setattr(module, "ALL_PAIRS", 10)
    few = LikelihoodServer().fit(messages)
    assert few.n_absent_ > 0
    key = ["cause", "effect"]
    pairs = set(few.links_[key].itertuples(index=False, name=None))
    table = changed_links(few, messages, 0.05)
    others = table[table["cause"] != table["effect"]]
    assert set(others[key].itertuples(index=False, name=None)) == pairs
    assert not table["changed"].any()
    assert set(links_over_time(few, messages, None)[key].itertuples(index=False, name=None)) <= pairs
