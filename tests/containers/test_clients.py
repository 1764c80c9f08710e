"""Arrays of clients are cut by time and never between units, with their names, times, episodes and inputs."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV, KFold, TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skfedcausal import (
    ClientArrays,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    UnitScaler,
    stack_clients,
)
from skfedcausal.containers import read_plant
from skfedcausal.datasets import make_granger_plant


@pytest.fixture(scope="module")
def plant():
    return make_granger_plant(3, links=[(0, 1)], n_sensors=[3, 4, 3], n_inputs=1, n_samples=600, random_state=0)


@pytest.fixture(scope="module")
def X(plant):
    return plant[0]


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


# -- rows --------------------------------------------------------------------------------------------


def test_rows_are_taken_of_every_unit(X):
    record = ClientArrays(X)
    assert record.shape == (600, 10)
    for rows in (slice(10, 20), np.arange(10, 20), list(range(10, 20)), np.isin(np.arange(600), range(10, 20))):
        part = record[rows]
        assert (part.shape, part.lengths) == ((10, 10), (10,))
        for name, Y in X.items():
            assert_array_equal(part.tables[name], Y[10:20])
    assert_array_equal(record[100:][50:60].rows, np.arange(150, 160))


def test_rows_cut_out_of_the_middle_are_another_episode(X):
    record = ClientArrays(X, lengths=[350, 250])
    assert record[np.r_[0:200, 300:500]].lengths == (200, 50, 150)
    assert record[np.r_[0:200, 300:500]][150:300].lengths == (50, 50, 50)
    plant = read_plant(record[np.r_[0:200, 400:600]])
    assert (plant.lengths, plant.names) == ((200, 200), tuple(X))
    est = FederatedGrangerEstimator().fit(ClientArrays(X)[np.r_[0:200, 400:600]])
    parts = [{name: Y[rows] for name, Y in X.items()} for rows in (slice(200), slice(400, None))]
    assert_array_equal(est.transition_, FederatedGrangerEstimator().fit(parts).transition_)


def test_times_and_kinds_of_tables_stay(X):
    times = pd.date_range("2026-01-01", periods=600, freq="min")
    frames = {name: pd.DataFrame(Y, index=times).add_prefix("s") for name, Y in X.items()}
    part = UnitScaler().fit_transform(ClientArrays(frames)[50:80])
    assert isinstance(part, ClientArrays)
    assert part.tables["unit1"].index.equals(times[50:80])
    assert list(part.tables["unit1"]) == ["s0", "s1", "s2", "s3"]
    assert read_plant(part).index.equals(times[50:80])
    np.testing.assert_allclose(part.tables["unit1"].mean(), 0, atol=1e-12)


def test_rows_out_of_order_are_refused_and_rows_everywhere_are_told(X):
    with pytest.raises(ValueError, match=r"out of their order.*TimeSeriesSplit"):
        ClientArrays(X)[[3, 2, 1]]
    with pytest.warns(UserWarning, match=r"in \d+ pieces.*shuffle=True"):
        ClientArrays(X)[np.arange(0, 600, 2)]


@pytest.mark.parametrize(
    ("clients", "error", "sentence"),
    [
        (3, TypeError, "Got int; give a list or dict"),
        (np.zeros((2, 9, 3)), TypeError, r"Got ndarray of shape \(2, 9, 3\); give a list or dict"),
        ([], TypeError, "Got list"),
        (
            [np.zeros((9, 2)), np.zeros((8, 2))],
            ValueError,
            "different length: unit 'client0': 9 rows, unit 'client1': 8",
        ),
        ([np.zeros((2, 9, 2))], TypeError, "tables of 'client0' do not have rows and columns"),
        ([(np.zeros((9, 2)), np.zeros((9, 1)))], TypeError, "Got a pair of tables"),
    ],
    ids=str,
)
def test_what_is_no_record_is_refused(clients, error, sentence):
    with pytest.raises(error, match=sentence):
        ClientArrays(clients)


def test_scalers_of_one_table_name_the_one_that_knows_units(X):
    with pytest.raises(TypeError, match="UnitScaler"):
        StandardScaler().fit(ClientArrays(X))


# -- cross-validation --------------------------------------------------------------------------------


def test_folds_score_the_units_that_they_learned(X):
    by_container = cross_val_score(FederatedGrangerEstimator(), ClientArrays(X), cv=TimeSeriesSplit(2))
    assert_array_equal(
        by_container, cross_val_score(FederatedGrangerEstimator(), stack_clients(X), cv=TimeSeriesSplit(2))
    )
    search = GridSearchCV(make_pipeline(UnitScaler(), FederatedGrangerEstimator()), {
        "federatedgrangerestimator__client__n_states": [1, 2],
    }, cv=KFold(2))  # fmt: skip
    assert search.fit(ClientArrays(X)).best_estimator_[-1].client_names_ == tuple(X)


@pytest.mark.parametrize("scaled", [False, True], ids=["alone", "in a pipeline"])
def test_a_bare_list_is_not_cut_between_units(X, scaled):
    Y = [own[:, :3] for own in X.values()]
    est = make_pipeline(UnitScaler(), FederatedGrangerEstimator()) if scaled else FederatedGrangerEstimator()
    with pytest.raises(ValueError, match=r"cut a list between units.*ClientArrays\(clients\)"):
        cross_val_score(est, [*Y, Y[0][::-1]], cv=2)
    with pytest.raises(ValueError, match=r"cut a list between units"):
        GridSearchCV(est, {}, cv=2).fit([*Y, Y[0][::-1]])
    episodes = [{name: own[i : i + 200] for name, own in X.items()} for i in (0, 200, 400)]
    assert np.isfinite(cross_val_score(est if not scaled else est[-1], episodes, cv=3)).all()


def test_a_meta_estimator_may_make_lists_of_its_own(X):
    class Splitting(FederatedGrangerEstimator):
        def fit(self, X, y=None):
            return super().fit([np.asarray(X)[:, :3], np.asarray(X)[:, 3:]])

        def score(self, X, y=None):
            return super().score([np.asarray(X)[:, :3], np.asarray(X)[:, 3:]])

    assert np.isfinite(cross_val_score(Splitting(), stack_clients(X), cv=TimeSeriesSplit(2))).all()


# -- inputs ------------------------------------------------------------------------------------------


def as_container(form, plant):
    U = dict(zip(plant[0], plant[1].inputs, strict=True))
    forms = {
        "frame": lambda: pd.DataFrame({f"{name}__valve": own[:, 0] for name, own in U.items()}),
        "array": lambda: np.hstack(list(U.values())),
        "dict": lambda: U,
        "list": lambda: list(U.values()),
        "container": lambda: ClientArrays(U),
    }
    return forms[form]()


@pytest.fixture(scope="module")
def scores_by_hand(plant):
    """Of a counterfactual estimator that learned the rows before, of the second and third part of the record."""
    scores = []
    for stop in (200, 400):
        first, then = (
            {name: Y[rows] for name, Y in plant[0].items()} for rows in (slice(stop), slice(stop, stop + 200))
        )
        U, later = ([own[rows] for own in plant[1].inputs] for rows in (slice(stop), slice(stop, stop + 200)))
        scores.append(FederatedCounterfactualEstimator().fit(first, inputs=U).score(then, inputs=later))
    return scores


@pytest.mark.parametrize("form", ["frame", "array", "dict", "list", "container"])
@pytest.mark.parametrize("record", [ClientArrays, stack_clients], ids=["ClientArrays", "frame"])
def test_inputs_travel_by_metadata_routing(plant, scores_by_hand, routing, form, record):
    est = FederatedCounterfactualEstimator().set_fit_request(inputs=True).set_score_request(inputs=True)
    scores = cross_val_score(est, record(plant[0]), cv=TimeSeriesSplit(2), params={"inputs": as_container(form, plant)})
    assert_array_equal(scores, scores_by_hand)


@pytest.mark.parametrize("inputs", [5, "valve", np.float64(1), object()], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("estimator", [FederatedCounterfactualEstimator])
def test_inputs_that_are_no_container_are_refused(X, estimator, inputs):
    with pytest.raises(TypeError, match=rf"Got `inputs` of type {type(inputs).__name__}"):
        estimator().fit(X, inputs=inputs)


def test_arrays_of_inputs_that_do_not_divide_are_refused(X):
    with pytest.raises(
        ValueError, match=r"Got `inputs` of shape \(600, 4\), expected as many columns for each of 3 units"
    ):
        FederatedCounterfactualEstimator().fit(X, inputs=np.zeros((600, 4)))


# -- gaps --------------------------------------------------------------------------------------------


def test_numbers_of_rows_that_leave_some_out_end_an_episode(X):
    table = stack_clients(X)
    with pytest.warns(UserWarning, match="no rows between 199 and 400: another episode begins there"):
        cut = read_plant(table.iloc[np.r_[0:200, 400:600]])
    assert cut.lengths == (200, 200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_plant(table.iloc[300:600]).lengths == (300,)
        assert read_plant(table.set_index(np.arange(600) * 60)).lengths == (600,)
        assert read_plant(table.iloc[np.r_[0:200, 400:600]], lengths=[400]).lengths == (400,)
    with pytest.warns(UserWarning, match=r"lacks rows in \d+ places"):
        assert read_plant(table.iloc[np.sort(np.random.default_rng(0).permutation(600)[:450])]).lengths == (450,)


# -- what else comes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda Y: np.stack(Y), "give units as a list"),
        (lambda Y: np.stack(Y, axis=1), "give units as a list"),
        (lambda Y: np.array([*Y, None], dtype=object)[:3], "array of 3 objects as X; give a list .* list"),
        (lambda Y: [(own, own[:, :1]) for own in Y], r"pair of tables .*fit\(\[Y for Y, U in pairs\]"),
        (lambda Y: {"a": (Y[0], Y[1])}, "pair of tables"),
        (lambda Y: [own[:, 0] for own in Y], "Expected 2D array, got 1D.*unit 'client0'"),
    ],
    ids=["units first", "rows first", "objects", "pairs", "dict of pairs", "1-D"],
)
@pytest.mark.parametrize("estimator", [FederatedGrangerEstimator, FederatedCounterfactualEstimator])
def test_arrays_of_other_dimensions_are_refused_in_words(X, estimator, make, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        estimator().fit(make([own[:, :3] for own in X.values()]))
