"""Noise drawn at the site: nothing raw is left behind it, and every release is charged exactly once."""

import json
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import (
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GradientServer,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
    inspection,
)
from skfedcausal.__main__ import main
from skfedcausal.client.site_record import SiteRecord
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import (
    ClientError,
    FileSite,
    FileTransport,
    InProcessTransport,
    LedgerError,
    Packet,
)
from skfedcausal.federation.atomic import Chain, read_ledger
from skfedcausal.federation.files import FramedTransport
from skfedcausal.federation.ledger import repair_ledger
from skfedcausal.message.packet import PacketError
from skfedcausal.message.requests import FitRequest, PrivacyPromise
from skfedcausal.papers import StopRule
from skfedcausal.privacy import PrivacyBudgetError, SiteAccount, epsilon_from_mu, mu_from_epsilon
from skfedcausal.sites.settings import SettingsError
from skfedcausal.sites.site import read_site_settings

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::skfedcausal.privacy.{name}")
    for name in ("UtilityWarning", "WeakPrivacyWarning")
]
UNITS = ("mill", "kiln")
KEYS = {name: bytes([k + 1]) * 32 for k, name in enumerate(UNITS)}
N = 600
PRIVACY = {
    "mechanism": "gaussian",
    "epsilon": 4.0,
    "delta": 1e-6,
    "clip_norm": 25.0,
    "event_radius": 3.0,
    "unit": "event",
    "budget": 9.0,
}


@pytest.fixture
def plant(tmp_path):
    X, _ = make_granger_plant(2, names=UNITS, n_samples=N, n_sensors=6, links=[(0, 1)], random_state=0)
    for name in UNITS:
        np.save(tmp_path / f"{name}.npy", X[name])
        (tmp_path / f"{name}.key").write_text(KEYS[name].hex())
        write(tmp_path, name)
    return tmp_path


def write(folder, name, more="", client="n_states = 2", **privacy):
    table = "\n".join(f"{key} = {json.dumps(value)}" for key, value in (PRIVACY | privacy).items())
    (folder / f"{name}.toml").write_text(
        f'[site]\nname = "{name}"\ndata = "{name}.npy"\nkey = "{name}.key"\nfolder = "exchange"\n{more}\n'
        f"[client]\n{client}\n[privacy]\n{table}\n"
        '[policy]\noperations = ["refine", "train"]\nrounds = 100\n'
    )


def settings_of(folder, name):
    return read_site_settings(folder / f"{name}.toml")


def open_gate(folder, name, key=True):
    return settings_of(folder, name).gate(key=KEYS[name] if key else None)


def poison(folder, name):
    """Overwrite the raw record where it lies: whoever still has it mapped reads NaN from now on."""
    np.load(folder / f"{name}.npy", mmap_mode="r+")[:] = np.nan


def noised(folder, name):
    (path,) = (folder / f"home-{name}" / "privacy").glob("*.npy")
    return np.load(path)


def account(folder, name="mill"):
    return SiteAccount(folder / f"home-{name}" / "privacy", PRIVACY["budget"], PRIVACY["delta"])


class FramesInMemory(FramedTransport):
    """Envelopes handed to gates in this process, as an engine does."""

    def __init__(self, gates, run="march"):
        super().__init__(list(gates), run)
        self.gates = gates

    def _carry(self, frames, timeout):
        return {name: self.gates[name].answer(frame) for name, frame in frames.items()}


def over_files(folder, gates):
    for gate in gates.values():
        threading.Thread(target=FileSite(gate, folder / "exchange").serve, daemon=True).start()
    return FileTransport(folder / "exchange", UNITS, "march", KEYS, timeout=60.0)


def over_frames(folder, gates):
    return FramesInMemory(gates)


# --- nothing raw passes -----------------------------------------------------------------------------

