"""Rounds and cold start on NVIDIA FLARE: a server and three sites as real processes on this machine.

``python -m benchmarks.engine`` (needs the extra ``skfedcausal[nvflare]``).
"""

import shutil
import socket
import tempfile
import time
from pathlib import Path

import numpy as np

from skfedcausal import FederatedGrangerEstimator
from skfedcausal.datasets import make_granger_plant
from skfedcausal.engines import nvflare_kit


def free_port():
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def set_up(folder, X):
    """Kits and settings of a server and its sites."""
    kits = nvflare_kit.provision(list(X), folder, port=free_port())
    for name, Y in X.items():
        np.save(folder / f"{name}.npy", Y)
        text = f'[site]\nname = "{name}"\ndata = "{folder}/{name}.npy"\nhome = "{folder}/home-{name}"\n'
        (kits[name] / "local" / "skfedcausal.toml").write_text(text)
    return kits


def settings(folder, run, learner=""):
    """Settings file of a run."""
    path = folder / f"{run}.toml"
    path.write_text(
        f'[server]\nrun = "{run}"\nunits = ["unit0", "unit1", "unit2"]\ntimeout = 20\n[learner]\n{learner}\n'
    )
    return path


def main():
    """Print the table."""
    folder = Path(tempfile.mkdtemp())
    X, _ = make_granger_plant(3, n_samples=1000, random_state=0)
    started = time.time()
    kits = set_up(folder, X)
    print(f"certificates and kits: {time.time() - started:.1f} s")
    began = time.time()
    processes = {name: nvflare_kit.start(kits[name]) for name in ("server", *X)}
    admin = None
    try:
        path = settings(folder, "oneshot")
        admin = nvflare_kit.session(kits["admin"])
        print(f"server answers after {time.time() - began:.1f} s")
        for run, learner in (
            ("oneshot", ""),
            ("again", ""),
            ("rounds", 'kind = "gradient"\nmax_iter = 100\ntol = 0.0'),
            ("moments", 'kind = "gradient"\nexchange = "moments"\nmax_iter = 100\ntol = 0.0'),
        ):
            path = settings(folder, run, learner)
            submitted = time.time()
            config = nvflare_kit.read_server_settings(path)
            job = nvflare_kit.job_folder(config, folder / f"job-{run}")
            summary = nvflare_kit.fetch(admin, admin.submit_job(str(job)), folder / "out")
            written = summary["written"]
            here = FederatedGrangerEstimator(server=config.new_estimator().server).fit(X)
            there = np.load(folder / "out" / run / "plant.npz")["transition"]
            print(
                f"{run}: submitted -> result {written - submitted:.1f} s (cold {written - began:.1f} s), -> finished "
                f"{time.time() - submitted:.1f} s, rounds {summary['rounds']}, median "
                f"{summary['median_round_seconds']:.4f} s a round, bitwise {np.array_equal(there, here.transition_)}"
            )
    finally:
        if admin is not None:
            admin.shutdown("all")
        for process in processes.values():
            try:
                process.wait(15)
            except Exception:
                process.terminate()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
