"""Table 3: estimated blocks under a persistent level shift, and the same blocks on stationary data.

Run ``python -m benchmarks.paper1.table3``.
"""

import numpy as np

from .._report import table, write
from ._setting import SETTING, by_default, relative_error, stationary_clients, trained, two_clients

MODES = {
    "paper's mode, batch, 3000 rounds": {"exchange": "moments"},
    "paper's mode, online, 2 passes": {"update": "online"},
    "paper's mode, stationary solve": {"solve": "stationary"},
}
DEFAULT = "default mode (LikelihoodServer)"


def drifting_clients(seed):
    """The plant of the table without a push: a first client that drifts, a stationary record."""
    return two_clients(seed, size=0)


def matrix(block):
    """A 2 x 2 block on one line."""
    return "[" + "; ".join(" ".join(f"{x:.4f}" for x in row) for row in block) + "]"


def rows_of(X, truth):
    """One row per mode."""
    fits = {name: trained(X, truth, **settings) for name, settings in MODES.items()}
    default = by_default(X, truth)
    fits[DEFAULT + ("" if default.server_.converged_ else ", did not converge")] = default
    return [
        {
            "": name,
            "A21 (true: 0.25 everywhere)": matrix(fit.transition_[2:, :2]),
            "A12 (true: 0)": matrix(fit.transition_[:2, 2:]),
            "error of A21, relative": f"{np.linalg.norm(fit.transition_[2:, :2] - 0.25) / 0.5:.3f}",
        }
        for name, fit in fits.items()
    ]


def repeated(make, seeds):
    """Largest deviations over several seeds."""
    out = []
    for name, settings in {**MODES, DEFAULT: None}.items():
        if name.startswith("paper's mode, online"):
            continue
        deviation, zero, error, failed = [], [], [], 0
        for seed in seeds:
            X, truth = make(seed)
            fit = by_default(X, truth) if settings is None else trained(X, truth, **settings)
            failed += settings is None and not fit.server_.converged_
            deviation.append(np.abs(fit.transition_[2:, :2] - 0.25).max())
            zero.append(np.abs(fit.transition_[:2, 2:]).max())
            error.append(relative_error(fit.transition_, truth))
        out.append(
            {
                "": f"{name}, {failed} of {len(seeds)} did not converge" if failed else name,
                "largest deviation of A21": f"{max(deviation):.3f}",
                "largest element of A12": f"{max(zero):.4f}",
                "relative error, mean": f"{np.mean(error):.3f}",
            }
        )
    return out


def main():
    """Print and write the table."""
    paper = {
        "": "paper, Table 3",
        "A21 (true: 0.25 everywhere)": "[0.2793 0.2441; 0.3351 0.3298]",
        "A12 (true: 0)": "[0.0186 -0.0113; 0.0102 0.0010]",
        "error of A21, relative": f"{np.linalg.norm([0.0293, -0.0059, 0.0851, 0.0798]) / 0.5:.3f}",
    }
    seeds = range(5)
    write(
        "paper1/table3",
        "First paper, Table 3: A21 and A12",
        SETTING + " The push has size 1.",
        "## One record\n\n" + table([paper, *rows_of(*two_clients())]),
        "## Largest deviations, 5 records with a push of size 1\n\n" + table(repeated(two_clients, seeds)),
        "## The same plant without a push: client 1 drifts on its own, 5 records\n\n"
        + table(repeated(drifting_clients, seeds)),
        "## The same A21 on stationary data (A11 = 0.7 I, no push), 5 records\n\n"
        "The losses fall here too; the blocks do not get near the truth.\n\n"
        + table(repeated(stationary_clients, seeds)),
    )


if __name__ == "__main__":
    main()
