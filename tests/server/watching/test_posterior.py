"""Posterior over roots: Bayes factors by integration, statistics by enumeration of candidates and onsets."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skfedcausal.server.watching.detector import NAMED_FROM_START
from skfedcausal.server.watching.posterior import (
    Answer,
    Look,
    Nominal,
    RootPosterior,
    deciding,
    explained,
    inclusion,
    log_bayes_factor,
    log_prior_of_sets,
    log_scale_factor,
    log_scale_ratio,
    log_sum,
    root_sets,
    shift_answers,
    softmax,
    together,
    upstream,
)
from skfedcausal.statespace.detection.shift import (
    InnovationModel,
    bias_information,
    gain_changes,
    likelihood_ratios,
    own_change_ratios,
    ramp_ratios,
    step_and_bias_scores,
    step_scores,
)

from ._rows import evidence

# --- Bayes factors and probabilities ------------------------------------------------------------------


def test_bayes_factor_integrates_the_size_out():
    """b ~ N(M f, M), f ~ N(0, n M^-1): numerically the ratio of marginal densities of b."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((2, 2))
    M, n = root @ root.T + np.eye(2), 50
    b = rng.standard_normal(2) * 3

    def log_density(cov):
        return -0.5 * (np.linalg.slogdet(cov)[1] + b @ np.linalg.solve(cov, b))

    expected = log_density(M + n * M) - log_density(M)
    assert_allclose(log_bayes_factor(b @ np.linalg.solve(M, b), 2, n), expected, rtol=1e-12)


def test_pairs_are_rarer_than_single_roots():
    sets = root_sets(4)
    assert len(sets) == 4 + 6
    weights = np.exp(log_prior_of_sets(sets, np.full(4, 0.25), 0.2))
    assert_allclose(weights[:4].sum(), 1.0)
    assert_allclose(weights[4:].sum(), 0.1)


def test_two_roots_are_both_included():
    sets = root_sets(3)
    logs = np.array([0.0, 0.0, 0.0, 20.0, 0.0, 0.0])  # the pair of units 0 and 1
    members = np.array([[m in s for m in range(3)] for s in sets])
    probability, weights = inclusion(members, logs, np.array([0.0, 1.0, 0.0]))
    assert probability[0] > 0.99
    assert probability[1] > 0.99
    assert probability[2] < 0.01
    assert probability[1] > probability[0]  # it explains more on its own
    assert_allclose(weights.sum(), 1.0)


def test_units_of_the_same_probability_stay_in_the_order_of_what_they_explain():
    """Also once probabilities are multiplied by how certain it is that anything happened."""
    alone = np.array([0.3, 0.1, 0.2])
    probability, _ = inclusion(np.eye(3), np.zeros(3), alone)
    for factor in np.linspace(0.1, 1, 50):
        assert (factor * probability).argsort().tolist() == alone.argsort().tolist()
    assert_allclose(probability, 1 / 3, rtol=1e-12)


def test_scale_factor_is_the_likelihood_ratio_of_a_normal_variance():
    rng = np.random.default_rng(0)
    x = 1.7 * rng.standard_normal((50, 2))
    scale = (x**2).mean()
    ratio = stats.norm.logpdf(x, scale=np.sqrt(scale)).sum() - stats.norm.logpdf(x).sum()
    assert_allclose(log_scale_factor(scale, 2, 50), ratio - 0.5 * np.log(51))
    assert_allclose(log_scale_factor(0.5, 2, 50), -0.5 * np.log(51))  # less than nominal is no fault


def test_scale_ratio_is_that_of_two_normal_variances():
    x = 1.2 * np.random.default_rng(0).standard_normal((50, 2))
    ratio = stats.norm.logpdf(x, scale=np.sqrt(1.3)).sum() - stats.norm.logpdf(x).sum()
    assert_allclose(log_scale_ratio((x**2).mean(), 2, 50, 0.3), ratio)


def test_prior_moves_a_tie_and_a_zero_prior_excludes():
    p = softmax(np.array([3.0, 3.0]), np.array([0.8, 0.2]))
    assert_allclose(p, [0.8, 0.2])
    assert softmax(np.array([3.0, 9.0]), np.array([1.0, 0.0]))[1] == 0.0


def test_no_unit_is_more_than_certain():
    """Every set holds the unit: shares that add up to one but for rounding."""
    members = np.ones((3, 1), dtype=bool)
    for seed in range(200):
        logs = np.random.default_rng(seed).normal(size=3)
        assert inclusion(members, logs, np.zeros(1))[0][0] <= 1.0


