"""What the holder of a site's key can learn by asking: the attack, and the policy that stops it."""

import numpy as np
import pytest

from skfedcausal import KalmanClient
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import Gate, SitePolicy
from skfedcausal.federation.envelope import Envelope
from skfedcausal.message import StateMessage
from skfedcausal.message.packet import Packet
from skfedcausal.message.requests import FitRequest, RecordRequest, WatchRequest
from skfedcausal.message.states import EffectReply, SmoothedReply, StateReply

pytestmark = pytest.mark.medium

KEY = b"k" * 32
X, _ = make_granger_plant(4, n_samples=500, random_state=0)
Y = X["unit1"]
T, D, P = *Y.shape, 2


class KeyHolder:
    """Somebody who has the key of a site and asks whatever is of use to learn its record."""

    def __init__(self, home, policy=None, max_bytes=None, monitor=False):
        worker = UnitWorker("unit1", Y, None, (0,), None, KalmanClient(), monitor=monitor)
        self.gate = Gate("unit1", worker, home, key=KEY, policy=policy, max_bytes=max_bytes)
        self.random, self.sequence, self.known = np.random.default_rng(0), {}, []

    def ask(self, message, run="march", round=1):
        """The packet that comes back; what a state message says is kept."""
        number = self.sequence[run] = self.sequence.get(run, 0) + 1
        frame = Envelope(run, "unit1", "down", number).seal(message.to_packet(round).encode(), KEY)
        answer = self.gate.answer(frame)
        if answer is None:
            return None
        packet = Packet.decode(Envelope(run, "unit1", "up", number).open(answer, KEY))
        if packet.op == "states":
            self.known.append(StateMessage.from_packet(packet).z)
        return packet

    def random_states(self):
        """States that make the site regress its sensors on noise: a new projection of the record."""
        return SmoothedReply(self.random.normal(size=(T, P)), 1e-6 * np.eye(P)[None])

    def attack(self, run="march", n_refined=6):
        """Everything that ever gave a new projection."""
        self.ask(FitRequest(), run)
        self.ask(StateReply(np.zeros((T, P)), np.eye(P), np.eye(P)), run)
        self.ask(RecordRequest(), run)
        for k in range(n_refined):
            self.ask(self.random_states(), run, 2 + k)
            self.ask(RecordRequest(), run, 2 + k)
        self.ask(FitRequest(), run, 20)
        return self

    @property
    def rank(self):
        """Number of projections of a row that are known."""
        known = np.hstack(self.known) - np.hstack(self.known).mean(axis=0)
        return np.linalg.matrix_rank(known / np.linalg.norm(known, 2), tol=1e-9)

    def error(self, n_known=14):
        """Largest error of the raw rows, in standard deviations, of somebody who knows the first few of them."""
        A = np.c_[np.hstack(self.known), np.ones(T)]
        guess = A @ np.linalg.lstsq(A[:n_known], Y[:n_known], rcond=1e-12)[0]
        return np.max(np.abs(guess - Y) / Y.std(axis=0))


def test_without_a_policy_the_raw_record_leaves(tmp_path):
    thief = KeyHolder(tmp_path, SitePolicy.unlimited()).attack()
    assert thief.rank == D
    assert thief.error() < 1e-8


def test_a_limit_of_bytes_per_run_is_no_help_where_the_server_names_the_runs(tmp_path):
    thief = KeyHolder(tmp_path, SitePolicy.unlimited(), max_bytes=30_000)
    for k in range(4):
        thief.ask(FitRequest(), f"run{k}")
        thief.ask(thief.random_states(), f"run{k}", 2)
    assert thief.error() < 1e-8


def test_by_default_the_holder_of_the_key_learns_what_one_fit_says(tmp_path):
    thief = KeyHolder(tmp_path)
    for run in ("march", "april", "march"):
        thief.attack(run)
    assert thief.rank == P == SitePolicy().worst_case(P, D).rank - 2  # sensors that nobody may name here
    assert thief.error() > 0.5


POLICIES = {
    "further rounds": SitePolicy(operations=("refine",), rounds=2),
    "many rounds": SitePolicy(operations=("refine",), rounds=4),
    "queries": SitePolicy(operations=("test_links",)),
    "queries and rounds": SitePolicy(operations=("score", "refine"), rounds=2),
    "two runs": SitePolicy(runs=("march", "april")),
    "all runs": SitePolicy(runs=("*",)),
    "rounds that nobody may ask for": SitePolicy(rounds=9),
    "any operation, once": SitePolicy(operations=("*",)),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())
