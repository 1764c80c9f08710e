"""Files are whole or not there, and every name of a unit is the name of a file."""

import os
from types import SimpleNamespace

import pytest

from skfedcausal.federation import atomic
from skfedcausal.federation.atomic import file_name, write_whole


def test_a_file_is_replaced_as_a_whole_in_a_folder_that_is_made_for_it(tmp_path):
    path = tmp_path / "site" / "inbox" / "run-1.packet"
    for content in (b"first", b"second"):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert [one.name for one in path.parent.iterdir()] == ["run-1.packet"]


@pytest.mark.parametrize(
    ("name", "quoted"),
    [("mill", "mill"), ("raw mix/2", "raw mix%2F2"), ("a.b", "a.b"), ("No.", "No%2E"), ("mill ", "mill%20")],
)
def test_a_name_with_any_letters_names_one_file(name, quoted):
    assert file_name(name) == quoted


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden"])
def test_a_name_that_is_empty_or_hidden_is_refused(name):
    with pytest.raises(ValueError, match="cannot name a unit or a run"):
        file_name(name)


@pytest.mark.parametrize("name", ["AUX", "con", "Com1.x"])
def test_a_name_that_is_a_device_on_windows_says_so(name):
    with pytest.raises(ValueError, match=f"{name} unit"):
        file_name(name)


def test_a_file_that_is_being_read_on_windows_is_replaced_once_it_is_closed(tmp_path, monkeypatch):
    path, tries = tmp_path / "one.packet", []

    def replace(draft, target, put=os.replace):
        tries.append(draft)
        if len(tries) < 3:
            raise PermissionError(13, "in use", str(target))
        put(draft, target)

    monkeypatch.setattr(atomic, "os", SimpleNamespace(**{**vars(os), "name": "nt", "replace": replace}))
    write_whole(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert len(tries) == 3