def test_weights_of_any_size_have_probabilities():
    members = np.eye(2)
    for level in (-3000.0, 3000.0):
        probability, _ = inclusion(members, level + np.array([0.0, 1.0]), np.zeros(2))
        assert_allclose(probability, [1 / (1 + np.e), np.e / (1 + np.e)])
        shares = softmax(level + np.array([0.0, 1.0]), np.full(2, 0.5))
        assert_allclose(shares, probability)


def test_certain_units_are_ranked_by_more_than_rounding():
    """Each a few bits below the one before it, and close probabilities by what the units explain alone."""
    members = np.eye(3)
    logs = np.log([0.334, 0.333, 0.333])
    probability, _ = inclusion(members, logs, np.array([0.0, 2.0, 1.0]))
    assert probability.argsort()[::-1].tolist() == [1, 2, 0]
    assert_allclose(probability, 0.333, rtol=1e-9)
    far, _ = inclusion(members, np.log([0.34, 0.33, 0.33]), np.array([0.0, 2.0, 1.0]))
    assert far.argmax() == 0


def test_sums_of_exponentials_of_any_size():
    assert log_sum(np.array([-2000.0, -2000.0])) == pytest.approx(-2000 + np.log(2))
    assert log_sum(np.array([3.0, -np.inf])) == 3.0


