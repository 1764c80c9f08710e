"""Methods of 0.1 say where they went, and every function is asked of the estimators that know the answer."""

import importlib
import inspect

import pytest
from sklearn.exceptions import NotFittedError

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    GradientServer,
    KalmanClient,
    LikelihoodServer,
    inspection,
    papers,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.estimators._parts import MOVED

ESTIMATORS = (FederatedGrangerEstimator, FederatedCounterfactualEstimator, FederatedRCADetector)
FUNCTIONS = [name for name in inspection.__all__ if inspect.isfunction(getattr(inspection, name))]
NEW = {"link_shape", "link_slopes"}  # functions that never were methods
WITHOUT_FIT = {"partial_fit_sites", "privacy_curve", "renew"}


def test_every_function_was_a_method_of_an_estimator():
    of_papers = {name for name in papers.__all__ if inspect.isfunction(getattr(papers, name))}
    assert {*FUNCTIONS, *of_papers, "fit_predict", "reader_"} - NEW == set(MOVED)


@pytest.mark.parametrize("name", MOVED)
def test_a_former_method_names_its_function(name):
    said = 0
    for kind in ESTIMATORS:
        assert not hasattr(kind(), name)
        with pytest.raises(AttributeError) as error:
            getattr(kind(), name)
        said += str(error.value) == f"{kind.__name__}.{name} moved in 0.2: {MOVED[name][1]}"
    assert said


@pytest.mark.parametrize("part", [LikelihoodServer(), GaussianMechanism(mu=1.0), KalmanClient()])
def test_a_former_method_of_a_part_names_what_to_call(part):
    kind = type(part)
    assert kind._moved
    for name, call in kind._moved.items():
        assert not hasattr(part, name)
        with pytest.raises(AttributeError, match="moved in") as error:
            getattr(part, name)
        assert str(error.value) == f"{kind.__name__}.{name} moved in 0.2: {call}."
        if call.startswith("skfedcausal"):
            module, _, function = call.partition("(")[0].rpartition(".")
            assert callable(getattr(importlib.import_module(module), function))


def test_what_never_was_a_method_is_no_attribute():
    with pytest.raises(AttributeError, match="'FederatedRCADetector' object has no attribute 'spectrum'"):
        FederatedRCADetector().spectrum


def arguments(function):
    """Something for every argument that has to be given."""
    given = list(inspect.signature(function).parameters.values())[1:]
    return {one.name: None for one in given if one.default is one.empty}


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in WITHOUT_FIT])
def test_functions_are_asked_of_fitted_estimators_that_know_the_answer(name):
    function = getattr(inspection, name)
    arguments_of = arguments(function)
    refused = 0
    for kind in (*ESTIMATORS, dict):
        with pytest.raises((NotFittedError, TypeError, ValueError)) as error:
            list(function(kind(), **arguments_of) or ())  # a generator begins when it is asked for more
        refused += "` is asked of" in str(error.value)
    assert refused >= 1


def test_a_server_that_cannot_answer_is_named():
    X, _ = make_granger_plant(2, n_samples=300, random_state=0)
    est = FederatedGrangerEstimator(server=GradientServer(solve="stationary")).fit(X)
    with pytest.raises(ValueError, match=r"`spectrum` is not answered by a fit with GradientServer; fit with server=L"):
        inspection.spectrum(est, "unit0", "unit1")
    with pytest.raises(ValueError, match=r"`losses` is not answered by a fit with LikelihoodServer; .*GradientServer"):
        papers.losses(FederatedGrangerEstimator().fit(X), X)
