"""Rows to learn from, imputation that varies as measurements do, and how far nominal windows stray."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2

from skfedcausal import LikelihoodOptions
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.likelihood import LikelihoodServer
from skfedcausal.server.watching.learning import _noise_of, held_out_models
from skfedcausal.server.watching.thresholds import (
    NominalRows,
    OffSubspace,
    attended_rows,
    complete_distance,
    complete_states,
    curved_causes,
    direct_causes,
    draw_states,
    filled_states,
    held_out_folds,
    inverse_root,
    off_subspace,
    rows_to_learn_from,
    scale_dispersion,
    usual_pattern,
    usual_windows,
)
from skfedcausal.statespace.detection.shift import (
    InnovationModel,
    likelihood_ratios,
    step_scores,
)
from skfedcausal.statespace.em import expectation_maximisation
from skfedcausal.statespace.episodes import TransitionMoments, lag_covariances
from skfedcausal.statespace.observation import Information
from skfedcausal.statespace.whittle import moment_start

from .._reference import coupled_plant

# --- rows to learn from -------------------------------------------------------------------------------

FULL, PART, NONE = np.diag([4.0, 2.0]), np.diag([3.0, 1.0]), np.zeros((2, 2))


def part(*pattern_of, patterns=(FULL, PART, NONE)):
    """Information of a unit whose patterns over time are given."""
    index = np.array(pattern_of)
    rng = np.random.default_rng(0)
    return Information(rng.standard_normal((len(index), 2)), np.array(patterns), index)


def record_of(*parts, starts=(0,)):
    return JointRecord(tuple(f"unit{k}" for k in range(len(parts))), parts, starts)


def constant(n_samples):
    return Information(np.ones((n_samples, 2)), FULL[None])


def test_attended_rows_are_runs_of_five_at_least_within_an_episode():
    there = "00000200000222222000020000000"
    record = record_of(part(*map(int, there)), constant(29), starts=(0, 8, 25))
    rows, starts = attended_rows(record)
    assert rows.tolist() == [0, 1, 2, 3, 4]
    longer = record_of(part(*[2] * 3, *[0] * 5, *[2], *[1] * 6), constant(15), starts=(0, 9))
    rows, starts = attended_rows(longer)
    assert rows.tolist() == [3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14]
    assert starts == (0, 5)
    whole = record_of(constant(12), constant(12), starts=(0, 6))
    assert attended_rows(whole)[0].tolist() == list(range(12))
    assert attended_rows(whole)[1] == (0, 6)
    never = record_of(part(*[2] * 9), constant(9))
    assert attended_rows(never)[0].dtype == attended_rows(whole)[0].dtype
    assert attended_rows(never)[0].size == 0


def test_rows_with_all_units_are_learned_from():
    pattern_of = [0] * 30 + [2] * 30
    rows, starts = rows_to_learn_from(record_of(part(*pattern_of), constant(60)))
    assert_array_equal(rows, np.arange(30))
    assert starts == (0,)


@pytest.mark.parametrize(("n_absent", "refused"), [(30, False), (31, True)])
def test_units_absent_in_more_than_half_of_the_rows_are_refused(n_absent, refused):
    record = record_of(constant(60), part(*[2] * n_absent, *[0] * (60 - n_absent)))
    if refused:
        with pytest.raises(ValueError, match="'unit1' is absent in 52 % of the nominal rows"):
            rows_to_learn_from(record)
    else:
        assert len(rows_to_learn_from(record)[0]) == 30


@pytest.mark.parametrize(("n_gaps", "all_rows"), [(8, False), (9, True)])
def test_rows_that_lack_here_and_there_are_learned_from_as_well(n_gaps, all_rows):
    pattern_of = np.zeros(100, dtype=int)
    pattern_of[10 * np.arange(n_gaps) + 9] = 2
    rows, starts = rows_to_learn_from(record_of(part(*pattern_of), constant(100)))
    assert len(rows) == (100 if all_rows else 100 - n_gaps)
    assert len(starts) == (1 if all_rows else n_gaps + 1)


@pytest.mark.parametrize(("n_all", "all_rows"), [(20, False), (19, True)])
def test_a_fifth_of_the_rows_is_enough(n_all, all_rows):
    first = [0] * 50 + [2] * 50
    second = [2] * (50 - n_all) + [0] * (50 + n_all)
    rows, _ = rows_to_learn_from(record_of(part(*first), part(*second)))
    assert len(rows) == (100 if all_rows else 20)


@pytest.mark.parametrize(
    ("starts", "n_samples", "folds"),
    [
        ((0,), 100, [(0, 25), (25, 50), (50, 75), (75, 100)]),
        ((0,), 4, None),
        ((0, 30), 100, [(0, 30), (30, 53), (53, 76), (76, 100)]),
        ((0, 10, 90), 100, [(0, 10), (10, 36), (36, 63), (63, 90), (90, 100)]),
        ((0, 3, 5), 6, [(1, 3), (3, 5)]),
    ],
)
def test_folds_are_alike_and_cross_no_border(starts, n_samples, folds):
    if folds is None:
        with pytest.raises(ValueError, match="too short to hold one out"):
            held_out_folds(starts, n_samples)
    else:
        assert held_out_folds(starts, n_samples) == folds


def test_three_rows_are_no_record():
    with pytest.raises(ValueError, match="Got 3 rows of nominal operation"):
        held_out_folds((0,), 3)


def test_off_subspace_numbers_of_units_that_send_none_are_zero():
    coupled = coupled_plant(0)
    messages = coupled.messages(coupled.simulate(20, 0))
    numbers = np.arange(20.0)
    messages["unit1"] = replace(messages["unit1"], off_subspace=numbers)
    table = off_subspace(messages, JointRecord.from_messages(messages))
    assert_array_equal(table, np.column_stack([np.zeros(20), numbers]))


# --- usual patterns -----------------------------------------------------------------------------------


def test_usual_pattern_is_the_full_one_where_it_is_there_most_of_the_time():
    assert_array_equal(usual_pattern(constant(4)), FULL)
    assert_array_equal(usual_pattern(part(0, 0, 0, 1, 1, 2, 2, 2)), FULL)


@pytest.mark.parametrize("pattern_of", [(0, 0, 1, 1), (0, 1, 1, 2, 2), (0, 1, 1, 1)])
def test_usual_pattern_is_the_average_of_the_rows_in_which_the_unit_is_there(pattern_of):
    share = pattern_of.count(0) / (pattern_of.count(0) + pattern_of.count(1))
    assert_allclose(usual_pattern(part(*pattern_of)), share * FULL + (1 - share) * PART)


def test_a_unit_that_never_shows_all_its_states_at_once_has_its_average():
    halves = part(0, 0, 1, patterns=(np.diag([4.0, 0.0]), np.diag([0.0, 2.0])))
    assert_allclose(usual_pattern(halves), np.diag([8 / 3, 2 / 3]))


def test_filled_states_have_the_prediction_where_sensors_are_missing():
    """J^-1 (z + (J - J_t) predicted); complete rows stay as measured, absent ones are the prediction."""
    record = record_of(part(0, 0, 0, 0, 1, 2, 0), constant(7))
    predicted = np.random.default_rng(1).standard_normal((7, 4))
    x = filled_states(record, predicted)
    z, J = record.z, np.linalg.inv(FULL)
    assert_allclose(x[[0, 1, 2, 3, 6], :2], z[[0, 1, 2, 3, 6], :2] @ J)
    assert_allclose(x[4, :2], J @ (z[4, :2] + (FULL - PART) @ predicted[4, :2]))
    assert_allclose(x[5, :2], predicted[5, :2] + J @ z[5, :2])
    assert_allclose(x[:, 2:], z[:, 2:] @ J)


# --- imputation ---------------------------------------------------------------------------------------

STARTS = (0, 40)
N_DRAWS = 1000


@pytest.fixture(scope="module")
def example():
    """Fitted plant and messages of a record in which sensors and, at times, a whole unit are missing."""
    coupled = coupled_plant(2, (2, 1), links=[(1, 0)], strength=0.3, radius=0.5)
    Y = coupled.simulate(60, 1, STARTS)
    Y[np.random.default_rng(0).random(Y.shape) < 0.1] = np.nan
    Y[20:30, coupled.sensors[0]] = np.nan
    messages = coupled.messages(Y, STARTS)
    plant = LikelihoodServer(options=LikelihoodOptions(sparsity=None)).fit(messages)
    return plant, messages, JointRecord.from_messages(messages)


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore")
def test_draws_have_the_mean_and_covariance_of_the_states_given_the_record(example):
    """Within five standard errors."""
    plant, messages, record = example
    rng = np.random.RandomState(0)
    draws = np.stack([draw_states(plant, messages, record, rng) for _ in range(N_DRAWS)])
    expected = plant.abducted(messages)
    for name, b in zip(record.names, record.partition.slices, strict=True):
        of_unit = draws[:, :, b]
        variances = np.einsum("tii->ti", expected[name].covariances)
        error = np.abs(of_unit.mean(axis=0) - expected[name].states) / np.sqrt(variances / N_DRAWS)
        assert error.max() < 5
        assert np.abs(of_unit.var(axis=0) / variances - 1).max() < 5 * np.sqrt(2 / N_DRAWS)
        if of_unit.shape[2] == 2:
            centred = of_unit - of_unit.mean(axis=0)
            covariance = np.einsum("kti,ktj->tij", centred, centred)[:, 0, 1] / N_DRAWS
            spread = np.sqrt((variances[:, 0] * variances[:, 1]) * 2 / N_DRAWS)
            assert (np.abs(covariance - expected[name].covariances[:, 0, 1]) < 5 * spread).all()


def test_complete_rows_stay_as_measured(example):
    plant, messages, record = example
    x = complete_states(plant, messages, record, np.random.RandomState(0))
    for part, b in zip(record.parts, record.partition.slices, strict=True):
        traces = np.trace(part.patterns, axis1=1, axis2=2)
        full = part.index == traces.argmax()
        expected = np.linalg.solve(part.patterns[traces.argmax()], part.z[full].T).T
        assert_allclose(x[full, b], expected, rtol=1e-10, atol=1e-10)


def test_numbers_of_absent_units_are_those_of_other_rows(example):
    _, _, record = example
    distance = np.arange(120.0).reshape(60, 2)
    filled = complete_distance(distance, record, np.random.RandomState(0))
    for m, part in enumerate(record.parts):
        absent = np.linalg.matrix_rank(part.patterns)[part.index] < part.z.shape[1]
        assert_array_equal(filled[~absent, m], distance[~absent, m])
        assert set(filled[absent, m]) <= set(distance[~absent, m])


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore")
def test_imputed_measurements_have_the_noise_of_the_missing_ones(example):
    """Their covariance over draws: that of the states given the record, and of the noise of the sensors."""
    plant, messages, record = example
    rng = np.random.RandomState(1)
    draws = np.stack([complete_states(plant, messages, record, rng) for _ in range(N_DRAWS)])
    smoothed = plant.abducted(messages)
    unit, b = record.parts[0], record.partition.slices[0]
    usual = usual_pattern(unit)
    for t in (22, 25):  # the unit is absent: all it would have measured is drawn
        expected = smoothed["unit0"].covariances[t] + np.linalg.inv(usual)
        found = np.cov(draws[:, t, b].T)
        root = np.linalg.inv(np.linalg.cholesky(expected))
        assert np.abs(root @ found @ root.T - np.eye(2)).max() < 5 * np.sqrt(2 / N_DRAWS)


def test_nominal_rows_are_those_of_the_parts(example):
    """Of a record with gaps; the distance is drawn before the states."""
    plant, messages, record = example
    rows = NominalRows.of(plant, messages, record, np.random.RandomState(0))
    kept, starts = rows_to_learn_from(record)
    rng = np.random.RandomState(0)
    assert_array_equal(rows.distance, complete_distance(off_subspace(messages, record), record, rng)[kept])
    assert_array_equal(rows.x, complete_states(plant, messages, record, rng)[kept])
    assert_array_equal(rows.J[:2, :2], usual_pattern(record.parts[0]))
    assert not rows.J[:2, 2:].any()
    assert rows.starts == starts
    assert rows.folds == held_out_folds(starts, len(kept))
    series = rows.held_out(np.arange(len(kept)))
    assert [(s[0] - 1, s[-1] + 1) for s in series] == rows.folds


@pytest.mark.parametrize("n_rows", [4, 5])
def test_records_shorter_than_the_states_are_refused(n_rows):
    """Their covariance would not have full rank."""
    coupled = coupled_plant(0)
    Y = coupled.simulate(30, 0)
    plant = LikelihoodServer(options=LikelihoodOptions(sparsity=None)).fit(coupled.messages(Y))
    messages = coupled.messages(Y[:n_rows])
    record = JointRecord.from_messages(messages)
    if n_rows > 4:
        with pytest.raises(ValueError, match="too short"):
            NominalRows.of(plant, messages, record, np.random.RandomState(0))
    else:
        with pytest.raises(ValueError, match="4 nominal rows are too few"):
            NominalRows.of(plant, messages, record, np.random.RandomState(0))


# --- nominal spread -----------------------------------------------------------------------------------


def nominal_rows(n_rows=240, starts=(0, 90), seed=0):
    coupled = coupled_plant(0, (2, 1), links=[(1, 0)])
    record = coupled.record(coupled.simulate(n_rows, seed, starts), starts)
    J = record.block_diagonal([part.patterns[0] for part in record.parts])
    x = record.z @ np.linalg.inv(J) + [1.0, -2.0, 3.0]
    distance = np.random.default_rng(seed).chisquare(2, (n_rows, 2))
    return NominalRows(J, x, distance, starts, held_out_folds(starts, n_rows)), coupled


def test_plants_learned_without_a_fold_never_saw_it():
    rows, _ = nominal_rows()
    moved = rows.x.copy()
    start, stop = rows.folds[1]
    moved[start:stop] += np.random.default_rng(1).standard_normal((stop - start, 3))
    pairs = list(zip(held_out_models(rows, None), held_out_models(rows._replace(x=moved), None), strict=True))
    for k, ((model, scaled, _), (other, rescaled, _)) in enumerate(pairs):
        assert np.array_equal(model.A, other.A) == (k == 1)
        assert not np.array_equal(scaled, rescaled)
        assert len(scaled) == rows.folds[k][1] - rows.folds[k][0] - 1


def test_plants_learned_without_a_fold_are_ten_steps_of_expectation_maximisation():
    """From the moments' closed form, on the other folds less their level, with the support kept."""
    rows, _ = nominal_rows()
    support = np.ones((3, 3), dtype=bool)
    support[0, 2] = support[1, 2] = False
    (start, stop), others = rows.folds[0], rows.folds[1:]
    (model, scaled, _), *_ = held_out_models(rows, support)
    assert not model.A[:2, 2].any()
    x = np.concatenate([rows.x[i:j] for i, j in others])
    level, starts = x.mean(axis=0), (0, *np.cumsum([j - i for i, j in others])[:-1].tolist())
    x, N = x - level, np.linalg.inv(rows.J)
    A, Q = moment_start(TransitionMoments.from_sums(lag_covariances(x, range(3), starts), x, starts), N)
    A, Q = expectation_maximisation(x, N, A, (Q + Q.T) / 2, starts, 10, support)
    assert_allclose(model.A, A, rtol=1e-9, atol=1e-12)
    assert_allclose(model.Q, Q, rtol=1e-9, atol=1e-12)
    # innovations of the fold by a filter written out
    P, mean, expected = model.schedule.predicted[0], np.zeros(3), []
    for row in rows.x[start:stop] - level:
        r = rows.J @ (row - mean)
        settled = model.schedule.predicted[-1]
        expected.append(np.linalg.solve(np.eye(3) + rows.J @ settled, r))
        filtered = mean + P @ np.linalg.solve(np.eye(3) + rows.J @ P, r)
        P = model.A @ np.linalg.inv(np.linalg.inv(P) + rows.J) @ model.A.T + model.Q
        mean = model.A @ filtered
    assert_allclose(scaled, np.array(expected)[1:], rtol=1e-6, atol=1e-8)


