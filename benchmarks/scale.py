"""A thousand units: seconds, memory, errors and links found of plants of 16 to 1000 units, beside other methods.

``python -m benchmarks.scale [--units 16 64 256 1000] [--jobs 2] [--ideal] [--rivals] [--backends]``. Every fit runs in
a process of its own, so that peak memory is its own, records as files that are mapped into memory. ``--backends`` needs
dask and ray, rivals PCMCI the package tigramite; what is not installed is left out. ``--missing 0.01`` leaves out a
share of the cells, ``--inputs 10`` gives every tenth unit an input, ``--relayed 5`` lets as many act on another unit as
well: these print their rows and leave the written tables alone.
"""

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import joblib
import numpy as np
from scipy import stats
from statsmodels.tsa.api import VAR

from skfedcausal import FederatedCounterfactualEstimator, FederatedGrangerEstimator, KalmanClient, LikelihoodServer
from skfedcausal.server.estimation.scoring import Structure
from skfedcausal.server.sparse.cover import cores, neighbours, with_halo
from skfedcausal.statespace.fisher import InformationColumns
from skfedcausal.statespace.partition import Partition
from skfedcausal.statespace.whittle import WhittleLikelihood

from ._best_selection import best_selection
from ._plants import weak_links
from ._report import table, write

LEVEL, ROWS = 0.05, 5000
LIMITS = {16: 0.3, 64: 2.0, 256: 20.0, 1000: 300.0}


# -- records -----------------------------------------------------------------------------------------


def saved(folder, n_units, seed, missing=0.0, every=0, n_relayed=0):
    """A simulated plant as files, made once; with gaps, and with an input of every so many units."""
    place = folder / f"{n_units}_{seed}_{missing}_{every}_{n_relayed}"
    if not place.exists():
        more: dict = {"missing": missing} if missing else {}
        if every:
            more |= {"n_inputs": [int(m % every == 0) for m in range(n_units)], "n_input_links": n_relayed}
        X, truth = weak_links(n_units, ROWS, seed, **more)
        place.mkdir(parents=True)
        for name, Y in X.items():
            np.save(place / f"{name}.npy", Y)
        if every:
            with_inputs = {name: u for name, u in zip(truth.names, truth.inputs, strict=True) if u is not None}
            np.savez(place / "inputs.npz", B=truth.input, **with_inputs)
        C, R = np.stack(truth.observation), np.stack(truth.measurement_cov)
        np.savez(place / "truth.npz", A=truth.transition, Q=truth.process_cov, C=C, R=R, names=truth.names)
    return place


class Truth:
    """The plant behind saved records."""

    def __init__(self, place):
        kept = np.load(place / "truth.npz")
        self.A, self.Q, self.C, self.R = (kept[name] for name in "AQCR")
        self.names = kept["names"].tolist()
        self.n_units, self.p = len(self.C), self.C.shape[2]
        self.X = {name: np.load(place / f"{name}.npy", mmap_mode="r") for name in self.names}
        self.inputs, self.B = None, np.zeros((len(self.A), 0))
        if (place / "inputs.npz").exists():
            self.inputs = dict(np.load(place / "inputs.npz"))
            self.B = self.inputs.pop("B")

    @property
    def links(self):
        """Pairs (effect, cause), a boolean matrix."""
        p, m = self.p, self.n_units
        linked = self.A.reshape(m, p, m, p).any(axis=(1, 3))
        return linked & ~np.eye(m, dtype=bool)

    def noise(self):
        """Covariances of the units' scores."""
        return [np.linalg.inv(C.T @ np.linalg.solve(R, C)) for C, R in zip(self.C, self.R, strict=True)]

    def clients(self):
        """Clients that know their loadings and nothing else."""
        return [KalmanClient(C=C) for C in self.C]


