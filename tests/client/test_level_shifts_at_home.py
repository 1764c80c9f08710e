"""Units that are pushed to another level and stay there: their sensors are identified beside the push."""

import numpy as np
import pytest

from skfedcausal import FederatedGrangerEstimator, KalmanClient
from skfedcausal.client.moments import without_shifts
from skfedcausal.datasets import make_granger_plant


def _pushed(radius, push, seed, n_samples=5000):
    A = np.kron(np.diag([radius, 0.5]), np.eye(2))
    A[2:, :2] = 0.25
    half = n_samples // 2
    shift = [{"unit": "unit0", "size": push, "at": half, "until": n_samples}] if push else None
    return make_granger_plant(2, transition=A, n_samples=n_samples, random_state=seed, level_shift=shift)


def test_sensor_noise_is_found_beside_a_push():
    X, truth = _pushed(0.98, 2.0, 0)
    for k, (name, Y) in enumerate(X.items()):
        found = KalmanClient().fit(Y)
        true = np.asarray(truth.measurement_cov[k])
        true = true if true.ndim == 1 else np.diag(true)
        # the variance of a variance of 5000 values is 2/5000: five standard errors, and what states take
        np.testing.assert_allclose(found.measurement_cov_, true, rtol=0.15, err_msg=name)
        assert found.n_states_ == 2


def test_records_that_stay_are_left_as_they_are():
    for seed in range(3):
        X, _ = _pushed(0.9, 0.0, seed, 2000)
        for Y in X.values():
            assert without_shifts(Y, (0,)) is Y
    walk = np.random.default_rng(0).standard_normal((2000, 2)).cumsum(axis=0)
    assert without_shifts(walk[:100], (0,)) is not None
    holes = walk.copy()
    holes[5, 0] = np.nan
    assert without_shifts(holes, (0,)) is holes


def test_what_is_left_varies_like_the_record_without_the_push():
    X, _ = _pushed(0.98, 2.0, 0)
    same, _ = _pushed(0.98, 0.0, 0)
    for name, Y in X.items():
        rest, own = without_shifts(Y, (0,)), same[name]
        # 5000 rows of a memory of 50 are 50 independent values: variances are known to a fifth, five times over
        assert (Y.var(axis=0) > 10 * own.var(axis=0)).any()
        assert rest.var(axis=0).sum() < 1.5 * own.var(axis=0).sum()


@pytest.mark.medium
@pytest.mark.parametrize(("radius", "push"), [(0.95, 2.0), (0.98, 2.0)])
def test_no_link_comes_back_from_the_unit_that_was_pushed_along(radius, push):
    for seed in range(4):
        links = FederatedGrangerEstimator().fit(_pushed(radius, push, seed)[0]).links_.set_index(["cause", "effect"])
        assert links.loc[("unit0", "unit1"), "verdict"] == "influence"
        assert links.loc[("unit1", "unit0"), "verdict"] == "no influence"
