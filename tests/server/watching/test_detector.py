"""The server that names roots: what it learns, the evidence it forms, when it looks and what it decides."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from skfedcausal.server.joint import JointRecord
from skfedcausal.server.moments import MomentServer
from skfedcausal.server.watching.detector import RootCauseServer, StreamState, onset
from skfedcausal.server.watching.incidents import Incident
from skfedcausal.server.watching.learning import held_out_models, learned_by_regression
from skfedcausal.server.watching.monitor import MonitorState
from skfedcausal.server.watching.operating import Level, OperatingPoint
from skfedcausal.server.watching.posterior import Answer, together
from skfedcausal.server.watching.slow import SlowWatch
from skfedcausal.server.watching.thresholds import (
    AlarmLevels,
    NominalRows,
    OffSubspace,
    off_subspace,
    scale_dispersion,
    usual_windows,
)
from skfedcausal.statespace.detection.shift import ConditionalEnergy
from skfedcausal.statespace.kalman import filtered_states, predicted_states

from .._reference import coupled_plant
from ._rows import evidence

N_UNITS, SIZES = 3, np.array([2, 1, 2])


def messages_of(coupled, Y, seed, starts=(0,)):
    """Messages with off-subspace numbers of two degrees of freedom of the first unit, three of the last."""
    rng, messages = np.random.default_rng(seed), coupled.messages(Y, starts)
    for name, dof in (("unit0", 2), ("unit2", 3)):
        messages[name] = replace(messages[name], off_subspace=rng.chisquare(dof, len(Y)))
    return messages


@pytest.fixture(scope="module")
def plant():
    """A plant of three units, nominal messages of two episodes and the server's plant."""
    coupled = coupled_plant(3, SIZES, links=[(1, 0), (2, 1)], strength=0.5, radius=0.6)
    starts = (0, 500)
    messages = messages_of(coupled, coupled.simulate(1200, 1, starts), 0, starts)
    return coupled, messages, MomentServer().fit(messages)


def fitted(plant, statistic="both", run_length=200.0):
    _, messages, server = plant
    prior = np.array([0.5, 0.3, 0.2])
    watch = RootCauseServer(statistic, run_length, prior, np.random.RandomState(0), is_long=True)
    return watch.fit(server, messages)


@pytest.fixture(scope="module")
def detector(plant):
    return fitted(plant)


# --- learning -----------------------------------------------------------------------------------------


def test_nominal_surprises_have_as_many_degrees_of_freedom_as_states_and_numbers(plant, detector):
    """Their mean on new rows: P_m states of the unit, and the numbers it sends beside them."""
    coupled, _, _ = plant
    messages = messages_of(coupled, coupled.simulate(20_000, 7), 8)
    record = JointRecord.from_messages(messages)
    distance = off_subspace(messages, record)
    found, _ = detector.monitor.rows(record, distance, MonitorState())
    dof = np.array([2 + 2, 1, 2 + 3])
    assert_array_equal(detector.dims, dof)
    # 1200 nominal rows, and a hundredth more variance in every state
    assert_allclose(found.own[1:].mean(axis=0), dof, rtol=0.06)


