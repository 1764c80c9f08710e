"""Operating points that a watch moves to, and faults that go on between two alarms."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal import FederatedRCADetector
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.watching.incidents import Incident, Verdict
from skfedcausal.server.watching.operating import FOLLOWED, Level, OperatingPoint
from skfedcausal.server.watching.stream import Standing, StreamState, _compare_with_last, _point_after, _turn, settled
from skfedcausal.statespace.detection.shift import ConditionalEnergy

from ._rows import evidence

BLOCKS = (slice(0, 2), slice(2, 4))
SERVER = SimpleNamespace(
    monitor=SimpleNamespace(energy=ConditionalEnergy(np.eye(4), BLOCKS)),
    slices=BLOCKS,
    state_dims=np.array([2, 2]),
    usual_inside=np.array([2.0, 2.0]),
    usual_distance=np.array([1.0, 1.0]),
    level=SimpleNamespace(ahead=lambda rows, level, most: -1.0),
)


def test_surprises_are_as_usual_again_once_they_settle():
    """Factors of an operating point are those of its own rows, whatever they were at the one before."""
    rng = np.random.default_rng(0)
    point = OperatingPoint.nominal(4, 2)
    for spread in (5.0, 1.0):
        outside = np.full((60, 2), spread**2) / point.outside  # as seen from the present operating point
        rows = evidence(60, 2, 4, errors=spread * rng.standard_normal((60, 4)), outside=outside, distance=outside)
        point = settled(SERVER, rows, point)
        assert_allclose([point.own, point.given], spread**2, rtol=0.5)
        assert_allclose([point.outside, point.whole], spread**2)


def alarm(detected, last, excess):
    told = Verdict(detected, detected, last, False, "energy", np.array([1.0, 0.0]), np.array([detected, -1]), "")
    excess = np.array([excess, 1.0])
    return Incident(detected, last, 2.0, open=False, verdict=told, level=np.zeros(4), excess=excess)


@pytest.mark.parametrize(
    ("loud", "surprise", "excess", "goes_on"),
    [
        ((0, 100), 2.0, 4.0, True),
        ((60, 100), 2.0, 4.0, False),
        ((0, 40), 2.0, 4.0, False),
        ((0, 100), 1.3, 4.0, False),  # beyond chance, but likelier nominal than of scale 2: 1.3 (1 - 1/2) < log 2
    ],
)
def test_a_fault_goes_on_if_all_rows_between_two_alarms_show_it(loud, surprise, excess, goes_on):
    surplus = np.ones((100, 2))
    surplus[slice(*loud), 0] = surprise
    state = StreamState(point=OperatingPoint.nominal(4, 2), last=alarm(0, 1, excess))
    later = Incident(99, 99, 2.0)
    _compare_with_last(SERVER, later, evidence(100, 2, 4, surplus=surplus), state)
    assert later.resumes.tolist() == [goes_on, False]


@pytest.mark.parametrize(("detected", "compared"), [(9, False), (10, True)])
def test_a_pause_is_compared_with_a_fault_where_each_half_has_a_row(detected, compared):
    state, later = (
        StreamState(point=OperatingPoint.nominal(4, 2), last=alarm(0, 1, 1.0)),
        Incident(detected, detected, 2.0),
    )
    _compare_with_last(SERVER, later, evidence(detected + 1, 2, 4, surplus=np.full((detected + 1, 2), 9.0)), state)
    assert (later.resumes is not None) == compared


def test_what_stood_at_another_level_only_ends_with_it():
    """What stood before, of whatever kind, goes on until its own evidence is as usual."""
    nominal = OperatingPoint.nominal(4, 2)
    away = replace(nominal.moved(np.ones(4), np.zeros(4)), lasting=frozenset({10}))
    before, there, back = alarm(5, 6, 1.0), alarm(50, 60, 1.0), alarm(190, 199, 1.0)
    there.lasting = away.lasting
    state = StreamState(point=away, known=[nominal], incidents=[back])
    state.standing = [Standing(before, 2, 0), Standing(there, 2, 0)]
    server = SimpleNamespace(**vars(SERVER), nominal_point=nominal)
    (ended,) = _turn(server, nominal, evidence(200, 2, 4), state)
    assert ended.verdict.ends == {10, 50}
    assert [one.incident for one in state.standing] == [before]


@pytest.mark.parametrize(("n_rows", "known"), [(20, False), (40, True)])
def test_a_small_move_back_is_known_by_twice_as_many_rows(n_rows, known):
    nominal = OperatingPoint.nominal(4, 2)
    energy = ConditionalEnergy(np.eye(4), BLOCKS)
    server = SimpleNamespace(level=Level(energy, 1.0, 10**6, 100, SERVER.state_dims))
    away = nominal.moved(np.array([0.7, 0.0, 0.0, 0.0]), np.zeros(4))  # 20 rows: 4.9 of the 6 that are needed
    rows = evidence(n_rows, 2, 4, errors=np.tile([-0.7, 0.0, 0.0, 0.0], (n_rows, 1)))
    found = _point_after(server, Incident(0, n_rows - 1, 2.0), rows, StreamState(point=away, known=[nominal]))
    assert (found is nominal) == known


@pytest.mark.medium
def test_a_sensor_that_is_missing_for_long_is_no_drift():
    """What is left of the unit is noisier than its nominal rows, and a mean of noise is no level."""
    X, _ = make_granger_plant(3, n_sensors=2, n_samples=7000, container="frame", random_state=0)
    X["unit0__s1"] += 6 * X["unit0__s1"].std() * np.random.default_rng(0).standard_normal(len(X))
    watched = X[4000:].copy()
    watched.iloc[600:1500, 0] = np.nan
    incidents = FederatedRCADetector(false_alarm_rate=5e-4).fit(X[:4000]).incidents(watched)
    assert "drift" not in set(incidents["kind"])


def test_a_drift_is_told_at_half_a_deviation_and_later_where_few_blocks_show_how_far_levels_move():
    """Nominal blocks as scattered as the present one tell hardly any drift, however few they are."""
    energy, moved = ConditionalEnergy(np.eye(2), (slice(0, 2),)), np.array([0.5, 0.0])
    known = [Level(energy, 1.0, k * FOLLOWED, k, np.array([2])).size(moved)[0] for k in (2, 3, 40)]
    assert_allclose(known[2], 1.0)
    assert known[0] < known[1] < known[2]
    rng, told = np.random.default_rng(0), 0
    for _ in range(2000):
        wander = rng.standard_normal((4, 2))
        slow = max(1.0, (wander[:3] ** 2).mean())
        told += Level(energy, slow, 3 * FOLLOWED, 3, np.array([2])).size(wander[3] / np.sqrt(FOLLOWED))[0] >= 1
    assert told <= 0.01 * 2000


@pytest.mark.medium
def test_an_alarm_is_not_judged_by_the_rows_of_a_fault_that_begins_after_it():
    """False alarms are said to be what they were before a large fault of another unit began 40 rows later."""
    X, _ = make_granger_plant(3, n_samples=7000, random_state=0)
    detector = FederatedRCADetector(false_alarm_rate=0.005).fit({name: Y[:3000] for name, Y in X.items()})
    quiet = {name: Y[3000:] for name, Y in X.items()}
    told = []
    for row in detector.incidents(quiet)["detected"]:
        if 210 <= row < 3860:
            record = {name: Y[row - 200 : row + 140].copy() for name, Y in quiet.items()}
            alone = detector.incidents({name: Y[:240] for name, Y in record.items()})
            record["unit2"][240:250] += 3 * quiet["unit2"].std(axis=0)
            found = detector.incidents(record)
            told.append([one[one["detected"] == 200]["root"].tolist() for one in (alone, found)])
    same = [one == other for one, other in told if one and other]
    assert len(same) >= 10
    assert np.mean(same) > 0.9


@pytest.mark.medium
def test_what_is_of_which_fault_does_not_depend_on_how_rows_come():
    """An alarm is compared with the fault before it as that was known then, not with what later rows tell of it."""
    X, _ = make_granger_plant(n_units=3, links=[("unit0", "unit1")], n_samples=2000, random_state=9)
    watched, rng = {name: Y[1200:].copy() for name, Y in X.items()}, np.random.default_rng(9)
    for first in rng.choice(np.arange(20, 760), 10, replace=False):
        name = f"unit{rng.integers(3)}"
        there = slice(first, first + rng.integers(3, 60))
        size = rng.uniform(0.8, 3) * X[name][:1200].std(axis=0)
        watched[name][there] += size * rng.choice([-1, 1], size=X[name].shape[1])
    detector = FederatedRCADetector(false_alarm_rate=3e-3).fit({name: Y[:1200] for name, Y in X.items()})
    detector.reset()
    for k in range(800):
        detector.update({name: Y[k : k + 1] for name, Y in watched.items()})
    alone, whole = detector._stream.table(), detector.incidents(watched)
    assert alone[["detected", "root", "status"]].equals(whole[["detected", "root", "status"]])
