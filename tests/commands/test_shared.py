"""What all commands share: warnings to the user are notes."""

import warnings

import pytest

from skfedcausal.commands._shared import answer, parser


def test_what_a_command_is_warned_of_is_a_note_without_code(capsys):
    def work(options):
        warnings.warn("The clock of unit 'kiln' seems to be off.", stacklevel=2)
        return {"done": True}

    reader = parser("serve", "", settings=False)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert answer(reader, [], work, str) == 0
    assert capsys.readouterr().err == "Note: The clock of unit 'kiln' seems to be off.\n"


def test_warnings_of_other_kinds_are_as_they_are():
    def work(options):
        warnings.warn("soon gone", DeprecationWarning, stacklevel=2)
        return {}

    with pytest.raises(DeprecationWarning, match="soon gone"):
        answer(parser("serve", "", settings=False), [], work, str)
