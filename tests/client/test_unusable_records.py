"""Records that no model can be learned from are refused by the name of the unit, with what to do."""

import numpy as np
import pytest

from skfedcausal import FederatedGrangerEstimator
from skfedcausal.datasets import make_granger_plant


@pytest.mark.filterwarnings(
    "ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning", "ignore:divide:RuntimeWarning"
)
@pytest.mark.parametrize("size", [1e200, 1e-300])
@pytest.mark.parametrize("gaps", [False, True])
def test_numbers_whose_squares_cannot_be_computed(size, gaps):
    X, _ = make_granger_plant(2, n_samples=300, random_state=0)
    X["unit1"] *= size
    if gaps:
        X["unit1"][::5, 1] = np.nan
    with pytest.raises(ValueError, match=r"unit 'unit1' are so large or small .* other units"):
        FederatedGrangerEstimator().fit(X)


def test_a_sensor_that_never_reported_is_not_predicted():
    X, _ = make_granger_plant(2, n_samples=300, random_state=0)
    X["unit0"][:, 2] = np.nan
    with pytest.warns(UserWarning, match="missing throughout"):
        estimator = FederatedGrangerEstimator().fit(X)
    with pytest.raises(ValueError, match=r"Sensors 'unit0__x2' never reported in `fit`"):
        estimator.predict(X)
