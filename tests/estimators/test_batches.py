"""Plants that are learned batch by batch, against one fit with the same models of the units."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from skfedcausal import (
    Communication,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    GradientServer,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
    inspection,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import InProcessTransport, LostUnits, LostUnitWarning
from skfedcausal.federation.exchange import Failure

ROWS, BATCHES = 600, 4
ONE = LikelihoodServer(options=LikelihoodOptions(level_shifts=None))


def part(X, k, rows=ROWS):
    """Rows of a batch."""
    return {name: Y[k * rows : (k + 1) * rows] for name, Y in X.items()}


def given(estimator):
    """The units' models as a fit is given them."""
    models = {name: client.model for name, client in estimator.clients_.items()}
    return {name: KalmanClient(A=m.A, B=m.B, C=m.C, Q=m.Q, R=m.R) for name, m in models.items()}


def learned(batches, estimator=None, **settings):
    """An estimator after batches."""
    estimator = FederatedGrangerEstimator(server=ONE) if estimator is None else estimator
    for batch in batches:
        estimator.partial_fit(batch, **settings)
    return estimator


def assert_same_plant(found, whole, tolerance=1e-8):
    for name in ("transition_", "process_cov_", "lag_transitions_"):
        assert_allclose(getattr(found, name), getattr(whole, name), atol=tolerance, rtol=0)
    assert_allclose(found.links_["norm"], whole.links_["norm"], atol=tolerance)
    assert_allclose(found.links_["p_value"], whole.links_["p_value"], rtol=1e-5, atol=1e-12)


@pytest.fixture(scope="module")
def plant():
    return make_granger_plant(3, n_samples=ROWS * BATCHES, random_state=0)


@pytest.fixture(scope="module")
def by_batch(plant):
    return learned(part(plant[0], k) for k in range(BATCHES))


@pytest.mark.medium
def test_batches_give_the_plant_of_one_fit(plant, by_batch):
    whole = FederatedGrangerEstimator(given(by_batch), server=ONE).fit(plant[0], lengths=[ROWS] * BATCHES)
    assert_same_plant(by_batch, whole)
    assert by_batch.server_.n_samples_ == ROWS * BATCHES
    assert by_batch.n_batches_ == BATCHES
    assert by_batch.outdated_units_ == ()


@pytest.mark.medium
@pytest.mark.parametrize("index", ["numbers", "times"])
def test_an_index_that_goes_on_continues_the_episode(plant, index):
    n = ROWS * BATCHES
    index = pd.RangeIndex(n) if index == "numbers" else pd.date_range("2026-01-01", periods=n, freq="min", tz="UTC")
    table = {name: pd.DataFrame(Y, index=index).add_prefix("x") for name, Y in plant[0].items()}
    found = learned(part(table, k) for k in range(BATCHES))
    assert_same_plant(found, FederatedGrangerEstimator(given(found), server=ONE).fit(table))


def test_an_index_with_a_hole_begins_an_episode(plant):
    table = {name: pd.DataFrame(Y).add_prefix("x") for name, Y in plant[0].items()}
    batches = [part(table, 0), {name: Y.iloc[2 * ROWS :] for name, Y in table.items()}]
    found = learned(batches)
    rows = {name: np.delete(Y, slice(ROWS, 2 * ROWS), axis=0) for name, Y in plant[0].items()}
    whole = FederatedGrangerEstimator(given(found), server=ONE).fit(rows, lengths=[ROWS, (BATCHES - 2) * ROWS])
    assert_same_plant(found, whole)


@pytest.mark.medium
def test_inputs_act_as_in_one_fit():
    X, truth = make_granger_plant(2, n_samples=ROWS * BATCHES, n_inputs=1, random_state=0)
    U = dict(zip(X, truth.inputs, strict=True)) if not isinstance(truth.inputs, dict) else truth.inputs
    found = FederatedCounterfactualEstimator(server=ONE)
    for k in range(BATCHES):
        found.partial_fit(part(X, k), inputs=part(U, k))
    whole = FederatedCounterfactualEstimator(given(found), server=ONE)
    whole.fit(X, inputs=U, lengths=[ROWS] * BATCHES)
    assert_same_plant(found, whole)
    assert_allclose(found.input_, whole.input_, atol=1e-8)
    for name in ("low", "high", "share"):
        assert_allclose(found.excitation_[name], whole.excitation_[name], rtol=1e-6)
    effect = found.counterfactual("unit0", 0.0, 1.0, horizon=5)
    assert_allclose(effect, whole.counterfactual("unit0", 0.0, 1.0, horizon=5), atol=1e-7)


@pytest.mark.medium
def test_a_short_batch_leaves_the_lags_of_inputs_as_they_were():
    """Single lags of inputs are tested farther than those of states, where the batches are long enough."""
    rng, found = np.random.default_rng(0), FederatedCounterfactualEstimator(KalmanClient(n_states=1))
    for n_samples in (1500, 1500, 150):
        x, u = rng.standard_normal((n_samples, 2)), rng.standard_normal((n_samples, 1))
        for t in range(3, n_samples):
            x[t] += 0.6 * x[t - 1] + [0.5 * u[t - 3, 0], 0.0]
        X = {f"unit{m}": x[:, [m]] + 0.5 * rng.standard_normal((n_samples, 4)) for m in range(2)}
        found.partial_fit(X, inputs={"unit0": u})
    assert len(found.server_.misfit_)
    assert len(found.server_.lag_inputs_) > 1


