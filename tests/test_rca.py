"""Promises of the detector: names roots, keeps its budget, streams, refuses what it cannot read."""

import warnings
from copy import deepcopy
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from skfedcausal import (
    Evidence,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    KalmanClient,
    LikelihoodOptions,
    inspection,
)
from skfedcausal.datasets import make_nonlinear_plant
from skfedcausal.message import StateMessage
from skfedcausal.metrics import incident_report
from skfedcausal.server.watching.thresholds import steps_between_alarms

from .ask import question as named

M, P, D = 4, 2, 5
LINKS = ((1, 0), (2, 1), (0, 2), (3, 2))  # effect, cause: a loop of three units and one behind it


def simulate(n_samples, seed, fault=None, size=1.0, at=200, kind="process", plant=0):
    """Measurements of a plant with a loop; `fault` lists units that are pushed from row `at` on."""
    rng = np.random.default_rng(plant)
    n = M * P
    A = np.zeros((n, n))
    for m in range(M):
        angle = rng.uniform(0.1, 1.0)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        A[2 * m : 2 * m + 2, 2 * m : 2 * m + 2] = rng.uniform(0.5, 0.7) * turn
    for effect, cause in LINKS:
        B = rng.standard_normal((P, P))
        A[2 * effect : 2 * effect + 2, 2 * cause : 2 * cause + 2] = 0.3 * B / np.linalg.norm(B, 2)
    C = rng.standard_normal((M, D, P))
    directions = rng.standard_normal((M, P))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    rng = np.random.default_rng(seed)
    h, Y = np.zeros(n), np.empty((n_samples, M, D))
    push = np.zeros(n)
    for m in () if fault is None else np.atleast_1d(fault):
        push[2 * m : 2 * m + 2] = size * directions[m]
    for t in range(-100, n_samples):
        h = A @ h + 0.5 * rng.standard_normal(n) + (push if t >= at and kind == "process" else 0)
        if t >= 0:
            shown = h + (push if t >= at and kind == "sensor" else 0)
            Y[t] = np.einsum("mdp,mp->md", C, shown.reshape(M, P)) + 0.5 * rng.standard_normal((M, D))
    return {f"unit{m}": Y[:, m] for m in range(M)}


@pytest.fixture(scope="module")
def detector():
    return FederatedRCADetector().fit(simulate(3000, seed=1))


def rows(X, start, stop):
    return {name: Y[start:stop] for name, Y in X.items()}


# --- naming roots -------------------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize("size", [0.5, 4.0])
def test_a_large_fault_keeps_its_root_however_far_it_pushes_the_others(detector, size):
    """Victims leave the range in which the plant was learned; a steady fault explains all of them."""
    for fault in range(M):
        X = simulate(400, seed=40 + fault, fault=fault, size=size)
        best = detector.attribute(X, start=200).iloc[0]
        assert best["client"] == f"unit{fault}"
        assert best["probability"] > 0.9


@pytest.mark.parametrize("fault", range(M))
def test_root_of_a_steady_fault_is_named_also_inside_a_loop(detector, fault):
    X = simulate(400, seed=10 + fault, fault=fault)
    table = detector.attribute(X, start=200)
    assert table.client[0] == f"unit{fault}"
    assert table.probability[0] >= 0.5
    found = detector.incidents(X).query("detected >= 200")
    assert found.root.iloc[0] == f"unit{fault}"
    assert found.ranking.iloc[0][0][0] == f"unit{fault}"
    assert dict(found.path.iloc[0])  # at least the root is on the path


def test_two_roots_are_both_on_top(detector):
    X = simulate(400, seed=20, fault=[1, 3])
    assert set(detector.attribute(X, start=200).client[:2]) == {"unit1", "unit3"}


def test_roots_per_step_follow_the_incidents(detector):
    X = simulate(400, seed=11, fault=1)
    roots, alarms = detector.predict_root_cause(X), detector.predict(X)
    assert roots.shape == (400,)
    assert_array_equal(alarms == -1, roots != "")
    assert (roots[260:] == "unit1").mean() > 0.9
    truth = np.where(np.arange(400) >= 200, "unit1", "")
    assert detector.score(X, truth) > 0.8
    assert detector.score(X) == pytest.approx(detector.score_samples(X).mean())


