"""Fisher scoring against scipy on the exact likelihood, and its information against differences."""

import numpy as np
import pytest
from scipy.linalg import cho_solve
from scipy.optimize import minimize

from skfedcausal.server.estimation.scoring import (
    MAX_RADIUS,
    Goal,
    InverseCurvature,
    Point,
    Scoring,
    _metric,
    ascend,
    is_valid,
    made_valid,
    observed_information,
    positive_factor,
)
from skfedcausal.statespace.kalman import stationary_covariance
from skfedcausal.statespace.matrices import Partition
from skfedcausal.statespace.timedomain import TimeDomainLikelihood
from skfedcausal.statespace.whittle import Evaluation, FreeElements

from ...statespace._reference import assert_within, derivatives, radius, rounding, with_gaps
from .._reference import coupled_plant, endless, scoring_of, structure_of


def exact_likelihood(coupled, Y, starts=(0,)):
    record = coupled.record(Y, starts)
    settings = record.regimes(), record.starts, 12
    return TimeDomainLikelihood(record.z, record.matrices, *settings, is_constant=record.is_constant)


STRUCTURES = {
    "one link": {"linked": [(1, 0)]},
    "everything": {"linked": [(1, 0), (0, 1)], "correlated": [(0, 1)]},
    "local dynamics fixed": {"linked": [(1, 0)], "free_dynamics": False},
}


@pytest.mark.medium
@pytest.mark.parametrize("missing", [0.0, 0.2], ids=["complete", "missing"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_maximum_is_the_one_scipy_finds_on_the_joint_gaussian(structure, missing):
    coupled = coupled_plant(1, (1, 1), n_sensors=2, links=[(1, 0)], noise=0.2)
    Y = coupled.simulate(30, 3)
    if missing:
        Y = with_gaps(Y, 4, missing)
    structure = structure_of(coupled.partition, **STRUCTURES[structure])
    objective = exact_likelihood(coupled, Y)
    scoring = Scoring(objective, structure, Point.at(objective, coupled.plant.A, coupled.plant.Q))
    ascent = ascend(objective, scoring, gain_tol=1e-15)
    assert ascent.converged

    def minus_log_density(vector):
        A, Q = scoring.matrices(vector)
        return -coupled.with_dynamics(A, Q).log_density(Y) if is_valid(A, Q) else 1e3

    reference = minimize(minus_log_density, scoring.vector, method="BFGS", jac="3-point")
    ours = structure.free.gather(ascent.point.A, ascent.point.Q)
    # A step from there promises less than 1e-15; the joint Gaussian rounds to about 1e-10.
    assert minus_log_density(ours) <= reference.fun + 1e-9
    # What scipy's own stopping rule (gradient 1e-5) leaves open, in standard deviations of the estimate.
    apart = ours - reference.x
    assert apart @ np.linalg.solve(scoring.covariance, apart) <= 1e-6


def test_the_curvature_of_nearly_certain_states_is_taken_without_leaving_the_covariances():
    """Central differences step to either side of a noise covariance: both have to be one."""
    coupled = coupled_plant(1, (1, 1), n_sensors=2, links=[(1, 0)], noise=0.2)
    objective = exact_likelihood(coupled, coupled.simulate(200, 3))
    structure = structure_of(coupled.partition, linked=[(1, 0)])
    point = Point.at(objective, coupled.plant.A, np.diag([1e-7, 1.0]))
    assert np.isfinite(observed_information(objective, structure.free, point)).all()


class Quadratic:
    """Minus half the weighted squares of all elements."""

    def __init__(self, of_A, of_Q):
        self.of_A, self.of_Q = of_A, of_Q

    def evaluate(self, A, Q):
        value = -0.5 * ((self.of_A * A**2).sum() + (self.of_Q * Q**2).sum())
        return Evaluation(value, -self.of_A * A, -self.of_Q * Q)


def test_the_curvature_of_a_quadratic_is_its_weights_and_twice_those_of_both_sides_of_a_covariance():
    of_Q = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]])
    objective = Quadratic(np.arange(1.0, 10).reshape(3, 3), of_Q)
    free = FreeElements.from_masks(np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0]]), np.ones((3, 3)))
    point = Point.at(objective, np.ones((3, 3)), np.eye(3) + 0.1)
    found = observed_information(objective, free, point)
    expected = [1, 3, 5, *np.where(free.first == free.second, 1, 2) * of_Q[free.first, free.second]]
    np.testing.assert_allclose(found, np.diag(expected), atol=1e-8)


