"""The link search against an exhaustive one over all structures of three units."""

from dataclasses import replace
from functools import partial
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from skfedcausal.server.estimation import estimate
from skfedcausal.server.estimation.estimate import (
    _capped,
    _proposal,
    dropped,
    is_degenerate,
    is_singular,
    search_structure,
)
from skfedcausal.server.estimation.evidence import (
    benjamini_hochberg,
    link_estimates,
    uncoupled_estimates,
    unordered_benjamini_hochberg,
)
from skfedcausal.server.estimation.scoring import Goal, Point, Scoring, Structure, ascend, is_valid
from skfedcausal.server.estimation.standardised import StandardisedPlant
from skfedcausal.server.joint import JointRecord
from skfedcausal.statespace.matrices import Partition

from .._reference import coupled_plant, endless, structure_of

LINKS = {
    "none": [],
    "one": [(1, 0)],
    "chain": [(1, 0), (2, 1)],
    "loop": [(0, 1), (1, 0)],
    "fork": [(1, 0), (2, 0)],
}


def started(links, seed=1, n_samples=1000):
    coupled = coupled_plant(seed, (1, 1, 1), links=links, strength=0.3, radius=0.6)
    parts = tuple(coupled.parts(coupled.simulate(n_samples, seed + 50)))
    plant = StandardisedPlant(JointRecord(coupled.names, parts, (0,)))
    start = plant.uncoupled
    objective = plant.whittle()
    return objective, plant.structure(), Point.at(objective, *start)


def exhaustive(objective, structure, point):
    """Maximum and its scoring for every set of links: 64 for three units."""
    pairs = len(structure.partition.pairs)
    results = {}
    for size in range(pairs + 1):
        for chosen in combinations(range(pairs), size):
            linked = np.zeros(pairs, dtype=bool)
            linked[list(chosen)] = True
            at = structure.with_masks(linked=linked)
            top = ascend(objective, Scoring(objective, at, point), gain_tol=1e-6)
            results[chosen] = Scoring(objective, at, top.point)
    return results


def test_a_search_in_which_every_block_is_free_has_settled(monkeypatch):
    # wherever its climb ended: how far the maximum is, the last climb says
    monkeypatch.setattr(estimate, "ascend", partial(ascend, max_iter=1))
    objective, structure, point = started([])
    found = search_structure(objective, structure, point, alpha=None, tol=1e-9)
    assert found.settled
    assert found.scoring.structure.linked.all()
    assert found.scoring.structure.correlated.all()


@pytest.mark.parametrize("links", LINKS)
def test_the_answer_is_one_that_tests_itself_and_the_best_of_those(links):
    """Of all 64 structures it must accept each of its links and no other, as Benjamini-Hochberg says; among
    those that do, none has a better information criterion (BIC)."""
    objective, structure, point = started(LINKS[links])
    found = search_structure(objective, structure, point)
    assert found.settled
    assert not found.scoring.structure.correlated.any()
    consistent = {}
    for chosen, scoring in exhaustive(objective, structure, point).items():
        wanted = benjamini_hochberg(link_estimates(scoring).p_value, 0.05)
        if (wanted == scoring.structure.linked).all():
            value = scoring.n_samples * float(scoring.point.evaluation.value)
            consistent[chosen] = value - 0.5 * len(chosen) * np.log(scoring.n_samples)
    answer = tuple(np.flatnonzero(found.scoring.structure.linked).tolist())
    assert answer in consistent
    assert consistent[answer] == max(consistent.values())


@pytest.mark.parametrize("links", LINKS)
def test_links_that_are_clear_are_found(links):
    objective, structure, point = started(LINKS[links])
    linked = search_structure(objective, structure, point).scoring.structure.linked
    pairs = [tuple(pair) for pair in structure.partition.pairs.tolist()]
    assert all(linked[pairs.index(pair)] for pair in LINKS[links])


def test_the_search_ends_near_the_maximum():
    objective, structure, point = started(LINKS["chain"])
    found = search_structure(objective, structure, point, tol=0.1)
    top = ascend(objective, found.scoring, gain_tol=1e-12).point
    left = objective.n_samples * (top.evaluation.value - found.scoring.point.evaluation.value)
    # the step promises twice the quadratic gain, which is below 0.1
    assert 0 <= left < 0.1


