"""Units of nothing but status bits."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats

from skfedcausal import FederatedRCADetector
from skfedcausal.client.watching import Dither, is_status
from skfedcausal.datasets import make_granger_plant


def test_dither_is_normal_and_the_same_in_every_cut():
    dither = Dither.learn("pump", np.array([[0.0, 5.0, 1.0], [1.0, 5.0, np.nan]]))
    assert dither.spread.tolist() == [0.1, 0.5, 0.1]
    whole, last = dither.of(np.zeros((999, 3)))
    assert last == 998
    assert stats.kstest((whole / dither.spread).ravel(), "norm").pvalue > 0.001
    after, parts = None, []
    for n_rows in (1, 2, 3, 500, 493):
        part, after = dither.of(np.zeros((n_rows, 3)), after=after)
        parts.append(part)
    assert_array_equal(np.concatenate(parts), whole)
    other, _ = Dither.learn("valve", np.ones((2, 3))).of(np.zeros((999, 3)))
    assert abs(np.corrcoef(other[:, 0], whole[:, 0])[0, 1]) < 4 / np.sqrt(999)


def test_watched_rows_get_half_of_the_dither_however_they_come(detector):
    dither = Dither.learn("pump", np.array([[0.0, 5.0], [1.0, 5.0]]))
    assert_array_equal(dither.watched.of(np.zeros((9, 2)))[0], dither.of(np.zeros((9, 2)))[0] / 2)
    assert dither.watched.watched == dither.watched
    ones = plant(200, 2)
    detector.reset()
    parts = [{name: Y[k : k + 50] for name, Y in ones.items()} for k in range(0, 200, 50)]
    found = {row for part in parts for row in detector.update(part)["detected"]}  # some are told again, revised
    detector.reset()
    assert found == set(detector.incidents(ones)["detected"])
    assert not detector._units["ok"]["client"].baseline_.is_watched  # rows that are learned from later get all of it


@pytest.mark.medium
def test_dither_alone_raises_no_alarm():
    for seed in range(3):  # ten of each are asked for, and nothing moves
        bits = {f"ok{seed}{k}": np.ones((3000, 2)) for k in range(4)}
        detector = FederatedRCADetector(false_alarm_rate=0.01).fit(bits)
        assert len(detector.incidents({name: Y[:1000] for name, Y in bits.items()})) == 0


def test_what_is_a_status():
    bits = np.random.default_rng(0).integers(0, 2, (1500, 2)).astype(float)
    assert is_status(bits)
    assert is_status(np.full((1500, 1), 3.0))
    assert not is_status(np.column_stack([bits, np.arange(1500.0)]))
    late = bits.copy()
    late[-1, 0] = 0.5
    assert not is_status(late)
    seen_twice = np.full((1500, 1), np.nan)
    seen_twice[[3, 700]] = 1.0
    assert not is_status(seen_twice)


@pytest.fixture(scope="module")
def detector():
    """Two ordinary units, one of two constant bits, one of a bit and one that is its opposite."""
    return FederatedRCADetector(false_alarm_rate=0.01).fit(plant(800, 0))


def plant(n_rows, seed):
    X, _ = make_granger_plant(2, n_samples=3000, random_state=0)
    rng = np.random.default_rng(seed)
    first = 1000 * seed
    bit = (np.cumsum(rng.random(n_rows) < 0.05) % 2).astype(float)
    X = {name: Y[first : first + n_rows] for name, Y in X.items()}
    return X | {"ok": np.ones((n_rows, 2)), "open": bit[:, None], "closed": 1 - bit[:, None]}


def test_a_bit_that_never_moved_names_its_unit(detector):
    watched = plant(300, 1)
    watched["ok"][200:, 1] = 0.0
    found = detector.incidents(watched)
    found = found[found["detected"] == 200].iloc[0]
    assert (found["root"], found["kind"]) == ("ok", "status")
    assert detector.attribute(watched, start=200, end=260).client[0] == "ok"


def test_copies_that_part_are_noticed(detector):
    watched = plant(300, 1)
    watched["closed"][200:] = 1.0
    found = detector.incidents(watched).query("detected >= 200")
    assert len(found)
    assert set(found["root"]) <= {"open", "closed", "undecided"}