@pytest.mark.medium
def test_the_climb_never_leads_down_and_ends_where_the_gradient_vanishes():
    coupled = coupled_plant(2, (2, 1), links=[(1, 0)])
    objective = exact_likelihood(coupled, coupled.simulate(60, 1))
    structure = structure_of(coupled.partition, linked=[(1, 0)])
    start = Point.at(objective, 0.3 * np.eye(3), np.eye(3))
    values = []
    for max_iter in range(1, 60):
        ascent = ascend(objective, Scoring(objective, structure, start), gain_tol=1e-15, max_iter=max_iter)
        values.append(float(ascent.point.evaluation.value))
        if ascent.converged:
            break
        assert ascent.n_iter == max_iter
    assert ascent.converged
    assert np.all(np.diff(values) >= -1e-14 * np.abs(values[0]))
    assert ascent.gain <= 1e-15
    top = Scoring(objective, structure, ascent.point)
    # the promise is twice the quadratic gain in the curvature learned; the expected one is not far
    assert top.gain <= 1e-13


def test_the_climb_stops_when_little_is_left_to_gain():
    coupled = coupled_plant(2, (2, 1), links=[(1, 0)])
    objective = exact_likelihood(coupled, coupled.simulate(200, 1))
    structure = structure_of(coupled.partition, linked=[(1, 0)])
    scoring = Scoring(objective, structure, Point.at(objective, 0.3 * np.eye(3), np.eye(3)))
    rough, fine = (ascend(objective, scoring, gain_tol=tol) for tol in (1.0, 1e-6))
    assert rough.converged
    assert fine.converged
    assert rough.n_iter < fine.n_iter
    best = ascend(objective, scoring, gain_tol=1e-15).point.evaluation.value
    # the gain that a step promises is twice the quadratic one, and BFGS knows the curvature to a factor
    assert 0 <= 200 * (best - rough.point.evaluation.value) < 2.0
    assert 0 <= 200 * (best - fine.point.evaluation.value) < 2e-6


def test_a_climb_goes_on_beyond_its_goal_while_it_is_fast():
    coupled = coupled_plant(2, (2, 1), links=[(1, 0)])
    objective = exact_likelihood(coupled, coupled.simulate(200, 1))
    structure = structure_of(coupled.partition, linked=[(1, 0)])
    start = Scoring(objective, structure, Point.at(objective, 0.3 * np.eye(3), np.eye(3)))
    scoring = Scoring(objective, structure, ascend(objective, start, gain_tol=10.0).point)
    rough = ascend(objective, scoring, gain_tol=1.0)
    on = ascend(objective, scoring, gain_tol=1.0, further=Goal(1e-12, 100))
    assert on.gain < 0.1 * rough.gain
    assert on.n_iter - on.n_further == rough.n_iter
    once = ascend(objective, scoring, gain_tol=1.0, further=Goal(1e-12, 1))
    assert (once.n_iter, once.n_further) == (rough.n_iter + 1, 1)
    far = Goal(1e-12, 100)
    assert far.is_near(0.5, 10.0, 0)
    assert not far.is_near(0.5, 2.0, 0)  # the last step took less than nine tenths
    assert not far.is_near(1e-13, 10.0, 0)


class Pull:
    """An objective whose greatest value lies where no plant is stable."""

    n_samples, prior = 100, None

    def __init__(self, information, target):
        self.information, self._target = information, target

    def evaluate(self, A, Q):
        return Evaluation(-0.5 * ((A - self._target) ** 2).sum(), self._target - A, np.zeros_like(Q))


