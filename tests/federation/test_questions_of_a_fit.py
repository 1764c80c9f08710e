"""Whoever holds a site's key asks all that its policy answers: what comes back is no more than the plan says."""

import numpy as np
import pandas as pd
import pytest

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedRCADetector,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
)
from skfedcausal.client.site_record import n_moving
from skfedcausal.client.worker import UnitWorker
from skfedcausal.federation import Gate, InProcessTransport, Packet, SitePolicy
from skfedcausal.federation.envelope import Envelope
from skfedcausal.message import StateMessage
from skfedcausal.message.clock import Clock
from skfedcausal.message.requests import Close, CommonRows, FitRequest, LawRequest, SensorsAsStates, VerdictReply
from skfedcausal.message.states import SensorStates, StateReply

T, D, P, Q = 60, 5, 2, 1
KEY, START = b"k" * 32, 1.7e9
RANDOM = np.random.default_rng(0)
C = RANDOM.normal(size=(D, P))
U = RANDOM.normal(size=(T, Q))
Y = RANDOM.normal(size=(T, D)) + RANDOM.normal(size=(T, P)) @ C.T
CLIENT = KalmanClient(A=0.5 * np.eye(P), B=np.ones((P, Q)), C=C, Q=np.eye(P), R=np.eye(D))
WITHOUT_INPUTS = KalmanClient(A=0.5 * np.eye(P), C=C, Q=np.eye(P), R=np.eye(D))
HIDDEN = np.linalg.svd(C.T)[2][P:]  # directions of a row that states of a given model do not show


def unit(record, inputs=U):
    index = pd.date_range(pd.Timestamp(START, unit="s", tz="UTC"), periods=len(record), freq="s")
    clock, client = Clock.of_index(index, (len(record),)), WITHOUT_INPUTS if inputs is None else CLIENT
    return UnitWorker("boiler", record, inputs, (0,), None, client, clock=clock, monitor=False)


def first(n):
    return CommonRows(np.array([1.0, 1.0, START]), (n,))


QUESTIONS = {  # the k-th of every operation that the policy of a site lets be asked if its settings say nothing
    "fit": lambda k: FitRequest(
        local_model=bool(k % 2), refine=bool(k % 3), own_past=bool(k % 4), sharp=True, sketch=True
    ),
    "rows": lambda k: first(T - 1 - k),
    "reply": lambda k: StateReply(np.random.default_rng(k).normal(size=(T - k % 2, P)), np.eye(P), np.eye(P)),
    "sensors": lambda k: SensorsAsStates(np.array([k % D])),
    "ask law": lambda k: LawRequest(),
    "verdict": lambda k: VerdictReply([], []),
    "close": lambda k: Close(),
}


class KeyHolder:
    """Asks in one run, and keeps what was answered and the packets that it was answered to."""

    def __init__(self, home, policy=None, inputs=U):
        self.inputs, self.answered, self.came, self._number = inputs, [], [], 0
        self.gate = Gate("boiler", unit(Y, inputs), home, key=KEY, policy=policy)

    def ask(self, message):
        self._number += 1
        question = message.to_packet(1)
        frame = self.gate.answer(Envelope("march", "boiler", "down", self._number).seal(question.encode(), KEY))
        answer = Packet.decode(Envelope("march", "boiler", "up", self._number).open(frame, KEY))
        if answer.op != "error":
            self.answered.append(self.gate.policy.narrowed(question))
            self.came.append(answer)
        return answer

    def walk(self, order, times):
        for k in range(times):
            for op in order:
                self.ask(QUESTIONS[op](k))
        return self

    @property
    def projections(self):
        """Rank of the states that came, row beside row."""
        z = [StateMessage.from_packet(packet).z for packet in self.came if packet.op == "states"]
        return np.linalg.matrix_rank(np.hstack(z), tol=1e-9) if z else 0

    def hidden_numbers(self):
        """Rank of all that came as a function of what the states do not show, by differences of every fourth row."""
        step = 1e-5
        moves = [(t, step * direction) for t in range(0, T, 4) for direction in HIDDEN]
        columns = [(self._told(t, move) - self._told(t, -move)) / (2 * step) for t, move in moves]
        return np.linalg.matrix_rank(np.array(columns), tol=1e-7)

    def _told(self, t, move):
        record, state, told = Y.copy(), {}, []
        record[t] += move
        worker = unit(record, self.inputs)
        for question in self.answered:
            if question.op != "close":
                answer, state = worker.handle(question, state)
                told += [np.ravel(array).astype(float) for array in answer.arrays.values()]
        return np.concatenate(told)