LEARNERS = {
    "likelihood": lambda: FederatedGrangerEstimator(),
    "two rounds": lambda: FederatedGrangerEstimator(server=LikelihoodServer(options=LikelihoodOptions(n_rounds=2))),
    "gradient": lambda: FederatedGrangerEstimator(server=GradientServer(stop=StopRule(max_iter=5, tol=0.0))),
    "moments": lambda: FederatedGrangerEstimator(
        server=GradientServer(exchange="moments", stop=StopRule(max_iter=5, tol=0.0))
    ),
    "detector": lambda: FederatedRCADetector(false_alarm_rate=0.05),
}


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("carry", [over_files, over_frames])
@pytest.mark.parametrize("learner", LEARNERS)
def test_nothing_after_the_release_needs_the_raw_record(plant, learner, carry):
    for name in UNITS:
        write(plant, name, "watch = true" if learner == "detector" else "")
    gates = {name: open_gate(plant, name, carry is over_files) for name in UNITS}
    for name in UNITS:
        poison(plant, name)
    transport = carry(plant, gates)
    estimator = LEARNERS[learner]().fit_sites(transport)
    transport.close()
    assert np.isfinite(estimator.transition_).all()
    workers = {}
    for name in UNITS:  # workers that were only ever given what was released
        own = settings_of(plant, name)
        Y = noised(plant, name)
        record = SiteRecord(Y, None, (len(Y),), (), "")
        workers[name] = own.worker(record, np.diag(estimator.noise_covariance_[name]))
    expected = LEARNERS[learner]().fit_sites(InProcessTransport(workers))
    assert_array_equal(estimator.transition_, expected.transition_)


def test_the_server_is_told_the_noise_and_the_ledger_says_so(plant):
    gates = {name: open_gate(plant, name, False) for name in UNITS}
    estimator = FederatedGrangerEstimator().fit_sites(FramesInMemory(gates))
    mu = mu_from_epsilon(4.0, 1e-6)
    std = 3.0 / mu
    for name in UNITS:
        assert_allclose(np.sqrt(np.diag(estimator.noise_covariance_[name])), std, rtol=1e-5)
        raw = np.load(plant / f"{name}.npy")
        assert abs((noised(plant, name) - raw).std() / std - 1) < 5 / np.sqrt(2 * raw.size)
        entries = [e for e in read_ledger(plant / f"home-{name}/ledger.jsonl") if e["event"] == "sent"]
        assert entries
        assert all("epsilon = 4 at delta = 1e-06 per event" in e["noise"] for e in entries)
        assert entries[0]["fields"]["added_noise"]["shape"] == [6]
    assert_allclose(estimator.privacy_spent_.epsilon, 4.0, rtol=1e-9)
    assert estimator.privacy_spent_.unit == "event"
    assert list(estimator.privacy_ledger_["client"]) == list(UNITS)
    statement = estimator.privacy_statement_
    assert statement.startswith("According to the accounts of the sites. mill, kiln: Differentially private")
    assert "epsilon = 4, delta = 1e-06" in statement
    home = (plant / "home-mill/privacy/statement.txt").read_text()
    assert home in statement


@pytest.mark.filterwarnings("ignore:Units whose states drift")  # noise on the mill may look like that
def test_a_site_without_noise_spoils_the_promise_by_name(plant):
    path = plant / "kiln.toml"
    path.write_text(path.read_text().partition("[privacy]")[0])
    gates = {name: open_gate(plant, name, False) for name in UNITS}
    estimator = FederatedGrangerEstimator().fit_sites(FramesInMemory(gates))
    assert estimator.privacy_spent_.epsilon == np.inf
    assert "kiln: Not differentially private" in estimator.privacy_statement_
    assert list(estimator.noise_covariance_) == ["mill"]


