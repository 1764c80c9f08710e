"""The prior is the log-density of a handful of pseudo-observations."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.linalg import solve_discrete_lyapunov

from skfedcausal import FederatedGrangerEstimator
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation import estimate
from skfedcausal.server.estimation.scoring import Point, Prior, WithPrior
from skfedcausal.server.estimation.tuning import TUNING
from skfedcausal.server.links.questions import LinkQuestions
from skfedcausal.statespace.matrices import Partition, positions_of
from skfedcausal.statespace.whittle import FreeElements

from ...statespace._reference import (
    EPS,
    assert_gradient,
    derivatives,
    random_covariance,
    random_transition,
    rounding,
)
from .._reference import coupled_plant, endless

N_SAMPLES = 250
PARTITION = Partition((2, 1))


def example(seed=0, weight=5.0):
    rng = np.random.default_rng(seed)
    covariance = random_covariance(rng, 3) * PARTITION.block_diagonal + 0.3 * np.eye(3)
    prior = Prior(covariance, ~PARTITION.block_diagonal, N_SAMPLES, weight=weight)
    return prior, random_transition(rng, 3, 0.7), random_covariance(rng, 3) + 0.2 * np.eye(3)


def gaussian(weight, second_moment, covariance):
    """Log-density of so many pseudo-observations with a given second moment, less its constant."""
    solved = np.linalg.solve(covariance, second_moment)
    return -weight / 2 * (np.linalg.slogdet(covariance)[1] + np.trace(solved))


@pytest.mark.parametrize("weight", [5.0, 0.05])
def test_value_is_that_of_the_pseudo_observations(weight):
    """Disturbances with the units' own covariances, states of each unit of unit variance, couplings likewise."""
    prior, A, Q = example(weight=weight)
    couplings = A[prior.coupling]
    expected = (
        gaussian(weight, prior.covariance, Q)
        + gaussian(weight, np.eye(3), PARTITION.block_diagonal * solve_discrete_lyapunov(A, Q))
        + stats.norm.logpdf(couplings).sum()
        - stats.norm.logpdf(np.zeros(len(couplings))).sum()
    )
    error = rounding(9, np.linalg.cond(Q))
    assert N_SAMPLES * prior.evaluate(A, Q).value == pytest.approx(expected, rel=error)


def test_gradients_are_those_of_the_value():
    prior, A, Q = example()
    result = prior.evaluate(A, Q)
    step = 1e-3 * np.linalg.eigvalsh(Q)[0]
    assert_gradient(result.grad_A, lambda a: prior.evaluate(a, Q).value, A)
    assert_gradient(result.grad_Q, lambda q: prior.evaluate(A, q).value, Q, symmetric=True, step=step)
    np.testing.assert_allclose(result.grad_Q, result.grad_Q.T, rtol=8 * EPS)


@pytest.mark.medium
def test_information_is_the_expected_curvature_of_disturbances_and_couplings():
    """States of bounded variance are left out: their part of the curvature need not be positive."""
    rng = np.random.default_rng(1)
    Q = random_covariance(rng, 3) + 0.3 * np.eye(3)
    free = FreeElements.from_masks(np.ones((3, 3)), np.ones((3, 3)))
    prior = Prior(Q, ~PARTITION.block_diagonal, N_SAMPLES)  # expected is observed at the pseudo-covariance
    matrix = np.zeros((free.n_elements, free.n_elements))
    prior.add_information(matrix, free, Q)

    def minus_log_prior(vector):
        A, noise = free.scatter(vector.ravel(), (3, 3))
        couplings = 0.5 * (A[prior.coupling] ** 2).sum()
        return (couplings - gaussian(5.0, Q, noise)) / N_SAMPLES

    at = free.gather(np.zeros((3, 3)), Q)[None]
    step = 0.03 * np.linalg.eigvalsh(Q)[0]

    def slope(vector):
        return derivatives(minus_log_prior, vector, step=step)[0].ravel()

    expected, error = derivatives(slope, at, step=step)
    # the inner differences have an error of their own, of the order of the outer ones' over the step
    np.testing.assert_allclose(matrix, expected[0], rtol=0, atol=2 * error + 1e-3 * np.abs(expected).max())


def test_independent_noise_of_the_units_own_size_is_the_most_likely():
    rng = np.random.default_rng(2)
    covariance = np.diag([0.5, 0.3, 0.8])
    prior = Prior(covariance, ~PARTITION.block_diagonal, N_SAMPLES)
    A = np.diag(np.sqrt(1 - np.diag(covariance)))  # the states have unit variance
    best = prior.evaluate(A, covariance)
    np.testing.assert_allclose(best.grad_A, 0, atol=1e-13)
    np.testing.assert_allclose(best.grad_Q, 0, atol=1e-13)
    for _ in range(20):
        other_A = A + 0.03 * rng.normal(size=(3, 3))
        other_Q = covariance + 0.1 * random_covariance(rng, 3)
        assert prior.evaluate(other_A, other_Q).value < best.value