def test_rows_of_evidence_are_surprises_over_their_nominal_means(plant, detector):
    """All that is learned, from the parts: held-out surprises, their levels, the numbers off the subspace."""
    coupled, messages, server = plant
    record = JointRecord.from_messages(messages)
    rng = np.random.RandomState(0)
    rows = NominalRows.of(server, messages, record, rng)
    learned = learned_by_regression(server, rows, detector.slices)
    monitor, own, given = learned.monitor, learned.own, learned.given
    dims = np.array([4.0, 1.0, 5.0])
    nominal = [np.log1p(a / dims) for a in own]
    level, usual = np.concatenate(nominal).mean(axis=0), np.concatenate(given).mean(axis=0)
    inside = [q - g for q, g in zip(given, rows.held_out(rows.distance), strict=True)]
    usual_inside = np.concatenate(inside).mean(axis=0)
    outside = OffSubspace(rows.x, rows.distance, detector.slices)
    z = rows.x @ detector.model.J
    filtered = filtered_states(detector.model.schedule, z, starts=rows.starts)
    predicted = predicted_states(detector.model.A, filtered, starts=rows.starts)
    models = list(held_out_models(rows, server.support_))
    levels = AlarmLevels(("energy", "shift"), detector.model, detector.slices).learn(
        detector.model.scaled(z, predicted),
        rows.starts,
        [s - level for s in nominal],
        [scaled @ detector.model.held for _, scaled, _ in models],
        400.0,  # half of the budget is for what lasts
    )
    slow = SlowWatch.learn(rows, detector.slices, 400.0)
    levels.take_in("slow", slow.threshold, slow.n_alarms, 1 / 200.0)
    assert detector.levels.thresholds == pytest.approx(levels.thresholds)
    assert detector.levels.false_alarms == levels.false_alarms

    Y = coupled.simulate(90, 5)
    Y[30:40, coupled.sensors[2]] = np.nan
    new = messages_of(coupled, Y, 6)
    record = JointRecord.from_messages(new)
    distance = off_subspace(new, record)
    found, _ = monitor.rows(record, distance, MonitorState())
    there = np.ones((90, 3), dtype=bool)
    there[30:40, 2] = False
    state = StreamState()
    state.point = detector.nominal_point
    evident = detector.evidence(new, state)
    assert (evident.first, evident.stop, state.position) == (0, 90, 90)
    surprise = np.where(there, np.log1p(found.own / dims) - level, 0.0)
    distance = np.where(there, distance, 0.0)
    assert_allclose(evident.scaled, found.scaled)
    assert_allclose(evident.predicted, found.predicted)
    assert_allclose(evident.surprise, surprise, atol=1e-12)
    assert_allclose(evident.given_others, np.log1p(found.given_others / usual))
    assert_allclose(evident.surplus, (found.given_others - distance) / usual_inside)
    assert_allclose(evident.outside, outside.relative(found.states, distance))
    assert_array_equal(evident.absent, ~there)
    expected, averages = levels.rows(surprise, found.scaled @ detector.model.held)
    assert_allclose(evident.levels[:, :2], expected, atol=1e-12)
    slow, rare, _ = slow.rows(found.states, distance, there, None)
    assert_allclose(evident.levels[:, 2], slow, atol=1e-12)
    assert_allclose(evident.rare, rare, atol=1e-12)
    assert_allclose(detector.relative_levels(new), levels.relative(evident.levels), atol=1e-12)
    for one, other in zip(state.averages, averages, strict=True):
        assert_allclose(one, other, atol=1e-12)


def test_nominal_windows_of_the_horizon_are_what_the_statistics_are_compared_with(plant, detector):
    _, messages, server = plant
    record = JointRecord.from_messages(messages)
    rows = NominalRows.of(server, messages, record, np.random.RandomState(0))
    given = learned_by_regression(server, rows, detector.slices).given
    distance = rows.held_out(rows.distance)
    inside = [q - g for q, g in zip(given, distance, strict=True)]
    usual = np.concatenate(inside).mean(axis=0)
    off = OffSubspace(rows.x, rows.distance, detector.slices)
    outside = [off.relative(x, g) for x, g in zip(rows.held_out(rows.x), distance, strict=True)]
    dims, beside = np.array([4.0, 1.0, 5.0]), np.array([2.0, 0.0, 3.0])
    both = [((dims - beside) * q / usual + beside * g) / dims for q, g in zip(inside, outside, strict=True)]
    models = list(held_out_models(rows, server.support_))
    rest, excess = usual_windows(
        [fold[:2] for fold in models], detector.slices, 80, detector.levels.shift_excess(200.0)
    )
    nominal = detector.posterior.nominal
    assert_array_equal(nominal.dims, dims)
    assert_array_equal(nominal.outside_dims, beside)
    assert (nominal.rest, nominal.shift) == pytest.approx((rest, excess))
    assert nominal.energy == pytest.approx(scale_dispersion(both, dims, 80))
    assert nominal.off_subspace == pytest.approx(scale_dispersion(outside, beside, 80))
    z = rows.x @ detector.model.J
    filtered = filtered_states(detector.model.schedule, z, starts=rows.starts)
    predicted = predicted_states(detector.model.A, filtered, starts=rows.starts)
    leverage = nominal.leverage @ nominal.leverage.T
    assert_allclose(leverage, np.linalg.inv(np.cov(predicted.T)), rtol=1e-5)
    assert nominal.n_rows == 1200
    assert detector.posterior.horizon == 80
    assert detector.posterior._process.n_rows == 181  # rows before an alarm, its own, those up to the horizon


