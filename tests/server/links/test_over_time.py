"""Links in pieces of time."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, chi2

from skfedcausal import FederatedGrangerEstimator, inspection
from skfedcausal.server.links.resampling import _cuts, _misfit


def pieces(rng, means, e=3):
    """Estimates of a block of e elements from pieces, with precisions of their own."""
    factors = rng.normal(size=(len(means), e, e)) + 2 * np.eye(e)
    covariance = factors @ np.swapaxes(factors, 1, 2)
    noise = np.einsum("kij,kj->ki", np.linalg.cholesky(covariance), rng.normal(size=(len(means), e)))
    return np.asarray(means, dtype=float)[:, None] + noise, np.linalg.inv(covariance)


def test_the_distance_of_equal_pieces_to_their_mean_is_chi_squared():
    rng = np.random.default_rng(0)
    found = [_misfit(*pieces(rng, np.zeros(6))) for _ in range(400)]
    rejected = np.sum(chi2.sf(found, 3 * 5) < 0.05)
    assert binom.ppf(1e-4, 400, 0.05) <= rejected <= binom.ppf(1 - 1e-4, 400, 0.05)


@pytest.mark.parametrize("price", [0.5, 5.0, 50.0])
def test_stretches_are_the_best_of_all(price):
    """By trying every division of seven pieces."""
    estimate, precision = pieces(np.random.default_rng(1), [0, 0, 9, 9, 9, 0, 4])

    def cost(cuts):
        stretches = zip((0, *cuts), (*cuts, 7), strict=True)
        return sum(price + _misfit(estimate[a:b], precision[a:b]) for a, b in stretches)

    every = [cuts for k in range(7) for cuts in combinations(range(1, 7), k)]
    best = min(every, key=cost)
    assert _cuts(estimate, precision, price) == [0, *best, 7]


@pytest.fixture(scope="module")
def changing():
    """Two links; the first is gone in the second of three episodes."""
    rng = np.random.default_rng(0)
    h, A = np.zeros((2400, 3)), np.diag([0.6, 0.5, 0.7])
    A[2, 1] = 0.3
    for t in range(1, len(h)):
        A[1, 0] = 0.0 if 800 <= t < 1600 else 0.3
        h[t] = (t % 800 > 0) * A @ h[t - 1] + rng.normal(size=3)
    noisy = {f"unit{k}": h[:, [k]] * [1.0, 0.7, 1.3] + 0.3 * rng.normal(size=(2400, 3)) for k in range(3)}
    return noisy, [800, 800, 800]


def test_what_changes_is_told_with_its_rows(changing):
    X, lengths = changing
    est = FederatedGrangerEstimator().fit(X, lengths=lengths)
    table = inspection.links_over_time(est, X, lengths=lengths, piece=400)
    found = table[table["changes"]]
    assert set(zip(found["cause"], found["effect"], strict=True)) == {("unit0", "unit1")}
    assert found[["start", "stop"]].to_numpy().tolist() == [[0, 800], [800, 1600], [1600, 2400]]
    assert found["verdict"].tolist() == ["influence", "no influence", "influence"]
    steady = table[(table["cause"] == "unit1") & (table["effect"] == "unit2")]
    assert steady[["start", "stop", "verdict"]].to_numpy().tolist() == [[0, 2400, "influence"]]
    # what is the same everywhere is estimated from all rows
    whole = est.links_.set_index(["cause", "effect"]).loc[("unit1", "unit2")]
    assert steady["norm"].iloc[0] == pytest.approx(whole["norm"], abs=whole["stderr"])


def test_rows_are_told_by_their_labels(changing):
    X, _ = changing
    times = pd.date_range("2026-01-01", periods=2400, freq="min")
    frame = pd.concat({name: pd.DataFrame(Y, index=times) for name, Y in X.items()}, axis=1)
    table = inspection.links_over_time(FederatedGrangerEstimator().fit(frame), frame, piece=800)
    found = table[table["changes"] & (table["cause"] == "unit0")]
    assert found["start"].tolist() == list(times[[0, 800, 1600]])
    assert found["stop"].tolist() == list(times[[800, 1600, 2399]])


@pytest.mark.parametrize(
    ("piece", "message"), [(1, "piece=1"), (2.5, "piece=2.5"), (20, "piece=20; .* at least 50"), (2400, "is one piece")]
)
def test_pieces_that_cannot_be_compared_are_refused(changing, piece, message):
    X, _ = changing
    est = FederatedGrangerEstimator().fit(X)
    with pytest.raises(ValueError, match=message):
        inspection.links_over_time(est, X, piece=piece)


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore:The exact likelihood")
def test_gaps_are_no_obstacle(changing):
    X, lengths = changing
    X = {name: Y.copy() for name, Y in X.items()}
    X["unit0"][100:150] = np.nan
    X["unit2"][::9, 0] = np.nan
    table = inspection.links_over_time(
        FederatedGrangerEstimator().fit(X, lengths=lengths), X, lengths=lengths, piece=800
    )
    found = table[table["changes"]]
    assert set(zip(found["cause"], found["effect"], strict=True)) == {("unit0", "unit1")}
