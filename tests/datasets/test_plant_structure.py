"""Matrices and links of the simulated plant are those that were asked for."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal.datasets import make_granger_plant


def spectral_radius(A):
    return np.abs(np.linalg.eigvals(A)).max()


@pytest.mark.parametrize("n_states", [1, 2, 3, 4, 5])
def test_local_radius_is_in_the_interval(n_states):
    _, truth = make_granger_plant(5, n_states=n_states, n_links=0, radius=(0.6, 0.7), n_samples=1, random_state=0)
    for model in truth.clients().values():
        moduli = np.abs(np.linalg.eigvals(model["A"]))
        assert (moduli >= 0.6 - 1e-12).all()
        assert (moduli <= 0.7 + 1e-12).all()


def test_a_strongly_linked_plant_is_scaled_to_a_radius_of_095():
    loop = {"links": [(0, 1), (1, 0)], "n_samples": 5, "random_state": 0}
    _, truth = make_granger_plant(2, link_strength=5.0, **loop)
    assert_allclose(spectral_radius(truth.transition), 0.95)


@pytest.mark.parametrize(("n_units", "expected"), [(1, 0), (2, 1), (3, 4), (4, 6), (10, 15)])
def test_default_number_of_links(n_units, expected):
    _, truth = make_granger_plant(n_units, n_samples=1, random_state=0)
    assert len(truth.links) == expected


def test_links_table_is_the_blocks_that_are_not_zero():
    _, truth = make_granger_plant(4, n_states=[1, 2, 3, 2], n_inputs=[1, 0, 2, 1], random_state=0)
    matrices = {
        "state": (truth.transition, truth.state_slices),
        "input": (truth.input, truth.input_slices),
    }
    for kind, (matrix, sources) in matrices.items():
        rest = matrix.copy()
        for link in truth.links[truth.links["kind"] == kind].itertuples():
            block = truth.state_slices[link.effect], sources[link.cause]
            assert_allclose(link.strength, np.linalg.norm(matrix[block]))
            rest[block] = 0
        for name in truth.names:
            rest[truth.state_slices[name], sources[name]] = 0
        assert not rest.any()


def test_link_strength_is_in_the_interval():
    _, truth = make_granger_plant(
        6, n_links=6, n_inputs=1, link_strength=(0.1, 0.12), input_strength=0.3, random_state=0
    )
    strength = truth.links.groupby("kind")["strength"]
    assert strength.min()["state"] >= 0.1
    assert strength.max()["state"] <= 0.12
    assert_allclose(strength.get_group("input"), 0.3)
    own = [np.linalg.norm(model["B"]) for model in truth.clients().values()]
    assert_allclose(own, 0.3)


@pytest.mark.parametrize(
    "links",
    [
        [("b", "a"), (2, 0)],
        np.array([[False, True, True], [False, False, False], [False, False, False]]),
        np.array([[1, 0], [2, 0]]),
    ],
    ids=["names and positions", "matrix", "array of pairs"],
)
def test_links_can_be_given(links):
    _, truth = make_granger_plant(3, names=["a", "b", "c"], links=links, random_state=0)
    assert truth.links[["cause", "effect"]].to_numpy().tolist() == [["b", "a"], ["c", "a"]]


def test_number_and_density_of_links():
    count = {"n_samples": 1, "random_state": 0}
    assert len(make_granger_plant(5, n_links=3, **count)[1].links) == 3
    assert len(make_granger_plant(5, link_density=0.5, **count)[1].links) == 10


def test_input_links_are_chosen_apart_from_state_links():
    _, truth = make_granger_plant(3, n_inputs=[1, 0, 1], links=[(0, 1)], input_links=[(2, 1)], random_state=0)
    assert truth.links["kind"].tolist() == ["state", "input"]
    assert truth.links["cause"].tolist() == ["unit0", "unit2"]
    _, truth = make_granger_plant(3, n_inputs=1, n_input_links=0, random_state=0)
    assert set(truth.links["kind"]) == {"state"}


def test_transition_can_be_given():
    A = np.array([[0.5, 0.0], [0.3, 0.6]])
    _, truth = make_granger_plant(2, n_states=1, transition=A, random_state=0)
    assert_array_equal(truth.transition, A)
    assert truth.links.to_dict("records") == [{"cause": "unit0", "effect": "unit1", "kind": "state", "strength": 0.3}]


def test_clients_are_the_diagonal_blocks():
    _, truth = make_granger_plant(2, n_states=[1, 3], n_inputs=[0, 2], random_state=0)
    first, second = truth.clients().values()
    assert first["B"] is None
    shapes = {key: matrix.shape for key, matrix in second.items()}
    assert shapes == {"A": (3, 3), "B": (3, 2), "C": (8, 3), "Q": (3, 3), "R": (8, 8)}
    assert_array_equal(second["A"], truth.transition[1:, 1:])
    assert_array_equal(second["B"], truth.input[1:])
    second["A"][:] = 0
    assert truth.transition[1:, 1:].any()


def test_truth_is_frozen():
    _, truth = make_granger_plant(2, n_samples=1, random_state=0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        truth.transition = None
