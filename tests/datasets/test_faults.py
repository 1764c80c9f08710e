"""Plants under control with faults: stationary as stated, reproducible, and faulty where and how they say."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal.datasets import FAULT_KINDS, make_fault_plant


@pytest.mark.medium
def test_nominal_spread_is_that_of_a_long_record():
    plant = make_fault_plant(3, n_samples=20_000, plant_state=2, random_state=0)
    found = np.array([Y.std(axis=0) for Y in plant.data.values()])
    # slowest mode .985: at least 20 000 (1 - .985) = 300 independent rows, 1 / sqrt(600) = .04 of a deviation
    assert_allclose(found / plant.network.spread, 1.0, atol=0.16)
    assert plant.faults == []
    assert plant.inputs is None
    assert set(plant.target) == {""}


@pytest.mark.parametrize(("n_units", "state"), [(10, 102), (16, 0), (16, 1), (30, 0)])
def test_plants_of_many_units_are_stable(n_units, state):
    plant = make_fault_plant(n_units, n_samples=300, plant_state=state, random_state=0)
    loops = plant.network.closed_loop[:-1, :-1]
    assert np.abs(np.linalg.eigvals(loops)).max() < 0.985
    spread = [np.abs(Y).max() for Y in plant.data.values()]
    assert max(spread) < 1e4  # a few deviations of a plant whose slowest mode has a memory of some 70 rows


def test_same_seeds_same_record_and_the_same_plant_under_another_draw():
    one, same, other = (make_fault_plant(4, plant_state=3, random_state=k, n_samples=50) for k in (1, 1, 2))
    for name in one.data:
        assert_array_equal(one.data[name], same.data[name])
    assert_array_equal(one.network.A, other.network.A)
    assert not np.array_equal(one.data["unit0"], other.data["unit0"])


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_nothing_differs_before_the_fault_and_its_unit_afterwards(kind):
    """Until the fault its record is the nominal one of the same draw."""
    settings = {"n_samples": 330, "plant_state": 1, "random_state": 5}
    usual, plant = make_fault_plant(6, **settings), make_fault_plant(6, kind, onset=40, **settings)
    first, stop, root = plant.faults[0]
    assert (first, stop) == (40, 330)
    for name, Y in plant.data.items():
        assert_array_equal(Y[:40], usual.data[name][:40])
    assert np.abs(plant.data[root][40:] - usual.data[root][40:]).max() > 0
    assert set(plant.target[:40]) == {""}
    assert set(plant.target[40:80]) == {root}
    assert plant.kind in ("sensor", "process")
    assert (root, plant.faults[-1][2])[len(plant.faults) - 1] in plant.data


def test_what_is_held_is_held_to_the_last_digit():
    freeze = make_fault_plant(5, "sensor freeze", onset=10, n_samples=60, random_state=0)
    Y = freeze.data[freeze.faults[0][2]][10:]
    assert (np.ptp(Y, axis=0) == 0).sum() == 1
    held = make_fault_plant(5, "unit held", onset=10, n_samples=60, random_state=0)
    assert np.ptp(held.data[held.faults[0][2]][10:], axis=0).max() == 0


def test_a_fault_that_ends_and_two_that_overlap():
    plant = make_fault_plant(6, "two overlapping", onset=100, duration=90, n_samples=400, random_state=0)
    (first, stop, one), (second, end, other) = plant.faults
    assert (first, stop, second, end) == (100, 190, 140, 190)
    assert one != other
    assert set(plant.target[190:]) == {""}


def test_size_of_a_sensor_bias_is_in_its_standard_deviations():
    settings = {"n_samples": 101, "onset": 100, "random_state": 3}  # one row: no loop reacts yet
    usual, plant = make_fault_plant(4, **settings), make_fault_plant(4, "sensor bias", size=2.0, **settings)
    network = plant.network
    moved = plant.data[f"unit{network.root}"][100] - usual.data[f"unit{network.root}"][100]
    assert_allclose(moved[network.sensor], 2.0 * network.spread[network.root, network.sensor])


def test_set_points_are_followed_and_given_as_inputs():
    wanted = np.zeros((3000, 3))
    wanted[500:, 1] = 4.0
    plant = make_fault_plant(3, n_samples=3000, set_points=wanted, random_state=0)
    assert_array_equal(plant.inputs["unit1"][:, 0], wanted[:, 1])
    assert plant.data["unit1"][1500:, 0].mean() == pytest.approx(4.0, abs=0.3)  # the integral part leaves no offset
    moving = make_fault_plant(3, n_samples=3000, set_points=100, random_state=0)
    n_moves = sum(np.count_nonzero(np.diff(U[:, 0])) for U in moving.inputs.values())
    assert 90 - 4 * 9.5 < n_moves < 90 + 4 * 9.5  # a Poisson count of 90


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"fault": "fire"}, "fault must be None or one of 'step'"),
        ({"n_units": 1}, "n_units"),
        ({"onset": -1}, "onset"),
        ({"set_points": np.zeros((3, 3))}, "set_points"),
    ],
)
def test_arguments_that_cannot_be_meant(settings, said):
    with pytest.raises(ValueError, match=said):
        make_fault_plant(**settings)
