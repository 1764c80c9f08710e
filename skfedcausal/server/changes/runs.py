"""Filters over a record in which a plant changes: every row by the plant of its time."""

import numpy as np

from ...statespace.matrices import companion, spectral_radius


class ChangingRun:
    """Filters of the same record, each from some row on to where the next one begins."""

    def __init__(self, rows, runs, n_samples):
        self._slices = [slice(a, b) for a, b in zip(rows, [*rows[1:], n_samples], strict=True)]
        self._runs = runs

    def _joined(self, series):
        return np.concatenate([x[rows] for x, rows in zip(series, self._slices, strict=True)])

    @property
    def filtered(self):
        """``E[h_t | messages up to t]``, (n_samples, n)."""
        return self._joined([run.filtered for run in self._runs])

    @property
    def predicted(self):
        """``E[h_t | messages up to t - 1]``, (n_samples, n)."""
        return self._joined([run.predicted for run in self._runs])

    def unit_covariances(self, slices):
        """Covariance of each unit's predicted states at every row."""
        by_run = [run.unit_covariances(slices) for run in self._runs]
        return [self._joined([found[k] for found in by_run]) for k in range(len(slices))]


def changed_run(plant, changes, filter_of):
    """The filter that knows of changes of links by (effect, cause), from their dates on.

    A change that leaves no stable plant is left out: a filter begins with the states' stationary spread.
    """
    rows, runs, lags = [0], [filter_of(plant.A)], plant.A
    for (effect, cause), change in sorted(changes.items(), key=lambda item: item[1].since):
        changed = with_kernel(lags, plant.partition, effect, cause, change.kernel)
        if spectral_radius(companion(np.hstack(list(changed)), len(changed))) >= 1 - 1e-6:
            continue
        lags, since = changed, int(change.since)
        if since == rows[-1]:
            runs[-1] = filter_of(lags)
        else:
            rows.append(since)
            runs.append(filter_of(lags))
    run = runs[0]
    return run if len(runs) == 1 else ChangingRun(rows, runs, len(run.filtered))


def with_kernel(lags, partition, effect, cause, kernel):
    """Coefficients (q, n, n) with others for one link."""
    n_lags = max(len(lags), 1 + max(np.flatnonzero(kernel.any(axis=(1, 2))), default=0))
    changed = np.zeros((n_lags, *lags.shape[1:]))
    changed[: len(lags)] = lags
    rows, cols = partition.slices[effect], partition.slices[cause]
    changed[:, rows, cols] = 0.0
    changed[: len(kernel), rows, cols] = kernel[:n_lags]
    return changed
