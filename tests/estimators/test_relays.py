"""Relays: when they switch, what a record says of them, and how they answer other inputs."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import FederatedCounterfactualEstimator, InputModel, LikelihoodServer
from skfedcausal.estimators.relays import Relay, check_relays, learned_relay, reacting, relays_that_react

PUMP = Relay("a__level", on=3.0, off=4.0)


@pytest.mark.parametrize(
    ("relay", "levels", "before", "expected"),
    [
        (PUMP, [3.5, 2.9, 3.0, 4.0, 4.1, 3.5], 0.0, [0, 1, 1, 1, 0, 0]),
        (PUMP, [3.5, np.nan, 4.5], 1.0, [1, 1, 0]),
        (Relay("a__level", on=4.0, off=3.0), [3.5, 4.1, 3.5, 2.9, 3.5], 0.0, [0, 1, 1, 0, 0]),
    ],
)
def test_a_relay_switches_beyond_its_values_and_stays_between_them(relay, levels, before, expected):
    assert_array_equal(relay.status(levels, before), expected)


@pytest.mark.parametrize(("on", "off"), [(3.0, 3.0), (np.nan, 3.0), (3.0, np.inf)])
def test_a_relay_has_two_values(on, off):
    with pytest.raises(ValueError, match="give two different numbers"):
        Relay("a__level", on, off)


def test_a_relay_says_when_it_switches():
    assert str(PUMP) == "on below 3, off above 4 of 'a__level'"
    assert str(Relay("a__level", on=4.0, off=3.0)) == "on above 4, off below 3 of 'a__level'"


# -- learned from a record --------------------------------------------------------------------------


def tank(feed, noise, relay=PUMP):
    """Level, flow of the pump and a flow beyond it, and the status; the pump fills the tank."""
    level, status, beyond, draw = 3.5, 0.0, 0.0, 0.0
    rows = np.zeros((len(feed), 4))
    for t, u in enumerate(feed):
        status = relay.status([level], status)[0]
        draw = 0.9 * draw + 0.004 * noise[t, 0]
        beyond = 0.8 * beyond + 0.2 * status + 0.05 * noise[t, 1]
        rows[t] = [level + 0.02 * noise[t, 3], status + 0.5 * u + 0.05 * noise[t, 2], beyond, status]
        level += 0.1 * (status - 0.5) + 0.06 * u - 0.03 + draw
    return rows


def make_record(n=2500, seed=0):
    rng = np.random.default_rng(seed)
    feed = np.repeat(rng.integers(0, 2, -(-n // 25)), 25)[:n].astype(float)
    return feed, rng.standard_normal((n, 4))


@pytest.fixture(scope="module")
def record():
    feed, noise = make_record()
    values = np.column_stack([tank(feed, noise), feed])
    return pd.DataFrame(values, columns=["a__level", "a__flow", "b__flow", "a__pump", "b__feed"])


@pytest.mark.parametrize("response", ["a__pump", "a__flow"])
@pytest.mark.parametrize("sense", [1, -1])
def test_values_are_learned_from_a_status_or_a_flow(record, response, sense):
    X = record.drop(columns="b__flow" if response == "a__pump" else "a__pump")
    X["a__level"] *= sense
    found = learned_relay(X, "a__level", response, inputs=["b__feed"])
    step = record["a__level"].diff().abs().max()  # levels between two rows' are not seen
    assert_allclose([found.on, found.off], [sense * PUMP.on, sense * PUMP.off], atol=step)


def test_no_relay_is_found_where_there_is_none():
    rng = np.random.default_rng(1)
    X = pd.DataFrame(rng.standard_normal((2000, 3)).cumsum(axis=0), columns=["a__level", "a__flow", "b__flow"])
    with pytest.raises(ValueError, match="No relay by 'a__level' explains 'a__flow'"):
        learned_relay(X, "a__level", "a__flow")


def test_a_relay_that_hardly_shows_in_a_flow_is_found(record):
    X = record.drop(columns=["a__pump", "b__flow"])
    X["a__flow"] += 4 * X["a__flow"].std() * np.random.default_rng(2).standard_normal(len(X))
    found = learned_relay(X, "a__level", "a__flow", inputs=["b__feed"])
    assert_allclose([found.on, found.off], [PUMP.on, PUMP.off], atol=0.2)


@pytest.mark.parametrize("seed", [3, 4])
def test_a_rhythm_that_a_flow_follows_late_is_no_relay(seed):
    rng, clock = np.random.default_rng(seed), 2 * np.pi * np.arange(3000) / 200
    level = np.sin(clock) + 0.05 * rng.standard_normal(3000)
    flow = np.sin(clock - 1) + 0.3 * rng.standard_normal(3000)
    with pytest.raises(ValueError, match="2 switches in each, are asked for"):
        learned_relay(pd.DataFrame({"a__level": level, "a__flow": flow}), "a__level", "a__flow")


def test_records_that_say_nothing_are_refused(record):
    with pytest.raises(ValueError, match="Got no column 'a__height'"):
        learned_relay(record, "a__height", "a__flow")
    with pytest.raises(ValueError, match=r"Got 100 rows of 5 columns; .* at least 480 rows"):
        learned_relay(record[:100], "a__level", "a__flow")


# -- in answers -------------------------------------------------------------------------------------


def test_reactions_are_those_of_a_simulation_row_by_row():
    """Of two relays, one of which fills the tank and the other empties it, in two episodes."""
    relays = {"a__fill": PUMP, "a__drain": Relay("a__level", on=4.5, off=3.8)}
    starts, n = (0, 120), 240
    gains = np.array([0.06, 0.2, -0.25])  # of one row on the level, which keeps 0.98 of an effect

    def effect_of(inputs):
        moves, effect = (inputs - recorded) @ gains, np.zeros((n, 1))
        for t in range(n):
            effect[t] = 0.0 if t in starts else 0.98 * effect[t - 1] + moves[t - 1]
        return effect

    level = 3.9 + 0.9 * np.sin(np.arange(n) / 9)[:, None]
    recorded = np.zeros((n, 3))
    for start, stop in [(0, 120), (120, n)]:
        recorded[start:stop, 1:] = np.column_stack([one.status(level[start:stop, 0]) for one in relays.values()])
    asked = recorded.copy()
    asked[30:90, 0], asked[150:, 0] = 1.0, -1.0

    expected, effect = asked.copy(), 0.0
    for t in range(n):
        effect = 0.0 if t in starts else 0.98 * effect + (expected[t - 1] - recorded[t - 1]) @ gains
        for k, relay in enumerate(relays.values(), start=1):
            before = recorded[t, k] if t in starts else expected[t - 1, k]
            expected[t, k] = relay.status(level[t] + effect, before)[0]
    known = SimpleNamespace(position=["a__feed", "a__fill", "a__drain"].index)
    units = SimpleNamespace(starts=starts)
    found, told = reacting(relays, units, known, recorded, asked, level, effect_of, ["a__level"])
    assert_array_equal(found, expected)
    assert (expected[:, 1:] != recorded[:, 1:]).any(axis=0).all()
    assert told[0].startswith("'a__fill' reacts: on below 3, off above 4 of 'a__level', as in 100% of the rows")

    found, told = reacting(relays, units, known, recorded, recorded, level, effect_of, ["a__level"])
    assert_array_equal(found, recorded)
    assert told[1].endswith("it is another in 0% of them.")


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore:.*(depend on measurements|move together within a row|earlier inputs)")
@pytest.mark.filterwarnings("ignore:.*(search for .* was ended|are said to be set before|hardly move|drift like)")
def test_answers_with_relays_are_nearer_to_what_a_simulator_does(record):
    settings = {"input_columns": ["a__pump", "b__feed"], "server": LikelihoodServer(max_time=2)}
    estimator = FederatedCounterfactualEstimator(input_model=InputModel(relays={"a__pump": PUMP}), **settings).fit(
        record
    )
    feed, noise = make_record(400, seed=2)
    other = feed.copy()
    other[100:200] = 1 - feed[100:200]
    X = pd.DataFrame(np.column_stack([tank(feed, noise), feed]), columns=record.columns)
    true = (tank(other, noise) - tank(feed, noise))[:, :3]

    def answered(relays):
        table = estimator.set_params(input_model__relays=relays).whatif(X, {"b__feed": other})
        shown = {name: table.pivot(index="time", columns="column", values=name) for name in ("effect", "low", "high")}
        shown = {name: one[["a__level", "a__flow", "b__flow"]].to_numpy() for name, one in shown.items()}
        return table, shown["effect"]

    reacting_table, effect = answered({"a__pump": PUMP})
    _, held = answered({"a__pump": Relay("a__level", on=-100, off=100)})  # it never switches
    missed, missed_held = (np.sqrt(np.mean(np.square((one - true) / true.std(axis=0)))) for one in (effect, held))
    assert missed < 0.5 * missed_held
    assert reacting_table.attrs["relays"][0].startswith("'a__pump' reacts: on below 3, off above 4")
    estimator.set_params(input_model__relays={"a__pump": PUMP})
    with pytest.raises(ValueError, match="leave `split` out"):
        estimator.whatif(X, {"b__feed": other}, split=True)
    with pytest.raises(ValueError, match="values beside 0"):
        estimator.whatif(X.assign(a__pump=2 * X["a__pump"]), {"b__feed": other})


def test_relays_that_cannot_be_are_refused():
    inputs = ("a__pump", "b__feed")
    for relays, match in [
        ({"a__pump": (3, 4)}, "give a Relay"),
        ({"a__valve": PUMP}, "which is no input; inputs are"),
        ({"b__feed": PUMP}, "name the status as an input of that unit"),
    ]:
        with pytest.raises(ValueError, match=match):
            check_relays(relays, inputs)
    assert relays_that_react({"a__pump": PUMP}, {"b__feed": 1}, False) == {"a__pump": PUMP}
    assert relays_that_react({"a__pump": PUMP}, {"a__pump": 1}, True) == {}
