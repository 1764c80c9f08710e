"""Links and drivers that nobody measures, told from each other on pairs of known make."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

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


def criteria_of(series, own=1):
    model = drivers.PairModel(drivers.bands(series, (0,)), 0.25 * np.eye(2), [1, 1], own=own)
    return drivers.criteria(model, (None, None))


@pytest.mark.parametrize(("also", "last"), [("", []), ("driver", [0.3, 0.2, 0.4]), ("colour", [-1.0, -2.0, 0.4])])
def test_derivatives_are_those_of_the_value(also, last):
    series = pair(0, link=0.3)
    model = drivers.PairModel(drivers.bands(series, (0,)), 0.25 * np.eye(2), [1, 1], own=2)
    masks = model.masks((3, None))
    theta = np.concatenate([model.start(masks) + 0.05, last])
    value, slope = model._value(theta, masks, also)
    numeric = approx_fprime(theta, lambda x: model._value(x, masks, also)[0], 1e-6)
    np.testing.assert_allclose(slope, numeric, atol=1e-4 * abs(value))


def test_no_model_is_likelier_than_the_periodograms_themselves():
    """Nor one whose roots are next to a band: at that frequency alone its filter is nothing."""
    found = drivers.bands(pair(0, link=0.3), (0,))
    model = drivers.PairModel(found, 1e-3 * np.eye(2), [1, 1], own=2)
    masks, bound = model.masks((1, None)), found.n_bins @ (np.linalg.slogdet(found.power)[1] + 2)
    rng = np.random.default_rng(0)
    for gap in (0.3, 0.01, 1e-4, 1e-8):
        for w in found.frequency[::5]:
            A, B = 2 * (1 - gap) * np.cos(w), -((1 - gap) ** 2)
            theta = np.concatenate([[A, rng.normal(), A], [B, B], 10 ** rng.uniform(-6, 0, 3)])
            assert model._value(theta, masks, "")[0] > bound


def test_a_climb_from_outside_of_the_unit_circle_ends_within():
    series = pair(1, driver=0.4)
    model = drivers.PairModel(drivers.bands(series, (0,)), 0.25 * np.eye(2), [1, 1], own=2)
    masks = model.masks((None, None))
    start = model.start(masks)
    outside = start.copy()
    outside[:2] = 1.3
    value, theta = model.fitted(masks, outside)
    assert model._made_stable(masks, outside) is not None
    assert model._made_stable(masks, theta) is None
    assert value < model.fitted(masks, start)[0] + 0.1


def test_bands_hold_the_variance_of_the_record():
    series = pair(1)
    found = drivers.bands(series, (0, 1000))
    power = np.einsum("k,kij->ij", found.n_bins, found.power).real / found.n_bins.sum()
    np.testing.assert_allclose(power, np.cov(series.T), atol=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_a_driver_with_memory_is_preferred_where_there_is_one(seed):
    values = criteria_of(pair(seed, driver=0.4))
    assert min(values, key=values.get) == "driver"


@pytest.mark.parametrize("seed", range(4))
def test_a_link_is_preferred_where_there_is_one(seed):
    values = criteria_of(pair(seed, link=0.3))
    assert min(values, key=values.get) == "forward"


def test_sensors_that_wander_are_no_driver():
    series = pair(1, link=0.3, n=2000)
    wander = np.random.default_rng(1).standard_normal(series.shape)
    for t in range(1, len(series)):
        wander[t] = 0.9 * wander[t - 1] + np.sqrt(1 - 0.9**2) * wander[t]
    model = drivers.PairModel(drivers.bands(series + 1.2 * wander, (0,)), 0.25 * np.eye(2), [1, 1])
    values = drivers.criteria(model, (1, None), is_linked=True)
    without = drivers.criteria(model, (1, None))
    assert min(without, key=without.get) == "driver"
    assert min(values, key=values.get) == "forward"


def test_nothing_is_preferred_where_there_is_nothing():
    values = criteria_of(pair(9))
    assert min(values, key=values.get) == "none"


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


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("truth", [{"link": 0.3}, {"driver": 0.4}, {"link": 0.1, "driver": 0.2}])
def test_a_climb_that_is_given_up_decides_as_whole_ones_do(truth, seed):
    model = drivers.PairModel(drivers.bands(pair(seed, **truth), (0,)), 0.25 * np.eye(2), [1, 1], own=3)
    quick = drivers.criteria(model, (1, None), is_linked=True)
    masks = model.masks((None, None))
    whole = model.criterion(*model.driven(model.fitted(masks, model.start(masks))[1]))
    links = min(quick[name] for name in ("forward", "backward", "loop"))
    assert (links > whole) == (links > quick["driver"])
    assert (links > whole - drivers.CLEAR) == (links > quick["driver"] - drivers.CLEAR)


def test_links_that_were_not_found_are_looked_at_where_a_driver_may_explain_the_one_that_was():
    model = [drivers.PairModel(drivers.bands(pair(0, **truth), (0,)), 0.25 * np.eye(2), [1, 1], own=3)
             for truth in ({"link": 0.3}, {"driver": 0.4})]  # fmt: skip
    clear, driven = (drivers.criteria(each, (1, None), is_linked=True) for each in model)
    assert clear["forward"] < clear["driver"]
    assert np.isinf([clear["backward"], clear["loop"]]).all()
    assert driven["driver"] < min(driven[name] for name in ("forward", "backward", "loop")) < np.inf


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
        (80, {"sd": 1.0}, "shared driver"),
        (81, {"sd": 1.0}, "shared driver"),
        (802, {"sd": 1.8}, "shared driver"),
        (808, {"sd": 1.8}, "shared driver"),
        (602, {"sd": 0.6}, "cannot tell"),  # a loop of gain 0.1 is as likely
        (607, {"sd": 0.6}, "cannot tell"),
        (611, {"sd": 0.45}, "shared driver"),
        (800, {"loop": 0.1}, "influence"),
        (801, {"loop": 0.25}, "influence"),
    ],
)
def test_a_driver_of_any_strength_is_no_loop(seed, truth, verdict):
    est = FederatedGrangerEstimator().fit(of_four_sensors(seed, **truth))
    assert set(est.server_.likelihood_links_["verdict"]) == {verdict}
    assert ("influence" in set(est.links_["verdict"])) == (verdict == "influence")


@pytest.mark.parametrize("seed", [21022, 21033])
def test_a_driver_with_a_memory_is_no_loop(seed):
    """Records in which one lag was enough and the loop was told."""
    est = FederatedGrangerEstimator().fit(draw("hidden AR(.9) driver of two units", seed).X)
    links = est.server_.likelihood_links_.set_index(["cause", "effect"])["verdict"]
    assert links["u2", "u3"] == links["u3", "u2"] == "shared driver"
    assert links["u0", "u1"] == "influence"


@pytest.mark.parametrize(("also", "last"), [("", []), ("driver", [0.3, 0.2, 0.4]), ("colour", [-1.0, -2.0, 0.4])])
def test_information_is_the_curvature_where_power_is_as_expected(also, last):
    found = drivers.bands(pair(0, link=0.3), (0,))
    model = drivers.PairModel(found, 0.25 * np.eye(2), [1, 1], own=2)
    masks = model.masks((3, None))
    theta = np.concatenate([model.start(masks) + 0.05, last])
    Z, *_, Phi, _, _ = model._parts(theta, masks, also)
    behind = np.linalg.inv(Z)
    power = behind @ Phi @ np.conj(np.swapaxes(behind, 1, 2))
    expected = drivers.PairModel(found._replace(power=power), 0.25 * np.eye(2), [1, 1], own=2)

    def slope(theta):
        return expected._value(theta, masks, also)[1]

    information = model.information(theta, masks, also)
    size = np.abs(information).max()
    np.testing.assert_allclose(slope(theta), 0, atol=1e-9 * size)  # the maximum of what is expected
    numeric = [(slope(theta + d) - slope(theta - d)) / 2e-5 for d in 1e-5 * np.eye(len(theta))]
    np.testing.assert_allclose(information, numeric, atol=1e-6 * size)


def test_a_climb_goes_on_where_there_is_no_information(monkeypatch):
    def refuse(*_):
        raise np.linalg.LinAlgError("as of a spectrum of lower rank")

    model = drivers.PairModel(drivers.bands(pair(3, link=0.3), (0,)), 0.25 * np.eye(2), [1, 1])
    masks = model.masks((1, None))
    start = model.start(masks)
    value, _ = model.fitted(masks, start)
    monkeypatch.setattr(model, "information", refuse)
    slower, _ = model.fitted(masks, start)
    assert value - 0.01 < slower < value + 0.1  # a likelihood that decides nothing


def test_the_information_of_many_parameters_is_not_computed(monkeypatch):
    """It takes longer than the steps that it saves: of two units of eight states a minute for ten pairs."""
    rng = np.random.default_rng(0)
    series = np.repeat(pair(0, driver=0.6), 6, axis=1) + 0.5 * rng.standard_normal((3000, 12))
    model = drivers.PairModel(drivers.bands(series, (0,)), 0.5 * np.eye(12), [6, 6], own=3)
    masks = model.masks((1, None))
    monkeypatch.setattr(model, "information", None)
    start = model.start(masks)
    value, theta = model.fitted(masks, start)
    assert value < 2 * model._value(start, masks, "")[0]
    assert len(theta) > 200
