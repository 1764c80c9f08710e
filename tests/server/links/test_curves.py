"""Curved links: what is told of couplings that are not straight, and what is not."""

import numpy as np
import pytest

from skfedcausal import FederatedGrangerEstimator, LikelihoodOptions, LikelihoodServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.links.curves import UNTESTED, Bent, curves
from skfedcausal.statespace.matrices import slices_of

COUPLINGS = {
    "square": lambda s, own: np.clip(s, -2.5, 2.5) ** 2,
    "kink": lambda s, own: np.abs(s),
    "product": lambda s, own: np.tanh(s) * np.tanh(own),
    "wave": lambda s, own: np.cos(3 * s),
}


def chain(coupling, seed, n_samples=1500, n_units=4):
    """States of units of which the first acts on the second along a curve, and the others on nobody."""
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(2, 4000))
    level, size = coupling(u, v).mean(), coupling(u, v).std()
    h, noise = np.zeros((n_samples, n_units)), rng.normal(size=(n_samples, n_units))
    for t in range(1, n_samples):
        h[t] = 0.6 * h[t - 1] + 0.8 * noise[t]
        h[t, 1] += 0.4 * (coupling(h[t - 1, 0], h[t - 1, 1]) - level) / size
    return h


def sensors(h, seed):
    rng = np.random.default_rng(seed)
    return {
        f"u{m}": h[:, [m]] @ rng.normal(size=(1, 4)) + 0.2 * rng.normal(size=(len(h), 4)) for m in range(h.shape[1])
    }


@pytest.mark.parametrize("kind", COUPLINGS)
def test_a_curved_link_is_told_and_nothing_else(kind):
    links = FederatedGrangerEstimator().fit(sensors(chain(COUPLINGS[kind], 0), 1)).links_
    told = links[links["verdict"] == "influence"]
    assert told[["cause", "effect"]].to_numpy().tolist() == [["u0", "u1"]]
    link = told.iloc[0]
    assert link["basis"] == "curves"
    assert link["because"].startswith("curved: ")
    assert link["low"] < 0.2 < link["strength"] + 0.1 < 0.4
    assert link["p_adjusted"] < 1e-6
    assert link["evidence"] == links["evidence"].max()


def test_links_of_linear_plants_stay_what_they_were():
    for seed in range(4):
        X, _ = make_granger_plant(4, n_samples=1000, random_state=seed)
        assert "curves" not in set(FederatedGrangerEstimator().fit(X).links_["basis"])


def test_what_a_server_says_without_grades_has_no_curves():
    server = FederatedGrangerEstimator().fit(sensors(chain(COUPLINGS["square"], 0), 1)).server_
    assert "curves" not in set(server.likelihood_links_["basis"])


def test_a_product_of_two_states_is_found_where_neither_acts_alone():
    rng = np.random.default_rng(0)
    h, noise = np.zeros((1500, 5)), rng.normal(size=(1500, 5))
    for t in range(1, len(h)):
        h[t] = 0.5 * h[t - 1] + noise[t]
        h[t, 4] += 0.5 * h[t - 1, 0] * h[t - 1, 1]
    found = curves(h, slices_of([1] * 5))
    told = np.argwhere(found.verdict == "influence").tolist()
    assert told == [[4, 0], [4, 1]]


def test_a_size_that_multiplies_a_state_is_found():
    found = curves(chain(lambda s, own: np.abs(s) * np.tanh(own), 0, n_samples=2500), slices_of([1] * 4))
    assert np.argwhere(found.verdict == "influence").tolist() == [[1, 0]]
    rise = found.shapes[1, 0].adds - found.shapes[1, 0].adds[:, [49]]  # less that at the median
    assert (np.sign(rise[:, [0, -1]]) == [[-1, -1], [1, 1]]).all()  # at a low and at a high value of the state


def test_none_is_said_only_where_a_curve_would_have_shown():
    h = 0.5 * np.random.default_rng(8).normal(size=(600, 3))
    for t in range(1, len(h)):
        h[t] += 0.5 * h[t - 1]
    X = sensors(h, 1)
    X["u2"] += 2 * np.random.default_rng(9).normal(size=(600, 4))
    links = FederatedGrangerEstimator(server=LikelihoodServer(options=LikelihoodOptions(margin=1.0))).fit(X).links_
    noisy = (links[["cause", "effect"]] == "u2").any(axis=1)
    assert set(links["verdict"][~noisy]) == {"no influence"}
    assert "no influence" not in set(links["verdict"][noisy])
    assert UNTESTED in set(links["because"][noisy])


