"""What the holder of a site's key can learn by asking: the attack, and the policy that stops it."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skfedcausal import KalmanClient
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import Gate, SitePolicy
from skfedcausal.federation.envelope import Envelope
from skfedcausal.message import FitRequest, RecordRequest, SmoothedReply, StateMessage, StateReply
from skfedcausal.message.packet import Packet

KEY = b"k" * 32
X, _ = make_granger_plant(4, n_samples=500, random_state=0)
Y = X["unit1"]
T, D, P = *Y.shape, 2


class KeyHolder:
    """Somebody who has the key of a site and asks whatever is of use to learn its record."""

    def __init__(self, home, policy=None, max_bytes=None):
        worker = UnitWorker("unit1", Y, None, (0,), None, KalmanClient())
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
        for share in (0.0, 0.3, 0.7, 1.0):  # another weight of every sensor
            unknown = np.zeros((T, P)), np.eye(P), np.eye(P)
            self.ask(StateReply(*unknown, noise_share=np.array([share])), run)
            self.ask(RecordRequest(), run)
        for k in range(n_refined):
            self.ask(self.random_states(), run, 2 + k)
            self.ask(RecordRequest(), run, 2 + k)
        self.ask(FitRequest(), run, 20)
        return self

    @property
    def rank(self):
        """Number of projections of a row that are known."""
        return np.linalg.matrix_rank(np.hstack(self.known) - np.hstack(self.known).mean(axis=0), rtol=1e-9)

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
    for k in range(12):
        thief.attack(f"run{k}", n_refined=2)
    assert thief.error() < 1e-8


def test_by_default_the_holder_of_the_key_learns_what_one_fit_says(tmp_path):
    thief = KeyHolder(tmp_path)
    for run in ("march", "april", "march"):
        thief.attack(run)
    assert thief.rank == P == SitePolicy().worst_case(P, D).rank
    assert thief.error() > 0.5