def test_a_search_that_aims_at_the_end_of_the_climb_finds_the_same_and_ends_there():
    objective, structure, point = started(LINKS["chain"])
    short = search_structure(objective, structure, point)
    found = search_structure(objective, structure, point, finish=Goal(1e-12, 100))
    assert found.scoring.structure.key == short.scoring.structure.key
    assert found.n_further > 0
    assert found.scoring.gain <= 1e-11  # in the curvature at the end; the climb has learned another one
    again = link_estimates(Scoring(objective, found.scoring.structure, found.scoring.point))
    np.testing.assert_array_equal(found.scoring.estimates["state"].estimate, again.estimate)


def test_correlations_that_explain_nothing_leave_with_the_links_that_come():
    """Without its links a chain looks correlated; one proposal puts both right."""
    objective, structure, point = started(LINKS["chain"], n_samples=5000)
    pairs = structure.partition.pairs.tolist()
    correlated = np.array([sorted(pair) == [0, 1] for pair in pairs])
    linked = np.array([tuple(pair) in LINKS["chain"][:1] for pair in pairs])
    start = structure.with_masks(linked=linked, correlated=correlated)
    top = ascend(objective, Scoring(objective, start, point), gain_tol=1e-6).point
    proposed = _proposal(Scoring(objective, start, top), 0.05)
    assert (proposed.linked & ~linked).any()
    assert not proposed.correlated.any()


def test_both_orders_of_a_correlation_stay_where_their_tests_round_differently(monkeypatch):
    objective, structure, point = started(LINKS["chain"])
    both = structure.with_masks(correlated=np.ones(len(structure.partition.pairs), dtype=bool))
    first = structure.partition.pairs[:, 0] < structure.partition.pairs[:, 1]
    beside_the_level = SimpleNamespace(p_value=np.where(first, np.nextafter(0.05, 1), 0.05))
    monkeypatch.setattr(estimate, "correlation_estimates", lambda scoring, only_inside: beside_the_level)
    kept = estimate._without_idle_correlations(Scoring(objective, both, point), both, 0.05)
    np.testing.assert_array_equal(kept.covariance_mask, kept.covariance_mask.T)
    assert kept.correlated.all()


def test_a_search_continued_from_its_answer_stays_there():
    objective, structure, point = started(LINKS["chain"])
    first = search_structure(objective, structure, point)
    again = search_structure(objective, first.scoring.structure, first.scoring.point)
    assert again.settled
    assert again.n_further == 0
    assert again.scoring.structure.key == first.scoring.structure.key


def test_stricter_levels_find_fewer_links():
    objective, structure, point = started(LINKS["chain"], n_samples=200)
    found = [
        search_structure(objective, structure, point, alpha=alpha).scoring.structure.linked.sum()
        for alpha in (0.3, 0.05, 1e-4, 1e-12)
    ]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]


def test_units_of_unequal_size_are_searched():
    coupled = coupled_plant(3, (1, 3, 2), links=[(1, 0), (0, 2)], strength=0.6, n_sensors=4)
    parts = tuple(coupled.parts(coupled.simulate(1500, 1)))
    plant = StandardisedPlant(JointRecord(coupled.names, parts, (0,)))
    start = plant.uncoupled
    objective = plant.whittle()
    found = search_structure(objective, plant.structure(), Point.at(objective, *start))
    expected = structure_of(coupled.partition, linked=[(1, 0), (0, 2)])
    assert found.settled
    assert (found.scoring.structure.linked >= expected.linked).all()


# --- steps of the search ----------------------------------------------------------------------------


def test_at_most_three_links_are_added_per_effect_the_most_significant_ones():
    partition = Partition((1,) * 6)
    effect = partition.pairs[:, 0]
    p_values = np.random.default_rng(0).random(len(effect))
    kept = _capped(np.ones(len(effect), dtype=bool), p_values, partition)
    for m in range(6):
        own = np.flatnonzero(effect == m)
        best = own[np.argsort(p_values[own])[:3]]
        assert set(np.flatnonzero(kept & (effect == m))) == set(best)


def test_only_wanted_links_are_added():
    partition = Partition((1,) * 4)
    wanted = np.zeros(12, dtype=bool)
    wanted[[0, 7]] = True
    np.testing.assert_array_equal(_capped(wanted, np.linspace(1, 0, 12), partition), wanted)


