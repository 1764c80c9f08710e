"""Plants of many units: the filter of their blocks, and roots that are asked of the units around an alarm."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2

from skfedcausal import FederatedRCADetector, KalmanClient
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server import moments
from skfedcausal.server.watching.detector import RootCauseServer
from skfedcausal.server.watching.large import LargeEnergy, LargeLevels, LargeModel, LargeRootCauseServer
from skfedcausal.server.watching.thresholds import AlarmLevels
from skfedcausal.statespace.detection.shift import InnovationModel

pytestmark = pytest.mark.medium

N_UNITS = 34


# --- parts ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def models():
    """A plant of five units as a dense model, and as one of blocks that hold all of it."""
    rng = np.random.default_rng(0)
    A = np.diag(rng.uniform(0.3, 0.8, 10)) + 0.1 * np.triu(rng.standard_normal((10, 10)), 1)
    slices = [slice(k, k + 2) for k in range(0, 10, 2)]
    J, Q = np.zeros((10, 10)), np.diag(rng.uniform(0.5, 2.0, 10))
    for b in slices:
        root = rng.standard_normal((2, 2))
        J[b, b] = root @ root.T + np.eye(2)
    dense = InnovationModel(A, Q, J)
    gain = dense.schedule.filtered[-1] @ J
    return dense, LargeModel(SimpleNamespace(A=A, Q=Q, gain=gain), J, slices), slices


def test_the_matrices_are_those_of_the_dense_filter(models):
    dense, large, _ = models
    assert_allclose(large.weight.toarray(), dense.weight, atol=1e-9)
    assert_allclose(large.carry.toarray(), dense.carry, atol=1e-9)
    assert_allclose(large.held.toarray(), dense.held, atol=1e-3 * np.abs(dense.held).max())


def test_innovations_are_those_of_the_dense_filter_once_it_is_settled(models):
    dense, large, _ = models
    z = np.random.default_rng(1).standard_normal((300, 10)).cumsum(axis=0) * 0.1
    for found, expected in zip(large.filtered(z), dense.filtered(z), strict=True):
        assert_allclose(found[100:], expected[100:], atol=1e-8)  # the slowest mode has decayed to 0.8 ** 100


def test_rows_without_a_unit_are_predicted_by_what_is_known_of_it(models):
    dense, large, slices = models
    rng = np.random.default_rng(2)
    scores = rng.standard_normal((20, 10))
    scores[5:9, slices[1]] = np.nan
    predicted, mean = large.follow(scores, np.zeros(10))
    gain, expected = dense.schedule.filtered[-1] @ dense.J, np.zeros(10)
    for t, score in enumerate(scores):
        assert_allclose(predicted[t], expected, atol=1e-9)
        expected = dense.A @ (expected + gain @ np.nan_to_num(score - expected))
    assert_allclose(mean, expected, atol=1e-9)


def test_a_part_is_the_plant_of_these_units(models):
    dense, large, _ = models
    part, states = large.part((1, 3))
    assert_array_equal(states, [2, 3, 6, 7])
    assert_array_equal(part.A, dense.A[np.ix_(states, states)])
    assert_array_equal(part.J, dense.J[np.ix_(states, states)])


def test_own_surprises_of_nominal_errors_are_chi_square(models):
    _, _, slices = models
    e = np.random.default_rng(3).standard_normal((20_000, 10)) @ np.diag(np.arange(1.0, 11.0))
    surprise = LargeEnergy(e, slices).own(e)
    # the floor of a hundredth widens them
    beyond = (surprise > chi2.isf(0.05, 2)).mean(axis=0)
    assert_allclose(beyond, 0.05, atol=4 * np.sqrt(0.05 * 0.95 / 20_000) + 0.003)


def test_levels_of_many_units_are_those_of_few(models):
    dense, large, slices = models
    rng = np.random.default_rng(4)
    scaled = dense.filtered(rng.standard_normal((1200, 10)))[0]
    surprise = np.abs(rng.standard_normal((1200, 5)))
    found = []
    for kind, model in ((AlarmLevels, dense), (LargeLevels, large)):
        levels = kind(("energy", "shift"), model, slices)
        held = scaled @ dense.held
        levels.learn(scaled, (0,), [surprise], [held], 200.0, np.random.RandomState(0))
        found.append((levels.rows(surprise, held)[0], list(levels.thresholds.values())))
    (few, limits), (many, same) = found
    assert_allclose(many, few, rtol=5e-3, atol=5e-3)  # small responses are left out
    assert_allclose(same, limits, rtol=5e-3)


# --- a plant --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def plant():
    links = [(f"unit{k}", f"unit{k + 1}") for k in range(0, N_UNITS - 1, 2)]
    return make_granger_plant(n_units=N_UNITS, links=links, n_samples=2600, random_state=0)


@pytest.fixture(scope="module")
def detector(plant):
    """A detector for which thirty-four units are many."""
    X, truth = plant
    clients = [KalmanClient(C=C) for C in truth.observation]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(moments, "_LARGE", N_UNITS)
        return FederatedRCADetector(clients).fit({name: Y[:2000] for name, Y in X.items()})


@pytest.fixture
def faulty(plant):
    X = {name: Y[2000:].copy() for name, Y in plant[0].items()}
    X["unit20"][300:] += 3 * X["unit20"].std(axis=0)
    return X


def test_plants_of_many_units_are_watched_in_blocks(detector, faulty):
    assert type(detector._root_cause) is LargeRootCauseServer
    found = detector.incidents(faulty)
    first = found[found.detected >= 300].iloc[0]
    assert first.root == "unit20"
    assert first.detected < 310
    assert (found.detected < 300).sum() <= 3  # budget of 0.3


def test_batches_give_what_the_whole_gives(detector, faulty):
    whole = detector.predict_root_cause(faulty)
    for size in (1, 250):
        parts = ({name: Y[k : k + size] for name, Y in faulty.items()} for k in range(200, 360, size))
        joined = np.full(400, "", dtype=whole.dtype)
        for where, roots in detector.predict_root_cause(parts):
            joined[where] = roots
        assert "unit20" in joined[100:160]


def test_a_unit_that_is_absent_takes_no_part(detector, faulty):
    faulty["unit3"][100:] = np.nan
    found = detector.incidents(faulty)
    assert "unit20" in found[found.detected >= 300].root.tolist()
    assert "unit3" not in found.root.tolist()


def test_a_saved_detector_finds_the_same(detector, faulty):
    again = pickle.loads(pickle.dumps(detector))
    assert again.incidents(faulty).root.tolist() == detector.incidents(faulty).root.tolist()


def test_small_plants_are_watched_as_a_whole(plant):
    few = FederatedRCADetector().fit({name: plant[0][name] for name in ("unit0", "unit1")})
    assert type(few._root_cause) is RootCauseServer
