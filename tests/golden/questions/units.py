"""What a unit may be told: how its model is found or given, what is taken off its record, other filters."""

import numpy as np
from sklearn.linear_model import Ridge

from skfedcausal import Baseline, ExtendedKalmanClient, KalmanClient, RegressorAugmenter
from skfedcausal.datasets import make_granger_plant

from ..plants import Plant, Record, at_sites
from .common import ABOUT, LEARNED, ask, detector, gappy, granger, made, record

_QUESTIONS = {**LEARNED, "predict by own filters": ask("predict", model="client"), "transform": ask("transform")}


def _short():
    return record(n_samples=500)


def _of_client(name, data=_short, questions=_QUESTIONS, **settings):
    """A plant whose units are told something."""
    return Plant(name, made(granger, KalmanClient(**settings)), data, questions, {**ABOUT, "alone": _alone})


def _alone(fitted):
    """What a unit says by itself."""
    client, Y = fitted.estimator.clients_["unit1"], fitted.record.X["unit1"]
    asked = ("predict", "transform", "score", "score_samples", "filter", "smooth")
    return {name: getattr(client, name)(Y) for name in asked} | {"residuals": Y - client.predict(Y)}


def _seasonal():
    found, rows = _short(), np.arange(500)[:, None]
    found.X["unit0"] += 2.0 * np.sin(2 * np.pi * rows / 24) + 0.002 * rows
    return found


def _modes():
    """The units have another level in every third hundred of rows, which a column says."""
    found = record(n_samples=600)
    mode = np.arange(600) // 100 % 3 == 2
    for name, Y in found.X.items():
        found.X[name] = np.column_stack([Y + 3.0 * mode[:, None], mode])
    return found


def _given():
    _, truth = make_granger_plant(3, n_samples=500, links=((0, 1), (1, 2)), random_state=0)
    return {name: KalmanClient(**model) for name, model in truth.clients().items()}


def _with_gain():
    """Models with gains that somebody has chosen."""
    found = {}
    for name, client in _given().items():
        gain = 0.1 * np.linalg.pinv(np.asarray(client.C))
        found[name] = KalmanClient(A=client.A, C=client.C, Q=client.Q, R=client.R, gain=gain)
    return found


def _shared_noise():
    """Sensors of two units that are disturbed by the same noise within a row."""
    found, rng = record(n_samples=700), np.random.default_rng(5)
    common = 3.0 * rng.standard_normal(700)
    found.X["unit0"][:, 0] += common
    found.X["unit1"][:, 1] += common
    return found


def _alone_extended(fitted):
    """What a unit with an extended filter says by itself."""
    Y = fitted.record.X["unit1"]
    client = _linear_maps()["unit1"].fit(Y)
    return {name: getattr(client, name)(Y) for name in ("predict", "transform", "score", "score_samples")}


def _two():
    return record(2, 400, links=((0, 1),), n_sensors=4)


def _linear_maps():
    """Extended filters whose maps are straight."""
    A, C = 0.6 * np.eye(2), np.random.default_rng(0).standard_normal((4, 2))
    return {
        name: ExtendedKalmanClient(lambda h: A @ h, lambda h: C @ h, n_states=2, Q=np.eye(2), R=np.eye(4))
        for name in ("unit0", "unit1")
    }


PLANTS = [
    _of_client("seasons and a trend", _seasonal, baseline=Baseline(harmonics={24: 2}, trend="linear")),
    _of_client("seasons that are found", _seasonal, baseline=Baseline(harmonics="auto", trend="smooth")),
    _of_client("subspace identification", identify="subspace"),
    _of_client("identification by lags", identify="lag-var", n_states=2),
    _of_client("identification by components", identify="pca-var", n_states=2),
    _of_client("states that are told", lambda: record(n_samples=500, n_states=3), n_states=3, initial="diffuse"),
    _of_client("states with gaps", lambda: gappy(_short(), 0.03), n_states=2),
    _of_client(
        "levels of episodes", lambda: Record(_short().X, None, (250, 250)), LEARNED, baseline=Baseline(levels="episode")
    ),
    _of_client("levels that move", _short, baseline=Baseline(levels=60.0)),
    _of_client("modes of units", _modes, LEARNED, baseline=Baseline(mode=8)),
    Plant(
        "given models",
        lambda: granger(_given()),
        _short,
        {**_QUESTIONS, "test_links": ask("test_links")},
        {**ABOUT, "alone": _alone},
        {"at sites": at_sites},
        _given(),
    ),
    Plant("chosen gains", lambda: granger(_with_gain()), _short, _QUESTIONS, {"alone": _alone}),
    _of_client(
        "more states than sensors",
        lambda: record(n_samples=900, n_sensors=2, n_states=3),
        {"plant": LEARNED["plant"], "transform": ask("transform")},
        n_states=3,
    ),
    Plant("sensors that units share", granger, _shared_noise, {**LEARNED, "predict": ask("predict")}, ABOUT),
    Plant(
        "extended filters",
        lambda: granger(_linear_maps()),
        _two,
        {**LEARNED, "transform": ask("transform")},
        {"alone": _alone_extended},
    ),
    Plant(
        "extended filters that learn",
        made(granger, ExtendedKalmanClient(n_states=2, hidden=4, random_state=0)),
        lambda: record(2, 300, links=((0, 1),), n_sensors=4),
        {"plant": LEARNED["plant"]},
    ),
    Plant(
        "other augmenters",
        made(granger, augmenter=RegressorAugmenter(Ridge())),
        _short,
        {"predict": ask("predict"), "plant": LEARNED["plant"]},
    ),
    Plant(
        "extended filters, watched",
        lambda: detector(_linear_maps()),
        _two,
        {"transform": ask("transform"), "incidents": ask("incidents")},
    ),
]
