"""Real processes that are killed, started twice, or run out of room: the same bits, every ledger whole."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skfedcausal import FederatedGrangerEstimator, GradientServer
from skfedcausal.__main__ import main
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import verify_ledger
from skfedcausal.papers import StopRule

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and limits of posix")
UNITS = ("mill", "kiln", "silo")
X, _ = make_granger_plant(3, names=UNITS, n_samples=300, random_state=3)
TRAINED = '[policy]\noperations = ["train"]\nrounds = 100\n'


@pytest.fixture(scope="module")
def here():
    """The plant as a fit in one process learns it."""
    return FederatedGrangerEstimator().fit(X).transition_


@pytest.fixture
def plant(tmp_path):
    return new_plant(tmp_path)


def new_plant(folder, policy="", learner=""):
    for name in UNITS:
        np.save(folder / f"{name}.npy", X[name])
        main(["key", str(folder / f"{name}.key"), "--json"])
        (folder / f"{name}.toml").write_text(
            f'[site]\nname = "{name}"\ndata = "{name}.npy"\nkey = "{name}.key"\nfolder = "exchange"\n{policy}'
        )
    (folder / "server.toml").write_text(
        f'[server]\nrun = "march"\nunits = {list(UNITS)}\nfolder = "exchange"\nkeys = "."\ntimeout = 60\n{learner}'
    )
    return folder


def start(plant, command, name, *more, **how):
    return subprocess.Popen(
        [sys.executable, "-m", "skfedcausal", command, str(plant / f"{name}.toml"), "--json", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **how,
    )


def started(plant):
    return {name: start(plant, "run", name) for name in UNITS} | {"server": start(plant, "serve", "server")}


def learned(plant):
    return np.load(plant / "results" / "march" / "plant.npz")["transition"]


def check_ledgers(plant):
    """Every ledger is whole, has no byte twice, and its sums are those of the files that left."""
    for name in UNITS:
        path = plant / f"home-{name}" / "ledger.jsonl"
        verify_ledger(path)
        assert main(["verify", str(plant / f"{name}.toml"), "--json"]) == 0
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        sent = [(line["sequence"], line["sha256"]) for line in lines if line["event"] == "sent"]
        assert len(set(sent)) == len(sent)


def was_closed(plant, name):
    """Whether the site has answered that the run is over; started again it waits for another run."""
    path = plant / f"home-{name}" / "ledger.jsonl"
    *_, asked, answered = ["", "", *(path.read_text().splitlines() if path.exists() else ())]
    return '"close"' in asked and '"done"' in answered


def end(processes, timeout=60):
    for process in processes.values():
        process.communicate(timeout=timeout)
    return {name: process.returncode for name, process in processes.items()}


@pytest.mark.slow
def test_thirty_kills_at_random_moments(tmp_path):
    """Sites and server of runs of many rounds, killed and started again until they end."""
    kills, chance, number = 0, random.Random(0), 0
    learner = '[learner]\nkind = "gradient"\nmax_iter = 30\ntol = 0.0\n'
    here = FederatedGrangerEstimator(server=GradientServer(stop=StopRule(max_iter=30, tol=0.0))).fit(X).transition_
    while kills < 30:
        plant, number = tmp_path / f"{number}", number + 1
        plant.mkdir()
        new_plant(plant, TRAINED, learner)
        processes, killed = started(plant), 0
        while processes["server"].poll() is None:
            time.sleep(chance.uniform(0.3, 2.0))
            name = chance.choice([*processes])
            if killed < 8 and processes[name].poll() is None:
                processes[name].send_signal(signal.SIGKILL)
                processes[name].communicate()
                if name == "server":
                    processes[name] = start(plant, "serve", name)
                elif not was_closed(plant, name):
                    processes[name] = start(plant, "run", name)
                killed += 1
        codes = end(processes)
        assert all(code in ({0, -signal.SIGKILL} if name in UNITS else {0}) for name, code in codes.items())
        assert all(was_closed(plant, name) for name in UNITS)
        assert_array_equal(learned(plant), here)
        check_ledgers(plant)
        kills += killed
        assert killed, "no process lived long enough to be killed"


@pytest.mark.slow
def test_two_processes_of_a_site_and_two_servers(plant, here):
    mills = {f"mill {k}": start(plant, "run", "mill") for k in range(2)}
    servers = {f"server {k}": start(plant, "serve", "server") for k in range(2)}
    codes = end(mills | servers | {name: start(plant, "run", name) for name in UNITS[1:]})
    assert sorted(codes.pop(name) for name in mills) == [0, 1]  # whoever comes second leaves
    assert set(codes.values()) == {0}  # and a second server waits for the first
    assert_array_equal(learned(plant), here)
    check_ledgers(plant)


@pytest.mark.slow
@pytest.mark.parametrize("room", [200, 2000, 5000])
def test_without_room_for_files_a_site_leaves_cleanly_and_completes_afterwards(plant, here, room):
    """A limit on the size of files stands for a full disk: what is written comes to its end within a line."""

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    full = start(plant, "run", "mill", preexec_fn=limited)
    others = {name: start(plant, "run", name) for name in UNITS[1:]} | {"server": start(plant, "serve", "server")}
    error = full.communicate(timeout=60)[1]
    assert full.returncode == 1
    assert "OSError" in error
    assert "Traceback" not in error
    assert set(end(others | {"mill": start(plant, "run", "mill")}).values()) == {0}
    assert_array_equal(learned(plant), here)
    check_ledgers(plant)
    assert not list(plant.rglob("*.part"))
