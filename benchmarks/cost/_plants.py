"""Plants whose price is measured, how many of their links a fit found, and how many anybody could find."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag
from statsmodels.stats.multitest import multipletests

from skfedcausal.server.estimation.scoring import Structure
from skfedcausal.server.sparse.cover import cores, neighbours, with_halo
from skfedcausal.statespace.fisher import InformationColumns
from skfedcausal.statespace.partition import Partition
from skfedcausal.statespace.whittle import WhittleLikelihood

from .._limits import best_selection
from .._networks import dead_times, links_of, weak_links

LEVEL = 0.05
_WHOLE = 32  # units up to which decisions are family-wise, of more at a false discovery rate: `correction="auto"`
_CORE, _BLOCK = 6, 30  # units of a block, and with their neighbours: what is further away changes nothing to see


class Case(NamedTuple):
    """A plant: what it is called, its record, the pairs (effect, cause) that are linked, and the truth behind it."""

    name: str
    X: dict
    linked: np.ndarray
    truth: object = None


def case(units, rows, sensors=8, *, seed=0, missing=0.0, noise=None, dead=False):
    """A plant by its settings: `noise` is the standard deviation of sensors, by default about that of the states;
    `dead`: links act after dead times, otherwise in the next row.
    """
    name = f"{units} units x {sensors} sensors, {rows} rows"
    if dead:
        found = dead_times(units, rows, seed)
        return Case(f"{name}, dead times", found.X, found.linked)
    changes: dict = {} if noise is None else {"measurement_noise": noise}
    X, truth = weak_links(units, rows, seed, n_sensors=sensors, missing=missing, **changes)
    name += f", {missing:.0%} of the cells missing" if missing else ""
    return Case(name, X, square(links_of(truth), units), truth)


def square(values, n_units):
    """Values of pairs in the order of ``links_`` as [effect, cause], nothing on the diagonal."""
    out = np.zeros((n_units, n_units), dtype=values.dtype)
    out[~np.eye(n_units, dtype=bool)] = values
    return out


def decided(links, names):
    """Links of a table that are told, [effect, cause]."""
    told = links[(links["p_adjusted"] < LEVEL) & (links["kind"] == "state")]
    place, out = {name: k for k, name in enumerate(names)}, np.zeros((len(names), len(names)), dtype=bool)
    out[[place[e] for e in told["effect"]], [place[c] for c in told["cause"]]] = True
    return out


def passed(p):
    """Pairs [effect, cause] whose p-values pass the correction that the library takes for as many units."""
    off, out = ~np.eye(len(p), dtype=bool), np.zeros_like(p, dtype=bool)
    out[off] = multipletests(p[off], LEVEL, method="holm" if len(p) <= _WHOLE else "fdr_bh")[0]
    return out


def f1(found, linked):
    """Harmonic mean of precision and recall."""
    return 2 * (found & linked).sum() / max(1, found.sum() + linked.sum())


def best_f1(one):
    """F1 of the best selection among all pairs, under the same correction."""
    n = len(one.linked)
    found = best_selection(*_known_links(one), n * (n - 1), LEVEL)
    return found["F1 family-wise" if n <= _WHOLE else "F1 at the false discovery rate"]


def _known_links(one):
    """Blocks of the links (k, p * p), and their Cramer-Rao covariances given which links there are.

    Block by block: some units and their neighbours.
    """
    truth, n_rows = one.truth, len(next(iter(one.X.values())))
    n, p = len(truth.names), truth.observation[0].shape[1]
    pairs, blocks = np.argwhere(one.linked), truth.transition.reshape(n, p, n, p)
    near = neighbours(n, pairs, [np.linalg.norm(blocks[e, :, c]) for e, c in pairs], [])
    causes = [np.flatnonzero(row).tolist() for row in one.linked]
    sensors = zip(truth.observation, truth.measurement_cov, strict=True)
    noise = [np.linalg.inv(C.T @ np.linalg.solve(R, C)) for C, R in sensors]
    found, covariances = [], []
    for core in cores(near, _CORE):
        members = with_halo(core, near, causes, _BLOCK)
        at = (np.array(members)[:, None] * p + np.arange(p)).ravel()
        A, Q = (M[np.ix_(at, at)] for M in (truth.transition, truth.process_cov))
        linked = one.linked[np.ix_(members, members)]
        mine = _covariances(A, Q, block_diag(*(noise[m] for m in members)), linked, n_rows)
        for (effect, cause), covariance in mine.items():
            if effect < len(core):
                found.append(blocks[members[effect], :, members[cause]].ravel())
                covariances.append(covariance)
    return np.array(found), np.array(covariances)


def _covariances(A, Q, N, linked, n_rows):
    """Cramer-Rao covariance of every linked block of a plant by (effect, cause), its elements row by row."""
    n = len(linked)
    p, partition = len(A) // n, Partition([len(A) // n] * n)
    free = Structure(partition, linked=linked[tuple(partition.pairs.T)]).free
    information = WhittleLikelihood(_NoMoments(n_rows, len(A)), N).information(A, Q)
    covariance = np.linalg.inv(InformationColumns(information, free).square()) / n_rows
    pair, out = free.rows // p * n + free.cols // p, {}
    for effect, cause in np.argwhere(linked):
        own = np.flatnonzero(pair == effect * n + cause)
        own = own[np.lexsort((free.cols[own], free.rows[own]))]
        out[effect, cause] = covariance[np.ix_(own, own)]
    return out


class _NoMoments:
    """Lag covariances of nothing, for the expected information."""

    def __init__(self, n_rows, n, n_lags=24):
        self.n_transitions = n_rows
        self.late = self.early = np.zeros((n_lags + 1, n, n))

    def spectra(self, frequencies):
        return (np.zeros((len(frequencies), *self.late.shape[1:]), dtype=complex),) * 3
