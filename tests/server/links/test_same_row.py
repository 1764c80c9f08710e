"""Which unit acts on the other within a row."""

import numpy as np
import pytest
from scipy.stats import binom

from skfedcausal import FederatedGrangerEstimator
from skfedcausal.server.links.tables import independence

LAWS = {
    "uniform": lambda rng, size: rng.uniform(-(3**0.5), 3**0.5, size),
    "exponential": lambda rng, size: rng.exponential(size=size) - 1,
    "fat tails": lambda rng, size: rng.laplace(size=size) / 2**0.5,
}


def noise_of_units(law, rng, n=3000):
    """Process noise of a unit of two states that acts on one of three, and noise of sensors."""
    cause = law(rng, (n, 2))
    effect = cause @ np.array([[0.5, 0.2, 0.0], [0.0, 0.3, 0.4]]) + 0.8 * law(rng, (n, 3))
    return cause + 0.4 * rng.normal(size=cause.shape), effect + 0.4 * rng.normal(size=effect.shape)


def p_value(cause, effect, noise=0.4):
    p = cause.shape[1]
    C = np.cov(np.hstack([cause, effect]).T)
    return independence(cause, effect, C[:p, :p] - noise**2 * np.eye(p), C[p:, :p])


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_what_is_true_is_refuted_as_rarely_as_the_level_says(law):
    """Whatever the law, with noise of the sensors in cause and effect: 200 records at 5 %."""
    found = [p_value(*noise_of_units(law, np.random.default_rng(seed))) < 0.05 for seed in range(200)]
    assert sum(found) <= binom.ppf(0.9999, 200, 0.05)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_the_other_direction_is_refuted(law):
    """Between units of one state; several mixed are nearer to Gaussian, and take more rows."""
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        cause = law(rng, (3000, 1))
        effect = 0.5 * cause + 0.75**0.5 * law(rng, (3000, 1))
        cause, effect = (w + 0.3 * rng.normal(size=w.shape) for w in (cause, effect))
        found.append(p_value(effect, cause, 0.3) < 1e-3)
    assert np.mean(found) >= 0.9


def test_both_directions_are_as_good_for_gaussian_noise():
    def gaussian(rng, size):
        return rng.normal(size=size)

    found = [p_value(*noise_of_units(gaussian, np.random.default_rng(seed))[::-1]) < 0.05 for seed in range(200)]
    assert sum(found) <= binom.ppf(0.9999, 200, 0.05)


def plant(rng, kind, n=3000):
    """Four units, the first two of which go together in the same row; the first acts on the third a row later."""
    law = LAWS["fat tails"]
    w = law(rng, (n, 4))
    if kind == "cause":
        w[:, 1] = 0.6 * w[:, 0] + 0.8 * w[:, 1]
    else:
        w[:, :2] = 0.6 * w[:, :2] + 0.8 * law(rng, (n, 1))
    h = np.zeros((n, 4))
    A = np.diag([0.7, 0.6, 0.5, 0.8])
    A[2, 0] = 0.3
    for t in range(1, n):
        h[t] = A @ h[t - 1] + w[t]
    return {f"unit{k}": h[:, [k]] * [1.0, 1.3, 0.8] + 0.3 * rng.normal(size=(n, 3)) for k in range(4)}


@pytest.mark.parametrize(("kind", "expected"), [("cause", "unit0 -> unit1"), ("driver", "cannot tell")])
def test_a_plant_says_which_unit_acts_within_the_row(kind, expected):
    X = plant(np.random.default_rng(0), kind)
    table = FederatedGrangerEstimator().fit(X).server_.correlations_
    row = table[(table["first"] == "unit0") & (table["second"] == "unit1")].iloc[0]
    assert row["direction"] == expected
    assert row["p_second_acts"] < 1e-3
    assert (row["p_first_acts"] < 1e-3) == (kind == "driver")


@pytest.mark.medium
def test_nothing_is_said_of_a_record_with_gaps():
    X = plant(np.random.default_rng(0), "cause", n=1500)
    X["unit1"][::7] = np.nan
    table = FederatedGrangerEstimator().fit(X).server_.correlations_
    assert len(table)
    assert set(table["direction"]) == {"cannot tell"}
    assert table["p_first_acts"].isna().all()


@pytest.mark.parametrize("noise", [0.0, 1e-12, 1e-9])
def test_nothing_is_said_of_which_of_two_copies_acts(noise):
    rng = np.random.default_rng(0)
    cause = rng.laplace(size=(1000, 2))
    effect = cause @ [[2.0, 0.0], [1.0, -3.0]] * (1 + noise * rng.standard_normal((1000, 2)))
    assert np.isnan(p_value(cause, effect, 0.0))
    assert np.isnan(p_value(cause, np.zeros((1000, 2)), 0.0))
