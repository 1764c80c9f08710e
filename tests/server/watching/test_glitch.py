"""Single rows of a wrong measurement are told from what the process does."""

import numpy as np
import pytest

from skfedcausal import FederatedRCADetector
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.watching.glitch import is_glitch

USUAL = np.full(40, 1.0)


def at(row, value, length=1):
    series = USUAL.copy()
    series[row : row + length] = value
    return series


@pytest.mark.parametrize(
    ("surprise", "outside", "expected"),
    [
        (at(5, 50.0), at(5, 30.0), True),  # other sensors of the unit contradict
        (at(5, 50.0, length=2), USUAL, True),  # back in the next row, a second surprise
        (at(5, 50.0), USUAL, False),  # a push of the process: it stays in the states
        (at(5, 50.0, length=10), at(5, 30.0, length=10), False),  # a sensor that is wrong for longer
        (USUAL, USUAL, False),
        (at(39, 50.0), at(39, 30.0), True),  # the last row there is
    ],
)
def test_what_is_a_glitch(surprise, outside, expected):
    assert is_glitch(surprise, outside) is expected


@pytest.fixture(scope="module")
def watched():
    X, _ = make_granger_plant(
        4, n_samples=4000, n_sensors=4, links=[("unit0", "unit1")], container="frame", random_state=0
    )
    return FederatedRCADetector().fit(X[:3000]), X[3000:].reset_index(drop=True)


@pytest.mark.parametrize("size", [15, 60, 1000])
def test_one_spike_in_one_tag_is_an_event_of_a_sensor(watched, size):
    detector, later = watched
    later = later.copy()
    later.loc[500, "unit1__s2"] += size * later["unit1__s2"].std()
    incident = detector.incidents(later).query("498 <= detected <= 510").iloc[0]
    assert (incident["kind"], incident["ranking"][0][0]) == ("sensor", "unit1")
    assert detector.tags(later, incident)["tag"].iloc[0] == "unit1__s2"


def test_a_lasting_push_of_the_process_is_none(watched):
    detector, later = watched
    pushed = later.copy()
    own = [name for name in later if name.startswith("unit1__")]
    direction = np.linalg.svd(later[own] - later[own].mean(), full_matrices=False)[2][0]
    pushed.loc[500:, own] += 6 * later[own].std().mean() * direction
    incident = detector.incidents(pushed).query("498 <= detected <= 510").iloc[0]
    assert incident["kind"] != "sensor"
