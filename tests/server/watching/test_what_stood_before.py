"""What was so before a named window is no sign of what happens in it."""

import numpy as np
import pandas as pd
import pytest

from skfedcausal import FederatedRCADetector

ONSET = 340


def _chain(n_rows, seed, louder=1.0, step=0.0):
    """Units a, b, c, each of which drives the next: `a` is louder throughout, and `c` is pushed from ONSET on."""
    rng = np.random.default_rng(seed)
    x, w = np.zeros((n_rows, 3)), rng.normal(size=(n_rows, 3))
    w[:, 0] *= louder
    w[ONSET:, 2] += step
    for t in range(1, n_rows):
        x[t] = 0.6 * x[t - 1] + w[t] + 0.3 * np.r_[0.0, x[t - 1, :2]]
    gains = np.random.default_rng(9).uniform(0.5, 1.5, (3, 2))
    sensors = [x[:, [m]] * gains[m] + 0.3 * rng.normal(size=(n_rows, 2)) for m in range(3)]
    return pd.DataFrame(np.hstack(sensors), columns=[f"{u}__s{k}" for u in "abc" for k in range(2)])


@pytest.fixture(scope="module")
def detector():
    with pytest.warns(UserWarning, match="One false alarm per 100000 steps"):
        return FederatedRCADetector(false_alarm_rate=1e-5).fit(_chain(4000, 0))


def _named(detector, louder):
    found = [detector.attribute(_chain(420, seed, louder, step=0.8), start=ONSET, end=420) for seed in range(5, 13)]
    return [str(one.client.iloc[0]) for one in found]


def test_a_unit_that_is_louder_without_an_alarm_is_not_named_for_a_later_fault(detector):
    assert _named(detector, 1.0) == ["c"] * 8
    assert detector.incidents(_chain(420, 5, 1.4)[:ONSET]).empty
    assert _named(detector, 1.4) == ["c"] * 8  # "a" with .92 to 1.00 in six of them by what the window alone shows


def test_a_unit_that_becomes_louder_in_the_window_is_named(detector):
    X = _chain(420, 5)
    X.iloc[ONSET:] = _chain(420, 5, 1.6)[ONSET:]
    assert detector.attribute(X, start=ONSET, end=420).client.iloc[0] == "a"


def test_few_rows_before_a_window_tell_nothing_of_what_is_usual(detector):
    server = detector._root_cause
    short, long = (_chain(n, 5, 1.6) for n in (40, 140))
    for X, is_known in ((short, False), (long, True)):
        state = server.new_state()
        with detector._asking(X, None, None) as units:
            server.push(units.messages(), state)
        surplus, outside = server._stood_before(state)
        assert (surplus[0] > 1.5) == is_known
        np.testing.assert_array_equal(surplus[1:], 1.0)
        np.testing.assert_array_equal(outside, 1.0)
