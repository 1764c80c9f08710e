"""Units whose reports fall into different rows are fitted by the exact likelihood from sensible starts."""

import numpy as np
import pytest

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.links.questions import screen

pytestmark = pytest.mark.medium

RATES = pytest.mark.parametrize(("periods", "offsets"), [((2, 2), (0, 1)), ((2, 3), (0, 0)), ((1, 4), (0, 2))])


def record(seed, periods, offsets, *, n_samples=400, links=()):
    X, truth = make_granger_plant(
        2,
        n_samples=n_samples,
        n_sensors=4,
        links=links,
        link_strength=0.5,
        radius=(0.8, 0.9),
        random_state=seed,
    )
    for Y, period, offset in zip(X.values(), periods, offsets, strict=True):
        empty = np.ones(len(Y), dtype=bool)
        empty[offset::period] = False
        Y[empty] = np.nan
    return X, truth


def fitted(X, truth):
    clients = [KalmanClient(C=C, R=R) for C, R in zip(truth.observation, truth.measurement_cov, strict=True)]
    server = LikelihoodServer(max_time=60)  # row by row: a warning says so where there is too little
    return FederatedGrangerEstimator(clients, server=server).fit(X)


@RATES
def test_nothing_is_made_of_rows_without_reports(periods, offsets):
    """Lags without products count as unknown, not as zero: no shifts, no common noise, no prior."""
    est = fitted(*record(0, periods, offsets))
    assert est.server_.likelihood_ == "time-domain"
    assert est.server_.converged_
    assert not est.server_.has_prior_
    assert len(est.server_.level_shifts_) == 0
    assert len(est.server_.correlations_) == 0


@RATES
def test_the_fit_is_at_least_as_likely_as_the_truth(periods, offsets):
    X, truth = record(1, periods, offsets)
    est = fitted(X, truth)
    given = [
        KalmanClient(A=truth.transition[s, s], C=C, Q=truth.process_cov[s, s], R=R)
        for s, C, R in zip(truth.state_slices.values(), truth.observation, truth.measurement_cov, strict=True)
    ]
    alone = [client.fit(Y).score(Y) for client, Y in zip(given, X.values(), strict=True)]
    assert est.score(X) >= np.sum(alone)


def test_a_link_between_units_that_never_report_together_is_found():
    X, truth = record(0, (2, 2), (0, 1), n_samples=2000, links=[("unit0", "unit1")])
    est = fitted(X, truth)
    found = est.links_.query("verdict == 'influence'")
    assert found[["cause", "effect"]].to_numpy().tolist() == [["unit0", "unit1"]]
    with est._asking(X) as units:
        table = screen(est.server_, units.messages())
    assert table.loc[table["p_value"].idxmin(), "cause"] == "unit0"
