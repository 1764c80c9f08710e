"""Keys of two parties that cannot sign for each other, and what a third one can check of them."""

import json
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skfedcausal import FederatedGrangerEstimator
from skfedcausal.__main__ import main
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import FileSite, KeyPair, LedgerError, PacketError, read_key_pair, verify_ledger
from skfedcausal.federation.atomic import Chain
from skfedcausal.federation.envelope import Envelope, PartialFrameError, read_envelope, read_signed
from skfedcausal.sites.site import read_site_settings

pytest.importorskip("cryptography")
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

pytestmark = pytest.mark.medium

UNITS = ("mill", "kiln")
X, _ = make_granger_plant(2, names=UNITS, n_samples=300, links=[(0, 1)], random_state=0)
PACKET = Envelope("march", "mill", "down", 3, seen="ab" * 32)


def party():
    key = Ed25519PrivateKey.generate()
    return key.private_bytes_raw(), key.public_key().public_bytes_raw()


SERVER, SITE = party(), party()
AT_SERVER, AT_SITE = KeyPair(SERVER[0], SITE[1]), KeyPair(SITE[0], SERVER[1])


def test_what_one_side_signs_the_other_checks_and_neither_can_make_the_other_s():
    frame = PACKET.seal(b"content", AT_SERVER)
    assert read_envelope(frame, AT_SITE) == (PACKET, b"content")
    for key in (AT_SERVER, KeyPair(None, SITE[1]), b"k" * 32, None):
        with pytest.raises(PacketError, match="Signature does not fit"):
            read_envelope(frame, key)
    with pytest.raises(PacketError, match="Signature does not fit"):
        read_envelope(PACKET.seal(b"content", b"k" * 32), AT_SITE)
    with pytest.raises(ValueError, match="no private key"):
        PACKET.seal(b"content", KeyPair(None, SERVER[1]))


def test_every_byte_is_signed():
    frame = PACKET.seal(b"content", AT_SERVER)
    for k in range(len(frame)):
        changed = bytearray(frame)
        changed[k] ^= 1
        with pytest.raises(PacketError):
            read_envelope(bytes(changed), AT_SITE)
    with pytest.raises(PartialFrameError):
        read_envelope(frame[:-1], AT_SITE)


def test_the_signature_is_that_of_another_implementation():
    """Over the hashes of what is before the content and of the content, by the package itself."""
    import hashlib

    frame = PACKET.seal(b"content", AT_SERVER)
    outside = frame[: -64 - len(b"content")]
    signed = hashlib.sha256(outside).digest() + hashlib.sha256(b"content").digest()
    assert frame[-64:] == Ed25519PrivateKey.from_private_bytes(SERVER[0]).sign(signed)


def test_a_large_file_is_checked_in_parts(tmp_path):
    content = np.random.default_rng(0).bytes(9_000_000)
    path = tmp_path / "large.packet"
    path.write_bytes(PACKET.seal(content, AT_SERVER))
    assert read_signed(path, AT_SITE)[0] == path.read_bytes()
    changed = bytearray(path.read_bytes())
    changed[5_000_000] ^= 1
    path.write_bytes(changed)
    with pytest.raises(PacketError, match="Signature"):
        read_signed(path, AT_SITE)


@pytest.fixture
def plant(tmp_path):
    """A server and two sites, each with a private key of its own and the others' public ones."""
    for name in (*UNITS, "server"):
        assert main(["key", str(tmp_path / f"{name}.key"), "--pair", "--json"]) == 0
    for name in UNITS:
        np.save(tmp_path / f"{name}.npy", X[name])
        (tmp_path / f"{name}.toml").write_text(
            f'[site]\nname = "{name}"\ndata = "{name}.npy"\nkey = "{name}.key"\nserver_key = "server.pub"\n'
            'folder = "exchange"\n'
        )
    (tmp_path / "server.toml").write_text(
        f'[server]\nrun = "march"\nunits = {list(UNITS)}\nfolder = "exchange"\nkeys = "."\nkey = "server.key"\n'
        "timeout = 60\n"
    )
    return tmp_path


def run(plant):
    threads = []
    for name in UNITS:
        settings = read_site_settings(plant / f"{name}.toml")
        site = FileSite(settings.gate(key=settings.read_key()), settings.folder)
        threads.append(threading.Thread(target=site.serve, daemon=True))
        threads[-1].start()
    assert main(["serve", str(plant / "server.toml"), "--json"]) == 0
    for thread in threads:
        thread.join(10)


def test_a_run_with_key_pairs_gives_the_same_bits_and_evidence_for_a_third_party(plant, capsys):
    run(plant)
    there = np.load(plant / "results" / "march" / "plant.npz")["transition"]
    assert_array_equal(there, FederatedGrangerEstimator().fit(X).transition_)
    capsys.readouterr()
    assert main(["verify", str(plant / "mill.toml"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert 0 < found["countersigned"] <= found["entries"]
    path = plant / "home-mill" / "ledger.jsonl"
    assert main(["verify", str(path), "--server-key", str(plant / "server.pub")]) == 0
    assert "countersigned lines 1 to" in capsys.readouterr().out
    with pytest.raises(LedgerError, match="not countersigned by this server"):
        verify_ledger(path, read_key_pair(None, plant / "kiln.pub"))
    # and of the server's side: answers in its journal, signed by the site, with the head of its ledger
    kept = next((plant / "results/journal/march").glob("*-mill")).read_bytes()
    assert read_envelope(kept[33:], read_key_pair(None, plant / "mill.pub"))[0].head in {
        json.loads(line)["hash"] for line in path.read_text().splitlines()
    }


@pytest.mark.parametrize("name", ["sequence", "countersigned", "signature", "content"])
def test_a_site_cannot_make_up_a_countersignature(plant, name):
    run(plant)
    path = plant / "home-mill" / "ledger.jsonl"
    entries = Chain(path).entries()
    path.unlink()
    forged = Chain(path)
    for entry in entries:
        if "countersigned" in entry:
            other = {"sequence": 77, "countersigned": forged.head, "signature": 128 * "a", "content": 64 * "a"}
            entry |= {name: other[name]}
        forged.append({k: v for k, v in entry.items() if k not in ("number", "time", "previous", "hash")})
    with pytest.raises(LedgerError, match="counter"):
        verify_ledger(path, read_key_pair(None, plant / "server.pub"))


def test_keys_are_private_and_not_overwritten(plant, capsys):
    assert (plant / "mill.key").stat().st_mode & 0o777 == 0o600
    assert "private" not in repr(read_key_pair(plant / "mill.key", plant / "server.pub"))
    assert main(["key", str(plant / "mill.key"), "--pair"]) == 1
    assert "not overwritten" in capsys.readouterr().err
    (plant / "mill.key").chmod(0o644)
    with pytest.raises(ValueError, match="chmod 600"):
        read_key_pair(plant / "mill.key", plant / "server.pub")
    (plant / "server.pub").chmod(0o600)
    with pytest.raises(ValueError, match=r"server.pub holds no key of the kind 'ed25519 private'"):
        read_key_pair(plant / "server.pub", plant / "server.pub")
