"""Level shifts that nobody announced: found where they are, nowhere else, and not taken for links."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special, stats

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    KalmanClient,
    LikelihoodServer,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.parameters import configured
from skfedcausal.server.estimation import level_shifts
from skfedcausal.server.estimation.block_tests import link_estimates
from skfedcausal.server.estimation.level_shifts import (
    SHORTEST,
    LevelShifts,
    UnitRecord,
    _by_innovations,
    _by_likelihood,
    _next_onsets,
    find_level_shifts,
    shift_threshold,
    unit_onsets,
)
from skfedcausal.server.estimation.scoring import Point, Scoring, ascend
from skfedcausal.server.estimation.standardised import StandardisedPlant
from skfedcausal.server.joint import JointRecord, step_series
from skfedcausal.statespace.detection.shift import InnovationModel, best_onset
from skfedcausal.statespace.episodes import remove_episode_means
from skfedcausal.statespace.partition import Partition

pytestmark = pytest.mark.medium

AT = 700


def shifted(size=3.0, n_samples=1500, seed=0, **options):
    """Two units, the first acts on the second and shifts."""
    shift = {"unit": 0, "size": size, "at": AT} if size else None
    options = {"links": [("unit0", "unit1")], "link_strength": 0.3, "level_shift": shift, **options}
    return make_granger_plant(2, n_samples=n_samples, random_state=seed, **options)


def estimator(server=None, **options):
    return FederatedGrangerEstimator(server=server or configured(LikelihoodServer, options))


def records(X, **options):
    messages = {name: KalmanClient().fit(Y).message(Y, **options) for name, Y in X.items()}
    return list(StandardisedPlant(JointRecord.from_messages(messages)).unit_records())


def linked(fitted):
    found = fitted.links_.query("verdict == 'influence'")
    return set(zip(found.cause, found.effect, strict=True))


@pytest.mark.parametrize("size", [1.0, 3.0, 10.0])
def test_a_shift_is_found_where_it_was_and_is_not_taken_for_a_link(size):
    X, _ = shifted(size)
    found = estimator().fit(X)
    shifts = found.server_.level_shifts_
    assert shifts.unit.tolist() == ["unit0"]
    # information on the onset grows with the square of the shift
    assert abs(shifts.start[0] - AT) <= 25 / size**2 + 1
    assert linked(found) == {("unit0", "unit1")}
    # it was `size` in both states
    assert shifts["size"][0] == pytest.approx(np.sqrt(2) * size, rel=0.25)


def test_shifts_are_taken_for_dynamics_where_nobody_looks_for_them():
    without = estimator(level_shifts=None).fit(shifted(3.0)[0])
    # later lags explain the shift as states that move slowly, and leave the link that there is
    links = without.links_.set_index(["cause", "effect"])
    assert links.loc[("unit0", "unit1"), "p_adjusted"] < 0.05
    assert len(without.server_.lag_transitions_) > 1
    assert without.server_.level_shifts_.empty


@pytest.mark.parametrize("options", [{"radius": (0.5, 0.8)}, {"radius": (0.95, 0.95)}], ids=["quick", "slow"])
def test_no_shift_is_found_where_there_is_none(options):
    """At a level of 1e-3 per record ten records have none but for one seed in a hundred."""
    for seed in range(10):
        X, _ = make_granger_plant(3, n_samples=1000, random_state=seed, **options)
        assert find_level_shifts(records(X), len(X))[0] == ()


def test_random_walks_are_not_cut_into_levels():
    rng = np.random.default_rng(0)
    walks = {f"u{k}": np.cumsum(rng.normal(size=(2000, 1)), axis=0) + rng.normal(size=(2000, 4)) for k in range(3)}
    assert find_level_shifts(records(walks), len(walks))[0] == ()


def with_a_slow_state_that_one_sensor_hides(seed, slow=0.98, n_samples=2000):
    """A quick state plus a slow one: no model with one state makes innovations of it that are white."""
    noise, x = np.random.default_rng(seed).normal(size=(n_samples, 2)), np.zeros((n_samples, 2))
    for t in range(1, n_samples):
        x[t] = [0.3, slow] * x[t - 1] + [1.0, 0.7 * np.sqrt(1 - slow**2)] * noise[t]
    return {"unit": x.sum(axis=1, keepdims=True)}


def test_slow_states_that_the_model_lacks_are_not_cut_into_levels(monkeypatch):
    units = [records(with_a_slow_state_that_one_sensor_hides(seed)) for seed in range(5)]
    assert [find_level_shifts(unit, 1)[0] for unit in units] == [()] * 5
    monkeypatch.setattr(UnitRecord, "misfit", lambda *_: 1.0)
    assert all(find_level_shifts(unit, 1)[0] for unit in units)


@pytest.mark.slow
def test_innovations_of_a_model_that_fits_have_hardly_any_misfit():
    """The log of 16 ordinates has a standard deviation of (pi^2 / 6 / 16)^(1/2) with one sensor."""
    for seed in range(10):
        options = {"n_states": 1, "n_sensors": 1, "measurement_noise": 0.01}
        X, _ = make_granger_plant(1, n_samples=1000, random_state=seed, **options)
        (unit,) = records(X)
        assert unit.misfit([], unit.fit([])) <= np.exp(3 * np.pi / np.sqrt(6 * 16))


def test_the_plant_without_a_shift_is_the_same_with_and_without_looking():
    X, _ = shifted(0)
    looked, trusted = estimator().fit(X), estimator(level_shifts=None).fit(X)
    np.testing.assert_array_equal(looked.transition_, trusted.transition_)
    assert looked.links_.equals(trusted.links_)


def test_a_shift_of_every_unit_acts_on_every_unit():
    shifts = [{"unit": k, "size": 4.0, "at": AT} for k in range(2)]
    X, _ = shifted(level_shift=shifts, links=[])
    found = estimator().fit(X)
    assert found.server_.level_shifts_.unit.tolist() == ["unit0", "unit1"]
    assert linked(found) == set()


def test_a_level_that_comes_back_has_two_shifts():
    X, _ = shifted(level_shift={"unit": 1, "size": 4.0, "at": 500, "until": 900})
    shifts = estimator().fit(X).server_.level_shifts_
    assert shifts.unit.tolist() == ["unit1", "unit1"]
    np.testing.assert_allclose(shifts.start, [500, 900], atol=3)


@pytest.mark.parametrize("options", [{"missing": 0.02}, {"episodes": 2}], ids=["missing", "episodes"])
def test_shifts_in_records_with_gaps_and_in_episodes(options):
    X, _ = shifted(4.0, n_samples=900, seed=1, **options)
    lengths = [450, 450] if "episodes" in options else None
    found = estimator().fit(X, lengths=lengths)
    shifts = found.server_.level_shifts_
    assert shifts.unit.tolist() == ["unit0"]
    assert abs(shifts.start[0] - AT) <= 4
    assert ("unit1", "unit0") not in linked(found)


def test_forecasts_know_the_levels():
    """The fitted record is predicted around both its levels, a later one around the last."""
    X, truth = shifted(5.0, n_samples=3000)
    late = {name: Y[2000:] for name, Y in X.items()}
    calm, _ = shifted(0, n_samples=3000)
    reference, found = (
        FederatedGrangerEstimator([KalmanClient(C=C) for C in truth.observation]).fit(record) for record in (calm, X)
    )
    for record, same in ((X, calm), (late, {name: Y[2000:] for name, Y in calm.items()})):
        errors = [
            np.sqrt(np.mean((e.predict(data, model="server") - np.hstack(list(data.values()))) ** 2))
            for e, data in ((found, record), (reference, same))
        ]
        # the same noise in both; parameters known to 1 % change errors by far less
        assert errors[0] == pytest.approx(errors[1], rel=0.01)


def test_shifts_beside_inputs_are_no_inputs():
    X, truth = shifted(4.0, n_inputs=1, input_links=[])
    plain = shifted(0, n_inputs=1, input_links=[])[0]
    found = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    reference = FederatedCounterfactualEstimator().fit(plain, inputs=truth.inputs)
    assert found.server_.level_shifts_.unit.tolist() == ["unit0"]
    assert found.input_.shape == reference.input_.shape == (4, 2)
    assert found.server_.coefficients_.matrix.shape == (4, 6)
    assert (found.links_.kind == reference.links_.kind).all()
    assert found.links_.statistic[found.links_.kind == "input"].notna().all()


def test_step_series_begins_one_row_early_and_ends_with_the_episode():
    np.testing.assert_array_equal(step_series((3,), (0, 5), 8)[:, 0], [0, 0, 1, 1, 1, 0, 0, 0])
    np.testing.assert_array_equal(step_series((0, 6), (0, 5), 8).T, [[1] * 5 + [0] * 3, [0] * 5 + [1] * 3])


def test_onsets_are_where_a_regression_of_innovations_puts_them():
    """Against least squares of the innovations on the response to a step at each row and to one of old."""
    rng = np.random.default_rng(1)
    n, F = 120, np.array([[0.6, 0.2], [-0.1, 0.4]])
    model = InnovationModel(F, np.eye(2), np.eye(2))
    u = rng.normal(size=(n, 2)) @ np.linalg.cholesky(model.weight).T
    u[70:] += 0.4
    responses, G = [], np.zeros((2, 2))
    for _ in range(n):
        G = np.eye(2) + model.carry @ G
        responses.append(model.weight @ G)
    always = np.tile(model.weight @ model.held, (n, 1))
    white = np.kron(np.eye(n), np.linalg.inv(np.linalg.cholesky(model.weight)))
    gains = {}
    for row in range(SHORTEST, n - SHORTEST + 1):
        step = np.vstack([np.zeros((2 * row, 2)), *responses[: n - row]])
        design = white @ np.hstack([always, step])
        target = white @ u.ravel()
        rest = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
        gains[row] = -rest @ rest
    assert best_onset(model, u, SHORTEST) == max(gains, key=gains.get)
    assert best_onset(model, u[: 2 * SHORTEST], SHORTEST) == SHORTEST  # the only row it can be


def test_the_shortest_record_that_can_have_a_shift_has_one_place_for_it():
    rng = np.random.default_rng(0)
    X = {name: rng.normal(size=(2 * SHORTEST, 4)) for name in ("a", "b")}
    X["a"][SHORTEST:] += 20
    est = FederatedGrangerEstimator(KalmanClient(n_states=1)).fit(X)
    assert set(est.server_.level_shifts_["start"]) <= {SHORTEST}


def test_the_threshold_is_bonferronis():
    assert stats.chi2.sf(shift_threshold(1000, 4, 2), 2) == pytest.approx(1e-3 / 4000)


@pytest.mark.slow
def test_likelihood_ratios_of_a_step_anywhere_have_their_law():
    """A step at a given row of a record without one: twice the gain in log-likelihood is chi-squared."""
    ratios = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = np.zeros((400, 1))
        for t in range(1, 400):
            x[t] = 0.6 * x[t - 1] + rng.normal()
        scores = remove_episode_means(x + rng.normal(size=x.shape), (0,))
        unit = UnitRecord(scores, None, np.eye(1), np.zeros((400, 0)), (0,), 12)
        ratios.append(800 * float(unit.fit([200]).value[0] - unit.fit([]).value[0]))
    assert np.mean(ratios) == pytest.approx(1.0, abs=3 * np.sqrt(2 / 60))


@pytest.mark.parametrize("n_rows", [300, 8191, 50_003])
@pytest.mark.parametrize("known", [(), (150,)])
def test_the_best_split_is_that_of_all_rows(n_rows, known):
    """Split of the sum of squares between the two sides of every row, each around its own mean."""
    rng = np.random.default_rng(n_rows)
    step = (np.arange(n_rows) >= 7 * n_rows // 9)[:, None]
    scores = remove_episode_means([30.0, 1.0] * rng.normal(size=(n_rows, 2)) + step, (0,))
    unit = UnitRecord(scores, None, np.eye(2), np.zeros((n_rows, 0)), (0,), 12)
    white = scores @ np.linalg.cholesky(np.linalg.inv(scores.T @ scores / n_rows))
    best, largest = None, 0.0
    for start, stop in zip([0, *known], [*known, n_rows], strict=True):
        rows = np.arange(start + SHORTEST, stop - SHORTEST + 1)
        before = np.cumsum(white[start:stop], axis=0)[rows - start - 1]
        total, n = white[start:stop].sum(axis=0), (rows - start)[:, None]
        levels = (before**2 / n + (total - before) ** 2 / (stop - start - n)).sum(axis=1)
        gain = levels - total @ total / (stop - start)
        if stop - start < 8192:  # of longer stretches a few rows are looked at first
            assert unit._split(start, stop)[1] == pytest.approx(gain.max())
        if gain.max() > largest:
            best, largest = rows[gain.argmax()], gain.max()
    assert unit.best_split(known)[0] == best


@pytest.mark.filterwarnings("ignore:X has one unit:UserWarning")
def test_step_tests_are_wald_tests_of_one_column():
    """With the only unit's step in the model its statistic is the squared estimate over its variance."""
    X, _ = make_granger_plant(1, n_states=1, n_samples=400, random_state=3)
    fitted = estimator().fit(X)
    assert fitted.server_.level_shifts_.empty
    messages = {name: fitted.clients_[name].message(Y) for name, Y in X.items()}
    plant = StandardisedPlant(JointRecord.from_messages(messages).at_steps((200,)))
    structure = plant.structure()
    start = Point.at(plant.whittle(), *plant.uncoupled)
    top = ascend(plant.whittle(), Scoring(plant.whittle(), structure, start), gain_tol=1e-12).point
    scoring = Scoring(plant.whittle(), structure, top)
    b, variance = top.A[0, 1], scoring.covariance[1, 1]
    assert link_estimates(scoring, "step").statistic[0] == pytest.approx(b**2 / variance, rel=1e-6)