@pytest.mark.parametrize("inputs", [U, None], ids=["inputs", "no inputs"])
@pytest.mark.parametrize("seed", range(2))
def test_every_operation_that_a_site_answers_by_default_tells_no_more_than_the_plan(tmp_path, inputs, seed):
    order = np.random.default_rng(seed).permutation(sorted(SitePolicy().allowed))  # a new one needs a question here
    thief = KeyHolder(tmp_path, inputs=inputs)
    thief.ask(FitRequest())
    thief.walk(order, 12)
    worst = SitePolicy().worst_case(P, D, n_inputs=0 if inputs is None else Q)
    assert ("law" in [packet.op for packet in thief.came]) is (inputs is not None)
    assert "reply" in [question.op for question in thief.answered]
    assert thief.projections <= P
    assert worst.rank == P + 2  # though a unit of given loadings makes no sensor a state
    assert thief.hidden_numbers() <= worst.numbers == (0 if inputs is None else Q * (2 * P + Q))
    assert not worst.exact


def site_of(n_tags, seed, n_samples=900):
    """A site of tags with a memory, a constant, a twin and a sum of two others among them where there are so many."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n_samples, n_tags)) + random.normal(size=(n_samples, 2)) @ random.normal(
        size=(2, n_tags)
    )
    rows[2:] += 0.6 * rows[:-2]
    if n_tags > 4:
        rows[:, 1], rows[:, 2], rows[:, 3] = 7.0, 3 * rows[:, 0] + 1, rows[:, 0] - 2 * rows[:, 4]
    return rows


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("n_tags", "seed"), list(zip((1, 2, 3, 4, 5, 7, 8, 12, 18, 30), range(10), strict=True)))
def test_what_leaves_a_site_has_the_rank_that_the_plan_says(tmp_path, n_tags, seed):
    record = site_of(n_tags, seed)
    thief = KeyHolder(tmp_path, inputs=None)
    thief.gate.worker = UnitWorker("boiler", record, None, (0,), None, KalmanClient())
    thief.ask(FitRequest(own_past=True, sharp=True, sketch=True))
    for _ in range(2):
        for sensors in ([0], [1], [0, 2], [3]):
            thief.ask(SensorsAsStates(np.array(sensors)))
        thief.ask(FitRequest(refine=True))
    states = StateMessage.from_packet(thief.came[0])
    told = [states.z] + [SensorStates.from_packet(one).sensors for one in thief.came if one.op == "sensor states"]
    left = np.hstack(told) - np.hstack(told).mean(axis=0)
    moving = n_moving(record)
    assert moving == n_tags - 3 * (n_tags > 4)
    worst = SitePolicy().worst_case(states.z.shape[1], moving)
    assert np.linalg.matrix_rank(left / left.std(axis=0), tol=1e-6 * np.sqrt(left.size)) <= worst.rank
    assert worst.exact == (states.z.shape[1] >= moving)
    assert states.sketch is None or worst.exact or len(states.sketch) <= worst.sums


def test_laws_of_one_prefix_after_the_other_tell_of_row_after_row(tmp_path):
    """What the limits are for: where the settings lift them, the same questions give numbers without end."""
    policy = SitePolicy(operations=("rows", "ask law"))
    thief = KeyHolder(tmp_path, policy)
    thief.ask(FitRequest())
    thief.walk(("rows", "ask law"), 8)
    assert thief.hidden_numbers() == 8 * Q * (2 * P + Q)
    worst = policy.worst_case(P, D, n_inputs=Q)
    assert (worst.numbers, worst.exact) == (None, True)
    assert "EXACT" in worst.in_words()


def detail(packet):
    return packet.scalars.get("detail", packet.op)


def test_rows_are_left_out_once_and_before_all_else(tmp_path):
    thief = KeyHolder(tmp_path / "a")
    asked = [thief.ask(one) for one in (FitRequest(), first(50), first(49), LawRequest(), LawRequest(), first(48))]
    assert [detail(one) for one in asked] == ["states", "done", "once", "law", "once", "once"]
    late = KeyHolder(tmp_path / "b")
    assert [detail(late.ask(one)) for one in (FitRequest(), LawRequest(), first(50))] == ["states", "law", "once"]
    reason = next(entry for entry in late.gate.ledger.entries() if entry["event"] == "refused")["reason"]
    assert '"rows" in `operations`' in reason


@pytest.mark.parametrize(("n", "comes"), [(30, "law"), (29, "once")])
def test_a_law_is_about_most_rows(tmp_path, n, comes):
    thief = KeyHolder(tmp_path)
    assert [detail(thief.ask(one)) for one in (FitRequest(), first(n), LawRequest())] == ["states", "done", comes]


def test_a_law_is_told_once_in_a_run_of_several_fits(tmp_path):
    policy = SitePolicy(runs=("march",), rounds=3)
    thief = KeyHolder(tmp_path, policy)
    assert [detail(thief.ask(one)) for one in 2 * (FitRequest(), LawRequest())] == ["states", "law", "states", "once"]
    assert policy.worst_case(P, D, n_inputs=Q).numbers == Q * (2 * P + Q)


def test_a_long_record_may_be_cut_to_the_rows_of_short_ones(tmp_path):
    """A year beside units of a month: fewer than half of the rows, and many for each number of the law."""
    record = np.tile(Y, (20, 1))
    server = KeyHolder(tmp_path)
    server.gate.worker = unit(record, np.tile(U, (20, 1)))
    assert [detail(server.ask(one)) for one in (FitRequest(), first(250), LawRequest())] == ["states", "done", "law"]


def test_a_gate_that_starts_again_has_counted_on(tmp_path):
    thief = KeyHolder(tmp_path)
    for one in (FitRequest(), first(50), LawRequest()):
        thief.ask(one)
    thief.gate = Gate("boiler", unit(Y), tmp_path, key=KEY)
    assert [detail(thief.ask(one)) for one in (first(40), LawRequest())] == ["once", "once"]


class Behind:
    """A unit behind the gate of its site, for a server in this process."""

    def __init__(self, worker, home):
        self.worker, self.asked = worker, 0
        policy = SitePolicy().and_watching()
        self.gate = Gate(worker.name, worker, home, key=KEY, policy=policy)

    @property
    def n_columns(self):
        return self.worker.n_columns

    def handle(self, packet, state):
        self.asked += 1
        name, asked = self.worker.name, self.asked
        frame = self.gate.answer(Envelope("march", name, "down", asked).seal(packet.encode(), KEY))
        return Packet.decode(Envelope("march", name, "up", asked).open(frame, KEY)), state


def controlled(seed, n_samples=800):
    """Measurements of a unit and its input, which a controller moves by them."""
    random = np.random.default_rng(seed)
    state, u, rows, inputs = 0.0, 0.0, [], []
    for _ in range(n_samples):
        state = 0.7 * state + 0.5 * u + 0.3 * random.normal()
        rows.append(state + 0.2 * random.normal(size=3))
        u = 0.3 * u - 0.4 * rows[-1].mean() + 0.2 * random.normal()
        inputs.append([u])
    return np.array(rows), np.array(inputs)


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore::UserWarning")  # what is learned in so little time is not the point
@pytest.mark.parametrize("kind", [FederatedCounterfactualEstimator, FederatedRCADetector])
def test_units_with_inputs_of_which_one_begins_late_are_fitted_as_without_a_policy(tmp_path, kind):
    records = {name: controlled(seed) for seed, name in enumerate(("boiler", "mill"))}

    def fitted(through):
        units = {}
        for (name, (own, u)), late in zip(records.items(), (0, 200), strict=True):
            index = pd.date_range("2026-03-01", periods=len(u), freq="10s", tz="UTC")[late:]
            about = {"clock": Clock.of_index(index, (len(index),)), "index": index}
            units[name] = through(UnitWorker(name, own[late:], u[late:], (0,), None, KalmanClient(), **about))
        estimator = kind(server=LikelihoodServer(max_time=0.5, options=LikelihoodOptions(n_rounds=1))).fit_sites(
            InProcessTransport(units)
        )
        return estimator, [entry.op for entry in estimator.ledger_.entries if entry.direction == "down"]

    (gated, asked), (free, _) = fitted(lambda worker: Behind(worker, tmp_path / worker.name)), fitted(lambda one: one)
    assert {"rows", "ask law"} <= set(asked)
    assert set(gated.server_.laws_) == set(records)
    for name, law in free.server_.laws_.items():
        np.testing.assert_array_equal(gated.server_.laws_[name].present, law.present)


def test_rows_that_are_named_twice_are_those_of_the_whole_record():
    """Positions of a second choice are not those within the first one."""
    worker = unit(Y)
    _, state = worker.handle(FitRequest().to_packet(1), {})

    def states_of(begin, n, state):
        chosen = CommonRows(np.array([1.0, 1.0, START + begin]), (n,)).to_packet(1)
        state = worker.handle(chosen, state)[1]
        message = worker.handle(Packet("message", 1), state)[0]
        return StateMessage.from_packet(message).z, state

    once, _ = states_of(30, 10, state)
    _, cut = states_of(20, 40, state)
    twice, _ = states_of(30, 10, cut)
    np.testing.assert_array_equal(twice, once)
