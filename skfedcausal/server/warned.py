"""What a fit says to whoever called it, once a plant was learned."""

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..callers import warn
from .tuning import TUNING


def drifting_units(transition, slices, n_samples, *, in_blocks=False):
    """Units whose states cannot be told from random walks, of the plant or, in blocks, of each on its own."""
    if in_blocks:
        blocks = {name: transition[rows, rows] for name, rows in slices.items()}
        return tuple(name for name, A in blocks.items() if _is_drift(np.linalg.eigvals(A), n_samples).any())
    values, modes = np.linalg.eig(transition)
    carriers = {int(np.abs(mode).argmax()) for mode in modes.T[_is_drift(values, n_samples)]}
    return tuple(name for name, rows in slices.items() if carriers.intersection(range(rows.start, rows.stop)))


def _is_drift(values, n_samples):
    """Which eigenvalues of a plant cannot be told from those of a random walk."""
    return np.abs(values) > max(1 - TUNING.warned_drift / n_samples, TUNING.warned_slow)


def warn_of_drift(drifting):
    """Say which units drift, of whose links to each other nothing is said."""
    if drifting:
        warn(
            f"Units whose states drift like a random walk within this record: {', '.join(drifting)}. "
            "Units that drift on their own seem to influence each other: nothing is said of links between them "
            '("cannot tell"). Give differences or detrended '
            "measurements, or a record that is long compared with the drift.",
        )


def warn_of_filled_gaps(n_samples, max_time):
    """Say that a record was too long for the exact likelihood of its gaps."""
    warn(
        f"The exact likelihood of {n_samples} rows with gaps takes longer than "
        f"max_time={max_time:g}: the links were learned from what each row says by itself, with equal weight for all "
        "rows, which finds slightly less. Raise max_time for the exact one.",
    )


def warn_of_rounds(number):
    """Say that further rounds would have made it worse."""
    warn(
        f"What the plant of round {number} expects of the states has no covariance, as where a few rows are far "
        "from all others: the units' sensors were not estimated again. Leave such rows out.",
    )


def warn_of_climb(n_iter, gradient_norm, tol):
    """Say how far from the maximum a climb ended."""
    left = f"its gradient per time step has length {gradient_norm:.2e} (tol={tol:.0e})"
    if gradient_norm <= tol:
        left = "links still came and went"
    warn(
        f"The likelihood did not converge: after {n_iter} iterations {left}. Raise max_iter or "
        "max_time, give fewer states or more data; far from the maximum no link can be decided.",
        ConvergenceWarning,
    )


def warn_of_budget(budget, max_time, what):
    """Say that the work was ended, and whether another run may end elsewhere."""
    clock = " The clock stopped it: another run may end elsewhere." * budget.stopped_by_clock
    warn(
        f"{what} was ended after {budget.max_time:.3g} s of computing (max_time={max_time:.3g} in all): this is "
        f"the best plant so far. Raise max_time, or give fewer units or states.{clock}",
        ConvergenceWarning,
    )


def warn_of_border(shrunk_by):
    """Say that the poles of a plant of several lags were brought in."""
    warn(
        "The plant of several lags that fits the record best is at the border of stability; its "
        f"poles were brought in by a factor {shrunk_by:.6f}. Long free runs depend on it.",
    )
