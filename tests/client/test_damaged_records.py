"""What a unit says of its own record before it learns from it, and what a server says of units that are one."""

import warnings

import numpy as np
import pytest

from skfedcausal import FederatedGrangerEstimator, FederatedRCADetector, KalmanClient, LikelihoodServer
from skfedcausal.datasets import make_granger_plant


@pytest.fixture
def plant():
    return make_granger_plant(3, n_samples=1000, random_state=0)[0]


@pytest.mark.medium
def test_fill_values_are_named(plant):
    plant["unit1"][300:340, 2] = -9999.0
    with pytest.warns(UserWarning, match=r"'unit1': 'unit1__x2': -9999 in 4.0% of the rows.*Replace -9999 by NaN"):
        FederatedGrangerEstimator().fit(plant)


@pytest.mark.medium
def test_frozen_stretches_are_named(plant):
    plant["unit1"][300:600, 2] = plant["unit1"][300, 2]
    with pytest.warns(UserWarning, match="'unit1__x2' stands still in rows 300 to 599. Set the values there to NaN"):
        FederatedGrangerEstimator().fit(plant)


@pytest.mark.medium
def test_sensors_that_are_there_twice_are_named(plant):
    plant["unit2"] = np.column_stack([plant["unit2"], plant["unit2"][:, 3]])
    with pytest.warns(UserWarning, match="'unit2__x8' has the same values as 'unit2__x3'"):
        FederatedGrangerEstimator().fit(plant)


def test_columns_that_are_multiples_of_one_are_said_to_be(plant):
    plant["unit0"] = np.outer(plant["unit0"][:, 0], np.arange(1, 9.0))
    with pytest.warns(UserWarning, match="8 columns of unit 'unit0' are multiples of one of them"):
        FederatedRCADetector(false_alarm_rate=0.01).fit(plant)


@pytest.mark.medium
def test_one_unit_under_two_names(plant):
    plant["copy"] = 5.0 * plant["unit0"] + 3.0
    with pytest.warns(UserWarning, match="Units 'unit0' and 'copy' send the same states"):
        FederatedGrangerEstimator().fit(plant)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(ValueError, match="Units 'unit0' and 'copy' send the same states"):
            FederatedRCADetector(false_alarm_rate=0.01).fit(plant)


@pytest.mark.parametrize("estimator", [FederatedGrangerEstimator(), FederatedRCADetector(false_alarm_rate=0.01)])
def test_a_unit_seen_in_two_rows_is_refused_by_name(plant, estimator):
    seen = np.full_like(plant["unit0"], np.nan)
    seen[[10, 500]] = plant["unit0"][[10, 500]]
    with pytest.raises(ValueError, match="unit 'unit0' has values in 2 of 1000 rows; identifying 2 states needs"):
        estimator.fit({**plant, "unit0": seen})


def test_ordinary_records_are_left_in_peace():
    rng = np.random.default_rng(0)
    ordinary = {
        "rounded": np.round(rng.standard_normal((800, 3)), 1),
        "switch": np.column_stack([rng.standard_normal(800), np.arange(800) // 50 % 2, np.arange(800) // 50 % 2]),
        "short": rng.standard_normal((30, 2)),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for Y in ordinary.values():
            KalmanClient().fit(Y)


@pytest.mark.medium
def test_an_outage_of_a_whole_unit_is_one_sentence(plant):
    filled, held = plant["unit1"].copy(), plant["unit2"].copy()
    filled[300:340], held[300:600] = -9999.0, held[300]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        FederatedGrangerEstimator().fit({**plant, "unit1": filled, "unit2": held})
    texts = [str(one.message) for one in told if "unit1__x" in str(one.message) or "unit2__x" in str(one.message)]
    assert len(texts) == 2
    assert all(f"'unit1__x{k}'" in texts[0] and f"'unit2__x{k}'" in texts[1] for k in range(8))
    assert "-9999 in 4.0% of the rows" in texts[0]
    assert "stand still in rows 300 to 599" in texts[1]


@pytest.mark.medium
@pytest.mark.parametrize(("n_rows", "enough"), [(200, 4), (40, 1)])
def test_a_short_record_is_told_with_as_many_states_as_it_has_rows_for(plant, n_rows, enough):
    short = {name: Y[:n_rows] for name, Y in plant.items()}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        FederatedGrangerEstimator(KalmanClient(n_states=6), server=LikelihoodServer(max_time=0.1)).fit(short)
    found = [str(one.message) for one in told if "unit 'unit0' for 6 states of 8 columns" in str(one.message)]
    assert len(found) == 1
    assert f" n_states={enough}, " in found[0]