def test_one_look_at_a_record_gives_its_incidents_and_levels(detector):
    X = simulate(400, seed=11, fault=1)
    incidents, levels = detector.asked_.incidents_and_levels(X)
    pd.testing.assert_frame_equal(incidents, detector.incidents(X))
    assert_array_equal(levels, detector.transform(X))


def test_prior_excludes_a_unit():
    X = simulate(1500, seed=1)
    prior = {"unit0": 1, "unit1": 0, "unit2": 1, "unit3": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        detector = FederatedRCADetector(evidence=Evidence(prior=prior)).fit(X)
    table = detector.attribute(simulate(400, seed=11, fault=1), start=200)
    assert table.client.iloc[-1] == "unit1"
    assert table.probability.iloc[-1] == 0


@pytest.mark.medium
def test_prior_excludes_the_unit_that_explains_everything():
    """However much better its candidates are than all that may be."""
    prior = {"unit0": 1, "unit1": 0, "unit2": 1, "unit3": 1}
    detector = FederatedRCADetector(evidence=Evidence(prior=prior)).fit(simulate(3000, seed=1))
    found = detector.incidents(simulate(400, seed=11, fault=1, size=8.0))
    assert np.isfinite(found.probability).all()
    assert "unit1" not in set(found.root)


@pytest.mark.medium
def test_large_faults_of_a_nonlinear_plant_are_named_by_the_row_they_begin_in():
    """What follows, far from all that was learned, surprises everywhere."""
    settings = {"process_noise": 0.1, "plant_state": 32}
    nominal = make_nonlinear_plant(n_samples=6000, size=0, random_state=1, **settings)
    plant = make_nonlinear_plant(n_samples=5000, random_state=2, **settings)
    found = FederatedRCADetector(false_alarm_rate=1 / 2000).fit(nominal.data).incidents(plant.data)
    assert incident_report(found, plant.faults, 5000)["f1"] >= 0.95


@pytest.mark.medium
def test_plant_is_estimated_from_the_same_messages_as_for_granger(detector):
    client = KalmanClient(n_states=P)
    X = simulate(3000, seed=1)
    from skfedcausal import LikelihoodServer

    server = LikelihoodServer(options=LikelihoodOptions(sparsity=None))
    watched = FederatedRCADetector(KalmanClient(n_states=P), server=server).fit(X)
    granger = FederatedGrangerEstimator(client, server=server).fit(X)
    gap = np.linalg.norm(watched.transition_ - granger.transition_) / np.linalg.norm(granger.transition_)
    assert gap < 0.2  # another noise covariance, the same states up to sampling error


@pytest.mark.parametrize("kind", ["process", "sensor"])
def test_kind_of_fault_is_told(detector, kind):
    """A fault of sensors leaves the other units alone; one of the process moves them through the plant.

    Unit 3 acts on nobody, so that only its first steps could tell.
    """
    kinds = []
    for fault in range(3):
        X = simulate(400, seed=30 + fault, fault=fault, size=1.5, kind=kind)
        found = detector.incidents(X).query("detected >= 200")
        assert found.root.iloc[0] == f"unit{fault}"
        kinds.append(found.kind.iloc[0])
    assert set(kinds) <= {kind, "undecided"}  # never the wrong one
    assert kinds.count(kind) >= 2


def test_kind_of_a_fault_that_has_no_root_is_undecided(detector):
    found = detector.incidents(simulate(6000, seed=31))
    assert (found.kind[found.root == "undecided"] == "undecided").all()


# --- streams ------------------------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize("sizes", [[100] * 4, [1] * 30 + [7] * 10 + [300], [37] * 10 + [30]])
@pytest.mark.parametrize("missing", [0.0, 0.05])
def test_stream_in_pieces_gives_the_incidents_of_the_whole(detector, sizes, missing):
    X = simulate(400, seed=12, fault=2)
    rng = np.random.default_rng(0)
    X = {name: np.where(rng.random(Y.shape) < missing, np.nan, Y) for name, Y in X.items()}
    detector.reset()
    known, first = {}, 0
    for size in sizes:
        for row in detector.update(rows(X, first, first + size)).to_dict("records"):
            known[row["detected"]] = row
        first += size
    pieces, whole = pd.DataFrame(known.values()), detector.incidents(X)
    assert_array_equal(pieces.detected, whole.detected)
    assert_array_equal(pieces.start, whole.start)
    assert_array_equal(pieces.end.astype(float), whole.end.astype(float))
    assert list(pieces.root) == list(whole.root)
    told = pieces.probability.astype(float)
    assert_allclose(told, whole.probability.astype(float), atol=0.01)  # smaller changes are not told
    joined = np.full(400, "?", dtype=object)
    bounds = np.cumsum([0, *sizes]).tolist()
    batches = (rows(X, start, stop) for start, stop in pairwise(bounds))
    for where, roots in detector.predict_root_cause(batches):
        joined[where] = roots
    assert_array_equal(joined, detector.predict_root_cause(X))


def test_stream_keeps_a_constant_amount(detector):
    detector.reset()
    X = simulate(900, seed=13)
    sizes = []
    for k in range(9):
        detector.update(rows(X, 100 * k, 100 * (k + 1)))
        sizes.append(sum(series.nbytes for series in detector._stream.state.rows[1:]))
    assert sizes[3] == sizes[-1]


def test_episodes_are_followed_one_by_one(detector):
    X, Z = simulate(300, seed=14, fault=0), simulate(200, seed=15)
    both = {name: np.concatenate([X[name], Z[name]]) for name in X}
    joined = detector.incidents(both, lengths=[300, 200])
    alone = detector.incidents(X)
    assert_array_equal(joined.detected[: len(alone)], alone.detected)
    assert (joined.detected[len(alone) :] >= 300).all()


# --- missing data -------------------------------------------------------------------------------------


def test_absent_unit_breaks_nothing_and_the_root_is_still_found(detector):
    X = simulate(400, seed=16, fault=1)
    X["unit3"][150:] = np.nan
    table = detector.attribute(X, start=200)
    assert table.client[0] == "unit1"
    assert np.isfinite(table.probability).all()


def test_absent_unit_raises_no_alarm(detector):
    X = simulate(400, seed=17)
    quiet = detector.incidents(X)
    X["unit0"][100:300] = np.nan
    assert len(detector.incidents(X)) <= len(quiet) + 1


def test_absent_unit_that_may_be_the_cause_lowers_certainty(detector):
    """Unit 0 acts on unit 1; unit 3 acts on nobody."""
    X = simulate(400, seed=16, fault=1)
    certain = detector.attribute(X, start=200).probability[0]
    probability = {}
    for gone in ("unit0", "unit3"):
        table = detector.attribute({**X, gone: np.full_like(X[gone], np.nan)}, start=200)
        assert table.client[0] == "unit1"
        probability[gone] = table.probability[0]
    assert 0.5 <= probability["unit0"] < 0.7 * certain
    assert probability["unit3"] > 0.9 * certain


@pytest.mark.medium
def test_sensor_that_is_sampled_slowly_is_no_fault():
    """Every unit's first sensor is there in one row of five, in nominal operation and later."""

    def slowly(X):
        return {
            name: np.where((np.arange(len(Y)) % 5 > 0)[:, None] & (np.arange(D) == 0), np.nan, Y)
            for name, Y in X.items()
        }

    detector = FederatedRCADetector().fit(slowly(simulate(3000, seed=1)))
    assert len(detector.incidents(slowly(simulate(1000, seed=2)))) <= 4  # 97.5 % of a Poisson mean of one
    X = slowly(simulate(400, seed=11, fault=1))
    assert detector.attribute(X, start=200).client[0] == "unit1"


@pytest.mark.medium
@pytest.mark.parametrize("seed", [1, 3])
def test_sensors_that_come_and_go_raise_no_alarms(seed):
    """A unit watched with more states than it has leaves some to single sensors, seen at times."""

    def cascade(n_samples, seed):
        rng = np.random.default_rng(seed)
        C = np.random.default_rng(7).standard_normal((3, 3))
        x = np.zeros((n_samples, 3))
        noise = 0.5 * rng.standard_normal(x.shape)
        for t in range(1, n_samples):
            x[t] = 0.6 * x[t - 1] + 0.4 * np.array([0.0, *x[t - 1, :2]]) + noise[t]
        return {f"unit{m}": np.outer(x[:, m], C[m]) + 0.1 * rng.standard_normal((n_samples, 3)) for m in range(3)}

    detector = FederatedRCADetector(false_alarm_rate=1 / 500).fit(cascade(4000, seed))
    rng = np.random.default_rng(1)
    X = {n: np.where(rng.random(Y.shape) < 0.3, np.nan, Y) for n, Y in cascade(5000, 100 + seed).items()}
    assert len(detector.incidents(X)) <= 17  # 97.5 % of a Poisson mean of ten


@pytest.mark.medium
@pytest.mark.parametrize("missing", [0.05, 0.3])
def test_sensors_that_nearly_repeat_each_other_may_have_gaps(missing):
    """Products of the cells that are there are no covariance then."""
    rng = np.random.default_rng(0)
    X = {}
    for name, Y in simulate(2000, seed=1).items():
        twice = np.concatenate([Y, Y @ rng.standard_normal((D, 3))], axis=1)
        twice += 0.01 * rng.standard_normal(twice.shape)
        X[name] = np.where(rng.random(twice.shape) < missing, np.nan, twice)
    detector = FederatedRCADetector(false_alarm_rate=0.002).fit({name: Y[:1000] for name, Y in X.items()})
    assert len(detector.incidents({name: Y[1000:] for name, Y in X.items()})) <= 5  # 97.5 % of a Poisson mean of two


@pytest.mark.medium
def test_record_whose_rows_nearly_all_lack_a_unit_is_learned_from():
    """Four units, each absent in four of ten rows: all are there in one row of eight, never for long."""
    rng = np.random.default_rng(0)

    def with_gaps(X):
        return {n: np.where(rng.random((len(Y), 1)) < 0.4, np.nan, Y) for n, Y in X.items()}

    detector = FederatedRCADetector(false_alarm_rate=0.002).fit(with_gaps(simulate(1500, seed=1)))
    # 97.5 % of a Poisson mean of two
    assert len(detector.incidents(with_gaps(simulate(1000, seed=2)))) <= 5
    found = detector.incidents(with_gaps(simulate(400, seed=11, fault=1))).query("detected >= 200")
    assert found.root.iloc[0] == "unit1"


@pytest.mark.medium
def test_stretch_without_a_unit_does_not_spoil_what_is_learned(detector):
    X = simulate(3000, seed=1)
    X["unit0"][500:1300] = np.nan
    gap = FederatedRCADetector().fit(X)
    assert gap.thresholds_["shift"] < 1.5 * detector.thresholds_["shift"]
    assert gap.incidents(simulate(400, seed=11, fault=1)).query("detected >= 200").root.iloc[0] == "unit1"


def test_unit_that_is_hardly_ever_there_is_refused_by_name():
    X = simulate(1500, seed=1)
    X["unit2"][100:1400] = np.nan
    with pytest.raises(ValueError, match="'unit2' is absent in 87 %"):
        FederatedRCADetector(false_alarm_rate=0.01).fit(X)


@pytest.mark.medium
def test_fit_with_missing_values_names_the_root():
    rng = np.random.default_rng(0)
    X = {n: np.where(rng.random(Y.shape) < 0.03, np.nan, Y) for n, Y in simulate(2500, seed=1).items()}
    detector = FederatedRCADetector().fit(X)
    assert detector.attribute(simulate(400, seed=11, fault=1), start=200).client[0] == "unit1"


@pytest.mark.medium
def test_coarser_records_raise_no_alarms():
    """A sensor logged with fewer decimals than its nominal record gets that much more noise."""
    nominal = simulate(3000, seed=1)
    fine, new = dict(nominal), simulate(1000, seed=2)
    fine["unit0"] = nominal["unit0"].copy()
    fine["unit0"][:, 0] = 50 + 0.004 * nominal["unit0"][:, 0]
    new["unit0"] = new["unit0"].copy()
    new["unit0"][:, 0] = 50 + 0.004 * new["unit0"][:, 0]
    detector = FederatedRCADetector().fit(fine)
    before = len(detector.incidents(new))
    new["unit0"][:, 0] = np.round(new["unit0"][:, 0], 2)
    assert len(detector.incidents(new)) <= before + 3


# --- thresholds ---------------------------------------------------------------------------------------


def test_budget_may_be_given_per_unit_of_time():
    X = simulate(2000, seed=1)
    frame = pd.concat({n: pd.DataFrame(Y) for n, Y in X.items()}, axis=1)
    frame.columns = [f"{n}__s{k}" for n, k in frame.columns]
    frame.index = pd.date_range("2026-01-01", periods=2000, freq="min")
    detector = FederatedRCADetector(false_alarm_rate="2 per day").fit(frame)
    assert detector.false_alarms_["asked"] == pytest.approx(2 / 1440)
    found = detector.incidents(frame.iloc[:300])
    assert list(found.columns) == [
        "start",
        "detected",
        "end",
        "root",
        "probability",
        "undecided",
        "path",
        "ranking",
        "kind",
        "repeats",
        "status",
    ]


def framed(X, freq="min", start="2026-01-01"):
    columns = {f"{name}__s{k}": y for name, Y in X.items() for k, y in enumerate(Y.T)}
    return pd.DataFrame(columns, index=pd.date_range(start, periods=len(X["unit0"]), freq=freq))


@pytest.fixture(scope="module")
def timed():
    return FederatedRCADetector().fit(framed(simulate(2500, seed=1)))


@pytest.mark.medium
def test_rows_at_another_sampling_period_or_backwards_are_refused(timed):
    X = simulate(60, seed=2)
    with pytest.raises(ValueError, match="every 0 days 00:05:00, the nominal record had one every"):
        timed.incidents(framed(X, "5min"))
    with pytest.raises(ValueError, match="backwards"):
        timed.incidents(framed(X).iloc[::-1])


@pytest.mark.medium
@pytest.mark.parametrize("size", [1, 90])
def test_streams_with_times_tell_times(timed, size):
    X = framed(simulate(600, seed=11, fault=1, size=1.5), start="2026-02-01")
    whole = timed.incidents(X)
    timed.reset()
    found = {}
    for start in range(0, 600, size):
        batch = timed.update(X.iloc[start : start + size])
        for row in batch.itertuples(index=False):
            found[row.detected] = row
            for repeat, _ in row.repeats:  # part of that from then on
                found.pop(repeat, None)
    timed.reset()
    told = pd.DataFrame(found.values())
    pd.testing.assert_frame_equal(told.drop(columns="ranking"), whole.drop(columns="ranking"), atol=0.01)
    for one, other in zip(told["ranking"], whole["ranking"], strict=True):  # smaller changes are not told
        assert dict(one) == pytest.approx(dict(other), abs=0.01)
    assert isinstance(whole.start.iloc[0], pd.Timestamp)


def test_rows_that_lack_are_named(timed):
    X = framed(simulate(300, seed=1))
    lacking = pd.concat([X.iloc[:100], X.iloc[150:]])
    for record in (lacking, lacking.tz_localize("Europe/Berlin")):
        with pytest.warns(UserWarning, match=r"no rows between 2026-01-01 01:39:00.* and 2026-01-01 02:30"):
            timed.incidents(record)
    timed.incidents(lacking, lengths=[100, 150])


def test_batches_must_follow_each_other(timed):
    frame = framed(simulate(300, seed=2))
    timed.reset()
    timed.update(frame.iloc[:100])
    with pytest.raises(ValueError, match="followed up to 2026-01-01 01:39:00 already"):
        timed.update(frame.iloc[50:150])
    with pytest.warns(UserWarning, match="no rows between"):
        timed.update(frame.iloc[200:])
    timed.reset()
    timed.update(frame.iloc[:100])


def test_windows_may_be_given_as_times(timed):
    frame = framed(simulate(400, seed=11, fault=1))
    by_time = timed.attribute(frame, start=frame.index[200], end=str(frame.index[300]))
    pd.testing.assert_frame_equal(by_time, timed.attribute(frame, start=200, end=300))
    with pytest.raises(TypeError, match=r"2\.5"):
        timed.attribute(frame, start=2.5)


def test_values_beyond_all_measure_are_an_incident(detector):
    """A single row does not last long enough for a root to be decided, but its unit is the likeliest."""
    X = simulate(400, seed=2)
    X["unit2"][250] = 1e200
    found = detector.incidents(X).query("detected == 250")
    assert found.ranking.iloc[0][0][0] == "unit2"


def test_rate_that_the_data_cannot_support_is_warned_about():
    with pytest.warns(UserWarning, match=r"only 500 nominal"):
        FederatedRCADetector(false_alarm_rate=1e-3).fit(simulate(500, seed=1))


@pytest.mark.slow
def test_false_alarms_on_new_data_keep_the_budget():
    """Clusters of alarms on 48 000 new steps: Poisson with mean 48, 99.9 % interval, eight plants."""
    count = 0
    for plant in range(8):
        detector = FederatedRCADetector().fit(simulate(4000, seed=1, plant=plant))
        found = detector.incidents(simulate(6000, seed=2, plant=plant)).detected.to_numpy()
        count += (np.diff(found, prepend=-1000) > 60).sum()
    assert 26 <= count <= 74


# --- flags --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def by_flags():
    return FederatedRCADetector(evidence=Evidence("flags", n_steps=5)).fit(simulate(2000, seed=1))


@pytest.mark.medium
def test_flags_are_two_bits_per_unit_and_step(by_flags):
    X, detector = simulate(2000, seed=1), deepcopy(by_flags)
    flags = inspection.flags(detector, X)
    assert list(flags.columns[:2]) == ["unit0__Z_c", "unit0__Z_a"]
    assert set(np.unique(flags)) <= {0, 1}
    assert_allclose(flags.mean(), 0.05, atol=0.001)  # the 95th percentile of the same record
    roots = detector.predict_root_cause(simulate(400, seed=11, fault=1, size=3.0))
    named = roots[200:][~np.isin(roots[200:], ["", "undecided"])]
    assert pd.Series(named).value_counts().index[0] == "unit1"


@pytest.mark.medium
@pytest.mark.parametrize("size", [1, 57, 400])
def test_incidents_from_flags_send_nothing_but_flags_and_stream(by_flags, size):
    detector, X = deepcopy(by_flags), simulate(300, seed=11, fault=1, size=3.0)
    X["unit2"][100:130] = np.nan
    before = len(detector.ledger_.entries)
    whole = detector.incidents(X)
    assert whole.root.iloc[-1] == "unit1"
    crossed = {(entry.direction, entry.op) for entry in detector.ledger_.entries[before:]}
    assert crossed == {("down", "flag"), ("up", "flags"), ("down", "verdict"), ("up", "done")}
    found = {}
    for start in range(0, 300, size):
        batch = detector.update(rows(X, start, start + size))
        found.update({row.detected: row for row in batch.itertuples(index=False)})
    told, smaller = pd.DataFrame(found.values()), ["probability", "undecided", "ranking"]
    assert_allclose(told.probability, whole.probability, atol=0.01)  # smaller changes are not told
    pd.testing.assert_frame_equal(told.drop(columns=smaller), whole.drop(columns=smaller))
    assert set(detector.stream_ledger_.table["op"]) == {"watch", "flags", "verdict", "done"}


def test_flags_belong_to_the_papers_inference(detector):
    with pytest.raises(ValueError, match="evidence"):
        inspection.flags(detector, simulate(50, seed=1))


# --- bad input ----------------------------------------------------------------------------------------


def test_unknown_or_missing_units_are_refused_by_name(detector):
    X = simulate(50, seed=1)
    with pytest.raises(ValueError, match="unit3"):
        detector.update({n: Y for n, Y in X.items() if n != "unit3"})
    with pytest.raises(ValueError, match="extra"):
        detector.update({**X, "extra": X["unit0"]})
    with pytest.raises(ValueError, match="unit1"):
        detector.incidents({**X, "unit1": X["unit1"][:, :3]})


def test_order_of_the_units_does_not_matter(detector):
    X = simulate(400, seed=11, fault=1)
    turned = dict(reversed(X.items()))
    pd.testing.assert_frame_equal(detector.incidents(X), detector.incidents(turned))


def test_columns_in_another_order_are_refused_by_name(timed):
    X = framed(simulate(50, seed=1))
    with pytest.raises(ValueError, match="'unit3__s4' came where `fit` had 'unit0__s0'"):
        timed.incidents(X[X.columns[::-1]])
    timed.incidents(X[X.columns[::-1]][list(timed.feature_names_in_)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"false_alarm_rate": "often"}, "cannot be read"),
        ({"false_alarm_rate": "1 per day"}, "DatetimeIndex"),
        ({"false_alarm_rate": "3 per 2 steps"}, "1.5 alarms per time step"),
        ({"evidence__prior": [1, 1]}, "4 units"),
        ({"evidence__prior": {"unit0": 1}}, "Name every unit"),
        ({"evidence__statistic": "all"}, "statistic"),
    ],
)
def test_settings_that_cannot_be_meant(settings, message):
    with pytest.raises(ValueError, match=message):
        FederatedRCADetector().set_params(**settings).fit(simulate(2500, seed=1))