def known_links(truth):
    """Blocks of the links (k, p * p), and their Cramér-Rao covariances given which links there are.

    Block by block: six units and their neighbours.
    """
    links, p = truth.links, truth.p
    pairs = np.argwhere(links)
    blocks = truth.A.reshape(truth.n_units, p, truth.n_units, p)
    strength = [np.linalg.norm(blocks[e, :, c]) for e, c in pairs]
    near = neighbours(truth.n_units, pairs, strength, [])
    causes = [np.flatnonzero(row).tolist() for row in links]
    noise, found, covariances = truth.noise(), [], []
    for core in cores(near, 6):
        members = with_halo(core, near, causes, 30)
        states = (np.array(members)[:, None] * p + np.arange(p)).ravel()
        at = np.ix_(states, states)
        partition = Partition([p] * len(members))
        linked = links[np.ix_(members, members)][tuple(partition.pairs.T)]
        structure = Structure(partition, linked=linked)
        N = np.zeros((len(states),) * 2)
        for k, m in enumerate(members):
            N[k * p : (k + 1) * p, k * p : (k + 1) * p] = noise[m]
        likelihood = WhittleLikelihood(_NoMoments(len(states)), N)
        info = likelihood.information(truth.A[at], truth.Q[at])
        free = structure.free
        covariance = np.linalg.inv(InformationColumns(info, free).square()) / ROWS
        of_pair = free.rows // p * len(members) + free.cols // p
        for effect, cause in partition.pairs[linked & (partition.pairs[:, 0] < len(core))]:
            own = np.flatnonzero(of_pair == effect * len(members) + cause)
            own = own[np.lexsort((free.cols[own], free.rows[own]))]
            found.append(blocks[members[effect], :, members[cause]].ravel())
            covariances.append(covariance[np.ix_(own, own)])
    return np.array(found), np.array(covariances)


def bound(truth):
    """Cramér-Rao error of the known links relative to their norm."""
    blocks, covariances = known_links(truth)
    return float(np.sqrt(np.trace(covariances, axis1=1, axis2=2).sum()) / np.linalg.norm(blocks))


def ideal(place, n_jobs):
    """What the best selection among all pairs could do."""
    truth = Truth(place)
    return best_selection(*known_links(truth), truth.n_units * (truth.n_units - 1), LEVEL)


class _NoMoments:
    """Lag covariances of nothing, for the expected information."""

    n_transitions = ROWS

    def __init__(self, n, n_lags=24):
        self.late = self.early = np.zeros((n_lags + 1, n, n))

    def spectra(self, frequencies):
        return (np.zeros((len(frequencies), *self.late.shape[1:]), dtype=complex),) * 3


# -- parts, each in a process of its own -----------------------------------------------------------


def fitted(place, n_jobs, identified=False):
    """Seconds of a fit, its memory, and what it found."""
    truth = Truth(place)
    clients = None if identified else truth.clients()
    kind = FederatedGrangerEstimator if truth.inputs is None else FederatedCounterfactualEstimator
    estimator = kind(clients, server=LikelihoodServer(), n_jobs=n_jobs)
    known = {} if truth.inputs is None else {"inputs": truth.inputs}
    began, used = time.perf_counter(), time.process_time()
    estimator.fit(truth.X, **known)
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    links = estimator.links_
    place_of = {name: k for k, name in enumerate(truth.names)}
    decided = np.zeros_like(truth.links)
    found = links[(links["p_adjusted"] < LEVEL) & (links["kind"] == "state")]
    decided[[place_of[e] for e in found["effect"]], [place_of[c] for c in found["cause"]]] = True
    server = estimator.server_
    result = {
        "seconds": seconds, "CPU s here": cpu, "peak GiB": peak(),
        **quality(decided, truth), "rows of links_": len(links), "converged": bool(server.converged_),
        "bits": hashlib.sha256(np.round(server.transition_, 300).tobytes()).hexdigest()[:12],
    }  # fmt: skip
    if estimator.transition_.shape == truth.A.shape:
        result["error / bound"] = relative_error(estimator, truth) / bound(truth)
    return result if truth.inputs is None else result | about_inputs(estimator, truth)


