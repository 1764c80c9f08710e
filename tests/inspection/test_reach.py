"""Plans against a simulator, and what is said where there is none to make."""

import numpy as np
import pandas as pd
import pytest

from skfedcausal import FederatedCounterfactualEstimator, inspection
from skfedcausal.inspection.moves import Wish, least_moves

# bounds of one are a little beyond what uniform draws have shown
pytestmark = [pytest.mark.medium, pytest.mark.filterwarnings("ignore:The schedule takes inputs")]

N, BY, HOLD = 1500, 15, 10
INPUTS = ["a__u", "b__u", "b__idle"]
BOUNDS = {"a__u": (-1.0, 1.0), "b__u": (-1.0, 1.0)}


def simulate(U, noise):
    x, Y = np.zeros(2), np.zeros((len(U), 2))
    for t in range(len(U)):
        Y[t] = x + noise[t, 2:]
        x = np.array([0.8 * x[0] + 0.5 * U[t, 0], 0.7 * x[1] + 0.3 * x[0] + 0.2 * U[t, 1]]) + noise[t, :2]
    return Y


@pytest.fixture(scope="module")
def plant():
    rng = np.random.default_rng(0)
    U = np.repeat(rng.uniform(-1, 1, (N // 5, 3)), 5, axis=0)
    noise = 0.05 * rng.standard_normal((N, 4))
    Y = simulate(U, noise)
    record = pd.DataFrame(np.column_stack([Y, U]), columns=["a__y", "b__y", *INPUTS])
    record = record[["a__y", "a__u", "b__y", "b__u", "b__idle"]]
    return U, noise, record, FederatedCounterfactualEstimator(input_columns=INPUTS).fit(record)


def run(plant, schedule):
    U, noise = plant[:2]
    ahead = np.repeat(U[-1:], len(schedule), axis=0)
    ahead[:, :2] = schedule
    quiet = np.vstack([noise, np.zeros((len(schedule), 4))])
    return simulate(np.vstack([U, ahead]), quiet)[N:]


def plan(plant, target, **settings):
    settings = {"inputs": list(BOUNDS), "bounds": BOUNDS, "by": BY, "hold": HOLD, "X": plant[2]} | settings
    return inspection.reach(plant[3], target, **settings)


def test_targets_of_two_units_are_reached_in_the_simulator(plant):
    found = plan(plant, {"a__y": 1.0, "b__y": 1.2})
    assert found.verdict == "reachable"
    reached = run(plant, found.schedule.to_numpy())[BY - 1 :].mean(axis=0)
    sd = plant[2][["a__y", "b__y"]].std().to_numpy()
    assert (np.abs(reached - [1.0, 1.2]) < 0.06 * sd).all()
    assert found.schedule.index.tolist() == list(range(1, BY + HOLD + 1))
    assert list(found.trajectory.columns) == ["time", "column", "value", "low", "high"]
    assert (found.trajectory["low"] < found.trajectory["high"]).all()


def test_what_is_promised_happens(plant):
    found = plan(plant, {"b__y": 0.8})
    promised = found.trajectory.pivot(index="time", columns="column", values="value").to_numpy()
    happened = run(plant, found.schedule.to_numpy())
    assert np.abs(promised - happened).max() < 0.1  # two standard deviations of the noise of a row


def test_schedules_keep_to_bounds_and_rates(plant):
    rates = {"a__u": 0.05, "b__u": None}
    found = plan(plant, {"a__y": 1.0}, rates=rates, by=30)
    moves = np.diff(np.concatenate([plant[0][-1:, 0], found.schedule["a__u"]]))
    assert np.abs(moves).max() <= 0.05 + 1e-12
    assert found.schedule.abs().max().max() <= 1 + 1e-12
    assert found.verdict == "reachable"
    assert plan(plant, {"a__y": 1.0}, rates={"a__u": 0.001}).verdict == "not reachable"


def test_beyond_the_bounds_is_said(plant):
    assert plan(plant, {"a__y": 3.5}).verdict == "not reachable"  # 2.5 at most
    with pytest.warns(UserWarning, match="takes inputs 'a__u' out of the range"):
        wide = plan(plant, {"a__y": 50.0}, inputs=["a__u"], bounds={"a__u": (-100.0, 100.0)})
    assert wide.verdict == "cannot tell"
    assert any("outside what was seen" in note for note in wide.notes)


def test_plans_are_made_again_from_where_a_schedule_has_brought_the_inputs(plant):
    """Whatever rounding made of bounds that inputs stand at."""
    bounds = {"a__u": (-1.0, 1 / 3), "b__u": (-1.0, 2 / 3)}
    record = plant[2].copy()
    record.loc[record.index[-1], ["a__u", "b__u"]] = [0.0, 0.0]
    found = plan(plant, {"a__y": 3.0, "b__y": 9.0}, bounds=bounds, X=record)
    assert (found.schedule.to_numpy() <= [1 / 3, 2 / 3]).all()
    for shift in (0.0, 1e-9):
        record.loc[record.index[-1], ["a__u", "b__u"]] = found.schedule.iloc[3].to_numpy() + shift
        again = plan(plant, {"a__y": 3.0, "b__y": 9.0}, bounds=bounds, X=record, by=BY - 4)
        assert (again.schedule.to_numpy() <= [1 / 3, 2 / 3]).all()


def test_a_schedule_far_beyond_the_inputs_seen_is_not_promised(plant):
    bounds = {"a__u": (-3.0, 3.0)}
    with pytest.warns(UserWarning, match="takes inputs 'a__u' out of the range"):
        far = plan(plant, {"a__y": 3.0}, inputs=["a__u"], bounds=bounds)  # takes 1.2, seen up to 1
    assert far.verdict == "cannot tell"
    assert plan(plant, {"a__y": 2.0}, inputs=["a__u"], bounds=bounds, by=40).verdict == "reachable"


def test_inputs_without_effect_are_said(plant):
    found = plan(plant, {"a__y": 1.5}, inputs=["b__idle"], bounds={"b__idle": (-1.0, 1.0)})
    assert found.verdict != "reachable"
    assert any("do next to nothing to the targets" in note for note in found.notes)


@pytest.mark.parametrize(
    ("target", "settings", "words"),
    [
        ({}, {}, "give a dict"),
        ({"a__z": 1.0}, {}, "names 'a__z'; known sensors are 'a__y', 'b__y'"),
        ({"a__y": np.nan}, {}, "give a finite number"),
        ({"a__y": 1.0}, {"inputs": ["a__v"]}, "unknown input"),
        ({"a__y": 1.0}, {"inputs": []}, "one or more inputs"),
        ({"a__y": 1.0}, {"bounds": {"a__u": (-1, 1)}}, "no bounds for input 'b__u'"),
        ({"a__y": 1.0}, {"bounds": {"a__u": (5.0, 6.0), "b__u": (-1, 1)}}, "outside its bounds"),
        ({"a__y": 1.0}, {"bounds": {"a__u": (1.0, -1.0), "b__u": (-1, 1)}}, "below the high one"),
        ({"a__y": 1.0}, {"by": 0}, "by=0"),
        ({"a__y": 1.0}, {"hold": -1}, "hold=-1"),
        ({"a__y": 1.0}, {"rates": {"c__u": 1.0}}, "rates name 'c__u'; `inputs` are 'a__u', 'b__u'"),
        ({"a__y": 1.0}, {"rates": {"a__u": 0.0}}, "above zero"),
        ({"a__y": 1.0}, {"rates": 0.05}, "rates=0.05; give a dict by input"),
        ({"a__y": 1.0}, {"confidence": 2.0}, "between 0 and 1"),
    ],
)
def test_wishes_that_cannot_be_read_are_refused(plant, target, settings, words):
    with pytest.raises(ValueError, match=words):
        plan(plant, target, **settings)


def test_moves_by_gradients_are_those_of_the_active_set():
    rng = np.random.default_rng(0)
    G = rng.standard_normal((1, 4, 12, 2))
    low, high = np.full(2, -0.5), np.full(2, 0.5)
    told = {"target": {}, "inputs": ("u", "v"), "at": [0, 1], "low": low, "high": high, "by": 12, "hold": 0}
    gap, sd, now = rng.standard_normal((1, 4)), np.ones(1), np.zeros(2)
    exact = least_moves(G, gap, [], sd, now, Wish(**told, rates=np.full(2, np.inf)))
    loose = least_moves(G, gap, [], sd, now, Wish(**told, rates=np.full(2, 10.0)))  # a rate that never binds
    missed = [np.square(np.einsum("irsj,sj->ir", G, moves) - gap).sum() for moves in (exact, loose)]
    assert abs(missed[0] - missed[1]) < 1e-3