def test_a_watched_record_gets_the_noise_of_the_nominal_one_and_is_paid_for(plant):
    for name in UNITS:
        write(plant, name, f'watched = "{name}-today.npy"')
        np.save(plant / f"{name}-today.npy", np.load(plant / f"{name}.npy")[:200] + 0.01)
    gates = {name: open_gate(plant, name, False) for name in UNITS}
    for name in UNITS:
        for file in (name, f"{name}-today"):
            poison(plant, file)
    estimator = FederatedRCADetector(false_alarm_rate=0.05).fit_sites(FramesInMemory(gates))
    incidents = inspection.watch_sites(estimator)
    assert set(incidents["root"]) <= {*UNITS, "undecided"}
    assert len(account(plant)) == 2
    assert_allclose(estimator.privacy_spent_.mu, np.sqrt(2) * mu_from_epsilon(4.0, 1e-6), rtol=1e-5)
    entries = [e["op"] for e in read_ledger(plant / "home-mill/ledger.jsonl") if e["event"] == "taken"]
    assert entries == ["fit", "reply", "watch", "verdict", "watch"]  # the last time there was nothing


def send_all(plant):
    """What one-way sites send on their own, each in a process of its own as it were."""
    for name in UNITS:
        settings = settings_of(plant, name)
        site = FileSite(settings.gate(key=KEYS[name]), settings.folder)
        site.send("march", settings.request)
        number = 1
        while site.send("march", settings.watch_request(number)) is not None:
            number += 1


@pytest.mark.medium
def test_every_batch_of_a_one_way_site_is_noised_and_paid_for_once(plant):
    for name in UNITS:
        write(plant, name, f'watched = "{name}-days"\none_way = true\nrun = "march"', budget=20.0)
        (plant / f"{name}-days").mkdir()
    charges = []
    for day in range(2):
        for name in UNITS:
            rows = slice(200 * day, 200 * (day + 1))
            np.save(plant / f"{name}-days/{day}.npy", np.load(plant / f"{name}.npy")[rows] + 0.01)
        send_all(plant)
        send_all(plant)  # started again: nothing is drawn or charged again
        charges.append(len(account(plant)))
        files = FileTransport(plant / "exchange", UNITS, "march", KEYS, one_way=True, journal=plant / "journal")
        estimator = FederatedRCADetector(false_alarm_rate=0.05).fit_sites(files)
        incidents = inspection.watch_sites(estimator)
        assert set(incidents["root"]) <= {*UNITS, "undecided"}
        spent = np.sqrt(2 + day) * mu_from_epsilon(4.0, 1e-6)
        assert_allclose(estimator.privacy_spent_.mu, spent, rtol=1e-5)
    assert charges == [2, 3]


# --- every release is charged once -------------------------------------------------------------------


def test_a_rerun_reads_the_release_and_is_not_charged(plant):
    gates = [open_gate(plant, "mill") for _ in range(3)]
    assert len(account(plant)) == 1
    first, *others = [gate.worker.handle(Packet("fit", 1), {})[0].arrays["z"] for gate in gates]
    for other in others:
        assert_array_equal(first, other)


@pytest.mark.parametrize("where", ["room", "remember"])
def test_after_a_crash_the_charge_is_used_and_not_taken_again(plant, where, monkeypatch):
    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(SiteAccount, where, crash)
    with pytest.raises(KeyboardInterrupt):
        open_gate(plant, "mill")
    monkeypatch.undo()
    assert len(account(plant)) == 1
    open_gate(plant, "mill")
    assert len(account(plant)) == 1
    assert noised(plant, "mill").shape == (N, 6)


def test_a_release_of_which_the_account_says_nothing_yet_is_not_used(plant, monkeypatch):
    """A crash between the file and the line about it: nothing was computed from that file."""
    append = Chain.append

    def crash(chain, content):
        if content["event"] == "released":
            raise KeyboardInterrupt
        return append(chain, content)

    monkeypatch.setattr(Chain, "append", crash)
    with pytest.raises(KeyboardInterrupt):
        open_gate(plant, "mill")
    monkeypatch.undo()
    before = noised(plant, "mill")
    open_gate(plant, "mill")
    assert (noised(plant, "mill") != before).mean() > 0.99
    assert len(account(plant)) == 1