def paper_record(seed, shift, n_samples=5000):
    """Two units, "0.25 everywhere" from the first to the second, a persistent shift at the first."""
    rng = np.random.default_rng(seed)
    A = np.zeros((4, 4))
    A[:2, :2], A[2:, 2:] = [[0.5, 0.2], [-0.2, 0.5]], [[0.4, -0.1], [0.1, 0.4]]
    A[2:, :2] = 0.25
    C = [rng.standard_normal((8, 2)) for _ in range(2)]
    x, w = np.zeros((n_samples, 4)), rng.standard_normal((n_samples, 4))
    w[n_samples // 2 + 1 :, :2] += shift
    for t in range(1, n_samples):
        x[t] = A @ x[t - 1] + w[t]
    Y = [x[:, 2 * m : 2 * m + 2] @ C[m].T + rng.standard_normal((n_samples, 8)) for m in range(2)]
    return A, C, dict(zip(("one", "two"), Y, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 1.0, 5.0])
def test_the_first_papers_kind_of_record(shift):
    """Relative error of A21 at most 6 % in the mean of ten records, A12 at most 0.035."""
    errors, backwards = [], []
    for seed in range(10):
        A, C, X = paper_record(seed + 300, shift)
        clients = {name: KalmanClient(C=c) for name, c in zip(X, C, strict=True)}
        found = FederatedGrangerEstimator(clients).fit(X)
        errors.append(np.linalg.norm(found.transition_[2:, :2] - A[2:, :2]) / np.linalg.norm(A[2:, :2]))
        backwards.append(np.linalg.norm(found.transition_[:2, 2:]))
        assert found.server_.level_shifts_.unit.tolist() == ([] if shift == 0 else ["one"])
    assert np.mean(errors) <= 0.06
    assert np.mean(backwards) <= 0.035


def test_onsets_in_records_with_gaps_never_meet():
    """Two steps at the same row would be one regressor twice."""
    X, _ = shifted(missing=0.1)
    unit = records(X)[0]
    onset, _ = _by_likelihood(unit, AT + SHORTEST, [AT], unit.fit([AT, AT + SHORTEST]))
    assert onset - AT >= SHORTEST
    onset, _ = _by_likelihood(unit, AT - SHORTEST, [AT], unit.fit([AT - SHORTEST, AT]))
    assert AT - onset >= SHORTEST


# --- which rows count, with units that say what they would find -------------------------------------


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([[(100, 30.0)], [(125, 20.0)]], (100,)),  # within 25 rows units shift together
        ([[(100, 30.0)], [(126, 20.0)]], (100, 126)),
        ([[(100, 15.0)], [(125, 30.0)]], (100,)),  # at the earliest onset that is half as clear
        ([[(100, 14.9)], [(125, 30.0)]], (125,)),
        ([[(80, 29.0)], [(100, 30.0)], [(125, 31.0)]], (100,)),  # of what lies around the clearest
        ([[(300, 30.0), (500, 50.0)], []], (300, 500)),
        ([[], []], ()),
    ],
)
def test_units_that_shift_within_25_rows_shift_together_at_the_first_clear_onset(found, expected, monkeypatch):
    thresholds = []

    def onsets(unit, threshold):
        thresholds.append(threshold)
        return unit.found

    monkeypatch.setattr(level_shifts, "unit_onsets", onsets)
    monkeypatch.setattr(level_shifts, "_next_onsets", lambda *_: ([], None, 0.0))
    units = [SimpleNamespace(scores=np.zeros((1000, 2)), N=np.eye(2), found=each) for each in found]
    assert find_level_shifts(units, 7) == (expected, ())
    assert thresholds == [shift_threshold(1000, 7, 2)] * len(units)