def test_single_roots_come_first():
    assert root_sets(3) == [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    assert root_sets(2, 1) == [(0,), (1,)]
    assert_allclose(log_prior_of_sets([(0,)], [1.0], 0.2), [0.0])


# --- which answer decides -----------------------------------------------------------------------------

STEADY = np.array([0.0, 1.0])
ANY = np.array([1.0, 0.0])


def test_a_steady_fault_that_explains_everything_needs_no_other_explanation():
    steady = Answer("shift", 30.0, STEADY, 0, explains=True)
    assert deciding([steady, Answer("energy", 200.0, ANY, 0)]) is steady


def test_one_that_leaves_something_unexplained_competes_by_its_evidence():
    steady, other = Answer("shift", 30.0, STEADY, 0), Answer("energy", 200.0, ANY, 0)
    assert deciding([steady, other]) is other


def test_no_fault_explains_nothing():
    """Where nothing moved a fault of no size leaves nothing unexplained either."""
    steady, other = Answer("shift", -3.0, STEADY, 0, explains=True), Answer("energy", 20.0, ANY, 0)
    assert deciding([steady, other]) is other


def test_answers_together_are_weighted_by_their_evidence():
    answers = [Answer("shift", -1.0, np.array([0.2, 0.8]), 0, explains=True), Answer("energy", -2.0, ANY, 0)]
    found = together(answers)
    weights = np.exp([-1.0, -2.0])
    assert found.evidence == pytest.approx(np.log(weights.sum()))
    assert_allclose(found.probability, (weights[0] * answers[0].probability + weights[1] * ANY) / weights.sum())
    assert (found.statistic, found.start, found.explains) == ("shift", 0, False)
    first, second = replace(answers[0], evidence=-3.0), replace(answers[1], start=5)
    found = together([first, second])
    assert (found.statistic, found.start) == ("energy", 5)  # whose levels are told


def test_states_are_far_from_twice_their_nominal_mean_square_on():
    posterior, model = _posterior()
    leverage = np.tril(np.ones(model.A.shape))
    posterior.nominal = replace(posterior.nominal, leverage=leverage)
    rows = window_of(np.zeros((400, len(model.A))), np.zeros((400, len(model.A))), np.ones((400, N_UNITS)))
    white = np.random.default_rng(0).standard_normal(rows.predicted.shape)
    white /= np.sqrt((white**2).mean())
    for square, far in ((1.9, False), (2.1, True)):
        predicted = np.sqrt(square) * white @ np.linalg.inv(leverage)
        assert posterior.is_far(rows._replace(predicted=predicted)) == far


def test_of_two_steady_faults_the_more_evident_decides():
    answers = [Answer("shift", e, STEADY, 0, explains=True) for e in (3.0, 5.0)]
    assert deciding(answers) is answers[1]
    assert explained(answers) == answers
    assert explained([Answer("shift", 0.0, STEADY, 0, explains=True)]) == []


@pytest.mark.parametrize(
    ("sensor", "kind"),
    [(0.19, "process"), (0.21, ""), (0.5, ""), (0.79, ""), (0.8, "sensor"), (0.95, "sensor")],
)
def test_kind_of_fault_needs_four_fifths(sensor, kind):
    assert Answer("shift", 9.0, STEADY, 0, sensor, explains=True).kind == kind
    assert Answer("shift", 9.0, STEADY, 0, sensor, explains=False).kind == ""
    assert Answer("shift", 9.0, STEADY, 0, explains=True).kind == ""  # either may be


# --- posterior ----------------------------------------------------------------------------------------

N_UNITS, N_ROWS = 4, 120
SLICES = tuple(slice(2 * m, 2 * m + 2) for m in range(N_UNITS))


def window_of(u, predicted, outside, first=0):
    return evidence(len(u), outside.shape[1], first=first, scaled=u, predicted=predicted, outside=outside)


def _posterior():
    rng = np.random.default_rng(3)
    n = 2 * N_UNITS
    A = rng.standard_normal((n, n))
    model = InnovationModel(0.8 * A / np.abs(np.linalg.eigvals(A)).max(), 0.25 * np.eye(n), 4 * np.eye(n))
    dims = np.full(N_UNITS, 4.0)
    nominal = Nominal(dims, dims / 2, np.zeros((n, n)), 3000, 1.0)
    return RootPosterior(model, SLICES, np.full(N_UNITS, 1 / N_UNITS), N_ROWS, 80, nominal), model


def _windows(model, n_windows, size, rng):
    """Scaled innovations of windows with a weak fault of one unit from the first row on."""
    root = np.linalg.cholesky(model.weight)
    for _ in range(n_windows):
        unit, push, shift = rng.integers(N_UNITS), np.zeros(len(model.A)), np.zeros(len(model.A))
        direction = rng.standard_normal(2)
        push[SLICES[unit]] = size * direction / np.linalg.norm(direction)
        u = rng.standard_normal((N_ROWS, len(root))) @ root.T
        for row in u:
            shift = push + model.carry @ shift
            row += model.weight @ shift
        yield unit, u


@pytest.mark.medium
def test_weak_faults_in_a_named_window_are_found_as_often_as_by_their_likelihood_ratio():
    posterior, model = _posterior()
    information = model.step_information(N_ROWS)[-1:]
    rng, hits = np.random.default_rng(0), []
    for unit, u in _windows(model, 700, 0.1, rng):
        outside = rng.chisquare(2, (N_ROWS, N_UNITS)) / 2
        window = window_of(u, np.zeros_like(u), outside)
        found = posterior.from_shift([window], len(u), at_once=NAMED_FROM_START)[0]
        scores = step_scores(model, u)[:1]
        ratios = [likelihood_ratios(scores, information, b)[0] for b in SLICES]
        hits.append((found.probability.argmax() == unit, np.argmax(ratios) == unit))
    found, best = np.array(hits, dtype=float).T
    assert 0.4 < best.mean() < 0.7  # weak enough to go wrong
    error = (found - best).std() / np.sqrt(len(hits))
    # a tenth of the prior on other onsets would cost 0.05
    assert found.mean() > best.mean() - 0.01 - 2 * error


def test_evidence_of_an_onset_that_is_known_is_that_of_the_first_row_alone():
    posterior, model = _posterior()
    ((_, u),) = _windows(model, 1, 0.5, np.random.default_rng(1))
    outside = np.ones((N_ROWS, N_UNITS))
    window = window_of(u, np.zeros_like(u), outside)
    known = posterior.from_shift([window], len(u), at_once=1.0)[0]
    first = posterior.from_shift([window], 1)[0]
    assert_allclose(known.probability, first.probability, rtol=1e-9)
    assert_allclose(known.evidence, first.evidence, rtol=1e-9)
    assert known.start == first.start == 0


def test_windows_together_are_answered_as_each_alone():
    """Whatever their lengths: rows after the end of the shorter ones say nothing."""
    posterior, model = _posterior()
    rng = np.random.default_rng(4)
    windows = []
    for (_, u), n_rows in zip(_windows(model, 4, 0.5, rng), (N_ROWS, 61, 30, 90), strict=True):
        outside = rng.chisquare(2, (n_rows, N_UNITS)) / 2
        windows.append(window_of(u[:n_rows], rng.standard_normal((n_rows, u.shape[1])), outside))
    together = posterior.from_shift(windows, 30)
    for window, found in zip(windows, together, strict=True):
        (alone,) = posterior.from_shift([window], 30)
        assert_allclose(found.probability, alone.probability, rtol=0, atol=1e-12)
        assert_allclose(found.evidence, alone.evidence, rtol=1e-12)
        assert_allclose(found.sensor, alone.sensor, rtol=0, atol=1e-12)
        assert (found.start, found.explains) == (alone.start, alone.explains)


def test_looks_are_answered_in_their_order_however_many_onsets_they_have():
    posterior, model = _posterior()
    rng = np.random.default_rng(5)
    u = np.concatenate([u for _, u in _windows(model, 3, 0.5, rng)])
    rows = window_of(u, np.zeros_like(u), rng.chisquare(2, (len(u), N_UNITS)) / 2)
    looks = [Look(max(d - 40, 0), d, (d + 50, d + 9)[: 1 + d % 2]) for d in range(5, 300, 9)]
    answers = shift_answers(posterior, rows, looks)
    for look, found in zip(looks, answers, strict=True):
        assert len(found) == len(look.ends)
        for end, answer in zip(look.ends, found, strict=True):
            window = rows.between(look.begin, end)
            (alone,) = posterior.from_shift([window], look.detected - look.begin + 1)
            assert answer.start == alone.start >= look.begin
            assert_allclose(answer.probability, alone.probability, rtol=0, atol=1e-12)


SMALL = (slice(0, 1), slice(1, 3), slice(3, 4))


def small_posterior(**changes):
    """Three units, one of them with two states, under a plant of four."""
    rng = np.random.default_rng(5)
    A = rng.standard_normal((4, 4))
    root = rng.standard_normal((4, 4))
    model = InnovationModel(0.7 * A / np.abs(np.linalg.eigvals(A)).max(), root @ root.T / 4, 2 * np.eye(4))
    outside = np.array([2.0, 0.0, 1.0])
    values = {"rest": 1.1, "shift": 1.3, "energy": 1.7, "off_subspace": 1.2} | changes
    nominal = Nominal(np.array([1, 2, 1]) + outside, outside, 0.1 * np.eye(4), 500, **values)
    return RootPosterior(model, SMALL, np.array([0.5, 0.3, 0.2]), 30, 20, nominal), model, nominal


def small_window(model, seed=0, n_rows=24, size=0.0, unit=1, onset=6, kind="process", first=0, outside=1.0):
    """Innovations with a fault, states and off-subspace numbers that wander."""
    rng = np.random.default_rng(seed)
    u = rng.standard_normal((n_rows, 4)) @ np.linalg.cholesky(model.weight).T
    push = np.zeros(4)
    push[SMALL[unit]] = size
    shift = np.zeros(4)
    for t in range(onset, n_rows):
        shift = push * (t - onset + 1 if kind == "ramp" else 1) + model.carry @ shift
        u[t] += model.weight @ shift
    numbers = rng.chisquare(2, (n_rows, 3)) / 2
    numbers[:, 1] = 0.0
    numbers[onset:, unit] *= outside
    return window_of(u, rng.standard_normal((n_rows, 4)), numbers, first)


def enumerated(window, n_onsets, prior_of_onsets, model, nominal, shares, grows=False):
    """Every candidate (units, is it the sensors) at every onset, and growing: its weight and what it explains."""
    n_rows = len(window.scaled)
    scores = dict(zip((False, True), step_and_bias_scores(model, window.scaled), strict=True))
    information = {
        False: model.step_information(n_rows)[::-1],
        True: bias_information(model, n_rows)[::-1],
    }
    sets = [((0,), 0.5), ((1,), 0.3), ((2,), 0.2)]
    sets += [((a, b), p * q * 0.2 / 2 * 3) for k, ((a,), p) in enumerate(sets) for ((b,), q) in sets[k + 1 : 3]]
    candidates = [(units, False, p) for units, p in sets] + [(units, True, p / 2) for units, p in sets[:3]]
    whole = sum(p for *_, p in candidates)
    prior = np.append(0.9 * prior_of_onsets, 0.1) if grows else prior_of_onsets
    weights, ratios = np.zeros((2, len(candidates), len(prior)))
    ramps = ramp_ratios(model, *scores.values(), SMALL).reshape(2, 3)
    for c, (units, is_sensor, p) in enumerate(candidates):
        columns = np.concatenate([np.arange(4)[SMALL[m]] for m in units])
        of_all = likelihood_ratios(scores[is_sensor], information[is_sensor], columns)[:n_onsets]
        if grows and len(units) == 1:
            of_all = np.append(of_all, ramps[int(is_sensor), units[0]])
        for t, ratio in enumerate(of_all):
            n = n_rows - t % n_onsets
            level = 0.1 * window.predicted[-n:].sum(axis=0)
            spread = nominal.shift * (1 + (n + level @ level / n) / nominal.n_rows)
            g = n * np.array(shares)
            log = np.log(np.mean(np.exp(ratio / spread * g / (2 * (g + 1))) * (g + 1) ** (-len(columns) / 2)))
            if is_sensor:
                dof, excess = nominal.outside_dims[units[0]] / 1.2, window.outside[-n:, units[0]].mean()
                gain = n * dof / 2 * (excess - 1 - np.log(excess)) if excess > 1 else 0.0
                still = np.exp(0.5 * np.log(n + 1) - gain)
                log += np.log((0.9 + 0.1 * still) / (0.1 + 0.9 * still))
            ratios[c, t] = ratio
            weights[c, t] = p / whole * prior[t] * np.exp(log)
    return candidates, weights, ratios


def assert_enumerated(found, candidates, weights, atol=1e-9):
    """Evidence and probabilities are those of all candidates; gives the share of each, and the likeliest unit."""
    assert found.evidence == pytest.approx(np.log(weights.sum()), abs=1e-9)
    by_candidate = weights.sum(axis=1) / weights.sum()
    probability = [sum(w for w, c in zip(by_candidate, candidates, strict=True) if m in c[0]) for m in range(3)]
    assert_allclose(found.probability, probability, atol=atol)
    best = int(np.argmax(probability))
    sensors = sum(w for w, c in zip(by_candidate, candidates, strict=True) if c[:2] == ((best,), True))
    assert found.sensor == pytest.approx(sensors / probability[best], abs=1e-9)
    return by_candidate, best


@pytest.mark.parametrize("shares", [None, (1.0, 0.25, 0.02)])
@pytest.mark.parametrize("at_once", [0.0, 0.9])
@pytest.mark.parametrize(
    ("size", "unit", "outside"), [(0.0, 0, 1.0), (0.3, 1, 1.0), (0.8, 0, 1.0), (0.8, 2, 4.0), (0.5, 0, 3.0)]
)
def test_answer_of_the_shift_statistic_is_that_of_all_candidates_and_onsets(at_once, size, unit, outside, shares):
    posterior, model, nominal = small_posterior()
    window = small_window(model, size=size, unit=unit, outside=outside, first=40)
    n_onsets = 11
    onsets = np.full(n_onsets, (1 - at_once) / n_onsets)
    onsets[0] += at_once
    (found,) = posterior.from_shift([window], n_onsets, at_once, shares)
    candidates, weights, ratios = enumerated(window, n_onsets, onsets, model, nominal, shares or (1.0,))
    by_candidate, best = assert_enumerated(found, candidates, weights)
    shares = np.array([p for *_, p in candidates])
    likeliest = int((weights / shares[:, None]).sum(axis=0).argmax())
    assert found.start == 40 + likeliest
    u = window.scaled[likeliest:]
    squares = np.einsum("ti,ij,tj->", u, np.linalg.inv(model.weight), u)
    left = (squares - ratios[by_candidate.argmax(), likeliest]) / (1.1 * (24 - likeliest) * 4)
    calm = True
    for m in {0, 1, 2} - {best}:
        n, dof = 24 - likeliest, nominal.outside_dims[m] / 1.2
        excess = max(window.outside[likeliest:, m].mean(), 1.0)
        calm &= n * dof / 2 * (excess - 1 - np.log(excess)) <= 0.5 * np.log(n + 1)
    assert found.explains == (left <= 1 and calm)


@pytest.mark.parametrize("shares", [None, (1.0, 0.25, 0.02)])
@pytest.mark.parametrize(
    ("size", "unit", "kind"),
    [(0.0, 0, "ramp"), (0.02, 1, "ramp"), (0.3, 0, "ramp"), (0.1, 2, "ramp"), (0.5, 0, "process")],
)
def test_answer_of_the_shift_statistic_is_that_of_ramps_too_where_a_fault_may_grow(size, unit, kind, shares):
    posterior, model, nominal = small_posterior()
    window = small_window(model, size=size, unit=unit, onset=0, kind=kind, first=40)
    onsets = np.full(24, 0.1 / 24)
    onsets[0] += 0.9
    (found,) = posterior.from_shift([window], 24, 0.9, shares, may_grow=True)
    candidates, weights, _ = enumerated(window, 24, onsets, model, nominal, shares or (1.0,), grows=True)
    assert_enumerated(found, candidates, weights, atol=1e-6)
    grows = weights[:, -1].max() > weights[:, :-1].sum(axis=1).max()
    assert grows == (kind == "ramp" and size >= 0.1)
    assert not grows or found.start == 40


def test_rest_of_a_window_is_what_a_ramp_leaves_where_that_is_likeliest():
    _, model, _ = small_posterior()
    window = small_window(model, size=0.1, unit=0, onset=0, kind="ramp")
    ratio = ramp_ratios(model, *step_and_bias_scores(model, window.scaled), SMALL)[0]
    squares = np.einsum("ti,ij,tj->", window.scaled, np.linalg.inv(model.weight), window.scaled)
    border = (squares - 1.25 * ratio) / window.scaled.size  # a quarter of what it explains is not known
    explains = [
        small_posterior(rest=share * border)[0].from_shift([window], 24, 0.9, may_grow=True)[0].explains
        for share in (0.999, 1.001)
    ]
    assert explains == [False, True]


def test_rest_of_a_window_decides_whether_a_fault_explains_it():
    """The mean square that a fault leaves, over the nominal one, is one at the border."""
    _, model, _ = small_posterior()
    window = small_window(model, size=0.8, seed=3)
    explains = [small_posterior(rest=rest)[0].from_shift([window], 11)[0].explains for rest in (0.3, 3.0)]
    assert explains == [False, True]
    noisy = window._replace(outside=window.outside * np.array([4.0, 1.0, 1.0]))
    assert not small_posterior(rest=3.0)[0].from_shift([noisy], 11)[0].explains


def test_answer_of_the_energy_statistic_by_its_formula():
    """Scale of the states' surprises, with off-subspace numbers or without, at a tenth of prior weight."""
    posterior, _, nominal = small_posterior()
    rng = np.random.default_rng(0)
    for n_rows in (12, 20, 33):
        surplus, outside = 1.4 * rng.chisquare(3, (n_rows, 3)) / 3, rng.chisquare(2, (n_rows, 3)) / 2
        outside[:, 1] = 0.0
        given = rng.uniform(0, 2, (n_rows, 3))
        predicted = rng.normal(size=(n_rows, 4))
        rows = evidence(
            n_rows, 3, 4, first=7, predicted=predicted, surplus=surplus, outside=outside, given_others=given
        )
        answer = posterior.from_energy(rows)
        assert (answer.statistic, answer.start, answer.explains, answer.kind) == ("energy", 7, False, "")
        total, factors, excess = 0.0, [], []
        for m, prior in enumerate((0.5, 0.3, 0.2)):
            states, rest = surplus[:, m].mean(), outside[:, m].mean()
            d, g = nominal.dims[m], nominal.outside_dims[m]
            both = (1 - g / d) * states + g / d * rest
            gains = []
            for mean, dof in ((states, d - g), (both, d)):
                x = max(mean, 1.0)
                gains.append(n_rows * dof / 2 * (x - 1 - np.log(x)) - 0.5 * np.log(n_rows + 1))
            total += prior * np.exp(max(gains) / 1.7)
            factors.append(max(gains) / 1.7)
            excess.append(max(states, both))
        assert answer.evidence == pytest.approx(np.log(total) + np.log(0.1))
        far = sum(x @ nominal.leverage @ nominal.leverage.T @ x for x in predicted) / (4 * n_rows)
        misfit = max(1.0, far / 2, sorted(excess)[1])
        often = 8.0 * given.sum(axis=0) / max(n_rows, 20)
        weights = np.array([0.5, 0.3, 0.2]) * np.exp(often + np.array(factors) / misfit**2)
        assert_allclose(answer.probability, weights / weights.sum())


def test_faults_too_small_to_be_seen_have_the_probabilities_of_all_their_sizes():
    """Of both statistics, a unit that may not be the root excluded."""
    posterior, model, nominal = small_posterior()
    rows = small_window(model, size=0.05)._replace(surplus=np.random.default_rng(1).chisquare(3, (24, 3)) / 3)
    energy = posterior.from_any_energy(rows)
    scales, factors, excess = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0), [], []
    for m in range(3):
        d, g = nominal.dims[m], nominal.outside_dims[m]
        states = rows.surplus[:, m].mean()
        both = (1 - g / d) * states + g / d * rows.outside[:, m].mean()
        factors.append([(mean, dof, s) for mean, dof in ((states, d - g), (both, d)) for s in scales])
        excess.append(max(states, both))
    far = sum(x @ nominal.leverage @ nominal.leverage.T @ x for x in rows.predicted) / (4 * 24)
    misfit = max(1.0, far / 2, sorted(excess)[1])
    ratios = [
        np.mean([np.exp(12 * dof * (x * s / (1 + s) - np.log(1 + s)) / 1.7 / misfit**2) for x, dof, s in of])
        for of in factors
    ]
    weights = posterior.prior * ratios
    assert energy.evidence == pytest.approx(np.log(0.1 * weights.sum()))
    assert_allclose(energy.probability, weights / weights.sum())
    (shift,) = posterior.from_shift([rows], 24, 0.9, 4.0 ** -np.arange(5), may_grow=True)
    for statistics, answers in ((("energy", "shift"), [shift, energy]), (("energy",), [energy]), (("shift",), [shift])):
        found, expected = posterior.of_any_size(rows, statistics, 0.9), together(answers)
        assert found.evidence == pytest.approx(expected.evidence)
        assert_allclose(found.probability, expected.probability)
    none = RootPosterior(model, SMALL, np.array([0.6, 0.4, 0.0]), 30, 20, nominal)
    probability = none.of_any_size(rows, ("energy", "shift"), 0.9).probability
    assert probability[2] == 0.0
    assert np.isfinite(probability).all()


