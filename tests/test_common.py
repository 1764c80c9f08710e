"""The client and the estimators are scikit-learn estimators whose rows are time steps."""

import copy
import pickle
from functools import cache
from inspect import signature

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

from skfedcausal import (
    ExtendedKalmanClient,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
    LinearAugmenter,
    RegressorAugmenter,
    stack_clients,
)
from skfedcausal.datasets import make_granger_plant

N = 400
MODELS = ("client", "augmented", "server")
ESTIMATORS = [KalmanClient(), FederatedGrangerEstimator(), FederatedCounterfactualEstimator()]
ROUNDING = 1e-10  # of sums in another order, relative to values of size one to ten

# A row is a time step: what a filter says about it rests on the rows before it. What holds instead is
# tested below: later rows change nothing, and the order of the units (columns) only permutes the answer.
NOT_FOR_TIME_SERIES = {
    "check_methods_subset_invariance": (
        "batches of rows are cut out of their past, on which their prediction rests; prefixes keep it, see "
        "test_an_answer_depends_on_no_later_row"
    ),
    "check_methods_sample_order_invariance": (
        "rows are time steps and their order is the data; what may be permuted are the units, see "
        "test_the_order_of_the_units_permutes_the_answer"
    ),
}

# scikit-learn can make an expected failure that passes an error since 1.8; before, it leaves that to
# pytest's own xfail_strict (setup.cfg)
STRICT = {"xfail_strict": True} if parse_version(sklearn.__version__) >= parse_version("1.8") else {}


@pytest.mark.medium
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: NOT_FOR_TIME_SERIES, **STRICT)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.medium
@parametrize_with_checks(
    [FederatedRCADetector(false_alarm_rate=0.5)],  # a budget that the few rows of the checks can support
    expected_failed_checks=lambda estimator: NOT_FOR_TIME_SERIES,
    **STRICT,
)
def test_scikit_learn_check_of_the_detector(estimator, check):
    check(estimator)


@pytest.mark.medium
@parametrize_with_checks(
    [ExtendedKalmanClient(hidden=8), LinearAugmenter()],
    expected_failed_checks=lambda part: NOT_FOR_TIME_SERIES,
    **STRICT,
)
@pytest.mark.filterwarnings("ignore:Only .* pairs of successive rows:UserWarning")
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer:sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_check_of_a_part(estimator, check):
    check(estimator)


ADDITIONAL = [
    "check_param_validation",
    "check_dataframe_column_names_consistency",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_global_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_global_set_output_transform_polars",
]


@pytest.mark.medium
@pytest.mark.parametrize("check", ADDITIONAL)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
# the checks name columns without units, and mix arrays and frames
@pytest.mark.filterwarnings("ignore:No column name of X has '__':UserWarning")
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
@pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")
def test_scikit_learn_check_that_check_estimator_leaves_out(estimator, check):
    getattr(estimator_checks, check)(type(estimator).__name__, clone(estimator))


@pytest.mark.parametrize(
    "estimator",
    [*ESTIMATORS, LikelihoodServer(), LinearAugmenter(), RegressorAugmenter()],
    ids=lambda estimator: type(estimator).__name__,
)
def test_every_parameter_is_validated(estimator):
    assert set(estimator._parameter_constraints) == set(estimator.get_params(deep=False))
    assert set(signature(type(estimator).__init__).parameters) - {"self"} == set(estimator.get_params(deep=False))


# --- time goes one way, units have no order ---------------------------------------------------------


def make_plant(missing=0.0, n_samples=N):
    return make_granger_plant(
        3, n_sensors=[4, 3, 5], n_samples=n_samples, missing=missing, link_strength=(0.2, 0.3), random_state=0
    )[0]


def fit_plant(X, **settings):
    return FederatedGrangerEstimator(KalmanClient(n_states=2), **settings).fit(X)


def answers(estimator, X):
    """Everything an estimator says about every row."""
    if isinstance(estimator, KalmanClient):
        methods = ("transform", "filter", "predict", "score_samples")
        return {name: getattr(estimator, name)(X) for name in methods}
    table = {f"predict {model}": estimator.predict(X, model=model) for model in MODELS}
    return table | {"transform": estimator.transform(X), "score_samples": estimator.score_samples(X)}


@cache
def fit_of_kind(kind, missing, n_samples=N):
    """A record, what is fitted to it, and all its answers about it."""
    X = make_plant(missing, n_samples)
    if kind == "client":
        X = X["unit0"]
        estimator = KalmanClient(n_states=2).fit(X)
    else:
        augmenter = RegressorAugmenter(Ridge(), n_lags=3) if kind == "regressor" else None
        estimator = fit_plant(X, augmenter=augmenter)
    return X, estimator, answers(estimator, X)


