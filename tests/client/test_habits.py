"""Habits of columns against a count by hand, in one piece and in batches."""

from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skfedcausal import FederatedRCADetector
from skfedcausal.client.records import ALL_HELD, CHANGED, HELD, Habits, _repetitions
from skfedcausal.datasets import make_fault_plant, make_granger_plant


def by_hand(Y):
    count = np.zeros(Y.shape, dtype=int)
    for t in range(1, len(Y)):
        count[t] = np.where(Y[t] == Y[t - 1], count[t - 1] + 1, 0)
    return count


def test_repetitions_by_hand_and_in_batches():
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 2, (200, 3)).astype(float)
    Y[rng.random(Y.shape) < 0.05] = np.nan
    whole = by_hand(Y)
    assert_array_equal(_repetitions(Y), whole)
    last, repeated = None, 0
    for start, stop in ((0, 1), (1, 2), (2, 90), (90, 91), (91, 200)):
        part = _repetitions(Y[start:stop], last, repeated)
        assert_array_equal(part, whole[start:stop])
        last, repeated = Y[stop - 1], part[-1]


def record(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.standard_normal(n_rows), rng.standard_normal(n_rows), np.full(n_rows, 7.0)])


def test_a_constant_that_changes_is_noticed_while_it_differs():
    habits, Y = Habits.learn(record(), (0,)), record(50, 1)
    assert habits.events(Y, (0,))[0] is None
    Y[20:30, 2] = 8.0
    Y[25, 2] = np.nan  # nobody knows
    bits, _ = habits.events(Y, (0,))
    assert np.flatnonzero(bits[:, CHANGED]).tolist() == [*range(20, 25), *range(26, 30)]
    assert not bits[:, [HELD, ALL_HELD]].any()


def test_held_values_are_noticed_from_the_third_on_where_none_ever_repeated():
    habits, Y = Habits.learn(record(), (0,)), record(50, 1)
    Y[20:, 0] = Y[20, 0]
    Y[40:, 1] = Y[40, 1]
    bits, _ = habits.events(Y, (0,))
    assert np.flatnonzero(bits[:, HELD])[0] == 22
    assert np.flatnonzero(bits[:, ALL_HELD])[0] == 42
    batches, known = [], None
    for start in range(50):
        found, known = habits.events(Y[start : start + 1], (0,), known)
        batches.append(np.zeros((1, 3), dtype=bool) if found is None else found)
    assert_array_equal(np.concatenate(batches), bits)


def test_columns_that_repeat_in_nominal_operation_may_do_so_three_times_as_long():
    Y = record()
    Y[:, 0] = np.repeat(Y[::5, 0], 5)  # a report every five rows: four repetitions
    habits = Habits.learn(Y, (0,))
    watched = record(60, 1)
    watched[10:, 0] = 0.5
    bits, _ = habits.events(watched, (0,))
    assert np.flatnonzero(bits[:, HELD])[0] == 10 + 2 + 3 * 4


def test_episodes_do_not_repeat_each_other():
    habits, Y = Habits.learn(record(), (0,)), record(6, 1)
    Y[:, 0] = np.repeat(Y[::2, 0], 2)
    Y[2:4, 0] = Y[1, 0]
    assert habits.events(Y, (0, 2, 4))[0] is None


def test_a_record_of_fewer_digits_holds_nothing():
    habits, Y = Habits.learn(record(), (0,)), record(5000, 1).round(1)
    assert _repetitions(Y[:, :1]).max() >= 2
    assert habits.events(Y, (0,))[0] is None


def test_a_record_of_hardly_enough_digits_may_repeat_as_often_as_the_nominal_one_with_these():
    """Nominal rows hardly move now and then, which shows only in fewer digits."""
    nominal, Y = record(), record(50, 1)
    nominal[100:104, 0] = 0.5 + 1e-4 * np.arange(4)
    Y[20:26, 0] = 0.52  # five repetitions
    Y[30:46, 0] = 0.52
    bits, _ = Habits.learn(nominal, (0,)).events(Y, (0,))
    assert np.flatnonzero(bits[:, HELD]).tolist() == [*range(30 + 2 + 3 * 3, 46)]


@pytest.mark.parametrize("value", [0.0, 2.0])
def test_a_unit_whose_columns_all_stand_at_a_round_value_is_held(value):
    """One of them may have been logged with fewer digits."""
    habits, Y = Habits.learn(record()[:, :2], (0,)), record(50, 1)[:, :2]
    Y[10:30, 0] = Y[35:, :] = value
    bits, _ = habits.events(Y, (0,))
    assert np.flatnonzero(bits[:, ALL_HELD]).tolist() == [*range(35 + 8, 50)]
    assert not bits[:, HELD].any()


@pytest.mark.parametrize("kind", ["sensor freeze", "unit held"])
def test_the_unit_that_holds_its_values_is_the_root(kind):
    settings = {"n_units": 4, "plant_state": 4}
    nominal = make_fault_plant(n_samples=800, random_state=0, **settings).data
    plant = make_fault_plant(fault=kind, n_samples=300, onset=100, random_state=1, **settings)
    detector = FederatedRCADetector(false_alarm_rate=0.01).fit(nominal)
    with pytest.warns(UserWarning, match="is silent") if kind == "unit held" else nullcontext():
        found = detector.incidents(plant.data).query("detected >= 100").iloc[0]
        window = detector.attribute(plant.data, start=100, end=150).iloc[0]
    root = plant.faults[0][2]
    assert (found["root"], window["client"]) == (root, root)
    assert found["kind"] == {"sensor freeze": "sensor held", "unit held": "unit held"}[kind]
    assert found["detected"] == 102
    assert min(found["probability"], window["probability"]) > 0.9


def test_a_held_sensor_is_at_fault_while_it_is_held():
    X, _ = make_granger_plant(3, n_samples=1300, random_state=0)
    detector = FederatedRCADetector(false_alarm_rate=0.01).fit({k: Y[:1000] for k, Y in X.items()})
    watched = {name: Y[1000:].copy() for name, Y in X.items()}
    watched["unit1"][150:170, 0] = watched["unit1"][150, 0]
    found = detector.incidents(watched).query("detected == 152").iloc[0]
    assert (found["root"], found["kind"], found["end"]) == ("unit1", "sensor held", 169)


def test_a_status_that_flips_names_its_unit_in_batches_as_in_one_call():
    X, _ = make_granger_plant(3, n_samples=1300, random_state=0)
    X = {name: np.column_stack([Y, np.ones(len(Y))]) for name, Y in X.items()}
    with pytest.warns(UserWarning, match="constant"):
        detector = FederatedRCADetector(false_alarm_rate=0.01).fit({k: Y[:1000] for k, Y in X.items()})
    watched = {name: Y[1000:].copy() for name, Y in X.items()}
    watched["unit1"][150:, -1] = 0.0
    found = detector.incidents(watched)
    first = found[found["detected"] == 150].iloc[0]
    assert (first["root"], first["kind"]) == ("unit1", "status")
    told = {}
    for start in (0, 149, 150, 151, 220):
        stop = {0: 149, 149: 150, 150: 151, 151: 220, 220: 300}[start]
        for row in detector.update({k: Y[start:stop] for k, Y in watched.items()}).to_dict("records"):
            told[row["detected"]] = row
    assert told[150]["root"] == "unit1"
    assert told[150]["probability"] == pytest.approx(first["probability"])