def test_an_input_that_moves_too_late_is_refused():
    X, truth = make_granger_plant(2, n_samples=2 * ROWS, n_inputs=1, random_state=1)
    U = dict(zip(X, truth.inputs, strict=True)) if not isinstance(truth.inputs, dict) else truth.inputs
    U = {name: np.array(u) for name, u in U.items()}
    U["unit1"][:ROWS] = 1.0
    estimator = FederatedCounterfactualEstimator(server=ONE)
    with pytest.warns(UserWarning, match="never move"):
        estimator.partial_fit(part(X, 0), inputs=part(U, 0))
    with pytest.raises(ValueError, match="did not in the first"):
        estimator.partial_fit(part(X, 1), inputs=part(U, 1))


def delayed_plant(n_samples):
    """Four units, of which the first acts on the second after three rows."""
    rng, h = np.random.default_rng(1), np.zeros((n_samples, 4))
    noise = rng.standard_normal(h.shape)
    for t in range(3, n_samples):
        h[t] = 0.5 * h[t - 1] + noise[t]
        h[t, 1] += 0.6 * h[t - 3, 0]
    sensors = [h[:, [k]] @ rng.standard_normal((1, 3)) for k in range(4)]
    return {f"u{k}": Y + 0.3 * rng.standard_normal(Y.shape) for k, Y in enumerate(sensors)}


@pytest.mark.medium
def test_several_lags_are_found_as_in_one_fit():
    X = delayed_plant(4000)
    found = learned(part(X, k, 1000) for k in range(4))
    whole = FederatedGrangerEstimator(given(found), server=ONE).fit(X, lengths=[1000] * 4)
    assert len(found.lag_transitions_) > 1
    assert_same_plant(found, whole)


@pytest.mark.medium
def test_what_is_forgotten_does_not_count(plant):
    X, _ = plant
    found = learned([part(X, 0), part(X, 1)])
    found.partial_fit(part(X, 2), forget=1.0)
    alone = FederatedGrangerEstimator(given(found), server=ONE).fit(part(X, 2))
    assert_same_plant(found, alone)
    found.partial_fit(part(X, 3), forget=0.5)
    assert found.server_.n_samples_ == ROWS * 3 // 2


@pytest.mark.parametrize("forget", [-0.1, 1.5, True, "all"])
def test_forgetting_is_a_share(plant, forget):
    with pytest.raises(ValueError, match="share of their weight"):
        FederatedGrangerEstimator().partial_fit(part(plant[0], 0), forget=forget)


