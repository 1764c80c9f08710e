"""The account of a site: the same as in memory, but what it says is still there in the next process."""

import errno
import os

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import GaussianMechanism, PrivacyAccountant
from skfedcausal.bases import configured
from skfedcausal.federation.atomic import read_ledger
from skfedcausal.privacy import Charge, PrivacyBudgetError, Scope, SiteAccount

from ._strangers import LaplaceMechanism

pytestmark = pytest.mark.filterwarnings(
    "ignore::skfedcausal.privacy.UtilityWarning", "ignore::skfedcausal.privacy.WeakPrivacyWarning"
)
N, SCOPE = 12, Scope("event")
Y = np.random.default_rng(0).normal(size=(N, 2))


def gaussian(folder, **settings):
    account = SiteAccount(folder, 30.0, 1e-6)
    given = {"mu": 1.0, "delta": 1e-6, "clip_norm": 3.0, "scale": [1.0, 2.0], "center": [0.5, 0.0]}
    return configured(GaussianMechanism, given | settings | {"accountant": account})


def test_the_next_process_has_the_release_its_noise_and_its_charge(tmp_path):
    first = gaussian(tmp_path).release({"mill": Y}, (N,))["mill"]
    mechanism = gaussian(tmp_path)
    assert len(mechanism.account) == 1
    assert mechanism.account.scope == SCOPE
    again = mechanism.release({"mill": Y}, (N,))["mill"]
    assert_array_equal(again.values, first.values)
    assert not again.values.flags.writeable
    assert_array_equal(again.variance, first.variance)
    assert again.noise.std == first.noise.std
    bounds = again.noise.bounds
    assert (bounds.clip, bounds.radius, bounds.public) == (3.0, 6.0, True)
    assert_array_equal([*bounds.center, *bounds.scale], [0.5, 0.0, 1.0, 2.0])
    assert len(SiteAccount(tmp_path)) == 1
    reused = mechanism.release({"mill": 2 * Y}, (N,), noise={"mill": again.noise})["mill"]
    assert reused.noise.std == first.noise.std
    assert len(SiteAccount(tmp_path)) == 2


def test_the_account_of_a_site_adds_up_as_any_other(tmp_path):
    mechanism = gaussian(tmp_path)
    for k in range(3):
        mechanism.release({"mill": Y + k, "kiln": 3 * Y}, (N,))
    account = SiteAccount(tmp_path, 30.0, 1e-6)
    assert list(account.table["client"]) == ["mill", "kiln", "mill", "mill"]
    assert_allclose(account.spent().mu, np.sqrt(3), rtol=1e-12)
    with pytest.raises(ValueError, match="does not add up"):
        gaussian(tmp_path, protects="client").release({"mill": Y}, (N,))


def test_a_budget_counts_what_other_processes_spent(tmp_path):
    one, other = (SiteAccount(tmp_path, 5.5, 1e-6) for _ in range(2))
    one.charge([Charge("mill", "measurement", mu=1.0, release="aa")], SCOPE)
    with pytest.raises(PrivacyBudgetError, match=r"of which 4\.887 is"):
        other.charge([Charge("mill", "measurement", mu=1.0, release="bb")], SCOPE)
    assert len(SiteAccount(tmp_path)) == 1


def test_a_charge_pays_for_one_release_and_for_no_other(tmp_path):
    account = SiteAccount(tmp_path)
    charge = Charge("mill", "measurement", mu=0.5, release="aa")
    for _ in range(2):
        account.charge([charge], SCOPE)  # drawn by nobody yet
    assert len(account) == 1
    account.charge([charge, Charge("mill", "measurement", mu=0.5, release="bb")], SCOPE)
    assert len(SiteAccount(tmp_path)) == 2
    mechanism = gaussian(tmp_path)
    mechanism.release({"mill": Y}, (N,))
    mechanism.account.forget()
    mechanism.release({"mill": Y}, (N,))  # other noise, the charge of the first is used up
    assert len(SiteAccount(tmp_path)) == 4


