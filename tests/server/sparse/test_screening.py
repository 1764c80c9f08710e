"""Score tests of all pairs from products, against those from lag covariances and dense information."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from skfedcausal import KalmanClient
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation.estimate import screen_plant
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.sparse.blocks import LargePlant
from skfedcausal.server.sparse.screening import PairRows, given_others, products, screened, smoothed, statistics
from skfedcausal.server.sparse.screening import tested as results
from skfedcausal.statespace.matrices import Partition

ROWS = 3000


def record_of(n_units=5, **settings):
    X, truth = make_granger_plant(n_units, n_samples=ROWS, random_state=3, **settings)
    clients = zip(X, truth.observation, strict=True)
    return JointRecord.from_messages({name: KalmanClient(C=C).fit(X[name]).message(X[name]) for name, C in clients})


@pytest.fixture(scope="module", params=[2, [1, 3, 2, 2, 1]], ids=["equal", "unequal"])
def record(request):
    return record_of(n_states=request.param)


def off_diagonal(matrix):
    return matrix[~np.eye(len(matrix), dtype=bool)]


def test_statistics_of_products_are_those_of_lag_covariances(record):
    # a product over the record and the truncated lag covariances differ at the ends of the record and by what is
    # left after the last lag: two thousandths of a standard error, and as much of the statistic's root
    plant = LargePlant(record)
    found = screened(plant)
    partition = plant.partition
    rows = PairRows.of(partition.pairs, found.products, partition)
    estimate, covariance, p_value = results(partition.pairs, found.spectra, rows, partition.sizes, plant.n_samples)
    dense = screen_plant(record)
    scale = np.sqrt(np.diagonal(dense.covariance, axis1=1, axis2=2))
    real = partition.pair_elements < partition.n_elements
    assert np.abs((estimate - dense.estimate) / scale)[real].max() < 0.15
    np.testing.assert_allclose(np.sqrt(statistics(estimate, covariance)), np.sqrt(dense.statistic), atol=0.15)
    np.testing.assert_allclose(off_diagonal(found.p_value), p_value, rtol=1e-9)


def test_smoothing_in_pieces_is_that_of_all_rows_at_once():
    rng = np.random.default_rng(2)
    pushes, series, starts = *rng.standard_normal((2, 300, 6)), (0, 128, 201)
    A, N = (csr_array(rng.standard_normal((6, 6)) * (rng.random((6, 6)) < 0.5)) for _ in range(2))
    before = np.vstack([np.zeros((1, 6)), pushes[:-1]])
    expected = series - (before - pushes @ A.toarray()) @ N.toarray().T
    expected[[127, 200, 299]] = 0.0
    np.testing.assert_allclose(smoothed(pushes, series, A, N, starts), expected, atol=1e-12)


@pytest.mark.parametrize("n", [5, 600])
def test_products_in_threads_are_those_of_one_thread_to_the_last_bit(n):
    rng = np.random.default_rng(2)
    pushes, series = rng.standard_normal((2, 1500, n))
    A, noise = csr_array(np.eye(n) / 2 + np.eye(n, k=1) / 4), csr_array(np.eye(n))
    how = A, noise, (0, 900), 1498
    one = products(pushes, series, *how, with_noise=True, with_states=True)
    many = products(pushes, series, *how, parallel=SimpleNamespace(number=3), with_noise=True, with_states=True)
    for a, b in zip(one, many, strict=True):
        assert a.tobytes() == b.tobytes()
    states = smoothed(pushes, series, A, noise, (0, 900))
    for found, (left, right) in zip(one, ((pushes, states), (pushes, pushes), (states, states)), strict=True):
        np.testing.assert_allclose(found, left.T @ right / 1498, rtol=0, atol=1e-12)
    assert products(pushes, series, *how)[1:] == (None, None)


def test_noise_that_two_units_share_is_found():
    shared = np.random.default_rng(0).standard_normal((ROWS, 1))
    X, truth = make_granger_plant(5, n_states=1, n_samples=ROWS, n_links=0, random_state=1)
    response = shared.copy()
    for t in range(1, ROWS):
        response[t] += 0.6 * response[t - 1]
    names = list(X)
    for name, C in zip(names[:2], truth.observation[:2], strict=True):
        X[name] = X[name] + 1.5 * response @ C.T
    clients = zip(X, truth.observation, strict=True)
    record = JointRecord.from_messages({name: KalmanClient(C=C).fit(X[name]).message(X[name]) for name, C in clients})
    p_value = screened(LargePlant(record)).noise_p_value
    assert p_value[1, 0] == p_value[0, 1] < 1e-10
    p_value[1, 0] = p_value[0, 1] = 1.0
    assert p_value.min() > 1e-4


def test_regressors_of_a_row_leave_what_a_regression_leaves():
    """The information of a cause's block shrinks as that of least squares does."""
    rng = np.random.default_rng(0)
    partition = Partition([2, 2, 2])
    H = rng.standard_normal((500, 6)) @ (np.eye(6) + 0.5 * rng.standard_normal((6, 6)))
    states = H.T @ H / 500
    known, cause = np.arange(4), slice(4, 6)
    information = np.kron(np.eye(2), states[cause, cause])
    score = rng.standard_normal((1, 4))
    covariance = np.linalg.inv(information)[None] / 500
    estimate = np.linalg.solve(information, score[0])[None]
    actual = given_others(estimate, covariance, states, np.array([[0, 2]]), [known], partition)
    rest = H[:, cause] - H[:, known] @ np.linalg.lstsq(H[:, known], H[:, cause], rcond=None)[0]
    expected = np.linalg.inv(np.kron(np.eye(2), rest.T @ rest / 500))
    np.testing.assert_allclose(actual[1][0], expected / 500, rtol=1e-9)
    np.testing.assert_allclose(actual[0][0], expected @ score[0], rtol=1e-9)


def test_effects_whose_rows_know_more_or_less_are_conditioned_one_by_one_and_together_alike():
    """Blocks of several effects come out as those of each effect alone."""
    rng = np.random.default_rng(1)
    partition = Partition([2, 1, 2, 2, 1])
    H = rng.standard_normal((400, 8)) @ (np.eye(8) + 0.4 * rng.standard_normal((8, 8)))
    states = H.T @ H / 400
    known = [np.arange(2), np.array([2, 0, 1]), np.array([3, 4]), np.array([5, 6, 7]), np.array([7])]
    pairs = np.array([[0, 2], [0, 3], [1, 3], [2, 4], [3, 0], [4, 0], [4, 1]])
    root = rng.standard_normal((len(pairs), 4, 4))
    covariance, estimate = root @ np.swapaxes(root, 1, 2) + np.eye(4), rng.standard_normal((len(pairs), 4))
    together = given_others(estimate, covariance, states, pairs, known, partition)
    for k in range(len(pairs)):
        alone = given_others(estimate[k : k + 1], covariance[k : k + 1], states, pairs[k : k + 1], known, partition)
        for whole, one in zip(together, alone, strict=True):
            np.testing.assert_allclose(whole[k], one[0], rtol=1e-10)
