"""How far the Whittle estimate lies from the exact maximum-likelihood estimate on complete records.

Run ``python -m benchmarks.whittle``.
"""

import argparse

import numpy as np

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodServer
from skfedcausal.server.estimation.scoring import Point, Scoring, ascend
from skfedcausal.server.estimation.standardised import StandardisedPlant
from skfedcausal.server.joint import JointRecord

from ._plants import weak_links
from ._report import mean_and_error, table, write

_TOL = 1e-9


def distance(n_units, n_samples, seed):
    """Root mean square and largest difference of the free elements of A and Q, in standard errors.

    Both likelihoods are climbed with the links that the default fit selected.
    """
    X, truth = weak_links(n_units, n_samples, seed)
    clients = {name: KalmanClient(**model) for name, model in truth.clients().items()}
    estimator = FederatedGrangerEstimator(client=clients).fit(X)
    messages = {name: estimator.clients_[name].message(Y) for name, Y in X.items()}
    plant = StandardisedPlant(JointRecord.from_messages(messages))
    start = plant.uncoupled
    server = LikelihoodServer().fit(messages)
    linked = np.array([np.any(server.unshrunk_transition_[block]) for block in _blocks(server)])
    structure = plant.structure().with_masks(linked=linked)
    points = []
    for objective in (plant.whittle(), plant.time_domain()):
        point = Point.at(objective, *(points[-1] if points else start))
        scoring = Scoring(objective, structure, point)
        ascent = ascend(objective, scoring, gain_tol=n_samples * _TOL**2)
        assert ascent.converged, "the climb did not converge"
        points.append((ascent.point.A, ascent.point.Q))
    last = Scoring(objective, structure, ascent.point)
    gather = structure.free.gather
    z = (gather(*points[0]) - gather(*points[1])) / np.sqrt(np.diag(last.covariance))
    return np.sqrt(np.mean(z**2)), np.abs(z).max()


def _blocks(server):
    """Off-diagonal blocks in the order of the pairs."""
    rows = [server.state_slices_[name] for name in server.names_]
    return [(rows[effect], rows[cause]) for effect, cause in server.partition_.pairs]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    rows = []
    for n_samples in (500, 2000, 8000):
        found = [distance(arguments.units, n_samples, seed) for seed in range(arguments.seeds)]
        typical, largest = zip(*found, strict=True)
        rows.append(
            {
                "rows": n_samples,
                "rms difference / standard error": mean_and_error(typical),
                "largest / standard error": mean_and_error(largest),
            }
        )
        print(table(rows[-1:]), flush=True)
    write(
        "whittle",
        "Whittle against exact maximum likelihood, complete records",
        f"Plants of {arguments.units} units with two states and eight sensors each, known unit models, "
        "sensor noise as large as the state noise. Differences over all free elements of A and Q with the "
        f"links of the default fit, both likelihoods climbed to a gradient of length {_TOL:g} per time "
        f"step; means over {arguments.seeds} data sets with standard errors.",
        table(rows),
    )


if __name__ == "__main__":
    main()