@pytest.mark.medium
def test_gaps_are_filled(plant, by_batch):
    """Some missing measurements change the plant by less than its standard errors, 0.02 or more here."""
    rng, batches = np.random.default_rng(0), []
    for k in range(BATCHES):
        batch = {name: np.array(Y) for name, Y in part(plant[0], k).items()}
        batch["unit1"][rng.choice(ROWS, 20, replace=False), 0] = np.nan
        batches.append(batch)
    found = learned(batches)
    unit = found.transition_.shape[0] // 3
    eigenvalues = [np.sort(np.abs(np.linalg.eigvals(e.transition_))) for e in (found, by_batch)]
    assert len(eigenvalues[0]) == 3 * unit
    assert_allclose(*eigenvalues, atol=0.03)
    batches[1]["unit0"][: ROWS // 2] = np.nan
    with pytest.raises(ValueError, match="'unit0' show its states in less than"):
        found.partial_fit(batches[1])


@pytest.mark.medium
def test_a_pickle_goes_on(plant, by_batch):
    found = learned(part(plant[0], k) for k in range(BATCHES - 1))
    found = pickle.loads(pickle.dumps(found)).partial_fit(part(plant[0], BATCHES - 1))
    assert_same_plant(found, by_batch, 0.0)


@pytest.mark.medium
def test_a_batch_that_cannot_be_learned_from_changes_nothing(plant, by_batch):
    X, _ = plant
    found = learned(part(X, k) for k in range(BATCHES - 1))
    with pytest.raises(ValueError, match=r"2 features|3 units|unit2"):
        found.partial_fit({name: Y for name, Y in part(X, 0).items() if name != "unit2"})
    assert_same_plant(found.partial_fit(part(X, BATCHES - 1)), by_batch, 0.0)


class Losing(InProcessTransport):
    """Loses what a unit answers about one batch."""

    lost: tuple = ()

    def exchange(self, packets, timeout=None):
        answers = super().exchange(packets, timeout=timeout)
        return answers | {name: Failure("timeout", "after 60 s") for name in self.lost if name in packets}


@pytest.mark.medium
def test_a_unit_may_be_absent_from_a_batch(plant, by_batch, monkeypatch):
    """Its blocks come from the other batches; those of the others from all."""
    estimator = FederatedGrangerEstimator(
        server=ONE, communication=Communication(transport=Losing, lost_units=LostUnits(quorum=2))
    )
    for k in range(BATCHES):
        monkeypatch.setattr(Losing, "lost", ("unit2",) if k == 2 else ())
        if k == 2:
            with pytest.warns(LostUnitWarning, match="unit2"):
                estimator.partial_fit(part(plant[0], k))
            assert estimator.lost_units_["unit"].tolist() == ["unit2"]
        else:
            estimator.partial_fit(part(plant[0], k))
    assert estimator.client_names_ == by_batch.client_names_
    # a quarter of the rows of one unit of three: well within the standard errors of the rest
    assert_allclose(estimator.transition_, by_batch.transition_, atol=0.15)
    assert estimator.predict(part(plant[0], 0)).shape == (ROWS, by_batch.n_features_in_)


@pytest.mark.medium
def test_a_unit_whose_model_fits_no_longer_says_so_and_gets_another(plant):
    X, _ = plant
    rng = np.random.default_rng(0)
    batches = [part(X, k) for k in range(BATCHES)]
    for k in (1, 2, 3):  # other sensors from the second batch on
        batches[k]["unit1"] = batches[k]["unit1"][:, ::-1] * rng.uniform(0.5, 2.0, X["unit1"].shape[1])
        rng = np.random.default_rng(0)
    found = learned(batches[:1])
    with pytest.warns(UserWarning, match="unit1"):
        found.partial_fit(batches[1])
    assert found.outdated_units_ == ("unit1",)
    before = {name: client.observation_ for name, client in found.clients_.items()}
    inspection.renew(found, "unit1").partial_fit(batches[2])
    assert found.outdated_units_ == ()
    assert found.n_batches_ == 1
    changed = [name for name, client in found.clients_.items() if not np.array_equal(client.observation_, before[name])]
    assert changed == ["unit1"]
    assert found.partial_fit(batches[3]).outdated_units_ == ()
    alone = FederatedGrangerEstimator(given(found), server=ONE)
    rows = {name: np.concatenate([batches[2][name], batches[3][name]]) for name in X}
    assert_same_plant(found, alone.fit(rows, lengths=[ROWS, ROWS]))


def test_renewal_is_of_units_of_the_plant(by_batch):
    with pytest.raises(ValueError, match="no units"):
        inspection.renew(by_batch, "nobody")
    with pytest.raises(ValueError, match="no batches"):
        inspection.renew(FederatedGrangerEstimator(), "unit0")


@pytest.mark.medium
def test_rows_of_a_fit_are_not_counted(plant):
    X, _ = plant
    found = FederatedGrangerEstimator(server=ONE).fit(part(X, 0))
    with pytest.warns(UserWarning, match="not counted"):
        found.partial_fit(part(X, 1))
    assert_same_plant(found, FederatedGrangerEstimator(given(found), server=ONE).fit(part(X, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.partial_fit(part(X, 2))


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"server": LikelihoodServer(covariance="sandwich")}, ValueError, "covariance='information'"),
        ({"server": LikelihoodServer(likelihood="time-domain")}, ValueError, "likelihood='whittle'"),
        ({"server": GradientServer()}, AttributeError, "LikelihoodServer"),
        ({"remedy": "auto"}, ValueError, "remedy"),
    ],
)
def test_what_needs_all_rows_is_refused(plant, settings, error, match):
    with pytest.raises(error, match=match):
        FederatedGrangerEstimator(**settings).partial_fit(part(plant[0], 0))


def test_bytes_are_those_of_the_new_rows(plant, by_batch):
    sent = by_batch.communication_
    assert sent["raw_bytes"] == sum(Y.nbytes for Y in plant[0].values())
    whole = FederatedGrangerEstimator(given(by_batch), server=ONE).fit(plant[0], lengths=[ROWS] * BATCHES)
    assert sent["bytes_up"] < 1.1 * whole.communication_["bytes_up"]


@pytest.fixture
def dated():
    X, _ = make_granger_plant(2, n_samples=900, random_state=3)
    frame = pd.concat({name: pd.DataFrame(Y) for name, Y in X.items()}, axis=1)
    frame.columns = [f"{unit}__s{k}" for unit, k in frame.columns]
    return frame.set_axis(pd.date_range("2026-01-01", periods=900, freq="min"), axis=0)


def test_a_unit_without_measurements_in_a_batch_is_named(dated):
    estimator = learned([dated[:450]])
    late = dated[450:].copy()
    late[[name for name in late if name.startswith("unit1")]] = np.nan
    with pytest.raises(ValueError, match="Unit 'unit1' has no measurements in this batch"):
        estimator.partial_fit(late)
    assert estimator.partial_fit(dated[450:]).n_batches_ == 2


def test_rows_that_come_again_are_named(dated):
    estimator = learned([dated[:450]])
    with pytest.warns(UserWarning, match="begins at 2026-01-01 05:00:00, and rows up to 2026-01-01 07:29:00 were"):
        estimator.partial_fit(dated[300:700])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.partial_fit(dated[700:])