def test_inverse_root_is_one():
    rng = np.random.default_rng(0)
    C = np.cov(rng.standard_normal((3, 50)))
    L = inverse_root(C)
    assert_allclose(L @ L.T, np.linalg.inv(C), rtol=1e-7)
    singular = inverse_root(np.diag([2.0, 0.0]))
    assert_allclose(np.linalg.inv(singular @ singular.T), np.diag([2.0 + 1e-9, 1e-9]), rtol=1e-6)
    assert_allclose(inverse_root(4.0), [[0.5]], rtol=1e-8)


def test_direct_causes_carry_two_hundredths_of_the_variance():
    """Share of a unit's variance, mean over its states; the rest of the plant has unit variance."""
    slices = (slice(0, 2), slice(2, 3))
    for share in (0.019, 0.021):
        A = np.zeros((3, 3))
        A[0, 2], A[:2, :2] = np.sqrt(2 * share), 0.5 * np.eye(2)
        assert direct_causes(A, np.eye(3), slices).tolist() == [[False, share > 0.02], [False, False]]
        wide = np.diag([9.0, 9.0, 9.0])
        assert direct_causes(A, wide, slices)[0, 1] == (share > 0.02)
        A[0, 2] *= 3
        assert direct_causes(A, np.diag([9.0, 9.0, 1.0]), slices)[0, 1] == (share > 0.02)
    alone = (slice(0, 1), slice(1, 2))
    assert not direct_causes(np.array([[0.5, 1.0], [0.0, 0.5]]), np.diag([1.0, 0.02]), alone).any()