# the writes of a release in their order, by how often they happened before; all but the first two follow the charge
WRITES = {
    "secret": ("fsync", 0),
    "charge": ("fsync", 1),
    "room": ("posix_fallocate", 0),
    "noised record": ("replace", 1),  # that of the secret is the first
    "release": ("fsync", 2),
}


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="room on a disk cannot be reserved here")
@pytest.mark.parametrize("at", WRITES)
def test_on_a_full_disk_one_charge_pays_for_one_release(tmp_path, monkeypatch, at):
    """Each write fails once, on the disk or not: what is charged stays charged once, and one noise comes out."""
    (name, before), calls = WRITES[at], []
    write = getattr(os, name)

    def full(*arguments):
        calls.append(arguments)
        if len(calls) == before + 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(*arguments)

    monkeypatch.setattr(os, name, full)
    mechanism = gaussian(tmp_path)
    with pytest.raises(OSError, match="No space left"):
        mechanism.release({"mill": Y}, (N,))
    assert len(SiteAccount(tmp_path)) == (at not in ("secret", "charge"))
    again = [m.release({"mill": Y}, (N,))["mill"].values for m in (mechanism, mechanism, gaussian(tmp_path))]
    assert len(calls) > before + 1
    for values in again:
        assert_array_equal(values, again[0])
    events = [entry["event"] for entry in read_ledger(tmp_path / "account.jsonl")]
    assert events == ["charged", "released"]
    assert len(list(tmp_path.glob("*.npy*"))) == 1


@pytest.mark.parametrize("account", [PrivacyAccountant, SiteAccount])
def test_units_that_got_no_noise_are_not_charged_again(tmp_path, monkeypatch, account):
    """The room for the second of three units is not there; the first has its copy."""
    folder = [tmp_path] * (account is SiteAccount)
    mechanism = gaussian(tmp_path).set_params(accountant=account(*folder, epsilon=30.0, delta=1e-6))
    records, room, rooms = {"mill": Y, "kiln": 2 * Y, "fan": 3 * Y}, account.room, []

    def full(self, key, shape):
        rooms.append(key)
        if len(rooms) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return room(self, key, shape)

    monkeypatch.setattr(account, "room", full)
    with pytest.raises(OSError, match="No space left"):
        mechanism.release(records, (N,))
    assert len(mechanism.account) == 3
    first = mechanism.release({"mill": Y}, (N,))["mill"].values
    releases = mechanism.release(records, (N,))
    assert_array_equal(releases["mill"].values, first)
    assert len(mechanism.account) == 3
    assert_allclose(mechanism.account.spent().mu, 1.0, rtol=1e-12)
    mechanism.account.forget()
    mechanism.release(records, (N,))  # other noise is another release
    assert len(mechanism.account) == 6


@pytest.mark.parametrize("unit", ["event", "client"])
def test_a_stream_pays_as_it_does_in_memory(tmp_path, unit):
    spent = []
    for mechanism in (
        gaussian(tmp_path, protects=unit),
        gaussian(tmp_path, protects=unit).set_params(accountant=None),
    ):
        noise = {"mill": mechanism.noise_of("mill", Y)}
        for _ in range(2):
            stream = mechanism.stream(noise)
            for k in range(0, N, 3):
                stream.release({"mill": Y[k : k + 3]})
        spent.append(mechanism.account.spent(1e-6))
    assert_allclose(spent[0].mu, spent[1].mu, rtol=1e-12)
    assert_allclose(spent[0].mu, np.sqrt(2), rtol=1e-5)
    assert_allclose(SiteAccount(tmp_path).spent(1e-6).mu, spent[0].mu, rtol=1e-12)