def changes_by_hand(posterior, model, nominal, rows):
    """Weights of a change of each unit, one of its own and those of links integrated over the gain by quadrature."""
    states = rows.predicted + rows.scaled @ model.schedule.predicted[-1]
    states = states - states.mean(axis=0)
    n_rows = len(states)
    far = sum(x @ nominal.leverage @ nominal.leverage.T @ x for x in rows.predicted) / 4
    tempering = nominal.energy * (1 + far / nominal.n_rows)
    ratios = own_change_ratios(model, rows.scaled, states, SMALL) / tempering
    scores, information = (part / tempering for part in gain_changes(model, rows.scaled, states, SMALL))
    found = []
    for m, b in enumerate(SMALL):
        sizes = [log_bayes_factor(ratios[m], (b.stop - b.start) ** 2, n_rows / 4**k) for k in range(5)]
        gains = [k for k in range(3) if information[m, k] > 0]
        links = []
        for k in gains:
            g = np.linspace(-12, 12, 40001)
            density = stats.norm.pdf(g) * np.exp(g * scores[m, k] - g**2 * information[m, k] / 2)
            links.append(density.sum() * (g[1] - g[0]))
        own = np.mean(np.exp(sizes))
        found.append((own + np.mean(links)) / 2 if links else own)
    return posterior.prior * found


