"""Whether a unit's model still fits later rows."""

import numpy as np
import pytest

from skfedcausal import KalmanClient
from skfedcausal.client.fitting import fit_of, is_outdated
from skfedcausal.datasets import make_granger_plant


@pytest.fixture(scope="module")
def unit():
    X, _ = make_granger_plant(1, n_samples=9000, random_state=3)
    rows = X["unit0"]
    client = KalmanClient().fit(rows[:3000])
    return client, rows, fit_of(client, rows[:3000], None, (0,))


def test_rows_of_the_same_kind_fit(unit):
    client, rows, before = unit
    later = rows[3000:] + 5.0  # another level is no other model
    later[::7, 0] = np.nan
    assert not is_outdated(before, fit_of(client, later, None, (0, 2500)))


def test_louder_sensors_and_other_loadings_do_not(unit):
    client, rows, before = unit
    rng, later = np.random.default_rng(0), rows[3000:]
    louder = later + rng.standard_normal(later.shape) * 2 * np.sqrt(client.measurement_cov_)
    for changed in (louder, later[:, ::-1]):
        assert is_outdated(before, fit_of(client, changed, None, (0,)))


def test_nothing_is_said_of_a_few_rows(unit):
    client, rows, before = unit
    assert fit_of(client, rows[:40], None, (0,)) is None
    assert not is_outdated(before, None)
    assert not is_outdated(None, before)


def test_false_alarms_are_rare():
    """At five standard errors and a clear loss none of thirty batches is called outdated."""
    X, _ = make_granger_plant(1, n_samples=31 * 400, random_state=5)
    rows = X["unit0"]
    client = KalmanClient().fit(rows[:400])
    before = fit_of(client, rows[:400], None, (0,))
    later = [fit_of(client, rows[k * 400 : (k + 1) * 400], None, (0,)) for k in range(1, 31)]
    assert not any(is_outdated(before, fit) for fit in later)
