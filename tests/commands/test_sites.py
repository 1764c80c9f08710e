"""Sites without Python skills: settings files, plan, run, serve, verify; as real processes once."""

import json
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skfedcausal import FederatedGrangerEstimator, FederatedRCADetector
from skfedcausal.__main__ import main
from skfedcausal.client import site_record
from skfedcausal.client.site_record import SiteRecord
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import FileSite
from skfedcausal.sites.site import read_site_settings

UNITS = ("mill", "kiln")
X, _ = make_granger_plant(2, names=UNITS, n_samples=300, links=[(0, 1)], random_state=0)


@pytest.fixture
def plant(tmp_path):
    """Settings of two sites and a server, as files."""
    times = pd.date_range("2026-01-01", periods=300, freq="min")
    for name in UNITS:
        frame = pd.DataFrame(X[name], columns=[f"TI{k}" for k in range(X[name].shape[1])])
        frame.insert(0, "time", times)
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        assert main(["key", str(tmp_path / f"{name}.key"), "--json"]) == 0
        site(tmp_path, name)
    server(tmp_path)
    return tmp_path


def site(folder, name, more=""):
    (folder / f"{name}.toml").write_text(
        f'[site]\nname = "{name}"\ndata = "{name}.csv"\ntime = "time"\nkey = "{name}.key"\nfolder = "exchange"\n{more}'
    )


def server(folder, more=""):
    (folder / "server.toml").write_text(
        f'[server]\nrun = "march"\nunits = {list(UNITS)}\nfolder = "exchange"\nkeys = "."\ntimeout = 60\n{more}'
    )


