"""Groups of units that are fitted together."""

import numpy as np
import pytest

from skfedcausal.server.sparse.filter import cores, neighbours, with_halo


@pytest.fixture
def network():
    rng = np.random.default_rng(0)
    links = [(e, c) for e, c in rng.integers(60, size=(90, 2)).tolist() if e != c]
    near = neighbours(60, links, rng.uniform(size=len(links)), [(3, 40)])
    causes = [[c for e, c in links if e == unit] for unit in range(60)]
    return near, causes


def test_every_unit_is_in_one_core(network):
    groups = cores(network[0], size=6)
    assert sorted(unit for group in groups for unit in group) == list(range(60))
    assert max(map(len, groups)) <= 6


def test_a_block_has_its_core_first_and_all_that_acts_on_it(network):
    near, causes = network
    for core in cores(near):
        members = with_halo(core, near, causes, most=2)  # even where that is more than asked for
        assert members[: len(core)] == core
        assert all(set(causes[unit]) <= set(members) for unit in core)
        assert len(set(members)) == len(members)


def test_linked_units_stay_together():
    """Two cliques without a link between them are two groups."""
    links = [(a, b) for first in (0, 4) for a in range(first, first + 4) for b in range(first, first + 4) if a < b]
    near = neighbours(8, links, np.ones(len(links)), [])
    assert cores(near, size=4) == [[0, 1, 2, 3], [4, 5, 6, 7]]
