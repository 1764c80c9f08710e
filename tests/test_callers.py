"""Warnings are about the line of the user, whoever stands between."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline

import skfedcausal
from skfedcausal import FederatedGrangerEstimator, FederatedRCADetector, KalmanClient, UnitScaler, stack_clients
from skfedcausal.arguments import cut_by_scikit_learn, warn
from skfedcausal.datasets import make_granger_plant


@pytest.fixture(scope="module")
def X():
    X, _ = make_granger_plant(2, n_samples=300, random_state=0)
    X["unit0"] = np.column_stack([X["unit0"], np.ones(300)])  # of which units at home warn, and the estimator
    return X


def alone(X):
    return FederatedGrangerEstimator().fit(X)


def threads(X):
    return FederatedGrangerEstimator(n_jobs=2).fit(X)


def client(X):
    return KalmanClient().fit(X["unit0"])


def pipeline(X):
    return make_pipeline(UnitScaler(), FederatedGrangerEstimator()).set_output(transform="pandas").fit_transform(X)


def folds(X):
    return cross_val_score(FederatedGrangerEstimator(), stack_clients(X), cv=TimeSeriesSplit(2))


def detector(X):
    return FederatedRCADetector().fit(X)


@pytest.mark.parametrize("user", [alone, threads, client, pipeline, folds, detector])
def test_warnings_point_at_the_line_of_the_user(X, user):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        user(X)
    assert any("constant" in str(each.message) for each in caught)
    assert {each.filename for each in caught} == {__file__}
    assert len({each.lineno for each in caught}) == 1


def test_one_function_warns():
    package = Path(skfedcausal.__file__).parent
    pattern = re.compile(r"warnings\.warn\(|stacklevel")
    found = [path.name for path in package.rglob("*.py") if pattern.search(path.read_text())]
    assert found == ["arguments.py"]


def test_a_list_that_nobody_has_cut_is_no_fold():
    X_train = [1, 2]
    assert not cut_by_scikit_learn(X_train)
    with pytest.warns(RuntimeWarning, match="late"):
        warn("late", RuntimeWarning)