def test_states_that_move_together_are_not_held_against_a_link():
    """Of units whose variances are those of the pseudo-states, only the size of the link itself says anything."""
    A, Q = np.diag([0.98, 0.5, 0.4]), np.eye(3)
    A[2, :2] = 0.3
    S = solve_discrete_lyapunov(A, Q)
    assert S[0, 2] > 0.8 * np.sqrt(S[0, 0] * S[2, 2])
    prior = Prior(Q, ~PARTITION.block_diagonal, N_SAMPLES, states=S * PARTITION.block_diagonal)
    found = prior.evaluate(A, Q)
    np.testing.assert_allclose(found.grad_A, -A * prior.coupling / N_SAMPLES, atol=1e-12)
    np.testing.assert_allclose(found.grad_Q, 0, atol=1e-12)


def test_it_is_worth_as_many_steps_whatever_the_record():
    prior, A, Q = example()
    longer = Prior(prior.covariance, prior.coupling, 100 * N_SAMPLES)
    assert 100 * longer.evaluate(A, Q).value == pytest.approx(prior.evaluate(A, Q).value)


@pytest.mark.parametrize("approach", ["unit root", "singular noise", "perfect correlation"])
def test_it_falls_without_bound_towards_the_boundary(approach):
    prior, _, _ = example()
    values = []
    for gap in (1e-1, 1e-2, 1e-3, 1e-4):
        A, Q = 0.5 * np.eye(3), np.eye(3)
        if approach == "unit root":
            A = A * (1 - gap) / 0.5
        elif approach == "singular noise":
            Q = np.diag([gap, 1, 1])
        else:
            Q[0, 1] = Q[1, 0] = 1 - gap
        values.append(prior.evaluate(A, Q).value)
    assert (np.diff(values) < 0).all()


def test_with_prior_adds_the_two():
    coupled = coupled_plant(0, (2, 1), links=[(1, 0)])
    likelihood, point = endless(coupled, N_SAMPLES)
    prior, _, _ = example()
    backed = WithPrior(likelihood, prior)
    both = Point.at(backed, point.A, point.Q).evaluation
    alone = prior.evaluate(point.A, point.Q)
    for name in ("value", "grad_A", "grad_Q"):
        expected = getattr(point.evaluation, name) + getattr(alone, name)
        np.testing.assert_array_equal(getattr(both, name), expected)
    assert backed.n_samples == N_SAMPLES
    assert backed.prior is prior


def test_states_of_driven_plants_vary_at_most_as_much_as_the_record():
    """Own models of variance 4 / 3, 2 / 3 and 1 / 200: one at most, a hundredth at least."""
    A, Q = np.diag([0.5, 0.5, 0.0]), np.diag([1.0, 0.5, 0.005])
    coefficients = np.hstack([A, np.ones((3, 1))])
    prior = Prior.for_units(coefficients, Q, Partition((2, 1), (1, 0)), N_SAMPLES)
    np.testing.assert_allclose(prior.states, np.diag([1.0, 2 / 3, 0.01]), atol=1e-12)
    np.testing.assert_allclose(prior.covariance, np.diag([1.0, 0.5, 0.01]), atol=1e-12)
    assert Prior.for_units(A, Q, PARTITION, N_SAMPLES).states is None


def test_inputs_have_no_prior():
    prior, A, Q = example()
    plain, driven = prior.evaluate(A, Q), prior.evaluate(np.hstack([A, np.ones((3, 2))]), Q)
    assert driven.value == plain.value
    np.testing.assert_array_equal(driven.grad_A, np.hstack([plain.grad_A, np.zeros((3, 2))]))
    free = FreeElements.from_masks(np.ones((3, 5)), np.ones((3, 3)))
    matrix = np.zeros((free.n_elements, free.n_elements))
    prior.add_information(matrix, free, Q)
    expected = np.hstack([prior.coupling, np.zeros((3, 2))]) / N_SAMPLES  # of couplings of unit variance
    np.testing.assert_allclose(np.diag(matrix)[: free.n_transition], expected.ravel())


