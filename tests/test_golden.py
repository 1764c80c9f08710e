"""The machinery of the golden run: what it notices, what it refuses, and what it says."""

import gzip
import json
import subprocess

import numpy as np
import pandas as pd
import pytest

from tests.golden import store
from tests.golden.command import compared
from tests.golden.compare import differing, differing_bits
from tests.golden.leaves import leaves
from tests.golden.packed import packed
from tests.golden.run import Answered
from tests.golden.through_file import answered_through_files

TABLE = pd.DataFrame({"cause": ["a", "b"], "strength": [0.5, -0.25], "p_value": [1e-12, 0.5], "n": [3, 4]})


def stored(answer):
    """An answer as it comes back from a file."""
    return json.loads(json.dumps({path: packed(leaf, path) for path, leaf in leaves(answer).items()}))


def difference(one, two, tolerance=1e-9):
    return differing(stored(one), stored(two), lambda path: tolerance)


def changed(table, column, value, row=1):
    other = table.copy()
    other.loc[row, column] = value
    return other


def test_the_same_answer_is_the_same():
    answer = {"table": TABLE, "array": np.arange(90.0), "text": "influence", "nothing": None, "some": [1.5, np.nan]}
    assert difference(answer, answer) is None
    assert differing_bits(leaves(answer), leaves(answer)) is None


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("strength", 0.25, "strength[1]: stored -0.25, now 0.25"),
        ("cause", "c", "cause[1]: stored 'b', now 'c'"),
        ("n", 5, "n[1]: stored 4.0, now 5.0 (whole numbers)"),
        ("p_value", 0.4, "logarithms of p values"),
    ],
)
def test_a_difference_is_named_with_both_numbers(column, value, words):
    assert words in str(difference(TABLE, changed(TABLE, column, value)))


@pytest.mark.parametrize("place", [0, 1, 500, 998, 999])
@pytest.mark.parametrize("value", [1.0, 1e-4])
def test_a_flipped_sign_shows_wherever_it_is_in_a_long_array(place, value):
    values = np.random.default_rng(0).standard_normal((250, 4))
    values.flat[place] = value
    other = values.copy()
    other.flat[place] = -value
    found = difference(values, other)
    first, stop = (int(number) for number in f"{found.path.strip('[]')}:{place + 1}".split(":")[:2])
    assert first <= place < stop


def test_entries_that_change_places_show():
    values = np.random.default_rng(0).standard_normal(1000)
    other = values.copy()
    other[[500, 501]] = values[[501, 500]]
    assert difference(values, other) is not None


def test_rounding_does_not_show_and_more_does():
    values = np.random.default_rng(0).standard_normal(1000)
    assert difference(values, values + 1e-10) is None
    assert difference(values, values + 1e-7) is not None
    assert difference(values, values + 1e-7, 1e-6) is None
    assert difference(np.array([1e3, 1e-7]), np.array([1e3, -1e-7])) is None  # both are zero on the scale of the array


def test_p_values_are_compared_by_their_logarithms():
    one, two = (pd.DataFrame({"p_value": [p, 1.0]}) for p in (1e-200, 2e-200))
    assert difference(one, two) is not None
    zero, none = (pd.DataFrame({"p_value": [p, 1.0]}) for p in (0.0, 1e-310))
    assert difference(zero, none) is None


def test_gaps_of_a_long_array_are_compared_as_they_are():
    values = np.arange(100.0)
    one, two = values.copy(), values.copy()
    one[50], two[51] = np.nan, np.nan
    assert difference(one, two).path == "not finite" or "not finite" in str(difference(one, two))


def test_bits_are_compared_between_two_ways():
    one = leaves({"x": np.array([1.0, np.nan, 0.1 + 0.2])})
    two = leaves({"x": np.array([1.0, np.nan, 0.3])})
    words = "x[2]: by the fit 0.30000000000000004, now 0.3 (every bit is promised)"
    assert str(differing_bits(one, two)) == words
    assert "words[1]: by the fit 'b', now 'c'" in str(differing_bits(*(leaves({"words": ["a", w]}) for w in "bc")))
    assert "now not there" in str(differing_bits(one, leaves({"y": 1})))
    assert differing_bits(leaves({"x": 1}), leaves({"x": True})) is not None


def test_the_first_answer_that_differs_comes_first():
    found = Answered({"a: one": stored(1.0), "a: two": stored(2.0), "b: three": stored(3.0)})
    known = {
        "a": {"a: one": stored(1.0), "a: two": stored(-2.0)},
        "b": {"b: three": stored(4.0), "b: four": stored(1.0)},
    }
    failures = compared(known, found)
    assert list(failures) == ["a: two", "b: three", "b: four"]
    assert failures["a: two"].startswith("the answer: stored -2.0, now 2.0")
    assert "nobody asked for it" in failures["b: four"]


def test_files_come_back_and_are_the_same_bytes(tmp_path):
    answers = {"a: one": stored(TABLE)}
    store.write("links", answers, tmp_path)
    first = store.path_of("links", tmp_path).read_bytes()
    assert store.read("links", tmp_path) == answers
    store.write("links", answers, tmp_path)
    assert store.path_of("links", tmp_path).read_bytes() == first


def test_a_missing_file_says_how_to_make_it(tmp_path):
    with pytest.raises(store.GoldenFileError, match=r"no stored answers .*python -m tests\.golden --write"):
        store.read("links", tmp_path)


@pytest.mark.parametrize("content", [{"format": store.FORMAT + 1, "answers": {}}, [], {}])
def test_a_file_of_another_format_says_how_to_make_it(tmp_path, content):
    store.path_of("links", tmp_path).write_bytes(gzip.compress(json.dumps(content).encode()))
    with pytest.raises(store.GoldenFileError, match=r"has format .* reads 1\. Make it by `python -m tests\.golden"):
        store.read("links", tmp_path)


def test_a_damaged_file_says_how_to_make_it(tmp_path):
    store.path_of("links", tmp_path).write_bytes(b"no file")
    with pytest.raises(store.GoldenFileError, match=r"cannot be read .*--write"):
        store.read("links", tmp_path)


def test_answers_of_code_that_no_commit_has_are_not_stored(tmp_path):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    (tmp_path / "skfedcausal").mkdir()
    (tmp_path / "skfedcausal" / "one.py").write_text("1")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
    (tmp_path / "elsewhere.py").write_text("2")
    store.check_committed(tmp_path)
    (tmp_path / "skfedcausal" / "two.py").write_text("2")
    with pytest.raises(store.GoldenFileError, match=r"refused: 1 files .*skfedcausal/two\.py"):
        store.check_committed(tmp_path)


def test_what_cannot_be_read_is_no_answer():
    with pytest.raises(TypeError, match="which the golden run cannot read"):
        leaves({"x": object()})


@pytest.mark.slow
def test_answers_of_a_file_in_another_process_have_the_same_bits():
    found = answered_through_files(["seldom"], ("boxes: plant",))
    assert found.same == ["boxes: plant"]
    assert not found.other_bits
    assert not found.errors