def test_a_release_that_is_lost_costs_again(plant):
    open_gate(plant, "mill")
    before = noised(plant, "mill")
    account(plant).forget()
    open_gate(plant, "mill")
    assert len(account(plant)) == 2
    assert (noised(plant, "mill") != before).mean() > 0.99
    assert_allclose(account(plant).spent().mu, np.sqrt(2) * mu_from_epsilon(4.0, 1e-6), rtol=1e-12)


def test_the_budget_stops_a_site_before_noise_is_drawn(plant):
    data = np.load(plant / "mill.npy")
    mu, spent = mu_from_epsilon(4.0, 1e-6), 0
    while epsilon_from_mu(mu * np.sqrt(spent + 1), 1e-6) <= 9.0:
        spent += 1
        np.save(plant / "mill.npy", data + spent)
        open_gate(plant, "mill")
    np.save(plant / "mill.npy", data)
    with pytest.raises(PrivacyBudgetError, match="mill"):
        open_gate(plant, "mill")
    assert spent == len(account(plant)) == len(list((plant / "home-mill/privacy").glob("*.npy")))
    assert spent > 1


def test_other_time_steps_are_paid_for_by_other_events(plant):
    data = np.load(plant / "mill.npy")
    for k in range(6):
        np.save(plant / "mill.npy", data + k)
        write(plant, "mill", period=k)
        open_gate(plant, "mill")
    assert_allclose(account(plant).spent().epsilon, 4.0, rtol=1e-9)
    write(plant, "mill", period=2)
    with pytest.raises(SettingsError, match="period"):
        open_gate(plant, "mill")


def test_sites_that_start_together_are_charged_once(plant):
    gates, errors = [], []

    def start():
        try:
            gates.append(open_gate(plant, "mill"))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(account(plant)) == 1
    answers = {gate.worker.handle(Packet("fit", 1), {})[0].encode() for gate in gates}
    assert len(answers) == 1


def test_an_account_that_was_changed_is_refused(plant):
    open_gate(plant, "mill")
    path = plant / "home-mill/privacy/account.jsonl"
    path.write_text(path.read_text().replace('"count": 1', '"count": 0'))
    with pytest.raises(ValueError, match="was changed"):
        open_gate(plant, "mill")


# --- settings, rehearsal ------------------------------------------------------------------------------


def test_the_plan_says_what_it_would_cost_and_costs_nothing(plant, capsys):
    for spent, after in ((0.0, 4.0), (4.0, 4.0)):
        before = sorted(plant.rglob("*"))
        assert main(["plan", str(plant / "mill.toml"), "--json"]) == 0
        plan = json.loads(capsys.readouterr().out)
        assert_allclose([plan["epsilon_spent"], plan["epsilon_after"]], [spent, after], rtol=1e-9)
        assert plan["fields"]["added_noise"]["shape"] == [6]
        assert sorted(plant.rglob("*")) == before
        open_gate(plant, "mill")
    assert main(["plan", str(plant / "mill.toml")]) == 0
    assert "nothing was charged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"clip_norm": None}, "give 'clip_norm'"),
        ({"budget": None}, "give 'budget'"),
        ({"sigma": 1.0}, "unknown keys 'sigma'"),
        ({"mechanism": "laplace"}, "'gaussian'"),
        ({"epsilon": "little"}, "wrong kind"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"unit": "window"}, "window"),
    ],
)
def test_settings_that_promise_nothing_are_refused(plant, change, reason):
    write(plant, "mill", **change)
    path = plant / "mill.toml"
    lines = [line for line in path.read_text().splitlines() if not line.endswith("null")]
    path.write_text("\n".join(lines))
    with pytest.raises(SettingsError, match=reason):
        settings_of(plant, "mill")


PROMISE = PrivacyPromise(np.ones(3), 0.5, 1e-6, 6.0, 100, 1, "event", "replace")