def model(pole, value=0.0):
    """A fitted unit of one state and one input."""
    return SimpleNamespace(A=np.array([[[pole, 0.5]]]), Q=np.ones((1, 1, 1)), value=np.array([value]))


def supply(monkeypatch, pole, *steps):
    """Onsets that are found one after the other, the last ones again and again."""
    steps = list(steps)

    def following(unit, known, fit, threshold):
        more = steps.pop(0) if len(steps) > 1 else steps[0]
        return [row + len(known) for row in more], model(pole), 60.0

    monkeypatch.setattr(level_shifts, "_next_onsets", following)


def test_a_unit_shifts_five_times_at_most_and_two_at_once_share_their_ratio(monkeypatch):
    supply(monkeypatch, 0.5, [100])
    assert unit_onsets(SimpleNamespace(scores=np.zeros((1000, 1))), 10.0) == [(100 + k, 60.0) for k in range(5)]
    supply(monkeypatch, 0.5, [100, 200], [])
    assert unit_onsets(SimpleNamespace(scores=np.zeros((1000, 1))), 10.0) == [(100, 30.0), (200, 30.0)]
    supply(monkeypatch, 1.0, [])
    assert unit_onsets(SimpleNamespace(scores=np.zeros((1000, 1))), 10.0) == []


@pytest.mark.parametrize(("n_onsets", "least"), [(1, 40), (2, 60), (3, 80)])
def test_a_unit_that_may_be_a_random_walk_does_not_shift(n_onsets, least, monkeypatch):
    """Rows times the distance from a unit root, at least 40 with one step, half as much more for each further."""
    unit = SimpleNamespace(scores=np.zeros((1000, 1)))
    for slowness, kept in ((least + 0.1, n_onsets), (least - 0.1, 0)):
        supply(monkeypatch, 1 - slowness / 1000, [100 * k for k in range(n_onsets)], [])
        assert len(unit_onsets(unit, 10.0)) == kept