def test_a_period_is_the_latest_of_all_that_were_charged(tmp_path):
    account = SiteAccount(tmp_path)
    assert account.new_period() == 1
    account.charge([Charge("mill", "measurement", mu=0.5, release="aa")], SCOPE)
    later = SiteAccount(tmp_path)
    assert later.period == 1
    later.charge([Charge("mill", "measurement", mu=0.5, release="bb")], SCOPE)
    assert later.spent(1e-6).mu == pytest.approx(np.sqrt(0.5))
    assert later.new_period() == 2
    later.charge([Charge("mill", "measurement", mu=0.5, release="cc")], SCOPE)
    assert account.spent(1e-6).mu == 0.5  # has not looked since
    account.charge([Charge("mill", "measurement", mu=0.1, release="dd")], SCOPE)
    assert account.period == 2
    assert account.spent(1e-6).mu == pytest.approx(np.sqrt(0.5))


def test_nothing_is_written_before_something_is_charged(tmp_path):
    folder = tmp_path / "home" / "privacy"
    account = SiteAccount(folder)
    assert len(account) == account.period == 0
    assert not folder.exists()
    account.charge([Charge("mill", "measurement", mu=0.5, release="aa")], SCOPE)
    assert {path.name for path in folder.iterdir()} == {"account.jsonl", "secret", "lock"}
    assert (folder / "secret").read_bytes() == account._key
    assert SiteAccount(folder)._key == account._key


def test_what_is_forgotten_leaves_the_charges(tmp_path):
    gaussian(tmp_path).release({"mill": Y, "kiln": 2 * Y}, (N,))
    assert len(list(tmp_path.glob("*.npy"))) == 2
    SiteAccount(tmp_path).forget()
    assert not list(tmp_path.glob("*.npy*"))
    assert len(SiteAccount(tmp_path)) == 2


def test_every_line_says_what_was_charged_or_released(tmp_path):
    gaussian(tmp_path).release({"mill": Y}, (N,))
    events = [entry["event"] for entry in read_ledger(tmp_path / "account.jsonl")]
    assert events == ["charged", "released"]


def test_the_noise_of_a_stranger_is_kept_too(tmp_path):
    releases = []
    for _ in range(2):
        mechanism = LaplaceMechanism(epsilon=2.0, clip_norm=3.0, accountant=SiteAccount(tmp_path))
        releases.append(mechanism.release({"mill": Y}, (N,))["mill"])
    assert_array_equal(releases[0].values, releases[1].values)
    assert_array_equal(releases[0].variance, releases[1].variance)
    assert_allclose(SiteAccount(tmp_path).spent(0.0).epsilon, 2.0, rtol=1e-9)


@pytest.mark.parametrize("kept", ["in memory", "in files"])
def test_whoever_has_the_turn_keeps_it(tmp_path, kept):
    account = SiteAccount(tmp_path) if kept == "in files" else gaussian(tmp_path).set_params(accountant=None).account
    with account.turn(), account.turn():
        account.charge([Charge("mill", "measurement", mu=0.5, release="aa")], SCOPE)
    with account.turn():
        assert len(account) == 1


@pytest.mark.parametrize("lines", [0, 2, 4])
def test_an_account_that_was_cut_back_promises_nothing(tmp_path, lines):
    """Three records were released, the account knows of fewer: their files lie beside it."""
    for k in range(3):
        gaussian(tmp_path).release({"mill": Y + k}, (N,))
    path = tmp_path / "account.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:lines]))
    with pytest.raises(PrivacyBudgetError, match="account of mill was cut back"):
        gaussian(tmp_path).release({"mill": Y + 3}, (N,))
    mechanism = GaussianMechanism(mu=1.0, delta=1e-6, clip_norm=3.0, accountant=SiteAccount(tmp_path))
    mechanism.release({"mill": Y + 3}, (N,))
    spent = mechanism.account.spent(1e-6)
    assert np.isinf(spent.epsilon)
    assert mechanism.statement(spent, ["mill"], N).startswith("NOT PRIVATE: the account of mill was cut back")
    path.write_bytes(whole)
    (tmp_path / f"{mechanism.account.charges_of(['mill'])[-1].release[:32]}.npy").unlink()
    put_back = SiteAccount(tmp_path).spent(1e-6)
    assert_allclose(put_back.mu, np.sqrt(3), rtol=1e-12)
    assert np.isfinite(put_back.epsilon)
