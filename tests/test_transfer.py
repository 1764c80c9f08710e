"""The learned plant as a transfer function."""

import numpy as np
import pytest
from scipy import signal
from scipy.optimize import linear_sum_assignment

from skfedcausal import FederatedCounterfactualEstimator
from skfedcausal.datasets import make_granger_plant
from skfedcausal.estimators._interventions import one_lag_realisation
from skfedcausal.transfer import TransferFunction


def random_plant(seed=0, n=4, k=2, d=2):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n))
    A *= 0.8 / np.abs(np.linalg.eigvals(A)).max()
    B, C = rng.standard_normal((n, k)), rng.standard_normal((d, n))
    names = tuple(f"u{i}" for i in range(k)), tuple(f"y{i}" for i in range(d))
    return TransferFunction(A, B, C, *names)


def assert_same_set(found, expected, atol):
    """Every number has a partner of its own in the other set; of a complex pair either may come first."""
    assert len(found) == len(expected)
    distances = np.abs(np.subtract.outer(found, expected))
    assert distances[linear_sum_assignment(distances)].max() <= atol


def test_poles_and_zeros_of_a_known_filter():
    """(z - 0.5)(z + 0.2) / ((z - 0.9)(z - 0.3)(z + 0.4))."""
    zeros, poles = np.array([0.5, -0.2]), np.array([0.9, -0.4, 0.3])
    A, B, C, _ = signal.tf2ss(np.poly(zeros), np.poly(poles))
    G = TransferFunction(A, B, C, ("u",), ("y",))
    np.testing.assert_allclose(G.poles(), poles, atol=1e-12)
    assert_same_set(G.zeros(), zeros, atol=1e-10)


def test_the_response_vanishes_in_some_direction_at_a_zero():
    G = random_plant()
    assert len(G.zeros())
    for z in G.zeros():
        gain = G.C @ np.linalg.solve(z * np.eye(4) - G.A, G.B)
        assert np.linalg.svd(gain, compute_uv=False)[-1] < 1e-8


def test_a_plant_with_more_outputs_has_the_zeros_that_all_of_them_share():
    inner = random_plant(k=1, d=1)
    outer = TransferFunction(inner.A, inner.B, np.vstack([inner.C, 2 * inner.C, -inner.C]), ("u",), ("a", "b", "c"))
    assert_same_set(outer.zeros(), inner.zeros(), atol=1e-6)
    assert len(random_plant(d=5).zeros()) == 0  # generic plants of this shape have none


def test_singular_values_do_not_depend_on_the_basis():
    G = random_plant(d=3)
    T = np.random.default_rng(1).standard_normal((4, 4))
    inverse = np.linalg.inv(T)
    other = TransferFunction(T @ G.A @ inverse, T @ G.B, G.C @ inverse, G.input_names, G.output_names)
    frequencies = np.linspace(0, np.pi, 7)
    np.testing.assert_allclose(G.singular_values(frequencies), other.singular_values(frequencies), rtol=1e-9)
    assert other.distance(G) < 1e-6


def test_the_impulse_response_is_that_of_scipy():
    G = random_plant()
    _, impulses = signal.dimpulse(G.to_scipy(), n=6)
    for k, impulse in enumerate(impulses):
        expected = [np.zeros(2)] + [G.C @ np.linalg.matrix_power(G.A, j) @ G.B[:, k] for j in range(5)]
        np.testing.assert_allclose(impulse, expected, atol=1e-12)


def test_the_norm_sums_impulse_responses():
    G = random_plant()
    impulses = [G.C @ np.linalg.matrix_power(G.A, k) @ G.B for k in range(200)]
    assert G.norm() == pytest.approx(np.sqrt((np.array(impulses) ** 2).sum()), rel=1e-10)


def test_conversion_to_python_control():
    control = pytest.importorskip("control")
    G = random_plant()
    converted = G.to_control()
    assert isinstance(converted, control.StateSpace)
    np.testing.assert_array_equal(converted.A, G.A)


@pytest.mark.medium
def test_estimated_and_true_plants_are_near():
    X, truth = make_granger_plant(2, n_inputs=2, links=[(0, 1)], input_links=[(0, 1)], n_samples=4000, random_state=0)
    est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    G = est.transfer_function()
    C = np.zeros((16, 4))
    for k, m in enumerate(truth.clients().values()):
        C[8 * k : 8 * k + 8, 2 * k : 2 * k + 2] = m["C"]
    true = TransferFunction(truth.transition, truth.input, C, G.input_names, G.output_names)
    assert G.distance(true) < 0.1
    np.testing.assert_allclose(G.singular_values([0.1, 1.0])[:, 0], true.singular_values([0.1, 1.0])[:, 0], rtol=0.15)
    assert list(G.steady_gain().columns) == list(est.input_names_)


@pytest.mark.parametrize(("p", "q"), [(1, 1), (3, 1), (1, 4), (3, 3)])
@pytest.mark.parametrize("at_once", [False, True])
def test_a_plant_of_several_lags_has_its_polynomial_as_transfer_function(p, q, at_once):
    """C (I - sum A_k z^-k)^-1 sum B_k z^-k, inputs of the same row included."""
    rng = np.random.default_rng(p + 10 * q)
    A, B, C = 0.3 * rng.standard_normal((p, 3, 3)) / p, rng.standard_normal((q, 3, 2)), rng.standard_normal((4, 3))
    direct = at_once * rng.standard_normal((3, 2))
    A[1:, 2], B[1:, 2] = 0.0, 0.0  # a state of one lag
    matrices = one_lag_realisation(A, B, direct, C)
    G = TransferFunction(*matrices[:3], ("u0", "u1"), tuple("abcd"), matrices[3])
    assert len(G.A) == 1 + 2 * max(p, q)
    frequencies = np.array([0.1, 1.0, 3.0])
    for w, found in zip(frequencies, G.response(frequencies), strict=True):
        delay = np.exp(-1j * w) ** np.arange(1, 5)
        polynomial = np.eye(3) - np.tensordot(delay[:p], A, 1)
        expected = C @ np.linalg.solve(polynomial, direct + np.tensordot(delay[:q], B, 1))
        np.testing.assert_allclose(found, expected, atol=1e-12)
    gain = C @ np.linalg.solve(np.eye(3) - A.sum(axis=0), direct + B.sum(axis=0))
    np.testing.assert_allclose(G.steady_gain(), gain, atol=1e-10)
    _, impulses = signal.dimpulse(G.to_scipy(), n=400)
    assert G.norm() == pytest.approx(np.sqrt(sum((impulse**2).sum() for impulse in impulses)), rel=1e-8)
    assert G.distance(G) < 1e-6


def test_zeros_of_a_filter_that_acts_at_once():
    zeros, poles = np.array([0.5, -0.2, 0.4]), np.array([0.9, -0.4, 0.3])
    A, B, C, D = signal.tf2ss(np.poly(zeros), np.poly(poles))
    G = TransferFunction(A, B, C, ("u",), ("y",), D)
    assert_same_set(G.zeros(), zeros, atol=1e-8)
