"""Records that begin at an operating point that the nominal record does not have."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal.server.moments import MomentServer
from skfedcausal.server.watching.detector import RootCauseServer, StreamState
from skfedcausal.server.watching.incidents import SWITCH
from skfedcausal.server.watching.operating import _joined

from .._reference import coupled_plant

SIZES = (2, 2, 2)
BEGINS = "A record begins at an operating point that the nominal record does not have, in unit0, unit1"
ELSEWHERE, ROOT, ONSET, N_ROWS = 10.0, 2, 560, 700


@pytest.fixture(scope="module")
def plant():
    return coupled_plant(3, SIZES, links=[(1, 0), (2, 1)], strength=0.5, radius=0.6)


@pytest.fixture(scope="module")
def detector(plant):
    messages = plant.messages(plant.simulate(2000, 1))
    server = MomentServer().fit(messages)
    found = RootCauseServer("both", 1000.0, np.full(3, 1 / 3), np.random.RandomState(0)).fit(server, messages)
    found.learner = MomentServer()
    return found


def record(plant, *, spread=1.0, units=(0, 1), fault=3.0):
    """A record with some units at other levels from its first row on and a fault of sensors from `ONSET` on."""
    Y = spread * plant.simulate(N_ROWS, 5)
    for unit in units:
        Y[:, plant.sensors[unit]] += ELSEWHERE
    Y[ONSET:, plant.sensors[ROOT]] += fault * spread * plant.own(ROOT)[0][:, 0]
    return Y


def followed(detector, messages, bounds):
    """Verdicts by first alarm after these pieces, and where the stream stands."""
    state, found = StreamState(), {}
    for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
        for verdict in detector.push({name: one.rows(start, stop) for name, one in messages.items()}, state):
            found[verdict.detected] = verdict
    return found, state


@pytest.mark.parametrize(("spread", "is_learned"), [(1.0, False), (0.4, True)])
def test_a_plant_that_begins_elsewhere_is_watched_from_there(plant, detector, spread, is_learned):
    """By what was learned of it where its surprises are the nominal ones, else by what its rows there tell."""
    messages = plant.messages(record(plant, spread=spread))
    with pytest.warns(UserWarning, match=BEGINS):
        found, state = followed(detector, messages, (0, N_ROWS))
    first, *later = found.values()
    assert first.kind == SWITCH
    assert (state.own is not None) == is_learned
    faults = [verdict for verdict in later if verdict.detected >= ONSET]
    assert faults[0].probability.argmax() == ROOT
    assert faults[0].probability[ROOT] >= 0.85  # its windows vary by what few rows taught of it
    assert len(later) == len(faults)
    with pytest.warns(UserWarning, match=BEGINS):
        pieces, _ = followed(detector, messages, (0, 1, 17, 110, 333, 480, 481, 620, N_ROWS))
    assert list(pieces) == list(found)
    for detected, verdict in found.items():
        assert_allclose(pieces[detected].probability, verdict.probability, atol=1e-9)


def test_named_windows_and_levels_are_of_the_plant_as_it_runs_there(plant, detector):
    messages = plant.messages(record(plant, spread=0.4))
    with pytest.warns(UserWarning, match=BEGINS):
        _, probability, _ = detector.attribute(messages, ONSET, N_ROWS)
    assert probability.argmax() == ROOT
    with pytest.warns(UserWarning, match=BEGINS):
        levels = detector.relative_levels(messages).max(axis=1)
    assert levels.shape == (N_ROWS,)
    assert (levels[:100] > 1).all()
    assert (levels[480:ONSET] > 1).mean() < 0.05
    assert (levels[ONSET + 5 : ONSET + 40] > 1).mean() > 0.9


@pytest.mark.parametrize("kind", ["one unit", "spreads"])
def test_a_fault_that_begins_with_the_record_is_an_incident(plant, detector, kind):
    """What one unit alone shows from the first row on is a fault of it, and so is what needs time to spread."""
    if kind == "one unit":
        Y, root = record(plant, units=(0,), fault=0.0), 0
    else:
        Y, root = plant.simulate(N_ROWS, 5), 0
        x = np.zeros(plant.partition.n_states)
        for t in range(N_ROWS):
            x = plant.plant.A @ x + 40.0 * (np.arange(len(x)) == 0)
            Y[t] += plant.plant.C @ x
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, _ = followed(detector, plant.messages(Y), (0, N_ROWS))
    first = next(iter(found.values()))
    assert first.detected <= 1
    assert first.kind != SWITCH
    assert first.probability.argmax() == root


def test_rows_that_do_not_tell_what_is_nominal_leave_the_watch_as_it_is(plant, detector):
    """A unit that is hardly seen there cannot be learned: that is said, and the watch goes on."""
    messages = plant.messages(record(plant, spread=0.4))
    seen = np.ones(N_ROWS, dtype=int)
    seen[100:470] = 0
    one = messages["unit2"]
    patterns = np.stack([np.zeros_like(one.patterns[0]), one.patterns[0]])
    messages["unit2"] = replace(one, z=one.z * seen[:, None], patterns=patterns, index=seen)
    with pytest.warns(UserWarning, match=BEGINS), pytest.warns(UserWarning, match="do not show what is nominal there"):
        _, state = followed(detector, messages, (0, N_ROWS))
    assert state.own is None


def test_messages_are_joined_with_the_patterns_of_each(plant):
    whole = plant.messages(plant.simulate(30, 0))["unit0"]
    J = whole.patterns[0]
    part = replace(whole.rows(10, 30), patterns=np.stack([J / 2, J]), index=np.arange(20) % 2)
    joined = _joined([whole.rows(0, 10), part])
    assert joined.lengths == (30,)
    assert len(joined.patterns) == 2
    assert_array_equal(joined.z, whole.z)
    assert_array_equal(joined.J, [*[J] * 10, *(part.patterns[k % 2] for k in range(20))])
    assert _joined([whole.rows(0, 10), whole.rows(10, 30)]).index is None
