"""Named windows of plants whose dynamics change: who is named, and how a window without a fault is answered."""

import numpy as np
import pytest

from skfedcausal import FederatedRCADetector
from skfedcausal.datasets import make_fault_plant

pytestmark = pytest.mark.medium

STATES = range(40, 46)


@pytest.fixture(scope="module")
def detectors():
    records = {state: make_fault_plant(5, n_samples=2000, plant_state=state, random_state=1).data for state in STATES}
    return {state: FederatedRCADetector().fit(record) for state, record in records.items()}


@pytest.mark.parametrize(("kind", "least"), [("changed dynamics", 5), ("link loss", 5)])
def test_the_unit_whose_dynamics_change_is_named(detectors, kind, least):
    """Half of them show in nothing else: surprises are hardly larger than nominal ones."""
    named = 0
    for state, detector in detectors.items():
        plant = make_fault_plant(5, kind, onset=200, n_samples=400, plant_state=state, random_state=2)
        window = detector.attribute(plant.data, start=200)
        named += window["client"][0] == plant.faults[0][2] and window["probability"][0] >= 0.5
    assert named >= least


def test_a_window_without_a_fault_is_hardly_ever_sure(detectors):
    """Three windows of each network."""
    sure = []
    for state, detector in detectors.items():
        record = make_fault_plant(5, n_samples=800, plant_state=state, random_state=3).data
        windows = (detector.attribute(record, start=row, end=row + 200) for row in (200, 400, 600))
        sure += [window["probability"][0] > 0.9 for window in windows]
    assert np.mean(sure) <= 2 / 18