@pytest.mark.parametrize(
    ("rate", "asked"), [("2 per day", 2 / 1440), ("1/week", 1 / 10080), ("1 per year", 1 / 525949.2)]
)
def test_budgets_per_unit_of_time_are_read(rate, asked):
    assert 1 / steps_between_alarms(rate, pd.Timedelta(minutes=1)) == pytest.approx(asked)


@pytest.mark.parametrize("n_rows", [2, 8])
def test_records_that_are_too_short_are_refused_with_a_reason(n_rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(ValueError, match="rows"):
            FederatedRCADetector().fit(simulate(n_rows, seed=1))


def test_windows_outside_the_record_are_refused(detector):
    X = simulate(50, seed=1)
    with pytest.raises(ValueError, match="no window"):
        detector.attribute(X, start=40, end=60)


@pytest.mark.parametrize("method", ["incidents", "update", "attribute", "flags", "score"])
def test_unfitted_detector_says_so(method):
    with pytest.raises(NotFittedError, match="not fitted"):
        named(FederatedRCADetector(), method)(simulate(50, seed=1))


def test_window_without_a_start_begins_with_the_record(detector):
    X = simulate(50, seed=1)
    pd.testing.assert_frame_equal(detector.attribute(X, start=None), detector.attribute(X))


def test_constant_sensor_is_ignored_with_a_warning():
    X = simulate(2000, seed=1)
    X["unit0"] = np.column_stack([X["unit0"], np.full(2000, 7.0)])
    with pytest.warns(UserWarning, match="constant"):
        detector = FederatedRCADetector().fit(X)
    new = simulate(100, seed=2)
    new["unit0"] = np.column_stack([new["unit0"], np.full(100, 7.0)])
    detector.incidents(new)


# --- messages -----------------------------------------------------------------------------------------


def test_a_step_costs_the_states_and_one_number(detector):
    X = simulate(100, seed=1)
    with detector._asking(X) as units:
        messages = units.messages()
    for name, message in messages.items():
        assert message.z.shape == (100, detector.clients_[name].n_states_)
        assert message.off_subspace.shape == (100,)
        assert message.const is None
        again = StateMessage.from_packet(message.to_packet())
        assert_array_equal(again.off_subspace, message.off_subspace)


@pytest.mark.medium
def test_same_numbers_every_time():
    X = simulate(2000, seed=1)
    first, second = FederatedRCADetector().fit(X), FederatedRCADetector(n_jobs=2).fit(X)
    assert first.thresholds_ == second.thresholds_


@pytest.mark.medium
def test_few_false_alarms_name_a_root():
    detector = FederatedRCADetector(false_alarm_rate=1 / 200).fit(simulate(3000, seed=1))
    roots = [root for seed in (50, 51) for root in detector.incidents(simulate(6000, seed=seed)).root]
    assert 40 <= len(roots) <= 80  # 60 were asked for
    assert np.mean([root != "undecided" for root in roots]) <= 0.5  # 0.42; 0.6 with the same odds for every alarm
