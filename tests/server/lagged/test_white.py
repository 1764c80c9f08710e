"""Plants of several lags in coordinates of white noise, of little sensor noise, without needless shifts."""

import warnings

import numpy as np
import pytest

from skfedcausal import FederatedCounterfactualEstimator
from skfedcausal.server.lagged import stage
from skfedcausal.server.lagged.problem import unchanged, whitened
from skfedcausal.statespace.lagged.likelihood import LaggedLikelihood, LagSums

pytestmark = pytest.mark.medium


def near_copies(n_samples=1200, seed=3):
    """Two units whose quantities follow an input after a while and each other nearly exactly."""
    rng = np.random.default_rng(seed)
    u, w = rng.normal(size=n_samples), rng.normal(size=(n_samples, 2)) * [0.3, 0.01]
    h = np.zeros((n_samples, 2))
    for t in range(4, n_samples):
        h[t, 0] = 1.2 * h[t - 1, 0] - 0.5 * h[t - 2, 0] + 0.4 * u[t - 4] + w[t, 0]
        h[t, 1] = h[t, 0] + 0.3 * h[t - 2, 0] + 0.2 * u[t - 3] + w[t, 1]
    return {"a": h[:, [0]], "b": h[:, [1]]}, {"a": u[:, None]}


@pytest.fixture(scope="module")
def learned():
    """What the plant was learned from and found to be, in both coordinates, and the estimator."""
    X, inputs = near_copies()
    kept = {}

    def watched(problem, sums, fitted):
        kept.update(problem=problem, sums=sums, plain=unchanged(problem, fitted))
        kept["white"] = whitened(problem, sums, fitted)
        return kept["white"]

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(stage, "whitened", watched)
        estimator = FederatedCounterfactualEstimator(sampled="after").fit(X, inputs=inputs)
    return kept, estimator, X, inputs


def test_sums_of_other_coordinates_are_those_of_the_other_series():
    rng = np.random.default_rng(0)
    series, T = rng.normal(size=(300, 3)), rng.normal(size=(3, 3))
    expected = LagSums.of(series @ T.T, (0, 40), 3, 5)
    for one, other in zip(LagSums.of(series, (0, 40), 3, 5).transformed(T), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9 * np.max(np.abs(other), initial=1))


def test_the_likelihood_of_a_plant_does_not_depend_on_its_coordinates(learned):
    kept = learned[0]
    white, problem, n = kept["white"], kept["problem"], 2
    back = np.linalg.inv(white.W)
    coefficients = back @ white.fitted.coefficients
    coefficients[..., :n] = coefficients[..., :n] @ white.W
    Q = back @ white.fitted.Q @ back.T
    value = problem.likelihood.n_rows * problem.likelihood.evaluate(coefficients, Q).value
    # but for the idle lags that were left out since
    assert white.value == pytest.approx(value, abs=stage._NO_LOSS)
    assert isinstance(white.problem.likelihood, LaggedLikelihood)


def test_outputs_that_nearly_determine_each_other_are_told_as_well_as_the_truth_does(learned):
    kept, estimator, _, _ = learned
    assert kept["white"].criterion > kept["plain"].criterion + 100
    X, inputs = near_copies(seed=4)
    # noise of the sensors of unit b given those of a, and of a: the entropy of both
    entropy = -(np.log(2 * np.pi) + 1) - np.log(0.3) - np.log(0.01)
    score = estimator.score_samples(X, inputs=inputs)[60:].mean()
    assert score > entropy - 0.1 - 4 / np.sqrt(1140)


def test_the_noise_that_the_server_found_too_large_is_small_in_later_records_too(learned):
    _, estimator, X, inputs = learned
    assert estimator.server_.filter_noise_share_ < 0
    n, start = 1000, 900
    forecast = estimator.forecast({k: x[:n] for k, x in X.items()}, start, inputs={"a": inputs["a"][:n]})
    h = np.hstack(list(X.values()))
    # a row ahead nothing but the noise of the plant is unknown, of which the second output's is 0.3, too
    assert np.abs(forecast[0] - h[start]).max() < 4 * 0.3


def slowly_driven(n_samples=1500, seed=1):
    """A unit that one input drives after ten rows, held for long: what it does looks like shifts of a level."""
    rng = np.random.default_rng(seed)
    u = np.repeat(rng.normal(size=n_samples // 150 + 1), 150)[:n_samples]
    h = np.zeros(n_samples)
    for t in range(1, n_samples):
        h[t] = 0.8 * h[t - 1] + (u[t - 10] if t >= 10 else 0.0) + 0.3 * rng.normal()
    return {"a": h[:, None]}, {"a": u[:, None]}


def test_what_an_input_does_late_is_no_shift_of_a_level():
    X, inputs = slowly_driven()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = FederatedCounterfactualEstimator(sampled="after").fit(X, inputs=inputs)
    assert not estimator.server_.plant_.point.steps
    change = np.ones((100, 1))
    C = np.asarray(estimator.clients_["a"].observation_)
    gain = (estimator.server_.effects(change)["a"].states @ C.T)[-1, 0]
    # ten levels: noise of sd 1.5 in the long run over 150 rows each says the gain of 5 within a few per cent
    assert abs(gain - 5) < 4 * 1.5 / np.sqrt(1500) / np.std(inputs["a"])