def about_inputs(estimator, truth):
    """What was found of inputs, and the price of a question about them."""
    own = [estimator.clients_[name].observation_ for name in truth.names]
    S = [np.linalg.lstsq(C, mine, rcond=None)[0] for mine, C in zip(own, truth.C, strict=True)]
    B = np.vstack([s @ b for s, b in zip(S, np.split(estimator.input_, truth.n_units), strict=True)])
    acts = truth.B.reshape(truth.n_units, truth.p, -1).any(axis=1)
    place = {name: k for k, name in enumerate(truth.names)}
    at = {name: k for k, name in enumerate(truth.inputs)}
    own = np.zeros_like(acts)
    own[[place[name] for name in at], range(len(at))] = True
    links = estimator.links_.query("kind == 'input' and p_adjusted < @LEVEL")
    decided = np.zeros_like(acts)
    decided[links["effect"].map(place).to_numpy(int), links["cause"].map(at).to_numpy(int)] = True
    true = acts & ~own
    began = time.perf_counter()
    estimator.counterfactual(next(iter(truth.inputs)), [0.0], [1.0], horizon=50, return_std=True)
    return {
        "error of B": float(np.linalg.norm(B - truth.B) / np.linalg.norm(truth.B)),
        "relayed found": f"{(decided & true).sum()} of {true.sum()}", "relayed false": int((decided & ~true).sum()),
        "effect over 50 rows, s": time.perf_counter() - began,
    }  # fmt: skip


def relative_error(estimator, truth):
    """Relative error of the links in the true states."""
    p, m = truth.p, truth.n_units
    S = [np.linalg.lstsq(C, estimator.clients_[name].observation_, rcond=None)[0]
         for name, C in zip(truth.names, truth.C, strict=True)]  # fmt: skip
    S, back = np.stack(S), np.linalg.inv(np.stack(S))
    A = estimator.transition_.reshape(m, p, m, p)
    A = np.einsum("aij,ajbk,bkl->aibl", S, A, back, optimize=True)
    off = ~np.eye(m, dtype=bool)[:, None, :, None]
    true = truth.A.reshape(m, p, m, p)
    return float(np.linalg.norm((A - true) * off) / np.linalg.norm(true * off))


def quality(decided, truth):
    """F1 of the links and how many are false."""
    hits = (decided & truth.links).sum()
    return {
        "F1": float(2 * hits / max(1, decided.sum() + truth.links.sum())),
        "false": int((decided & ~truth.links).sum()),
    }


def screened(place, n_jobs):
    """Seconds of the screening of all pairs, from messages."""
    truth = Truth(place)
    clients = zip(truth.names, truth.clients(), strict=True)
    messages = {name: client.fit(truth.X[name]).message(truth.X[name]) for name, client in clients}
    began = time.perf_counter()
    links = LikelihoodServer(n_jobs=n_jobs).screen(messages)
    return {"seconds": time.perf_counter() - began, "peak GiB": peak(), "rows of the table": len(links)}


def components(truth):
    """Every unit's principal components, as many as it has states."""
    scores = []
    for Y in truth.X.values():
        centred = Y - Y.mean(axis=0)
        scores.append(centred @ np.linalg.eigh(centred.T @ centred)[1][:, -truth.p :])
    return np.hstack(scores)


def by_var(place, n_jobs):
    """Statsmodels' VAR(1) of principal components and Wald's test of every pair, Bonferroni.

    The numbers of ``test_causality``, without its covariance of all coefficients, which takes minutes.
    """
    truth, began = Truth(place), time.perf_counter()
    fit = VAR(components(truth)).fit(1, trend="c")
    p, m = truth.p, truth.n_units
    moments = np.linalg.inv(fit.endog_lagged.T @ fit.endog_lagged)[1:, 1:]
    p_values = np.ones((m, m))
    for e in range(m):
        for c in range(m):
            if e != c:
                rows, cols = slice(e * p, (e + 1) * p), slice(c * p, (c + 1) * p)
                block = fit.coefs[0][rows, cols].ravel()
                covariance = np.kron(fit.sigma_u[rows, rows], moments[cols, cols])
                p_values[e, c] = stats.chi2.sf(block @ np.linalg.solve(covariance, block), p * p)
    return rival(p_values * m * (m - 1) < LEVEL, truth, began)


