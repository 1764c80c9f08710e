"""A plant of lines and curves: when it stands in, and that its effects and bands are right."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from skfedcausal import FederatedCounterfactualEstimator, inspection
from skfedcausal.server.curved import Curves, curved_plant

SHAPES = {"saturates": lambda s: np.tanh(2 * s), "waves": lambda s: np.sin(2 * s), "line": lambda s: s}


def step(h, u, noise, shape):
    first = 0.7 * h[..., 0] + 0.6 * u[..., 0] + noise[..., 0]
    second = 0.6 * h[..., 1] + 0.5 * shape(h[..., 0]) + 0.5 * u[..., 1] + noise[..., 1]
    return np.stack([first, second], axis=-1)


def run(shape, seed, n_samples=4000):
    rng = np.random.default_rng(seed)
    u, h = rng.normal(size=(n_samples, 2)), np.zeros((n_samples, 2))
    noise = 0.3 * rng.normal(size=h.shape)
    for t in range(1, n_samples):
        h[t] = step(h[t - 1], u[t - 1], noise[t], shape)
    return h, u


def expected(shape, dose, h, n_steps=12):
    """Effect of a dose of the first input, in place of nothing, from states of a run."""
    rng = np.random.default_rng(99)
    twice, found = [h.copy(), h.copy()], []
    for _ in range(n_steps):
        noise = 0.3 * rng.normal(size=h.shape)
        inputs = [np.tile([value, 0.0], (len(h), 1)) for value in (0.0, dose)]
        twice = [step(now, u, noise, shape) for now, u in zip(twice, inputs, strict=True)]
        found.append((twice[1] - twice[0]).mean(axis=0))
    return np.array(found)


@pytest.mark.parametrize("kind", ["saturates", "waves"])
def test_effects_of_a_curved_plant_are_those_of_its_equations(kind):
    errors, held = [], []
    for seed in (11, 12):
        h, u = run(SHAPES[kind], seed)
        plant = curved_plant(h, u, (0,), np.eye(2) * 1e-6)
        reply = plant.effects(np.tile([1.0, 0.0], (12, 1)), {"both": slice(0, 2)})["both"]
        truth = expected(SHAPES[kind], 1.0, h)
        errors.append(np.linalg.norm(reply.states - truth) / np.linalg.norm(truth))
        deviation = np.sqrt(np.einsum("tii->ti", reply.covariances))
        held.append(np.abs(reply.states - truth) <= 1.645 * deviation)
    assert np.mean(errors) < 0.15
    assert np.mean(held) > 0.75


@pytest.mark.parametrize("share", [0.03, 0.08])
def test_noise_of_the_states_neither_flattens_effects_nor_widens_runs(share):
    errors, held = [], []
    for seed in (11, 12, 13):
        h, u = run(SHAPES["saturates"], seed)
        noise = share / (1 - share) * h.var(axis=0)
        noisy = h + np.sqrt(noise) * np.random.default_rng(seed + 100).normal(size=h.shape)
        reply = curved_plant(noisy, u, (0,), np.diag(noise)).effects(
            np.tile([0.5, 0.0], (12, 1)), {"both": slice(0, 2)}
        )
        truth = expected(SHAPES["saturates"], 0.5, h)
        errors.append(np.linalg.norm(reply["both"].states - truth) / np.linalg.norm(truth))
        deviation = np.sqrt(np.einsum("tii->ti", reply["both"].covariances))
        held.append(np.abs(reply["both"].states - truth) <= 1.645 * deviation)
    assert np.mean(errors) < 0.08
    assert np.mean(held) > 0.85


def test_an_input_that_acts_at_once_by_chance_shuts_no_curves_out_and_one_that_does_so_does():
    h, u = run(SHAPES["saturates"], 0)
    assert curved_plant(h, u, (0,), np.eye(2) * 1e-6, at_once=True) is not None
    assert curved_plant(h, np.roll(u, 1, axis=0), (0,), np.eye(2) * 1e-6, at_once=True) is None


def test_lines_are_enough_for_a_linear_plant():
    for seed in range(2):
        h, u = run(SHAPES["line"], seed)
        assert curved_plant(h, u, (0,), np.eye(2) * 1e-6) is None


def test_curves_of_inputs_alone_are_left_to_what_bends_inputs():
    h, u = run(SHAPES["line"], 0)
    rng = np.random.default_rng(7)
    bent = np.zeros_like(h)
    for t in range(1, len(h)):
        bent[t] = step(bent[t - 1], np.abs(u[t - 1]), 0.3 * rng.normal(size=2), SHAPES["line"])
    assert curved_plant(bent - bent.mean(axis=0), u, (0,), np.eye(2) * 1e-6) is None


def test_noisy_states_and_short_records_have_no_curved_plant():
    h, u = run(SHAPES["saturates"], 0)
    assert curved_plant(h, u, (0,), np.eye(2)) is None
    assert curved_plant(h[:300], u[:300], (0,), np.eye(2) * 1e-6) is None


def test_bands_grow_where_runs_leave_what_was_seen():
    h, u = run(SHAPES["waves"], 3)
    plant = curved_plant(h, u, (0,), np.eye(2) * 1e-6)
    narrow, wide = (
        plant.effects(np.tile([dose, 0.0], (12, 1)), {"both": slice(0, 2)})["both"].covariances[-1, 1, 1]
        for dose in (0.5, 4.0)
    )
    assert wide > 100 * narrow


def test_bands_hold_a_curve_that_stops_beyond_what_was_seen():
    def stops(s):
        return np.clip(s, -3.0, 3.0) ** 2

    held = []
    for seed in (11, 12):
        h, u = run(stops, seed)
        h -= h.mean(axis=0)
        plant = curved_plant(h, u, (0,), np.eye(2) * 1e-6)
        for dose in (-2.3, 2.3):  # quantiles .01 and .99 of the input, which lead the state there
            reply = plant.effects(np.tile([dose, 0.0], (12, 1)), {"both": slice(0, 2)})["both"]
            deviation = np.sqrt(np.einsum("tii->ti", reply.covariances))
            held.append(np.mean(np.abs(reply.states - expected(stops, dose, h)) <= 1.645 * deviation))
    assert min(held) > 0.85


def test_curves_have_no_line_and_products_are_held():
    x = np.random.default_rng(0).normal(size=(1000, 3))
    curves = Curves.of(x, 6)
    columns = curves(x)
    assert np.abs(np.linalg.lstsq(np.column_stack([np.ones(1000), x]), columns, rcond=None)[0]).max() < 1e-9
    assert columns.shape[1] == len(curves.groups) == 3 * 12 + 3


def of_a_saturating_coupling():
    """An estimator and the states that its record shows."""
    h, u = run(SHAPES["saturates"], 5)
    rng = np.random.default_rng(6)
    X = {f"unit{m}": h[:, [m]] * [1.0, -0.5, 0.8] + 0.05 * rng.normal(size=(len(h), 3)) for m in range(2)}
    return FederatedCounterfactualEstimator().fit(X, inputs=[u[:, [0]], u[:, [1]]]), h


def test_curves_whose_runs_leave_the_record_do_not_answer(monkeypatch):
    """Single rows confirm them all the same: their draws alone are moved, to those of a plant that runs away."""

    def moved(*record):
        found = curved_plant(*record)
        return replace(found, plants=np.concatenate([found.plants[:1], 2 * found.plants[1:]]))

    monkeypatch.setattr("skfedcausal.server.curved.curved_plant", moved)
    est, _ = of_a_saturating_coupling()
    assert est.server_.curved_ is not None
    assert est._engine.losses["plant"] > 100 * est._engine.losses["responses"]
    effect = est.counterfactual("unit0", [0.0], [1.0], horizon=50)
    assert effect.attrs["engine"] == "responses"
    assert np.abs(effect.to_numpy()).max() < 5


def test_a_counterfactual_of_a_saturating_coupling_saturates():
    est, h = of_a_saturating_coupling()
    assert est.engine_ == "plant"
    mean, std = est.counterfactual("unit0", [0.0], [1.0], horizon=12, return_std=True)
    truth = expected(SHAPES["saturates"], 1.0, h)[:, [1]] * [1.0, -0.5, 0.8]
    np.testing.assert_allclose(np.asarray(mean)[:, 3:], truth, atol=0.15)
    again = pickle.loads(pickle.dumps(est)).counterfactual("unit0", [0.0], [1.0], horizon=12, return_std=True)
    np.testing.assert_array_equal(again[1], std)


@pytest.fixture(scope="module")
def saturating():
    return of_a_saturating_coupling()[0]


LOADINGS = np.array([1.0, -0.5, 0.8])


def record_at(stands, seed=8, n_samples=300):
    """A record in which the first input stands at a value, and its inputs."""
    rng = np.random.default_rng(seed)
    u, h = np.tile([stands, 0.0], (n_samples, 1)), np.zeros((n_samples, 2))
    for t in range(1, n_samples):
        h[t] = step(h[t - 1], u[t - 1], 0.3 * rng.normal(size=2), SHAPES["saturates"])
    X = {f"unit{m}": h[:, [m]] * LOADINGS + 0.05 * rng.normal(size=(n_samples, 3)) for m in range(2)}
    return X, [u[:, [0]], u[:, [1]]]


def gain_at(stands):
    """Lasting rise of the second state's mean over that of the first input, by the equations."""
    rng, means = np.random.default_rng(3), []
    for move in (-0.1, 0.1):
        rng, h, found = np.random.default_rng(3), np.zeros((2000, 2)), []
        for t in range(160):
            u = np.tile([stands + move, 0.0], (2000, 1))
            h = step(h, u, 0.3 * rng.normal(size=h.shape), SHAPES["saturates"])
            if t >= 60:
                found.append(h[:, 1].mean())
        means.append(np.mean(found))
    return (means[1] - means[0]) / 0.2