def test_a_maximum_outside_the_stable_plants_is_not_called_converged():
    coupled = coupled_plant(0, (1, 1))
    objective, _ = endless(coupled)
    pull = Pull(objective.information, 1.5 * np.eye(2))
    structure = structure_of(coupled.partition, free_noise=False)
    point = Point.at(pull, coupled.plant.A, coupled.plant.Q)
    ascent = ascend(pull, Scoring(pull, structure, point), gain_tol=1e-15)
    assert not ascent.converged
    assert is_valid(ascent.point.A, ascent.point.Q)
    assert radius(ascent.point.A) > radius(coupled.plant.A)


def test_elements_that_are_not_free_keep_their_value():
    coupled = coupled_plant(1, (2, 2), links=[(0, 1)])
    Y = coupled.simulate(100, 0)
    objective = exact_likelihood(coupled, Y)
    structure = structure_of(coupled.partition, linked=[(1, 0)], free_dynamics=False, free_noise=False)
    A, Q = coupled.plant.A, coupled.plant.Q
    ascent = ascend(objective, Scoring(objective, structure, Point.at(objective, A, Q)), gain_tol=1e-15)
    mask = structure.transition_mask
    np.testing.assert_array_equal(ascent.point.A[~mask], A[~mask])
    np.testing.assert_array_equal(ascent.point.Q, Q)
    assert (ascent.point.A[mask] != A[mask]).all()


# --- information ------------------------------------------------------------------------------------

CASES = {
    "one link": ((2, 2), {"linked": [(1, 0)]}),
    "unequal units": ((1, 3, 2), {"linked": [(1, 0), (0, 2)], "correlated": [(0, 1)]}),
    "everything": ((2, 1), {"linked": [(1, 0), (0, 1)], "correlated": [(0, 1)]}),
}


def hessian(objective, scoring):
    """Second derivatives of the objective by differences of its gradient, and a bound on their error."""

    def gradient(vector):
        return Scoring(objective, scoring.structure, Point.at(objective, *scoring.matrices(vector.ravel()))).gradient

    return derivatives(gradient, scoring.vector[None])


@pytest.mark.medium
@pytest.mark.parametrize("case", CASES)
def test_covariance_is_the_inverse_hessian_where_the_spectrum_is_the_plants(case):
    """Expected and observed information agree there."""
    sizes, chosen = CASES[case]
    coupled = coupled_plant(3, sizes, links=chosen["linked"])
    assert radius(coupled.plant.A) < 0.95  # so that 300 frequencies leave out 0.95 ** 600 of log det Z
    options = {"n_samples": 500, "n_frequencies": 300}
    objective, scoring = scoring_of(coupled, structure_of(coupled.partition, **chosen), **options)
    second, error = hessian(objective, scoring)
    information = -500 * second[0]
    condition = np.linalg.cond(information)
    assert_within(scoring.precision, information, 500 * error + rounding(40, 100) * np.abs(information).max())
    product = scoring.covariance @ information
    size = np.abs(scoring.covariance).sum(axis=1).max()
    assert_within(product, np.eye(len(product)), 500 * error * size + condition * 1e-11)


@pytest.mark.medium
def test_covariance_is_close_to_the_inverse_hessian_at_the_maximum_of_a_long_record():
    """The observed information is the expected one up to fluctuations of order 1 / sqrt(T)."""
    coupled = coupled_plant(3, (1, 1), links=[(1, 0)])
    n_samples = 20_000
    objective = exact_likelihood(coupled, coupled.simulate(n_samples, 5))
    structure = structure_of(coupled.partition, linked=[(1, 0), (0, 1)])
    scoring = Scoring(objective, structure, Point.at(objective, coupled.plant.A, coupled.plant.Q))
    top = ascend(objective, scoring, gain_tol=1e-15)
    scoring = Scoring(objective, structure, top.point)
    observed = -hessian(objective, scoring)[0][0]
    root = np.linalg.cholesky(scoring.covariance * n_samples)
    relative = np.linalg.eigvalsh(root.T @ observed @ root)
    # Second derivatives of log det and of a quadratic form: each eigenvalue is a mean of T terms that
    # depend on their neighbours, with a standard deviation of a few; five of these.
    assert np.abs(relative - 1).max() < 5 * 3 / np.sqrt(n_samples)


