"""Four questions make the settings and the key of a site."""

import os

import numpy as np
import pandas as pd
import pytest

from skfedcausal.__main__ import main
from skfedcausal.sites.site import read_site_settings


@pytest.fixture
def answers(tmp_path):
    rows = np.random.default_rng(0).normal(size=(300, 3))
    pd.DataFrame(rows, columns=["flow", "level", "heat"]).to_csv(tmp_path / "mill.csv", index=False)
    return {"name": 'mill "2"', "data": str(tmp_path / "mill.csv"), "folder": str(tmp_path / "share"), "run": "march"}


def arguments(answers, to):
    return ["init", *(word for name, value in answers.items() for word in (f"--{name}", value)), "--to", str(to)]


def test_what_is_written_can_be_planned_with(tmp_path, answers, capsys):
    assert main(arguments(answers, tmp_path / "home")) == 0
    told = capsys.readouterr().out
    (settings,) = (tmp_path / "home").glob("*.toml")
    (key,) = (tmp_path / "home").glob("*.key")
    assert f"skfedcausal plan {settings}" in told
    site = read_site_settings(settings)
    assert (site.name, site.run, len(site.read_key())) == ('mill "2"', "march", 32)
    if os.name == "posix":
        assert {path.stat().st_mode & 0o777 for path in (settings, key)} == {0o600}
    assert main(["plan", str(settings)]) == 0
    assert main(arguments(answers, tmp_path / "home")) == 1  # nothing is written over
    assert "already exists" in capsys.readouterr().err


def test_what_is_not_given_is_asked(tmp_path, answers, monkeypatch, capsys):
    name = answers.pop("name")
    monkeypatch.setattr("builtins.input", lambda question: f" {name} ")
    assert main(arguments(answers, tmp_path)) == 0
    assert next(tmp_path.glob("*.toml")).exists()

    def nobody(question):
        raise EOFError

    monkeypatch.setattr("builtins.input", nobody)
    assert main(arguments(answers, tmp_path / "other")) == 1
    assert "Nobody is here to ask" in capsys.readouterr().err


def test_repairs_that_the_record_needs_are_written_to_its_settings(tmp_path, answers, capsys):
    rows = pd.read_csv(answers["data"])
    rows.loc[50:250, "level"] = 1.5  # frozen
    rows.insert(0, "time", pd.date_range("2026-03-01", periods=len(rows), freq="10s"))
    rows.to_csv(answers["data"], index=False)
    assert main(arguments(answers, tmp_path)) == 1
    assert "init --fix all" in capsys.readouterr().err
    assert main([*arguments(answers, tmp_path), "--fix", "stuck,fill values", "--tz", "Europe/Berlin"]) == 0
    site = read_site_settings(next(tmp_path.glob("*.toml")))
    assert (list(site.fix), site.tz) == (["stuck", "fill values"], "Europe/Berlin")


def test_nothing_is_left_of_settings_that_cannot_be_used(tmp_path, answers, capsys):
    answers["data"] = str(tmp_path / "none.csv")
    assert main(arguments(answers, tmp_path / "home")) == 1
    assert "none.csv" in capsys.readouterr().err
    assert list((tmp_path / "home").iterdir()) == []