def test_a_curved_link_has_the_verdict_and_the_share_of_news_of_a_straight_one(saturating):
    link = saturating.links_.query("cause == 'unit0' and effect == 'unit1' and kind == 'state'").iloc[0]
    assert link["verdict"] == "influence"
    assert 0 < link["low"] <= link["strength"] <= link["high"]


def test_the_jacobian_of_a_plant_with_inputs_is_flat_where_its_coupling_saturates(saturating):
    told = inspection.link_slopes(saturating, "unit0", "unit1", [-1.5, 0.0, 1.5])["slope"].abs()
    assert told[1] > 3 * max(told[0], told[2])


def test_a_transfer_function_at_an_operating_point_is_that_of_the_equations(saturating):
    for stands in (0.0, 0.5, 0.9):
        gain = saturating.transfer_function(at={"unit0__u0": stands}).steady_gain().loc["unit1__x0", "unit0__u0"]
        assert abs(gain - gain_at(stands)) < 0.2 + 0.1 * gain_at(stands)
    line = saturating.transfer_function().steady_gain().loc["unit1__x0", "unit0__u0"]
    assert gain_at(0.9) < line < gain_at(0.0)


def test_a_transfer_function_is_refused_where_nothing_is_known(saturating):
    with pytest.raises(ValueError, match="nothing is known"):
        saturating.transfer_function(at={"unit0__u0": 50.0})
    with pytest.raises(ValueError, match="hardly any row"):
        saturating.transfer_function(at={"unit0__u0": 1.2})
    with pytest.raises(ValueError, match="give values of"):
        saturating.transfer_function(at={"unit0__valve": 0.0})
    h, u = run(SHAPES["line"], 5, 1500)
    X = {f"unit{m}": h[:, [m]] * LOADINGS + 0.05 * np.random.default_rng(m).normal(size=(1500, 3)) for m in range(2)}
    with pytest.raises(ValueError, match="same at all operating points"):
        FederatedCounterfactualEstimator().fit(X, inputs=[u[:, [0]], u[:, [1]]]).transfer_function(at={})


@pytest.mark.parametrize("stands", [0.0, 0.9])
def test_what_if_and_impact_answer_where_the_record_stands(saturating, stands):
    X, inputs = record_at(stands)
    told = saturating.whatif(X, {"unit0__u0": stands - 0.5}, inputs=inputs)
    lasting = told[told["column"] == "unit1__x0"].iloc[-100:].mean(numeric_only=True)
    truth = -sum(gain_at(stands - move) for move in (0.05, 0.15, 0.25, 0.35, 0.45)) / 10
    assert abs(lasting["effect"] - truth) < 0.2
    found = saturating.impact(X, {"unit0__u0": stands - 0.5}, (200, 299), inputs=inputs).total.set_index("column")
    found = found.loc["unit1__x0"]
    assert abs(found["mean"] + truth) < 0.2
    assert found["mean_low"] - 0.1 < -truth < found["mean_high"] + 0.1
