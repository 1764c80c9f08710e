"""Links and drivers that nobody measures, told from each other on pairs of known make."""

import numpy as np
import pytest

from benchmarks._situations import draw
from skfedcausal import FederatedGrangerEstimator
from skfedcausal.server.validity import drivers
from skfedcausal.server.validity.report import Evidence

pytestmark = pytest.mark.medium


def pair(seed, *, link=0.0, driver=0.0, pole=0.9, n=3000):
    """Scores of two units of one state: a link of the first to the second, or a driver of both."""
    rng = np.random.default_rng(seed)
    h, f = np.zeros((n, 2)), 0.0
    w = rng.standard_normal((n, 3))
    for t in range(1, n):
        f = pole * f + np.sqrt(1 - pole**2) * w[t, 2]
        h[t] = 0.5 * h[t - 1] + [0.0, link * h[t - 1, 0]] + w[t, :2] + driver * f
    return h + 0.5 * rng.standard_normal((n, 2))


def test_bands_hold_the_variance_of_the_record():
    series = pair(1)
    found = drivers.bands(series, (0, 1000))
    power = np.einsum("k,kij->ij", found.n_bins, found.power).real / found.n_bins.sum()
    np.testing.assert_allclose(power, np.cov(series.T), atol=0.02)


def evidence_of(**known):
    """Evidence of which only some is known."""
    return Evidence(**dict.fromkeys(Evidence.__dataclass_fields__) | {"names": ("a", "b", "c", "d"), **known})


@pytest.mark.parametrize(
    ("known", "pairs"),
    [
        ("", {(0, 1), (2, 3)}),
        ("has_prior", {(0, 1), (0, 2), (2, 3)}),
        ("has_memory", {(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)}),
    ],
)
def test_links_are_suspected_that_a_driver_may_leave(known, pairs):
    linked, correlated = {(0, 1), (1, 0), (2, 0), (1, 3), (3, 1), (1, 2)}, {(3, 2)}
    sure = {(1, 3), (3, 1), (0, 1), (1, 2)}
    found = evidence_of(linked=linked, correlated=correlated, sure=sure, **({known: True} if known else {}))
    assert found.suspected == pairs
    assert found.backed_loops == ({(0, 1), (1, 3)} if known == "has_prior" else set())


@pytest.mark.parametrize(("driven", "pairs"), [("ab", []), ("ab bd", [("a", "d")])])
def test_links_of_units_that_share_a_driver_with_one_between_are_not_told(driven, pairs):
    found = evidence_of(linked={(0, 1), (0, 3), (2, 3)}, sure={(0, 3)})
    rows = [("no shared driver", *pair, 1.0, np.nan, False, "measure it") for pair in driven.split()]
    assert [row[:3] for row in drivers._of_more_units(found, rows)] == [
        ("apart from a shared driver", *pair) for pair in pairs
    ]


def of_four_sensors(seed, sd=0.0, loop=0.0, n=3000):
    """Two units of one state, each behind four sensors, and a driver of both of that deviation."""
    rng = np.random.default_rng(seed)
    w, e = rng.standard_normal((n, 2)), rng.standard_normal(n) * np.sqrt(1 - 0.9**2) * sd
    h, d = np.zeros((n, 2)), sd * rng.standard_normal()
    A = np.array([[0.7, loop], [loop, 0.7]])
    for t in range(1, n):
        h[t] = A @ h[t - 1] + d + w[t]
        d = 0.9 * d + e[t]
    return {name: h[:, [k]] * rng.standard_normal(4) + 0.5 * rng.standard_normal((n, 4)) for k, name in enumerate("ab")}


@pytest.mark.parametrize(
    ("seed", "truth", "verdict"),
    [
        (80, {"sd": 1.0}, "cannot tell"),
        (81, {"sd": 1.0}, "cannot tell"),
        (802, {"sd": 1.8}, "cannot tell"),
        (808, {"sd": 1.8}, "cannot tell"),
        (602, {"sd": 0.6}, "cannot tell"),  # a loop of gain 0.1 is as likely
        (607, {"sd": 0.6}, "cannot tell"),
        (611, {"sd": 0.45}, "shared driver"),
        (800, {"loop": 0.1}, "influence"),
        (801, {"loop": 0.25}, "influence"),
    ],
)
def test_a_driver_of_any_strength_is_no_loop(seed, truth, verdict):
    """Where the likelihood can't tell, held-out gains say that the two are coupled, at most."""
    est = FederatedGrangerEstimator().fit(of_four_sensors(seed, **truth))
    assert set(est.server_.likelihood_links_["verdict"]) == {verdict}
    told = {"influence"} if verdict == "influence" else {"coupled", "cannot tell"}
    assert set(est.links_["verdict"]) <= told


@pytest.mark.parametrize("seed", [21022, 21033])
def test_a_driver_with_a_memory_is_no_loop(seed):
    """Records in which one lag was enough and the loop was told."""
    est = FederatedGrangerEstimator().fit(draw("hidden AR(.9) driver of two units", seed).X)
    links = est.server_.likelihood_links_.set_index(["cause", "effect"])["verdict"]
    assert links["u2", "u3"] == links["u3", "u2"] == "shared driver"
    assert links["u0", "u1"] == "influence"