def test_causes_are_the_links_of_the_plant(detector):
    assert detector._causes.tolist() == [
        [False, False, False],
        [True, False, False],
        [False, True, False],
    ]


# --- following ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("statistic", ["both", "energy", "shift"])
def test_faults_are_found_and_named_in_pieces_as_in_one(plant, statistic):
    coupled, _, _ = plant
    detector = fitted(plant, statistic)
    Y = coupled.simulate(400, 11)
    C, _ = coupled.own(1)
    Y[150:, coupled.sensors[1]] += 6 * C[:, 0]
    messages = messages_of(coupled, Y, 12)
    whole = detector.push(messages, StreamState())
    named = [v for v in whole if v.detected >= 145]
    assert named[0].probability.argmax() == 1
    assert abs(named[0].start - 150) <= 2
    state, found = StreamState(), {}
    for start, stop in ((0, 1), (1, 160), (160, 180), (180, 300), (300, 400)):
        part = messages_of(coupled, Y[start:stop], 0)
        for name, message in messages.items():
            if message.off_subspace is not None:
                part[name] = replace(part[name], off_subspace=message.off_subspace[start:stop])
        for verdict in detector.push(part, state):
            found[verdict.detected] = verdict
        assert state.position == stop
        assert state.rows is None or len(state.rows.scaled) <= 202  # none where the operating point changed
    assert list(found) == [v.detected for v in whole]
    for verdict in whole:
        other = found[verdict.detected]
        assert (verdict.start, verdict.last, verdict.open) == (other.start, other.last, other.open)
        assert_allclose(verdict.probability, other.probability, atol=1e-9)


# of a posterior: no readings have the other sign, and nominal windows vary as the plant lets them
NOTHING_ELSE = {
    "from_reversal": lambda rows, n_onsets: Answer("energy", -np.inf, np.array([1.0, 0.0, 0.0]), 0),
    "nominal": SimpleNamespace(is_moved_from_outside=False),
}


def hand_made(levels, statistics=("shift",), **series):
    """A detector that is pushed rows of evidence, whose posterior notes the windows it is asked about."""
    detector = RootCauseServer("both", 100.0, np.full(2, 0.5), None)
    detector.statistics = statistics
    detector.levels = SimpleNamespace(thresholds=dict.fromkeys(statistics, 1.0), relative=lambda rows: rows.max(axis=1))
    asked = []

    def from_shift(windows, n_onsets, at_once=0.0):
        asked.extend((window.first, window.first + n_onsets - 1, window.stop) for window in windows)
        return [Answer("shift", 50.0, np.array([0.1, 0.9]), w.first, 0.9, True) for w in windows]

    detector.posterior = SimpleNamespace(from_shift=from_shift, **NOTHING_ELSE)
    detector._causes, detector._level = np.zeros((2, 2), dtype=bool), np.zeros(2)
    whole = evidence(len(levels), 2, levels=np.asarray(levels)[:, None, None] * np.ones((1, len(statistics), 2)))
    detector.evidence = lambda messages, state: _next(whole._replace(**series), messages["both"], state)
    detector.slices, detector.dims, detector.state_dims = (slice(0, 1), slice(1, 2)), np.ones(2), np.ones(2)
    detector.outside_dims, detector.usual_distance = np.zeros(2), np.ones(2)
    energy = ConditionalEnergy(np.eye(1), (slice(0, 1),))
    detector.monitor = SimpleNamespace(energy=SimpleNamespace(given_root=np.zeros((1, 2))))
    detector.level = Level(energy, 1.0, 1000, 8, np.ones(1))
    detector.nominal_point = OperatingPoint.nominal(1, 2)
    return detector, asked