def test_correlations_are_chosen_for_both_orders_at_once():
    partition = Partition((1, 1, 1))
    pairs = [tuple(pair) for pair in partition.pairs.tolist()]
    p_values = np.array([1e-6 if set(pair) == {0, 2} else 0.5 for pair in pairs])
    chosen = unordered_benjamini_hochberg(p_values, 0.05, partition)
    assert {pair for pair, on in zip(pairs, chosen, strict=True) if on} == {(0, 2), (2, 0)}


YES, NO, PERHAPS = 1e-9, 0.9, 0.04  # p-values; the last one is rejected together with a smaller one


@pytest.mark.parametrize(
    ("inside", "tests", "expected"),
    [
        # what comes in one family leaves all later ones as they are, but for correlations without effect
        ("10 11 1 11", {"state": (YES, YES), "input": (NO, NO), "step": (NO, NO)}, "11 11 1 11"),
        ("10 11 1 11", {"state": (YES, YES), "input": (NO, NO), "noise": NO}, "11 11 0 11"),
        ("11 11 1 11", {"state": (YES, NO), "input": (NO, YES), "step": (NO, YES)}, "10 01 1 01"),
        ("11 01 1 11", {"state": (NO, NO), "input": (YES, YES), "step": (NO, NO)}, "00 11 1 11"),
        ("11 01 1 11", {"state": (NO, YES), "input": (NO, YES), "step": (0.01, 0.011)}, "01 01 1 10"),
        ("00 00 0 10", {"step": (YES, YES), "noise": YES}, "00 00 1 10"),
        ("00 00 1 00", {"noise": NO}, "00 00 0 00"),
        ("11 00 1 00", {"state": (PERHAPS, YES), "noise": 0.05}, "11 00 1 00"),
        ("11 00 1 00", {"state": (PERHAPS, NO), "noise": 0.05}, "00 00 1 00"),
        ("11 00 1 00", {"state": (PERHAPS, NO), "noise": 0.051}, "00 00 0 00"),
    ],
)
def test_families_of_blocks_are_tested_in_turn_until_one_of_them_adds_something(inside, tests, expected, monkeypatch):
    """Two links, two inputs on the other unit, noise of both units, two units at one step."""
    partition = Partition((1, 1), (1, 1), n_steps=1)
    none = {"state": (NO, NO), "input": (NO, NO), "step": (NO, NO), "noise": YES}

    def estimates(scoring, kind="state", **settings):
        return SimpleNamespace(p_value=np.array((none | tests)[kind]))

    def of_noise(scoring, **settings):
        return SimpleNamespace(p_value=np.full(2, (none | tests)["noise"]))

    monkeypatch.setattr(estimate, "link_estimates", estimates)
    monkeypatch.setattr(estimate, "correlation_estimates", of_noise)
    linked, driven, correlated, shifted = (np.array([c == "1" for c in word]) for word in inside.split())
    masks = {"linked": linked, "driven": driven, "correlated": np.repeat(correlated, 2), "shifted": shifted}
    found = _proposal(SimpleNamespace(structure=Structure(partition, **masks)), 0.05)
    words = (found.linked, found.driven, found.correlated[:1], found.shifted)
    assert " ".join("".join(str(int(x)) for x in word) for word in words) == expected


@pytest.mark.parametrize(
    ("Q", "near"),
    [
        (np.eye(2), False),
        (np.diag([1.0, 1e-4]), True),
        (np.diag([1.0, 1.1e-3]), False),
        (np.diag([1.0, 0.9e-3]), True),
        (np.array([[1, 0.9995], [0.9995, 1]]), True),
    ],
)
def test_noise_is_singular_if_some_combination_hardly_has_any(Q, near):
    assert is_singular(Q) is near


def degenerate(objective, partition, point):
    _, correlations = uncoupled_estimates(objective, partition, point)
    return is_degenerate(point, correlations, partition, 0.05)


def test_a_calm_uncoupled_plant_is_not_degenerate():
    coupled = coupled_plant(0, (1, 1, 1))
    objective, point = endless(coupled)
    assert degenerate(objective, coupled.partition, point) is False


def test_a_unit_close_to_a_unit_root_is():
    objective, point = endless(coupled_plant(0, (1, 1), radius=0.99))
    assert degenerate(objective, Partition((1, 1)), point) is True


