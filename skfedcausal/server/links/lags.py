"""Plants of several lags, in which units act on each other after more than one time step.

``h[t] = A_1 h[t-1] + ... + A_L h[t-L] + w[t-1]``.
"""

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from ...statespace.partition import Partition
from ..estimation.block_tests import link_estimates
from ..estimation.covariance import in_unit_states, unit_state_roots
from ..estimation.evidence import BlockEstimates, adjusted_p_values
from ..estimation.scoring import Point, Scoring, Structure, ascend
from ..estimation.search import search_structure
from ..estimation.standardised import StandardisedPlant
from .intervals import check_number
from .tables import links_table, named_pairs

CRITERIA = ("aic", "bic", "held_out")
_TOL = 0.1  # log-likelihood that a search may leave


class LaggedPlant(NamedTuple):
    """Plant of several lags at the maximum of its likelihood."""

    plant: StandardisedPlant
    n_lags: int
    scoring: Scoring
    converged: bool
    likelihood: object

    @property
    def log_likelihood(self):
        """Of the record, up to a term that is the same for plants of any lags."""
        return self.scoring.n_samples * float(self.scoring.point.evaluation.value)

    @property
    def transition(self):
        """``[A_1 | A_2 | ...]`` in the units' own states, shape (n, n * n_lags)."""
        S = self.plant.state_scale
        return S @ self.scoring.point.A @ np.kron(np.eye(self.n_lags), np.linalg.inv(S))

    @property
    def process_cov(self):
        """Process covariance in the units' own states."""
        return self.plant.unscaled_covariance(self.scoring.point.Q)

    @property
    def blocks(self):
        """Every off-diagonal block of all lags, in states of unit variance."""
        point, partition = self.scoring.point, self.scoring.structure.partition
        roots = None
        if not self.plant.is_complete:
            roots = unit_state_roots(self.plant, point, self.likelihood)
        return in_unit_states(link_estimates(self.scoring), partition, roots)

    def held_out(self, tail, n_dropped):
        """Log-likelihood of another record per time step, up to a term that does not depend on the plant."""
        likelihood = tail.lagged_likelihood(self.n_lags, n_dropped)
        S = tail.state_scale
        inverse = np.linalg.inv(S)
        A = inverse @ self.transition @ np.kron(np.eye(self.n_lags), S)
        return float(likelihood.evaluate(A, inverse @ self.process_cov @ inverse.T).value)


def without_shifts(record):
    """The record with the levels before and after its shifts taken off, and no shifts."""
    if record.partition.n_inputs:
        raise ValueError("Links of several lags are for plants without inputs; this one has some.")
    if not record.determined.all():
        unseen = [name for name, seen in zip(record.names, record.determined, strict=True) if not seen]
        raise ValueError(
            "Links of several lags need sensors that determine every unit's states; those of "
            f"{', '.join(unseen)} do not. Give these units fewer states, leave them out, or fit one lag."
        )
    if not record.is_constant and not StandardisedPlant(record).has_all_lags:
        raise ValueError(
            "Links of several lags need units that report in the same and in neighbouring rows; here some "
            "report in every other row or less, so that no product of measurements tells one lag from "
            "another. Take a coarser clock, on which all units report, or fit one lag."
        )
    cut = replace(record, starts=tuple(sorted({*record.starts, *record.steps})), steps=())
    return replace(cut.centred(), starts=record.starts)


def fit_lags(record, n_lags, settings, *, n_dropped=None):
    """Maximum likelihood of a plant of several lags, with a search for links or every block free.

    Every unit's own states act on it at every lag; a link is the blocks of all lags. Complete records are
    fitted by the Whittle likelihood of their scores, others by the exact one in the time domain. Of the
    settings those of the search and of the climb count; the first `n_dropped` rows of each episode are left
    out, by default as few as can be.
    """
    plant = StandardisedPlant(record)
    n_dropped = n_lags - 1 if n_dropped is None else n_dropped
    A, Q = plant.uncoupled
    likelihood = plant.lagged_likelihood(n_lags, n_dropped)
    structure = Structure(Partition(plant.partition.sizes, n_lags=n_lags))
    point = Point.at(likelihood, np.hstack([A, np.zeros((len(A), len(A) * (n_lags - 1)))]), Q)
    scoring, converged = _climb(likelihood, structure, point, settings)
    if plant.is_complete:
        point = scoring.point
        needed = plant.lags_of_filter(point.A, point.Q, n_lags) + n_lags - 1
        if needed > likelihood.n_covariances:
            likelihood = plant.lagged_likelihood(n_lags, n_dropped, needed)
            point = Point.at(likelihood, point.A, point.Q)
            scoring, converged = _climb(likelihood, scoring.structure, point, settings)
    return LaggedPlant(plant, n_lags, scoring, converged, likelihood)


def _climb(likelihood, structure, point, settings):
    """The :class:`Scoring` at the maximum and whether it was reached."""
    settled = True
    if settings.sparsity is None:
        structure = structure.with_masks(linked=np.ones(len(structure.partition.pairs), dtype=bool))
    else:
        point = ascend(likelihood, Scoring(likelihood, structure, point), gain_tol=_TOL).point
        search = search_structure(likelihood, structure, point, alpha=settings.alpha, tol=_TOL)
        structure, point, settled = search.scoring.structure, search.scoring.point, search.settled
    gain_tol = likelihood.n_samples * settings.tol**2
    scoring = Scoring(likelihood, structure, point)
    ascent = ascend(likelihood, scoring, gain_tol=gain_tol, max_iter=settings.max_iter)
    return Scoring(likelihood, structure, ascent.point), settled and ascent.converged