def test_nominal_windows_are_compared_at_their_upper_twentieth():
    """Windows of `horizon` rows, every half of it; a fault of each unit from the first row on."""
    rows, coupled = nominal_rows()
    model, slices = InnovationModel(coupled.plant.A, coupled.plant.Q, rows.J), coupled.partition.slices
    rng, horizon = np.random.default_rng(0), 10
    held_out = [(model, 1.3 * rng.standard_normal((n, 3)) @ np.linalg.cholesky(model.weight).T) for n in (47, 30)]
    squares, ratios = [], []
    information = model.step_information(horizon)[-1:]
    inverse = np.linalg.inv(model.weight)
    for _, u in held_out:
        for first in range(0, len(u) - 9, 5):
            window = u[first : first + 10]
            squares.append(np.einsum("ti,ij,tj->t", window, inverse, window).mean() / 3)
            scores = step_scores(model, window)[:1]
            for b, limit in zip(slices, (5.991464547, 3.841458821), strict=True):
                ratios.append(likelihood_ratios(scores, information, b)[0] / limit)
    rest, excess = usual_windows(held_out, slices, horizon, 0.1)
    assert rest == pytest.approx(np.quantile(squares, 0.95))
    assert excess == pytest.approx(np.quantile(ratios, 0.95))
    assert len(squares) == 8 + 5
    assert usual_windows(held_out, slices, horizon, 7.0) == (rest, 7.0)
    assert usual_windows([(model, u[:9]) for _, u in held_out], slices, horizon, 7.0) == (1.0, 7.0)


