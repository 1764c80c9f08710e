"""The command line: the demonstration without a command, the commands by name, exit codes."""

import pytest

import skfedcausal.commands
from skfedcausal.__main__ import main
from skfedcausal.commands.demo import run_demo


@pytest.mark.medium
def test_without_a_command_the_demonstration_runs(tmp_path, capsys):
    assert main(["--seed", "1", "--out", str(tmp_path)]) == 0
    assert "Oracle gap" in capsys.readouterr().out
    assert (tmp_path / "skfedcausal_plant.png").stat().st_size > 0


def test_a_command_gets_the_words_after_its_name(monkeypatch):
    called = []
    monkeypatch.setattr(skfedcausal.commands, "import_module", lambda name: called.append(name) or _Module)
    assert main(["demo", "--seed", "3"]) == 7
    assert called == ["skfedcausal.commands.demo"]
    assert _Module.arguments == ["--seed", "3"]


class _Module:
    @classmethod
    def main(cls, arguments):
        cls.arguments = arguments
        return 7


@pytest.mark.parametrize("words", [["nonsense"], ["--nonsense"], ["demo", "--nonsense"]])
def test_a_wrong_call_is_refused_with_code_2(words, capsys):
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert "nonsense" in capsys.readouterr().err


@pytest.mark.parametrize("name", skfedcausal.commands.COMMANDS)
def test_every_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    assert name in capsys.readouterr().out


@pytest.mark.medium
def test_the_picture_has_one_scale_beside_each_matrix(tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(pyplot, "close", lambda figure: None)
    run_demo(folder=tmp_path)
    left, right, *scales = pyplot.gcf().axes
    monkeypatch.undo()
    pyplot.close("all")
    assert [scale.get_ylabel() for scale in scales] == ["norm of the block"] * 2
    assert (left.get_title(), right.get_title()[:13]) == ("true links", "learned links")
