"""What a new user is told first: short records, names, repeated hours, silent units, misspelling, budgets."""

import contextlib
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from skfedcausal import (
    Communication,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    InputModel,
    KalmanClient,
)
from skfedcausal.client.records import Passed, repeated_rows
from skfedcausal.datasets import make_granger_plant
from skfedcausal.privacy import UtilityWarning


def plant(n_samples=600, **options):
    X, _ = make_granger_plant(2, names=["P1", "P2"], n_samples=n_samples, container="frame", random_state=0, **options)
    return X.set_axis(pd.date_range("2026-06-14 08:00", periods=n_samples, freq="1min"))


# -- too few rows -----------------------------------------------------------------------------------


def test_few_rows_for_many_tags_are_said_with_what_to_do():
    X = plant(40, n_sensors=30)
    with pytest.warns(
        UserWarning, match=r"Need about 180 rows of unit 'P.' for 1 state of 30 columns; have 40. Options"
    ):
        FederatedGrangerEstimator().fit(X)
    client = KalmanClient(n_states=2)
    with pytest.warns(UserWarning, match=r"about 360 rows .* 2 states .* n_states=1, a longer record"):
        FederatedGrangerEstimator(client=client).fit(X)


def test_rows_below_the_hard_minimum_are_an_error():
    with pytest.raises(ValueError, match="unit 'P1' has 3 rows; identifying 2 states needs at least 5"):
        FederatedGrangerEstimator().fit(plant(3))


def test_rows_enough_and_given_models_are_not_warned_of():
    X, truth = make_granger_plant(2, n_samples=40, n_sensors=30, random_state=0)
    FederatedGrangerEstimator(client={n: KalmanClient(**m) for n, m in truth.clients().items()}).fit(X)
    FederatedGrangerEstimator().fit(plant(600))


# -- names ------------------------------------------------------------------------------------------


def test_a_frame_without_units_is_taken_column_by_column():
    X = plant().iloc[:, [0, 8]].set_axis(["FIT101", "LIT101"], axis=1)
    with pytest.warns(
        UserWarning, match=r"No column name of X has '__': every column becomes a unit of its own .*FIT101"
    ):
        estimator = FederatedGrangerEstimator().fit(X)
    assert estimator.client_names_ == ("FIT101", "LIT101")


def test_a_half_named_frame_is_an_error():
    X = plant().rename(columns={"P2__s3": "LIT101"})
    with pytest.raises(ValueError, match=r"Got column\(s\) 'LIT101' without a unit.*client_labels"):
        FederatedGrangerEstimator().fit(X)


# -- times ------------------------------------------------------------------------------------------


def test_an_hour_that_occurs_twice_is_said_and_nothing_is_dropped():
    X = plant()
    wall = pd.date_range("2025-10-26 00:00", periods=600, freq="1min", tz="Europe/Berlin").tz_localize(None)
    with pytest.warns(UserWarning, match=r"02:00 to 03:00 occurs twice on 26 October 2025.*nothing was dropped.*tz="):
        estimator = FederatedGrangerEstimator().fit(X.set_axis(wall))
    np.testing.assert_array_equal(estimator.transition_, FederatedGrangerEstimator().fit(X).transition_)


def test_episodes_may_have_any_times():
    X = plant()
    times = X.index[:300].append(X.index[100:400])
    FederatedGrangerEstimator().fit(X.set_axis(times), lengths=[300, 300])


# -- misspelling ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: FederatedGrangerEstimator(sever=None), TypeError, "has no parameter 'sever': it has .*'server'"),
        (lambda: FederatedGrangerEstimator().set_params(sever=None), ValueError, "Invalid parameter 'sever'"),
        (
            lambda: FederatedGrangerEstimator(communication=Communication(wire_dtype="double")).fit(plant()),
            ValueError,
            "The 'wire_dtype' parameter",
        ),
        (
            lambda: FederatedGrangerEstimator(client=KalmanClient(identify="cva")).fit(plant()),
            ValueError,
            "The 'identify' parameter of KalmanClient must be a str among",
        ),
        (lambda: FederatedRCADetector(evidence="flag").fit(plant()), ValueError, "The 'evidence' parameter"),
        (
            lambda: FederatedCounterfactualEstimator(input_model=InputModel(missing="drop")).fit(plant()),
            ValueError,
            "'missing' parameter of InputModel",
        ),
    ],
)
def test_misspelt_options_are_scikit_learns_error(make, error, match):
    with pytest.raises(error, match=match):
        make()


# -- silent units -----------------------------------------------------------------------------------


def frozen(X, unit, start, stop=None):
    changed = X.copy()
    rows, columns = X.index[start:stop], [column for column in X if column.startswith(unit)]
    changed.loc[rows, columns] = X.loc[rows[0], columns].to_numpy()
    return changed