def test_a_hard_push_is_told_from_a_random_walk():
    """A unit with a memory of 100 of 5000 rows settles long after a push: the onset is not the best split."""
    rng = np.random.default_rng(4)
    x, w = np.zeros((5000, 1)), rng.standard_normal((5000, 1))
    w[2500:] += 2.0
    for t in range(1, 5000):
        x[t] = 0.99 * x[t - 1] + w[t]
    y = x + 0.5 * rng.standard_normal(x.shape)
    walk = w.cumsum(axis=0) - 2.0 * np.maximum(np.arange(5000) - 2499, 0)[:, None]
    found = []
    for scores in (y - y.mean(), walk - walk.mean()):
        unit = UnitRecord(scores, None, np.array([[0.25]]), np.zeros((5000, 0)), (0,), 5)
        found.append(unit_onsets(unit, shift_threshold(5000, 2, 1)))
    assert abs(found[0][0][0] - 2500) <= 5
    assert found[1] == []


class Splits:
    """A unit of 100 rows whose splits, likelihoods per row and misfit are given."""

    def __init__(self, splits, values, misfit=1.0, present=None):
        self.splits, self.values, self.fitted = list(splits), values, []
        self.scores, self.present, self.starts = np.zeros((100, 1)), present, (0,)
        self.misfit = lambda onsets, fit: misfit

    def best_split(self, onsets):
        return self.splits.pop(0)

    def fit(self, onsets):
        self.fitted.append(len(onsets))
        return model(0.5, self.values[len(onsets)])


