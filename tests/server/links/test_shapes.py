"""Shapes of curved links: those of the equations that made the record, and none of lines."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge

import skfedcausal
from skfedcausal import FederatedGrangerEstimator, GradientServer, RegressorServer, inspection
from skfedcausal.datasets import make_granger_plant
from skfedcausal.papers import StopRule
from skfedcausal.saving.objects import UPGRADES
from skfedcausal.server.links.curves import COLUMNS, curves
from skfedcausal.statespace.matrices import slices_of

COUPLINGS = {"square": np.square, "kink": np.abs, "wave": lambda s: np.sin(2 * s), "bend": lambda s: np.tanh(2 * s)}


def states(coupling, seed, n_samples=1500):
    """Three units, the first of which acts on the second along a curve."""
    rng = np.random.default_rng(seed)
    h = rng.normal(size=(n_samples, 3))
    for t in range(1, n_samples):
        h[t] += 0.5 * h[t - 1]
        h[t, 1] += 0.5 * coupling(h[t - 1, 0], h[t - 1, 1])
    return h


def sensors(h):
    rng = np.random.default_rng(9)
    return {f"u{m}": np.outer(x, [1.0, 0.5]) + 0.1 * rng.normal(size=(len(h), 2)) for m, x in enumerate(h.T)}


@pytest.mark.parametrize("kind", COUPLINGS)
def test_a_shape_is_that_of_the_equations_and_its_band_holds_it(kind):
    held = []
    for seed in range(4):
        h = states(lambda s, own: COUPLINGS[kind](s), seed)
        shape = curves(h, slices_of([1] * 3)).shapes[1, 0]
        truth = 0.5 * COUPLINGS[kind](shape.state * h[:, 0].std() + h[:, 0].mean()) / h[:, 1].std()
        truth = truth - truth.mean()
        assert np.corrcoef(shape.adds[0], truth)[0, 1] > 0.93
        held.append(np.abs(shape.adds[0] - truth) < 1.645 * shape.error[0])
    assert np.mean(held) > 0.8  # four records, kinks and steps for a curve that has none


def test_the_line_of_a_symmetric_curve_is_flat():
    shape = curves(states(lambda s, own: s**2, 0), slices_of([1] * 3)).shapes[1, 0]
    assert np.ptp(shape.line) < 0.2 * np.ptp(shape.adds)
    assert shape.other is None


def test_a_state_that_multiplies_another_has_a_curve_at_a_low_and_one_at_a_high_value():
    shape = curves(states(lambda s, own: s * own, 0), slices_of([1] * 3)).shapes[1, 0]
    assert shape.other == 1
    assert shape.levels[0] < -0.5 < 0.5 < shape.levels[1]
    rise = shape.adds[:, -1] - shape.adds[:, 0]
    assert rise[0] < -1 < 1 < rise[1]


def test_shapes_are_those_of_curved_pairs_and_what_has_none_is_said():
    est = FederatedGrangerEstimator().fit(sensors(states(lambda s, own: np.abs(s), 0)))
    assert {"state", "adds", "low", "high", "line"} < set(inspection.link_shape(est, "u0", "u1"))
    with pytest.raises(ValueError, match="no curve was found; curves were found from u0 to u1"):
        inspection.link_shape(est, "u1", "u2")
    X, _ = make_granger_plant(2, links=[("unit0", "unit1")], random_state=0)
    with pytest.raises(ValueError, match="curves were found of no pair"):
        inspection.link_shape(FederatedGrangerEstimator().fit(X), "unit0", "unit1")
    trained = FederatedGrangerEstimator(server=GradientServer(stop=StopRule(max_iter=2)))
    with pytest.warns(ConvergenceWarning):
        trained.fit(X)
    with pytest.raises(ValueError, match="not answered by a fit with GradientServer"):
        inspection.link_shape(trained, "unit0", "unit1")


def test_a_saved_estimator_has_its_shapes(tmp_path):
    est = FederatedGrangerEstimator().fit(sensors(states(lambda s, own: np.abs(s), 0)))
    skfedcausal.save(est, tmp_path / "model")
    again = skfedcausal.load(tmp_path / "model")
    assert inspection.link_shape(again, "u0", "u1").equals(inspection.link_shape(est, "u0", "u1"))


def test_shapes_of_files_that_knew_no_slopes_have_some_that_are_no_surer():
    shapes = FederatedGrangerEstimator().fit(sensors(states(lambda s, own: np.abs(s), 0))).server_.shapes_.table
    line = shapes["line"] * (shapes["state"] - shapes["state"].mean())
    (upgrade,) = UPGRADES["Verdicts"]
    older = shapes.drop(columns=["slope", "slope_error"]).assign(line=line)
    again = upgrade({"shapes": older})["shapes"]
    assert again.columns.tolist() == list(COLUMNS)
    np.testing.assert_allclose(again["line"], shapes["line"], rtol=1e-9)
    inside = shapes["state"].abs() < 1.5
    np.testing.assert_allclose(again["slope"][inside], shapes["slope"][inside], atol=0.1)
    assert (again["slope_error"] >= shapes["slope_error"]).all()
    for state in (None, shapes, older.iloc[:0]):
        assert upgrade({"shapes": state})["shapes"] is state or len(state) == 0


def test_a_wider_band_is_asked_for_by_its_confidence():
    est = FederatedGrangerEstimator().fit(sensors(states(lambda s, own: np.abs(s), 0)))
    narrow, wide = (inspection.link_shape(est, "u0", "u1", confidence=level) for level in (0.5, 0.99))
    assert ((wide["high"] - wide["low"]) > 3 * (narrow["high"] - narrow["low"])).all()
    with pytest.raises(ValueError, match="confidence"):
        inspection.link_shape(est, "u0", "u1", confidence=2.0)


def slopes_of(kind, seed):
    """What is told at five states of the cause, and whether intervals hold the differences of the equation."""
    h = states(lambda s, own: COUPLINGS[kind](s), seed)
    est = FederatedGrangerEstimator().fit(sensors(h))
    sign = np.sign(
        [np.corrcoef(seen, x)[0, 1] for seen, x in zip(np.asarray(est.transform(sensors(h))).T, h.T, strict=True)]
    )
    told = inspection.link_slopes(est, "u0", "u1")
    at = told["state"].to_numpy() * sign[0]
    ends = [0.5 * COUPLINGS[kind](h[:, 0].mean() + h[:, 0].std() * (at + move)) / h[:, 1].std() for move in (-0.5, 0.5)]
    truth = (ends[1] - ends[0]) * sign[0] * sign[1]
    return est, told, (told["low"] < truth) & (truth < told["high"])


@pytest.mark.parametrize("kind", COUPLINGS)
def test_slopes_are_those_of_the_equations_and_differences_of_the_shape(kind):
    held = []
    for seed in range(3):
        est, told, holds = slopes_of(kind, seed)
        held.append(holds)
        shape = inspection.link_shape(est, "u0", "u1")
        rise = [np.interp(told["state"] + move, shape["state"], shape["adds"]) for move in (-0.5, 0.5)]
        np.testing.assert_allclose((rise[1] - rise[0])[1:-1], told["slope"][1:-1], atol=0.02)
    assert np.mean(held) > 0.7  # fifteen states of three records


def test_the_slope_of_a_line_is_its_coefficient_everywhere_that_was_seen():
    h = states(lambda s, own: s, 1)
    est = FederatedGrangerEstimator().fit(sensors(h))
    told = inspection.link_slopes(est, "u0", "u1", [-1, 0, 1, 5], confidence=0.95)
    link = est.links_.set_index(["cause", "effect"]).loc[("u0", "u1")]
    assert told["slope"][:3].abs().tolist() == [link["norm"]] * 3
    np.testing.assert_allclose((told["high"] - told["low"])[:3], 2 * 1.959964 * link["stderr"], rtol=1e-6)
    assert abs(link["norm"] - 0.5 * h[:, 0].std() / h[:, 1].std()) < 3 * link["stderr"]
    assert np.isnan(told["slope"][3])
    assert told["verdict"].tolist()[3] == "cannot tell"


def test_slopes_along_a_product_change_sign_with_the_other_state():
    est = FederatedGrangerEstimator().fit(sensors(states(lambda s, own: np.tanh(s) * np.tanh(own), 0, 3000)))
    told = inspection.link_slopes(est, "u0", "u1", [0.0])
    assert told["other"].tolist() == ["u1", "u1"]
    assert set(told["verdict"]) == {"rises", "falls"}


def test_slopes_of_a_regressor_have_no_interval():
    X = sensors(states(lambda s, own: np.abs(s), 0, 600))
    server = RegressorServer(KernelRidge(kernel="rbf", gamma=0.1, alpha=0.5))
    told = inspection.link_slopes(FederatedGrangerEstimator(server=server).fit(X), "u0", "u1")
    assert told["slope"].iloc[0] * told["slope"].iloc[-1] < 0
    assert told["low"].isna().all()
    assert set(told["verdict"]) == {"cannot tell"}


def test_a_saved_estimator_has_its_slopes_and_wrong_questions_are_refused(tmp_path):
    est, told, _ = slopes_of("kink", 0)
    skfedcausal.save(est, tmp_path / "model")
    assert inspection.link_slopes(skfedcausal.load(tmp_path / "model"), "u0", "u1").equals(told)
    with pytest.raises(ValueError, match="u7"):
        inspection.link_slopes(est, "u7", "u1")
    with pytest.raises(ValueError, match="confidence"):
        inspection.link_slopes(est, "u0", "u1", confidence=0)