def test_step_leads_to_the_maximum_of_the_quadratic():
    coupled = coupled_plant(3, (2, 1), links=[(1, 0)])
    structure = structure_of(coupled.partition, linked=[(1, 0)])
    rng = np.random.default_rng(0)
    away = []
    for size in (1e-2, 1e-3):
        A = coupled.plant.A + size * np.where(structure.transition_mask, rng.normal(size=(3, 3)), 0)
        _, scoring = scoring_of(coupled, structure, at=(A, coupled.plant.Q))
        truth = structure.free.gather(coupled.plant.A, coupled.plant.Q)
        away.append(np.linalg.norm(scoring.vector + scoring.step - truth) / np.linalg.norm(A - coupled.plant.A))
        quadratic = scoring.n_samples * scoring.gradient @ scoring.step
        assert scoring.gain == pytest.approx(quadratic)
        assert quadratic > 0
    assert away[1] < 0.3 * away[0]  # a tenth if exactly quadratic convergence
    assert away[0] < 0.5


def test_precision_is_the_inverse_of_the_covariance():
    coupled = coupled_plant(3, (2, 1), links=[(1, 0)])
    _, scoring = scoring_of(coupled, structure_of(coupled.partition, linked=[(1, 0)]))
    product = scoring.precision @ scoring.covariance
    assert_within(product, np.eye(len(product)), rounding(len(product), np.linalg.cond(scoring.covariance)))


def test_whitening_twice_is_a_step():
    coupled = coupled_plant(3, (2, 1), links=[(1, 0)])
    A = 0.9 * coupled.plant.A
    _, scoring = scoring_of(coupled, structure_of(coupled.partition, linked=[(1, 0)]), at=(A, coupled.plant.Q))
    step = scoring.unwhitened(scoring.whitened(scoring.gradient))
    error = rounding(len(step), np.linalg.cond(scoring.precision)) * np.abs(step).max()
    assert_within(step, scoring.step, error)


def test_dropped_elements_are_zero_and_the_others_at_their_conditional_mean():
    """Of a Gaussian with the information as its precision: ``x_k + P_kk^-1 P_kd x_d``."""
    coupled = coupled_plant(3, (2, 2, 1), links=[(1, 0), (0, 2)])
    structure = structure_of(coupled.partition, linked=[(1, 0), (0, 2)], correlated=[(0, 1)])
    _, scoring = scoring_of(coupled, structure)
    smaller = structure_of(coupled.partition, linked=[(0, 2)])
    A, Q = scoring.without(smaller)
    dropped = ~np.concatenate(
        [
            smaller.transition_mask[structure.free.rows, structure.free.cols],
            smaller.covariance_mask[structure.free.first, structure.free.second],
        ]
    )
    x, P = scoring.vector, scoring.precision
    kept = ~dropped
    expected = np.zeros_like(x)
    expected[kept] = x[kept] + np.linalg.solve(P[np.ix_(kept, kept)], P[np.ix_(kept, dropped)] @ x[dropped])
    error = rounding(len(x), np.linalg.cond(P)) * np.abs(x).max()
    assert_within(structure.free.gather(A, Q), expected, error)


def test_a_singular_information_gets_the_smallest_ridge_that_works():
    factor = np.random.default_rng(0).normal(size=(5, 3))
    matrix = factor @ factor.T
    lower = np.tril(positive_factor(matrix)[0])
    assert_within(lower @ lower.T, matrix, 1e-10 * matrix.max() + rounding(5) * matrix.max())


def test_an_information_that_no_ridge_makes_definite_is_an_error():
    with pytest.raises(np.linalg.LinAlgError):
        positive_factor(np.array([[1.0, 5.0], [5.0, 1.0]]))