def first_rows(X, t):
    return {name: Y[:t] for name, Y in X.items()} if isinstance(X, dict) else X[:t]


@pytest.mark.medium
@pytest.mark.parametrize("t", [1, 2, 3, 50, N - 1])
@pytest.mark.parametrize("missing", [0.0, 0.1], ids=["complete", "missing"])
@pytest.mark.parametrize("kind", ["client", "linear augmenter", "regressor"])
def test_an_answer_depends_on_no_later_row(kind, missing, t):
    X, estimator, whole = fit_of_kind(kind, missing)
    prefix = answers(estimator, first_rows(X, t))
    for name, value in prefix.items():
        assert_allclose(value, whole[name][:t], rtol=0, atol=ROUNDING, err_msg=name)


@pytest.mark.medium
@pytest.mark.parametrize("order", [(2, 0, 1), (2, 1, 0)], ids=str)
@pytest.mark.parametrize("missing", [0.0, 0.05], ids=["complete", "missing"])
@pytest.mark.filterwarnings("ignore:Units whose states drift:UserWarning")  # slow modes, short record
def test_the_order_of_the_units_permutes_the_answer(missing, order):
    X, one, expected = fit_of_kind("linear augmenter", missing, n_samples=300)
    names = [f"unit{k}" for k in order]
    other = fit_plant({name: X[name] for name in names})
    assert other.client_names_ == tuple(names)
    states = np.concatenate([np.arange(6)[one.state_slices_[name]] for name in names])
    scale = np.abs(one.transition_).max()
    assert_allclose(other.transition_, one.transition_[np.ix_(states, states)], rtol=0, atol=1e-8 * scale)
    assert_allclose(other.process_cov_, one.process_cov_[np.ix_(states, states)], rtol=1e-7, atol=1e-8)
    columns = [one.layout_.columns.index(name) for name in other.layout_.columns]
    permuted = answers(other, X)
    for model in MODELS:
        assert_allclose(permuted[f"predict {model}"], expected[f"predict {model}"][:, columns], atol=1e-7)
    assert_allclose(permuted["transform"], expected["transform"][:, states], atol=1e-7)
    assert_allclose(permuted["score_samples"], expected["score_samples"], atol=1e-7)
    pairs = ["cause", "effect"]
    links = [estimator.links_.set_index(pairs).sort_index() for estimator in (one, other)]
    pd.testing.assert_frame_equal(*links, rtol=1e-5, atol=1e-9)


# --- copies -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["client", "granger"])
def fitted(request):
    """Fitted estimator and what it was fitted on."""
    X = make_plant()
    if request.param == "client":
        return KalmanClient(n_states=2).fit(X["unit0"]), X["unit0"]
    return fit_plant(X, augmenter=LinearAugmenter(alpha=1e-3), server=LikelihoodServer(shrink=False)), X


def learned(estimator):
    return {name for name in vars(estimator) if name.endswith("_") and not name.startswith("_")}


def test_a_pickled_estimator_gives_the_same_answers(fitted):
    estimator, X = fitted
    expected = answers(estimator, X)
    for name, value in answers(pickle.loads(pickle.dumps(estimator)), X).items():
        assert_array_equal(value, expected[name])


def test_a_clone_has_the_settings_and_nothing_learned(fitted):
    estimator, X = fitted
    copied = clone(estimator)
    assert repr(copied) == repr(estimator)
    assert set(vars(copied)) == set(estimator.get_params(deep=False))
    expected = answers(estimator, X)
    for name, value in answers(copied.fit(X), X).items():
        assert_array_equal(value, expected[name])


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_a_new_estimator_says_that_it_is_not_fitted(estimator):
    X = make_plant()
    X = X["unit0"] if isinstance(estimator, KalmanClient) else X
    for method in ("predict", "transform", "score_samples", "score"):
        with pytest.raises(NotFittedError, match=type(estimator).__name__):
            getattr(clone(estimator), method)(X)


def test_notebooks_show_the_parts(fitted):
    estimator, _ = fitted
    for shown in (clone(estimator), estimator):
        page = shown._repr_html_()
        assert type(estimator).__name__ in page
        for part in estimator.get_params(deep=False).values():
            if hasattr(part, "get_params"):
                assert type(part).__name__ in page


def test_nested_settings_can_be_read_and_set():
    estimator = FederatedGrangerEstimator(KalmanClient(), server=LikelihoodServer())
    estimator.set_params(client__n_states=3, server__alpha=0.01)
    assert estimator.client.n_states == 3
    assert estimator.get_params()["server__alpha"] == 0.01