def test_scales_of_nominal_windows_are_compared_with_chi_square():
    """``n d (x - 1 - log x)`` of the mean x of a window, twice the gain in likelihood of a scale."""
    rng, dof = np.random.default_rng(0), np.array([3.0, 0.0, 1.0])
    series = [rng.chisquare(2, (n, 3)) for n in (20, 13, 7)]
    found = []
    for rows in series:
        for first in range(0, len(rows) - 7, 4):
            mean = rows[first : first + 8].mean(axis=0)
            found += [8 * d * (x - 1 - np.log(x)) for d, x in zip(dof, mean, strict=True) if d]
    assert len(found) == 2 * (4 + 2)
    expected = np.quantile(found, 0.95) / chi2.isf(0.05, 1)
    assert expected > 1
    assert scale_dispersion(series, dof, 8) == pytest.approx(expected)
    assert scale_dispersion([np.ones((8, 3))], dof, 8) == 1.0  # as expected in every row
    assert scale_dispersion([np.ones((7, 3))], dof, 8) == 1.0  # no window
    assert np.isfinite(scale_dispersion([np.zeros((8, 3))], dof, 8))


# --- off the subspace ---------------------------------------------------------------------------------


def records(shift=0.0, n_samples=4000, seed=0):
    """States of two units and off-subspace numbers that show one of them a little; the second sends none."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_samples, 4)) @ np.array([[1, 0.3, 0, 0], [0, 0.8, 0, 0], [0, 0, 1, 0], [0, 0, 0.5, 1]])
    x += shift
    rest = x[:, :2] @ np.array([[0.4, 0.1], [-0.2, 0.5]]) + rng.standard_normal((n_samples, 2))
    return x, np.column_stack([(rest**2).sum(axis=1), np.zeros(n_samples)])


TWO_UNITS = (slice(0, 2), slice(2, 4))


def test_victims_that_are_pushed_far_show_nothing_new():
    """E(g | x) = 2 + |M' x|^2 for unit noise, so the ratio keeps its mean of one wherever the states are."""
    shown = OffSubspace(*records(), TWO_UNITS)
    x, g = records(shift=5.0, seed=1)
    assert g[:, 0].mean() > 3 * records()[1][:, 0].mean()
    # the scale of gamma-like numbers, estimated from 4000 rows, is known to some 2 % times the leverage
    assert shown.relative(x, g)[:, 0].mean() == pytest.approx(1.0, abs=0.15)


