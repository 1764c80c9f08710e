"""Lines of a ledger hang together by their numbers and hashes, and anybody can recompute them."""

import hashlib
import json

import pytest

from skfedcausal.federation.atomic import Chain, LedgerError, check_chain, read_ledger
from skfedcausal.federation.ledger import verify_ledger


def sealed(entry):
    """An entry with the hash that belongs to it: SHA-256 of the rest as JSON, its keys in order."""
    rest = {key: value for key, value in entry.items() if key != "hash"}
    return rest | {"hash": hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}


@pytest.fixture
def chain(tmp_path):
    chain = Chain(tmp_path / "home" / "mill" / "ledger.jsonl")
    for word in ("zero", "one", "two"):
        chain.append({"word": word, "about": 1})
    return chain


def test_a_line_is_numbered_and_holds_the_hash_of_the_line_before(chain):
    entries = chain.entries()
    assert [entry["number"] for entry in entries] == [1, 2, 3]
    assert [entry["previous"] for entry in entries] == ["0" * 64, *(entry["hash"] for entry in entries[:2])]
    assert entries == [sealed(entry) for entry in entries]
    assert chain.head == entries[-1]["hash"]


def test_the_order_in_which_another_program_writes_the_words_of_a_line_is_all_the_same(chain):
    lines = [json.dumps(dict(sorted(entry.items()))) for entry in chain.entries()]
    chain.path.write_text("".join(f"{line}\n" for line in lines))
    check_chain(read_ledger(chain.path))


@pytest.mark.parametrize("forged", [{"number": 3}, {"previous": "0" * 64}], ids=str)
def test_a_line_with_a_hash_of_its_own_still_has_its_place(chain, forged):
    entries = chain.entries()
    entries[1] = sealed(entries[1] | forged)
    with pytest.raises(LedgerError, match=r"^march, line 2: does not follow"):
        check_chain(entries, "march")


def test_the_line_that_was_changed_is_named(chain):
    entries = chain.entries()
    entries[2]["word"] = "three"
    with pytest.raises(LedgerError, match="line 3: was changed"):
        check_chain(entries)


@pytest.mark.parametrize("line", ["{", "[]"])
def test_a_line_of_something_else_is_named(chain, line):
    lines = chain.path.read_text().splitlines()
    chain.path.write_text("".join(f"{one}\n" for one in (*lines[:1], line, *lines[2:])))
    with pytest.raises(LedgerError, match="line 2: not a line of a ledger"):
        read_ledger(chain.path)


def test_an_account_of_nothing_is_one_and_looking_at_it_writes_no_file(tmp_path):
    path = tmp_path / "ledger.jsonl"
    assert Chain(path).head == "0" * 64
    assert not path.exists()
    path.write_text("")
    assert verify_ledger(path) == {"entries": 0, "bytes_up": 0, "bytes_down": 0, "refused": 0, "head": "0" * 64}
    assert Chain(path).append({})["number"] == 1


def test_a_chain_goes_on_where_it_was_left(chain):
    again = Chain(chain.path)
    assert again.append({"word": "three"})["previous"] == chain.head
    assert again.append({"word": "four"})["number"] == 5
    check_chain(again.entries())
