"""How many records are simulated for the information: what a filter remembers has its price."""

from types import SimpleNamespace

import pytest

from skfedcausal.server.estimation.covariance import simulated_records
from skfedcausal.server.estimation.scoring import Budget


def asked(memory, max_time):
    plant = SimpleNamespace(n_samples=1000, budget=Budget(max_time), steps_remembered=lambda point: memory)
    structure = SimpleNamespace(free=SimpleNamespace(n_elements=300), partition=SimpleNamespace(n_states=40))
    return simulated_records(plant, SimpleNamespace(structure=structure, point=None)), plant.budget


@pytest.mark.parametrize(("memory", "expected"), [(3, 20), (16, 20), (400, 0)])
def test_long_memory_takes_more_of_the_time_that_there_is(memory, expected):
    # 20 records of 1000 rows of 16 n^3 operations each are 10 s; of 25 times as many, 260 s
    assert asked(memory, 25.0)[0] == expected


def test_what_is_simulated_is_taken_off():
    number, budget = asked(16, 25.0)
    assert number == 20
    assert budget.left == pytest.approx(25 - 20 * 1000 * (2e4 + 16 * 40**3 + 0.15 * 300**2) / 2e9, abs=1e-6)
