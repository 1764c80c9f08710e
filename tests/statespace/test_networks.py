"""Networks of arrays: values from their equations, Jacobians against differences, no library that trained them."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from skfedcausal.papers.numerics.lstm import LSTM, uniform_lstm
from skfedcausal.statespace.networks import ACTIVATIONS, FeedForward, numeric_jacobian


def feed_forward(activation, sizes=(3, 5, 4, 2), seed=0):
    rng = np.random.default_rng(seed)
    shapes = zip(sizes[:-1], sizes[1:], strict=True)
    return FeedForward(
        tuple(rng.standard_normal(shape) for shape in shapes),
        tuple(rng.standard_normal(n) for n in sizes[1:]),
        activation,
    )


def lstm(n_layers, n_steps, n_hidden=4, n_inputs=3, n_outputs=2, seed=0):
    rng = np.random.default_rng(seed)
    layers = uniform_lstm(rng, n_inputs, n_hidden, n_layers)
    return LSTM(layers, rng.standard_normal((n_outputs, n_hidden)), rng.standard_normal(n_outputs), n_steps)


def test_selu_keeps_the_mean_and_variance_of_standard_normal_numbers():
    selu = ACTIVATIONS["selu"][0]
    for power, expected in ((1, 0.0), (2, 1.0)):
        parts = (quad(lambda z, k=power: selu(z) ** k * norm.pdf(z), *ends)[0] for ends in ((-12, 0), (0, 12)))
        assert sum(parts) == pytest.approx(expected, abs=1e-9)


def test_activations_are_what_their_names_say():
    z = np.array([-2.0, -0.5, 0.5, 2.0])
    for name, expected in (
        ("tanh", np.sinh(z) / np.cosh(z)),
        ("logistic", 1 / (1 + np.exp(-z))),
        ("relu", [0.0, 0.0, 0.5, 2.0]),
        ("identity", z),
    ):
        np.testing.assert_allclose(ACTIVATIONS[name][0](z), expected, rtol=1e-14)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slopes_are_derivatives(name):
    act, slope = ACTIVATIONS[name]
    z = np.array([-2.0, -0.5, 0.5, 2.0, 800.0])
    differences = (act(z + 1e-5) - act(z - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope(z), differences, rtol=1e-6, atol=1e-9)
    assert ACTIVATIONS["relu"][1](np.zeros(1)) == 0.0  # no activity, no slope
    for part in ACTIVATIONS["selu"]:  # where z is 0 the branch of what is below counts
        below = part(np.array([-1e-12]))
        np.testing.assert_allclose(part(np.zeros(1)), below, atol=1e-11)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_feed_forward_network_is_its_layers_with_a_linear_last_one(activation):
    network, X = feed_forward(activation), np.random.default_rng(1).standard_normal((6, 3))
    first, second, last = network.weights
    act = ACTIVATIONS[activation][0]
    hidden = act(act(X @ first + network.biases[0]) @ second + network.biases[1])
    np.testing.assert_allclose(network.value(X), hidden @ last + network.biases[2], rtol=1e-12)
    expected = [numeric_jacobian(lambda x: network.value(x[None])[0], x) for x in X]
    np.testing.assert_allclose(network.jacobian(X), expected, atol=1e-7)


def test_networks_are_of_tanh_and_of_one_step_unless_told():
    assert FeedForward((), ()).activation == "tanh"
    assert LSTM((), np.eye(1), np.zeros(1)).n_steps == 1


@pytest.mark.parametrize(("n_layers", "n_steps"), [(1, 1), (1, 3), (2, 1), (2, 3)])
def test_a_long_short_term_memory_follows_its_equations_from_the_oldest_row_on(n_layers, n_steps):
    network, n_hidden = lstm(n_layers, n_steps), 4
    row = np.random.default_rng(1).standard_normal(3 * n_steps)
    sequence = row.reshape(n_steps, 3)[::-1]  # the newest comes first
    for W, R, b in network.layers:
        h, c, out = np.zeros(n_hidden), np.zeros(n_hidden), []
        for x in sequence:
            enter, keep, new, show = (W @ x + R @ h + b).reshape(4, n_hidden)
            c = expit(keep) * c + expit(enter) * np.tanh(new)
            h = expit(show) * np.tanh(c)
            out.append(h)
        sequence = out
    np.testing.assert_allclose(network.value(row[None])[0], network.weight @ h + network.bias, rtol=1e-12)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_the_jacobian_of_a_memory_of_one_step_is_that_of_differences(n_layers):
    network, X = lstm(n_layers, 1), np.random.default_rng(1).standard_normal((5, 3))
    expected = [numeric_jacobian(lambda x: network.value(x[None])[0], x) for x in X]
    np.testing.assert_allclose(network.jacobian(X), expected, atol=1e-8)


def test_a_memory_of_several_steps_has_no_jacobian_of_a_map():
    with pytest.raises(ValueError, match="over 3 steps"):
        lstm(1, 3).jacobian(np.zeros((1, 9)))


def test_weights_are_drawn_within_one_over_the_root_of_the_hidden_states():
    layers = uniform_lstm(np.random.default_rng(0), 3, 16, 3)
    assert [[w.shape for w in layer] for layer in layers] == [
        [(64, 3), (64, 16), (64,)],
        [(64, 16), (64, 16), (64,)],
        [(64, 16), (64, 16), (64,)],
    ]
    drawn = np.concatenate([w.ravel() for layer in layers for w in layer])
    # of more than 5000 uniform numbers the chance that none lies in the outer hundredth is exp(-50)
    assert -0.25 <= drawn.min() < -0.2475
    assert 0.2475 < drawn.max() <= 0.25
    assert len(uniform_lstm(np.random.default_rng(0), 3, 16)) == 1


def test_differences_are_over_a_millionth_of_a_coordinate_or_of_one():
    asked = []

    def value(x):
        asked.append(x)
        return [x[0] * x[1], x[1] ** 2]

    found = numeric_jacobian(value, [0.5, -4.0])
    np.testing.assert_allclose(found, [[-4.0, 0.5], [0.0, -8.0]], atol=1e-8)
    steps = np.array(asked) - [0.5, -4.0]
    np.testing.assert_allclose(steps, [[1e-6, 0], [-1e-6, 0], [0, 4e-6], [0, -4e-6]], rtol=1e-6, atol=1e-12)