def by_lasso(place, n_jobs):
    """A lasso for every row of a VAR(1) of principal components, the penalty by BIC."""
    from sklearn.linear_model import LassoLarsIC

    truth, began = Truth(place), time.perf_counter()
    Z = components(truth)
    Z = Z / Z.std(axis=0)
    coefficients = np.array([LassoLarsIC("bic").fit(Z[:-1], z).coef_ for z in Z[1:].T])
    p, m = truth.p, truth.n_units
    linked = (coefficients.reshape(m, p, m, p) != 0).any(axis=(1, 3)) & ~np.eye(m, dtype=bool)
    return rival(linked, truth, began)


def by_pcmci(place, n_jobs):
    """PCMCI of the principal components with partial correlations at one lag, Bonferroni over pairs and components."""
    from tigramite.data_processing import DataFrame
    from tigramite.independence_tests.parcorr import ParCorr
    from tigramite.pcmci import PCMCI

    truth, began = Truth(place), time.perf_counter()
    found = PCMCI(DataFrame(components(truth)), ParCorr(), verbosity=0).run_pcmci(tau_min=1, tau_max=1, pc_alpha=0.05)
    p, m = truth.p, truth.n_units
    p_values = found["p_matrix"][:, :, 1].T.reshape(m, p, m, p).min(axis=(1, 3)) * p * p
    np.fill_diagonal(p_values, 1.0)
    return rival(p_values * m * (m - 1) < LEVEL, truth, began)


def rival(decided, truth, began):
    """What another method found, and its price."""
    price = {"seconds": time.perf_counter() - began, "peak GiB": peak()}
    return price | quality(decided & ~np.eye(len(decided), dtype=bool), truth)


def watched(place, n_jobs):
    """Milliseconds a row of the plant's filter over batches of 1000 rows."""
    truth = Truth(place)
    estimator = FederatedGrangerEstimator(truth.clients(), n_jobs=n_jobs).fit(truth.X)
    batch = {name: np.array(Y[:1000]) for name, Y in truth.X.items()}
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        estimator.predict(batch)
        seconds.append(time.perf_counter() - began)
    return {"ms a row": min(seconds), "peak GiB": peak()}


def by_backend(place, n_jobs, backend):
    """Two fits whose blocks go to a backend of joblib: the first one starts its processes, the next finds them."""
    with workers(backend, n_jobs):
        first = fitted(place, None)
        return {"first fit, s": first["seconds"], **fitted(place, None)}


@contextmanager
def workers(backend, n_jobs):
    """A local cluster of some processes behind a backend of joblib."""
    if backend == "one process":
        yield
        return
    if backend == "dask":
        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=n_jobs, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster),
            joblib.parallel_config("dask", n_jobs=n_jobs),
        ):
            yield
        return
    if backend == "ray":
        import ray
        from ray.util.joblib import register_ray

        ray.init(num_cpus=n_jobs, include_dashboard=False, log_to_driver=False)
        register_ray()
        try:
            with joblib.parallel_config("ray", n_jobs=n_jobs):
                yield
        finally:
            ray.shutdown()
        return
    with joblib.parallel_config(backend, n_jobs=n_jobs):
        yield


PARTS = {
    "fit": fitted, "ideal": ideal, "screen": screened, "watch": watched, "backend": by_backend,
    "statsmodels VAR(1), all tests": by_var, "lasso VAR(1), BIC": by_lasso, "PCMCI, partial correlation": by_pcmci,
}  # fmt: skip
RIVALS = [name for name in PARTS if "VAR" in name or "PCMCI" in name]


