"""Inputs of a watched plant: of several units, as words, and set after the row that they stand in."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from skfedcausal import Baseline, FederatedRCADetector, LikelihoodServer
from skfedcausal.streams import StreamWarning

N, NOMINAL = 2400, 1600


def _plant(seed=3, words=False, follows=False):
    """Steam acts on a and b, a grade (or a valve that follows a in its own row) on b; b's process breaks at 2100."""
    rng = np.random.default_rng(seed)
    steam = np.repeat(rng.uniform(-2, 2, N // 40), 40)
    grade = np.repeat(rng.choice(["fine", "coarse"], N // 60), 60).astype(object)
    h, valve, rows = np.zeros(2), np.zeros(N), []
    for t in range(N):
        push = np.array([0.8, -0.5]) * (steam[t - 1] if t else 0.0)
        push[1] += 1.2 * (grade[t - 1] == "coarse") if words and t else 0.0
        push[1] += 0.5 * valve[t - 1] if follows and t else 0.0
        push[1] += 1.5 if t >= 2100 else 0.0
        h = np.array([0.7, 0.6]) * h + push + 0.4 * rng.standard_normal(2)
        rows.append(np.repeat(h, 3) * [1, 0.8, 1.2, 1, 0.7, 0.9] + 0.3 * rng.standard_normal(6))
        valve[t] = -0.6 * rows[-1][3] if follows else 0.0
    X = pd.DataFrame(rows, columns=[f"{unit}__s{k}" for unit in "ab" for k in range(3)])
    return X, steam, grade, valve


def _detector(**settings):
    return FederatedRCADetector(false_alarm_rate=2e-3, **settings)


def _labels(detector, parts):
    found = {}
    for where, roots in detector.predict_root_cause(iter(parts)):
        found |= dict(zip(range(where.start, where.stop), roots, strict=True))
    return np.array([found[k] for k in range(len(found))])


@pytest.mark.medium
def test_an_input_of_several_units_is_declared_as_for_counterfactuals():
    X, steam, _, _ = _plant()
    table = X.assign(plant__steam=steam)
    inside = _detector(input_columns={"plant__steam": ["a", "b"]}).fit(table[:NOMINAL])
    assert inside.client_names_ == ("a", "b")
    roots = inside.predict_root_cause(table[NOMINAL:])
    assert (roots[500:540] == "b").mean() > 0.8
    units = {unit: X[[name for name in X if name.startswith(unit)]] for unit in "ab"}
    late, early = ({name: Y[rows] for name, Y in units.items()} for rows in (slice(NOMINAL, None), slice(NOMINAL)))
    beside = _detector().fit(early, inputs={("a", "b"): steam[:NOMINAL, None]})
    assert_array_equal(beside.predict_root_cause(late, inputs={("a", "b"): steam[NOMINAL:, None]}), roots)
    cuts = [slice(k, k + 50) for k in range(0, N - NOMINAL, 50)]
    parts = [({n: Y[c] for n, Y in late.items()}, {("a", "b"): steam[NOMINAL:, None][c]}) for c in cuts]
    assert_array_equal(_labels(beside, parts), roots)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"plant__steam": ["a", "z"]}, "'plant__steam' is said to act on 'z'"),
        ({"plant__steam": []}, "does not say on which units 'plant__steam' acts"),
        ({"plant__none": ["a"]}, "'plant__none' in `input_columns`, which X does not have"),
    ],
)
def test_wrong_declarations_are_named(columns, words):
    X, steam, _, _ = _plant()
    with pytest.raises(ValueError, match=words):
        _detector(input_columns=columns).fit(X.assign(plant__steam=steam))


