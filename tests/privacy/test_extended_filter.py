"""Noise on the record of a unit with an extended Kalman filter."""

import warnings

import numpy as np
import pytest

from skfedcausal import ExtendedKalmanClient, FederatedRCADetector, GaussianMechanism, IndependentFlips
from skfedcausal.client.templates import fitted_client
from skfedcausal.datasets import make_nonlinear_plant
from skfedcausal.privacy import PrivacyLeakWarning

pytestmark = [pytest.mark.medium, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def record():
    return make_nonlinear_plant(n_samples=1200, size=0, random_state=1).data


def noised(Y, variance):
    return Y + np.sqrt(variance) * np.random.default_rng(0).standard_normal(Y.shape)


def test_learned_maps_hold_the_noise_and_a_clean_record_does_not_get_it(record):
    Y = record["unit0"]
    noise = np.full(4, 9.0)
    client = fitted_client(ExtendedKalmanClient(random_state=0), noised(Y, 9.0), None, (0,), "a", None, noise)
    R = np.diag(client.box.measurement_cov_)
    assert (R > 0.7 * 9.0).all()
    clean = client.with_noise(np.zeros(4))
    np.testing.assert_allclose(np.diag(clean.box.measurement_cov_), np.maximum(R - 9.0, 1e-3 * R))
    assert client.with_noise(noise) is client
    back = clean.with_noise(noise)
    assert (np.diag(back.box.measurement_cov_) >= R - 1e-12).all()


def test_the_noise_of_given_maps_is_raised(record):
    given = {"f": lambda x: 0.5 * x, "h": lambda x: np.array([x[0], x[1], x[0] + x[1], x[0]])}
    template = ExtendedKalmanClient(**given, Q=np.eye(2), R=2 * np.eye(4))
    noise = np.array([1.0, 2.0, 3.0, 4.0])
    client = fitted_client(template, record["unit0"], None, (0,), "a", None, noise)
    np.testing.assert_allclose(client.box.measurement_cov_, 2 * np.eye(4) + np.diag(noise))


def test_a_filter_fitted_elsewhere_is_refused(record):
    fitted = ExtendedKalmanClient(random_state=0).fit(record["unit0"])
    with pytest.raises(TypeError, match="not fitted yet"):
        fitted_client(fitted, record["unit0"], None, (0,), "a", None, np.ones(4))


@pytest.mark.parametrize("evidence", ["innovations", "flags"])
def test_a_detector_of_extended_filters_keeps_its_promise(record, evidence):
    scale = {name: Y.std(axis=0) for name, Y in record.items()}
    mechanism = GaussianMechanism(epsilon=50.0, delta=1e-5, clip_norm=4.0)
    data = {name: Y / scale[name] for name, Y in record.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        detector = FederatedRCADetector(
            ExtendedKalmanClient(random_state=0), privacy=mechanism, evidence=evidence, false_alarm_rate=0.02
        ).fit(data)
    assert len(detector.predict_root_cause(data)) == 1200
    assert detector.privacy_spent_.epsilon == pytest.approx(50.0)


def test_randomised_flags_of_extended_filters_come_from_the_raw_record(record):
    detector = FederatedRCADetector(
        ExtendedKalmanClient(random_state=0),
        privacy=IndependentFlips(epsilon=8.0, random_state=0),
        evidence="flags",
        false_alarm_rate=0.02,
    ).fit(record)
    assert len(detector.predict_root_cause(record)) == 1200
