"""Estimates of blocks inside and outside the model against dense formulas, and their p-values' law."""

import numpy as np
import pytest
from scipy import stats

from skfedcausal.server.estimation.evidence import _inverses, correlation_estimates, link_estimates, uncoupled_estimates
from skfedcausal.server.estimation.scoring import Point, Scoring, ascend
from skfedcausal.server.estimation.standardised import StandardisedPlant
from skfedcausal.server.joint import JointRecord
from skfedcausal.statespace.segments import Change

from ...statespace._reference import assert_within, rounding
from .._reference import block_elements, coupled_plant, dense_information, endless, structure_of

SIZES = pytest.mark.parametrize("sizes", [(2, 2, 2), (1, 3, 2)], ids=str)
N_SAMPLES = 700


def perturbed(coupled, structure, seed=0, size=0.02):
    """Objective with the plant's spectrum, scored at the plant itself with gradients of another place.

    The information is that of the plant, which has a dense counterpart; the gradient is not zero.
    """
    objective, point = endless(coupled, N_SAMPLES)
    rng = np.random.default_rng(seed)
    noise = [size * rng.normal(size=point.A.shape) for _ in range(2)]
    evaluation = type(point.evaluation)(point.evaluation.value, noise[0], noise[1] + noise[1].T)
    return Scoring(objective, structure, Point(point.A, point.Q, evaluation))


def score_estimate(matrix, gradient, n_free):
    """Efficient estimate of the last elements and its covariance, the first ones being nuisance."""
    S, b = slice(0, n_free), slice(n_free, None)
    solved = np.linalg.solve(matrix[S, S], np.column_stack([matrix[S, b], gradient[S]]))
    covariance = np.linalg.inv(matrix[b, b] - matrix[b, S] @ solved[:, :-1]) / N_SAMPLES
    return N_SAMPLES * covariance @ (gradient[b] - matrix[b, S] @ solved[:, -1]), covariance


def places(partition, effect, cause):
    """Where the block's elements stand in a padded row."""
    width = max(partition.sizes)
    rows, cols = partition.sizes[effect], partition.sizes[cause]
    return np.array([i * width + j for i in range(rows) for j in range(cols)])


@SIZES
@pytest.mark.parametrize("of", ["links", "correlations"])
def test_every_block_gets_the_efficient_estimate(of, sizes):
    """Outside the model from the score, inside it one scoring step from the point."""
    coupled = coupled_plant(5, sizes, links=[(1, 0), (2, 1)])
    structure = structure_of(coupled.partition, linked=[(1, 0), (2, 1)], correlated=[(0, 2)])
    scoring = perturbed(coupled, structure)
    blocks = (link_estimates if of == "links" else correlation_estimates)(scoring)
    inside = structure.linked if of == "links" else structure.correlated
    n_free = len(scoring.gradient)
    evaluation = scoring.point.evaluation
    value = scoring.point.A if of == "links" else scoring.point.Q
    gradient = evaluation.grad_A if of == "links" else 2 * evaluation.grad_Q
    for k, (effect, cause) in enumerate(coupled.partition.pairs):
        elements = block_elements(coupled.partition, effect, cause)
        place = places(coupled.partition, effect, cause)
        assert blocks.dof[k] == len(elements)
        actual = blocks.estimate[k, place], blocks.covariance[k][np.ix_(place, place)]
        if inside[k]:
            matrix, _ = dense_information(coupled, structure)
            positions = structure.free.positions(scoring.point.A.shape)[of == "correlations"]
            where = positions[[i * len(value) + j for i, j in elements]]
            step = np.linalg.solve(matrix, scoring.gradient)[where]
            mean = np.array([value[e] for e in elements]) + step
            covariance = np.linalg.inv(matrix)[np.ix_(where, where)] / N_SAMPLES
        else:
            extra = {"extra_A" if of == "links" else "extra_Q": elements}
            matrix, _ = dense_information(coupled, structure, **extra)
            own = np.array([gradient[e] for e in elements])
            mean, covariance = score_estimate(matrix, np.concatenate([scoring.gradient, own]), n_free)
        error = rounding(n_free, np.linalg.cond(matrix) * 100)
        assert_within(actual[0], mean, error * np.abs(mean).max())
        assert_within(actual[1], covariance, error * np.abs(covariance).max())