@pytest.mark.parametrize(
    ("splits", "values", "misfit", "onsets", "ratio"),
    [
        ([(50, 5.0)], [0.0, 0.05], 1.0, [50], 10.0),  # twice a hundred rows times 0.05 is the threshold
        ([(50, 5.0), (60, 5.0)], [0.0, 0.0499, 0.0999], 1.0, [], 0.0),
        ([(50, 5.0), (60, 0.0)], [0.0, 0.0499, 0.1], 1.0, [50, 60], 20.0),  # two have to gain twice as much
        ([(50, 4.9), (60, 5.0)], [0.0, 9.0, 0.1], 1.0, [50, 60], 20.0),  # the first alone promised too little
        ([(50, 4.9), (60, 4.9)], [0.0, 9.0, 9.0], 1.0, [], 0.0),
        ([(50, 5.0)], [0.0, 0.1], 2.0, [50], 10.0),
        ([(50, 5.0), (None, 0.0)], [0.0, 0.1], 2.1, [], 0.0),
        ([(None, 0.0)], [0.0], 1.0, [], 0.0),
    ],
)
@pytest.mark.parametrize("present", [None, np.ones((100, 1))])
def test_one_more_onset_or_two_have_to_gain_the_threshold_each(
    splits, values, misfit, onsets, ratio, present, monkeypatch
):
    for name in ("_by_innovations", "_by_likelihood"):
        monkeypatch.setattr(level_shifts, name, lambda unit, onset, others, fit: (onset, fit))
    unit = Splits(splits, values, misfit, present)
    found, fit, gained = _next_onsets(unit, [], None, 10.0)
    assert found == onsets
    assert gained == pytest.approx(ratio)
    assert (fit is None) == (not unit.fitted)


