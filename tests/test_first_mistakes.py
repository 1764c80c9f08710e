"""What people do wrong in their first hours is answered with what came and what to do."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold, cross_val_score

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    KalmanClient,
    PlantTable,
    check_plant,
    inspection,
    read_historian,
)
from skfedcausal.__main__ import main
from skfedcausal.datasets import make_granger_plant
from skfedcausal.displays import LinkMatrixDisplay

X, _ = make_granger_plant(3, n_samples=600, random_state=0)
FRAME, _ = make_granger_plant(3, n_samples=600, random_state=0, container="frame")
TIMES = pd.date_range("2026-03-01", periods=600, freq="10s")
TIMED = FRAME.set_axis(TIMES)
INPUTS, TRUTH = make_granger_plant(2, n_samples=600, n_inputs=1, random_state=0)
STACKED = TIMED.set_axis(TIMES[:300].append(TIMES[:300]))
SHUFFLED = TIMED.sample(frac=1.0, random_state=0)


def granger(record=None, **settings):
    return FederatedGrangerEstimator(**settings).fit(FRAME if record is None else record)


def counterfactual():
    return FederatedCounterfactualEstimator().fit(INPUTS, inputs=TRUTH.inputs)


def detector(**settings):
    return FederatedRCADetector(**{"false_alarm_rate": 0.02} | settings)


REFUSED = {
    "misspelt unit": (lambda: granger(client={"unit0": None, "unti1": None, "unit2": None}), "'unti1'.*'unit1'"),
    "misspelt input": (lambda: granger_inputs(["unit0__v"]), "'unit0__v'.*column names"),
    "misspelt setting": (lambda: granger(verbos=True), "no parameter 'verbos': it has 'augmenter'"),
    "false alarms": (lambda: detector(false_alarm_rate="once a week").fit(FRAME), "once a week.*'1 per day'"),
    "per week without times": (lambda: detector(false_alarm_rate="1 per week").fit(X), "DatetimeIndex"),
    "window": (lambda: detector().fit(X).attribute(X, start=300, end=200), "no window of a record of 600 rows"),
    "Bad in a cell": (lambda: granger(FRAME.astype(object).mask(FRAME.iloc[3, 0] == FRAME, "Bad")), "unit0__s0"),
    "12 rows": (lambda: granger(FRAME[:4]), "at least"),
    "constant units": (lambda: granger(FRAME.assign(**dict.fromkeys(FRAME, 1.0))), "unit0"),
    "duplicated column": (lambda: granger(pd.concat([FRAME, FRAME[["unit0__s0"]]], axis=1)), "'unit0__s0'"),
    "missing unit in dict": (lambda: granger(X).predict({"unit0": X["unit0"]}), "missing 'unit1'"),
    "time column left in": (lambda: granger(FRAME.assign(time=np.arange(600))), "time belongs in the index"),
    "later frame lacks a column": (lambda: granger().predict(FRAME.drop(columns="unit0__s1")), "unit0__s1"),
    "links_ before fit": (lambda: FederatedGrangerEstimator().links_, r"links_ is not known before a fit: call fit"),
    "n_states": (lambda: FederatedGrangerEstimator(n_states=2), r"client=KalmanClient\(n_states=...\)"),
    "max_iter": (
        lambda: FederatedGrangerEstimator(max_iter=2),
        r"LikelihoodServer\(options=LikelihoodOptions\(max_iter=",
    ),
    "Series": (lambda: granger(FRAME["unit0__s0"]), "Series of 600 values.*several units"),
    "list in cross-validation": (lambda: granger(list(X.values())).score(list(X.values())[:1]), "stack_clients"),
    "inputs of a wrong kind": (lambda: counterfactual().whatif(INPUTS, {"unit0__u0": 1.0}, inputs=5), "or a dict"),
    "inputs of one unit": (lambda: FederatedCounterfactualEstimator().fit(INPUTS, inputs=[[1.0]]), "one per unit"),
    "oracle of another record": (
        lambda: inspection.oracle_gap(granger(X), {k: Y[:100] for k, Y in X.items()}),
        "record of `fit`",
    ),
    "rows backwards": (lambda: granger(TIMED[::-1]), "Sort them by time"),
}


def granger_inputs(columns):
    return FederatedCounterfactualEstimator(input_columns=columns).fit(FRAME)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mistake", REFUSED)
def test_what_cannot_be_done_is_refused_with_what_to_do(mistake):
    do, sentence = REFUSED[mistake]
    with pytest.raises((TypeError, ValueError, AttributeError), match=f"(?s){sentence}"):
        do()


def test_a_setting_of_a_fitted_estimator_that_is_not_there_is_an_ordinary_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing_'") as caught:
        _ = granger(X).nothing_
    assert not isinstance(caught.value, NotFittedError)
    assert FederatedGrangerEstimator(client=KalmanClient(n_states=2)).client.n_states == 2


GAP = TIMED.set_axis(TIMES[:300].append(TIMES[300:] + pd.Timedelta("4D")))


def validated(record):
    return cross_val_score(FederatedGrangerEstimator(), record, cv=KFold(3, shuffle=True, random_state=0))


WARNED = {
    "prefix with _": (lambda: granger(FRAME.rename(columns=lambda c: c.replace("__", "_"))), "client__sensor"),
    "rows shuffled": (lambda: granger(SHUFFLED), "not in time order.*X.sort_index"),
    "records below each other": (lambda: granger(STACKED), "2 records stand .*of 300, 300 rows.*lengths"),
    "gap of four days": (lambda: granger(GAP), "no rows between .* NaN"),
    "KFold shuffled": (lambda: validated(FRAME), "shuffle=True"),
    "KFold shuffled, times": (lambda: validated(TIMED), "shuffle=True"),
    "same tag in two units": (lambda: granger(FRAME.assign(unit1__s0=FRAME["unit0__s0"])), "in common.*'unit1__s0'"),
    "one unit only": (lambda: granger({"mill": X["unit0"]}), "one unit, 'mill': there are no pairs"),
    "input far outside": (
        lambda: counterfactual().counterfactual("unit0", 1000.0, 1001.0), "extrapolate",
    ),
}  # fmt: skip


@pytest.mark.medium
@pytest.mark.parametrize("mistake", WARNED)
def test_what_is_done_all_the_same_is_said(mistake):
    do, sentence = WARNED[mistake]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        do()
    said = " ".join(str(one.message) for one in caught)
    assert pd.Series([said]).str.contains(f"(?s){sentence}").all(), said


@pytest.mark.parametrize("mark", [-999.25, "-999.25", "-999,25"])
def test_bad_values_that_are_numbers(mark):
    record = TIMED.rename(columns=lambda name: name.replace("__", "."))
    record.iloc[[5, 90], 0] = -999.25
    table = read_historian({"plant": record}, bad_values=[mark])
    assert table.iloc[:, 0].isna().sum() == 2
    assert table.min().min() > -999


@pytest.mark.medium
def test_the_check_names_a_tag_of_two_units_and_orders_of_rows():
    findings = check_plant(TIMED.assign(unit1__s0=TIMED["unit0__s0"])).findings
    assert findings.loc[findings["kind"] == "same tag", "column"].tolist() == ["unit1__s0"]
    for record, kind in ((SHUFFLED, "rows in no order"), (STACKED, "episodes")):
        check = check_plant(record)
        assert kind in set(check.findings["kind"])
        assert "repeated hour" not in set(check.findings["kind"])
        assert (check.units["verdict"] == "fix first").all()


@pytest.mark.medium
def test_fill_values_that_the_check_found_are_not_learned_from():
    record = TIMED.copy()
    record.iloc[[5, 90, 91, 400], 0] = -999.25
    plant = PlantTable.read(record)
    assert "-999.25" in plant.fix_first[0]
    of_unit = pytest.warns(UserWarning, match="-999.25 in .* of the rows")
    with of_unit, pytest.warns(UserWarning, match="Fix first: unit0: fill value"):
        FederatedGrangerEstimator().fit(plant)
    fixed = PlantTable.read(record, fix="fill values")
    assert not fixed.fix_first
    assert fixed.frame.min().min() > -999
    clean = TIMED.mask(record == -999.25)
    np.testing.assert_array_equal(
        FederatedGrangerEstimator().fit(fixed).transition_, FederatedGrangerEstimator().fit(clean).transition_
    )


@pytest.mark.medium
def test_a_long_gap_ends_an_episode_and_short_ones_are_rows_without_values():
    times = TIMES[:2].append(TIMES[2:] + pd.Timedelta("500D"))
    plant = PlantTable.read(TIMED.set_axis(times).drop(index=times[[300, 301]]))
    assert plant.lengths == (598,)
    assert plant.frame.isna().all(axis=1).sum() == 2
    assert any("2 rows" in text for text in plant.said)
    both = PlantTable.read(TIMED.set_axis(TIMES[:200].append(TIMES[200:] + pd.Timedelta("4D"))))
    assert both.lengths == (200, 400)
    whole = FederatedGrangerEstimator().fit(FRAME, lengths=(200, 400))
    np.testing.assert_array_equal(FederatedGrangerEstimator().fit(both).transition_, whole.transition_)


def test_a_gap_does_not_poison_what_comes_after_it():
    later = TIMES[300:] + pd.Timedelta("500D")
    fitted = detector().fit(TIMED[:298])
    across = PlantTable.read(TIMED[298:].set_axis(TIMES[298:300].append(later)))
    assert "2 rows" in across.said[-1]
    alone = fitted.incidents(TIMED[300:].set_axis(later))
    pd.testing.assert_frame_equal(fitted.incidents(across), alone)


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore")  # of the few rows
def test_rca_stops_at_a_fill_value_and_goes_on_without_it(tmp_path, capsys):
    bad = TIMED.copy()
    bad.iloc[[5, 90, 91, 250], 0] = -999.25
    bad.iloc[500:560, 3:6] += 8 * FRAME.iloc[:, 3:6].std().to_numpy()
    found = {}
    for name, record in {"bad": bad, "clean": bad.mask(bad == -999.25)}.items():
        path = tmp_path / f"{name}.csv"
        record.to_csv(path, index_label="time")
        words = ["rca", str(path), "--nominal", "0.7", "--false-alarms", "0.02", "--out", str(tmp_path / name)]
        if name == "bad":
            assert main(words) == 2
            assert "-999.25" in (said := capsys.readouterr().err)
            assert "--fix" in said
        assert main([*words, "--fix"]) == 0
        found[name] = pd.read_csv(tmp_path / name / "incidents.csv")
    pd.testing.assert_frame_equal(found["bad"], found["clean"])


def test_without_matplotlib_a_picture_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"needs matplotlib.*pip install 'skfedcausal\[plot\]'"):
        LinkMatrixDisplay.from_estimator(granger(X))


@pytest.mark.medium
def test_records_below_each_other_and_rows_in_no_order_are_put_right_on_request():
    stacked = PlantTable.read(STACKED, fix="episodes")
    assert stacked.lengths == (300, 300)
    assert not stacked.fix_first
    assert PlantTable.read(STACKED).fix_first
    sorted_again = PlantTable.read(SHUFFLED, fix="grid")
    pd.testing.assert_frame_equal(sorted_again.frame, TIMED, check_freq=False, check_index_type=False)
    assert PlantTable.read(SHUFFLED).fix_first
    twice = pd.concat([TIMED, TIMED[100:103]]).sort_index(kind="stable")
    assert len(PlantTable.read(twice, fix="duplicates").frame) == 600
    assert "3 rows" in PlantTable.read(twice).fix_first[0]


def test_the_zone_of_the_plant_is_kept():
    local = TIMES.tz_localize("UTC").tz_convert("Europe/Berlin").tz_localize(None)
    plant = PlantTable.read(TIMED.set_axis(local), tz="Europe/Berlin")
    assert plant.zone == "Europe/Berlin"
    assert str(plant.frame.index[0]) == "2026-03-01 01:00:00+01:00"


def test_the_decision_is_below_zero_where_a_unit_is_in_alarm():
    X, _ = make_granger_plant(2, n_samples=3000, container="frame", random_state=0)
    fitted = detector().fit(X.iloc[:2600])
    faulty = X.iloc[2600:].copy()
    faulty.iloc[200:, :3] += 5 * X.iloc[:, :3].std().to_numpy()
    decision = fitted.decision_function(faulty)
    assert decision.shape == (400,)
    np.testing.assert_array_equal(decision < 0, np.asarray(fitted.transform(faulty)).max(axis=1) > 1)
    assert (fitted.predict(faulty)[200:300] == -1).all()
    assert (decision[200:300] < 0).mean() > 0.9  # what lasts becomes the operating point


def test_predictions_keep_times_and_names_under_set_output():
    estimator = granger(TIMED).set_output(transform="pandas")
    for table, rows in ((estimator.predict(TIMED), TIMED), (estimator.forecast(TIMED, 590), TIMED[590:])):
        assert list(table) == list(TIMED)
        assert table.index.equals(rows.index)
