"""NVIDIA FLARE between real processes on this machine: the same numbers, and nothing lost or counted twice.

Needs the extra ``skfedcausal[nvflare]``; skipped without it.
"""

import importlib.util
import socket
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skfedcausal import (
    Communication,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    GradientServer,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
)
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import Failure, InProcessTransport, LostUnits, LostUnitWarning
from skfedcausal.federation.atomic import read_ledger
from skfedcausal.papers import StopRule

if importlib.util.find_spec("nvflare") is None:
    pytest.skip("needs the extra skfedcausal[nvflare]", allow_module_level=True)

from skfedcausal.engines import nvflare_kit

pytestmark = pytest.mark.filterwarnings("ignore")  # the engine's own
UNITS = ("unit0", "unit1", "unit2")
X, TRUTH = make_granger_plant(
    3, n_samples=500, links=[(0, 1), (1, 2)], n_inputs=1, input_links=[(0, 1)], random_state=0
)
U = dict(zip(UNITS, TRUTH.inputs, strict=True))
GARBAGE, REPLAY, SILENCE = 4, 6, 8  # numbers of the questions at which unit2 is hostile in the run "hostile"
PATCHES = f"{Path(__file__).parent / 'hostile'}:{Path(__file__).parents[2]}"


class Federation:
    """A server and three sites as processes; unit2 is hostile in the run of that name."""

    def __init__(self, folder):
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.kits = nvflare_kit.provision(UNITS, folder, port=port)
        for name in UNITS:
            np.save(folder / f"{name}.npy", np.hstack([X[name], U[name]]))
        self.inputs(False)
        patched = {name: {"PYTHONPATH": PATCHES} for name in UNITS}
        patched["unit2"]["HOSTILE_AT"] = f"{GARBAGE},{REPLAY},{SILENCE}"
        self.processes = {
            name: nvflare_kit.start(self.kits[name], **patched.get(name, {})) for name in ("server", *UNITS)
        }

    def inputs(self, with_inputs):
        """Settings of the sites: the last column is an input, or a sensor of no use."""
        for name in UNITS:
            width = X[name].shape[1]
            text = f'[site]\nname = "{name}"\ndata = "{self.folder}/{name}.npy"\nhome = "{self.home(name)}"\n'
            text += f'inputs = ["x{width}"]\n' if with_inputs else ""
            text += '[policy]\noperations = ["train"]\nrounds = 100\nruns = ["*"]\n'
            (self.kits[name] / "local" / "skfedcausal.toml").write_text(text)

    def home(self, name):
        return self.folder / f"home-{name}"

    def end(self, name):
        import psutil

        daemon = psutil.Process(self.processes[name].pid)
        for process in (*daemon.children(recursive=True), daemon):
            process.kill()
        self.processes[name].wait(10)

    def kill_job(self, name):
        """End a site's process of the running job, not the site itself."""
        import psutil

        for process in psutil.Process(self.processes[name].pid).children(recursive=True):
            if "worker_process" in " ".join(process.cmdline()):
                process.kill()

    def settings(self, run, text):
        path = self.folder / f"{run}.toml"
        path.write_text(f'[server]\nrun = "{run}"\nunits = {list(UNITS)}\n{text}')
        return path

    def run(self, run, text, **more):
        path = self.settings(run, text)
        summary = nvflare_kit.submit(path, self.kits["admin"], self.folder / "out", **more)
        return summary, np.load(self.folder / "out" / run / "plant.npz")


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    federation = Federation(tmp_path_factory.mktemp("flare"))
    try:
        yield federation
    finally:
        for name in federation.processes:
            federation.end(name)


def record(with_inputs):
    return X if with_inputs else {name: np.hstack([X[name], U[name]]) for name in UNITS}


def test_plant_links_and_counterfactuals_are_identical(federation):
    federation.inputs(True)
    question = '[[question]]\nunit = "unit0"\nfrom = 0.0\nto = 1.0\nhorizon = 4\n'
    summary, plant = federation.run("whatif", f'estimator = "counterfactual"\ntimeout = 20\n{question}')
    here = FederatedCounterfactualEstimator(server=LikelihoodServer(options=LikelihoodOptions(n_rounds=1))).fit(
        X, inputs=TRUTH.inputs
    )
    assert_array_equal(plant["transition"], here.transition_)
    assert_array_equal(plant["input"], here.input_)
    links = pd.read_csv(federation.folder / "out/whatif/links.csv")
    assert_array_equal(links["norm"], here.links_["norm"])
    effect = here.counterfactual("unit0", 0.0, 1.0, horizon=4)
    for name in UNITS:
        answer = pd.read_csv(federation.home(name) / "answers/effect0.csv", index_col="step")
        columns = [column for column in effect if column.startswith(name)]
        assert_array_equal(answer.iloc[:, : len(columns)], effect[columns])
    for event, counted in (("sent", "wire_bytes_up"), ("taken", "wire_bytes_down")):
        entries = [e for name in UNITS for e in federation_ledger(federation, name) if e["event"] == event]
        assert sum(e["n_bytes"] for e in entries) == summary[counted]


