"""Covariances become positive definite, and change no more than they must."""

import os
import platform
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info

from skfedcausal.statespace import matrices
from skfedcausal.statespace.matrices import (
    absolute_values,
    cap_radius,
    covariance_root,
    definite_inverses,
    eigen_root,
    few_threads,
    floor_eigenvalues,
    keep_freed_memory,
    remembered,
    symmetric_basis,
    symmetric_root,
)

from ._reference import EPS, assert_within, radius, random_covariance, rounding


def test_eigenvalues_below_the_floor_are_raised_and_others_kept():
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    S = (vectors * [-3.0, 0.0, 0.4, 2.0]) @ vectors.T
    result = floor_eigenvalues(S, 0.5)
    expected = (vectors * [0.5, 0.5, 0.5, 2.0]) @ vectors.T
    assert_within(result, expected, rounding(4) * 3)


def test_a_matrix_above_the_floor_stays_and_an_asymmetric_one_counts_by_its_symmetric_part():
    rng = np.random.default_rng(1)
    S = random_covariance(rng, 3) + np.eye(3)
    skew = rng.normal(size=(3, 3))
    for matrix in (S, S + skew - skew.T):
        assert_within(floor_eigenvalues(matrix, 0.5), S, rounding(3) * np.abs(S).max())


def test_each_matrix_of_a_stack_may_have_its_floor():
    S = np.zeros((2, 3, 2, 2))
    floor = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(floor_eigenvalues(S, floor), floor[..., None, None] * np.eye(2))


def test_absolute_values_of_definite_matrices_are_these_to_the_last_bit():
    """Whether or not their eigenvalues are asked for: those close to the floor are, where no quick factor exists."""
    root = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0]
    for smallest in (0.5, 1e-8, 3e-9):
        matrix = (root * np.array([smallest, 1, 2, 3, 4, 5])) @ root.T
        matrix = (matrix + matrix.T) / 2
        np.testing.assert_array_equal(absolute_values(np.stack([matrix, np.eye(6)]), 1e-10)[0], matrix)


def test_absolute_values_are_at_least_a_part_of_each_matrixs_own_largest():
    values = np.array([[-3.0, 1e-4, 2.0], [0.05, -200.0, 0.1], [1.0, 2.0, 3.0]])
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3, 3)))[0]
    stack = (vectors * values[:, None]) @ vectors.swapaxes(1, 2)
    expected = np.array([[3.0, 3e-3, 2.0], [0.2, 200.0, 0.2], [1.0, 2.0, 3.0]])
    found = absolute_values(stack, 1e-3)
    np.testing.assert_allclose(found, (vectors * expected[:, None]) @ vectors.swapaxes(1, 2), atol=1e-11)
    np.testing.assert_array_equal(found[2], stack[2])
    np.testing.assert_allclose(np.diag(absolute_values(np.diag([0.0, 2.0]))), [2e-9, 2.0])


@pytest.mark.parametrize("p", [1, 2, 5])
def test_basis_reaches_every_symmetric_matrix_by_its_lower_triangle(p):
    S = random_covariance(np.random.default_rng(p), p)
    basis = symmetric_basis(p)
    assert len(basis) == p * (p + 1) // 2
    np.testing.assert_array_equal(np.einsum("k,kij->ij", S[np.tril_indices(p)], basis), S)


@pytest.mark.parametrize("limit", [0.5, 0.98])
def test_radius_is_capped_and_smaller_ones_are_kept(limit):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(10, 3, 3)) * np.linspace(0, 1, 10)[:, None, None]
    before = np.array([radius(a) for a in A])
    capped = cap_radius(A, limit)
    for a, c, rho in zip(A, capped, before, strict=True):
        if rho <= limit:
            np.testing.assert_array_equal(a, c)
        else:
            np.testing.assert_allclose(c, a * (limit / rho), rtol=8 * EPS)
    assert np.any(before > limit)
    assert np.any(before <= limit)


