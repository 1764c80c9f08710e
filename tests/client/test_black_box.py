"""A proprietary model takes part as it is: by the methods of a KalmanClient, or by its filter's moments."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import Baseline, FederatedGrangerEstimator, KalmanClient
from skfedcausal.client.extended_kalman import BlackBoxClient
from skfedcausal.client.worker import fitted_client, unit_message
from skfedcausal.datasets import make_granger_plant

from ._reference import EPS, Unit, random_unit

N = 120
STARTS = (0, 50)
UNIT = random_unit(np.random.default_rng(0), level=3.0)


class Box:
    """A filter that tells its moments and nothing else."""

    def __init__(self, unit):
        self._unit = unit

    def filter_moments(self, Y, inputs=None):
        m = self._unit.filter(Y, inputs)
        return m.prior, m.prior_cov, m.posterior, m.posterior_cov


class Proprietary:
    """The methods of a KalmanClient, without being one."""

    def __init__(self, client):
        self._client = client

    def message(self, X, *, inputs=None, lengths=None, const=False, local_model=False):
        return self._client.message(X, lengths=lengths, const=const, local_model=local_model)

    def filter(self, X, *, inputs=None, lengths=None):
        return self._client.filter(X, lengths=lengths)

    def predict(self, X, *, inputs=None, lengths=None):
        return self._client.predict(X, lengths=lengths)

    def measurements(self, states):
        return self._client.measurements(states)


def gaps(Y, kind):
    Y = Y.copy()
    if kind == "cells":
        Y[np.random.default_rng(2).random(Y.shape) < 0.2] = np.nan
    elif kind == "a sensor never seen":
        Y[:, 2] = np.nan
    elif kind == "absent for a stretch":
        Y[20:35] = np.nan
    elif kind == "all of them":
        Y[np.random.default_rng(2).random(Y.shape) < 0.1] = np.nan
        Y[:, 2] = np.nan
        Y[60:70] = np.nan
    return Y


GAPS = ["nothing", "cells", "a sensor never seen", "absent for a stretch", "all of them"]


@pytest.mark.parametrize("kind", GAPS)
@pytest.mark.parametrize("driven", [True, False], ids=["inputs", "no inputs"])
@pytest.mark.filterwarnings("ignore:Columns 2 of unit 'mill' are constant or missing:UserWarning")
def test_the_message_of_a_black_box_is_exact(kind, driven):
    Y, U = UNIT.simulate(N, np.random.default_rng(1))
    Y, U = gaps(Y, kind), U if driven else None
    client = fitted_client(Box(UNIT), Y, U, STARTS, "mill", None)
    message = unit_message(client, Y, STARTS, inputs=U)
    expected = KalmanClient(**UNIT.matrices).message(Y - UNIT.mean, lengths=[50, N - 50])
    m = UNIT.filter(Y, U, STARTS)
    # two inverses and their difference: errors grow with the condition of both covariances
    condition = max(np.linalg.cond(P) for P in (*m.prior_cov, *m.posterior_cov))
    tolerance = 1e4 * EPS * condition
    assert_allclose(message.z, expected.z, rtol=0, atol=tolerance * np.abs(expected.z).max())
    came, true = message.information.matrices(), expected.information.matrices()
    assert_allclose(came, true, rtol=0, atol=tolerance * np.abs(true).max())
    assert message.lengths == expected.lengths
    # rounding makes no patterns of its own: as many matrices travel as there are patterns of gaps
    assert len(message.patterns) == len(expected.patterns)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_step_of_a_linear_box_is_recovered(missing):
    Y, U = UNIT.simulate(N, np.random.default_rng(1), missing=missing)
    client = BlackBoxClient(Box(UNIT)).fit(Y, U, STARTS)
    assert_allclose(client.transition_, UNIT.A, atol=1e-9)
    assert_allclose(client.process_cov_, UNIT.Q, atol=1e-9)


@pytest.mark.medium
def test_the_sensors_of_a_box_are_the_regressions_on_its_states():
    n_samples = 4000
    Y, U = UNIT.simulate(n_samples, np.random.default_rng(1))
    client = BlackBoxClient(Box(UNIT)).fit(Y, U)
    # every sensor is a regression on two states with unit information or more per time step
    tolerance = 5 * np.sqrt(np.diag(UNIT.R).max() * 2 / n_samples)
    assert_allclose(client.observation_, UNIT.C, atol=tolerance)
    assert_allclose(client.mean_, UNIT.mean, atol=tolerance)
    assert_allclose(client.measurement_cov_, np.diag(UNIT.R), rtol=5 * np.sqrt(2 / n_samples) + tolerance)
    predicted = UNIT.filter(Y, U).prior @ UNIT.C.T + UNIT.mean
    error = np.sqrt(((client.predict(Y, inputs=U) - predicted) ** 2).mean())
    assert error < 0.05 * predicted.std()


def plant(missing=0.0):
    X, truth = make_granger_plant(
        3, n_sensors=[4, 3, 5], n_samples=600, missing=missing, link_strength=(0.2, 0.3), random_state=0
    )
    return X, truth.clients()


def unit_of(model):
    A, C = np.asarray(model["A"]), np.asarray(model["C"])
    R = np.asarray(model["R"])
    return Unit(A, np.zeros((len(A), 1)), C, model["Q"], np.diag(R) if R.ndim == 1 else R, np.zeros(len(C)))


def known(model):
    matrices = unit_of(model).matrices
    return KalmanClient(baseline=Baseline(center=False), **{name: matrices[name] for name in "ACQR"})


@pytest.mark.medium
@pytest.mark.parametrize("missing", [0.0, 0.05])
def test_black_boxes_learn_the_plant_of_the_models_inside_them(missing):
    X, models = plant(missing)
    open_ = FederatedGrangerEstimator({name: known(model) for name, model in models.items()}).fit(X)
    boxes = {name: Box(unit_of(model)) for name, model in models.items()}
    closed = FederatedGrangerEstimator(boxes).fit(X)
    scale = np.abs(open_.transition_).max()
    assert_allclose(closed.transition_, open_.transition_, atol=1e-6 * scale)
    assert_array_equal(closed.links_["verdict"], open_.links_["verdict"])
    assert_allclose(closed.transform(X), open_.transform(X), atol=1e-5)
    for model in ("client", "augmented", "server"):
        table, expected = closed.predict(X, model=model), open_.predict(X, model=model)
        # the same states, seen through sensors that were learned from 600 rows instead of given
        assert np.sqrt(np.mean((table - expected) ** 2)) < 0.2 * expected.std()
    assert np.isfinite(closed.score(X))


@pytest.mark.medium
@pytest.mark.parametrize("missing", [0.0, 0.05])
def test_an_object_with_the_methods_of_a_client_is_one(missing):
    X, models = plant(missing)
    own = {name: known(model).fit(X[name]) for name, model in models.items()}
    open_ = FederatedGrangerEstimator({name: known(model) for name, model in models.items()}).fit(X)
    closed = FederatedGrangerEstimator({name: Proprietary(client) for name, client in own.items()}).fit(X)
    assert_array_equal(closed.transition_, open_.transition_)
    for model in ("client", "augmented", "server"):
        assert_allclose(closed.predict(X, model=model), open_.predict(X, model=model), atol=1e-9)
    assert_allclose(closed.score_samples(X), open_.score_samples(X), atol=1e-9)


def test_the_unit_s_own_object_is_used_as_it_is():
    Y, U = UNIT.simulate(N, np.random.default_rng(1))
    box = Box(UNIT)
    client = fitted_client(box, Y, U, STARTS, "mill", None)
    assert client.box is box
    assert vars(box) == {"_unit": UNIT}
    own = Proprietary(KalmanClient(**UNIT.matrices))
    assert fitted_client(own, Y, U, STARTS, "mill", None) is own
    again = pickle.loads(pickle.dumps(client))
    assert_array_equal(again.predict(Y, inputs=U), client.predict(Y, inputs=U))


# --- what is refused ----------------------------------------------------------------------------------


class Altered(Box):
    """A box whose answer is changed on the way."""

    def __init__(self, change):
        super().__init__(replace(UNIT))
        self._change = change

    def filter_moments(self, Y, inputs=None):
        return self._change(*super().filter_moments(Y, inputs))


BROKEN = {
    "three arrays": (lambda a, P, b, S: (a, P, b), "must return four arrays"),
    "words": (lambda a, P, b, S: ("a", P, b, S), "must return four arrays"),
    "a number": (lambda a, P, b, S: (a[0, 0], P, b, S), r"predicted states of shape \(\)"),
    "rows lost": (lambda a, P, b, S: (a, P, b[1:], S), r"filtered states of shape \(\d+, 2\), expected"),
    "variances only": (
        lambda a, P, b, S: (a, P, b, np.einsum("tii->ti", S)),
        r"filtered covariances of shape \(50, 2\), expected \(2, 2\) or \(50, 2, 2\)",
    ),
    "NaN": (lambda a, P, b, S: (a * np.nan, P, b, S), "predicted states that are not finite"),
    "before and after swapped": (lambda a, P, b, S: (b, S, a, P), "larger than the predicted one"),
    "a state known for certain": (
        lambda a, P, b, S: (a, P * np.array([[1, 0], [0, 0]]), b, S),
        "covariance of the predicted states is not positive definite",
    ),
}


@pytest.mark.parametrize(("change", "error"), BROKEN.values(), ids=BROKEN.keys())
def test_an_answer_that_is_no_filter_s_is_refused(change, error):
    Y, _ = UNIT.simulate(N, np.random.default_rng(1))

    def take_part():
        client = fitted_client(Altered(change), Y, None, STARTS, "mill", None)
        return unit_message(client, Y, STARTS)

    with pytest.raises(ValueError, match=error):
        take_part()


def test_an_object_with_part_of_the_methods_is_refused_by_name():
    class Mute:
        def message(self, X):
            """Nothing."""

        def filter(self, X):
            """Nothing."""

    Y, _ = UNIT.simulate(N, np.random.default_rng(1))
    with pytest.raises(TypeError, match=r"unit 'mill' is a Mute with `message`, but without predict, meas"):
        fitted_client(Mute(), Y, None, STARTS, "mill", None)