@pytest.mark.parametrize(
    ("value", "pole", "n_moved"),
    [(0.05, 0.5, 3), (0.0499, 0.5, 1), (0.0, 0.7, 6)],  # twice a hundred rows; the last is slow
)
def test_two_onsets_are_moved_from_half_of_their_threshold_or_where_the_unit_is_slow(value, pole, n_moved, monkeypatch):
    moved = []
    monkeypatch.setattr(level_shifts, "_by_innovations", lambda unit, onset, *_: moved.append(onset) or (onset, _[-1]))
    unit = Splits([(50, 5.0), (60, 5.0)], [0.0, 0.0, value])
    unit.fit = lambda onsets: model(pole, unit.values[len(onsets)])
    assert _next_onsets(unit, [], None, 10.0)[0] == []
    assert len(moved) == n_moved


@pytest.mark.parametrize(
    ("drift", "others", "rises", "expected"),
    [(1, [], True, 53), (1, [], False, 50), (0, [], True, 50), (1, [70], True, 50), (1, [71], True, 51)],
)
def test_an_onset_moves_three_times_as_long_as_the_likelihood_rises_and_keeps_its_distance(
    drift, others, rises, expected
):
    unit = SimpleNamespace(
        moved=lambda onset, others: onset + drift,
        fit=lambda onsets: model(0.5, float(onsets[-1]) if rises else 50.0),
    )
    onset, fit = _by_innovations(unit, 50, others, model(0.5, 50.0))
    assert onset == expected
    assert fit.value[0] == expected


@pytest.mark.parametrize(("top", "expected"), [(57, 57), (44, 44), (5, 20), (95, 70), (50, 50)])
def test_with_gaps_an_onset_climbs_in_jumps_of_four_two_and_one_rows_within_its_stretch(top, expected):
    """The next step is at row 90, the record begins at 0: 20 rows from either."""
    unit = SimpleNamespace(
        starts=(0,), scores=np.zeros((200, 1)), fit=lambda onsets: model(0.5, -abs(float(onsets[-1]) - top))
    )
    onset, fit = _by_likelihood(unit, 50, [90], model(0.5, -abs(50.0 - top)))
    assert onset == expected
    assert fit.value[0] == -abs(expected - top)


