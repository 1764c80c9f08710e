"""What identification has summed is not summed again by the augmenter."""

import numpy as np
import pytest

from skfedcausal import Baseline, KalmanClient, LinearAugmenter


@pytest.mark.parametrize("lengths", [[400], [150, 250]])
@pytest.mark.parametrize("center", [True, False])
def test_an_augmenter_learns_the_same_from_products_that_are_known(lengths, center):
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 3)) + 5.0
    cross_term = rng.standard_normal((400, 2))
    starts = tuple(np.cumsum([0, *lengths[:-1]]).tolist())
    model = KalmanClient(n_states=2, baseline=Baseline(center=center)).fit(Y, lengths=lengths).model
    told = {"starts": starts, "level": model.mean}
    summed = LinearAugmenter().fit(Y, cross_term, **told)
    known = LinearAugmenter().fit(Y, cross_term, **told, products=model.products)
    np.testing.assert_allclose(known.coef_, summed.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(known.phi_, summed.phi_, rtol=1e-9, atol=1e-12)


def test_products_are_of_complete_records_only():
    Y = np.random.default_rng(0).standard_normal((400, 3))
    assert KalmanClient().fit(Y).model.products is not None
    Y[7, 1] = np.nan
    assert KalmanClient().fit(Y).model.products is None
