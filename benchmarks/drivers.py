"""A driver that nobody measures, or a link: which of the two the report says, beside LPCMCI on the same records.

Four units as in the benchmark of situations, 3000 rows; u2 and u3 share a driver (white, in the same row, or an
autoregression of .9), or are joined by a link or a loop. Run ``python -m benchmarks.drivers``; ``--lpcmci`` asks
LPCMCI too, which needs tigramite.
"""

import argparse
import warnings

import numpy as np

from skfedcausal import FederatedGrangerEstimator

from ._report import table, write
from ._situations import N_UNITS, WARM, P, Scene, _ar, _of_norm, _Plant

N_ROWS, PAIR, GAIN, LINK_GAIN = 3000, ("u2", "u3"), 0.4, 0.3
_TAU, _LEVEL = 2, 0.01


def driven(rng, phi):
    """u2 and u3 are moved by one series in the same row; without memory where phi is zero."""
    plant, drive = _Plant(rng, gain=0.0), np.zeros((N_ROWS + WARM, N_UNITS, P))
    drive[:, 2:, 0] = GAIN * _ar(rng, N_ROWS + WARM, phi)[:, None]
    return Scene(plant.sensors(plant.run(N_ROWS, drive=drive)))


def joined(rng, back):
    """u2 acts on u3 the row after, and u3 on u2 in a loop."""
    plant = _Plant(rng, gain=0.0)
    links = [_of_norm(rng, P, LINK_GAIN) for _ in range(2)]
    h, A = np.zeros((N_ROWS + WARM, N_UNITS, P)), np.array(plant.A)
    for t in range(1, len(h)):
        h[t] = np.einsum("uij,uj->ui", A, h[t - 1]) + rng.standard_normal((N_UNITS, P))
        h[t, 3] += links[0] @ h[t - 1, 2]
        if back:
            h[t, 2] += links[1] @ h[t - 1, 3]
    return Scene(plant.sensors(h[WARM:]))


KINDS = {
    "driver in the same row": lambda rng: driven(rng, 0.0),
    "driver AR(.9)": lambda rng: driven(rng, 0.9),
    "link": lambda rng: joined(rng, False),
    "loop": lambda rng: joined(rng, True),
}


def told(X):
    """Whether the pair is said to share a driver, whether it is said to be linked, and the estimator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = FederatedGrangerEstimator().fit(X)
    links = estimator.links_
    own = links[links["cause"].isin(PAIR) & links["effect"].isin(PAIR)]["verdict"]
    return bool((own == "shared driver").any()), bool((own == "influence").any()), estimator


def by_lpcmci(X, estimator):
    """The same of LPCMCI on the units' filtered states."""
    from tigramite import data_processing
    from tigramite.independence_tests.parcorr import ParCorr
    from tigramite.lpcmci import LPCMCI

    states = {name: client.filter(X[name]) for name, client in estimator.clients_.items()}
    owner = np.concatenate([[name] * states[name].shape[1] for name in X])
    frame = data_processing.DataFrame(np.hstack([states[name] for name in X]))
    graph = LPCMCI(frame, ParCorr()).run_lpcmci(tau_min=0, tau_max=_TAU, pc_alpha=_LEVEL)["graph"]
    marks = graph[np.ix_(owner == PAIR[0], owner == PAIR[1])].ravel().tolist()
    marks += [mark[::-1].translate(str.maketrans("<>", "><")) for mark in _back(graph, owner)]
    return "<->" in marks, bool({"-->", "<--"} & set(marks))


def _back(graph, owner):
    """Marks of lagged pairs whose cause is the second unit; those of the same row are there already."""
    return graph[np.ix_(owner == PAIR[1], owner == PAIR[0])][:, :, 1:].ravel().tolist()


def main():
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="seed of the first record")
    parser.add_argument("--lpcmci", type=int, default=0, help="records that LPCMCI is asked about")
    asked = parser.parse_args()
    rows = []
    for place, (kind, draw) in enumerate(KINDS.items()):
        found, rivals = [], []
        for k in range(asked.records):
            X = draw(np.random.default_rng([asked.first + k, place, 3000])).X
            *answer, estimator = told(X)
            found.append(answer)
            if k < asked.lpcmci:
                rivals.append(by_lpcmci(X, estimator))
        row = {"pair": kind, "records": asked.records}
        row |= {"shared driver": f"{np.mean([d for d, _ in found]):.2f}"}
        row |= {"influence": f"{np.mean([link for _, link in found]):.2f}"}
        if rivals:
            row |= {"LPCMCI: <->": f"{np.mean([d for d, _ in rivals]):.2f}"}
            row |= {"LPCMCI: directed": f"{np.mean([link for _, link in rivals]):.2f}"}
        print(row, flush=True)
        rows.append(row)
    write(
        "drivers",
        "A driver that nobody measures, or a link",
        f"Four units of two states behind six sensors, {N_ROWS} rows; a driver of unit variance moves the first states "
        f"of two units, gain {GAIN}, links have the norm {LINK_GAIN}. Shares of records in which the pair gets "
        f"the verdict. LPCMCI (first {asked.lpcmci} records) sees the units' filtered states, up to {_TAU} lags, at "
        f"{_LEVEL}; it is counted if any pair of states has the mark, so that a record may count in both columns.",
        table(rows),
    )


if __name__ == "__main__":
    main()
