"""What curves of the states do to the next ones is taken off before rows are judged."""

import pickle

import numpy as np
import pytest

import skfedcausal
from skfedcausal import FederatedRCADetector
from skfedcausal.server.watching.incidents import OUTSIDE

from ._rows import evidence

SHAPES = {
    "line": lambda cause, own: cause,
    "size": lambda cause, own: np.abs(cause) - 0.8,
    "product": lambda cause, own: np.tanh(cause) * np.tanh(own),
    "wave": lambda cause, own: np.sin(2 * cause),
}


def record(shape, seed, n_samples, faults=(), strength=0.9, size=2.5, rows=10, pole=0.6):
    """Three units in a chain, each of one state seen by three sensors; a fault pushes a unit for ten `rows`.

    The first unit has a `pole` of its own, and the same variance with any.
    """
    rng, h = np.random.default_rng(seed), np.zeros((n_samples, 3))
    push = 0.8 * rng.standard_normal(h.shape)
    push[:, 0] *= np.sqrt((1 - pole**2) / (1 - 0.6**2))
    for at, unit in faults:
        push[at : at + rows, unit] += size
    for t in range(1, n_samples):
        h[t] = np.array([pole, 0.6, 0.6]) * h[t - 1] + push[t]
        for effect in (1, 2):
            h[t, effect] += strength * SHAPES[shape](h[t - 1, effect - 1], h[t - 1, effect])
    noise = 0.1 * rng.standard_normal((n_samples, 3, 3))
    return {f"u{m}": h[:, [m]] * [1.0, -0.7, 0.5] + noise[:, m] for m in range(3)}


def bends_of(detector):
    return detector._root_cause._bends


@pytest.fixture(scope="module")
def detector():
    return FederatedRCADetector().fit(record("size", 1, 3000))


def right_of(detector, shape, size):
    """Of twelve faults how many are named right."""
    faults = [(100 + 100 * k, k % 2) for k in range(12)]
    found = detector.incidents(record(shape, 2, 1300, faults, size=size))
    return sum(
        list(found["root"][(found["detected"] >= at) & (found["detected"] < at + 30)])[:1] == [f"u{unit}"]
        for at, unit in faults
    )


def test_the_root_is_named_along_curves(detector):
    assert right_of(detector, "size", 2.5) >= 10


def test_a_victim_that_acts_along_a_curve_is_not_named_for_the_root():
    assert right_of(FederatedRCADetector().fit(record("wave", 1, 6000)), "wave", 2.5) >= 10


@pytest.mark.parametrize("shape", ["size", "product", "wave"])
def test_no_victim_of_a_slow_cause_along_a_curve_is_named(shape):
    """The cause moves to four deviations in 150 rows; within pieces of 25 rows it hardly moves."""
    detector = FederatedRCADetector().fit(record(shape, 1, 6000, pole=0.98))
    fault = {"size": 0.08, "rows": 150, "pole": 0.98}
    found = [detector.incidents(record(shape, seed, 700, [(400, 0)], **fault)) for seed in (2, 3, 5, 6)]
    during = [of[(of["detected"] >= 400) & (of["probability"] >= 0.6)]["root"].tolist() for of in found]
    assert sum("u1" in roots for roots in during) <= 1
    assert sum("u0" in roots for roots in during) >= 2


def test_a_plant_of_lines_has_no_curves():
    for seed in range(2):
        assert bends_of(FederatedRCADetector().fit(record("line", seed, 2000, strength=0.4))) is None


def test_curves_enter_the_states_that_they_move(detector):
    bends = bends_of(detector).bends
    slices = bends_of(detector).slices
    assert {m for m, own in enumerate(slices) for effect in bends if own.start <= effect < own.stop} == {1, 2}


def test_products_of_states_are_taken_off():
    assert bends_of(FederatedRCADetector().fit(record("product", 1, 4000))) is not None


@pytest.mark.filterwarnings("ignore:One false alarm")
def test_short_records_are_watched_along_lines():
    assert bends_of(FederatedRCADetector().fit(record("size", 1, 280))) is None


def test_rows_one_by_one_are_judged_as_all_at_once(detector):
    new = record("size", 3, 260, [(120, 0)])
    detector.reset()
    one_by_one = {}
    for t in range(260):
        found = detector.update({name: rows[t : t + 1] for name, rows in new.items()})
        one_by_one |= dict(zip(found["detected"], found["root"], strict=True))
    whole = detector.incidents(new)
    assert one_by_one
    assert one_by_one == dict(zip(whole["detected"], whole["root"], strict=True))


def test_what_is_known_ends_where_the_record_ended(detector):
    response = bends_of(detector)
    x = np.tile(response.level, (2, 1))
    there = np.ones(x.shape, dtype=bool)
    near, far = x.copy(), x.copy()
    near[0, 0] += response.scale[0]
    far[0, 0] += 12 * response.scale[0]
    unsure = [response.follow(rows, there, None)[1][1, 1] for rows in (near, far)]
    assert unsure[0] < 0.1 < 1 < unsure[1]


def test_of_absent_units_curves_are_at_their_mean(detector):
    response = bends_of(detector)
    x = np.tile(response.level + 3 * response.scale, (2, 1))
    moved, unsure, _ = response.follow(x, np.zeros(x.shape, dtype=bool), None)
    assert not moved.any()
    assert not unsure.any()


def test_news_that_may_be_an_error_of_curves_counts_for_less():
    rows = evidence(2, 2, unsure=np.array([[0.0, 0.0], [0.0, 3.0]]))
    assert rows.known(0) == 1.0
    assert rows.known(1) == pytest.approx((1 + 1 / 4) / 2)


@pytest.mark.parametrize("shape", ["product", "line"])
def test_alarms_where_states_act_along_curves_that_were_not_seen_are_told_as_such(shape):
    detector = FederatedRCADetector().fit(record(shape, 1, 4000))
    for lasting, size, seen in ((600, 4.0, shape == "line"), (10, 2.5, True)):
        kinds = detector.incidents(record(shape, 2, 900, [(300, 0)], size=size, rows=lasting))["kind"]
        assert (OUTSIDE not in kinds.tolist()) == seen


def test_a_detector_with_curves_is_kept(detector):
    new = record("size", 4, 300, [(150, 0)])
    again = pickle.loads(pickle.dumps(detector))
    assert again.incidents(new).equals(detector.incidents(new))


def test_a_detector_along_curves_is_kept_with_where_its_stream_stands(detector, tmp_path):
    known, rest = record("size", 2, 200), record("size", 3, 200)
    detector.reset()
    detector.update(known)
    skfedcausal.save(detector, tmp_path / "detector.skfc")
    kept = skfedcausal.load(tmp_path / "detector.skfc")
    np.testing.assert_array_equal(kept.update(rest), detector.update(rest))
    assert bends_of(kept) is not None