class Rows:
    """Stands for the message about rows of evidence made by hand."""

    def __init__(self, start, stop):
        self.bounds, self.z = (start, stop), range(start, stop)

    def rows(self, start, stop):
        return Rows(self.bounds[0] + start, self.bounds[0] + stop)


def _next(whole, message, state):
    state.position = message.bounds[1]
    return whole.between(*message.bounds)


def push(detector, bounds, state):
    return detector.push({"both": Rows(*bounds)}, state)


def pushed(detector, bounds):
    state, history = StreamState(), []
    for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
        verdicts = push(detector, (start, stop), state)
        history.append(([v.detected for v in verdicts], [i.detected for i in state.incidents]))
    return history, state


def alarms(n_rows, *rows):
    levels = np.full(n_rows, 0.5)
    levels[list(rows)] = 1.5
    return levels


def test_answers_are_revised_until_eighty_rows_after_the_alarm():
    """The last window ends with that row; a closed incident is kept as long as one may come, no longer."""
    detector, asked = hand_made(alarms(400, 120))
    history, _ = pushed(detector, (0, 150, 199, 200, 201, 202, 203))
    assert history == [
        ([120], [120]),
        ([120], [120]),
        ([120], [120]),  # row 200 is still to come
        ([120], []),  # it has come
        ([], []),
        ([], []),
    ]
    assert [stop for _, _, stop in asked if stop > 121] == [150, 199, 200, 201]
    assert {begin for begin, _, _ in asked} == {20}
    assert {last for _, last, _ in asked} == {120}


def test_incidents_that_go_on_are_kept_and_no_longer_revised():
    """Their rows of alarm go on, the answer is that of the horizon."""
    detector, asked = hand_made(alarms(400, *range(120, 260)))
    state = StreamState()
    push(detector, (0, 201), state)
    (before,) = state.incidents
    assert before.verdict.last == 200
    n_asked = len(asked)
    (verdict,) = push(detector, (201, 240), state)
    assert len(asked) == n_asked
    assert (verdict.last, verdict.open) == (239, True)
    (verdict,) = push(detector, (240, 300), state)
    assert (verdict.last, verdict.open) == (259, False)
    assert state.incidents == []
    assert len(asked) == n_asked


def test_an_alarm_of_the_last_row_asked_about_is_revised_with_the_next():
    """Eighty rows after the alarm, which the next batch begins with."""
    detector, asked = hand_made(alarms(400, *range(120, 260)))
    pushed(detector, (0, 200, 201))
    assert [stop for *_, stop in asked] == [200, 201]


def test_short_alarms_may_be_of_faults_that_have_ended():
    """Where the alarm lasted less than forty rows and is over; its loudest row is then the last one of the fault."""
    for n_alarms, windows in ((1, [181, 101]), (39, [181, 121]), (40, [181]), (90, [181])):
        levels = alarms(300, *range(100, 100 + n_alarms))
        levels[120] += 0.1
        detector, asked = hand_made(levels)
        pushed(detector, (0, 300))
        assert [stop for *_, stop in asked][-len(windows) :] == windows  # after looks on the way
    detector, asked = hand_made(alarms(120, *range(100, 120)))
    pushed(detector, (0, 120))
    assert [stop for *_, stop in asked] == [120]  # it goes on


def test_rows_before_an_alarm_are_looked_at_as_far_as_there_are():
    detector, asked = hand_made(alarms(300, 60, 240))
    pushed(detector, (0, 300))
    assert asked[0][:2] == (0, 60)
    assert asked[-1][:2] == (140, 240)
    detector, asked = hand_made(alarms(420, 400))
    pushed(detector, (0, 350, 399, 420))  # only the last 202 rows are kept
    assert asked[-1][:2] == (300, 400)


# --- naming the root ----------------------------------------------------------------------------------