def test_changed_dynamics_have_the_probabilities_of_all_their_sizes():
    """A unit that no other acts on has its own dynamics alone; gains are integrated out numerically."""
    posterior, model, nominal = small_posterior()
    A = model.A.copy()
    A[:1, 1:] = 0.0
    model = InnovationModel(A, model.Q, model.J)
    posterior = RootPosterior(model, SMALL, posterior.prior, 30, 20, nominal)
    for seed in range(4):
        rows = small_window(model, seed, size=0.2)
        answer, weights = posterior.from_changes(rows), changes_by_hand(posterior, model, nominal, rows)
        assert answer.evidence == pytest.approx(np.log(0.1 * weights.sum()), rel=1e-6)
        assert_allclose(answer.probability, weights / weights.sum(), rtol=1e-6)
        assert not answer.explains
    none = RootPosterior(model, SMALL, np.array([0.6, 0.4, 0.0]), 30, 20, nominal)
    assert none.from_changes(rows).probability[2] == 0.0


def test_a_steady_fault_is_no_change_of_dynamics():
    """However far it moves the states: these count from their mean."""
    posterior, model = _posterior()
    moved = np.linspace(1, 2, len(model.A))
    rng = np.random.default_rng(6)
    u = rng.standard_normal((N_ROWS, len(model.A))) @ np.linalg.cholesky(model.weight).T
    predicted = rng.standard_normal(u.shape)
    rows = window_of(u, predicted, np.ones((N_ROWS, N_UNITS)))
    found = posterior.from_changes(rows)
    away = posterior.from_changes(rows._replace(predicted=predicted + 50 * moved))
    assert found.evidence == pytest.approx(away.evidence)
    assert_allclose(found.probability, away.probability)


