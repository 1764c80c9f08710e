"""A server that learns from batches, by messages alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal import KalmanClient, LikelihoodOptions, LikelihoodServer
from skfedcausal.bases import configured
from skfedcausal.datasets import make_granger_plant
from skfedcausal.message import StateMessage
from skfedcausal.server.running import RunningRecord

ROWS = 500
X, _ = make_granger_plant(3, n_samples=3 * ROWS, random_state=4)
CLIENTS = {name: KalmanClient().fit(Y[:ROWS]) for name, Y in X.items()}


def messages(first, stop, **settings):
    return {name: CLIENTS[name].message(Y[first:stop], **settings) for name, Y in X.items()}


def learned(n_batches, **settings):
    server = configured(LikelihoodServer, {"level_shifts": None} | settings)
    for k in range(n_batches):
        server.partial_fit(messages(k * ROWS, (k + 1) * ROWS))
    return server


@pytest.mark.parametrize("sparsity", ["fdr", None])
def test_sums_give_the_plant_of_all_rows(sparsity):
    found = learned(3, sparsity=sparsity)
    whole = LikelihoodServer(options=LikelihoodOptions(level_shifts=None, sparsity=sparsity)).fit(
        messages(0, 3 * ROWS, lengths=[ROWS] * 3)
    )
    for name in ("transition_", "process_cov_", "unshrunk_transition_"):
        assert_allclose(getattr(found, name), getattr(whole, name), atol=1e-10)
    assert_allclose(found.link_intervals()["low"], whole.link_intervals()["low"], atol=1e-8)
    assert_allclose(found.misfit_["p_value"], whole.misfit_["p_value"], rtol=1e-6)
    assert found.n_samples_ == whole.n_samples_


@pytest.mark.medium
def test_an_episode_that_goes_on_gives_the_plant_of_several_lags_of_all_rows():
    rng, rows = np.random.default_rng(0), 1200
    h = np.zeros((3 * rows, 2))
    for t in range(3, len(h)):
        h[t] = 0.6 * h[t - 1] - 0.2 * h[t - 2] + rng.standard_normal(2)
        h[t, 1] += 0.4 * h[t - 3, 0]
    y = np.repeat(h, 3, axis=1) + 0.5 * rng.standard_normal((len(h), 6))
    units = {"a": y[:, :3], "b": y[:, 3:]}
    clients = {name: KalmanClient(A=np.eye(1) / 2, C=np.ones((3, 1)), Q=np.eye(1), R=np.eye(3) / 4) for name in units}
    clients = {name: client.fit(units[name]) for name, client in clients.items()}
    found, whole = (LikelihoodServer(options=LikelihoodOptions(level_shifts=None)) for _ in range(2))
    for k in range(3):
        batch = {name: clients[name].message(Y[k * rows : (k + 1) * rows]) for name, Y in units.items()}
        found.partial_fit(batch, continues=k > 0)
    whole.fit({name: clients[name].message(Y) for name, Y in units.items()})
    assert len(found.lag_transitions_) > 1
    assert_allclose(found.lag_transitions_, whole.lag_transitions_, atol=1e-10)
    assert_allclose(found.process_cov_, whole.process_cov_, atol=1e-10)


def test_what_is_known_beforehand_holds_in_batches():
    found = learned(2, forbidden=[("unit0", "unit1")])
    assert not found.transition_[found.state_slices_["unit1"], found.state_slices_["unit0"]].any()


def test_a_fit_begins_anew():
    server = learned(2)
    server.fit(messages(0, ROWS))
    assert server.partial_fit(messages(ROWS, 2 * ROWS)).n_samples_ == ROWS


def test_nothing_of_the_rows_stays_but_the_ends_of_episodes():
    server = learned(2)
    record = server.batches_.record(None)
    assert isinstance(record, RunningRecord)
    assert np.isnan(record.z).all()
    kept = [part for part in vars(server.batches_.products._closed).values() if len(part)]
    assert max(part.shape[1] for part in kept if part.ndim == 3 and len(part) == 1) <= 444


def test_a_unit_with_another_model_is_refused_by_name():
    server, told = learned(1), messages(ROWS, 2 * ROWS)
    told["unit1"] = KalmanClient().fit(X["unit1"][ROWS:]).message(X["unit1"][ROWS : 2 * ROWS])
    with pytest.raises(ValueError, match="'unit1' sees its states otherwise"):
        server.partial_fit(told)
    assert server.partial_fit(messages(ROWS, 2 * ROWS)).n_samples_ == 2 * ROWS


def test_strangers_and_silence_are_refused():
    server, told = learned(1), messages(ROWS, 2 * ROWS)
    with pytest.raises(ValueError, match="unit9 came too"):
        server.partial_fit({**told, "unit9": told["unit0"]})
    with pytest.raises(ValueError, match="No unit sent"):
        server.partial_fit({})


def test_a_silent_message_adds_nothing_to_a_likelihood():
    """The density of the others alone, for they are all that was measured."""
    server, told = (
        LikelihoodServer(options=LikelihoodOptions(level_shifts=None)).fit(messages(0, ROWS)),
        messages(0, ROWS, const=True),
    )
    told["unit2"] = StateMessage.silent(told["unit2"].z.shape[1], (ROWS,), const=True)
    nothing = {**X, "unit2": np.full_like(X["unit2"], np.nan)}
    missing = {name: CLIENTS[name].message(Y[:ROWS], const=True) for name, Y in nothing.items()}
    assert_allclose(server.filter(told).log_likelihood(), server.filter(missing).log_likelihood(), atol=1e-9)
