"""Portions of a budget: a climb stops when its own is gone, and the search goes on."""

import pytest

from skfedcausal.server.lagged.budget import Budget


def test_a_portion_is_a_share_of_all_and_ends_with_it():
    budget = Budget(1.0)
    level = budget.portion(0.25)
    assert not budget.is_below(level)
    budget.spend(0.24 * 2e9)
    assert not budget.is_below(level)
    budget.spend(0.02 * 2e9)
    assert budget.is_below(level)
    assert not budget.is_spent
    budget.spend(0.7 * 2e9)
    assert budget.portion(0.25) == pytest.approx(0.0)
    budget.spend(0.05 * 2e9)
    assert budget.is_spent
    assert budget.is_below(budget.portion(0.25))