def test_a_plant_whose_score_shows_correlated_noise_is():
    coupled = coupled_plant(0, (1, 1))
    Q = coupled.plant.Q.copy()
    Q[0, 1] = Q[1, 0] = 0.5 * np.sqrt(Q[0, 0] * Q[1, 1])
    objective, _ = endless(coupled.with_dynamics(coupled.plant.A, Q))
    uncoupled = Point.at(objective, coupled.plant.A, coupled.plant.Q)
    assert degenerate(objective, coupled.partition, uncoupled) is True


@pytest.mark.parametrize("correlation", [0.3, 0.9, 0.999])
def test_dropped_blocks_leave_a_valid_plant_without_them(correlation):
    """Also where the step that takes them away would leave the valid plants."""
    coupled = coupled_plant(0, (2, 1), links=[(1, 0)], strength=0.8)
    partition = coupled.partition
    Q = np.eye(3)
    Q[0, 2] = Q[2, 0] = correlation
    objective, _ = endless(coupled.with_dynamics(coupled.plant.A, Q), n_samples=50)
    everything = structure_of(partition, linked=[(1, 0), (0, 1)], correlated=[(0, 1)])
    rng = np.random.default_rng(0)
    A = coupled.plant.A + 0.1 * rng.normal(size=(3, 3))
    scoring = Scoring(objective, everything, Point.at(objective, A, Q))
    for kept in (structure_of(partition), structure_of(partition, linked=[(1, 0)])):
        point = dropped(objective, scoring, kept)
        assert is_valid(point.A, point.Q)
        assert (point.A[~kept.transition_mask] == 0).all()
        assert (point.Q[~kept.covariance_mask] == 0).all()


def test_blocks_are_dropped_even_where_every_step_is_invalid():
    """The plant then keeps its other elements: the noise of a unit alone is definite if that of all is."""
    coupled = coupled_plant(0, (2, 1), links=[(1, 0)])
    partition = coupled.partition
    objective, point = endless(coupled)
    structure = structure_of(partition, linked=[(1, 0)], correlated=[(0, 1)])
    scoring = Scoring(objective, structure, point)

    class Refusing(Scoring):
        def without(self, other):
            return 5.0 * np.eye(3), -np.eye(3)

    refusing = Refusing(objective, structure, point)
    safe = dropped(objective, refusing, structure_of(partition))
    assert is_valid(safe.A, safe.Q)
    mask = partition.block_diagonal
    np.testing.assert_array_equal(safe.A, np.where(mask, scoring.point.A, 0))
    np.testing.assert_array_equal(safe.Q, np.where(mask, scoring.point.Q, 0))


def test_a_search_with_nowhere_to_climb_has_not_settled(monkeypatch):
    objective, structure, point = started(LINKS["one"])
    linked = structure.with_masks(linked=np.ones(6, dtype=bool))
    monkeypatch.setattr(estimate, "_next_point", lambda objective, scoring, *_: (scoring.point, np.inf, 0))
    found = search_structure(objective, linked, point, near=0.0)
    assert not found.settled
    assert found.scoring.point is point


def test_noise_of_a_single_pair_that_is_correlated_enters_before_any_link():
    objective, structure, point = started(LINKS["none"])
    links, correlations = uncoupled_estimates(objective, structure.partition, point)
    pairs = structure.partition.pairs.tolist()
    together = np.array([sorted(pair) == [0, 1] for pair in pairs])
    size = np.where(together, 1.0, 0.0)[:, None]
    tests = links, replace(correlations, estimate=size, covariance=np.full((6, 1, 1), 1e-4))
    first, _ = estimate._first_structure(objective, structure, point, 0.05, 10.0, tests)
    np.testing.assert_array_equal(first.correlated, together)


def test_what_is_left_after_links_were_dropped_is_not_known():
    objective, structure, point = started(LINKS["one"])
    linked = structure.with_masks(linked=np.ones(6, dtype=bool))
    _, left, n_further = estimate._next_point(objective, Scoring(objective, linked, point), structure, 1.0, None)
    assert (left, n_further) == (np.inf, 0)


def test_a_search_ends_after_sixty_rounds(monkeypatch):
    objective, structure, point = started(LINKS["one"])
    linked, rounds = structure.with_masks(linked=np.ones(6, dtype=bool)), []

    def next_point(objective, scoring, *_):
        rounds.append(Point(*scoring.point))
        return rounds[-1], np.inf, 0

    monkeypatch.setattr(estimate, "_next_point", next_point)
    found = search_structure(objective, linked, point, near=0.0)
    assert (len(rounds), found.settled) == (60, False)
