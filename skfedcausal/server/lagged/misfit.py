"""Whether a record asks for more lags than the one it was fitted with."""

from dataclasses import replace

import numpy as np
import pandas as pd

from ...statespace.lagged.kernel_tests import MisfitTest, lag_bases
from ...statespace.lagged.likelihood import LaggedLikelihood, LagSums
from ..estimation.evidence import weighted_chi2_logsf

LEVEL = 0.05  # family-wise, below which a plant of several lags is learned and compared
_LAGS = 20
_ROWS_PER_LAG = 50
_LEAST_SEEN = 0.75  # share of rows in which a unit's states have to be seen
_FEWEST_LAGS = 5  # that are worth a test
_DECAYS = (0.1, 0.8)  # of the kernels that weigh later lags


def misfit_p_values(plant, scoring):
    """P values of later lags of every unit (effect) and unit, then unit's inputs, (n_units, n_sources).

    NaN where there is nothing to test; None for records that do not tell lags apart.
    """
    partition, longest = plant.partition, max(np.diff([*plant._record.starts, plant.n_samples]))
    n_lags = int(min(_LAGS, longest // _ROWS_PER_LAG))
    if n_lags < _FEWEST_LAGS or not plant.is_complete or not plant.has_clear_scores:
        return None
    series, starts, memory = plant.standard_series()
    sums = LagSums.of(series, starts, n_lags, memory + n_lags, plant.lag_sums(2 * n_lags + memory))
    likelihood = LaggedLikelihood(sums, plant.score_noise)
    point, n = scoring.point, partition.n_states
    coefficients = np.zeros((n_lags + 1, *point.A.shape))
    coefficients[1] = point.A
    grad = likelihood.evaluate(coefficients, point.Q).grad
    info = plant.whittle().information(point.A, point.Q, n_lags)
    test = MisfitTest(info, grad, likelihood.n_rows)
    in_plant, bases = scoring.structure.transition_mask, lag_bases(n_lags - 1, _DECAYS)
    sources = [[(k, rows) for k, rows in enumerate(partition.slices)], []]
    for k, rows in enumerate(partition.input_slices):
        if rows.stop > rows.start:
            sources[1].append((partition.n_units + k, slice(n + rows.start, n + rows.stop)))
    p_values = np.full((partition.n_units, 2 * partition.n_units), np.nan)
    for unit, rows in enumerate(partition.slices):
        inside = np.flatnonzero(in_plant[rows.start])
        for family in sources:
            for group in _of_equal_size(family):
                channels = np.array([range(cols.start, cols.stop) for _, cols in group])
                found = test.p_values(rows, inside, channels, weighted_chi2_logsf, bases)
                p_values[unit, [k for k, _ in group]] = found
    return p_values


def is_mostly_there(record):
    """Whether every unit's states are seen in most rows: what is filled says nothing of lags."""
    shares = [part.determined_rows.mean() for part in record.parts]
    return bool(record.determined.all() and min(shares) >= _LEAST_SEEN)


def filled_record(record, states):
    """The record as if every row were seen as the best one, the rest as expected of states (n_samples, n)."""
    parts = []
    for part, rows in zip(record.parts, record.partition.slices, strict=True):
        if part.is_constant:
            parts.append(part)
            continue
        usual = part.patterns[np.trace(part.patterns, axis1=1, axis2=2).argmax()]
        lacking = np.einsum("tij,tj->ti", (usual - part.patterns)[part.pattern_of], states[:, rows])
        parts.append(replace(part, z=part.z + lacking, patterns=usual[None], index=None, const=None))
    return replace(record, parts=tuple(parts))


def misfit_table(names, p_values):
    """One row per channel: ``cause, effect, kind, p_value, p_adjusted``, the last for all of them."""
    if p_values is None:
        return pd.DataFrame(columns=["cause", "effect", "kind", "p_value", "p_adjusted"])
    effect, source = np.nonzero(np.isfinite(p_values))
    is_input, cause = np.divmod(source, len(names))
    names, p = np.asarray(names, dtype=object), p_values[effect, source]
    columns = {"cause": names[cause], "effect": names[effect]}
    columns["kind"] = np.where(is_input, "input", "state").astype(object)
    return pd.DataFrame(columns | {"p_value": p, "p_adjusted": np.minimum(p * len(p), 1.0)})


def _of_equal_size(family):
    groups: dict = {}
    for k, cols in family:
        groups.setdefault(cols.stop - cols.start, []).append((k, cols))
    return groups.values()
