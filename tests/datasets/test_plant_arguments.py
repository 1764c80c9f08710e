"""Wrong arguments of the plant generator are refused with a reason."""

import numpy as np
import pytest

from skfedcausal.datasets import make_granger_plant


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_units": 0}, "n_units must be an integer of at least 1"),
        ({"n_units": 2.0}, "n_units must be an integer"),
        ({"n_states": [2, 2, 2]}, "n_states has 3 entries for 2 units"),
        ({"n_sensors": 0}, "n_sensors must be an integer of at least 1"),
        ({"n_samples": 0}, "n_samples"),
        ({"n_inputs": -1}, "n_inputs"),
        ({"episodes": 30, "n_samples": 20}, "30 episodes for 20 rows"),
        ({"radius": (0.5, 1.0)}, "radius must be a number or a pair"),
        ({"radius": (0.5, 0.6, 0.7)}, "radius must be a number or a pair"),
        ({"link_strength": (0.2, 0.1)}, "link_strength"),
        ({"input_strength": 0.0}, "input_strength"),
        ({"process_noise": 0.0}, "process_noise must be finite standard deviations above zero"),
        ({"measurement_noise": [1.0, -1.0]}, "measurement_noise must be finite"),
        ({"n_links": 3}, "only 2 ordered pairs"),
        ({"link_density": 1.5}, "link_density"),
        ({"n_links": 1, "links": [(0, 1)]}, "at most one of links, n_links, link_density"),
        ({"n_input_links": 1, "input_links": [(0, 1)]}, "of input_links, n_input_links"),
        ({"links": [(0, 0)]}, "different units"),
        ({"links": [(0, 2)]}, "Unknown unit 2"),
        ({"links": [("unit0", "pump")]}, "Unknown unit 'pump'"),
        ({"links": ["ab"]}, "pairs"),
        ({"links": np.zeros((3, 3), bool)}, "boolean matrix must have shape"),
        ({"input_links": [(0, 1)]}, "needs inputs"),
        ({"transition": np.eye(3)}, "transition has shape"),
        ({"transition": np.eye(4)}, "spectral radius 1"),
        ({"transition": np.full((4, 4), np.nan)}, "finite"),
        ({"transition": np.eye(4) / 2, "n_links": 1}, "transition fixes the links"),
        ({"names": ["a"]}, "Got 1 names for 2 units"),
        ({"names": ["a", "a"]}, "different"),
        ({"names": ["a", "b__c"]}, "__"),
        ({"container": "array"}, "container must be one of"),
        ({"missing": 1.0}, "missing must be a number"),
        ({"missing_blocks": [(0, 1)]}, r"missing_blocks must hold \(unit, start, stop\)"),
        ({"missing_blocks": [(0, 10, 10)]}, "at least one row"),
        ({"missing_blocks": [(0, 0, 3000)]}, "End of a missing block"),
        ({"level_shift": {"unit": 0}}, "level_shift must be a dict"),
        ({"level_shift": {"unit": 0, "size": 1, "time": 0.5}}, "level_shift must be a dict"),
        ({"level_shift": {"unit": 5, "size": 1}}, "Unknown unit 5"),
        ({"level_shift": {"unit": 0, "size": [1, 2, 3]}}, "size of a level shift has 3 entries"),
        ({"level_shift": {"unit": 0, "size": 1, "at": 1.5}}, "Start of a level shift"),
        ({"random_state": "seed"}, "seed"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_granger_plant(**{"n_units": 2, **arguments})
