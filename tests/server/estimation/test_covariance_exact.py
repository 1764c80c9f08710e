"""Information from simulated records: the expected one where that is known, right where clocks differ."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodOptions, LikelihoodServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation.covariance import ExactInformation, ScoreProducts, simulated_records
from skfedcausal.server.estimation.estimate import Settings, fitted_likelihood
from skfedcausal.server.estimation.evidence import link_estimates
from skfedcausal.server.estimation.scoring import Budget
from skfedcausal.statespace.matrices import Partition
from skfedcausal.statespace.timedomain import Contributions

from .._reference import structure_of

GOAL = {"max_iter": 200, "tol": 1e-8}


def _records(plant, scoring):
    return simulated_records(plant, scoring)


def thinned(X, periods):
    for Y, period in zip(X.values(), periods, strict=True):
        empty = np.ones(len(Y), dtype=bool)
        empty[::period] = False
        Y[empty] = np.nan
    return X


def fitted(X, truth, sparsity="fdr", inputs=None):
    inputs = [None] * len(X) if inputs is None else inputs
    clients = [KalmanClient(C=C, R=R) for C, R in zip(truth.observation, truth.measurement_cov, strict=True)]
    messages = {
        name: client.fit(Y, inputs=u).message(Y, inputs=u)
        for (name, Y), client, u in zip(X.items(), clients, inputs, strict=True)
    }
    record = LikelihoodServer(options=LikelihoodOptions(level_shifts=None)).fit(messages).joint_record(messages)
    plant, maximum = fitted_likelihood(record, Settings(sparsity=sparsity, **GOAL))
    return maximum.scoring, plant


@pytest.mark.medium
@pytest.mark.parametrize("sparsity", ["fdr", None])
def test_of_complete_records_it_is_the_expected_information(sparsity):
    """Variances from products of some 20 000 gradients: known to ``sqrt(8 / 20 000)``, a dozen at once."""
    X, truth = make_granger_plant(3, n_samples=2000, n_states=[2, 1, 2], links=[(0, 1)], random_state=0)
    scoring, plant = fitted(X, truth, sparsity)
    usual = link_estimates(scoring)
    exact = ExactInformation(scoring, plant, {"state": usual}, _records(plant, scoring))
    found = exact.blocks("state", usual)
    error = 4 * np.sqrt(8 / 20_000)
    np.testing.assert_allclose(np.diag(exact.covariance()), np.diag(scoring.covariance), rtol=error)
    np.testing.assert_allclose(found.stderr, usual.stderr, rtol=error)
    np.testing.assert_allclose(found.estimate, usual.estimate, atol=error * usual.strength.max())
    np.testing.assert_array_equal(found.dof, usual.dof)


@pytest.mark.medium
def test_it_is_the_same_at_every_call_and_knows_inputs():
    X, truth = make_granger_plant(2, n_samples=1000, n_inputs=1, input_links=[(0, 1)], random_state=0)
    scoring, plant = fitted(X, truth, inputs=truth.inputs)
    usual = {kind: link_estimates(scoring, kind) for kind in ("state", "input")}
    both = [ExactInformation(scoring, plant, usual, _records(plant, scoring)) for _ in range(2)]
    np.testing.assert_array_equal(both[0].covariance(), both[1].covariance())
    found = both[0].blocks("input", usual["input"])
    np.testing.assert_allclose(found.stderr, usual["input"].stderr, rtol=4 * np.sqrt(8 / 20_000) + 4 / np.sqrt(1000))


def dense_information(A, Q, seen, N, T):
    """Of all elements of A and the lower ones of Q, from the covariance of all scores of a record.

    `seen` holds the rows in which each state has a score, N is the scores' noise; levels are projected out.
    """
    n = len(Q)
    at = np.concatenate([rows * n + k for k, rows in enumerate(seen)])

    def covariance(A, Q):
        lagged = [solve_discrete_lyapunov(A, Q)]
        for _ in range(T - 1):
            lagged.append(A @ lagged[-1])
        lagged = np.array([x.T for x in lagged[:0:-1]] + lagged)
        apart = np.arange(T)[:, None] - np.arange(T)[None, :]
        full = lagged[apart + T - 1].transpose(0, 2, 1, 3)
        return full.reshape(T * n, T * n)[np.ix_(at, at)]

    inverse = np.linalg.inv(covariance(A, Q) + np.kron(np.eye(T), N)[np.ix_(at, at)])
    level = np.kron(np.ones((T, 1)), np.eye(n))[at]
    left = inverse @ level
    inverse = inverse - left @ np.linalg.solve(level.T @ left, left.T)
    slopes, step = [], 1e-5
    for row, col in np.ndindex(n, n):
        dA = np.zeros((n, n))
        dA[row, col] = step
        slopes.append((covariance(A + dA, Q) - covariance(A - dA, Q)) / (2 * step))
    for row, col in zip(*np.tril_indices(n), strict=True):
        dQ = np.zeros((n, n))
        dQ[row, col] = dQ[col, row] = step
        slopes.append((covariance(A, Q + dQ) - covariance(A, Q - dQ)) / (2 * step))
    turned = np.array([inverse @ slope for slope in slopes])
    return np.einsum("aij,bji->ab", turned, turned) / 2


@pytest.mark.medium
def test_of_units_of_different_clocks_it_is_that_of_the_joint_gaussian():
    """Edges of a record of 36 reports of the slower unit are a few per cent of it, as are 20 000 rows."""
    T = 252
    X, truth = make_granger_plant(2, n_samples=T, links=[], link_strength=0.1, radius=(0.8, 0.9), random_state=1)
    scoring, plant = fitted(thinned(X, (3, 7)), truth)
    partition, free = plant.partition, scoring.structure.free
    A, Q = scoring.point.A, scoring.point.Q
    seen = [np.arange(0, T, period) for period in (3, 3, 7, 7)]
    information = dense_information(A, Q, seen, plant.score_noise, T)
    lower = {pair: k for k, pair in enumerate(zip(*np.tril_indices(4), strict=True))}
    kept = [
        *(free.rows * 4 + free.cols),
        *(16 + lower[i, j] for i, j in zip(free.first, free.second, strict=True)),
    ]
    usual = link_estimates(scoring)
    found = ExactInformation(scoring, plant, {"state": usual}, _records(plant, scoring)).blocks("state", usual)
    averaged = []
    for pair, elements in enumerate(partition.pair_elements):
        assert not scoring.structure.linked[pair]
        cross = information[np.ix_(elements, kept)]
        rest = information[np.ix_(elements, elements)]
        variance = np.linalg.inv(rest - cross @ np.linalg.solve(information[np.ix_(kept, kept)], cross.T))
        np.testing.assert_allclose(np.trace(found.covariance[pair]), np.trace(variance), rtol=0.1)
        averaged.append(np.trace(usual.covariance[pair]) / np.trace(variance))
    assert max(averaged) > 2  # why it is not enough


@pytest.mark.slow
def test_links_of_units_of_different_clocks_keep_their_level():
    """Share of p-values below 5 % of pairs that do not influence each other; 23 % by averaged information."""
    p_values = []
    for seed in range(40):
        X, truth = make_granger_plant(
            2, n_samples=600, links=[], link_strength=0.1, radius=(0.8, 0.9), random_state=seed
        )
        X = thinned(X, (3, 7))
        clients = [KalmanClient(C=C, R=R) for C, R in zip(truth.observation, truth.measurement_cov, strict=True)]
        server = LikelihoodServer(max_time=60)  # row by row: ten seconds warn
        p_values.extend(FederatedGrangerEstimator(clients, server=server).fit(X).links_["p_value"])
    share = np.mean(np.array(p_values) < 0.05)
    assert share < 0.05 + 3 * np.sqrt(0.05 * 0.95 / len(p_values))


@pytest.mark.parametrize(("n_samples", "n_records"), [(20_000, 1), (19_999, 2), (9_999, 3), (50_000, 1)])
def test_twenty_thousand_rows_are_simulated_at_least(n_samples, n_records):
    """The information is the mean product of gradients over all of their rows."""
    drawn, gradients = [], np.random.default_rng(0).standard_normal((2, 40, 2, 2))
    plant = SimpleNamespace(
        budget=None,
        n_samples=n_samples,
        simulated=lambda point, rng: drawn.append(rng.random()),
        contributions=lambda point, record: [Contributions(slice(0, 40), *gradients)],
    )
    structure = structure_of(Partition((1, 1)))
    scoring = SimpleNamespace(structure=structure, point=None, n_samples=10, add_prior=lambda matrix: None)
    covariance = ExactInformation(scoring, plant, {}, _records(plant, scoring)).covariance()
    assert len(drawn) == n_records
    assert len(set(drawn)) == n_records  # one generator for all
    inside = ScoreProducts(structure, [Contributions(slice(0, 40), *gradients)], {}).inside
    np.testing.assert_allclose(covariance, np.linalg.inv(inside) * n_samples / 10, rtol=1e-9)


def test_a_budget_that_affords_too_few_rows_leaves_the_usual_information():
    """400 rows at a time: all that are wanted, those that are paid for, none that would be singular."""
    scoring = SimpleNamespace(structure=structure_of(Partition((1, 1))), point=None)
    plant = SimpleNamespace(budget=Budget(1e3), n_samples=400, steps_remembered=lambda point: 16)
    assert simulated_records(plant, scoring) == 50
    assert not plant.budget.is_spent
    plant.budget = Budget(10 * 400 * 2.1e4 / 2e9)  # of two billion operations a second
    assert simulated_records(plant, scoring) == 10
    assert plant.budget.is_spent
    plant.n_samples, plant.budget = 4, Budget(1e-9)
    assert simulated_records(plant, scoring) == 0
