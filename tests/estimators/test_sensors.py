"""Sensors that are held, against simulators that hold them."""

import copy

import numpy as np
import pandas as pd
import pytest

from skfedcausal import FederatedCounterfactualEstimator, KalmanClient
from skfedcausal.server.planning import held_effects

pytestmark = pytest.mark.medium

N, A, B = 3000, np.array([[0.8, 0.0], [0.3, 0.6]]), np.array([[0.5, 0.0], [0.0, 0.4]])


def simulated(seed, held=None, reads=False, offset=0.0):
    """Two units of one state and two sensors each; `held` (N,) moves the first state; `reads` closes a's loop."""
    rng = np.random.default_rng(seed)
    w, v, e = rng.standard_normal((N, 2)) * 0.2, rng.standard_normal((N, 4)) * 0.1, rng.standard_normal((N, 2))
    x, Y, U = np.zeros(2), np.zeros((N, 4)), np.zeros((N, 2))
    for t in range(N):
        if held is not None and not np.isnan(held[t]):
            x[0] = held[t]
        Y[t] = np.kron(x, [1.0, 0.6]) + v[t]
        U[t] = e[t] * 0.5 + [offset - 0.5 * Y[t, 0] if reads else 0.0, 0.0]
        x = A @ x + B @ U[t] + w[t]
    X = pd.DataFrame(np.column_stack([Y, U]), columns=["a__s0", "a__s1", "b__s0", "b__s1", "a__u", "b__u"])
    return X[["a__s0", "a__s1", "a__u", "b__s0", "b__s1", "b__u"]]


@pytest.fixture(scope="module")
def learned():
    X = simulated(0)
    client = KalmanClient(n_states=1)
    return X, FederatedCounterfactualEstimator(client, input_columns=["a__u", "b__u"]).fit(X)


def wide(table, what="effect"):
    return table.pivot(index="time", columns="column", values=what)


def test_a_sensor_held_by_force_moves_the_other_unit_as_in_the_simulator(learned):
    X, estimator = learned
    held = np.full(N, np.nan)
    held[1000:1100] = 1.0
    truth = simulated(0, held=held) - X
    found = estimator.whatif(X, {"a__s0": held}, sensors="force")
    effect, low, high, factual = (wide(found, name) for name in ("effect", "low", "high", "factual"))
    rows = slice(1000, 1130)
    for name in ("b__s0", "b__s1"):
        error = (effect[name] - truth[name]).iloc[rows]
        assert np.abs(error).max() < 0.1 * np.abs(truth[name]).max()
    # the filter does not know the state better than its noise lets it
    assert np.abs((effect["a__s0"] - truth["a__s0"]).iloc[1000:1100]).max() < 5 * 0.1
    assert not effect.iloc[:1000].to_numpy().any()
    low, high = ((edge - factual)["b__s0"].to_numpy() for edge in (low, high))
    inside = (low <= truth["b__s0"]) & (truth["b__s0"] <= high)
    assert inside.iloc[1010:1100].mean() > 0.5


def test_a_unit_has_a_dict_of_its_columns(learned):
    X, estimator = learned[0].iloc[:400], learned[1]
    one = estimator.whatif(X, {"a__s0": 0.5, "b__u": 0.1}, sensors="force")
    two = estimator.whatif(X, {"a": {"s0": 0.5}, "b": {"u": 0.1}}, sensors="force")
    pd.testing.assert_frame_equal(one, two)
    split = estimator.whatif(X, {"a__s0": 0.5, "b__u": 0.1}, sensors="force", split=True)
    total = split.groupby(["time", "column"])["effect"].sum()
    np.testing.assert_allclose(total, one.groupby(["time", "column"])["effect"].sum(), atol=1e-9)


def test_a_sensor_held_by_force_alone_is_a_source_of_its_own(learned):
    X, estimator = learned[0].iloc[:400], learned[1]
    split = estimator.whatif(X, {"a__s0": 0.5}, sensors="force", split=True)
    assert set(split.pop("source")) == {"a__s0"}
    pd.testing.assert_frame_equal(split, estimator.whatif(X, {"a__s0": 0.5}, sensors="force"))


@pytest.mark.filterwarnings("ignore:Inputs of 'a' depend on measurements")
@pytest.mark.filterwarnings("ignore:Inputs and measurements move together")
def test_a_controller_brings_its_sensor_to_a_value_in_the_end():
    X = simulated(1, reads=True)
    estimator = FederatedCounterfactualEstimator(KalmanClient(n_states=1), input_columns=["a__u", "b__u"]).fit(X)
    assert set(estimator.server_.laws_) == {"a"}
    found = wide(estimator.whatif(X, {"a__s0": 0.5}), "counterfactual")
    assert found["a__s0"].iloc[100:].mean() == pytest.approx(0.5, abs=0.03)
    # the offset of the set point that ends there, in the simulator, moves b as much
    gain = (simulated(1, reads=True, offset=1.0) - X).iloc[100:].mean()
    expected = gain["b__s0"] / gain["a__s0"] * (0.5 - X["a__s0"].mean())
    effect = (found["b__s0"] - X["b__s0"].to_numpy()).iloc[100:].mean()
    assert effect == pytest.approx(expected, rel=0.1)


def test_what_cannot_be_held_is_said(learned):
    X, estimator = learned
    with pytest.raises(ValueError, match=r"No law of a controller of 'a' is known.*sensors='force'"):
        estimator.whatif(X, {"a__s0": 1.0})
    with pytest.raises(ValueError, match="Got unknown input 'a__level'"):
        estimator.whatif(X, {"a__level": 1.0})
    with pytest.raises(ValueError, match="give a dict from its sensors or inputs"):
        estimator.whatif(X, {"a": 1.0})
    with pytest.raises(ValueError, match="Got sensors='often'"):
        estimator.whatif(X, {"a__s0": 1.0}, sensors="often")
    with pytest.raises(ValueError, match=r"expected a number or 3000 rows"):
        estimator.whatif(X, {"a__s0": [1.0, 2.0]}, sensors="force")


def test_holding_a_sensor_of_copies_that_runs_away_is_refused(learned):
    estimator = copy.deepcopy(learned[1])
    server = estimator.server_
    A = np.array([[1.2, -0.4], [3.0, 1.5]])
    server.plant_ = server.plant_.with_first_lag(A, server.input_)  # stable, but not with its first state held
    targets = np.full((400, 1), 1.0)
    with pytest.raises(ValueError, match=r"other states run away.*Leave out copies, or hold the sensors in fewer rows"):
        held_effects(server, np.array([[1.0, 0.0]]), targets, n_draws=3)
    effect, draws = held_effects(server, np.array([[1.0, 0.0]]), targets[:10], n_draws=3)
    np.testing.assert_allclose(effect[:, 0], 1.0)
    assert np.isfinite(draws).all()
