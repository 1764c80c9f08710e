"""Sites without Python skills: settings files, plan, run, serve, verify; as real processes once."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    InputModel,
    LikelihoodOptions,
    LikelihoodServer,
    inspection,
)
from skfedcausal.__main__ import main
from skfedcausal.client import site_record
from skfedcausal.client.site_record import SettingsError, SiteRecord
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import FileSite, InProcessTransport
from skfedcausal.federation.atomic import only_one
from skfedcausal.federation.exchange import Site
from skfedcausal.sites.settings import csv_bytes
from skfedcausal.sites.site import read_site_settings

pytestmark = pytest.mark.medium

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


def plan_of(settings, capsys):
    """What `plan` says of a settings file."""
    assert main(["plan", str(settings)]) == 0
    return capsys.readouterr().out


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
    assert '<p class="lead">mill drives kiln' in Path(f"{summary['results']}/report.html").read_text("utf-8")
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


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ('[policy]\noperation = ["refine"]\n', "unknown keys 'operation'"),
        ('[policy]\noperations = ["refnie"]\n', "operations=['refnie'] of the policy are not known"),
        ("[policy]\nrounds = 0\n", "rounds=0 of the policy"),
        ('[policy]\nrounds = "all"\n', "`rounds` is 'all'"),
        ("max_bytes = -1\n", "max_bytes (line 7) = -1"),
        ("timeout = nan\n", "timeout (line 7) = nan"),
        ("wait = -3\n", "wait (line 7) = -3"),
    ],
)
def test_a_policy_and_numbers_that_cannot_be_meant_are_explained(plant, more, reason, capsys):
    site(plant, "mill", more)
    assert main(["plan", str(plant / "mill.toml")]) == 1
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("timeout = 60", "timeout = -1", "timeout (line 6) = -1"),
        ("timeout = 60", "timeout = nan", "timeout (line 6) = nan"),
        ("['mill', 'kiln']", "[1, 2]", "units = [1, 2]"),
        ("['mill', 'kiln']", '["mill", "mill"]', "each once"),
        ("['mill', 'kiln']", "[]", "units = []"),
        ("['mill', 'kiln']", '["mill", "Mill"]', "differ in case only"),
        ("timeout = 60", "max_frame = 0", "max_frame (line 6) = 0"),
        ('"march"', '"con"', "'con' cannot name"),
        ('"march"', f'"{300 * "m"}"', "A name of 300 bytes"),
    ],
)
def test_units_and_times_that_cannot_be_meant_are_explained(plant, old, new, reason, capsys):
    path = plant / "server.toml"
    path.write_text(path.read_text().replace(old, new))
    assert main(["plan", str(path)]) == 1
    assert reason in capsys.readouterr().err


# --- the policy -----------------------------------------------------------------------------------


def test_plan_shows_the_policy_and_the_worst_case(plant, capsys):
    assert main(["plan", str(plant / "mill.toml"), "--json"]) == 0
    plan = told(capsys)
    assert plan["policy"] == "operations fit; 1 rounds; the first run"
    assert (plan["worst_case"]["rank"], plan["worst_case"]["n_sensors"], plan["worst_case"]["exact"]) == (4, 8, False)
    site(plant, "mill", 'run = "march"\n[policy]\noperations = ["refine"]\nrounds = 4\ntotal_bytes = 99999\n')
    text = plan_of(plant / "mill.toml", capsys)
    assert "operations refine; 4 rounds; runs march; total_bytes 99999" in text
    assert "8 of 8 projections of every row: EXACT." in text
    assert "Never" not in text
    site(plant, "mill", 'one_way = true\nrun = "march"\n[policy]\noperations = ["refine"]\nrounds = 4\n')
    assert main(["plan", str(plant / "mill.toml"), "--json"]) == 0
    assert told(capsys)["worst_case"]["rank"] == 2  # nobody asks


def test_plan_says_that_states_which_tell_the_record_are_refused(plant, capsys):
    pd.read_csv(plant / "mill.csv").iloc[:, :2].to_csv(plant / "mill.csv", index=False)
    text = plan_of(plant / "mill.toml", capsys)
    assert "The policy refuses to send it: the states are as many as the sensors" in text
    site(plant, "mill", "[policy]\nallow_exact = true\n")
    text = plan_of(plant / "mill.toml", capsys)
    assert "as many states as sensors" in text
    assert "1 of 1 projections of every row: EXACT" in text
    assert "refuses" not in text


def test_a_question_beyond_the_policy_fails_with_what_would_allow_it(plant, capsys):
    sites = [read_site_settings(plant / f"{name}.toml") for name in UNITS]
    gates = [settings.gate(key=settings.read_key()) for settings in sites]
    threads = [threading.Thread(target=FileSite(gate, plant / "exchange").serve, daemon=True) for gate in gates]
    for thread in threads:
        thread.start()
    server(plant, "[learner]\nn_rounds = 2\n")
    assert main(["serve", str(plant / "server.toml")]) == 1
    error = capsys.readouterr().err
    for name in UNITS:
        assert f"Client '{name}' gave no answer: refused by its policy, 'refine'" in error
    assert '`operations` of its [policy] does not name it; the site would allow it with "refine" there' in error
    server(plant)
    (plant / "server.toml").write_text((plant / "server.toml").read_text().replace('"march"', '"april"'))
    assert main(["serve", str(plant / "server.toml")]) == 1
    assert "`runs` of its [policy] does not name this run" in capsys.readouterr().err
    for gate in gates:
        gate.closed = True


# --- one process, private files, repair -----------------------------------------------------------


def test_a_second_process_of_a_site_leaves_and_the_first_goes_on(plant, capsys):
    with only_one(plant / "home-mill" / "lock", "the site"):
        assert main(["run", str(plant / "mill.toml"), "--timeout", "1"]) == 1
    assert "Another process is running site 'mill'" in capsys.readouterr().err
    assert main(["run", str(plant / "mill.toml"), "--timeout", "0.1"]) == 1
    assert "No question came" in capsys.readouterr().err


def test_what_a_site_and_its_server_keep_is_private(plant):
    for name in UNITS:
        site(plant, name, 'one_way = true\nrun = "march"\n')
        (plant / f"home-{name}").mkdir(mode=0o755)
        (plant / f"home-{name}" / "old.txt").write_text("of an earlier version")
        assert main(["run", str(plant / f"{name}.toml"), "--json"]) == 0
    server(plant, "one_way = true\n")
    assert main(["serve", str(plant / "server.toml"), "--json"]) == 0
    for folder in (plant / "home-mill", plant / "home-kiln", plant / "results" / "journal"):
        for path in (folder, *folder.rglob("*")):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_broken_ledger_is_repaired_and_the_site_goes_on(plant, capsys):
    site(plant, "mill", 'one_way = true\nrun = "march"\n')
    assert main(["repair", str(plant / "mill.toml")]) == 1
    assert "There is no ledger" in capsys.readouterr().err
    assert main(["run", str(plant / "mill.toml")]) == 0
    path = plant / "home-mill" / "ledger.jsonl"
    path.write_text(path.read_text().replace('"round": 1', '"round": 2'))
    assert main(["run", str(plant / "mill.toml")]) == 1
    assert "repair" in capsys.readouterr().err
    assert main(["repair", str(plant / "mill.toml")]) == 0
    text = capsys.readouterr().out
    assert "0 lines are intact" in text
    assert "1 lines (line 1: was changed after it was written)" in text
    assert main(["run", str(plant / "mill.toml")]) == 0
    assert main(["verify", str(plant / "mill.toml")]) == 0


def test_an_export_that_was_put_right_comes_back_by_the_same_commands(plant, capsys):
    """One row less in one of two exports without times: nobody can say who is right. Then the row is there."""
    for name in UNITS:
        table = pd.read_csv(plant / f"{name}.csv").drop(columns="time")
        table.to_csv(plant / f"{name}.csv", index=False)
        settings = (plant / f"{name}.toml").read_text()
        (plant / f"{name}.toml").write_text(settings.replace('time = "time"\n', ""))
    whole = (plant / "kiln.csv").read_text()
    (plant / "kiln.csv").write_text(whole[: whole.rstrip().rfind("\n") + 1])
    server(plant, "quorum = 1\n")
    assert run_with_sites(plant) == 1
    error = capsys.readouterr().err
    assert "'kiln' sent 299 rows" in error
    assert "'mill' sent 300 rows" in error
    (plant / "kiln.csv").write_text(whole)
    assert run_with_sites(plant) == 0
    there = np.load(plant / "results" / "march" / "plant.npz")["transition"]
    assert_array_equal(there, FederatedGrangerEstimator().fit(X).transition_)
    assert main(["verify", str(plant / "kiln.toml")]) == 0
    capsys.readouterr()
    assert main(["plan", str(plant / "kiln.toml"), "--json"]) == 0
    assert told(capsys)["worst_case"]["rank"] == 6  # two forms of the record were asked about, and two sensors


def run_with_sites(plant):
    """Exit code of a server while the sites run."""
    stop, threads = [], []
    for name in UNITS:
        settings = read_site_settings(plant / f"{name}.toml")
        serve = FileSite(settings.gate(key=settings.read_key()), settings.folder).serve
        threads.append(threading.Thread(target=serve, kwargs={"stop": lambda: stop}, daemon=True))
        threads[-1].start()
    code = main(["serve", str(plant / "server.toml"), "--json"])
    stop.append(True)
    for thread in threads:
        thread.join(10)
    return code


def test_no_table_holds_a_formula(tmp_path):
    table = pd.DataFrame({"cause": ["=HYPERLINK(1)", "mill"], "strength": [-1.5, 2.0], "-unit": ["@SUM", "+1+1"]})
    text = csv_bytes(table, index=False).decode()
    assert text.splitlines() == ["cause,strength,'-unit", "'=HYPERLINK(1),-1.5,'@SUM", "mill,2.0,'+1+1"]


def test_numbers_that_are_text_are_no_formulas():
    table = pd.DataFrame({"level": ["-1.5", "+2e3", "-", "-1.5 ", "-x"]})
    assert csv_bytes(table, index=False).decode().split("\n")[1:-1] == ["-1.5", "+2e3", "'-", "'-1.5 ", "'-x"]


def test_a_time_column_that_was_not_named_is_explained(plant, capsys):
    site(plant, "mill")
    text = (plant / "mill.toml").read_text().replace('time = "time"\n', "")
    (plant / "mill.toml").write_text(text)
    table = pd.read_csv(plant / "mill.csv").rename(columns={"time": "when"})
    table.to_csv(plant / "mill.csv", index=False)
    assert main(["plan", str(plant / "mill.toml")]) == 0  # the first column holds times
    table[[*table.columns[1:], "when"]].to_csv(plant / "mill.csv", index=False)
    assert main(["plan", str(plant / "mill.toml")]) == 0  # the only one that holds times
    capsys.readouterr()
    table.assign(then=table["when"])[[*table.columns[1:], "when", "then"]].to_csv(plant / "mill.csv", index=False)
    assert main(["plan", str(plant / "mill.toml")]) == 1
    assert "Name it: time=..." in capsys.readouterr().err


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
    detector = FederatedRCADetector(false_alarm_rate=0.02).fit(X)
    tags = pd.read_csv(plant / "home-kiln/answers/tags0.csv", keep_default_na=False)
    for _, incident in here[[ranking[0][0] == "kiln" for ranking in here["ranking"]]].iterrows():
        own, expected = tags[tags["onset"] == incident["start"]], inspection.tags(detector, pushed, incident)
        assert_allclose(np.sort(own["explained"]), np.sort(expected["explained"]), rtol=1e-6)
    page = (plant / "home-kiln/answers/tags0.html").read_text()
    assert page.count("<img") == tags["onset"].nunique()
    assert f"Incident from row {here['start'].iloc[0]:,} on" in page
    assert tags["tag"].iloc[0] in page


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


def _with_inputs(plant, name="mill"):
    frame = pd.read_csv(plant / f"{name}.csv")
    rng = np.random.default_rng(0)
    frame["valve"], frame["load"], frame["stuck"] = rng.standard_normal(300), rng.random(300), 1.0
    frame.to_csv(plant / f"{name}.csv", index=False)
    return frame


def test_a_site_sends_columns_of_its_inputs_and_those_of_the_next_row(plant):
    frame = _with_inputs(plant)
    more = 'inputs = ["valve", "stuck", "load"]\nlengths = [100, 200]\n'
    site(plant, "mill", more + 'basis = {valve = "spline"}\nsampled = {load = "before"}\n')
    settings = read_site_settings(plant / "mill.toml")
    record = settings.record()
    u = frame["valve"].to_numpy()
    bends = np.quantile(u, [0.25, 0.5, 0.75])
    assert_array_equal(record.inputs[:, 0], u)
    assert_array_equal(record.inputs[:, 1:4], np.maximum(u[:, None] - bends, 0.0))
    load = frame["load"].to_numpy()
    assert_array_equal(record.inputs[:, 4], [*load[1:100], load[99], *load[101:], load[-1]])
    assert record.inputs.shape == (300, 5)
    assert record.fingerprint != SiteRecord.read(settings).fingerprint
    site(plant, "mill", more)
    assert_array_equal(read_site_settings(plant / "mill.toml").record().inputs, frame[["valve", "load"]])


STUCK = 'inputs = ["valve", "stuck"]\ninstruments = {valve = "stuck"}\n'


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('basis = {load = "spline"}', "`basis` names 'load'; the `inputs` are 'valve'"),
        ('basis = "cubic"', "`basis` is 'cubic'; choose 'linear', 'spline'"),
        ('sampled = {valve = "now"}', "`sampled` is 'now'; choose 'after', 'before'"),
        ("sampled = 3", "`sampled` is 3, of the wrong kind"),
        ('instruments = {valve = "load"}', "`instruments` names 'load'; the `inputs` are 'valve'"),
        ('instruments = {valve = "valve"}', "`instruments` names an input twice"),
        ('instruments = "load"', "`instruments` is 'load', of the wrong kind"),
        (f'{STUCK}basis = "spline"', "`instruments` explain inputs that act as they are: leave out `basis`"),
        (f'{STUCK}sampled = "after"', "`instruments` names 'stuck', which never move"),
    ],
)
def test_settings_of_inputs_that_cannot_be_meant(plant, more, said):
    _with_inputs(plant)
    site(plant, "mill", more if more.startswith("inputs") else f'inputs = ["valve"]\n{more}\n')
    with pytest.raises(SettingsError, match=said):
        read_site_settings(plant / "mill.toml").record()


def test_a_weak_instrument_is_said_at_the_site(plant, caplog):
    _with_inputs(plant)
    site(plant, "mill", 'inputs = ["valve", "load"]\ninstruments = {valve = "load"}\n')
    record = read_site_settings(plant / "mill.toml").record()
    assert record.inputs.shape == (300, 1)
    assert "'load' explains" in caplog.text


def test_an_instrument_said_at_the_site_gives_the_plant_of_a_fit_with_it(plant):
    frame = _with_inputs(plant)
    frame["valve"] += 6 * frame["load"]
    frame.to_csv(plant / "mill.csv", index=False)
    site(plant, "mill", 'inputs = ["valve", "load", "stuck"]\ninstruments = {valve = "load"}\n')
    gates = {name: read_site_settings(plant / f"{name}.toml").gate() for name in UNITS}
    settings = {"server": LikelihoodServer(max_time=5.0, options=LikelihoodOptions(level_shifts=None))}
    transport = InProcessTransport({name: Site(gate.worker) for name, gate in gates.items()})
    told = FederatedCounterfactualEstimator(**settings).fit_sites(transport)
    sensors = {name: pd.read_csv(plant / f"{name}.csv").drop(columns=["time"]) for name in UNITS}
    sensors["mill"] = sensors["mill"].drop(columns=["stuck"])
    plain = FederatedCounterfactualEstimator(
        input_columns=["mill__valve", "mill__load"],
        input_model=InputModel(instruments={"mill__valve": "load"}),
        **settings,
    ).fit(sensors)
    assert_array_equal(told.server_.transition_, plain.server_.transition_)
    assert_array_equal(told.server_.input_, plain.server_.input_)
    effects = [one.counterfactual("mill", 0.0, 1.0, horizon=5, return_std=True) for one in (told, plain)]
    for one, two in zip(*effects, strict=True):
        pd.testing.assert_frame_equal(one, two, check_exact=True)


def test_what_sites_send_is_what_a_fit_in_one_process_sends(plant):
    """The same basis and timing said at the site and to the estimator: one plant."""
    frame = _with_inputs(plant)
    site(
        plant, "mill", 'inputs = ["valve", "load", "stuck"]\nbasis = {valve = "spline"}\nsampled = {load = "before"}\n'
    )
    sites = {name: read_site_settings(plant / f"{name}.toml").gate() for name in UNITS}
    workers = {name: Site(gate.worker) for name, gate in sites.items()}
    settings = {"server": LikelihoodServer(max_time=5.0, options=LikelihoodOptions(level_shifts=None))}
    told = FederatedCounterfactualEstimator(**settings).fit_sites(InProcessTransport(workers))
    sensors = {name: pd.read_csv(plant / f"{name}.csv").drop(columns=["time"]) for name in UNITS}
    sensors["mill"] = sensors["mill"].drop(columns=["stuck"])
    plain = FederatedCounterfactualEstimator(
        input_columns=["mill__valve", "mill__load"],
        sampled={"mill__load": "before"},
        input_model=InputModel(basis={"mill__valve": "spline"}),
        **settings,
    ).fit(sensors)
    assert_array_equal(told.server_.transition_, plain.server_.transition_)
    assert_array_equal(told.server_.input_, plain.server_.input_)
    assert len(frame.columns) > 3
