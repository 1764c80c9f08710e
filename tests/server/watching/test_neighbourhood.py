"""Plants of many units: roots that are asked of the units around an alarm."""

import pickle

import numpy as np
import pytest

from skfedcausal import FederatedRCADetector, KalmanClient
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server import moments
from skfedcausal.server.watching.learning import LocalPosterior
from skfedcausal.server.watching.posterior import RootPosterior

pytestmark = pytest.mark.medium

N_UNITS = 34

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
    assert type(detector._root_cause.posterior) is LocalPosterior
    assert not detector._root_cause.is_whole
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
    assert type(few._root_cause.posterior) is RootPosterior
    assert few._root_cause.is_whole
