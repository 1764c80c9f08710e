"""What judging messages and holding sites to their policies costs, as a share of a fit's time.

Run ``python -m benchmarks.trust_costs``; it writes a table.
"""

import tempfile
import threading
import time
from contextlib import contextmanager
from statistics import median

from skfedcausal import FederatedGrangerEstimator, FederatedRCADetector, KalmanClient
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import FileSite, FileTransport, Gate, LostUnits, SitePolicy, content

from ._report import table, write

REPEATS = 7
SIZES = [(4, 2000), (4, 20_000), (16, 2000), (16, 20_000)]
DOOR = ("check_run", "check_question", "check_answer")


@contextmanager
def timed(*places):
    """Seconds that are spent in functions, each an object and a name, in a list of one number."""
    spent, originals = [0.0], [(owner, name, getattr(owner, name)) for owner, name in places]

    def timing(function):
        def timed_function(*args, **kwargs):
            started = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent[0] += time.thread_time() - started

        return timed_function

    for owner, name, function in originals:
        setattr(owner, name, timing(function))
    try:
        yield spent
    finally:
        for owner, name, function in originals:
            setattr(owner, name, function)


def in_one_process(kind, X):
    """Seconds of a fit and of the judgement of its messages."""
    with timed((content, "unusable"), (content.Expected, "learn")) as spent:
        started = time.perf_counter()
        kind(lost_units=LostUnits(quorum=0.5)).fit(X)
        return time.perf_counter() - started, spent[0]


def over_files(kind, X):
    """The same over files, with the doors of all sites."""
    keys = {name: bytes([k + 1]) * 32 for k, name in enumerate(X)}
    with tempfile.TemporaryDirectory() as folder:
        threads = []
        for name, Y in X.items():
            worker = UnitWorker(name, Y, None, (0,), None, KalmanClient(), monitor=kind is FederatedRCADetector)
            gate = Gate(name, worker, f"{folder}/home/{name}", key=keys[name], policy=SitePolicy())
            threads.append(threading.Thread(target=FileSite(gate, f"{folder}/exchange").serve, daemon=True))
        places = [(content, "unusable"), (content.Expected, "learn"), *((SitePolicy, name) for name in DOOR)]
        with timed(*places) as spent:
            started = time.perf_counter()
            for thread in threads:
                thread.start()
            transport = FileTransport(f"{folder}/exchange", list(X), "march", keys)
            kind(lost_units=LostUnits(quorum=0.5)).fit_sites(transport)
            seconds = time.perf_counter() - started
            transport.close()
            for thread in threads:
                thread.join()
        return seconds, spent[0]


def main():
    """Measure and write the table."""
    rows = []
    for where, measure in {"one process": in_one_process, "files": over_files}.items():
        for kind in (FederatedGrangerEstimator, FederatedRCADetector):
            for n_units, n_samples in SIZES:
                X, _ = make_granger_plant(n_units, n_samples=n_samples, random_state=0)
                took = [measure(kind, X) for _ in range(REPEATS)]
                seconds, spent = (median(one) for one in zip(*took, strict=True))
                sizes = {"fit": f"{kind.__name__}, {where}", "units": n_units, "rows": n_samples}
                cost = {"policy and checks": f"{spent:.4f}", "share": f"{spent / seconds:.1%}"}
                rows.append(sizes | {"seconds": f"{seconds:.3f}"} | cost)
    write(
        "trust_costs",
        "What judging messages and holding sites to their policies costs",
        f"Medians of {REPEATS} fits with `LostUnits(quorum=0.5)`, seconds of the whole fit and those in policies and "
        "checks; over files every site has the default policy.",
        table(rows),
    )


if __name__ == "__main__":
    main()