def pushed(push, seed):
    """Links of a slow unit that is pushed from half time on, told back and there, and the error of the true one."""
    n_samples, A = 5000, np.kron(np.diag([0.99, 0.5]), np.eye(2))
    A[2:, :2] = 0.25
    shift = {"unit": "unit0", "size": push, "at": n_samples // 2, "until": n_samples}
    X, truth = make_granger_plant(2, transition=A, n_samples=n_samples, random_state=seed, level_shift=[shift])
    est = FederatedGrangerEstimator().fit(X)
    told = est.links_.set_index(["cause", "effect"])["verdict"] == "influence"
    own = [client.observation_ for client in est.clients_.values()]
    first, second = (np.linalg.pinv(true) @ C for C, true in zip(own, truth.observation, strict=True))
    gain = second @ est.transition_[2:, :2] @ np.linalg.inv(first)
    return told["unit1", "unit0"], told["unit0", "unit1"], np.linalg.norm(gain - 0.25) / 0.5


@pytest.mark.medium
@pytest.mark.parametrize(("push", "seed"), [(0.2, 501), (2.0, 505), (2.0, 507)])
def test_a_prior_leaves_a_strong_link_of_a_slow_unit_alone(push, seed):
    """Who knows loadings and noise has errors of 0.029 (root mean square), a third of what is allowed here."""
    told_back, told, error = pushed(push, seed)
    assert told
    assert not told_back
    assert error < 0.1


# -- its weight ----------------------------------------------------------------------------------------------


def copied(own, seed, n_samples=3000):
    """A record of three units, of which the second repeats a state of the first up to noise of its own."""
    rng = np.random.default_rng(seed)
    h, w = np.zeros((n_samples, 4)), rng.normal(size=(n_samples, 4))
    for t in range(1, n_samples):
        h[t, :2] = 0.8 * h[t - 1, :2] + w[t, :2]
        h[t, 2] = 0.8 * h[t - 1, 0] + w[t, 0] + own * w[t, 2]
        h[t, 3] = 0.5 * h[t - 1, 3] + 0.3 * h[t - 1, 0] + w[t, 3]
    states = {"a": [0, 1], "b": [2], "c": [3]}
    X = {m: h[:, own] @ rng.normal(size=(len(own), len(own) + 1)) for m, own in states.items()}
    return {m: x + 1e-3 * rng.normal(size=x.shape) for m, x in X.items()}


def halves(X):
    n = len(next(iter(X.values()))) // 2
    return {m: x[:n] for m, x in X.items()}, {m: x[n:] for m, x in X.items()}


@pytest.mark.parametrize("own", [0.05, 0.02])
def test_a_lighter_prior_is_taken_where_rows_left_out_are_better_predicted(own, monkeypatch):
    """Units that nearly copy each other: five pseudo-observations of independent noise would undo what was learned."""
    first, second = halves(copied(own, 0))
    chosen = FederatedGrangerEstimator().fit(first)
    monkeypatch.setattr(estimate, "TUNING", replace(TUNING, prior_weights=(5.0,)))
    usual = FederatedGrangerEstimator().fit(first)
    assert (usual.server_.prior_weight_, chosen.server_.prior_weight_) == (5.0, 0.05)
    assert len(chosen.lag_transitions_) == 1
    assert chosen.score(second) > usual.score(second)
    pd.testing.assert_frame_equal(chosen.links_, usual.links_)  # tests keep the usual one


@pytest.mark.filterwarnings("ignore:The exact likelihood of 1500 rows with gaps:UserWarning")
@pytest.mark.parametrize("spoiled", [{"gap": True}, {"own": 0.5}])
def test_the_usual_prior_stays_where_nothing_can_be_or_is_gained(spoiled):
    X = halves(copied(spoiled.get("own", 0.02), 0))[0]
    if spoiled.get("gap"):
        X["a"][100:140, 0] = np.nan
    server = FederatedGrangerEstimator().fit(X).server_
    assert server.has_prior_
    assert server.prior_weight_ == 5.0


def test_a_climb_that_does_not_arrive_leaves_the_usual_prior(monkeypatch):
    """A budget that is spent, or a likelihood that runs away to its boundary."""
    X = halves(copied(0.02, 0))[0]
    monkeypatch.setattr(estimate, "TUNING", replace(TUNING, estimate_prior=1e-9))
    server = FederatedGrangerEstimator().fit(X).server_
    assert server.prior_weight_ == 5.0
    assert server.converged_


def test_units_are_left_alone_together_as_of_all_sets_of_them_is_likeliest(monkeypatch):
    """Each of two near copies may be predicted better by its own past, and both together by the plant."""
    seen, decided = {}, LinkQuestions._leave_alone
    monkeypatch.setattr(LinkQuestions, "_leave_alone", lambda self, found: (seen.update(found), decided(self, found)))
    server = FederatedGrangerEstimator().fit(halves(copied(0.05, 0))[0]).server_
    gain, run = {m: message.gain_alone for m, message in seen.items()}, server.plant_.run(server.joint_record(seen))
    own = dict(zip(gain, run.unit_log_densities().mean(axis=0), strict=True))
    assert gain["a"] > own["a"]
    assert gain["b"] > own["b"]

    def ahead(units):
        return sum(gain[m] for m in units) - run.joint_log_density(positions_of(units, server.state_slices_))

    sets = [(), ("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c")]
    assert server.alone_ == max(sets, key=lambda units: ahead(units) if units else 0.0)
    assert ahead(("a", "b")) < -1.0  # nats a row that would be lost