@SIZES
def test_estimates_at_the_uncoupled_plant_profile_out_what_the_pair_shares(sizes):
    coupled = coupled_plant(5, sizes)
    partition = coupled.partition
    objective, point = endless(coupled, N_SAMPLES)
    rng = np.random.default_rng(1)
    grad_A, grad_Q = (0.02 * rng.normal(size=point.A.shape) for _ in range(2))
    grad_Q = grad_Q + grad_Q.T
    moved = Point(point.A, point.Q, type(point.evaluation)(point.evaluation.value, grad_A, grad_Q))
    links, correlations = uncoupled_estimates(objective, partition, moved)
    pairs = [tuple(pair) for pair in partition.pairs.tolist()]
    for k, (effect, cause) in enumerate(pairs):
        there, back = (block_elements(partition, *pair) for pair in ((effect, cause), (cause, effect)))
        reverse = structure_of(partition, linked=[(cause, effect)], free_dynamics=False, free_noise=False)
        place = places(partition, effect, cause)
        matrix, _ = dense_information(coupled, reverse, extra_A=there)
        gradient = np.array([grad_A[e] for e in back + there])
        expected = [(links, score_estimate(matrix, gradient, len(back)))]
        both = structure_of(partition, linked=[(effect, cause), (cause, effect)], free_dynamics=False, free_noise=False)
        matrix, _ = dense_information(coupled, both, extra_Q=there)
        free = both.free
        gradient = np.concatenate([grad_A[free.rows, free.cols], [2 * grad_Q[e] for e in there]])
        expected.append((correlations, score_estimate(matrix, gradient, len(gradient) - len(there))))
        for blocks, (mean, covariance) in expected:
            error = rounding(len(matrix), np.linalg.cond(matrix) * 100)
            assert_within(blocks.estimate[k, place], mean, error * np.abs(mean).max())
            actual = blocks.covariance[k][np.ix_(place, place)]
            assert_within(actual, covariance, error * np.abs(covariance).max())


def test_a_block_of_the_noise_and_its_transpose_are_one_parameter():
    coupled = coupled_plant(5, (1, 3, 2), links=[(1, 0)])
    structure = structure_of(coupled.partition, linked=[(1, 0)], correlated=[(0, 2)])
    blocks = correlation_estimates(perturbed(coupled, structure))
    statistic, reverse = blocks.statistic, coupled.partition.reverse_pairs
    np.testing.assert_allclose(statistic, statistic[reverse], rtol=1e-9)


def test_in_a_full_model_the_wald_covariance_is_the_inverse_hessian_of_the_likelihood():
    coupled = coupled_plant(4, (1, 2), links=[(1, 0)])
    structure = structure_of(coupled.partition, linked=[(1, 0), (0, 1)])
    objective, point = endless(coupled, N_SAMPLES, 300)
    scoring = Scoring(objective, structure, point)
    size, step = len(scoring.vector), 1e-4
    second = np.empty((size, size))
    for k in range(size):
        sides = []
        for sign in (1, -1):
            moved = scoring.vector.copy()
            moved[k] += sign * step
            found = objective.evaluate(*scoring.matrices(moved))
            sides.append(structure.free.gradient(found.grad_A, found.grad_Q))
        second[k] = (sides[0] - sides[1]) / (2 * step)
    expected = np.linalg.inv(-N_SAMPLES * second)
    blocks = link_estimates(scoring)
    for k, (effect, cause) in enumerate(coupled.partition.pairs):
        elements = block_elements(coupled.partition, effect, cause)
        where = structure.free.positions((3, 3))[0][[i * 3 + j for i, j in elements]]
        place = places(coupled.partition, effect, cause)
        # central differences: step**2 times third derivatives of the log-likelihood, some thousands here
        # relative to the second, times the condition of the inverse
        np.testing.assert_allclose(
            blocks.covariance[k][np.ix_(place, place)],
            expected[np.ix_(where, where)],
            rtol=0,
            atol=1e-4 * np.abs(expected).max(),
        )