def test_shifts_are_certain_where_one_unit_is_at_the_level_of_all_rows_and_units(monkeypatch):
    """A thousandth over 100 rows and 2 units is 5e-6."""
    shifted = np.array([True, True, True, False, True, True])
    p_value = np.array([6e-6, 5e-6, 6e-6, 0.0, 0.5, 1e-9])
    tests = SimpleNamespace(statistic=np.arange(6.0), p_value=p_value)
    monkeypatch.setattr(level_shifts, "link_estimates", lambda scoring, kind: tests)
    partition = Partition((1, 2), n_steps=3)
    structure = SimpleNamespace(partition=partition, shifted=shifted)
    levels, Q = np.array([[1.0, 2.0, 3.0], [1.0, 0.0, 2.0], [0.0, 1.0, 0.0]]), np.diag([4.0, 1.0, 1.0])
    scoring = SimpleNamespace(structure=structure, n_samples=100)
    shifts = LevelShifts.of(("a", "b"), (30, 10, 20), levels, Q, scoring)
    assert shifts.kept == (30, 20)
    assert shifts.table["start"].tolist() == [10, 20, 20, 30, 30]
    assert shifts.table["unit"].tolist() == ["a", "a", "b", "a", "b"]
    assert shifts.table["statistic"].tolist() == [2.0, 4.0, 5.0, 0.0, 1.0]
    np.testing.assert_allclose(shifts.table["size"], [1.0, 1.5, 2.0, 0.5, 1.0])


def test_misfit_is_the_power_of_innovations_at_low_frequencies_and_one_for_white_ones():
    """Innovations that alternate have none there; those that swing slowly have all of it at one frequency."""
    n, noise = 400, np.random.default_rng(0).normal(size=(400, 1))
    fit = model(0.5)
    for series, expected in ((noise, None), ((-1.0) ** np.arange(n)[:, None] + 1e-3 * noise, 1.0)):
        unit = UnitRecord(series, None, np.eye(1), np.zeros((n, 0)), (0,), 12)
        unit._innovations = lambda A, Q, onsets, u=series: (None, u)
        u = series - series.mean(axis=0)
        t = np.arange(n)
        power = [abs((u[:, 0] * np.exp(-2j * np.pi * k * t / n)).sum()) ** 2 / (u**2).sum() for k in range(1, 17)]
        # the mean of the logarithm of a unit exponential variable is minus Euler's constant
        formula = max(np.exp(np.mean(np.log(power)) + np.euler_gamma), 1.0)
        assert unit.misfit([], fit) == pytest.approx(formula if expected is None else expected, rel=1e-9)


def test_where_measurements_are_missing_the_model_is_trusted():
    unit = UnitRecord(
        np.zeros((100, 1)) + np.eye(100)[:, :1], np.ones((100, 1)), np.eye(1), np.zeros((100, 0)), (0,), 12
    )
    assert unit.misfit([], model(0.5)) == 1.0


@pytest.mark.parametrize(("length", "found"), [(2 * SHORTEST - 1, False), (2 * SHORTEST, True)])
def test_stretches_are_split_if_both_parts_are_long_enough(length, found):
    """Of the last stretch of a record, whose first one has no shift."""
    rng, n_rows = np.random.default_rng(0), 40 + length
    scores = 1e-3 * rng.normal(size=(n_rows, 1))
    scores[40 + SHORTEST :] += 1.0
    unit = UnitRecord(scores, None, np.eye(1), np.zeros((n_rows, 0)), (0, 40), 12)
    assert (unit.best_split([])[0] == 40 + SHORTEST) is found


@pytest.mark.parametrize("noise", [0.1, 4.0])
def test_ratio_of_a_split_is_that_of_scores_as_correlated_as_they_are(noise):
    """States ``x = 0.8 x + w`` have 25 times the variance of w in the long run, what is measured the noise as well."""
    rng, n_rows = np.random.default_rng(1), 20000
    x = np.zeros((n_rows, 1))
    for t in range(1, n_rows):
        x[t] = 0.8 * x[t - 1] + rng.normal()
    scores = remove_episode_means(x + np.sqrt(noise) * rng.normal(size=x.shape), (0,))
    unit = UnitRecord(scores, None, noise * np.eye(1), np.zeros((n_rows, 0)), (0,), 12)
    # moments of so many rows, whose error the gain of 5 makes several times larger
    assert unit._long_run_covariance([])[0, 0] == pytest.approx(25 + noise, rel=0.2)
    _, ratio = unit.best_split([])
    _, white = unit._split(0, n_rows)
    assert ratio == pytest.approx(white * scores.var() / (25 + noise), rel=0.25)


