"""The second paper's clients and what the tables share."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skfedcausal import Baseline, FederatedCounterfactualEstimator, GradientServer, KalmanClient
from skfedcausal.bases import configured
from skfedcausal.datasets import make_granger_plant

SETTING = (
    "Plants: P = U = 2 per client, each client driven by the one before it through A_mn of norm "
    "{link_strength} and B_mn of norm {input_strength} (before scaling to stability), own poles of radius "
    "0.5 to 0.85, process noise {process_noise}, sensor noise 1, inputs independent and standard normal, T "
    "= {n_samples}. In the paper's mode clients know their own A_mm, B_mm, C_m, Q_m, R_m (its assumption "
    "5.1), take the largest step sizes that are sure to converge, and rounds start from standard normal "
    "numbers. All choices are in `benchmarks/paper2/settings.toml`."
)


def lagrangian(s):
    """Settings of the augmented Lagrangian."""
    return {"xi": s["rho"], "constraint": "augmented_lagrangian"}


def clients(s, n_units=2, *, seed=0, **options):
    """Clients of which each is driven by the one before it, through states and inputs.

    Returns
    -------
    X : dict of str to ndarray
    inputs : list of ndarray
    truth : PlantTruth
    """
    links = [(m, m + 1) for m in range(n_units - 1)]
    told = {name: s[name] for name in ("n_sensors", "n_samples", "process_noise")}
    told |= {name: tuple(s[name]) for name in ("input_strength", "link_strength")}
    X, truth = make_granger_plant(
        n_units, n_inputs=2, links=links, input_links=links, random_state=seed, **{**told, **options}
    )
    return X, list(truth.inputs), truth


def simulated(truth, inputs, seed):
    """Measurements of the clients of a plant under inputs of one's own."""
    rng = np.random.default_rng(seed)
    A, B, u = np.array(truth.transition), np.array(truth.input), np.hstack(inputs)
    h = np.zeros((len(u), len(A)))
    noise = rng.standard_normal(h.shape) @ np.linalg.cholesky(truth.process_cov).T
    for t in range(1, len(u)):
        h[t] = A @ h[t - 1] + B @ u[t - 1] + noise[t]
    units = zip(truth.state_slices.items(), truth.observation, strict=True)
    return {name: h[:, rows] @ C.T + rng.standard_normal((len(u), len(C))) for (name, rows), C in units}


def given(truth, center):
    """The units' own true models."""
    return {
        name: KalmanClient(m["A"], m["B"], m["C"], m["Q"], m["R"], baseline=Baseline(center=center))
        for name, m in truth.clients().items()
    }


def trained(s, X, inputs, truth, seed=0, **settings):
    """Estimator trained as in the paper."""
    if settings.get("solve") != "stationary":
        start = {
            "start_scale": s["start_scale"],
            "exchange": "moments",
            "max_iter": s["max_iter"],
            "tol": 0.0,
        }
        settings = {**start, **settings}
    server = configured(GradientServer, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the tables say how many rounds were run
        est = FederatedCounterfactualEstimator(given(truth, False), server=server, random_state=seed)
        return est.fit(X, inputs=inputs)


def by_default(X, inputs, truth=None):
    """Estimator with the library's default server; units identified at home without `truth`."""
    client = None if truth is None else given(truth, True)
    return FederatedCounterfactualEstimator(client).fit(X, inputs=inputs)


def errors(est, truth):
    """Relative errors of all blocks of A and of B between units."""
    found = []
    for learned, true, own in (
        (est.transition_, truth.transition, truth.state_slices),
        (est.input_, truth.input, est.input_slices_),
    ):
        off, expected = learned.copy(), np.array(true)
        for rows, columns in zip(truth.state_slices.values(), own.values(), strict=True):
            off[rows, columns] = expected[rows, columns] = 0.0
        found.append(np.linalg.norm(off - expected) / np.linalg.norm(expected))
    return found


def final(est, kind):
    """Sum over units of a loss in the last round."""
    return est.server_.loss_history_[kind].iloc[-1].sum()


def records(s, seed, n_records, **options):
    """Records of the same clients with other noise and inputs."""
    n_samples = s["n_samples"]
    X, inputs, truth = clients(s, seed=seed, n_samples=n_samples * n_records, episodes=n_records, **options)
    for k in range(n_records):
        rows = slice(k * n_samples, (k + 1) * n_samples)
        yield {name: Y[rows] for name, Y in X.items()}, [U[rows] for U in inputs], truth


def construction_gap(est, X, inputs):
    """Theorem 6.1 and Corollary 6.2 in the default mode: largest distances of the means, over both sides."""
    levels = np.concatenate([U.mean(axis=0) for U in inputs])
    states = est.transform(X, inputs=inputs).mean(axis=0)
    found = []
    for name, rows in est.state_slices_.items():
        A, B = est.transition_[rows].copy(), est.input_[rows].copy()
        A[:, rows] = B[:, est.input_slices_[name]] = 0.0
        own = est.augmenters_[name].coef_ @ (X[name] - est.clients_[name].mean_).mean(axis=0)
        found.append((np.linalg.norm(own - A @ states), np.linalg.norm(est._units[name]["phi"] - B @ levels)))
    return np.max(found, axis=0)
