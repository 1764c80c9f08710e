"""Links of a simulated network: error of the blocks, ranking and decisions, beside the best that can be."""

from importlib.util import find_spec

import numpy as np
from sklearn.metrics import roc_auc_score

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodServer
from skfedcausal.server.links import questions

from .._limits import Clairvoyant
from .._networks import links_of, weak_links
from .._rivals import LEVEL, Autoregression, aligned, components, holm, pcmci

TITLE = "Links of a network"
TEXT = (
    "Units of two states behind eight sensors, sensor noise as large as state noise, {n_samples} rows, 1.5 links a "
    "unit of norm 0.04 to 0.2; a new plant and record for every seed (PCMCI: the first {pcmci_seeds}). Error: "
    "Frobenius error of the blocks between units, in the true states, over its Cramer-Rao bound (the true links "
    "known; their values, own blocks and process noise free). AUROC ranks all ordered pairs by p-value (PCMCI: by "
    "size). F1 and false links are at a family-wise level of 5 %: `p_adjusted` of ours, Holm's rule elsewhere. The "
    "limit is a clairvoyant who knows which other links there are, and estimates and tests each pair efficiently on "
    "the same record. Goal: an error of at most 1.15, an F1 at most 0.02 below the limit's."
)
LIMIT = "limit: clairvoyant"


class Answer:
    """p-values and decisions of all pairs in the order of ``links_``; the transition matrix in the true states."""

    def __init__(self, p, decided, A=None):
        self.p, self.decided, self.A = p, decided, A


def known_sensors(truth):
    """Clients that know their loadings and nothing else."""
    return [KalmanClient(C=C) for C in truth.observation]


def ours(X, truth, clients=None):
    """The default estimator."""
    estimator = FederatedGrangerEstimator(clients).fit(X)
    p, A = estimator.links_.p_adjusted.to_numpy(), None
    if estimator.transition_.shape == truth.transition.shape:
        loadings = [estimator.clients_[name].observation_ for name in truth.names]
        A = aligned(estimator.transition_, loadings, truth)
    return Answer(p, p < LEVEL, A)


def screen(X, truth):
    """Score tests at the uncoupled plant only."""
    clients = zip(truth.names, known_sensors(truth), strict=True)
    p = questions.screen(LikelihoodServer(), {name: c.fit(X[name]).message(X[name]) for name, c in clients}).p_adjusted
    return Answer(p.to_numpy(), p.to_numpy() < LEVEL)


def limit(X, truth, plant):
    """Efficient tests by someone who knows which other links there are."""
    return by_holm(matrix_of(plant.statistics()[1]))


def var(X, truth):
    """First-order VAR of each unit's principal components, as many as it has states."""
    scores, axes = components(X, truth.observation[0].shape[1])
    found = Autoregression(scores, 1)
    return by_holm(found.p_values(), aligned(found.fit.coefs[0], axes, truth))


def by_holm(p, A=None, ranks=None):
    """Answer of p-values [effect, cause]."""
    off = ~np.eye(len(p), dtype=bool)
    return Answer((p if ranks is None else ranks)[off], holm(p)[off], A)


def matrix_of(values):
    """Values of pairs as [effect, cause]."""
    n = int(np.sqrt(len(values))) + 1
    out = np.ones((n, n))
    out[~np.eye(n, dtype=bool)] = values
    return out


def by_pcmci(X, truth):
    """PCMCI on the same components, two lags."""
    p, size = pcmci(components(X, truth.observation[0].shape[1])[0], 2)
    return by_holm(p, ranks=-size)


METHODS = {
    "skfedcausal, default": ours,
    "skfedcausal, sensors known": lambda X, truth: ours(X, truth, known_sensors(truth)),
    "skfedcausal, screen only, sensors known": screen,
    "VAR(1) on components, Wald (statsmodels)": var,
    "PCMCI on components (tigramite)": by_pcmci,
}


def scores(answer, truth, bound):
    """Error over its bound, AUROC, F1, false links."""
    linked, error = links_of(truth), np.nan
    if answer.A is not None:
        sizes = [rows.stop - rows.start for rows in truth.state_slices.values()]
        unit = np.repeat(np.arange(len(sizes)), sizes)
        off = unit[:, None] != unit
        error = np.linalg.norm((answer.A - truth.transition)[off]) / np.linalg.norm(truth.transition[off]) / bound
    hits, false = (answer.decided & linked).sum(), (answer.decided & ~linked).sum()
    f1 = 2 * hits / max(1, answer.decided.sum() + linked.sum())
    return error, roc_auc_score(linked, -answer.p), f1, false, false > 0


def draws(n_units, s):
    """Scores of every method on every record."""
    found: dict = {name: [] for name in (*METHODS, LIMIT)}
    for k in range(s["seeds"]):
        X, truth = weak_links(n_units, s["n_samples"], seed=k)
        plant = Clairvoyant(truth, X)
        bound = plant.error_bound()
        for name, method in METHODS.items():
            if method is not by_pcmci or (k < s["pcmci_seeds"] and find_spec("tigramite")):
                found[name].append(scores(method(X, truth), truth, bound))
        found[LIMIT].append((plant.error() / bound, *scores(limit(X, truth, plant), truth, bound)[1:]))
    return {name: np.array(values, dtype=float) for name, values in found.items() if values}


def row(n_units, method, values):
    """Means of a method over records."""
    _, auroc, f1, false, any_false = values.mean(axis=0)
    error = values[np.isfinite(values[:, 0]), 0]  # of records whose units all have the true number of states
    return {
        "M": str(n_units),
        "method": method,
        "data sets": len(values),
        "error / Cramer-Rao": error.mean() if len(error) else None,
        "AUROC": auroc,
        "F1 at 5 %": f1,
        "standard error of F1": values[:, 2].std(ddof=1) / np.sqrt(len(values)),
        "false links": false,
        "records with one": any_false,
    }


def figures(s):
    """Rows of all methods for every number of units."""
    return {"Links": [row(m, name, found) for m in s["units"] for name, found in draws(m, s).items()]}