def test_a_silent_unit_is_missing_and_certainty_is_lowered():
    X = plant()
    estimator = FederatedGrangerEstimator().fit(X)
    test = frozen(X, "P2", 240)
    with pytest.warns(UserWarning, match=r"P2 is silent since 12:00; treated as missing, certainty lowered\."):
        states = estimator.transform(test)
    as_missing = test.copy()
    as_missing.iloc[240 + 11 :, 8:] = np.nan
    np.testing.assert_array_equal(states, estimator.transform(as_missing))
    assert np.abs(states[-1, 2:]).max() < np.abs(states[240, 2:]).max()  # back to what is expected without data


def test_a_silence_that_ends_says_when():
    X = plant()
    detector = FederatedRCADetector(false_alarm_rate=0.01).fit(X)
    with pytest.warns(UserWarning, match=r"P1 is silent since 09:40 until 12:00; treated as missing"):
        detector.incidents(frozen(X, "P1", 100, 240))


@pytest.mark.medium
def test_a_stream_notices_silence_over_batches():
    X = plant()
    test = frozen(X, "P2", 300, 500).reset_index(drop=True)
    detector = FederatedRCADetector(false_alarm_rate=0.01).fit(X.reset_index(drop=True))
    with pytest.warns(UserWarning, match="P2 is silent since row 300 until row 500"):
        expected = detector.predict_root_cause(test)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(0, 600, 7):
            detector.update(test[k : k + 7])
    assert any("P2 is silent" in str(warning.message) for warning in caught)
    rows = np.unique(expected[expected != ""])
    assert set(rows) <= {"P1", "P2", "undecided"}


@pytest.mark.parametrize("change", ["one tag", "short", "held in fit"])
def test_what_is_no_silence_is_not_called_so(change):
    X, said = plant(), contextlib.nullcontext()
    test = X.copy()
    if change == "one tag":
        test.iloc[240:, 8] = 1.0
    elif change == "short":
        test = frozen(X, "P2", 240, 248)
    else:  # a unit that reports every 20 minutes
        X = test = X.iloc[np.arange(600) // 20 * 20].set_axis(X.index)
        said = pytest.warns(UserWarning, match="seems to report more slowly")
    with said:
        estimator = FederatedGrangerEstimator(client=KalmanClient(n_states=1)).fit(X)
    estimator.transform(test)


def test_repetitions_are_counted_within_episodes_and_across_batches():
    Y = np.repeat(np.arange(4.0), 3)[:, None] @ np.ones((1, 2))
    np.testing.assert_array_equal(repeated_rows(Y), [0, 1, 2] * 4)
    np.testing.assert_array_equal(repeated_rows(Y, (0, 4)), [0, 1, 2, 0, 0, 1, 0, 1, 2, 0, 1, 2])
    first, second = repeated_rows(Y[:4]), repeated_rows(Y[4:], before=Passed(Y[3], 0, 4))
    np.testing.assert_array_equal(np.append(first, second), [0, 1, 2] * 4)
    assert repeated_rows(np.full((3, 2), np.nan)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("lively", [0, 1])
def test_repetitions_are_counted_whichever_column_moves(lively):
    Y = np.ones((4, 2))
    Y[:, lively] = [1.0, 2.0, 3.0, 2.0]
    assert repeated_rows(Y).tolist() == [0, 0, 0, 0]
    assert repeated_rows(Y, before=Passed(Y[0], 2, 3)).tolist() == [3, 0, 0, 0]
    assert repeated_rows(Y, before=Passed(Y[1], 2, 3)).tolist() == [0, 0, 0, 0]
    Y[1, lively] = np.nan
    assert repeated_rows(Y).tolist() == [0, 0, 0, 0]


# -- budgets ----------------------------------------------------------------------------------------


@pytest.mark.medium
def test_a_budget_too_small_for_any_link_says_which_would_do():
    X = plant(2000)
    settings = {"delta": 1e-6, "clip_norm": 20.0, "event_radius": 3.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # noise may look like anything
        with pytest.warns(UtilityWarning) as caught:
            FederatedGrangerEstimator(privacy=GaussianMechanism(epsilon=0.1, **settings)).fit(X)
    said = next(str(w.message) for w in caught if "told from noise" in str(w.message))
    assert "At epsilon 0.1 no link of that size can be told from noise; smallest useful epsilon: about" in said
    enough = float(said.split("epsilon: about ")[1].split(". ")[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        FederatedGrangerEstimator(privacy=GaussianMechanism(epsilon=2 * enough, **settings)).fit(X)
    assert not any("told from noise" in str(w.message) for w in caught)


def test_a_record_that_runs_backwards_is_refused():
    with pytest.raises(ValueError, match=r"run backwards in time.*Sort them by time"):
        FederatedGrangerEstimator().fit(plant(60).iloc[::-1])