@pytest.mark.parametrize("seed", range(3))
def test_nobody_learns_more_than_the_policy_states_in_whatever_order_it_asks(tmp_path, policy, seed):
    thief = KeyHolder(tmp_path, policy)
    thief.random, states = np.random.default_rng(seed), P
    thief.ask(FitRequest(), "march")
    for k in range(40):
        questions = (
            FitRequest(monitor=bool(k % 2)),
            RecordRequest(const=True),
            StateReply(thief.random.normal(size=(T, P)), np.eye(P), np.eye(P)),
            thief.random_states(),
        )
        run = ("march", "april", "may")[thief.random.integers(3)]
        packet = thief.ask(questions[thief.random.integers(4)], run, round=int(thief.random.integers(1, 4)))
        if packet is not None and packet.op == "states":
            states = max(states, packet.arrays["z"].shape[1])
    assert thief.rank <= policy.worst_case(states, D, monitored=True).rank


@pytest.mark.parametrize("policy", [SitePolicy(), SitePolicy(runs=("*",)), POLICIES["queries"]], ids=str)
@pytest.mark.parametrize("seed", [0, 3])
def test_nobody_learns_more_of_a_site_that_is_monitored(tmp_path, policy, seed):
    """Messages have other states with what monitoring needs than without: the key-holder asks for both."""
    policy = policy.and_watching()
    thief = KeyHolder(tmp_path, policy, monitor=True)
    thief.random, states = np.random.default_rng(seed), P
    for _ in range(40):
        questions = (
            FitRequest(monitor=True),
            FitRequest(),
            RecordRequest(const=True),
            StateReply(thief.random.normal(size=(T, P)), np.eye(P), np.eye(P)),
            WatchRequest(1),
        )
        run = ("march", "april", "may")[thief.random.integers(3)]
        packet = thief.ask(questions[thief.random.integers(5)], run)
        if packet is not None and packet.op == "states":
            states = max(states, packet.arrays["z"].shape[1])
    assert thief.known
    assert thief.rank <= policy.worst_case(states, D, monitored=True).rank


# --- what is said ---------------------------------------------------------------------------------


def test_a_refusal_names_the_site_the_rule_and_what_would_allow_it(tmp_path):
    thief = KeyHolder(tmp_path)
    thief.ask(FitRequest())
    refused = [
        thief.ask(thief.random_states(), round=2),
        thief.ask(FitRequest(), round=3),
        thief.ask(FitRequest(), "may"),
    ]
    assert [(one.op, one.scalars["kind"], one.scalars["detail"]) for one in refused] == [
        ("error", "policy", rule) for rule in ("operations", "rounds", "runs")
    ]
    lines = [entry for entry in thief.gate.ledger.entries() if entry["event"] == "refused"]
    assert [(line["op"], line["rule"]) for line in lines] == [
        ("refine", "operations"),
        ("fit", "rounds"),
        ("fit", "runs"),
    ]
    assert "'unit1' refused 'refine': `operations` of its [policy] does not name it" in lines[0]["reason"]
    assert thief.gate.ledger.entries()[0]["policy"] == "operations fit; 1 rounds; the first run"


def test_refusals_do_not_change_what_comes_after(tmp_path):
    """The question that was refused may be asked once the site allows it, and the run goes on."""
    thief = KeyHolder(tmp_path)
    thief.ask(FitRequest())
    thief.ask(thief.random_states(), round=2)
    again = KeyHolder(tmp_path, SitePolicy(operations=("refine",), rounds=2))
    again.sequence = dict(thief.sequence)
    assert again.ask(again.random_states(), round=2).op == "states"
    assert again.ask(again.random_states(), round=3).scalars["detail"] == "rounds"


@pytest.mark.parametrize(("rule", "least"), [("rows", T), ("states", P)])
def test_an_answer_about_too_much_does_not_leave(tmp_path, rule, least):
    refused = KeyHolder(tmp_path / "a", SitePolicy(**{rule: least - 1})).ask(FitRequest())
    assert refused.scalars == {"kind": "policy", "detail": rule}
    assert KeyHolder(tmp_path / "b", SitePolicy(**{rule: least})).ask(FitRequest()).op == "states"