@pytest.mark.parametrize(
    "change",
    [
        {"promise_mu": -1.0},
        {"promise_mu": "small"},
        {"promise_delta": 1.5},
        {"promise_unit": "drop"},
        {"promise_window": 3},
        {"promise_releases": 0},
        {"promise_colour": 1},
        {"promise_rows": 2.5},
    ],
)
def test_a_promise_that_cannot_be_meant_is_refused(change):
    packet = PROMISE.put_on(Packet("states", 1))
    with pytest.raises(PacketError):
        PrivacyPromise.taken_off(Packet("states", 1, packet.arrays, {**packet.scalars, **change}))


def test_a_site_with_a_bad_promise_is_lost_by_name(plant):
    class Boasting(UnitWorker):
        def handle(self, packet, state):
            answer, state = super().handle(packet, state)
            return Packet(answer.op, answer.round, answer.arrays, {"promise_mu": 0.1}), state

    X = {name: np.load(plant / f"{name}.npy") for name in UNITS}
    kinds = {"mill": UnitWorker, "kiln": Boasting}
    workers = {name: kinds[name](name, X[name], None, (0,), (), KalmanClient()) for name in UNITS}
    with pytest.raises(ClientError, match="kiln"):
        FederatedGrangerEstimator().fit_sites(InProcessTransport(workers))


def test_an_account_that_was_cut_back_is_noticed_before_noise_is_drawn(plant):
    """The ledger of the site holds the last line of the account; an older copy of it lacks that line."""
    path = plant / "home-mill" / "privacy" / "account.jsonl"
    open_gate(plant, "mill").volunteer("march", FitRequest().to_packet(1))
    whole = path.read_bytes()
    path.write_bytes(whole.splitlines(keepends=True)[0])
    with pytest.raises(LedgerError, match=r"account.jsonl: the ledger beside it names a line that is not there"):
        open_gate(plant, "mill")
    path.unlink()
    with pytest.raises(LedgerError, match="not there"):
        open_gate(plant, "mill")
    path.write_bytes(whole)
    assert open_gate(plant, "mill").ledger.entries()[-1]["account"] == account(plant)._chain.head


def test_an_account_of_another_home_is_refused_by_name_and_nothing_is_charged(plant):
    open_gate(plant, "kiln")
    (plant / "home-kiln").rename(plant / "home-mill")
    before = account(plant)._chain.head
    with pytest.raises(LedgerError, match=r"account.jsonl holds charges of kiln, and this is the home of 'mill'"):
        open_gate(plant, "mill")
    assert account(plant)._chain.head == before


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ('operations = ["watch"]', "allows 'watch', for which nothing is there"),
        ('operations = ["secure_sums"]', "allows 'secure_sums', for which nothing is there"),
        (f"rows = {N - 1}", rf"rows = {N - 1}, and its record has {N}: no answer could leave"),
    ],
)
def test_a_policy_that_asks_for_what_the_site_cannot_give_is_refused_before_it_answers(plant, policy, reason):
    path = plant / "mill.toml"
    path.write_text(path.read_text().partition("[policy]")[0] + f"[policy]\n{policy}\n")
    with pytest.raises(SettingsError, match=rf"\[policy\] of 'mill' .*{reason}"):
        open_gate(plant, "mill")
    assert not (plant / "home-mill").exists()


def test_a_ledger_that_was_cut_back_is_noticed_by_the_account(plant):
    """A charge holds the last line of the ledger; an older ledger, or none, lacks that line."""
    open_gate(plant, "mill").volunteer("march", FitRequest().to_packet(1))
    account(plant).forget()
    open_gate(plant, "mill")  # another charge, after the first packet
    path = plant / "home-mill" / "ledger.jsonl"
    whole = path.read_bytes()
    assert [entry.get("ledger") for entry in account(plant)._chain.entries()][2] == read_ledger(path)[-1]["hash"]
    path.unlink()
    with pytest.raises(LedgerError, match=r"ledger.jsonl: the account of privacy names a line that is not there"):
        open_gate(plant, "mill")
    path.write_bytes(whole.replace(b'"round": 1', b'"round": 2'))
    repair_ledger(path)  # says which lines were lost
    open_gate(plant, "mill")