class Deciding:
    """A detector of three units whose posterior answers by hand."""

    def __init__(self, energy=None, statistics=("energy", "shift"), causes=(), is_far=lambda rows: True, **told):
        detector = self.detector = RootCauseServer("both", 100.0, np.full(3, 1 / 3), None)
        detector.statistics = statistics
        thresholds = {"energy": 2.0, "shift": 3.0}
        limits = {name: thresholds[name] for name in statistics}
        relative = {"relative": lambda levels: (levels / np.array([*limits.values()])[:, None]).max(axis=1)}
        detector.levels = SimpleNamespace(thresholds=limits, **relative)
        detector.dims, detector.outside_dims = np.full(3, 6), np.full(3, 2)
        self.windows = []
        from_energy = {"from_energy": lambda rows: self._asked(rows, energy)}
        detector.posterior = SimpleNamespace(is_far=is_far, **from_energy, **NOTHING_ELSE | told)
        detector._causes = np.zeros((3, 3), dtype=bool)
        detector._level = np.zeros(3)
        for effect, cause in causes:
            detector._causes[effect, cause] = True

    def _asked(self, rows, answer):
        self.windows.append((rows.first, rows.stop))
        return replace(answer, start=rows.first)

    def verdict(self, rows, *answers, incident=None):
        return self.detector._verdict(incident or Incident(30, 34, 5.0), rows, list(answers))


def rows_around(**series):
    return evidence(40, 3, first=20, n_statistics=2, **series)


EXPLAINING = Answer("shift", 2.0, np.array([0.1, 0.85, 0.05]), 25, 0.9, True)
PARTIAL = Answer("shift", 2.0, np.array([0.1, 0.85, 0.05]), 25, 0.9, False)
ENERGY = Answer("energy", 9.0, np.array([0.7, 0.2, 0.1]), 0)


def test_a_fault_that_explains_everything_decides_without_the_energy():
    deciding = Deciding(ENERGY)
    verdict = deciding.verdict(rows_around(), EXPLAINING)
    assert (verdict.statistic, verdict.start, verdict.detected, verdict.last) == ("shift", 25, 30, 34)
    assert verdict.open
    assert_allclose(verdict.probability, EXPLAINING.probability * expit(2.0 + 2.0))
    assert deciding.windows == []


def test_otherwise_the_energy_statistic_is_asked_from_its_onset_on():
    """The lowest cumulative sum of the surprises of the unit with the highest level at the alarm."""
    surprise, levels = np.full((40, 3), -1.0), np.zeros((40, 2, 3))
    surprise[8:, 2] = 1.0
    levels[10, 0] = [1.0, 2.0, 5.0]  # at the alarm
    levels[9, 0, 0] = levels[11, 0, 1] = 9.0
    deciding = Deciding(ENERGY)
    verdict = deciding.verdict(rows_around(surprise=surprise, levels=levels), PARTIAL)
    assert deciding.windows == [(28, 60)]
    assert (verdict.statistic, verdict.start) == ("energy", 28)
    assert_allclose(verdict.probability, ENERGY.probability * expit(9.0 - np.log(40) + 2.0))


def test_readings_of_the_other_sign_decide_where_they_are_likelier_and_explain_everything():
    told = Answer("energy", 3.0, np.array([0.0, 0.1, 0.9]), 24, 1.0, True)
    deciding = Deciding(ENERGY, from_reversal=lambda rows, n_onsets: told)
    verdict = deciding.verdict(rows_around(), EXPLAINING)
    assert (verdict.start, verdict.kind, verdict.probability.argmax()) == (24, "undecided", 2)
    for other in (replace(told, evidence=1.0), replace(told, explains=False)):
        deciding = Deciding(ENERGY, from_reversal=lambda rows, n_onsets, other=other: other)
        assert deciding.verdict(rows_around(), EXPLAINING).probability.argmax() == 1


def test_a_root_is_no_surer_than_what_may_have_come_in_from_outside():
    outside = {"nominal": SimpleNamespace(is_moved_from_outside=True)}
    sure = replace(EXPLAINING, evidence=20.0, probability=np.array([0.01, 0.98, 0.01]))
    found = Deciding(ENERGY, **outside).verdict(rows_around(), sure).probability
    assert_allclose(found, 0.85 / 0.98 * sure.probability, rtol=1e-6)  # in the order that they had
    events = np.zeros((40, 3), dtype=np.uint8)
    events[10:, 0] = 2  # the unit says that its sensor is held
    verdict = Deciding(ENERGY, **outside).verdict(rows_around(events=events), EXPLAINING)
    assert verdict.kind == "sensor held"
    assert verdict.probability[0] > 0.97


