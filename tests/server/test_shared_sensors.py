"""Sensors that another unit reads as well become states; what is nobody else's stays what it was."""

import numpy as np

from skfedcausal import FederatedGrangerEstimator, LikelihoodServer


def _plant(seed=0, n=900, shared=True):
    """Two units with more memory than a record of 450 rows lets them have states for; the last sensor of the second
    copies that of the first."""
    rng = np.random.default_rng(seed)
    X = {}
    for name in ("mill", "kiln"):
        h, rows = np.zeros(5), np.empty((n, 6))
        for t in range(n):
            h = [0.9, 0.8, 0.7, 0.6, 0.5] * h + rng.standard_normal(5)
            rows[t, :5] = h + 0.1 * rng.standard_normal(5)
        rows[:, 5] = rng.standard_normal(n)
        X[name] = rows
    if shared:
        X["kiln"][:, 5] = X["mill"][:, 5] + 0.05 * rng.standard_normal(n)
    return {name: Y[:450] for name, Y in X.items()}, {name: Y[450:] for name, Y in X.items()}


class _Alone(LikelihoodServer):
    def _first_request(self):
        return super()._first_request().__class__(refine=True, orders=False)


def test_what_two_units_read_becomes_a_state_of_both():
    X, later = _plant()
    alone = FederatedGrangerEstimator(server=_Alone()).fit(X)
    plant = FederatedGrangerEstimator().fit(X)
    for name in X:
        assert plant.clients_[name].n_states_ == alone.clients_[name].n_states_ + 1
    # a copy with a twentieth of the noise, beside the thousandth of the variance that every sensor has at least, tells
    # 1/2 log(1 / (0.0025 + 0.002)) = 2.7 nats a row if nothing else is learned for it
    assert plant.score(later) > alone.score(later) + 2.7 / 2
    assert plant.oracle_gap(X) < 1e-8
    sent = plant.ledger_.table.query("op in ('ask unexplained', 'unexplained', 'sensors')")
    assert sent.groupby("op")["packets"].sum().to_dict() == {"ask unexplained": 2, "unexplained": 2, "sensors": 2}
    assert plant.predict(X).shape == (450, 12)


def test_units_that_share_nothing_keep_their_model():
    X, _ = _plant(shared=False)
    alone, plant = FederatedGrangerEstimator(server=_Alone()).fit(X), FederatedGrangerEstimator().fit(X)
    assert len(plant.ledger_.table.query("op == 'unexplained'")) == 2
    np.testing.assert_array_equal(plant.transition_, alone.transition_)
    assert plant.ledger_.table.query("op == 'sensors'").empty