@pytest.mark.parametrize("p", [1, 3])
def test_a_misfit_is_the_power_of_innovations_at_the_sixteen_lowest_frequencies(p):
    """Their geometric mean over that of white noise, for means of p series ``exp(digamma(p)) / p``."""
    rng, n_rows = np.random.default_rng(0), 1000
    scores = remove_episode_means(np.cumsum(rng.normal(size=(n_rows, p)), axis=0), (0,))
    unit = UnitRecord(scores, None, np.eye(p), np.zeros((n_rows, 0)), (0,), 12)
    u = scores / scores.std(axis=0)
    unit._innovations = lambda A, Q, onsets: (None, u)
    cycles = np.exp(-2j * np.pi * np.outer(np.arange(1, 17), np.arange(n_rows)) / n_rows)
    power = (np.abs(cycles @ u) ** 2 / n_rows).mean(axis=1)
    expected = np.exp(np.log(power).mean()) * p / np.exp(special.digamma(p))
    assert unit.misfit([], unit.fit([])) == pytest.approx(expected)


def test_a_shift_that_units_alone_are_in_doubt_of_is_found_where_it_explains_links(monkeypatch):
    shifts = [{"unit": unit, "size": 0.5, "at": 1000, "until": 2000} for unit in (0, 1)]
    A = np.kron(np.diag([0.9, 0.5]), np.eye(2))
    X, _ = make_granger_plant(2, transition=A, n_samples=2000, random_state=102, level_shift=shifts)
    for doubtful, p_values in (((), (0.0, 1e-6)), ((1000,), (0.05, 1.0))):
        found = (), doubtful
        monkeypatch.setattr("skfedcausal.server.estimation.estimate.find_level_shifts", lambda *_, found=found: found)
        estimator = FederatedGrangerEstimator().fit(X)
        assert set(estimator.server_.level_shifts_["start"]) == set(doubtful)
        assert estimator.links_["p_adjusted"].between(*p_values).all()


def test_a_weak_shift_of_a_slow_unit_makes_no_link_back():
    A = np.kron(np.diag([0.99, 0.5]), np.eye(2))
    A[2:, :2] = 0.25
    shift = {"unit": "unit0", "size": 0.2, "at": 2500, "until": 5000}
    X, _ = make_granger_plant(2, transition=A, n_samples=5000, random_state=102, level_shift=[shift])
    verdicts = FederatedGrangerEstimator().fit(X).links_.set_index(["cause", "effect"])["verdict"]
    assert verdicts[("unit1", "unit0")] == "no influence"
    assert verdicts[("unit0", "unit1")] == "influence"


def test_two_onsets_of_one_shift_do_not_take_each_others_place():
    A = np.kron(np.diag([0.7, 0.5]), np.eye(2))
    A[2:, :2] = 0.25
    shift = {"unit": "unit0", "size": 0.2, "at": 2500, "until": 5000}
    X, _ = make_granger_plant(2, transition=A, n_samples=5000, random_state=7, level_shift=[shift])
    estimator = FederatedGrangerEstimator().fit(X)  # the units alone say 2404 and 2487
    assert set(estimator.server_.level_shifts_["unit"]) == {"unit0"}
    verdicts = estimator.links_.set_index("cause")["verdict"]
    assert verdicts["unit0"] == "influence"
    assert verdicts["unit1"] in ("no influence", "cannot tell")  # a shift bends what is learned of its unit


@pytest.mark.parametrize("seed", [1, 2])
def test_a_link_into_a_slow_unit_is_no_shift(seed):
    A = np.kron(np.diag([0.99, 0.5]), np.eye(2))
    A[2:, :2], A[:2, 2:] = 0.25, [[0.05, -0.05], [-0.03, 0.03]]
    X, _ = make_granger_plant(2, transition=A, n_samples=3000, random_state=seed)
    estimator = FederatedGrangerEstimator().fit(X)
    assert estimator.server_.level_shifts_.empty
    assert (estimator.links_["p_adjusted"] < 0.05).all()