def test_the_metric_of_an_indefinite_information_has_absolute_eigenvalues_above_a_millionth():
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]

    def matrix(values):
        return (vectors * values) @ vectors.T

    lower = np.tril(_metric(matrix([-2.0, 3.0, 1e-9, 1.0]))[0])
    np.testing.assert_allclose(lower @ lower.T, matrix([2.0, 3.0, 3e-6, 1.0]), atol=1e-10)
    lower = np.tril(_metric(matrix([2.0, 3.0, 1e-9, 1.0]))[0])  # definite as it is
    np.testing.assert_allclose(lower @ lower.T, matrix([2.0, 3.0, 1e-9, 1.0]), atol=1e-11)


# --- valid plants -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("A", "Q", "valid"),
    [
        (np.diag([0.5, 0.9]), np.eye(2), True),
        (np.diag([0.5, 1.0]), np.eye(2), False),
        (np.array([[0.5, 9.0], [0.0, 0.5]]), np.eye(2), True),
        (np.array([[0.5, 1.0], [1.0, 0.5]]), np.eye(2), False),
        (np.diag([0.5, np.nan]), np.eye(2), False),
        (0.5 * np.eye(2), np.diag([1.0, np.inf]), False),
        (0.5 * np.eye(2), np.diag([1.0, 0.0]), False),
        (0.5 * np.eye(2), np.array([[1.0, 1.0], [1.0, 1.0]]), False),
        (0.5 * np.eye(2), np.diag([1.0, 1e-12]), True),  # units of one state do not matter
    ],
)
def test_a_plant_is_valid_if_it_is_stable_and_its_noise_has_full_rank(A, Q, valid):
    assert is_valid(A, Q) is valid


def test_the_radius_allowed_leaves_room_below_one():
    assert is_valid(np.array([[MAX_RADIUS - 1e-9]]), np.eye(1))
    assert not is_valid(np.array([[MAX_RADIUS + 1e-9]]), np.eye(1))


@pytest.mark.parametrize("coupling", [0.0, 0.3, 3.0, 30.0])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.5])
def test_made_valid_only_takes_from_the_coupling(coupling, correlation):
    partition = Partition((1, 1))
    A = np.array([[0.6, coupling], [coupling, 0.6]])
    Q = np.array([[1.0, correlation], [correlation, 1.0]])
    new_A, new_Q = made_valid(A, Q, partition)
    assert is_valid(new_A, new_Q)
    np.testing.assert_array_equal(np.diag(new_A), np.diag(A))
    np.testing.assert_array_equal(np.diag(new_Q), np.diag(Q))
    assert abs(new_A[0, 1]) <= coupling
    if is_valid(A, Q) and radius(A) < 0.99:
        np.testing.assert_array_equal(new_A, A)
        np.testing.assert_array_equal(new_Q, Q)


@pytest.mark.parametrize("coupling", [0.3, 0.6, 1.5, 3.0, 30.0])
def test_couplings_are_halved_until_the_plant_is_stable_enough(coupling):
    """The largest pole is 0.6 more than the coupling."""
    partition = Partition((1, 1), (1, 0))
    A = np.zeros((2, 3))
    A[:, :2] += coupling * (1 - np.eye(2)) + 0.6 * np.eye(2)
    A[:, -1] = 7.0  # inputs stay
    new_A, new_Q = made_valid(A, np.eye(2) + 0.5, partition)
    expected = A.copy()
    poles = [coupling * s + 0.6 for s in (1.0, 0.5, 0.25, 0.125, 0.0)]
    share = next(s for s, pole in zip((1.0, 0.5, 0.25, 0.125, 0.0), poles, strict=True) if pole < 0.99)
    expected[:, :2] = np.where(np.eye(2), A[:, :2], share * A[:, :2])
    np.testing.assert_allclose(new_A, expected)
    np.testing.assert_allclose(new_Q, [[1.5, 0.5 * share], [0.5 * share, 1.5]])