def test_a_level_that_few_rows_told_is_no_fault():
    """Ratios of nominal windows, judged by the mean of as many rows, are those of a level known exactly, scaled."""
    posterior, model = _posterior()
    rng, root = np.random.default_rng(7), np.linalg.cholesky(model.weight)
    evidence_of = {np.inf: [], N_ROWS: []}
    for _ in range(60):
        u = rng.standard_normal((2 * N_ROWS, len(root))) @ root.T
        judged = u[N_ROWS:] - u[:N_ROWS].mean(axis=0)
        window = window_of(judged, np.zeros_like(judged), np.ones((N_ROWS, N_UNITS)))
        for level_rows, found in evidence_of.items():
            found.append(posterior.from_shift([window], 1, level_rows=level_rows)[0].evidence)
    assert np.mean(np.array(evidence_of[N_ROWS]) > 0) < 0.05 < np.mean(np.array(evidence_of[np.inf]) > 0)


def test_longer_windows_are_prepared_when_they_come():
    posterior, model, nominal = small_posterior()
    prepared = RootPosterior(model, SMALL, posterior.prior, 90, 20, nominal)
    long, short = small_window(model, n_rows=45, size=0.4), small_window(model, n_rows=15, size=0.4)
    for window in (long, short):
        one, other = (each.from_shift([window], 9)[0] for each in (posterior, prepared))
        assert_allclose(one.probability, other.probability, rtol=1e-9)
        assert one.evidence == pytest.approx(other.evidence, rel=1e-9)


