"""Large plants whose records have gaps, against exact filters and against what complete records say."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from skfedcausal import FederatedGrangerEstimator, FederatedRCADetector, KalmanClient, LikelihoodServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.dynamics import PlantFilter, smooth_record
from skfedcausal.server.estimation.scoring import Budget
from skfedcausal.server.fitting import settings_of
from skfedcausal.server.joint import JointRecord, usual_information
from skfedcausal.server.links.questions import screen
from skfedcausal.server.sparse import memory
from skfedcausal.server.sparse.blocks import LargePlant, filled_by_units
from skfedcausal.server.sparse.filter import (
    GapRun,
    LargeFilter,
    LargeFilterWithGaps,
    SparsePlant,
    are_mostly_there,
    drawn_record,
    n_fillings,
    radius,
    share_there,
    stationary_gain,
)
from skfedcausal.server.sparse.learning import AsAWhole, _Search, estimate_large
from skfedcausal.server.sparse.server import asks_for_the_whole
from skfedcausal.statespace.observation import Information

ROWS = 600


class Plant:
    """Known matrices of a plant, as far as its stationary filter asks for them."""

    def __init__(self, record, truth):
        self.partition = record.partition
        self.noise = [np.linalg.inv(usual_information(part)) for part in record.parts]
        self.matrices = csr_array(np.asarray(truth.transition)), csr_array(np.asarray(truth.process_cov))

    def sparse(self, blocks):
        return csr_array(self._diagonal(blocks))

    def _diagonal(self, blocks):
        whole = np.zeros((self.partition.n_states,) * 2)
        for rows, block in zip(self.partition.slices, blocks, strict=True):
            whole[rows, rows] = block
        return whole

    def filter(self):
        m = self.partition.n_units
        every, none = np.ones((m, m), dtype=bool), np.zeros((m, m), dtype=bool)
        return stationary_gain(self, *self.matrices, [list(range(m))], every, none, np.ones((m, m)))


def holes(X, seed=0, share=0.05, length=40):
    """The record without some cells, and without whole units for a while."""
    rng, found = np.random.default_rng(seed), {}
    for name, Y in X.items():
        Y = np.where(rng.random(Y.shape) < share, np.nan, Y)
        first = rng.integers(len(Y) - length)
        Y[first : first + length] = np.nan
        found[name] = Y
    return found


def messages_of(X, truth):
    clients = zip(X, truth.observation, strict=True)
    return {name: KalmanClient(C=C).fit(X[name]).message(X[name], const=True) for name, C in clients}


@pytest.fixture(scope="module")
def known():
    """A plant of seven units of two sizes, its record with gaps, and its matrices."""
    X, truth = make_granger_plant(7, n_states=2, n_sensors=4, n_samples=ROWS, link_strength=(0.05, 0.2), random_state=1)
    record = JointRecord.from_messages(messages_of(holes(X), truth))
    return record, truth, Plant(record, truth).filter()


def miss(a, b):
    return np.sqrt(np.mean((a - b) ** 2) / np.mean(b**2))


def test_the_filter_and_the_smoother_are_nearly_the_exact_ones(known):
    # what links tell of a missing unit moves no covariance: an error of the second order in links of a fifth
    record, truth, matrices = known
    run, exact = LargeFilterWithGaps(matrices, record), PlantFilter(truth.transition, truth.process_cov, record)
    assert miss(run.predicted, exact.predicted) < 0.2**2
    assert miss(run.filtered, exact.filtered) < 0.2**2
    states, covariances = run.smoothed(intercept=False)
    smoothed, expected, _ = smooth_record(truth.transition, truth.process_cov, record, intercept=False)
    assert miss(states, smoothed) < 0.05
    for own, other in zip(covariances, expected, strict=True):
        assert np.abs(own - other).mean() < 0.05 * np.abs(other).mean()
    assert abs(run.log_likelihood().mean() - exact.log_likelihood().mean()) < 0.05
    np.testing.assert_allclose(run.unit_log_densities().mean(0), exact.unit_log_densities().mean(0), atol=0.02)


def test_units_without_links_are_filtered_exactly(known):
    record, truth, _ = known
    own = record.partition.block_diagonal
    A, Q = (np.where(own, x, 0.0) for x in (truth.transition, truth.process_cov))
    plant = Plant(record, truth)
    plant.matrices = csr_array(A), csr_array(Q)
    run, exact = LargeFilterWithGaps(plant.filter(), record), PlantFilter(A, Q, record)
    late = slice(100, None)  # the filter of blocks takes settled covariances from the first row on
    np.testing.assert_allclose(run.predicted[late], exact.predicted[late], atol=1e-3)  # of gains below 1e-5
    states, covariances = run.smoothed(intercept=False)
    smoothed, expected, _ = smooth_record(A, Q, record, intercept=False)
    np.testing.assert_allclose(states[late], smoothed[late], atol=1e-3)
    for found, other in zip(covariances, expected, strict=True):
        np.testing.assert_allclose(found[late], other[late], atol=1e-6)


def test_a_smoother_filters_once(known, monkeypatch):
    record, _, matrices = known
    runs, run = [], GapRun._run
    monkeypatch.setattr(GapRun, "_run", lambda self, z: runs.append(run(self, z)))
    LargeFilterWithGaps(matrices, record).smoothed()
    assert len(runs) == 1


def test_with_nothing_missing_it_is_the_filter_of_complete_rows(known):
    record, _, matrices = known
    full = drawn_record(record, matrices)
    assert full.is_constant
    found, expected = LargeFilterWithGaps(matrices, full), LargeFilter(matrices, full)
    np.testing.assert_allclose(found.filtered, expected.filtered, atol=1e-9)
    np.testing.assert_allclose(found.predicted, expected.predicted, atol=1e-9)


def test_draws_keep_what_was_measured_and_vary_as_the_plant_does(known):
    record, truth, matrices = known
    full = drawn_record(record, matrices)
    for part, whole in zip(record.parts, full.parts, strict=True):
        usual = np.abs(part.patterns - whole.patterns[0]).max(axis=(1, 2)) < 1e-9
        seen = usual[part.pattern_of]
        np.testing.assert_allclose(whole.z[seen], part.z[seen], atol=1e-9)
    # squared innovations of a record of the plant, a covariance of one: standard error sqrt(2 / (rows states))
    exact = PlantFilter(truth.transition, truth.process_cov, full)
    rows = np.arange(100, ROWS)
    white = exact._white(rows, exact.predicted[rows], np.full(len(rows), exact._schedule.n_transient))
    missing = np.column_stack([
        np.repeat(~part.determined_rows[rows, None], part.z.shape[1], axis=1) for part in record.parts
    ])  # fmt: skip
    assert missing.sum() > 400
    usual = np.mean(white[~missing] ** 2)  # not one: sensors' noise is an estimate of the units
    assert abs(np.mean(white[missing] ** 2) - usual) < 4 * np.sqrt(2 / missing.sum())


def test_shares_and_fillings(known):
    record, _, _ = known
    assert n_fillings(None) == 0
    there = share_there(record)
    assert ((there > 0.8) & (there < 1)).all()
    assert n_fillings(record) >= 1
    assert not are_mostly_there(record)  # a tenth is what plants of few units may lack
    usual = usual_information(record.parts[0])[None]

    def of_first(patterns, index):
        first = replace(record.parts[0], index=index, patterns=np.concatenate(patterns))
        return replace(record, parts=(first, *[Information(part.z, usual) for part in record.parts[1:]]))

    rows = np.arange(ROWS)
    assert are_mostly_there(of_first([usual, 0 * usual], (rows % 20 == 0).astype(int)))
    assert not are_mostly_there(of_first([usual, 0 * usual], rows % 2))
    # one row that tells far more than all others makes these look as if next to nothing was there
    one_row = of_first([usual, 20 * usual], (rows == 5).astype(int))
    assert not are_mostly_there(one_row)
    assert n_fillings(one_row) <= 7
    assert n_fillings(of_first([0 * usual, usual], (rows == 5).astype(int))) <= 7
    # measurements that determine the states in no row, of the best of which the states are not
    of_one, of_other = np.diag([2.0, 0.0])[None], np.diag([0.0, 1.0])[None]
    assert not are_mostly_there(of_first([of_one, of_other], rows % 2))


@pytest.mark.medium
def test_time_that_is_spent_ends_the_fillings(many, monkeypatch):
    _, gapped, truth = many
    record = JointRecord.from_messages(messages_of(gapped, truth))
    plant = LargePlant(filled_by_units(record), None, record)
    fillings = []
    monkeypatch.setattr(plant, "fill", fillings.append)
    assert estimate_large(plant, settings_of(LikelihoodServer(), record.names), None, Budget(1e-6)).was_stopped
    assert not fillings


UNITS = 34


@pytest.fixture(scope="module")
def many():
    X, truth = make_granger_plant(
        UNITS, n_states=1, n_sensors=4, n_samples=1500, link_strength=(0.15, 0.3), random_state=0
    )
    return X, holes(X, share=0.01), truth


def fitted(X, truth, **settings):
    return FederatedGrangerEstimator([KalmanClient(C=C) for C in truth.observation], **settings).fit(X)


@pytest.fixture(scope="module")
def with_gaps(many):
    """What is fitted to the record with gaps; tests ask it and change nothing."""
    _, gapped, truth = many
    return fitted(gapped, truth)


@pytest.fixture(scope="module")
def server_with_gaps(many):
    """Messages of the record with gaps, and a server of them."""
    _, gapped, truth = many
    messages = messages_of(gapped, truth)
    return messages, LikelihoodServer().fit(messages)


@pytest.mark.medium
def test_many_units_with_gaps_are_learned_in_blocks(many, with_gaps):
    """Of a hundredth of the cells and forty rows of every unit the plant is that of the complete record, nearly."""
    X, _, truth = many
    whole, blocks = fitted(X, truth), with_gaps
    server = blocks.server_
    assert isinstance(server.plant_, SparsePlant)
    assert not server.filled_
    found, expected = (set(e.links_.query("p_adjusted < 1e-3").index) for e in (blocks, whole))
    assert len(found & expected) > 0.9 * len(expected)
    linked = whole.links_.query("p_adjusted < 1e-3").index
    gap = (blocks.links_["norm"] - whole.links_["norm"])[linked] / whole.links_["stderr"][linked]
    # four hundredths of what two units measured are gone, and as much was drawn: sqrt(2 x 0.08) standard errors
    assert np.sqrt(np.mean(gap**2)) < 0.6
    assert abs(gap.mean()) < 0.2
    assert server.validity_["passed"].mean() > 0.98
    assert server.engine_.gapless is None  # nothing as long as the record is kept once it was looked at


@pytest.mark.medium
def test_the_report_knows_of_levels_that_shift(many):
    """A shift of one unit, of which the plant knows: the report says of the record what it says without the shift."""
    _, gapped, truth = many
    shifted = {**gapped, "unit3": gapped["unit3"].copy()}
    shifted["unit3"][750:] += 12 * truth.observation[3][:, 0]
    server = fitted(shifted, truth).server_
    assert isinstance(server.plant_, SparsePlant)
    assert "unit3" in set(server.level_shifts_["unit"])
    own = server.validity_.query("cause == effect == 'unit3'")
    assert own["passed"].all(), own
    assert server.validity_["passed"].mean() > 0.98
    assert server.engine_.gapless is None  # nothing as long as the record is kept once it was looked at


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore:One false alarm:UserWarning")
def test_answers_do_not_need_complete_records(many, with_gaps):
    (X, gapped, truth), estimator = many, with_gaps
    assert np.isfinite(estimator.score(gapped))
    assert np.isfinite(estimator.predict(gapped)).all()
    absent = {**X, "unit3": np.full_like(X["unit3"], np.nan)}
    assert np.isfinite(estimator.predict(absent)).all()
    detector = FederatedRCADetector([KalmanClient(C=C) for C in truth.observation]).fit(gapped)
    late = {name: Y[:300].copy() for name, Y in X.items()}
    late["unit5"][100:] += 6.0
    assert (detector.predict(late)[110:] == -1).mean() > 0.5


def test_gaps_are_filled_by_stable_plants(many, monkeypatch):
    _, gapped, truth = many
    record = JointRecord.from_messages(messages_of(gapped, truth))
    plant = LargePlant(filled_by_units(record), None, record)
    search = _Search(plant, settings_of(LikelihoodServer(), record.names), None, None)
    search.linked[[0, 1], [1, 0]] = True
    search.A[0, 1] = search.A[1, 0] = 1.0
    search.group()
    assert radius(csr_array(search.A)) > 1
    fill = []
    monkeypatch.setattr(plant, "fill", lambda matrices, B: fill.append(matrices))
    search._fill()
    assert radius(fill[0].A) < 1


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_units_that_others_keep_stable_are_left_to_the_exact_filter(many):
    X, gapped, truth = many
    server = LikelihoodServer().fit(messages_of(X, truth))
    record = server.joint_record(messages_of(gapped, truth))
    assert isinstance(server._filter(record), LargeFilterWithGaps)
    A = server.transition_.copy()
    A[:2, :2] = [[1.02, -0.3], [0.3, 0.7]]
    A[:2, 2:] = 0.0
    assert np.abs(np.linalg.eigvals(A)).max() < 1
    server.plant_ = server.plant_.with_first_lag(A, server.input_)
    run = server._filter(record)
    assert type(run) is PlantFilter
    assert np.isfinite(run.predicted).all()


@pytest.mark.medium
def test_gaps_of_units_that_others_keep_stable_ask_for_the_whole(many, monkeypatch):
    _, gapped, truth = many
    record = JointRecord.from_messages(messages_of(gapped, truth))
    plant = LargePlant(filled_by_units(record), None, record)
    monkeypatch.setattr(LargePlant, "fill", lambda *_: pytest.fail("filled by a plant that its filter cannot follow"))
    monkeypatch.setattr("skfedcausal.server.sparse.filter.MAX_RADIUS", 0.0)
    with pytest.raises(AsAWhole, match="stable by others alone"):
        estimate_large(plant, settings_of(LikelihoodServer(), record.names))


@pytest.mark.medium
def test_smoothing_is_by_the_plant_that_is_asked_for(server_with_gaps):
    messages, server = server_with_gaps
    told = np.hstack([reply.states for reply in server.smoothed(messages).values()])
    unshrunk = LargeFilterWithGaps(replace(server.plant_.matrices, A=csr_array(server.unshrunk_transition_)),
                                   server.joint_record(messages)).smoothed()[0]  # fmt: skip
    np.testing.assert_array_equal(told, unshrunk)
    assert miss(told, server.plant_.smooth(server.joint_record(messages))[0]) > 1e-6


@pytest.mark.medium
def test_the_same_bits_come_again(server_with_gaps):
    messages, one = server_with_gaps
    two = LikelihoodServer().fit(messages)
    assert one.transition_.tobytes() == two.transition_.tobytes()


def test_what_gaps_need_of_memory_is_said(monkeypatch, many):
    _, gapped, truth = many
    about = UNITS, UNITS, 1500
    assert memory.needed_memory(1500, UNITS, UNITS, has_gaps=True) > memory.needed_memory(1500, UNITS, UNITS)
    monkeypatch.setattr(memory, "allowed_memory", lambda: memory.needed_memory(*about[::-1]) + 1)
    for ask in (LikelihoodServer.fit, screen):
        with pytest.raises(MemoryError, match="1500 rows with gaps needs"):
            ask(LikelihoodServer(), messages_of(gapped, truth))


def test_units_that_are_mostly_away_ask_for_the_whole(many):
    X, _, truth = many
    away = {**X, "unit3": X["unit3"].copy()}
    away["unit3"][:1000] = np.nan
    record = JointRecord.from_messages(messages_of(away, truth))
    reason = "units of whose usual measurements less than 90% are there"
    assert asks_for_the_whole(record, LikelihoodServer()) == reason


@pytest.mark.slow
def test_classical_tests_of_gaps_count_the_rows_that_were_measured():
    """Of units without links one in twenty p-values is below a twentieth, and links are as sure as rows are left."""
    links = [(2 * k, 2 * k + 1) for k in range(17)]
    X, truth = make_granger_plant(
        34, n_samples=700, n_sensors=3, n_states=1, links=links, link_strength=0.5, random_state=0
    )
    rng = np.random.default_rng(0)
    gapped = {name: np.where(rng.random(Y.shape) < 0.05, np.nan, Y) for name, Y in X.items()}
    estimator = fitted(gapped, truth)
    assert isinstance(estimator.server_.plant_, SparsePlant)
    table = estimator.test_links(gapped, "wald")
    linked = table["cause"].str[4:].astype(int) + 1 == table["effect"].str[4:].astype(int)
    linked &= table["cause"].str[4:].astype(int) % 2 == 0
    n_others = (~linked).sum()
    assert abs((table["p_value"][~linked] < 0.05).sum() - 0.05 * n_others) < 4 * np.sqrt(0.0475 * n_others)
    assert (table["p_value"][linked] < 1e-3).mean() > 0.8