@pytest.mark.medium
def test_inputs_that_are_words_have_a_level_each():
    X, steam, grade, _ = _plant(words=True)
    table = X.assign(a__steam=steam, b__grade=grade)
    columns = ["a__steam", "b__grade"]
    detector = _detector(input_columns=columns).fit(table[:NOMINAL])
    roots = detector.predict_root_cause(table[NOMINAL:])
    coded = table.assign(b__grade=(grade == "fine").astype(float))
    assert_array_equal(
        _detector(input_columns=columns).fit(coded[:NOMINAL]).transform(coded[NOMINAL:]),
        detector.transform(table[NOMINAL:]),
    )
    assert (roots[500:540] == "b").mean() > 0.8
    assert_array_equal(_labels(detector, [table[k : k + 37] for k in range(NOMINAL, N, 37)]), roots)
    other = table[NOMINAL:].copy()
    other.loc[other.index[100:110], "b__grade"] = "unheard"
    with pytest.warns(UserWarning, match="'unheard' of 'b__grade' was not in what was nominal"):
        detector.predict_root_cause(other)
    with pytest.raises(ValueError, match=r"Inputs of words \('b__grade'\) and levels='episode' do not go together"):
        _detector(input_columns=columns, baseline=Baseline(levels="episode")).fit(table[:NOMINAL])


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore:Input 'b__valve' is beyond")  # which the fault drives it to
def test_an_input_set_after_its_row_explains_nothing_of_it():
    X, steam, _, valve = _plant(follows=True)
    table = X.assign(a__steam=steam, b__valve=valve)
    columns = ["a__steam", "b__valve"]
    late = _detector(input_columns=columns, sampled={"b__valve": "after"}).fit(table[:NOMINAL])
    # the same as a column that its user has moved down
    early, rest = (
        part.assign(b__valve=np.append(part["b__valve"].iloc[0], part["b__valve"].iloc[:-1]))
        for part in (table[:NOMINAL], table[NOMINAL:])
    )
    by_hand = _detector(input_columns=columns).fit(early)
    roots = late.predict_root_cause(table[NOMINAL:])
    assert_array_equal(late.transform(table[NOMINAL:]), by_hand.transform(rest))
    for size in (1, 37):
        assert_array_equal(_labels(late, [table[k : k + size] for k in range(NOMINAL, N, size)]), roots)
    again = pickle.loads(pickle.dumps(late))
    assert_array_equal(again.predict_root_cause(table[NOMINAL:]), roots)
    assert clone(late).sampled == {"b__valve": "after"}


def test_timing_that_cannot_be_read_is_named():
    X, steam, _, _ = _plant()
    table = X.assign(a__steam=steam)
    for sampled, words in (
        ({"a__steam": "late"}, "sampled='late' for input 'a__steam'"),
        ({"z": "after"}, "names 'z'"),
    ):
        with pytest.raises(ValueError, match=words):
            _detector(input_columns=["a__steam"], sampled=sampled).fit(table)
    with pytest.raises(ValueError, match="sampled='after' of 'a__steam' is for plants that a MomentServer learns"):
        _detector(input_columns=["a__steam"], sampled="after", server=LikelihoodServer()).fit(table)


@pytest.mark.medium
def test_inputs_beyond_what_was_nominal_are_told_and_alarms_take_more_evidence_there():
    X, steam, grade, _ = _plant(words=True)
    table = X.assign(a__steam=steam, b__grade=grade)
    detector = _detector(input_columns=["a__steam", "b__grade"]).fit(table[:NOMINAL])
    low, high = steam[:NOMINAL].min(), steam[:NOMINAL].max()
    assert detector.input_ranges_ == {"a__steam": (low, high)}
    later = table[NOMINAL:].reset_index(drop=True)
    later["a__steam"] = later["a__steam"].clip(low, high)
    inside = detector.transform(later)
    far = later.copy()
    far.loc[200:259, "a__steam"] = high + 1.5 * (high - low)
    with pytest.warns(UserWarning, match="'a__steam' is beyond what was nominal") as told:
        outside = detector.transform(far)
    assert len(told) == 1
    assert_array_equal(outside[:200], inside[:200])
    with pytest.warns(UserWarning, match="beyond"):
        roots = detector.predict_root_cause(far)
    parts = [far[k : k + 33] for k in range(0, len(far), 33)]
    with pytest.warns(StreamWarning, match="beyond") as told:
        found = _labels(detector, parts)
    assert len(told) == 1  # and not again in the batches that it goes on in
    assert_array_equal(found, roots)
    assert (roots[500:540] == "b").mean() > 0.8


@pytest.mark.medium
def test_nothing_is_told_of_inputs_within_what_was_nominal():
    X, steam, _, _ = _plant()
    table = X.assign(a__steam=steam)
    detector = _detector(input_columns=["a__steam"]).fit(table[:NOMINAL])
    later = table[NOMINAL:].reset_index(drop=True)
    later["a__steam"] = later["a__steam"].clip(*detector.input_ranges_["a__steam"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roots = detector.predict_root_cause(later)
        assert_array_equal(_labels(detector, [later[k : k + 1] for k in range(len(later))]), roots)