def peak():
    """Peak resident memory of this process and of the largest one it started, GiB."""
    own, others = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return (own + others) / 2**20


def apart(place, part, n_jobs, *more, limit=None):
    """Result of a part in a new process; None where it takes too long or is not installed."""
    command = [sys.executable, "-m", "benchmarks.scale", "--part", str(place), part, str(n_jobs), *more]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"seconds": f"more than {limit}"}
    if done.returncode:
        return {"seconds": done.stderr.strip().splitlines()[-1][:60]}
    found = json.loads(done.stdout.splitlines()[-1])
    return {name: float(f"{x:.3g}") if isinstance(x, float) else x for name, x in found.items()}


def main():
    """Print and write the tables."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--units", type=int, nargs="*", default=[16, 64, 256, 1000])
    reader.add_argument("--seed", type=int, default=0)
    reader.add_argument("--jobs", type=int, default=2)
    reader.add_argument("--folder", type=Path)
    reader.add_argument("--rivals", action="store_true")
    reader.add_argument("--backends", action="store_true")
    reader.add_argument("--ideal", action="store_true", help="what the best selection of links could do")
    reader.add_argument("--limit", type=float, default=600.0, help="seconds that a rival may take")
    reader.add_argument("--missing", type=float, default=0.0, help="share of the cells that is missing")
    reader.add_argument("--inputs", type=int, default=0, help="every how many units there is one with an input")
    reader.add_argument("--relayed", type=int, default=0, help="inputs that act on another unit as well")
    reader.add_argument("--part", nargs="+")
    reader.add_argument("--dry", action="store_true", help="do not write the results")
    options = reader.parse_args()
    if options.part:
        place, part, n_jobs, *more = options.part
        print(json.dumps(PARTS[part](Path(place), int(n_jobs), *more)))
        return
    folder = options.folder or Path(tempfile.mkdtemp())
    is_other = bool(options.missing or options.inputs)
    rows: dict = {name: [] for name in ("fit", "ideal", "screen", "watch", "rivals", "backends")}
    for n_units in options.units:
        place = saved(folder, n_units, options.seed, options.missing, options.inputs, options.relayed)
        found = apart(place, "fit", options.jobs)
        rows["fit"].append({"M": n_units, "limit, s": LIMITS.get(n_units, ""), **found})
        print(rows["fit"][-1], flush=True)
        if options.ideal:
            rows["ideal"].append({"M": n_units, **apart(place, "ideal", 1)})
            print(rows["ideal"][-1], flush=True)
        if n_units >= 256 and not is_other:
            for part in ("screen", "watch"):
                rows[part].append({"M": n_units, **apart(place, part, options.jobs)})
                print(rows[part][-1], flush=True)
        for name in RIVALS if options.rivals else ():
            rows["rivals"].append({"M": n_units, "method": name, **apart(place, name, 1, limit=options.limit)})
            print(rows["rivals"][-1], flush=True)
    if options.backends:
        place = saved(folder, 256, options.seed)
        for backend in ("one process", "loky", "dask", "ray"):
            rows["backends"].append({"backend": backend, **apart(place, "backend", options.jobs, backend)})
            print(rows["backends"][-1], flush=True)
    titles = {
        "fit": "Whole fits from raw records, loadings known.", "screen": "Screening of all pairs, from messages.",
        "ideal": "The best that any selection could do (simulated estimates as precise as those of known links).",
        "watch": "The next 1000 rows (`predict`).", "rivals": "Other methods, one process.",
        "backends": "Backends of joblib, two workers each, M = 256; the first fit starts nothing.",
    }  # fmt: skip
    if not (options.dry or is_other):
        sections = [each for name, part in rows.items() if part for each in (titles[name], table(part, _columns(part)))]
        write("scale", f"Plants of many units: T = {ROWS}, P = 2, D = 8, 1.5 links a unit", *sections)


def _columns(rows):
    return list(dict.fromkeys(name for row in rows for name in row))


if __name__ == "__main__":
    main()
