"""Table 5: server loss with more sensors and with more clients.

Run ``python -m benchmarks.paper1.table5``.
"""

import numpy as np

from skfedcausal.datasets import make_granger_plant

from .._report import table, write
from ._setting import by_default, relative_error, trained

PAPER_SENSORS = {16: 0.0027, 32: 0.0061, 64: 0.0090, 128: 0.0084}
PAPER_CLIENTS = {2: 0.0003, 4: 0.0001, 8: 0.0026, 16: 0.0004}
SEEDS = range(3)


def chain(n_units, n_sensors, seed):
    """A first unit that drifts, each unit driven by the one before it with 0.25 everywhere."""
    A = np.kron(np.eye(n_units), 0.5 * np.eye(2))
    A[:2, :2] = 0.99 * np.eye(2)
    for m in range(1, n_units):
        A[2 * m : 2 * m + 2, 2 * m - 2 : 2 * m] = 0.25
    return make_granger_plant(n_units, transition=A, n_sensors=n_sensors, n_samples=5000, random_state=seed)


def server_loss_by_default(fit, X, truth):
    """Distance of the server's to the augmented one-step predictions, in states."""
    difference = fit.predict(X, model="server") - fit.predict(X, model="augmented")
    loss, first = 0.0, 0
    for C in truth.observation:
        states = np.linalg.lstsq(C, difference[1:, first : first + len(C)].T, rcond=None)[0]
        loss += (states**2).sum(axis=0).mean()
        first += len(C)
    return loss


def row(n_units, n_sensors):
    """Means over the seeds."""
    found = []
    for seed in SEEDS:
        X, truth = chain(n_units, n_sensors, seed)
        fit, default = trained(X, truth, exchange="moments"), by_default(X, truth)
        size = (truth.states**2).sum(axis=1).mean()
        found.append(
            (
                fit.server_.loss_history_["server"].iloc[-1].sum(),
                fit.server_.loss_history_["server"].iloc[-1].sum() / size,
                relative_error(fit.transition_, truth),
                server_loss_by_default(default, X, truth),
                relative_error(default.transition_, truth),
            )
        )
    loss, share, error, default_loss, default_error = np.mean(found, axis=0)
    return {
        "Ls, paper's mode": f"{loss:.3g}",
        "share of the states' mean square": f"{share:.1e}",
        "error of A_mn, paper's mode": f"{error:.3f}",
        "Ls, default mode": f"{default_loss:.3g}",
        "error of A_mn, default mode": f"{default_error:.3f}",
    }


def main():
    """Print and write the table."""
    sensors = [{"D": d, "paper": loss, **row(2, d)} for d, loss in PAPER_SENSORS.items()]
    clients = [{"M": m, "paper": loss, **row(m, 8)} for m, loss in PAPER_CLIENTS.items()]
    write(
        "paper1/table5",
        "First paper, Table 5: server loss by number of sensors and of clients",
        "Chains of clients, A_mm = 0.5 I but for a first one with 0.99 I that drifts; every client is driven "
        "by the one before it with 0.25 everywhere; P = 2, T = 5000, unit noises, 3000 rounds on moments, "
        f"means over {len(SEEDS)} plants. In the default mode Ls is the same distance between the server's "
        "and the augmented predictions, whose augmentation is fitted to the server's influence term. The "
        "scale of the loss is that of the states; errors are relative, in Frobenius norm. Small losses do "
        "not mean small errors: from the third client on every level is explained by every other.",
        "## More sensors, M = 2\n\n" + table(sensors),
        "## More clients, D = 8\n\n" + table(clients),
    )


if __name__ == "__main__":
    main()