def check_lags(n_lags, by):
    """Refuse numbers of lags and tables that there are not."""
    if by not in ("pair", "lag"):
        raise ValueError(f"by={by!r}; choose 'pair' or 'lag'.")
    if not isinstance(n_lags, str):
        check_number(n_lags, "n_lags")
    elif n_lags not in CRITERIA:
        raise ValueError(f"n_lags={n_lags!r}; give a number or {', '.join(map(repr, CRITERIA))}.")


def order_table(record, head, tail, max_lags, settings):
    """One row per number of lags, fitted to the same rows of a record, and of its first part for the last."""
    check_number(max_lags, "max_lags")
    n_dropped, tail, rows = max_lags - 1, StandardisedPlant(without_shifts(tail)), []
    record, head = without_shifts(record), without_shifts(head)
    tail.uncoupled  # noqa: B018  (sets the number of lags of its likelihood)
    for n_lags in range(1, max_lags + 1):
        fit, first = (fit_lags(part, n_lags, settings, n_dropped=n_dropped) for part in (record, head))
        structure, value = fit.scoring.structure, fit.log_likelihood
        n_parameters = structure.free.n_elements
        rows.append(
            {
                "n_lags": n_lags,
                "n_links": int(structure.linked.sum()),
                "n_parameters": n_parameters,
                "log_likelihood": value,
                "aic": -2 * value + 2 * n_parameters,
                "bic": -2 * value + np.log(fit.scoring.n_samples) * n_parameters,
                "held_out": first.held_out(tail, n_dropped),
            }
        )
    return pd.DataFrame(rows).set_index("n_lags")


def best_order(table, criterion):
    """Number of lags that a criterion of :func:`order_table` prefers."""
    column = table[criterion]
    return int(column.idxmax() if criterion == "held_out" else column.idxmin())


def lagged_table(record, n_lags, by, settings, margin):
    """Links of a plant of several lags: one row per ordered pair, or per pair and lag."""
    fit = fit_lags(without_shifts(record), n_lags, settings)
    if not fit.converged:
        warnings.warn(
            f"The likelihood of the plant of {n_lags} lags did not converge; increase max_iter.",
            ConvergenceWarning,
            stacklevel=3,
        )
    if by == "pair":
        table = delays_table(record.names, fit, alpha=settings.alpha, margin=margin)
    else:
        table = by_lag_table(record.names, fit)
    table.attrs["n_lags"] = n_lags
    return table


def delays_table(names, fit, *, alpha, margin):
    """Links of a plant of several lags: one row per ordered pair."""
    partition, blocks = fit.scoring.structure.partition, fit.blocks
    table = links_table(names, partition, blocks, alpha=alpha, margin=margin)
    lags = [_of_lag(blocks, lag, partition, alone=True) for lag in range(fit.n_lags)]
    statistic = np.array([own.statistic for own in lags])
    delay = statistic.argmax(axis=0)
    strength = np.array([own.strength for own in lags])
    linked = adjusted_p_values(blocks) <= alpha if len(blocks.dof) else np.zeros(0, dtype=bool)
    table.insert(2, "delay", np.where(linked, delay + 1.0, np.nan))
    likely = softmax(statistic / 2, axis=0).max(axis=0)
    table.insert(3, "delay_probability", np.where(linked, likely, np.nan))
    table.insert(7, "delay_strength", np.where(linked, strength[delay, np.arange(len(delay))], np.nan))
    table.insert(9, "dof", blocks.dof)
    return table.drop(columns=["kind", "geweke"])


def by_lag_table(names, fit):
    """The same with one row per ordered pair and lag, tested given the other lags."""
    partition, blocks = fit.scoring.structure.partition, fit.blocks
    tables = []
    for lag in range(fit.n_lags):
        one = _of_lag(blocks, lag, partition)
        columns = {
            **named_pairs(names, partition.pairs),
            "lag": lag + 1,
            "strength": one.strength,
            "stderr": one.stderr,
            "statistic": one.statistic,
            "p_value": one.p_value,
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables).sort_index(kind="stable").reset_index(drop=True)


def _of_lag(blocks, lag, partition, *, alone=False):
    """Estimates of the blocks of one lag given those of the others, or if they are zero.

    With the estimate b of all lags and its covariance V: ``b_l + V_lo V_oo^-1 (0 - b_o)``. Its statistic is
    what the log-likelihood gains, twice, from that lag alone; states that move slowly make the estimates of
    neighbouring lags trade off, so that their own statistics do not tell which one it is.
    """
    one_lag = partition.without_inputs
    e = one_lag.pair_elements.shape[1]
    own = slice(lag * e, (lag + 1) * e)
    estimate, covariance = blocks.estimate[:, own].copy(), blocks.covariance[:, own, own].copy()
    if alone:
        precision = np.linalg.inv(blocks.covariance)
        covariance = np.linalg.inv(precision[:, own, own])
        weighed = np.einsum("xij,xj->xi", precision[:, own], blocks.estimate)
        estimate = np.einsum("xij,xj->xi", covariance, weighed)
    return BlockEstimates.padded(estimate, covariance, one_lag)
