"""A unit whose last report is repeated until the next is told from one that stands still."""

import warnings

import numpy as np
import pytest

from skfedcausal import FederatedGrangerEstimator
from skfedcausal.client.records import warn_held_rows
from skfedcausal.datasets import make_granger_plant


@pytest.mark.medium
@pytest.mark.parametrize("period", [2, 7])
def test_held_rows_are_named(period):
    X, _ = make_granger_plant(2, n_samples=600, random_state=0)
    X["unit1"] = np.repeat(X["unit1"][::period], period, axis=0)[:600]
    with pytest.warns(UserWarning, match=f"unit1.*only one row of {period}:"):
        FederatedGrangerEstimator().fit(X)


def test_what_is_no_clock_is_left_alone():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(400, 3))
    still = Y.copy()
    still[100:300] = still[100]
    one_slow = Y.copy()
    one_slow[:, 0] = np.repeat(Y[::4, 0], 4)
    empty = Y.copy()
    empty[1::2] = np.nan
    irregular = Y[np.sort(rng.integers(0, 400, 400))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for record in (Y, still, one_slow, empty, irregular, np.repeat(Y, 2, axis=0)[:, :1]):
            warn_held_rows(record, (0,), "the unit")
