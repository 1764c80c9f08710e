"""Keys with an end and keys that were revoked: refused by the name of their file, at the site and at the server."""

from datetime import date

import pytest

from skfedcausal.__main__ import main
from skfedcausal.federation import Gate, PacketError, envelope, read_key, read_key_pair, revoke_key, write_key
from skfedcausal.federation.envelope import Envelope, read_envelope
from skfedcausal.message.packet import Packet

ADDRESS = Envelope("march", "mill", "down", 1)
LAST = date(2031, 3, 31)


class Echo:
    """Answers whatever comes."""

    def handle(self, packet, state):
        return Packet("echo", packet.round), state


def on(monkeypatch, day):
    monkeypatch.setattr(envelope, "_today", lambda: date(*day))


def test_a_key_is_taken_until_its_last_day_and_then_refused_on_both_ends(tmp_path, monkeypatch):
    """Both copies hold the day; processes that run on refuse what they have read before."""
    on(monkeypatch, (2031, 1, 1))
    path = write_key(tmp_path / "mill.key", until=LAST)
    (tmp_path / "server.key").write_bytes(path.read_bytes())
    (tmp_path / "server.key").chmod(0o600)
    at_site, at_server = read_key(path), read_key(tmp_path / "server.key")
    assert len(at_site) == 32
    gate, question = Gate("mill", Echo(), tmp_path / "home", key=at_site), Packet("ask", 1).encode()
    on(monkeypatch, (2031, 3, 31))
    frame = ADDRESS.seal(question, at_server)
    assert gate.answer(frame) is not None
    on(monkeypatch, (2031, 4, 1))
    later = Envelope("march", "mill", "down", 2)
    with pytest.raises(PacketError, match=r"server\.key ended after 2031-03-31"):
        later.seal(question, at_server)
    with pytest.raises(PacketError, match=r"server\.key ended"):
        read_envelope(frame, at_server)
    assert gate.answer(later.seal(question, bytes(at_server))) is None  # of a server without the line
    assert "mill.key ended after 2031-03-31" in gate.ledger.entries()[-1]["reason"]
    for copy in (path, tmp_path / "server.key"):
        with pytest.raises(PacketError, match=rf"{copy.name} ended.*makes another one"):
            read_key(copy)


def test_a_revoked_key_is_refused_by_name_and_makes_room_for_another(tmp_path, capsys):
    path = tmp_path / "mill.key"
    assert main(["key", str(path)]) == 0
    old = read_key(path)
    assert main(["key", str(path)]) == 1
    assert main(["key", str(path), "--revoke"]) == 0
    assert "its copy, too" in capsys.readouterr().out
    with pytest.raises(PacketError, match=r"mill\.key was revoked on"):
        read_key(path)
    with pytest.raises(ValueError, match="revoked already"):
        revoke_key(path)
    assert main(["key", str(path), "--until", "2999-12-31"]) == 0
    new = read_key(path)
    assert new != old
    assert {p.name.partition(".revoked-")[0] for p in tmp_path.iterdir()} == {"mill.key"}
    assert len(list(tmp_path.iterdir())) == 2
    with pytest.raises(PacketError, match="revoked"):
        read_envelope(ADDRESS.seal(b"content", old), new)


@pytest.mark.parametrize("role", ["site", "server"])
@pytest.mark.parametrize("how", ["ended", "revoked"])
def test_neither_side_starts_with_such_a_key(tmp_path, monkeypatch, capsys, role, how):
    (tmp_path / "mill.csv").write_text("a,b\n1,2\n3,4\n")
    on(monkeypatch, (2031, 1, 1))
    path = write_key(tmp_path / "mill.key", until=LAST)
    (tmp_path / "site.toml").write_text(
        '[site]\nname = "mill"\ndata = "mill.csv"\nkey = "mill.key"\nfolder = "exchange"\n'
    )
    (tmp_path / "server.toml").write_text(
        '[server]\nrun = "march"\nunits = ["mill"]\nkeys = "."\nfolder = "exchange"\ntimeout = 1\n'
    )
    if how == "revoked":
        revoke_key(path)
    else:
        on(monkeypatch, (2031, 4, 1))
    command = {"site": "run", "server": "serve"}[role]
    assert main([command, str(tmp_path / f"{role}.toml")]) == 1
    words = {"ended": "ended after 2031-03-31", "revoked": "was revoked on 2031-01-01"}[how]
    assert f"mill.key {words}" in capsys.readouterr().err
    assert not (tmp_path / "exchange").exists()


@pytest.mark.parametrize("mine", [True, False])
def test_either_key_of_a_pair_ends_or_is_revoked(tmp_path, monkeypatch, mine):
    pytest.importorskip("cryptography")
    on(monkeypatch, (2031, 1, 1))
    own, theirs = tmp_path / "mill.key", tmp_path / "server.pub"
    envelope.write_key_pair(own, until=LAST if mine else None)
    envelope.write_key_pair(tmp_path / "server.key")
    pair = read_key_pair(own, theirs)
    frame = Envelope("march", "mill", "up", 1).seal(b"content", pair)
    if mine:
        on(monkeypatch, (2031, 4, 1))
        with pytest.raises(PacketError, match=r"mill\.key ended"):
            Envelope("march", "mill", "up", 2).seal(b"content", pair)
    else:
        revoke_key(theirs)
    with pytest.raises(PacketError, match=r"mill\.key ended" if mine else r"server\.pub was revoked"):
        read_key_pair(own, theirs)
    for_evidence = read_key_pair(None, tmp_path / "mill.pub")  # what was signed in time stays evidence
    for_evidence.check(frame[-64:], envelope.signed_message(*parts_of(frame)))


def parts_of(frame):
    """Outside and digest of the content of a frame, as its signature covers them."""
    from hashlib import sha256

    from skfedcausal.federation.envelope import _PREFIX, PREFIX_BYTES

    end = PREFIX_BYTES + _PREFIX.unpack_from(frame)[2]
    return frame[:end], sha256(frame[end:-64]).digest()


@pytest.mark.parametrize("until", ["2020-01-01", "tomorrow", "2031-13-01"])
def test_an_end_that_is_none_is_refused_and_no_key_is_written(tmp_path, until):
    with pytest.raises(ValueError, match="give the last day of the key as 2027-12-31"):
        write_key(tmp_path / "mill.key", until=until)
    assert not list(tmp_path.iterdir())


def test_other_lines_below_a_key_are_refused_with_what_was_expected(tmp_path):
    path = tmp_path / "mill.key"
    path.write_text("ab" * 32 + "\nuntil Friday\n")
    with pytest.raises(ValueError, match=r"mill\.key: below the key there is 'until Friday'; expected a line like"):
        read_key(path)
