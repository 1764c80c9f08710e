"""Generator of nonlinear plants."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal.datasets import make_nonlinear_plant


@pytest.mark.parametrize("kind", ["lstm", "smooth"])
def test_faults_start_in_every_unit_and_last(kind):
    plant = make_nonlinear_plant(3, links=[(0, 1), (1, 2), (2, 0)], n_samples=3000, kind=kind, random_state=0)
    assert {unit for _, _, unit in plant.faults} == {"unit0", "unit1", "unit2"}
    for first, stop, unit in plant.faults:
        assert stop - first == 10
        assert (plant.target[first:stop] == unit).all()
    assert (plant.target != "").sum() == 10 * len(plant.faults)
    assert np.abs(plant.states).max() < 20


def test_same_plant_other_record():
    first = make_nonlinear_plant(n_samples=300, process_noise=0, sensor_noise=0, size=0, random_state=0)
    again = make_nonlinear_plant(n_samples=300, process_noise=0, sensor_noise=0, size=0, random_state=0)
    assert_array_equal(first.data["unit1"], again.data["unit1"])
    other = make_nonlinear_plant(n_samples=300, process_noise=0, sensor_noise=0, size=0, plant_state=1, random_state=0)
    assert np.abs(first.data["unit1"] - other.data["unit1"]).max() > 1


def test_influence_has_a_third_of_its_bound_on_the_cycle():
    """tanh of a variable of unit variance: standard deviation near 0.6, times the strength."""
    with_link = make_nonlinear_plant(n_samples=2000, size=0, strength=0.5, process_noise=0, random_state=0)
    without = make_nonlinear_plant(n_samples=2000, size=0, strength=0.0, process_noise=0, random_state=0)
    assert_array_equal(with_link.states[:, 0], without.states[:, 0])  # unit 0 has no cause
    assert np.abs(with_link.states[:, 1] - without.states[:, 1]).std() > 0.05


@pytest.mark.parametrize("links", [[(0, 0)], [(0, 5)], [(0, 1, 1)]])
def test_links_that_cannot_be_are_refused(links):
    with pytest.raises(ValueError, match="Link"):
        make_nonlinear_plant(links=links)


def test_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind"):
        make_nonlinear_plant(kind="linear")


@pytest.mark.parametrize("plant_state", range(3))
def test_lstm_dynamics_turn_on_the_cycle_and_come_back_from_faults(plant_state):
    plant = make_nonlinear_plant(
        n_samples=1500, dynamics="lstm", process_noise=0.1, size=5.0, plant_state=plant_state, random_state=0
    )
    quiet = np.ones(1500, dtype=bool)
    for first, stop, _ in plant.faults:
        quiet[first : stop + 20] = False
    x = plant.states[:, 0]
    assert_allclose(np.hypot(*x[quiet].T).mean(), 2.0, atol=0.2)
    turns = np.diff(np.unwrap(np.arctan2(x[:100, 1], x[:100, 0]))) / (2 * np.pi)
    assert_allclose(1 / turns.mean(), 20, atol=2)
    assert np.abs(plant.states).max() < 15
    free = plant.f["unit0"].value(x[:-1])
    assert_allclose((x[1:] - free)[quiet[1:]].std(), 0.1, rtol=0.1)  # unit 0 has no cause: process noise


def test_true_maps_explain_the_sensors():
    plant = make_nonlinear_plant(n_samples=400, sensor_noise=0.5, random_state=0)
    for m, (name, h) in enumerate(plant.h.items()):
        rest = plant.data[name] - h.value(plant.states[:, m])
        assert_allclose(rest.std(), 0.5, rtol=0.1)
        assert h.jacobian(plant.states[:3, m]).shape == (3, 4, 2)


def test_unknown_dynamics_are_refused():
    with pytest.raises(ValueError, match="dynamics"):
        make_nonlinear_plant(dynamics="linear")