def test_the_longest_of_several_windows_is_prepared_for():
    posterior, model, _ = small_posterior()
    windows = [small_window(model, n_rows=n, size=0.4) for n in (15, 45, 20)]
    together = posterior.from_shift(windows, 9)
    for window, found in zip(windows, together, strict=True):
        (alone,) = small_posterior()[0].from_shift([window], 9)
        assert_allclose(found.probability, alone.probability, rtol=1e-9)


@pytest.mark.parametrize(("n_units", "pairs"), [(20, True), (21, False)])
def test_two_roots_at_a_time_are_candidates_among_up_to_twenty_units(n_units, pairs):
    slices = tuple(slice(m, m + 1) for m in range(n_units))
    model = InnovationModel(0.5 * np.eye(n_units), np.eye(n_units), 4 * np.eye(n_units))
    ones = np.ones(n_units)
    nominal = Nominal(ones, 0 * ones, np.zeros((n_units, n_units)), 1000, 1.0)
    posterior = RootPosterior(model, slices, ones / n_units, 40, 20, nominal)
    u = np.random.default_rng(0).standard_normal((40, n_units)) @ np.linalg.cholesky(model.weight).T
    u[:, [3, 7]] += 0.8
    (found,) = posterior.from_shift([window_of(u, np.zeros_like(u), np.zeros((40, n_units)))], 5)
    assert (found.probability[[3, 7]].min() > 0.9) == pairs
    assert (found.probability.sum() > 1.5) == pairs