def test_where_units_alone_are_unstable_correlations_go_and_inputs_stay():
    partition = Partition((1, 1), (1, 0))
    A = np.array([[1.2, 0.3, 5.0], [0.3, 0.5, 6.0]])
    new_A, new_Q = made_valid(A, np.eye(2) + 0.5, partition)
    np.testing.assert_allclose(new_A[:, :2], np.diag([0.99, 0.5 * 0.99 / 1.2]))
    np.testing.assert_array_equal(new_A[:, 2:], [[5.0], [6.0]])
    np.testing.assert_array_equal(new_Q, 1.5 * np.eye(2))


def test_made_valid_calms_units_that_are_unstable_alone():
    new_A, _ = made_valid(np.diag([1.2, 0.5]), np.eye(2), Partition((1, 1)))
    assert radius(new_A) == pytest.approx(0.99)


# --- curvature --------------------------------------------------------------------------------------


def bfgs(H, s, y):
    """BFGS update of an inverse Hessian as a matrix, the textbook formula."""
    V = np.eye(len(s)) - np.outer(s, y) / (s @ y)
    return V @ H @ V.T + np.outer(s, s) / (s @ y)


def test_inverse_curvature_is_that_of_bfgs_and_meets_the_secant_equation():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(4, 4))
    true = factor @ factor.T + np.eye(4)
    curvature, H = InverseCurvature(), np.eye(4)
    for _ in range(6):
        s = rng.normal(size=4)
        curvature.learn(s, true @ s)
        H = bfgs(H, s, true @ s)
    bound = rounding(4, np.linalg.cond(true) ** 2) * 6
    assert_within(curvature @ (true @ s), s, bound * np.abs(s).max())
    product = np.column_stack([curvature @ e for e in np.eye(4)])
    assert_within(product, H, bound * np.abs(H).max())
    assert np.linalg.eigvalsh((product + product.T) / 2)[0] > 0


def test_inverse_curvature_ignores_steps_along_which_the_curvature_is_wrong():
    curvature = InverseCurvature()
    curvature.learn(np.array([1.0, 0.0]), np.array([-1.0, 0.0]))
    assert not curvature.pairs


def test_a_climb_that_finds_nothing_higher_ends_at_once():
    """No step along the gradient is left to try, however small."""
    coupled, trials = coupled_plant(0, (1, 1)), []
    objective, point = endless(coupled, at=(0.5 * coupled.plant.A, coupled.plant.Q))
    start = Scoring(objective, structure_of(coupled.partition), point)

    class Falling:
        def evaluate(self, A, Q):
            trials.append(A)
            return point.evaluation._replace(value=point.evaluation.value - 1.0)

    found = ascend(Falling(), start, gain_tol=1e-6)
    assert (found.point, found.n_iter, found.converged) == (point, 0, False)
    assert len(trials) == 25


def test_plants_whose_powers_may_vanish_but_for_rounding_are_not_valid():
    # twice the root -r, and a departure d from a normal matrix: with the last one powers by squaring grow without end
    # where products are rounded one way, and vanish where they are rounded another way
    c, s, r = np.cos(1.1), np.sin(1.1), 1 - 2.3e-6
    turn = np.array([[c, -s], [s, c]])
    for d, is_sound in ((1e-3, True), (0.2, True), (140.0, False)):
        A = turn @ np.array([[-r, d], [0.0, -r]]) @ turn.T
        assert is_valid(A, np.eye(2)) == is_sound
        if is_sound:
            assert np.isfinite(stationary_covariance(A, np.eye(2))).all()


def test_what_nothing_is_known_of_is_next_to_unknown_and_moves_nothing_else():
    rng = np.random.default_rng(0)
    known = rng.normal(size=(4, 4))
    known = known @ known.T + np.eye(4)
    matrix = np.zeros((5, 5))
    matrix[np.ix_([0, 1, 3, 4], [0, 1, 3, 4])] = known
    covariance = cho_solve(positive_factor(matrix), np.eye(5))
    np.testing.assert_allclose(covariance[np.ix_([0, 1, 3, 4], [0, 1, 3, 4])], np.linalg.inv(known), rtol=1e-9)
    assert covariance[2, 2] > 1e6 * covariance.diagonal()[[0, 1, 3, 4]].max()