def told(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_a_whole_run_with_real_processes(plant, capsys):
    command = [sys.executable, "-m", "skfedcausal", "run"]
    sites = [
        subprocess.Popen(
            [*command, str(plant / f"{name}.toml"), "--json", "--timeout", "60"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in UNITS
    ]
    assert main(["serve", str(plant / "server.toml"), "--json"]) == 0
    summary = told(capsys)
    answers = [json.loads(process.communicate(timeout=60)[0]) for process in sites]
    assert all(process.returncode == 0 for process in sites)
    here = FederatedGrangerEstimator().fit(X)
    there = np.load(f"{summary['results']}/plant.npz")
    assert_array_equal(there["transition"], here.transition_)
    for direction in ("bytes_up", "bytes_down"):
        assert sum(answer[direction] for answer in answers) == summary[f"wire_{direction}"]
    files = sum(path.stat().st_size for path in plant.glob("exchange/*/outbox/*.packet"))
    assert sum(answer["bytes_up"] for answer in answers) == files
    assert [(link["cause"], link["effect"]) for link in summary["links"]] == [("mill", "kiln")]
    assert main(["verify", str(plant / "mill.toml"), "--html", str(plant / "page.html")]) == 0
    assert "intact" in capsys.readouterr().out
    assert "sufficient statistic" in (plant / "page.html").read_text()


def test_plan_shows_what_would_leave_and_sends_nothing(plant, capsys):
    before = sorted(path.name for path in plant.rglob("*"))
    assert main(["plan", str(plant / "mill.toml"), "--json"]) == 0
    plan = told(capsys)
    assert plan["rows"] == 300
    assert plan["fields"]["z"]["shape"] == [300, 2]
    assert plan["bytes"] < plan["raw_bytes"] / 3
    assert main(["run", str(plant / "mill.toml"), "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "Nothing was sent" in text
    assert "TI0" not in text
    assert sorted(path.name for path in plant.rglob("*")) == before


def test_over_a_one_way_link_everybody_runs_alone(plant, capsys):
    for name in UNITS:
        site(plant, name, 'one_way = true\nrun = "march"\n')
        assert main(["run", str(plant / f"{name}.toml"), "--json"]) == 0
    server(plant, "one_way = true\n")
    assert main(["serve", str(plant / "server.toml"), "--json"]) == 0
    summary = told(capsys)
    assert_array_equal(
        np.load(f"{summary['results']}/plant.npz")["transition"],
        FederatedGrangerEstimator().fit(X).transition_,
    )
    assert summary["wire_bytes_down"] == 0
    assert main(["plan", str(plant / "mill.toml")]) == 0
    assert "nothing (one-way)" in capsys.readouterr().out


def test_a_run_without_its_sites_fails_with_names_and_code_1(plant, capsys):
    server(plant, "")
    text = (plant / "server.toml").read_text().replace("timeout = 60", "timeout = 0.2")
    (plant / "server.toml").write_text(text)
    assert main(["serve", str(plant / "server.toml")]) == 1
    error = capsys.readouterr().err
    assert "'mill' gave no answer: timeout" in error
    assert main(["run", str(plant / "kiln.toml"), "--timeout", "0.2", "--out", str(plant / "none")]) == 1
    assert "No question came" in capsys.readouterr().err


def test_a_ledger_that_was_changed_has_code_1(plant, capsys):
    site(plant, "mill", 'one_way = true\nrun = "march"\n')
    assert main(["run", str(plant / "mill.toml")]) == 0
    path = plant / "home-mill" / "ledger.jsonl"
    head = json.loads(path.read_text().splitlines()[-1])["hash"]
    assert main(["verify", str(path), "--head", head]) == 0
    assert main(["verify", str(path), "--head", "0" * 64]) == 1
    path.write_text(path.read_text().replace('"round": 1', '"round": 2'))
    assert main(["verify", str(path), "--json"]) == 1
    assert "was changed" in told(capsys)["error"]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("dtae = 3\n", "unknown keys 'dtae'"),
        ("max_bytes = 'many'\n", "`max_bytes` is 'many'"),
        ('wire_dtype = "float8"\n', "wire_dtype='float8'"),
        ('inputs = ["valve"]\n', "no column 'valve'"),
        ("[client]\nstates = 3\n", "states"),
        ("= = =\n", "is not TOML"),
    ],
)
def test_settings_that_cannot_be_used_are_explained(plant, more, reason, capsys):
    site(plant, "mill", more)
    assert main(["plan", str(plant / "mill.toml")]) == 1
    assert reason in capsys.readouterr().err


def test_a_time_column_that_was_not_named_is_explained(plant, capsys):
    site(plant, "mill")
    text = (plant / "mill.toml").read_text().replace('time = "time"\n', "")
    (plant / "mill.toml").write_text(text)
    table = (plant / "mill.csv").read_text()
    (plant / "mill.csv").write_text(table.replace("time,", "when,", 1))
    assert main(["plan", str(plant / "mill.toml")]) == 1
    assert "Name it with `time`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ('estimator = "magic"\n', "estimator='magic'"),
        ('[learner]\nkind = "magic"\n', "kind='magic'"),
        ('[[question]]\nunit = "mill"\n', r"[[question]] has"),
        ("quorum = 1.5\n", "quorum=1.5"),
    ],
)
def test_server_settings_that_cannot_be_used_are_explained(plant, more, reason, capsys):
    server(plant, more)
    assert main(["plan", str(plant / "server.toml")]) == 1
    assert reason in capsys.readouterr().err


def test_a_plant_is_watched_over_files(plant, capsys):
    """The record to be watched has a push of the second unit; the site is told the verdict."""
    pushed = {name: Y[:200].copy() for name, Y in X.items()}
    pushed["kiln"][120:] += 8.0 * X["kiln"].std(axis=0)
    sites = []
    for name in UNITS:
        np.save(plant / f"{name}-today.npy", pushed[name])
        site(plant, name, f'watched = "{name}-today.npy"\n')
        settings = read_site_settings(plant / f"{name}.toml")
        serving = FileSite(settings.gate(key=settings.read_key()), settings.folder)
        sites.append(threading.Thread(target=serving.serve, daemon=True))
        sites[-1].start()
    server(plant, 'estimator = "root_cause"\nwatch = true\n[detector]\nfalse_alarm_rate = 0.02\n')
    assert main(["serve", str(plant / "server.toml"), "--json"]) == 0
    summary = told(capsys)
    for thread in sites:
        thread.join()
    here = FederatedRCADetector(false_alarm_rate=0.02).fit(X).incidents(pushed)
    there = pd.read_csv(f"{summary['results']}/incidents.csv")
    assert list(there["start"]) == list(here["start"])
    assert list(there["root"]) == list(here["root"])
    assert_array_equal(there["probability"], here["probability"])
    assert len(summary["incidents"]) == len(here) > 0
    at_home = pd.read_csv(plant / "home-kiln/answers/incidents0.csv")
    assert list(at_home["onset"]) == list(here["start"])


def test_a_plant_is_watched_over_a_one_way_link_batch_by_batch(plant, capsys):
    """Sites run alone, and again with the next batch; the server has thresholds and incidents."""
    pushed = {name: Y[:200].copy() for name, Y in X.items()}
    pushed["kiln"][120:] += 8.0 * X["kiln"].std(axis=0)
    for name in UNITS:
        site(plant, name, f'one_way = true\nrun = "march"\nwatched = "{name}-batches"\n')
        (plant / f"{name}-batches").mkdir()
    detector = "[detector]\nfalse_alarm_rate = 0.02\n"
    server(plant, f'estimator = "root_cause"\none_way = true\nwatch = true\n{detector}')
    for k, rows in enumerate([slice(0, 130), slice(130, 200)]):
        for name in UNITS:
            frame = pd.read_csv(plant / f"{name}.csv").iloc[rows]
            frame.iloc[:, 1:] = pushed[name][rows]
            frame.to_csv(plant / f"{name}-batches/{k}.csv", index=False)
            assert main(["plan", str(plant / f"{name}.toml"), "--json"]) == 0
            assert len(told(capsys)["watched"]) == k + 1
            assert main(["run", str(plant / f"{name}.toml"), "--json"]) == 0
            assert told(capsys)["sent"] == k + 2
        assert main(["serve", str(plant / "server.toml"), "--json"]) == 0
        summary = told(capsys)
    assert summary["thresholds"]
    assert summary["wire_bytes_down"] == 0
    assert not list(plant.glob("exchange/*/inbox/*"))
    here = FederatedRCADetector(false_alarm_rate=0.02).fit(X).incidents(pushed)
    there = pd.read_csv(f"{summary['results']}/incidents.csv")
    assert list(there["start"]) == list(here["start"])
    assert list(there["root"]) == list(here["root"])
    assert "kiln" in list(there["root"])
    for name in UNITS:
        assert main(["verify", str(plant / f"{name}.toml"), "--json"]) == 0
        assert told(capsys)["entries"] == 3


def test_a_long_table_is_read_some_rows_at_a_time(plant, monkeypatch):
    """Same numbers, never all in memory; inputs that move in no chunk are left out."""
    frame = pd.read_csv(plant / "mill.csv")
    frame["valve"] = (np.arange(300) // 100).astype(float)
    frame["stuck"] = 1.0
    frame.to_csv(plant / "mill.csv", index=False)
    site(plant, "mill", 'inputs = ["valve", "stuck"]\n')
    monkeypatch.setattr(site_record, "_CHUNK", 7)
    record = SiteRecord.read(read_site_settings(plant / "mill.toml"))
    assert_array_equal(record.outputs, X["mill"])
    assert_array_equal(record.inputs, frame[["valve"]])
    assert isinstance(record.outputs, np.memmap)
    assert not record.outputs.flags.writeable
