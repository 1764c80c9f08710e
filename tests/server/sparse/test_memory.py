"""A plant too large for the memory says so before it starts."""

from types import SimpleNamespace

import pytest

from skfedcausal.server.sparse import memory


def record_of(n_units, n_samples=5000, n_states=2):
    partition = SimpleNamespace(n_states=n_states * n_units)
    return SimpleNamespace(n_samples=n_samples, partition=partition, names=tuple(range(n_units)))


def test_what_is_needed_and_what_would_fit_is_said(monkeypatch):
    monkeypatch.setattr(memory, "allowed_memory", lambda: 2**30)
    with pytest.raises(MemoryError, match=r"1500 units.*1 GiB are allowed.*would fit: \d+ units") as told:
        memory.check_memory(record_of(1500))
    fits = int(str(told.value).split("would fit: ")[1].split()[0])
    memory.check_memory(record_of(fits))
    with pytest.raises(MemoryError):
        memory.check_memory(record_of(fits + 1))


def test_a_thousand_units_need_less_than_four_gigabytes():
    assert memory.needed_memory(5000, 2000, 1000) < 4 * 2**30


def test_nothing_fits():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "allowed_memory", lambda: 2**20)
        with pytest.raises(MemoryError, match="nothing"):
            memory.check_memory(record_of(40))
