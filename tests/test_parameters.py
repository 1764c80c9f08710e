"""Parameters that belong together are objects, whose own parameters searches reach and old names tell of."""

import pickle
from copy import copy
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

import skfedcausal
from skfedcausal import (
    Baseline,
    Communication,
    Evidence,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    InputModel,
    KalmanClient,
)
from skfedcausal.bases import ParameterGroup, configured, group_of, place_of
from skfedcausal.datasets import make_granger_plant
from tests import house

FRAME, _ = make_granger_plant(2, n_samples=400, links=[(0, 1)], random_state=0, container="frame")
MOST = {"FederatedRCADetector": 14}  # parameters of a constructor, 12 of others


def test_no_constructor_has_more_parameters_than_a_head_holds():
    _, parameters = house.surface()
    assert {name: n for name, n in parameters.items() if n > MOST.get(name, 12)} == {}


GROUPED = [
    kind
    for kind in (getattr(skfedcausal, name) for name in skfedcausal.__all__)
    if isinstance(kind, type) and getattr(kind, "_groups", None)
]


@pytest.mark.parametrize("kind", GROUPED, ids=lambda kind: kind.__name__)
def test_parameters_of_groups_are_set_by_name_before_there_is_a_group(kind):
    for group, own in kind._groups.items():
        name, value = next(iter(own().get_params(deep=False).items()))
        changed = clone(kind()).set_params(**{f"{group}__{name}": "other"})
        assert kind().get_params()[f"{group}__{name}"] is value
        assert getattr(group_of(changed, group), name) == getattr(changed, name) == "other"
        assert getattr(kind(), group) is kind().get_params(deep=False)[group]


@pytest.mark.parametrize("kind", GROUPED, ids=lambda kind: kind.__name__)
def test_groups_are_cloned_pickled_and_shown(kind):
    first = {group: own(**dict(list(own().get_params(deep=False).items())[:1])) for group, own in kind._groups.items()}
    one = kind(**first)
    assert repr(clone(one)) == repr(one)
    if kind is not GaussianMechanism:  # its account has no copies
        assert repr(pickle.loads(pickle.dumps(one))) == repr(one)


@pytest.mark.parametrize("kind", GROUPED, ids=lambda kind: kind.__name__)
def test_old_names_of_parameters_tell_of_their_place(kind):
    for group, own in kind._groups.items():
        for name in set(own().get_params(deep=False)) - set(kind._get_param_names()):
            with pytest.raises(
                TypeError, match=rf"no parameter '{name}' since version 0.2: .*{group}={own.__name__}\("
            ):
                kind(**{name: None})


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        (FederatedCounterfactualEstimator, "missing_inputs", r"input_model=InputModel\(missing=\.\.\.\)"),
        (FederatedRCADetector, "horizon", r"evidence=Evidence\(n_steps=\.\.\.\)"),
        (KalmanClient, "noise_memory", r"baseline=Baseline\(levels='wander'\)"),
    ],
)
def test_names_that_changed_tell_of_the_new_one(kind, name, words):
    with pytest.raises(TypeError, match=words):
        kind(**{name: 1})


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (FederatedGrangerEstimator(communication="float32"), "'communication' parameter"),
        (
            FederatedGrangerEstimator(communication=Communication(max_bytes=-1)),
            "'max_bytes' parameter of Communication",
        ),
        (FederatedCounterfactualEstimator(input_model=InputModel(missing="skip")), "'missing' parameter of InputModel"),
        (FederatedRCADetector(evidence="flag"), "'evidence' parameter of FederatedRCADetector"),
        (FederatedRCADetector(evidence=Evidence(n_steps=0)), "'n_steps' parameter of Evidence"),
        (FederatedRCADetector(baseline=Baseline(harmonics=24)), "belongs to its units: client=KalmanClient"),
        (FederatedRCADetector(baseline=Baseline(levels="wander")), "belongs to its units: client=KalmanClient"),
        (FederatedRCADetector(baseline=Baseline(mode=3)), "mode=3: a detector takes the name of a column"),
        (FederatedGrangerEstimator(KalmanClient(baseline=Baseline(trend=0))), "'trend' parameter of Baseline"),
    ],
)
def test_what_is_in_a_group_is_checked(estimator, words):
    with pytest.raises(ValueError, match=words):
        estimator.fit(FRAME)


def test_a_word_stands_for_a_group_with_its_first_parameter():
    assert FederatedRCADetector(evidence="flags").signs == "flags"
    assert FederatedRCADetector(evidence="flags").set_params(evidence__n_steps=3).evidence.signs == "flags"


def test_searches_reach_into_groups_of_parts():
    grid = {"client__baseline__trend": [None, "linear"], "communication__wire_dtype": ["float64", "float32"]}
    search = GridSearchCV(FederatedGrangerEstimator(KalmanClient()), grid, cv=TimeSeriesSplit(2)).fit(FRAME)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(search.cv_results_["params"]) == 4


def test_groups_do_not_change_and_another_takes_their_place():
    given = Communication(max_bytes=100)
    one = FederatedGrangerEstimator(communication=given)
    other = copy(one).set_params(communication__max_bytes=200)
    assert (given.max_bytes, one.max_bytes, other.max_bytes) == (100, 100, 200)
    with pytest.raises(FrozenInstanceError):
        given.max_bytes = 300
    with pytest.raises(ValueError, match=r"Communication has no parameter 'bytes'; it has .*max_bytes"):
        one.set_params(communication__bytes=1)


def test_fit_gives_the_estimator_back():
    with pytest.raises(TypeError, match="dry_run"):
        FederatedGrangerEstimator().fit(FRAME, dry_run=True)


def test_settings_of_a_file_know_of_no_groups():
    client = configured(KalmanClient, {"n_states": 1, "harmonics": [24]})
    assert (client.n_states, client.harmonics, client.get_params(deep=False)["gain"]) == (1, [24], None)
    with pytest.raises(TypeError, match="'harmonic'"):
        configured(KalmanClient, {"harmonic": [24]})


def test_the_place_of_a_parameter_is_told():
    assert place_of(KalmanClient, "n_states") == "KalmanClient(n_states=...)"
    assert place_of(KalmanClient, "nothing") is None
    assert issubclass(Baseline, ParameterGroup)
    with pytest.raises(TypeError, match=r"it is one of its client: client=KalmanClient\(baseline=Baseline\(trend="):
        FederatedGrangerEstimator(trend="linear")