def test_energy_alone_decides_where_no_shift_is_looked_for():
    deciding = Deciding(ENERGY, statistics=("energy",))
    verdict = deciding.verdict(evidence(40, 3, first=20), incident=Incident(30, 34, 5.0))
    assert verdict.statistic == "energy"


def test_shift_alone_is_not_followed_by_the_energy():
    deciding = Deciding(ENERGY, statistics=("shift",))
    assert deciding.verdict(evidence(40, 3, first=20), PARTIAL).statistic == "shift"
    assert deciding.windows == []


def test_units_absent_throughout_take_two_fifths_of_the_certainty_in_their_effects():
    """The largest share of rows, from the onset on, in which a cause of the root was absent."""
    absent = np.zeros((40, 3), dtype=bool)
    absent[:10, 0] = absent[30:, 0] = True  # of the 35 rows since the onset 5 + 10
    absent[30:, 2] = True
    rows = rows_around(absent=absent)
    for causes, factor in (((), 1.0), ([(1, 0)], 1 - 0.4 * 15 / 35), ([(1, 0), (1, 2)], 1 - 0.4 * 15 / 35)):
        found = Deciding(ENERGY, causes=causes).verdict(rows, EXPLAINING)
        assert_allclose(found.probability, EXPLAINING.probability * expit(2.0 + 2.0) * factor)
    found = Deciding(ENERGY, causes=[(0, 1), (1, 2)]).verdict(rows, EXPLAINING)
    assert_allclose(found.probability, EXPLAINING.probability * expit(2.0 + 2.0) * (1 - 0.4 * 10 / 35))


@pytest.mark.parametrize(
    ("share", "effects", "kind"),
    [
        (0.85, [(2, 1)], "sensor"),
        (0.81, [(2, 1)], "sensor"),
        (0.79, [(2, 1)], "undecided"),
        (0.85, [(1, 0)], "undecided"),
    ],
)
def test_kind_of_fault_is_said_of_sure_roots_that_act_on_others(share, effects, kind):
    answer = replace(EXPLAINING, evidence=60.0, probability=np.array([0.0, share, 1 - share]))
    assert Deciding(ENERGY, causes=effects).verdict(rows_around(), answer).kind == kind


def test_kind_of_fault_is_that_of_an_answer_with_the_same_root():
    sure = np.array([0.0, 1.0, 0.0])
    other = Answer("shift", 40.0, np.array([1.0, 0.0, 0.0]), 25, 0.05, True)
    mine = Answer("shift", 60.0, sure, 25, 0.95, True)
    deciding = Deciding(ENERGY, causes=[(2, 1), (2, 0)])
    assert deciding.verdict(rows_around(), other, mine).kind == "sensor"
    assert deciding.verdict(rows_around(), replace(mine, sensor=0.5), other).kind == "undecided"


def test_path_holds_the_first_row_above_the_threshold_of_the_statistic_that_decided():
    levels = np.zeros((40, 2, 3))
    levels[3, 1] = 9.0  # before the onset
    levels[[7, 9], 1, 0] = 3.1
    levels[5, 1, 2] = 3.1
    levels[6, 1, 1] = 3.0  # the threshold itself
    levels[5:, 0] = 9.0  # of the other statistic
    verdict = Deciding(ENERGY).verdict(rows_around(levels=levels), EXPLAINING)
    assert verdict.first_rows.tolist() == [27, -1, 25]


def units_in_alarm(n_rows, **first):
    """Levels of three units that are in alarm of either statistic from a row on, `unit0=3`, and their surpluses."""
    levels, surplus = np.zeros((n_rows, 2, 3)), np.ones((n_rows, 3))
    for unit, row in first.items():
        levels[row:, :, int(unit[-1])], surplus[row:, int(unit[-1])] = 9.0, 2.0
    return {"levels": levels, "surplus": surplus}