def test_what_only_tells_the_site_something_is_taken_and_says_nothing(tmp_path):
    thief = KeyHolder(tmp_path)
    thief.ask(FitRequest())
    kept = EffectReply(np.ones((3, P)), keep=True)
    assert thief.ask(kept).op == "done"
    assert thief.ask(EffectReply(np.ones((3, P)))).scalars["detail"] == "operations"


def test_total_bytes_are_those_of_all_runs_and_of_all_processes(tmp_path):
    policy = SitePolicy(runs=("*",), total_bytes=20_000)
    for k in range(5):
        thief = KeyHolder(tmp_path, policy)
        thief.ask(FitRequest(), f"run{k}")
    assert 15_000 < thief.gate.ledger.verify()["bytes_up"] <= 20_000
    assert not thief.known


def test_constants_of_the_likelihood_are_a_question_of_their_own(tmp_path):
    asked = KeyHolder(tmp_path / "a").ask(FitRequest(const=True))
    assert asked.scalars == {"kind": "policy", "detail": "operations"}
    assert KeyHolder(tmp_path / "b", SitePolicy(operations=("score",))).ask(FitRequest(const=True)).op == "states"


@pytest.mark.parametrize(
    "wrong",
    [
        {"operations": ("refnie",)},
        {"operations": "refine"},
        {"rounds": 0},
        {"rounds": True},
        {"total_bytes": -1},
        {"states": 1.5},
        {"runs": (1,)},
    ],
    ids=str,
)
def test_a_policy_that_cannot_be_meant_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SitePolicy(**wrong)


@pytest.mark.parametrize(
    ("policy", "monitored", "rank", "exact"),
    [
        (SitePolicy(), False, 4, False),
        (SitePolicy(), True, 4, False),
        (SitePolicy(operations=("refine",), rounds=3), False, 8, True),
        (SitePolicy(operations=("refine",), rounds=4), False, 8, True),
        (SitePolicy(operations=("test_links",)), False, 6, True),
        (SitePolicy(operations=("whatif",)), False, 8, True),
        (SitePolicy(operations=("counterfactual",)), False, 4, False),
        (SitePolicy(operations=("impact",)), False, 8, True),  # its table holds the record
        (SitePolicy(operations=("changed_links", "reach", "partial_fit")), False, 6, True),
        (SitePolicy(runs=("*",)), False, 2, False),
        (SitePolicy(runs=("*",)), True, 4, False),
        (SitePolicy(operations=("train",), rounds=100), False, 8, True),
        (SitePolicy.unlimited(), False, 8, True),
    ],
)
def test_the_worst_case_counts_projections(policy, monitored, rank, exact):
    worst = policy.worst_case(P, D, monitored=monitored)
    assert (worst.rank, worst.exact) == (rank, exact)
    assert ("EXACT" in worst.in_words()) is exact


def states_of_two_sensors(tmp_path, n_sensors=2, **policy):
    """The answer of a unit with two states and two sensors to a fit, and its gate."""
    worker = UnitWorker("unit1", Y[:, :2], None, (0,), None, KalmanClient(n_states=2))
    gate = Gate("unit1", worker, tmp_path, key=KEY, policy=SitePolicy(**policy), n_sensors=n_sensors)
    frame = Envelope("march", "unit1", "down", 1).seal(FitRequest().to_packet(1).encode(), KEY)
    return Packet.decode(Envelope("march", "unit1", "up", 1).open(gate.answer(frame), KEY)), gate


def test_states_that_tell_every_sensor_leave_only_where_the_policy_allows_it(tmp_path):
    refused, gate = states_of_two_sensors(tmp_path / "refused")
    assert (refused.op, refused.scalars["kind"], refused.scalars["detail"]) == ("error", "policy", "allow_exact")
    assert "`allow_exact = true` in its [policy]" in gate.ledger.entries()[-2]["reason"]
    assert max(entry["n_bytes"] for entry in gate.ledger.entries() if entry["event"] == "sent") < 1000
    sent = {"allowed": {"allow_exact": True}, "noised": {"n_sensors": 0}, "of three": {"n_sensors": 3}}
    for home, how in sent.items():
        assert states_of_two_sensors(tmp_path / home, **how)[0].op == "states"


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_allow_exact_is_true_or_false(value):
    with pytest.raises(ValueError, match="give true or false"):
        SitePolicy(allow_exact=value)
