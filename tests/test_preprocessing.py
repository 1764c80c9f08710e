"""Scaling that keeps the names of units and sensors."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from skfedcausal import FederatedGrangerEstimator, KalmanClient, UnitScaler
from skfedcausal.datasets import make_granger_plant

FRAME, _ = make_granger_plant(2, n_samples=600, missing=0.01, container="frame", random_state=0)


@parametrize_with_checks([UnitScaler()])
def test_scikit_learn_check(estimator, check):
    check(estimator)


def test_numbers_are_those_of_the_standard_scaler_and_names_stay():
    scaled = UnitScaler().fit_transform(FRAME)
    assert list(scaled) == list(FRAME)
    np.testing.assert_array_equal(scaled, StandardScaler().fit_transform(FRAME))
    back = UnitScaler().fit(FRAME).inverse_transform(scaled)
    pd.testing.assert_frame_equal(back, FRAME)
    assert isinstance(UnitScaler().fit_transform(FRAME.to_numpy()), np.ndarray)


def test_units_become_a_table():
    units = {name: FRAME.filter(like=name).to_numpy() for name in ("unit0", "unit1")}
    assert list(UnitScaler().fit_transform(units))[8] == "unit1__x0"
    assert list(UnitScaler().fit_transform(list(units.values())))[8] == "client1__x0"


@pytest.mark.parametrize("asked", ["pandas", "polars"])
def test_set_output(asked):
    library = pytest.importorskip(asked)
    scaled = UnitScaler().set_output(transform=asked).fit_transform(FRAME)
    assert isinstance(scaled, library.DataFrame)
    assert list(scaled.columns) == list(FRAME)


def test_polars_tables_stay_polars():
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({name: FRAME[name].to_numpy() for name in FRAME})
    scaled = UnitScaler().fit_transform(table)
    assert isinstance(scaled, polars.DataFrame)
    np.testing.assert_array_equal(scaled.to_numpy(), UnitScaler().fit_transform(FRAME))


@pytest.mark.medium
def test_a_search_over_pipelines_knows_the_units():
    pipeline = make_pipeline(UnitScaler(), FederatedGrangerEstimator(client=KalmanClient()))
    grid = {"federatedgrangerestimator__client__n_states": [1, 2]}
    complete = FRAME.interpolate(limit_direction="both")
    search = GridSearchCV(pipeline, grid, cv=TimeSeriesSplit(n_splits=2)).fit(complete)
    assert search.best_estimator_[-1].client_names_ == ("unit0", "unit1")


def test_estimators_take_and_give_polars_tables():
    polars = pytest.importorskip("polars")
    complete = FRAME.interpolate(limit_direction="both")
    table = polars.DataFrame({name: complete[name].to_numpy() for name in complete})
    estimator = FederatedGrangerEstimator().set_output(transform="polars").fit(table)
    predicted = estimator.predict(table)
    assert isinstance(predicted, polars.DataFrame)
    assert predicted.columns == list(FRAME)
    same = FederatedGrangerEstimator().fit(complete)
    np.testing.assert_array_equal(predicted.to_numpy(), same.predict(complete))