@pytest.mark.parametrize("root", [covariance_root, eigen_root])
@pytest.mark.parametrize("S", [np.diag([2.0, 1.0]) + 0.5, np.ones((2, 2)), np.zeros((2, 2))])
def test_roots_of_covariances_that_may_be_singular(root, S):
    L = root(S)
    np.testing.assert_allclose(L @ L.T, S, atol=1e-15)


def test_the_symmetric_root_is_its_own_transpose():
    S = random_covariance(np.random.default_rng(3), 3) + np.eye(3)
    L = symmetric_root(S)
    assert_within(L, L.T, rounding(3) * np.abs(L).max())
    assert_within(L @ L, S, rounding(3) * 3 * np.abs(S).max())


def threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_few_columns_are_worked_on_by_one_thread_and_the_others_come_back():
    before = threads()
    with few_threads(30):
        assert set(threads()) == {1}
    assert threads() == before


def test_many_columns_keep_the_threads():
    before = threads()
    with few_threads(1000):
        assert threads() == before


@pytest.mark.parametrize(
    ("said", "looks"),
    [
        ({"OMP_NUM_THREADS": "1"}, False),
        ({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}, False),
        ({"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "4"}, True),
        ({"OPENBLAS_NUM_THREADS": "1"}, True),
        ({}, True),
    ],
)
def test_libraries_are_looked_for_unless_all_have_one_thread(monkeypatch, said, looks):
    looked, controller = [], matrices._controller
    monkeypatch.setattr(matrices, "_controller", lambda: looked.append(True) or controller())
    for name in matrices._SAID:
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    with few_threads(30):
        assert bool(looked) == looks


def test_answers_about_small_matrices_are_remembered():
    calls = []

    @remembered
    def doubled(x, shift=0.0):
        calls.append(x.shape)
        return 2 * x + shift

    small, large = np.eye(2), np.eye(17)
    first = doubled(small)
    assert doubled(small.copy()) is first
    assert_array_equal(doubled(np.asfortranarray(np.triu(np.ones((2, 2))))), 2 * np.triu(np.ones((2, 2))))
    assert_array_equal(doubled(small, shift=1.0), 2 * small + 1)
    assert len(calls) == 3
    assert doubled(large) is not doubled(large)
    for k in range(40):
        doubled(k * small)
    assert doubled(small) is not first  # only the last ones are kept


@pytest.mark.parametrize(("shape", "seed"), [((5, 3), 0), ((4, 20), 1), ((2, 3, 17), 2), ((0, 20), 3)])
def test_inverses_of_definite_matrices_give_the_identity_and_the_product_of_eigenvalues(shape, seed):
    rng, n = np.random.default_rng(seed), shape[-1]
    root = rng.normal(size=(*shape, 2 * n)) + 1j * rng.normal(size=(*shape, 2 * n))
    S = root @ np.conj(np.swapaxes(root, -1, -2)) / n
    inverses, logs = definite_inverses(S)
    scale = np.linalg.cond(S).max(initial=1.0)
    np.testing.assert_allclose(inverses @ S, np.broadcast_to(np.eye(n), S.shape), atol=100 * n * EPS * scale)
    np.testing.assert_allclose(logs, np.log(np.linalg.eigvalsh(S)).sum(axis=-1), rtol=0, atol=100 * n * EPS * scale)


def test_matrices_that_are_not_definite_have_their_general_inverse():
    S = np.diag(np.append(np.ones(19), -2.0)).astype(complex)[None]
    inverses, logs = definite_inverses(S)
    np.testing.assert_allclose(inverses[0], np.diag(np.append(np.ones(19), -0.5)))
    np.testing.assert_allclose(logs, np.log(2.0))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="of the allocator of glibc")
def test_memory_that_was_freed_is_not_taken_from_the_system_again():
    if platform.libc_ver()[0] != "glibc" or any(name.startswith("MALLOC_") for name in os.environ):
        pytest.skip("another allocator, or one with settings of its own")
    import resource

    keep_freed_memory.__wrapped__()

    def faults():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        np.ones(1 << 18)  # 2 MiB, 512 pages
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    assert min(faults() for _ in range(5)) < 50
