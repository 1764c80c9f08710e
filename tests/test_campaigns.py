"""Nominal operation at several levels: campaigns that are known again, and modes that are told."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skfedcausal import Baseline, FederatedRCADetector, KalmanClient

from .test_rca import rows, simulate

pytestmark = pytest.mark.medium


def at_level(X, mode):
    """A record in whose mode 1 the sensors of every unit are at another level."""
    shift = np.random.default_rng(5).standard_normal((len(X), 10))
    return {
        name: Y + 3.0 * np.multiply.outer(mode, s[: Y.shape[1]]) for (name, Y), s in zip(X.items(), shift, strict=True)
    }


@pytest.fixture(scope="module")
def campaigns():
    return [at_level(simulate(1500, seed=1), np.zeros(1500)), at_level(simulate(1000, seed=2), np.ones(1000))]


@pytest.fixture(scope="module")
def detector(campaigns):
    return FederatedRCADetector(baseline=Baseline(levels="episode")).fit(campaigns)


@pytest.fixture(scope="module")
def switching():
    """A record that is in mode 1 from row 200 to 500, and the modes."""
    mode = (np.arange(900) // 10 >= 20) & (np.arange(900) < 500)
    return at_level(simulate(900, seed=7), mode), mode


def test_a_switch_between_campaigns_is_no_incident(detector, switching):
    X, mode = switching
    assert (detector.predict(X) == -1).mean() <= 0.01
    found = detector.incidents(X).detected.to_numpy()
    assert not any(((found >= row) & (found < row + 40)).any() for row in np.flatnonzero(np.diff(mode)))
    assert (detector.predict(at_level(simulate(400, seed=8), np.ones(400))) == -1).mean() <= 0.01  # from the first row


def test_a_level_of_no_campaign_is_an_incident(detector):
    X = at_level(simulate(500, seed=9), -1.0 * (np.arange(500) >= 200))
    assert ((detector.incidents(X).detected - 200).between(0, 20)).any()


def test_a_fault_in_a_campaign_is_named(detector):
    found = []
    for seed in range(4):
        X = at_level(simulate(600, seed=20 + seed, fault=1, at=400), np.arange(600) >= 200)
        found += detector.incidents(X).query("detected >= 400").root.tolist()[:1]
    assert found.count("unit1") >= 3


def test_attribution_knows_the_campaign_by_the_rows_before(detector):
    quiet = at_level(simulate(400, seed=31), np.ones(400))
    assert detector.attribute(quiet, start=200).probability.max() < 0.6  # a fault too small to be seen may be there
    faulty = at_level(simulate(400, seed=31, fault=1), np.ones(400))
    told = detector.attribute(faulty, start=200)
    assert told.client.iloc[0] == "unit1"
    assert told.probability.iloc[0] > 0.9


def test_streams_tell_of_a_switch_what_the_whole_record_tells(detector, switching):
    X, _ = switching
    batches = [rows(X, k, k + 30) for k in range(0, 900, 30)]
    roots = np.full(900, "?", dtype=object)
    for where, part in detector.predict_root_cause(iter(batches)):
        roots[where] = part
    assert_array_equal(roots.astype(str), detector.predict_root_cause(X))
    told = pd.concat(list(detector.incidents(iter(batches)))).drop_duplicates("detected", keep="last")
    whole = detector.incidents(X)
    assert told[told.kind != "switch"].detected.tolist() == whole.detected.tolist()
    assert detector.alarms_["n_alarms"] == len(whole[whole.kind != "drift"])


def test_one_campaign_has_the_plant_of_a_fit_without_levels(campaigns):
    plain = FederatedRCADetector(false_alarm_rate=1e-2).fit(campaigns[0])
    told = FederatedRCADetector(false_alarm_rate=1e-2, baseline=Baseline(levels="episode")).fit(campaigns[0])
    np.testing.assert_allclose(told.transition_, plain.transition_, rtol=1e-10)


@pytest.fixture(scope="module")
def one_record():
    return at_level(simulate(2500, seed=1), np.arange(2500) >= 1500)


@pytest.fixture(scope="module")
def untold(one_record):
    with pytest.warns(UserWarning, match="rows 0 to 1[45].. at level 1; rows 15.. to 2499 at level 2. They are taken"):
        return FederatedRCADetector().fit(one_record)


def test_levels_that_nobody_told_of_are_found(untold, switching):
    X, mode = switching
    assert (untold.predict(X) == -1).mean() <= 0.01
    found = untold.incidents(X).detected.to_numpy()
    assert not any(((found >= row) & (found < row + 40)).any() for row in np.flatnonzero(np.diff(mode)))


def test_a_fault_at_a_level_that_nobody_told_of_is_named(untold, tmp_path):
    found = []
    for seed in range(4):
        X = at_level(simulate(600, seed=20 + seed, fault=1, at=400), np.arange(600) >= 200)
        incidents = untold.incidents(X).query("detected >= 400")
        found += incidents.root.tolist()[:1]
    assert found.count("unit1") >= 3
    assert "ran at 2 operating levels" in untold.report(incidents, tmp_path / "page.html").read_text()


def test_all_packets_of_both_fits_are_counted(untold, one_record, campaigns):
    once = FederatedRCADetector(baseline=Baseline(levels=None)).fit(one_record)
    rounds = [entry.round for entry in once.ledger_.entries]
    assert [entry.round for entry in untold.ledger_.entries][: 2 * len(rounds)] == [
        *rounds,
        *(k + max(rounds) for k in rounds),
    ]
    assert untold.communication_["bytes_up"] > 2 * once.communication_["bytes_up"]
    assert untold.communication_["bytes_up"] <= untold.ledger_.total("up")  # what is watched since is counted too
    assert untold.ledger_.total("up") == sum(e.n_bytes for e in untold.ledger_.entries if e.direction == "up")
    with pytest.raises(ValueError, match="one nominal level"):
        untold.partial_fit(campaigns[0])


def test_without_a_second_fit_levels_are_told_only(one_record):
    client = KalmanClient(n_states="auto")
    with pytest.warns(UserWarning, match="Nothing was done about that here"):
        told = FederatedRCADetector(client).fit(one_record)
    assert not told._root_cause.campaigns


def test_levels_that_cannot_be_learned_from_are_told_and_the_fit_stays(one_record, switching):
    mode = (np.arange(2500) >= 1500).astype(float)
    record = {**one_record, "copy": one_record["unit0"] + 30.0 * mode[:, None]}  # one unit twice at each level
    with pytest.warns(UserWarning, match="the detector cannot be fitted to what is between them: .* send the same"):
        kept = FederatedRCADetector().fit(record)
    once = FederatedRCADetector(baseline=Baseline(levels=None)).fit(record)
    assert kept.thresholds_ == once.thresholds_
    assert kept.communication_["bytes_up"] > once.communication_["bytes_up"]  # the units were asked twice
    X = {**switching[0], "copy": switching[0]["unit0"]}
    assert_array_equal(kept.predict(X), once.predict(X))


def test_a_budget_that_the_record_cannot_support_is_told_once():
    short = at_level(simulate(1600, seed=1), np.arange(1600) >= 800)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        FederatedRCADetector().fit(short)
    said = [str(one.message) for one in told]
    assert [message.startswith("One false alarm per 1000") for message in said].count(True) == 1
    assert any("They are taken as" in message for message in said)


def test_levels_need_rows_and_states(campaigns, detector):
    short = [campaigns[0], {name: Y[:50] for name, Y in campaigns[1].items()}]
    with pytest.raises(ValueError, match="Episodes '1' have at most 60 rows"):
        FederatedRCADetector(false_alarm_rate=1e-2, baseline=Baseline(levels="episode")).fit(short)
    with pytest.raises(ValueError, match="needs the levels of states"):
        FederatedRCADetector(baseline=Baseline(levels="episode"), evidence="flags").fit(campaigns)
    with pytest.raises(ValueError, match="one nominal level"):
        detector.partial_fit(campaigns[0])
    with pytest.raises(ValueError, match="in this process"):
        FederatedRCADetector(baseline=Baseline(levels="episode")).fit_sites(None)


# --- modes that are told ------------------------------------------------------------------------------


def _told(X, mode):
    names = [*map("s{}".format, range(next(iter(X.values())).shape[1])), "mode"]
    return {name: pd.DataFrame(np.column_stack([Y, mode]), columns=names) for name, Y in X.items()}


@pytest.fixture(scope="module")
def moded():
    mode = np.arange(2500) // 250 % 2
    X = _told(at_level(simulate(2500, seed=1), mode), mode)
    return FederatedRCADetector(client=KalmanClient(n_states="auto", baseline=Baseline(mode="mode"))).fit(X)


def test_units_take_the_level_of_their_mode_off(moded, switching):
    X, mode = switching
    assert (moded.predict(_told(X, mode)) == -1).mean() <= 0.01
    X = at_level(simulate(600, seed=21, fault=1, at=400), mode[:600])
    assert moded.incidents(_told(X, mode[:600])).query("detected >= 400").root.iloc[0] == "unit1"


def test_a_mode_never_seen_is_named_and_is_no_incident(moded, switching):
    X, mode = switching
    told = _told(X, np.where(np.arange(900) // 100 == 6, 2, mode))
    with pytest.raises(ValueError, match="which did not occur in `fit`"):
        moded.incidents(told)
    moded.reset()
    for k in range(0, 900, 100):
        batch = {name: Y.iloc[k : k + 100] for name, Y in told.items()}
        if k != 600:
            moded.update(batch)
            continue
        with pytest.warns(UserWarning, match="100 rows of unit 'unit.' are in mode.s. 2.0, which did not occur"):
            moded.update(batch)
    assert moded.alarms_["in_alarm"] <= 0.01
