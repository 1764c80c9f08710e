"""What is of the wrong kind is refused in words that name it, wherever it is given."""

import numpy as np
import pytest

from skfedcausal import (
    ClientArrays,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    KalmanClient,
    PrivacyAccountant,
    UnitScaler,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.inspection import (
    dose_response,
    experiment,
    frequency_response,
    privacy_curve,
    reach,
    rebaseline,
    stable_links,
)

X, TRUTH = make_granger_plant(2, links=[(0, 1)], n_inputs=1, input_links=[(0, 1)], n_samples=400, random_state=0)
BOUNDS = {"unit0__u0": (-1.0, 1.0)}
PRIVACY = {"epsilon": 5.0, "delta": 1e-5, "clip_norm": 20.0}


@pytest.fixture(scope="module")
def effects():
    return FederatedCounterfactualEstimator(KalmanClient(n_states=1)).fit(X, inputs=TRUTH.inputs)


@pytest.fixture(scope="module")
def watch():
    return FederatedRCADetector(KalmanClient(n_states=1), false_alarm_rate=0.05).fit(X)


@pytest.mark.parametrize("names", [3, [1, 2], TRUTH.inputs, np.array(1.0)])
def test_names_of_inputs_and_units_are_words(names, effects, watch):
    with pytest.raises(TypeError, match=r"Got inputs=.{1,99}; give a name, or a list of names"):
        experiment(effects, "unit0", "unit1", inputs=names, bounds=BOUNDS, rows=50)
    with pytest.raises(TypeError, match=r"Got inputs=.{1,99}; give a name, or a list of names"):
        reach(effects, {"unit0__x0": 1.0}, inputs=names, bounds=BOUNDS, by=5, X=X, record_inputs=TRUTH.inputs)
    with pytest.raises(TypeError, match=r"Got units=.{1,99}; give a name, or a list of names"):
        rebaseline(watch, names)


def test_one_input_may_be_named_alone(effects):
    settings = {"bounds": BOUNDS, "rows": 50}
    alone = experiment(effects, "unit0", "unit1", inputs="unit0__u0", **settings)
    assert alone.schedule.equals(experiment(effects, "unit0", "unit1", inputs=["unit0__u0"], **settings).schedule)


@pytest.mark.parametrize("given", [["high"], [], [None], [np.nan], [[1, 2], [3]], {"a": 1}])
def test_lists_of_numbers_hold_finite_numbers(given, effects):
    with pytest.raises((TypeError, ValueError), match=r"Got .*frequencies"):
        frequency_response(effects, "unit0__u0", "unit0__x0", frequencies=given)
    noised = FederatedGrangerEstimator(privacy=GaussianMechanism(**PRIVACY))
    with pytest.raises(ValueError, match=r"Got epsilons="):
        privacy_curve(noised, X, given)


@pytest.mark.parametrize("n_jobs", ["all", [], 1.5])
def test_a_number_of_jobs_is_whole(n_jobs, effects):
    with pytest.raises(TypeError, match=r"Got `n_jobs` of type \w+ in stable_links; give a whole number"):
        stable_links(effects, X, inputs=TRUTH.inputs, n_jobs=n_jobs)


def test_doses_are_a_list_of_values(effects):
    with pytest.raises(ValueError, match="Got doses of shape"):
        dose_response(effects, X, "unit0__u0", 1.0, (80, 90), inputs=TRUTH.inputs)


def test_lengths_of_unequal_depth_are_no_lengths(effects):
    with pytest.raises(ValueError, match=r"Got lengths=\[\[1, 2\], \[3\]\]; give one positive integer per episode"):
        effects.predict(X, inputs=TRUTH.inputs, lengths=[[1, 2], [3]])


def test_rows_of_a_unit_have_one_length():
    with pytest.raises(ValueError, match="rows of different length"):
        ClientArrays([[[1.0, 2.0], [3.0]], [[1.0], [2.0]]])


def test_what_was_scaled_with_other_columns_is_not_scaled_back():
    with pytest.raises(ValueError, match="expecting 6 features"):
        UnitScaler().fit(np.ones((5, 6))).inverse_transform(np.ones((5, 4)))


@pytest.mark.parametrize("delta", ["auto", 0.0, 2, [1e-5]])
def test_an_account_has_a_delta_between_zero_and_one(delta):
    with pytest.raises(ValueError, match=r"delta=.* must lie strictly between 0 and 1"):
        PrivacyAccountant(delta=delta)
    with pytest.raises(ValueError, match="must be a positive number"):
        PrivacyAccountant(epsilon="much", delta=1e-5)


@pytest.mark.parametrize("name", ["clip_norm", "event_radius"])
def test_bounds_by_unit_are_positive_numbers(name):
    bounds = {**PRIVACY, name: {"unit0": "wide", "unit1": 1.0}}
    with pytest.raises(ValueError, match=f"Got `{name}` 'wide' for unit 'unit0'; give a number above zero"):
        FederatedGrangerEstimator(privacy=GaussianMechanism(**bounds)).fit(X)