# --- law of the p-values ----------------------------------------------------------------------------


def uniform(p_values, dependent):
    """Kolmogorov-Smirnov against the uniform law, at the level of one in a million.

    Up to `dependent` neighbours are dependent, so the test counts only as many independent ones.
    """
    distance = stats.kstest(p_values, "uniform").statistic
    n = len(p_values) / dependent
    return stats.kstwo.sf(distance, int(n)) > 1e-6


def test_what_a_record_does_not_determine_gets_a_huge_variance_and_no_estimate():
    """Inputs that follow the states: more of a block is explained by others than it has information."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((2, 4, 4)))[0]
    values = np.array([[3.0, 2.0, 1.0, 0.5], [3.0, 2.0, 1e-13, -1e-2]])
    covariance, known = _inverses(axes * values[:, None] @ np.swapaxes(axes, 1, 2))
    assert np.linalg.eigvalsh(covariance).min() > 0.3
    for k, n_known in enumerate((4, 2)):
        determined, lost = axes[k][:, :n_known], axes[k][:, n_known:]
        np.testing.assert_allclose(determined.T @ known[k] @ determined, np.diag(1 / values[k, :n_known]), atol=1e-12)
        np.testing.assert_allclose(
            determined.T @ covariance[k] @ determined, np.diag(1 / values[k, :n_known]), atol=1e-6
        )
        np.testing.assert_allclose(known[k] @ lost, 0.0, atol=1e-12)
        assert (np.diag(lost.T @ covariance[k] @ lost) > 1e7).all()


@pytest.fixture(scope="module")
def null_draws():
    """p-values before and after profiling, of uncoupled plants with three units."""
    rows = []
    for seed in range(150):
        coupled = coupled_plant(seed, (2, 1, 2), n_sensors=4)
        parts = tuple(coupled.parts(coupled.simulate(600, seed + 1)))
        plant = StandardisedPlant(JointRecord(coupled.names, parts, (0,)))
        start = plant.uncoupled
        objective = plant.whittle()
        point = Point.at(objective, *start)
        links, correlations = uncoupled_estimates(objective, plant.partition, point)
        scoring = Scoring(objective, plant.structure(), point)
        every = structure_of(plant.partition, linked=plant.partition.pairs.tolist())
        top = ascend(objective, Scoring(objective, every, point), gain_tol=1e-3).point
        rows.append(
            {
                "uncoupled links": links.p_value,
                "uncoupled correlations": correlations.p_value[plant.partition.pairs[:, 0] < 2],
                "score links": link_estimates(scoring).p_value,
                "Wald links": link_estimates(Scoring(objective, every, top)).p_value,
            }
        )
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uncoupled links", "uncoupled correlations", "score links", "Wald links"])
def test_without_coupling_p_values_are_uniform(name, null_draws):
    assert uniform(null_draws[name], dependent=2)  # the two directions of a pair


def test_steps_of_levels_say_nothing_about_links_between_units():
    coupled = coupled_plant(0, (1, 2))
    plant = StandardisedPlant(coupled.record(coupled.simulate(300, 1)).at_steps((Change(100, 101), Change(200, 201))))
    A, Q = plant.uncoupled
    likelihood, size = plant.whittle(), np.where(np.arange(5) < 3, 1.0, 0.0)
    found = [
        uncoupled_estimates(likelihood, plant.partition, Point.at(likelihood, A * size + step * (1 - size), Q))
        for step in (0.0, 3.0)
    ]
    for blocks, others in zip(*found, strict=True):
        np.testing.assert_allclose(blocks.covariance, others.covariance, rtol=1e-10)