@pytest.mark.parametrize(
    ("answer", "first", "doubted"),
    [
        (PARTIAL, {"unit1": 8, "unit0": 7}, True),
        (PARTIAL, {"unit0": 7}, True),  # the root is never in alarm
        (PARTIAL, {"unit1": 8, "unit0": 8}, False),  # nor is another unit before it
        (replace(PARTIAL, probability=np.array([0.1, 0.85, 0.6])), {"unit1": 8}, True),  # two at once
        (replace(PARTIAL, probability=np.array([0.1, 0.85, 0.4])), {"unit1": 8}, False),
        (EXPLAINING, {"unit1": 8, "unit0": 7}, False),
    ],
)
def test_a_root_that_leaves_much_unexplained_is_doubted_after_others_or_beside_another(answer, first, doubted):
    found = Deciding(replace(ENERGY, evidence=0.0)).verdict(rows_around(**units_in_alarm(40, **first)), answer)
    usual = answer.probability * expit(2.0 + 2.0)
    assert (found.probability.argmax(), found.doubted) == (1, doubted)
    assert_allclose(found.probability[1], min(usual[1], 2 / 3) if doubted else usual[1])
    if doubted and "unit0" in first:
        assert_allclose(found.probability[0], usual[1] / 3)


def test_an_alarm_by_chance_of_a_unit_that_does_not_surprise_raises_no_doubt():
    series = units_in_alarm(40, unit0=7, unit1=8)
    series["surplus"][:, 0] = 1.0
    found = Deciding(replace(ENERGY, evidence=0.0)).verdict(rows_around(**series), PARTIAL)
    assert_allclose(found.probability, PARTIAL.probability * expit(2.0 + 2.0))


def test_onset_is_where_evidence_turns():
    evidence = np.array([-1.0, 0.5, -2.0, 1.0, 2.0, 3.0])
    assert onset(evidence, 0.2) == 3
    assert onset(np.array([0.1, 0.1, 5.0]), 0.2) == 2  # below the drift
    assert onset(np.array([0.3, 0.3, 5.0]), 0.2) == 0
    assert onset(np.array([0.3]), 0.2) == 0


# --- named windows ------------------------------------------------------------------------------------


class Attributing(Deciding):
    """The same for a window that the user names; evidence of an episode by hand."""

    def __init__(self, rows, shift, energy, changes=None, **settings):
        super().__init__(energy, **settings)
        changes = Answer("energy", -np.inf, np.full(3, 1 / 3), 0) if changes is None else changes
        self.shifts = []
        self.rows = rows
        self.detector.posterior.from_shift = lambda windows, n_onsets, at_once, **of: self._shifted(
            windows, n_onsets, at_once, shift
        )
        self.detector.posterior.of_any_size = lambda rows, statistics, at_once, level_rows: UNSEEN
        self.detector.posterior.from_changes = lambda rows: changes

    def named(self, start, stop):
        return self.detector._attributed(self.rows.between(start, stop))

    def _shifted(self, windows, n_onsets, at_once, answer):
        self.shifts += [(w.first, w.stop, n_onsets, at_once) for w in windows]
        return [answer for _ in windows]


UNSEEN = Answer("shift", -1.0, np.array([0.3, 0.2, 0.5]), 0)


def episode(**series):
    rng = np.random.default_rng(0)
    return evidence(50, 3, n_statistics=2, levels=rng.uniform(size=(50, 2, 3)), **series)


@pytest.mark.parametrize(
    ("shift", "energy", "name"),
    [
        (EXPLAINING, ENERGY, "shift"),
        (PARTIAL, ENERGY, "energy"),
        (PARTIAL, replace(ENERGY, evidence=1.0), "shift"),
        (replace(PARTIAL, evidence=-5.0), replace(ENERGY, evidence=0.0), "energy"),
    ],
)
def test_a_named_window_is_answered_by_the_statistic_that_decides(shift, energy, name):
    rows = episode()
    attributing = Attributing(rows, shift, energy)
    statistic, probability, score = attributing.named(10, 35)
    assert statistic == name
    assert_allclose(probability, with_none(shift if name == "shift" else energy))
    assert_allclose(score, rows.levels[10:35, ("energy", "shift").index(name)].max(axis=0))
    assert attributing.shifts == [(10, 35, 25, 0.99)]
    assert attributing.windows == ([] if shift is EXPLAINING else [(10, 35)])


def with_none(answer):
    """Probabilities next to no fault."""
    return answer.probability * expit(answer.evidence + 4.0)