# --- fit changes nothing but the estimator ------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize("missing", [0.0, 0.1], ids=["complete", "missing"])
@pytest.mark.parametrize("container", ["dict", "list", "frame", "array"])
def test_data_may_be_read_only_and_stay_as_they_are(container, missing):
    X = make_plant(missing, n_samples=200)
    before = copy.deepcopy(X)
    for Y in X.values():
        Y.setflags(write=False)
    table = stack_clients(X)
    given = {"dict": X, "list": list(X.values()), "frame": table, "array": table.to_numpy()}[container]
    labels = [name.split("__")[0] for name in table] if container == "array" else "from_columns"
    if container == "array":
        given.setflags(write=False)
    estimator = fit_plant(given, client_labels=labels)
    answers(estimator, given)
    for name, Y in before.items():
        assert_array_equal(X[name], Y)
    pd.testing.assert_frame_equal(table, stack_clients(before))
    KalmanClient().fit(X["unit0"]).score(X["unit0"])
    assert_array_equal(X["unit0"], before["unit0"])


def test_parts_given_to_the_constructor_stay_as_they_are():
    parts = {
        "client": KalmanClient(n_states=2),
        "augmenter": RegressorAugmenter(Ridge()),
        "server": LikelihoodServer(options=LikelihoodOptions(n_rounds=2)),
    }
    estimator = FederatedGrangerEstimator(**parts).fit(make_plant())
    for name, part in parts.items():
        assert getattr(estimator, name) is part
        assert not learned(part)
    assert not learned(parts["augmenter"].estimator)
    fitted_parts = [*estimator.clients_.values(), *estimator.augmenters_.values(), estimator.server_]
    assert not any(part in fitted_parts for part in parts.values())


@pytest.mark.medium
def test_one_client_per_unit_is_cloned_too():
    clients = [KalmanClient(n_states=k) for k in (1, 2, 3)]
    estimator = FederatedGrangerEstimator(clients).fit(make_plant())
    assert [estimator.clients_[f"unit{k}"].n_states_ for k in range(3)] == [1, 2, 3]
    assert not any(learned(client) for client in clients)


@pytest.mark.parametrize("kind", ["client", "granger"])
def test_fit_starts_afresh(kind):
    first, second = make_plant(), make_granger_plant(2, n_sensors=6, n_samples=300, random_state=5)[0]
    second = pd.concat({name: pd.DataFrame(Y) for name, Y in second.items()}, axis=1).to_numpy()
    if kind == "client":
        first, make = pd.DataFrame(first["unit0"]).add_prefix("s"), KalmanClient
    else:
        first, make = stack_clients(first), FederatedGrangerEstimator
        second = [second[:, :6], second[:, 6:]]
    again, new = make().fit(first).fit(second), make().fit(second)
    assert set(vars(again)) == set(vars(new))
    expected = answers(new, second)
    for name, value in answers(again, second).items():
        assert_array_equal(value, expected[name])


# --- features -----------------------------------------------------------------------------------------

FLAT = [f"unit{k}__x{j}" for k, d in enumerate([4, 3, 5]) for j in range(d)]


@pytest.mark.parametrize("container", ["dict", "list", "frame", "two levels", "array"])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning")
def test_features_are_those_of_the_flat_table(container):
    X = make_plant()
    table = stack_clients(X)
    levels = table.set_axis(pd.MultiIndex.from_tuples([name.split("__") for name in table]), axis=1)
    given = {
        "dict": X,
        "list": list(X.values()),
        "frame": table,
        "two levels": levels,
        "array": table.to_numpy(),
    }
    labels = [name.split("__")[0] for name in table] if container == "array" else "from_columns"
    estimator = fit_plant(given[container], client_labels=labels)
    assert estimator.n_features_in_ == len(FLAT)
    if container in ("list", "array"):
        assert not hasattr(estimator, "feature_names_in_")
    else:
        assert list(estimator.feature_names_in_) == FLAT
    with pytest.raises(ValueError, match=f"11 feature|Got 11 column.*expected {len(FLAT)}"):
        estimator.predict(table.iloc[:, 1:].to_numpy())


def test_the_client_learns_its_columns():
    X = pd.DataFrame(make_plant()["unit0"]).add_prefix("s")
    client = KalmanClient().fit(X)
    assert client.n_features_in_ == 4
    assert list(client.feature_names_in_) == ["s0", "s1", "s2", "s3"]
    with pytest.raises(ValueError, match="feature names should match"):
        client.transform(X[["s1", "s0", "s2", "s3"]])


def test_states_are_named_after_their_unit():
    estimator = fit_plant(make_plant())
    names = [f"unit{k}__state{j}" for k in range(3) for j in range(2)]
    assert list(estimator.get_feature_names_out()) == names
    frame = estimator.set_output(transform="pandas").transform(make_plant())
    assert list(frame) == names