def test_a_site_that_is_killed_takes_part_in_the_next_job_which_goes_on(federation):
    federation.inputs(False)
    journal = federation.folder / "journal"
    text = 'timeout = 5\n[learner]\nkind = "gradient"\nmax_iter = 60\ntol = 0.0\n'
    path = federation.settings("killed", text)
    admin = nvflare_kit.session(federation.kits["admin"])
    settings = nvflare_kit.read_server_settings(path)
    job = admin.submit_job(str(nvflare_kit.job_folder(settings, federation.folder / "job", journal=journal)))
    wait_for(federation.home("unit1") / "runs/killed/00000008.question")
    federation.kill_job("unit1")
    with pytest.raises(RuntimeError):
        nvflare_kit.fetch(admin, job, federation.folder / "out")
    admin.close()
    done = len(list((federation.home("unit0") / "runs/killed").glob("*.question")))
    summary, plant = federation.run("killed", text, journal=journal)
    here = FederatedGrangerEstimator(server=GradientServer(stop=StopRule(max_iter=60, tol=0.0))).fit(record(False))
    assert_array_equal(plant["transition"], here.transition_)
    assert 8 <= done < summary["rounds"]
    for name in UNITS:
        entries = [e for e in federation_ledger(federation, name) if e["run"] == "killed" and e["event"] == "sent"]
        numbers = [e["sequence"] for e in entries]
        assert numbers == sorted(set(numbers))


def test_garbage_an_old_packet_and_silence_are_refused_and_nothing_hangs(federation):
    text = 'timeout = 4.0\nquorum = 2\n[learner]\nkind = "gradient"\nmax_iter = 12\ntol = 0.0\n'
    _, plant = federation.run("hostile", text)
    lost = pd.read_csv(federation.folder / "out/hostile/lost_units.csv")
    assert list(lost["unit"]) == ["unit2"] * 3
    reasons = ["refused .*magic number", "refused .*late or misrouted", "timeout|client-error"]
    for reason, expected in zip(lost["reason"], reasons, strict=True):
        assert pd.Series(reason).str.contains(expected).all(), reason
    here = FederatedGrangerEstimator(
        server=GradientServer(stop=StopRule(max_iter=12, tol=0.0)),
        communication=Communication(transport=LossyTransport, lost_units=LostUnits(quorum=2)),
    )
    with pytest.warns(LostUnitWarning):
        here.fit(record(False))
    assert_array_equal(plant["transition"], here.transition_)


class LossyTransport(InProcessTransport):
    """Loses in this process what the hostile site loses there."""

    asked = 0

    def exchange(self, out, *, timeout=None):
        self.asked += 1
        lost = {"unit2"} if self.asked == SILENCE else set()
        answers = super().exchange({name: packet for name, packet in out.items() if name not in lost})
        gone = {"unit2"} if self.asked in (GARBAGE, REPLAY, SILENCE) else set()
        return answers | dict.fromkeys(gone, Failure("refused"))


@pytest.mark.slow
def test_nothing_after_the_release_needs_the_raw_record(federation):
    """Every site overwrites its record with NaN once its noised copy exists."""
    privacy = "mechanism = 'gaussian'\nepsilon = 8.0\ndelta = 1e-6\nclip_norm = 25.0\nevent_radius = 3.0\n"
    homes = {name: federation.folder / f"private-{name}" for name in UNITS}
    for name in UNITS:
        np.save(federation.folder / f"private-{name}.npy", X[name])
        (federation.kits[name] / "local" / "skfedcausal.toml").write_text(
            f"[site]\nname = '{name}'\ndata = '{homes[name]}.npy'\nhome = '{homes[name]}'\n"
            f"[privacy]\n{privacy}unit = 'event'\nbudget = 8.0\n[policy]\nruns = ['*']\n"
        )
    for run in ("private", "again"):  # another process reads the release
        if run == "again":
            for name in UNITS:
                np.save(federation.folder / f"private-{name}.npy", X[name])
        _, plant = federation.run(run, "timeout = 20\n")
        workers = {}
        for name in UNITS:
            (released,) = (homes[name] / "privacy").glob("*.npy")
            entries = read_ledger(homes[name] / "privacy" / "account.jsonl")
            assert [entry["event"] for entry in entries] == ["charged", "released"]
            variance = np.full(X[name].shape[1], entries[1]["noise"]["std"] ** 2)
            record = np.load(released)
            workers[name] = UnitWorker(name, record, None, (0,), (), KalmanClient(), noise=variance)
            assert np.isnan(np.load(federation.folder / f"private-{name}.npy")).all()
        here = FederatedGrangerEstimator().fit_sites(InProcessTransport(workers))
        assert_array_equal(plant["transition"], here.transition_)


def federation_ledger(federation, name):
    return read_ledger(federation.home(name) / "ledger.jsonl")


def wait_for(path, seconds=60.0):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.01)
