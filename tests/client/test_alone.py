"""A KalmanClient is a scikit-learn transformer of its own: pipelines, searches, frames, episodes, gaps."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfedcausal import Baseline, KalmanClient
from skfedcausal.client import kalman
from skfedcausal.datasets import make_granger_plant
from skfedcausal.statespace.observation import NoiseFit

from ._reference import EPS, random_unit

N = 300
UNIT = random_unit(np.random.default_rng(0))


def frame(n_samples=N, missing=0.0, seed=0):
    X, _ = make_granger_plant(1, n_samples=n_samples, missing=missing, random_state=seed)
    times = pd.date_range("2026-01-01", periods=n_samples, freq="min")
    return pd.DataFrame(X["unit0"], index=times).add_prefix("s")


# --- gaps of every kind, against the textbook ---------------------------------------------------------


def with_gaps(Y, kind):
    Y = Y.copy()
    if kind == "now and then":
        Y[np.random.default_rng(2).random(Y.shape) < 0.1] = np.nan
    elif kind == "never seen":
        Y[:, 3] = np.nan
    elif kind == "absent for a stretch":
        Y[50:90] = np.nan
    elif kind == "slow":
        Y[np.arange(len(Y)) % 10 != 0, 1] = np.nan
    elif kind == "absent at first":
        Y[:20] = np.nan
    return Y


@pytest.mark.parametrize("kind", ["now and then", "never seen", "absent for a stretch", "slow", "absent at first"])
@pytest.mark.parametrize("lengths", [None, [100, N - 100]], ids=["one episode", "two episodes"])
@pytest.mark.parametrize("diagonal", [True, False], ids=["independent noise", "correlated noise"])
@pytest.mark.filterwarnings("ignore:Columns 3 of the unit are constant or missing:UserWarning")
def test_gaps_are_exact(kind, lengths, diagonal):
    unit = random_unit(np.random.default_rng(0), diagonal=diagonal)
    Y, U = unit.simulate(N, np.random.default_rng(1))
    Y = with_gaps(Y, kind)
    expected = unit.filter(Y, U, (0,) if lengths is None else (0, 100))
    seen = ~np.isnan(Y).all(axis=0)
    for client in (
        KalmanClient(**unit.matrices),
        KalmanClient(baseline=Baseline(center=False), **unit.matrices).fit(Y, inputs=U, lengths=lengths),
    ):
        along = {"inputs": U, "lengths": lengths}
        tolerance = {"rtol": 0, "atol": 1e4 * EPS * np.abs(expected.posterior).max()}
        assert_allclose(client.transform(Y, **along), expected.posterior, **tolerance)
        predicted = client.predict(Y, **along)
        assert_allclose(predicted[:, seen], (expected.prior @ unit.C.T)[:, seen], **tolerance)
        assert_allclose(client.score_samples(Y, **along), expected.log_density, rtol=1e-9, atol=1e-9)


# --- with the rest of scikit-learn ----------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_it_is_a_step_of_a_pipeline(missing):
    X = frame(missing=missing)
    target = X.iloc[:, 0].interpolate(limit_direction="both").to_numpy()
    model = make_pipeline(StandardScaler(), KalmanClient(n_states=2), Ridge()).fit(X, target)
    assert model.predict(X).shape == (N,)
    assert model.score(X, target) > 0.5


def test_a_search_finds_the_number_of_states():
    X = frame(3000)
    steps = make_pipeline(StandardScaler().set_output(transform="pandas"), KalmanClient())
    search = GridSearchCV(steps, {"kalmanclient__n_states": [1, 2, 4]}, cv=TimeSeriesSplit(3)).fit(X)
    assert search.best_params_ == {"kalmanclient__n_states": 2}


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_frames_keep_their_names_and_times(missing):
    X = frame(missing=missing)
    client = KalmanClient(n_states=2).set_output(transform="pandas").fit(X)
    assert list(client.feature_names_in_) == list(X)
    states = client.transform(X)
    assert list(states) == list(client.get_feature_names_out()) == ["kalmanclient0", "kalmanclient1"]
    assert states.index.equals(X.index)
    plain = KalmanClient(n_states=2).fit(X.to_numpy())
    assert_array_equal(states.to_numpy(), plain.transform(X.to_numpy()))
    for method in ("predict", "score_samples"):
        assert_array_equal(getattr(client, method)(X), getattr(plain, method)(X.to_numpy()))
    assert client.score(X) == plain.score(X.to_numpy()) == plain.score_samples(X.to_numpy()).mean()


def test_fit_transform_is_fit_and_transform():
    X = frame()
    assert_array_equal(KalmanClient().fit_transform(X), KalmanClient().fit(X).transform(X))
    lengths = [100, 200]
    both = KalmanClient().set_output(transform="pandas").fit_transform(X, lengths=lengths)
    assert both.index.equals(X.index)
    assert_array_equal(both, KalmanClient().fit(X, lengths=lengths).transform(X, lengths=lengths))


def test_episodes_know_nothing_of_each_other():
    X = frame()
    client = KalmanClient(n_states=2).fit(X, lengths=[100, 200])
    for method in ("transform", "predict", "score_samples"):
        together = np.asarray(getattr(client, method)(X, lengths=[100, 200]))
        alone = [np.asarray(getattr(client, method)(part)) for part in (X[:100], X[100:])]
        assert_allclose(together, np.concatenate(alone), atol=1e-12)


# --- noise that cannot be told from states ------------------------------------------------------------


def test_noise_variances_that_were_still_moving_are_warned_about(monkeypatch):
    def unfinished(G, C, floor):
        return NoiseFit(np.maximum(0.1 * np.diag(G), floor), False, 200)

    monkeypatch.setattr(kalman, "sensor_noise", unfinished)
    with pytest.warns(ConvergenceWarning, match="still moving after 200 steps.*fewer states, or give C and R"):
        KalmanClient(n_states=2).fit(frame())
