"""A unit's own autoregression as the density of its measurements, against brute force."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from skfedcausal import KalmanClient
from skfedcausal.client.moments import OwnDensity
from skfedcausal.client.unit_model import with_tails

STARTS = (0, 700)


def _record(seed=0):
    """Two columns of a second-order process of their own, in units of very different size."""
    rng = np.random.default_rng(seed)
    x, e = np.zeros((1500, 2)), rng.standard_normal((1500, 2))
    for t in range(2, 1500):
        x[t] = 1.2 * x[t - 1] - 0.5 * x[t - 2] + [0.0, 0.3] * x[t - 1, :1] + e[t]
    return x * [1.0, 1e3] + [5.0, -2e4]


@pytest.fixture(scope="module")
def learned():
    Y = _record()
    client = KalmanClient().fit(Y, lengths=[700, 800])
    return Y, OwnDensity.learned(client.model.own_past, client.model.mean)


def test_rows_with_their_past_have_the_density_of_least_squares(learned):
    Y, own = learned
    x = Y - Y.mean(axis=0)
    rows = np.array([t for t in range(1500) if t not in (0, 1, 700, 701)])
    known, target = np.hstack([x[rows - 1], x[rows - 2]]), x[rows]
    W = np.linalg.lstsq(known, target, rcond=None)[0]
    errors = target - known @ W
    expected = multivariate_normal(cov=errors.T @ errors / len(rows)).logpdf(errors)
    np.testing.assert_allclose(own.log_density(Y, None, STARTS)[rows], expected, atol=1e-5)


def test_first_rows_have_densities_of_shorter_pasts(learned):
    Y, own = learned
    found = own.log_density(Y, None, STARTS)
    cov = (Y - Y.mean(axis=0)).T @ (Y - Y.mean(axis=0))
    first = multivariate_normal(Y.mean(axis=0), cov / own.own_past.n_rows).logpdf(Y[[0, 700]])
    np.testing.assert_allclose(found[[0, 700]], first, atol=0.01)  # four rows are no row's present
    assert np.isfinite(found).all()


def test_missing_cells_are_left_out_and_shorten_the_past_of_others(learned):
    Y, own = learned
    gaps = Y.copy()
    gaps[50, 0], gaps[60] = np.nan, np.nan
    found, complete = (own.log_density(Z, None, STARTS) for Z in (gaps, Y))
    assert np.isfinite(found).all()
    assert found[60] == 0
    changed = np.flatnonzero(found != complete)
    np.testing.assert_array_equal(changed, [50, 51, 52, 60, 61, 62])


def test_a_client_left_alone_says_so_and_sends_the_whole_density():
    Y = _record()
    client = KalmanClient().fit(Y)
    assert client.message(Y, const=True).alone is None
    alone = with_tails(client, Y, None, (0,), alone=True)
    message = alone.message(Y, const=True)
    assert message.alone
    assert alone.message(Y).alone is None  # without constants there is nothing to say
    own = OwnDensity.learned(client.model.own_past, client.model.mean)
    np.testing.assert_array_equal(message.const, own.log_density(Y, None, (0,)))
    np.testing.assert_allclose(message.z, client.message(Y).z, rtol=1e-9)