def test_units_without_prior_are_never_the_root_nor_spoil_the_scale():
    """Of a fault that the excluded unit alone explains, so large that the others' weights would underflow."""
    _, model, nominal = small_posterior()
    posterior = RootPosterior(model, SMALL, np.array([0.5, 0.0, 0.5]), 30, 20, nominal)
    (found,) = posterior.from_shift([small_window(model, size=60.0)], 11)
    assert found.probability[1] == 0.0
    assert found.probability[[0, 2]].max() > 0.4
    assert np.isfinite(found.evidence)


@pytest.mark.parametrize(
    ("first_rows", "back", "first"),
    [
        ([4, 5, 6], True, 0),
        ([4, 4, 4], True, 0),
        ([7, 5, 6], True, 1),
        ([7, 5, 6], False, 0),
        ([-1, -1, 6], True, 2),
        ([-1, 4, -1], True, 1),
        ([-1, 8, 6], True, 2),
        ([-1, 8, 6], False, 1),
    ],
)
def test_of_units_that_act_on_the_root_unforeseen_the_first_in_alarm_is_it(first_rows, back, first):
    """Those that are moved by another of them are none; who is out of the root's reach may be in alarm after it."""
    curved = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0]], dtype=bool)
    acting = curved | (curved.T if back else False)
    found = upstream(np.array([0.0, 0.0, 1.0]), np.array(first_rows), curved, acting)
    assert found.argmax() == first
    assert_allclose(found.sum(), 1.0)
