"""Networks trained with torch: gradients and Jacobians checked numerically, numbers in numpy afterwards."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

torch = pytest.importorskip("torch")

from skfedcausal import (  # noqa: E402
    ExtendedKalmanClient,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    LSTMRegressor,
    RegressorAugmenter,
    RegressorServer,
    SELURegressor,
    inspection,
)
from skfedcausal.datasets import make_nonlinear_plant  # noqa: E402
from skfedcausal.papers import AttentionRegressor  # noqa: E402
from skfedcausal.statespace.networks import numeric_jacobian  # noqa: E402

NETWORKS = {
    "lstm": LSTMRegressor(4, random_state=0),
    "two layers": LSTMRegressor(4, n_layers=2, random_state=0),
    "window": LSTMRegressor(4, n_layers=2, n_steps=3, random_state=0),
    "selu": SELURegressor(5, random_state=0),
    "attention": AttentionRegressor(5, random_state=0),
}


def make_rows(n=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6))
    return X, np.tanh(X @ rng.standard_normal((6, 2)))


def loss_at(model, X, y):
    return 0.5 * ((model.network_.value(X) - y) ** 2).sum() / len(X)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradient_in_every_weight_is_the_derivative_of_the_loss(name):
    """Central differences in every single weight; Adam's first averages are 0.1 times the gradient."""
    X, y = make_rows()
    model = clone(NETWORKS[name]).partial_fit(X, y)
    before = pickle.loads(pickle.dumps(model))
    model._averages = [(np.zeros_like(w), np.zeros_like(w)) for w in model.weights_]
    model.partial_fit(X, y)
    for w, (mean, _) in zip(before.weights_, model._averages, strict=True):
        for k in range(w.size):
            step, at = 1e-6, w.flat[k]
            values = []
            for sign in (1, -1):
                w.flat[k] = at + sign * step
                values.append(loss_at(before, X, y))
            w.flat[k] = at
            assert_allclose(mean.flat[k] / 0.1, (values[0] - values[1]) / (2 * step), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", ["lstm", "two layers", "selu", "attention"])
def test_jacobian_is_the_derivative_of_the_map(name):
    X, y = make_rows()
    model = clone(NETWORKS[name]).partial_fit(X, y)
    for x, J in zip(X, model.network_.jacobian(X), strict=True):
        assert_allclose(J, numeric_jacobian(lambda z: model.network_.value(z[None])[0], x), atol=1e-8)


def test_a_window_has_no_jacobian_of_a_map():
    X, y = make_rows()
    with pytest.raises(ValueError, match="3 steps"):
        clone(NETWORKS["window"]).partial_fit(X, y).network_.jacobian(X)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_numpy_gives_what_torch_gives(n_layers):
    """Weights of a torch module in a row of three steps, the newest first."""
    X, y = make_rows()
    model = LSTMRegressor(4, n_layers=n_layers, n_steps=3, random_state=0).partial_fit(X, y)
    module = torch.nn.LSTM(2, 4, n_layers, batch_first=True, dtype=torch.float64)
    for layer in range(n_layers):
        W, R, b = model.weights_[3 * layer : 3 * layer + 3]
        for part, value in (("weight_ih", W), ("weight_hh", R), ("bias_ih", b), ("bias_hh", 0 * b)):
            getattr(module, f"{part}_l{layer}").data = torch.from_numpy(value.copy())
    oldest_first = X.reshape(len(X), 3, 2)[:, ::-1].copy()
    hidden = module(torch.from_numpy(oldest_first))[0][:, -1].detach().numpy()
    assert_allclose(model.predict(X), hidden @ model.weights_[-2].T + model.weights_[-1], atol=1e-12)


def test_training_learns_and_is_reproducible():
    X, y = make_rows(400)
    first, second = (
        LSTMRegressor(16, learning_rate_init=3e-3, max_iter=60, tol=0, random_state=0).fit(X, y) for _ in range(2)
    )
    assert_array_equal(first.predict(X), second.predict(X))
    assert first.score(X, y) > 0.8
    other = LSTMRegressor(16, max_iter=2, tol=0, random_state=1).fit(X, y)
    assert np.abs(other.predict(X) - first.predict(X)).max() > 0


def test_training_that_was_read_back_goes_on_the_same():
    X, y = make_rows()
    model = LSTMRegressor(4, random_state=0).partial_fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    for _ in range(3):
        model.partial_fit(X, y)
        again.partial_fit(X, y)
    assert_array_equal(model.predict(X), again.predict(X))


def test_zero_output_adds_nothing_before_training():
    X, y = make_rows()
    model = LSTMRegressor(4, zero_output=True, random_state=0).partial_fit(X, np.zeros_like(y))
    assert_array_equal(model.predict(X), np.zeros_like(y))


def test_users_generator_and_threads_are_left_alone():
    X, y = make_rows()
    torch.manual_seed(7)
    expected, threads = torch.rand(1), torch.get_num_threads()
    torch.manual_seed(7)
    LSTMRegressor(4, max_iter=2, tol=0, random_state=0).fit(X, y)
    assert torch.rand(1) == expected
    assert torch.get_num_threads() == threads


def test_unfinished_training_is_said():
    X, y = make_rows()
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        SELURegressor(5, max_iter=2, random_state=0).fit(X, y)


def test_features_that_do_not_fill_the_steps_are_refused():
    X, y = make_rows()
    with pytest.raises(ValueError, match="n_steps=4"):
        LSTMRegressor(4, n_steps=4).fit(X, y)


@parametrize_with_checks(
    [kind(4, max_iter=3, tol=0, random_state=0) for kind in (LSTMRegressor, SELURegressor, AttentionRegressor)]
)
def test_scikit_learn(estimator, check):
    check(estimator)


def test_who_drives_whom_is_read_from_the_jacobian_of_attention():
    """A chain along tanh(2h): a linear server sees a part of it, attention the slope where it is."""
    rng, h = np.random.default_rng(0), np.zeros((900, 3))
    for t in range(1, len(h)):
        h[t] = 0.5 * h[t - 1] + 0.5 * rng.standard_normal(3)
        h[t, 1:] += 0.6 * np.tanh(2 * h[t - 1, :2])
    X = {f"u{m}": h[:, [m]] * [1.0, 0.7] + 0.1 * rng.standard_normal((len(h), 2)) for m in range(3)}
    model = AttentionRegressor(8, learning_rate_init=1e-2, max_iter=30, tol=0, random_state=0)
    links = FederatedGrangerEstimator(server=RegressorServer(model)).fit(X).links_
    told = links[links["verdict"] == "influence"]
    assert set(zip(told["cause"], told["effect"], strict=True)) == {("u0", "u1"), ("u1", "u2")}


def paper_parts(epochs, n_lags=20):
    """The paper's architecture: every part an LSTM, measurement maps of one SELU layer."""
    client = ExtendedKalmanClient(
        LSTMRegressor(16, max_iter=epochs, tol=0), SELURegressor(32, max_iter=epochs, tol=0), random_state=0
    )
    phi = LSTMRegressor(16, n_steps=n_lags, zero_output=True, random_state=0)
    f_s = LSTMRegressor(64, random_state=0)
    server = RegressorServer(f_s, labels="augmented", n_epochs=epochs)
    return {"client": client, "augmenter": RegressorAugmenter(phi, n_lags=n_lags), "server": server}


def test_the_papers_architecture_trains_and_is_used_without_torch(tmp_path):
    nominal = make_nonlinear_plant(n_samples=800, size=0, random_state=1).data
    detector = FederatedRCADetector(**paper_parts(4, 5), evidence="flags", false_alarm_rate=0.01).fit(nominal)
    history = detector.server_.loss_history_.to_numpy()
    assert (history[-1] < history[0]).all()
    record = make_nonlinear_plant(n_samples=300, random_state=2).data
    flags, path = inspection.flags(detector, record), tmp_path / "detector.pickle"
    path.write_bytes(pickle.dumps((detector, record, flags)))
    script = """
import pickle, sys
from importlib.abc import MetaPathFinder

class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refuse())
from skfedcausal import LSTMRegressor, inspection
detector, record, flags = pickle.load(open(sys.argv[1], "rb"))
assert inspection.flags(detector, record).equals(flags)
try:
    LSTMRegressor().fit([[0.0], [1.0]], [0.0, 1.0])
except ImportError as error:
    assert "skfedcausal[torch]" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
