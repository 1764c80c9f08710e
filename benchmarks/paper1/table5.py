"""Table 5: server loss with more sensors and with more clients."""

import numpy as np

from ._setting import SETTING, by_default, pushed, relative_error, trained

TITLE = "First paper, Table 5: server loss by number of sensors and of clients"
TEXT = SETTING + (
    " Here in chains: the first client is pushed, every other has A_mm as client 2 and is driven by the one "
    "before it. Means over the plants {records}. In the default mode Ls is the same distance between the "
    "server's and the augmented predictions, whose augmentation is fitted to the server's influence term. "
    "The scale of the loss is that of the states, so its share of the states' mean square is shown; errors "
    "are relative, in Frobenius norm. Small losses do not mean small errors: from the third client on every "
    "level is explained by every other."
)
PAPER_SENSORS = {16: 0.0027, 32: 0.0061, 64: 0.0090, 128: 0.0084}
PAPER_CLIENTS = {2: 0.0003, 4: 0.0001, 8: 0.0026, 16: 0.0004}


def chain(s, n_units, n_sensors, seed):
    """A first unit that is pushed, each other driven by the one before it."""
    A = np.kron(np.diag([s["own"][0], *[s["own"][1]] * (n_units - 1)]), np.eye(2))
    for m in range(1, n_units):
        A[2 * m : 2 * m + 2, 2 * m - 2 : 2 * m] = s["driving"]
    return pushed(s, A, seed, n_sensors=n_sensors)


def server_loss_by_default(fit, X, truth):
    """Distance of the server's to the augmented one-step predictions, in states."""
    difference = fit.predict(X, model="server") - fit.predict(X, model="augmented")
    loss, first = 0.0, 0
    for C in truth.observation:
        states = np.linalg.lstsq(C, difference[1:, first : first + len(C)].T, rcond=None)[0]
        loss += (states**2).sum(axis=0).mean()
        first += len(C)
    return loss


def row(s, n_units, n_sensors):
    """Means over the records."""
    found = []
    for seed in s["records"]:
        X, truth = chain(s, n_units, n_sensors, seed)
        fit = trained(X, truth, exchange="moments", max_iter=s["max_iter"])
        default = by_default(X, truth)
        loss = fit.server_.loss_history_["server"].iloc[-1].sum()
        size = (truth.states**2).sum(axis=1).mean()
        errors = relative_error(fit.transition_, truth), relative_error(default.transition_, truth)
        found.append((loss, loss / size, errors[0], server_loss_by_default(default, X, truth), errors[1]))
    names = (
        "Ls, paper's mode",
        "share of the states' mean square",
        "error of A_mn, paper's mode",
        "Ls, default mode",
        "error of A_mn, default mode",
    )
    return dict(zip(names, np.mean(found, axis=0), strict=True))


def figures(s):
    """Sections of the table."""
    sensors = [{"": f"D = {d}", "paper": PAPER_SENSORS[d], **row(s, 2, d)} for d in s["sensors"]]
    clients = [{"": f"M = {m}", "paper": PAPER_CLIENTS[m], **row(s, m, s["n_sensors"])} for m in s["clients"]]
    return {"More sensors, M = 2": sensors, "More clients": clients}
