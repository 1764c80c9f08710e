"""
An engine of your own
=====================

What learns a plant can be exchanged. An engine leaves a plant and the estimate of every pair's block behind; tables of
links, tests, intervals, forecasts, changes and checks come from these. This one is a vector autoregression by least
squares on the states that the units send. What it does not know: that a unit's sensors add noise to its states.
"""

# %%
# The engine: coefficients of all states on those of the row before, their noise, and covariances of the blocks.
from dataclasses import dataclass

import numpy as np

from skfedcausal import FederatedGrangerEstimator, inspection
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.engines import (
    BlockEstimates,
    Climb,
    Engine,
    EngineServer,
    Learned,
    OperatingPoint,
    Plant,
)


@dataclass(repr=False, eq=False, kw_only=True)
class LeastSquaresServer(EngineServer):
    """A vector autoregression of the states, by least squares."""

    alpha: float = 0.05
    margin: float = 0.1

    def learned(self, record):
        """The plant of a joint record, and estimates of its links."""
        scores = (
            record.scores.series
        )  # centred states (n_samples, n), every row as measured
        late = np.setdiff1d(np.arange(len(scores)), record.starts)
        X, Y = scores[late - 1], scores[late]
        A = np.linalg.lstsq(X, Y, rcond=None)[0].T
        Q, G = np.cov(Y - X @ A.T, rowvar=False), np.linalg.inv(X.T @ X)
        scale = np.diag(scores.std(axis=0))
        back, pairs, estimates, covariances = (
            np.linalg.inv(scale),
            record.partition.pairs,
            [],
            [],
        )
        for effect, cause in pairs:
            m, n = (
                record.partition.slices[effect],
                record.partition.slices[cause],
            )
            estimates.append((back[m, m] @ A[m, n] @ scale[n, n]).ravel())
            noise, known = (
                back[m, m] @ Q[m, m] @ back[m, m].T,
                scale[n, n] @ G[n, n] @ scale[n, n],
            )
            covariances.append(np.kron(noise, known))
        blocks = BlockEstimates.padded(
            np.array(estimates), np.array(covariances), record.partition
        )
        n = len(A)
        point = OperatingPoint.of(record, A, (), np.zeros((n, 0)), scale)
        plant = Plant.of_one_lag(
            A, np.zeros((n, 0)), Q, point=point, scale=scale
        )
        return Learned(
            plant, (A, np.zeros((n, 0))), Climb(1, True, 0.0, False)
        ), Engine(pairs, blocks)


# %%
# Every question works on it.
X, truth = make_granger_plant(
    4, links=[("unit0", "unit1"), ("unit2", "unit3")], random_state=0
)
estimator = FederatedGrangerEstimator(server=LeastSquaresServer()).fit(X)
print(
    estimator.links_[
        ["cause", "effect", "verdict", "norm", "p_adjusted"]
    ].round(3)
)
print(inspection.link_intervals(estimator, geweke=True).round(3))
print(estimator.test_links(X, method="wald").round(3))
print(estimator.validity_[~estimator.validity_["passed"]])
print(estimator.forecast(X, 3))
