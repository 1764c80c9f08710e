"""Links in pieces of time: which stay as they are along a record, and between which rows the others hold."""

import numpy as np
import pandas as pd
from scipy.special import chdtrc

from ...arguments import check_number
from ..estimation.block_tests import link_estimates
from ..estimation.covariance import in_unit_states, unit_state_roots
from ..estimation.estimate import fitted_likelihood
from ..estimation.evidence import BlockEstimates, corrected
from .resampling import Resampling, climbed_to_maximum
from .tables import verdicts
from .tuning import TUNING

COLUMNS = ("cause", "effect", "start", "stop", "norm", "stderr", "p_value", "verdict", "changes", "p_adjusted")


def estimates_of_pieces(record, settings, piece):
    """Estimates of blocks, one `BlockEstimates` a piece of so many rows, of which pairs, and the pieces' rows.

    In states of unit variance over the whole record, given the links that it has.
    """
    plant, maximum = fitted_likelihood(record, settings)
    point, structure = maximum.scoring.point, maximum.scoring.structure
    resampling, family = Resampling(plant, point, piece), structure.family("state")[0]
    roots, pieces, known = unit_state_roots(plant, point), [], settings.known_links
    for k in range(resampling.n_blocks if resampling.n_blocks > 1 else 0):
        scoring, _ = climbed_to_maximum(resampling.of_block(k), structure, point)
        blocks = in_unit_states(link_estimates(scoring, "state"), family, roots)
        pieces.append(blocks if known is None else known.without_forbidden(blocks, plant.partition))
    return pieces, family.pairs, resampling.blocks_of_rows


def links_over_time(record, estimates, piece, *, alpha, margin):
    """Every link by the pieces of time in which it is one and the same.

    Parameters
    ----------
    record : JointRecord
    estimates : callable
        What :func:`estimates_of_pieces` returns, for pieces of so many rows.
    piece : int or None
        Rows of the pieces that are compared, within which a link does not change.
    alpha, margin : float
        As of the server.

    Returns
    -------
    DataFrame
        With columns `COLUMNS`; ``start`` and ``stop`` are rows.
    """
    n_states = record.partition.n_states
    least = max(TUNING.over_time_least_rows, TUNING.over_time_rows_per_state * n_states)
    if piece is None:
        piece = max(record.n_samples // TUNING.over_time_pieces, TUNING.over_time_fewest_rows)
    else:
        check_number(piece, "piece", 2)
        if piece < least:
            raise ValueError(
                f"Got piece={piece}; links of {n_states} states vary by chance in so few rows. Give at least {least}."
            )
    pieces, pairs, rows_of = estimates(piece)
    if len(pieces) < 2:
        raise ValueError(
            f"A record of {record.n_samples} rows in pieces of {piece} is one piece; give a piece of less than half of "
            "it, or a longer record."
        )
    known = record.known_links
    estimate = np.stack([blocks.estimate for blocks in pieces], axis=1)  # (n_pairs, n_pieces, e)
    precision = np.linalg.inv(np.stack([blocks.covariance for blocks in pieces], axis=1))
    dof = pieces[0].dof
    p_value = chdtrc(dof * (len(pieces) - 1), _misfit(estimate, precision))
    p_adjusted = corrected(p_value, "family-wise")
    edges = [*(rows.start for rows in rows_of), record.n_samples]
    rows = []
    for k, (effect, cause) in enumerate(pairs):
        cuts = [0, len(pieces)]
        if p_adjusted[k] <= alpha:
            cuts = _cuts(estimate[k], precision[k], dof[k] * np.log(record.n_samples))
        for a, b in zip(cuts[:-1], cuts[1:], strict=True):
            block = _pooled(estimate[k, a:b], precision[k, a:b], dof[k])
            told = block.strength[0], block.stderr[0], block.p_value[0]
            of_all = np.minimum(block.p_value * len(pairs) * (len(cuts) - 1), 1.0)  # pairs and its pieces (Bonferroni)
            verdict = verdicts(block, of_all, alpha, margin)[0]
            if known is not None and known.required[effect, cause]:
                verdict = "influence"
            names = record.names[cause], record.names[effect]
            rows.append((*names, edges[a], edges[b], *told, verdict, len(cuts) > 2, p_adjusted[k]))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _pooled(estimate, precision, dof):
    """Estimate of one block from pieces in which it is the same."""
    covariance = np.linalg.inv(precision.sum(axis=0))
    mean = covariance @ np.einsum("kij,kj->i", precision, estimate)
    return BlockEstimates(mean[None], covariance[None], np.array([dof]))


def _misfit(estimate, precision):
    """Squared distances of estimates of pieces (..., n_pieces, e) to their weighted mean, summed."""
    weighted = np.einsum("...kij,...kj->...i", precision, estimate)
    mean = np.linalg.solve(precision.sum(axis=-3), weighted[..., None])[..., 0]
    apart = estimate - mean[..., None, :]
    return np.einsum("...ki,...kij,...kj->...", apart, precision, apart)


def _cuts(estimate, precision, price):
    """Pieces at which a link changes, ends included: least misfit of pieces in a row, with a price for each change."""
    n = len(estimate)
    best, before = np.zeros(n + 1), np.zeros(n + 1, dtype=int)
    for stop in range(1, n + 1):
        costs = [best[a] + price + _misfit(estimate[a:stop], precision[a:stop]) for a in range(stop)]
        before[stop] = int(np.argmin(costs))
        best[stop] = costs[before[stop]]
    cuts = [n]
    while cuts[-1]:
        cuts.append(int(before[cuts[-1]]))
    return cuts[::-1]