def test_power_is_that_of_curves_that_make_a_share_of_what_is_new():
    """Of records with kinks that tell a tenth of it."""
    slices, told, power = slices_of([1, 1]), [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        h = rng.normal(size=(170, 2))
        for t in range(1, len(h)):
            h[t, 1] += np.sqrt(0.1 / 0.9) * (np.abs(h[t - 1, 0]) - 0.8) / 0.6
        found = curves(h, slices, process=np.diag([1.0, 1 / 0.9]), noise=np.zeros((2, 2)))
        told.append(found.p_value[1, 0] < 0.05 / 2)
        power.append(found.power[1, 0])
    assert 0.4 < np.mean(power) < 0.9
    assert abs(np.mean(told) - np.mean(power)) < 0.2


def test_a_driver_that_two_units_follow_along_curves_makes_no_influence():
    rng = np.random.default_rng(1)
    driver, h = np.zeros(2000), np.zeros((2000, 2))
    for t in range(1, len(h)):
        driver[t] = 0.7 * driver[t - 1] + 0.7 * rng.normal()
        h[t] = 0.5 * h[t - 1] + 0.5 * rng.normal(size=2) + [driver[t], driver[t] ** 2 - 1]
    assert "influence" not in curves(h, slices_of([1, 1])).verdict


def test_curves_do_not_depend_on_scale_or_order():
    h = chain(COUPLINGS["kink"], 2)
    found = curves(h, slices_of([1] * 4))
    turned = curves(h[:, ::-1] * [1.0, 10.0, 0.1, 3.0], slices_of([1] * 4))
    np.testing.assert_allclose(turned.low[::-1, ::-1], found.low, atol=1e-6)
    assert (turned.verdict[::-1, ::-1] == found.verdict).all()


def test_what_a_line_was_told_for_is_open_where_curves_of_others_tell_it():
    rng = np.random.default_rng(5)
    h, noise = np.zeros((4000, 3)), rng.normal(size=(4000, 3))
    for t in range(1, len(h)):
        h[t] = [0.6, 0.8, 0.3] * h[t - 1] + noise[t]
        h[t, 1:] += 0.5 * h[t - 1, 0] ** 2
    found = curves(h, slices_of([1] * 3), told={(2, 1): 0.0, (2, 0): 0.0})
    assert found.is_explained.tolist() == [[False] * 3, [False] * 3, [False, True, False]]


def test_what_lines_call_coupled_is_an_influence_where_curves_tell_more_than_the_two_share():
    h = chain(COUPLINGS["kink"], 2)
    for shared, verdict in ((0.0, "influence"), (0.9, "coupled")):
        assert curves(h, slices_of([1] * 4), told={(1, 0): shared}).verdict[1, 0] == verdict


def test_what_two_units_share_in_the_same_row_is_no_curve_in_the_next():
    rng = np.random.default_rng(7)
    h, noise, common = np.zeros((3000, 2)), rng.normal(size=(3000, 2)), rng.normal(size=(3000, 1))
    for t in range(1, len(h)):
        h[t] = 0.5 * h[t - 1] + 0.7 * noise[t] + common[t]
        h[t, 1] += 0.4 * np.abs(h[t - 1, 0])
    found = curves(h, slices_of([1, 1]))
    assert found.p_adjusted[1, 0] < 1e-6
    assert found.high[1, 0] < found.same_row[1, 0]
    assert found.verdict[1, 0] == ""
    assert found.evidence[1, 0] == -np.inf


def test_what_curves_of_inputs_tell_is_no_news():
    rng = np.random.default_rng(3)
    u, h = rng.normal(size=(2000, 1)), np.zeros((2000, 2))
    for t in range(1, len(h)):
        h[t] = 0.5 * h[t - 1] + 0.3 * rng.normal(size=2) + [u[t - 1, 0], np.abs(u[t - 2, 0]) if t > 1 else 0]
    assert curves(h, slices_of([1, 1])).verdict[1, 0] == "influence"
    assert curves(h, slices_of([1, 1]), known=u).verdict[1, 0] == ""


def test_states_are_held_beyond_what_was_seen():
    series = np.random.default_rng(4).normal(size=(500, 2))
    bent = Bent.of(series)
    far = np.vstack([series, [[1e6, -1e6]]])
    (columns,) = bent(far, [slice(0, 2)])
    assert np.abs(columns).max() < 20
    assert columns.shape == (501, 15)


def test_a_unit_that_is_pushed_along_does_not_seem_to_act_back_along_a_kink():
    """The level of the second unit tells the halves of the record apart, in one of which the first one is pushed."""
    n, half = 4000, (np.arange(4000) >= 2000).astype(float)
    for seed in range(3):
        rng, A = np.random.default_rng(seed), np.array([[0.95, 0.0], [0.25, 0.5]])
        h = rng.normal(size=(n, 2)) + np.outer(4 * half, [1.0, 0.0])
        for t in range(1, n):
            h[t] += A @ h[t - 1]
        h += 0.3 * rng.normal(size=h.shape)
        unknown, known = (curves(h, slices_of([1, 1]), levels=levels).p_value for levels in (None, half[:, None]))
        assert unknown[0, 1] < 1e-6
        assert known[0, 1] > 0.01