def test_nominal_mean_is_one_and_silent_units_stay_silent():
    x, g = records()
    relative = OffSubspace(x, g, TWO_UNITS).relative(x, g)
    assert relative[:, 0].mean() == pytest.approx(1.0, abs=1e-12)
    assert not relative[:, 1].any()


def test_what_the_states_do_not_explain_still_shows():
    x, g = records()
    faulty = g.copy()
    faulty[:, 0] *= 3
    shown = OffSubspace(x, g, TWO_UNITS)
    assert shown.relative(x, faulty)[:, 0].mean() == pytest.approx(3.0, abs=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_units_of_the_states_do_not_matter(scale):
    x, g = records()
    expected = OffSubspace(x, g, TWO_UNITS).relative(x, g)
    assert np.allclose(OffSubspace(scale * x, g, TWO_UNITS).relative(scale * x, g), expected, rtol=1e-6)


def test_expectation_is_reweighted_three_times():
    """Least squares over the expectation before, scaled to the mean of one; here B is positive definite."""
    x, g = records()
    i, j = np.triu_indices(2)
    terms = np.column_stack([np.ones(len(x)), x[:, i] * x[:, j]])
    expected = np.full(len(x), g[:, 0].mean())
    for _ in range(3):
        expected = terms @ np.linalg.lstsq(terms / expected[:, None], g[:, 0] / expected, rcond=None)[0]
        expected *= (g[:, 0] / expected).mean()
    assert_allclose(OffSubspace(x, g, TWO_UNITS).relative(x, g)[:, 0], g[:, 0] / expected, rtol=1e-7)


def test_scale_is_the_likeliest_of_gamma_numbers():
    """Three reweightings come within a thousandth of the fixed point of weighted least squares."""
    x, g = records(n_samples=3000)
    model = OffSubspace(x, g, TWO_UNITS)
    expected = g[:, 0] / model.relative(x, g)[:, 0]
    i, j = np.triu_indices(2)
    terms = np.column_stack([np.ones(len(x)), x[:, i] * x[:, j]])
    fixed = np.full(len(x), g[:, 0].mean())
    for _ in range(30):
        fixed = terms @ np.linalg.lstsq(terms / fixed[:, None], g[:, 0] / fixed, rcond=None)[0]
    assert_allclose(expected, fixed, rtol=0.02)
    assert np.abs(expected / fixed - 1).mean() < 2e-3


def test_expectation_never_falls_below_a_hundredth_of_the_mean():
    """Numbers that the states explain nearly all of: at the origin little is left of them."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 2))
    g = (30 * x[:, 0] ** 2 + 1e-9)[:, None]
    model = OffSubspace(x, g, (slice(0, 2),))
    at_origin = 1 / model.relative(np.zeros((1, 2)), np.ones((1, 1)))[0, 0]
    scale = (g[:, 0] / (0.01 * g.mean() + 30 * x[:, 0] ** 2)).mean()
    assert at_origin == pytest.approx(0.01 * g.mean() * scale, rel=0.05)


def test_units_of_measurement_that_differ_beyond_digits_hold_no_rank_back():
    J = np.diag([1e-16, 1.0, 1e14])
    J[1, 2] = J[2, 1] = 0.5e7
    assert_allclose(_noise_of(J) @ J, np.eye(3), rtol=0, atol=1e-6)
    few = np.diag([1.0, 2.0])
    assert_array_equal(_noise_of(few), np.linalg.pinv(few, hermitian=True))


def test_units_that_act_by_their_size_are_told_and_those_beyond_them():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 4))
    for t in range(1, 3000):
        x[t, 1] += np.abs(x[t - 1, 0])
        x[t, 2] += x[t - 1, 1] ** 2
        x[t, 3] += x[t - 1, 0]
    found = curved_causes(x, (0,), [slice(k, k + 1) for k in range(4)])
    assert np.argwhere(found).tolist() == [[1, 0], [2, 0], [2, 1]]