def test_a_window_that_shows_nothing_is_of_a_fault_of_any_size():
    shift, energy = replace(PARTIAL, evidence=-5.0), replace(ENERGY, evidence=-0.1)
    statistic, probability, _ = Attributing(episode(), shift, energy).named(10, 35)
    assert statistic == "shift"
    assert_allclose(probability, with_none(UNSEEN))


@pytest.mark.parametrize(
    ("shift", "evidence", "among"),
    [
        (EXPLAINING, EXPLAINING.evidence - 1, [EXPLAINING]),  # needs no other explanation
        (EXPLAINING, EXPLAINING.evidence + 1, [EXPLAINING, None]),
        (PARTIAL, 3.0, [ENERGY, None]),
        (replace(PARTIAL, evidence=-5.0), -1.0, [UNSEEN, None]),
    ],
)
def test_changed_dynamics_are_weighed_against_what_else_a_window_may_show(shift, evidence, among):
    changes = Answer("energy", evidence, np.array([0.1, 0.1, 0.8]), 0)
    energy = ENERGY if shift is PARTIAL else replace(ENERGY, evidence=-0.1)
    _, probability, _ = Attributing(episode(), shift, energy, changes).named(10, 35)
    assert_allclose(probability, with_none(together([one or changes for one in among])))


def test_a_named_window_is_judged_by_what_is_known_of_its_level():
    asked = {}
    attributing = Attributing(episode(), replace(PARTIAL, evidence=-5.0), replace(ENERGY, evidence=-0.1))
    shifted = attributing.detector.posterior.from_shift
    attributing.detector.posterior.from_shift = lambda *args, **of: asked.update(of) or shifted(*args)
    attributing.detector._attributed(attributing.rows, level_rows=60)
    assert asked["level_rows"] == 60


def test_certainty_in_a_named_window_counts_the_rows_of_the_window():
    absent = np.zeros((50, 3), dtype=bool)
    absent[10:15, 0] = absent[40:, 0] = True
    attributing = Attributing(episode(absent=absent), EXPLAINING, ENERGY, causes=[(1, 0)])
    _, probability, _ = attributing.named(10, 35)
    assert_allclose(probability, with_none(EXPLAINING) * (1 - 0.4 * 5 / 25))


@pytest.mark.parametrize(
    ("answer", "far", "turned"), [(PARTIAL, True, True), (PARTIAL, False, False), (EXPLAINING, True, False)]
)
def test_a_named_window_is_of_the_disturbed_unit_that_was_in_alarm_first(answer, far, turned):
    """Unless a steady fault of another one explains everything, or the states are where the model is known."""
    rows = evidence(50, 3, n_statistics=2, **units_in_alarm(50, unit2=12, unit0=14, unit1=20))
    quiet = replace(ENERGY, evidence=0.0)
    _, probability, _ = Attributing(rows, answer, quiet, is_far=lambda rows: far).named(10, 35)
    expected = np.array([0.1, 0.25 * 0.85, 0.75 * 0.85]) if turned else answer.probability
    assert_allclose(probability, with_none(replace(answer, probability=expected)))


def test_who_was_in_alarm_first_does_not_matter_where_a_steady_fault_explains_everything():
    """Changed dynamics that explain it as well leave nothing unforeseen."""
    rows = evidence(50, 3, n_statistics=2, **units_in_alarm(50, unit2=12, unit0=14, unit1=20))
    changes = replace(EXPLAINING, statistic="energy", evidence=EXPLAINING.evidence + 1, explains=False)
    far = Attributing(rows, EXPLAINING, ENERGY, changes, is_far=lambda rows: True)
    assert_allclose(far.named(10, 35)[1], with_none(together([EXPLAINING, changes])))


@pytest.mark.parametrize("name", ["energy", "shift"])
def test_one_statistic_answers_alone(name):
    rows = evidence(50, 3, levels=np.ones((50, 1, 3)))
    attributing = Attributing(rows, PARTIAL, ENERGY, statistics=(name,))
    assert attributing.named(10, 35)[0] == name
    assert (attributing.shifts == []) == (name == "energy")
    assert (attributing.windows == []) == (name == "shift")
